//! Versions of runners, compared as Semantic Versioning 2.0 says.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A version of a runner's software.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    numbers: [u64; 3],
    /// What stands behind the `-`; empty for a release.
    pre: Vec<String>,
}

impl FromStr for Version {
    type Err = String;

    /// Reads `1.2.3`, `1.2.3-rc.1`, `1.2.3+build` (what is behind the `+` counts for nothing), with one number or two as
    /// well: `1.2` means `1.2.0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no version; write it like 1.2.3 or 1.2.3-rc.1");
        let (text_alone, _) = text.split_once('+').unwrap_or((text, ""));
        let (numbers_alone, pre) = match text_alone.split_once('-') {
            Some((numbers, pre)) => (numbers, pre.split('.').map(str::to_owned).collect()),
            None => (text_alone, Vec::new()),
        };
        let mut numbers = [0; 3];
        let parts: Vec<&str> = numbers_alone.split('.').collect();
        if parts.len() > numbers.len() {
            return Err(wrong());
        }
        for (number, part) in numbers.iter_mut().zip(&parts) {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            *number = part.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        }
        let fits =
            |part: &String| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if pre.iter().all(fits) { Ok(Self { numbers, pre }) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(to, "{major}.{minor}.{patch}")?;
        if self.pre.is_empty() { Ok(()) } else { write!(to, "-{}", self.pre.join(".")) }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            // What leads to a release stands before it.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.pre.iter().zip(&other.pre);
                let differing = pairs.map(|(ours, theirs)| part(ours, theirs)).find(|order| order.is_ne());
                differing.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers by their value and before words, words by their letters.
fn part(ours: &str, theirs: &str) -> Ordering {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match (number(ours), number(theirs)) {
        (true, true) => {
            let plain = |text: &str| text.trim_start_matches('0').to_owned();
            let (ours, theirs) = (plain(ours), plain(theirs));
            ours.len().cmp(&theirs.len()).then_with(|| ours.cmp(&theirs))
        }
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => ours.cmp(theirs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_the_order_of_the_standard() {
        let ladder = [
            "0.9.10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.1",
            "1.2",
            "1.10.0",
            "2",
        ];
        for pair in ladder.windows(2) {
            let [lower, higher]: [Version; 2] = [pair[0].parse().unwrap(), pair[1].parse().unwrap()];
            assert!(lower < higher, "{lower} < {higher}");
        }
        assert_eq!("1.2+build.7".parse::<Version>(), "1.2.0".parse());
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "v1", "1.2.3.4", "1..2", "1.2.x", "1.0.0-", "1.0.0-a..b", "+1", "-1", "1.99999999999999999999"]
        {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }
}
