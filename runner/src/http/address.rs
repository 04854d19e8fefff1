//! Which addresses a request may go to.
//!
//! What a definition names could lead into the network around the runner: to the metadata of a cloud, to a database that
//! trusts its neighbours. So only what is reachable for everybody is allowed by itself; everything else the operator of the
//! runner allows by name of its network. The question is put for the very address that is connected to, so that neither a
//! name that changes its mind between two looks nor a redirect gets round it.

use std::{
    error::Error,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network, written as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let wrong = || format!("`{text}` is no network; write it like 10.0.0.0/8, 127.0.0.1 or fd00::/8");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| wrong())?,
            Some(_) => return Err(wrong()),
            None => width,
        };
        if prefix > width {
            return Err(wrong());
        }
        let network = Self { address, prefix };
        if network.low() != bits(address) {
            return Err(format!("`{text}` has bits set beyond its /{prefix}; name the first address of the network"));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    fn low(&self) -> u128 {
        bits(self.address) & self.mask()
    }

    /// Addresses of either version in the 128 bits of the longer one.
    fn mask(&self) -> u128 {
        let prefix = if self.address.is_ipv4() { u32::from(self.prefix) + 96 } else { u32::from(self.prefix) };
        u128::MAX.checked_shl(128 - prefix).unwrap_or(0)
    }

    fn holds(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && bits(address) & self.mask() == self.low()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The networks that a runner's operator allows beside those that are open to everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allowed(pub(crate) Vec<Network>);

impl Allowed {
    /// Lets an address pass, or tells why not.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Refused> {
        let means = meaning(address);
        match kind(means) {
            None => Ok(()),
            Some(_) if self.0.iter().any(|network| network.holds(means) || network.holds(address)) => Ok(()),
            Some(kind) => Err(Refused { address, kind }),
        }
    }
}

/// An address that nobody allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    address: IpAddr,
    kind: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, kind } = self;
        write!(f, "{address} is {kind}; this runner asks it only when started with --http-allow {address}")
    }
}

impl Error for Refused {}

/// What an address leads to: an IPv4 address in the dress of an IPv6 one is what it wears.
fn meaning(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let bits = u128::from(v6);
    let embedded = |shift: u32| IpAddr::V4(Ipv4Addr::from((bits >> shift) as u32));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..] => embedded(0),
        // Compatible addresses, given up long ago and still understood; `::` and `::1` are none.
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => embedded(0),
        // NAT64, and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(0),
        [0x2002, ..] => embedded(80),
        _ => address,
    }
}

/// What is special about an address; nothing about one that is reachable for everybody.
fn kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "an address of this host",
        [127, ..] => "a loopback address",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [100, 64..=127, ..] => "an address behind a carrier's NAT",
        [169, 254, 169, 254] => "where clouds keep their metadata",
        [169, 254, ..] => "a link-local address",
        [192, 0, 0, ..] | [192, 88, 99, ..] | [198, 18..=19, ..] => "an address set apart",
        [192, 0, 2, ..] | [198, 51, 100, ..] | [203, 0, 113, ..] => "an address for documentation",
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("an address of this host");
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    Some(match address.segments() {
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xff00..=0xffff, ..] => "a multicast address",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "an address for documentation",
        // Teredo and its neighbours.
        [0x2001, 0..=0x1ff, ..] => "an address set apart",
        [0x2000..=0x3fff, ..] => return None,
        // Of all the rest nothing is given out to be reachable.
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], address: &str) -> Result<(), String> {
        let allowed = Allowed(allowed.iter().map(|network| network.parse().unwrap()).collect());
        allowed.check(address.parse().unwrap()).map_err(|refused| refused.to_string())
    }

    #[test]
    fn what_everybody_can_reach_is_allowed() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "169.253.1.1",
            "192.167.1.1",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(check(&[], address), Ok(()), "{address}");
        }
    }

    #[test]
    fn nothing_that_is_near_is_asked_by_itself() {
        for (address, kind) in [
            ("0.0.0.0", "this host"),
            ("0.1.2.3", "this host"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("10.0.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("100.64.0.1", "NAT"),
            ("100.127.255.255", "NAT"),
            ("169.254.169.254", "metadata"),
            ("169.254.0.1", "link-local"),
            ("192.0.0.8", "set apart"),
            ("192.0.2.1", "documentation"),
            ("198.19.255.255", "set apart"),
            ("224.0.0.1", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "this host"),
            ("::1", "loopback"),
            ("::127.0.0.1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:a9fe:a9fe", "metadata"),
            ("64:ff9b::10.0.0.1", "private"),
            ("2002:7f00:1::", "loopback"),
            ("fc00::1", "private"),
            ("fd12::1", "private"),
            ("fe80::1", "link-local"),
            ("ff02::1", "multicast"),
            ("2001::1", "set apart"),
            ("2001:db8::1", "documentation"),
            ("100::1", "reserved"),
            ("64:ff9b:1::1", "reserved"),
            ("4000::1", "reserved"),
        ] {
            let refused = check(&[], address).expect_err(address);
            assert!(refused.contains(kind), "{refused}");
            assert!(refused.contains("--http-allow"), "{refused}");
        }
    }

    #[test]
    fn a_network_that_is_allowed_is_allowed_in_every_dress_and_nothing_beside_it() {
        for address in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "::127.0.0.1"] {
            assert_eq!(check(&["127.0.0.0/8"], address), Ok(()), "{address}");
        }
        assert!(check(&["127.0.0.0/8"], "::1").is_err());
        assert!(check(&["127.0.0.0/8"], "10.0.0.1").is_err());
        assert!(check(&["10.1.0.0/16"], "10.2.0.1").is_err());
        assert_eq!(check(&["10.1.0.0/16", "::1"], "::1"), Ok(()));
        assert_eq!(check(&["fd00::/8"], "fdff::1"), Ok(()));
        assert_eq!(check(&["0.0.0.0/0"], "169.254.169.254"), Ok(()));
        assert!(check(&["0.0.0.0/0"], "::1").is_err());
        assert_eq!(check(&["::/0"], "fe80::1"), Ok(()));
    }

    #[test]
    fn a_network_is_written_in_one_way() {
        for text in ["127.0.0.0/8", "10.1.2.3/32", "fd00::/8", "::1/128", "0.0.0.0/0", "::/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
        for wrong in ["", "local", "10", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.1/8", "fd00::1/8"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
