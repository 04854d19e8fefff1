//! Whether a redirect is followed, and what is asked then.

use reqwest::{Method, Url};

use crate::task::Redirects;

/// Redirects that are followed in a row.
pub(super) const HOPS_MAX: usize = 10;

/// Where a request goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) url: Url,
    pub(super) method: Method,
    /// Whether the body goes along.
    pub(super) with_body: bool,
    /// Whether it goes to somebody else, who is not to see the headers of the task.
    pub(super) elsewhere: bool,
}

/// Whether a status asks to go elsewhere.
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads; `Err` is why it is not followed.
pub(super) fn next(
    policy: Redirects,
    hops: usize,
    from: &Url,
    method: &Method,
    status: u16,
    location: Option<&str>,
) -> Result<Next, String> {
    let Some(location) = location else { return Err("names no place to go to".to_owned()) };
    if policy == Redirects::None {
        return Err(format!("sends to {location}, and `redirects: none` follows nowhere"));
    }
    let url = from.join(location).map_err(|error| format!("sends to {location:?}, which is no url: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("sends to {url}, which is no place to ask by HTTP"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("sends to a url with a user or a password".to_owned());
    }
    let same = is_same(from, &url);
    if !same && policy == Redirects::SameHost {
        return Err(format!("sends to {}, another host; `redirects: any` would follow", origin(&url)));
    }
    if hops >= HOPS_MAX {
        return Err(format!("has sent on {HOPS_MAX} times"));
    }
    // As every browser does it: only 307 and 308 keep a POST what it is.
    let becomes_get = match status {
        303 => *method != Method::HEAD,
        301 | 302 => *method == Method::POST,
        _ => false,
    };
    let method = if becomes_get { Method::GET } else { method.clone() };
    Ok(Next { url, method, with_body: !becomes_get, elsewhere: !same })
}

/// One host and port, or the same host by TLS. The way back from TLS is another place: what was sealed would be open.
fn is_same(from: &Url, to: &Url) -> bool {
    let upgraded = from.scheme() == "http" && to.scheme() == "https" && from.port().is_none() && to.port().is_none();
    let equal = from.scheme() == to.scheme() && from.port_or_known_default() == to.port_or_known_default();
    from.host() == to.host() && (upgraded || equal)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(policy: Redirects, method: &str, status: u16, location: &str) -> Result<Next, String> {
        let from = Url::parse("http://a.example/x/y?z").unwrap();
        next(policy, 0, &from, &method.parse().unwrap(), status, Some(location))
    }

    #[test]
    fn by_itself_a_redirect_stays_at_its_host() {
        for (location, url) in [
            ("/b", "http://a.example/b"),
            ("b?c", "http://a.example/x/b?c"),
            ("http://A.example:80/", "http://a.example/"),
            ("https://a.example/", "https://a.example/"),
        ] {
            let next = go(Redirects::SameHost, "GET", 302, location).unwrap();
            assert_eq!((next.url.as_str(), next.elsewhere), (url, false));
        }
        for location in ["http://b.example/", "http://a.example:81/", "//b.example", "http://a.example.b.example/"] {
            let why = go(Redirects::SameHost, "GET", 302, location).unwrap_err();
            assert!(why.contains("another host") && why.contains("redirects: any"), "{why}");
            assert!(go(Redirects::Any, "GET", 302, location).unwrap().elsewhere);
        }
        let from = Url::parse("https://a.example/").unwrap();
        let open = next(Redirects::SameHost, 0, &from, &Method::GET, 302, Some("http://a.example/"));
        assert!(open.unwrap_err().contains("another host"));
    }

    #[test]
    fn some_redirects_are_never_followed() {
        assert!(go(Redirects::None, "GET", 302, "/b").unwrap_err().contains("redirects: none"));
        for location in ["file:///etc/passwd", "ftp://a.example/", "http://me:pw@a.example/", "http://"] {
            assert!(go(Redirects::Any, "GET", 302, location).is_err(), "{location}");
        }
        let from = Url::parse("http://a.example/").unwrap();
        assert!(next(Redirects::Any, HOPS_MAX, &from, &Method::GET, 302, Some("/")).unwrap_err().contains("10 times"));
        assert!(next(Redirects::Any, 0, &from, &Method::GET, 302, None).is_err());
    }

    #[test]
    fn a_post_stays_one_only_where_the_status_says_so() {
        for (method, status, becomes, with_body) in [
            ("POST", 301, "GET", false),
            ("POST", 302, "GET", false),
            ("POST", 303, "GET", false),
            ("POST", 307, "POST", true),
            ("POST", 308, "POST", true),
            ("PUT", 302, "PUT", true),
            ("PUT", 303, "GET", false),
            ("HEAD", 303, "HEAD", true),
            ("GET", 301, "GET", true),
        ] {
            let next = go(Redirects::SameHost, method, status, "/b").unwrap();
            assert_eq!((next.method.as_str(), next.with_body), (becomes, with_body), "{method} {status}");
        }
    }
}
