//! What an `http` task asks for, and which parts of it make no sense, before and after its templates are filled in.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};

/// Urls of a task.
pub const URLS_MAX: usize = 16;
/// Bytes of a url.
pub const URL_MAX: usize = 8 << 10;
/// Headers of a task.
pub const HEADERS_MAX: usize = 64;
/// Bytes of the name of a header.
pub const HEADER_NAME_MAX: usize = 256;
/// Bytes of the value of a header.
pub const HEADER_VALUE_MAX: usize = 8 << 10;
/// Bytes of a body.
pub const BODY_MAX: usize = 1 << 20;
/// Statuses and ranges of a success.
pub const STATUSES_MAX: usize = 32;
/// Bytes of a response that may be read.
pub const RESPONSES: RangeInclusive<u64> = 1..=64 << 20;

/// The methods there are.
pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Headers that are made by whoever makes the connection, or would change whom it speaks to.
const OWN_HEADERS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];
/// Headers that begin so are Baton's.
const RESERVED: &str = "baton-";

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Http {
    /// Its method; empty means POST with a body and GET without.
    pub method: String,
    /// Where to ask, in this order; templates.
    pub urls: Vec<String>,
    /// Its headers; values are templates.
    pub headers: BTreeMap<String, String>,
    /// Its body, a template.
    pub body: String,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// How long the service may be silent.
    pub read_timeout: Option<Duration>,
    /// How long one request may take.
    pub request_timeout: Option<Duration>,
    /// The statuses that are a success; empty means 200 to 299.
    pub success_when: Vec<String>,
    /// Which redirects are followed; `None` means those to the same host.
    pub redirects: Option<Redirects>,
    /// How many bytes of a response are read.
    pub max_response_bytes: Option<u64>,
    /// Whether a success only begins the wait for its callback.
    pub wait_for_callback: bool,
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redirects {
    /// None.
    None,
    /// Those to the same host and port, or from http to https on one host.
    SameHost,
    /// All.
    Any,
}

impl Redirects {
    /// Every policy, in the order of the protocol.
    pub const ALL: [Self; 3] = [Self::None, Self::SameHost, Self::Any];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SameHost => "same_host",
            Self::Any => "any",
        }
    }
}

/// One part of a request, by the path of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// One of the urls.
    Url(usize),
    /// The value of a header.
    Header(&'a str),
    /// The body.
    Body,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(at) => write!(f, "http.urls[{at}]"),
            Self::Header(name) => write!(f, "http.headers.{name}"),
            Self::Body => f.write_str("http.body"),
        }
    }
}

impl Http {
    /// Its texts that are templates, with their places.
    pub fn texts(&self) -> impl Iterator<Item = (Place<'_>, &String)> {
        let urls = self.urls.iter().enumerate().map(|(at, url)| (Place::Url(at), url));
        let headers = self.headers.iter().map(|(name, value)| (Place::Header(name), value));
        urls.chain(headers).chain([(Place::Body, &self.body)])
    }

    /// The same with every template filled in.
    pub fn filled(&self, mut fill: impl FnMut(&str, &str) -> Result<String, String>) -> Result<Self, String> {
        let mut http = self.clone();
        for (at, url) in http.urls.iter_mut().enumerate() {
            *url = fill(&Place::Url(at).to_string(), url)?;
        }
        for (name, value) in &mut http.headers {
            *value = fill(&Place::Header(name).to_string(), value)?;
        }
        http.body = fill(&Place::Body.to_string(), &http.body)?;
        Ok(http)
    }

    /// Refuses what no request can carry, once templates have become text.
    pub fn check_filled(&self) -> Result<(), String> {
        for (place, text) in self.texts() {
            check_text(place, text).map_err(|problem| format!("{place}: {problem}"))?;
        }
        Ok(())
    }
}

/// What is wrong with the text of a place that has nothing left to fill in.
pub fn check_text(place: Place<'_>, text: &str) -> Result<(), String> {
    let max = match place {
        Place::Url(_) => URL_MAX,
        Place::Header(_) => HEADER_VALUE_MAX,
        Place::Body => BODY_MAX,
    };
    if text.len() > max {
        return Err(format!("this has {} bytes; at most {max}", text.len()));
    }
    match place {
        Place::Url(_) => check_url(text),
        Place::Header(_) if text.chars().any(|c| c.is_control() && c != '\t') => {
            Err("the value of a header holds no line breaks and no other control characters".to_owned())
        }
        Place::Header(_) | Place::Body => Ok(()),
    }
}

