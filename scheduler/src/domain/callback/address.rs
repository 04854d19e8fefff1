//! Which addresses a scheduler dials for a webhook: what anybody may write into a job file must not reach what only the
//! scheduler's machine can reach.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A range of addresses, as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads a range; an address alone is a range of one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range of addresses; write it like 10.1.0.0/16 or ::1");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }

    /// Whether an address lies within.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, plain(address)) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.bits);
                u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Whether an address may be dialed; `Err` says what it is. What the operator allows is allowed, whatever it is.
pub fn may_dial(address: IpAddr, allowed: &[Network]) -> Result<(), &'static str> {
    if allowed.iter().any(|network| network.contains(address)) {
        return Ok(());
    }
    match plain(address) {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => of_v6(address),
    }
    .map_or(Ok(()), Err)
}

/// What carries an IPv4 address in it is that address.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let parts = v6.segments();
    let tail = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => tail(high, low),
        [0x2002, high, low, ..] => tail(high, low),
        _ => address,
    }
}

fn of_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Some("a loopback address"),
        (169, 254, _) => Some("a link-local address, where clouds keep their credentials"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("a private address"),
        (100, 64..=127, _) => Some("an address shared behind a provider"),
        (0, ..) => Some("no address of a host"),
        (192, 0, 0 | 2) | (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => Some("a reserved address"),
        (224..=239, ..) => Some("a multicast address"),
        (240..=255, ..) => Some("a reserved address"),
        _ => None,
    }
}

fn of_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("a loopback address"),
        [0, 0, 0, 0, 0, 0, ..] => Some("no address of a host"),
        [0xfc00..=0xfdff, ..] => Some("a private address"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address, where clouds keep their credentials"),
        [0xfec0..=0xfeff, ..] => Some("a private address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x64, 0xff9b, ..] | [0x2001, 0xdb8, ..] | [0x100, 0, 0, 0, ..] => Some("a reserved address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str, allowed: &[&str]) -> Option<&'static str> {
        let allowed: Vec<Network> = allowed.iter().map(|text| Network::parse(text).unwrap()).collect();
        may_dial(address.parse().unwrap(), &allowed).err()
    }

    #[test]
    fn what_only_the_machine_of_the_scheduler_reaches_is_not_dialed() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
        ] {
            assert!(refused(address, &[]).is_some(), "{address}");
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert_eq!(refused(address, &[]), None, "{address}");
        }
    }

    #[test]
    fn what_the_operator_allows_is_allowed_and_nothing_beside_it() {
        assert_eq!(refused("127.0.0.1", &["127.0.0.0/8"]), None);
        assert_eq!(refused("::ffff:10.1.2.3", &["10.1.0.0/16"]), None);
        assert!(refused("10.2.0.1", &["10.1.0.0/16"]).is_some());
        assert_eq!(refused("::1", &["::1"]), None);
        assert!(refused("::1", &["127.0.0.0/8"]).is_some());
        assert_eq!(refused("169.254.169.254", &["0.0.0.0/0"]), None);
        assert_eq!(refused("fd00::1", &["::/0"]), None);
    }

    #[test]
    fn a_range_that_is_none_is_told() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/x", "::/129", "localhost", "10.0.0/8"] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
        assert_eq!(Network::parse("10.1.0.0/16").unwrap().to_string(), "10.1.0.0/16");
    }
}