/// The form of an address. Whether somebody is there is for the runner to find out.
fn check_url(text: &str) -> Result<(), String> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a url holds no blanks and no line breaks; {{ value | urlencode }} writes any value".to_owned());
    }
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let Some(rest) =
        ["http://", "https://"].iter().find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]))
    else {
        return Err(format!("{:?} is no url that begins with http:// or https://", shown(text)));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a url holds no user and password; send them in headers.Authorization".to_owned());
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(format!("{:?} names no host", shown(text)));
    }
    Ok(())
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(80)]
}

/// What is wrong with the name of a header.
pub fn check_header_name(name: &str) -> Result<(), String> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > HEADER_NAME_MAX || !name.chars().all(token) {
        return Err(format!("the name of a header is 1 to {HEADER_NAME_MAX} letters, digits and hyphens"));
    }
    if OWN_HEADERS.contains(&lower.as_str()) {
        return Err(format!("the header {name:?} is written by the runner"));
    }
    if lower.starts_with(RESERVED) {
        return Err("headers that begin with Baton- are set by Baton".to_owned());
    }
    Ok(())
}

/// The statuses that "404" or "200-299" stand for.
pub fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|status| digits && (200..=599).contains(status))
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (status(low), status(high)) {
        (Some(low), Some(high)) if low <= high => Ok(low..=high),
        (Some(_), Some(_)) => Err(format!("the range {text:?} ends before it begins")),
        _ => Err(format!("{text:?} is neither a status from 200 to 599 nor a range such as 200-299")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_or_a_range_is_taken_and_nothing_else() {
        assert_eq!(statuses("404"), Ok(404..=404));
        assert_eq!(statuses("200-299"), Ok(200..=299));
        for wrong in ["", "2xx", "20", "2000", "100", "600", "200-", "-200", "200 - 299", "200-99", "+20", "200,201"] {
            assert!(statuses(wrong).is_err(), "{wrong}");
        }
        assert!(statuses("299-200").expect_err("backwards").contains("ends before it begins"));
    }

    #[test]
    fn a_url_says_where_and_not_who() {
        for good in ["http://a", "HTTPS://a.b:1/c?d=e#f", "http://[::1]:80/", "http://a/x@y"] {
            assert_eq!(check_text(Place::Url(0), good), Ok(()), "{good}");
        }
        for (wrong, why) in [
            ("", "begins with http://"),
            ("a/b", "begins with http://"),
            ("ftp://a", "begins with http://"),
            ("http://", "names no host"),
            ("http:///x", "names no host"),
            ("http://:80", "names no host"),
            ("http://me:pw@a/", "headers.Authorization"),
            ("http://a/b c", "urlencode"),
            ("http://a/b\nc", "urlencode"),
        ] {
            let problem = check_text(Place::Url(0), wrong).expect_err(wrong);
            assert!(problem.contains(why), "{wrong:?}: {problem}");
        }
        assert!(check_text(Place::Url(0), &format!("http://a/{}", "x".repeat(URL_MAX))).is_err());
    }

    #[test]
    fn a_header_cannot_smuggle_another_one() {
        assert!(check_text(Place::Header("X"), "a\r\nHost: b").is_err());
        assert_eq!(check_text(Place::Header("X"), "Bearer ü\t1"), Ok(()));
        assert_eq!(check_header_name("X-Api_Key"), Ok(()));
        for wrong in ["", "a b", "a:b", "ü", "a\n", "Host", "content-length", "Baton-Job-Id"] {
            assert!(check_header_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_text_is_filled_and_a_fault_names_its_place() {
        let http = Http {
            urls: vec!["u0".into(), "u1".into()],
            headers: BTreeMap::from([("A".into(), "h".into())]),
            body: "b".into(),
            ..Http::default()
        };
        let filled = http.filled(|place, text| Ok(format!("{place}={text}"))).expect("it can be filled");
        assert_eq!(filled.urls, ["http.urls[0]=u0", "http.urls[1]=u1"]);
        assert_eq!(filled.headers["A"], "http.headers.A=h");
        assert_eq!(filled.body, "http.body=b");
        assert!(filled.check_filled().expect_err("no url").starts_with("http.urls[0]: "));
    }
}
