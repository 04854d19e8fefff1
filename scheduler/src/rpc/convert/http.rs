//! HTTP targets into messages and back.

use baton::v1;

use super::{Fields, duration, sorted, unsorted};
use crate::domain::definition::{Http, Redirects};

/// A request; what is not set stays so, and the runner has its defaults.
pub(in crate::rpc) fn target(http: &Http) -> v1::HttpTarget {
    v1::HttpTarget {
        method: http.method.clone(),
        urls: http.urls.clone(),
        headers: unsorted(&http.headers),
        body: http.body.clone(),
        connect_timeout: http.connect_timeout.map(duration),
        read_timeout: http.read_timeout.map(duration),
        request_timeout: http.request_timeout.map(duration),
        success_when: (!http.success_when.is_empty()).then(|| v1::SuccessWhen { status: http.success_when.clone() }),
        redirects: redirects(http.redirects).into(),
        max_response_bytes: http.max_response_bytes.unwrap_or_default(),
        wait_for_callback: http.wait_for_callback,
    }
}

fn redirects(policy: Option<Redirects>) -> v1::Redirects {
    match policy {
        None => v1::Redirects::Unspecified,
        Some(Redirects::None) => v1::Redirects::None,
        Some(Redirects::SameHost) => v1::Redirects::SameHost,
        Some(Redirects::Any) => v1::Redirects::Any,
    }
}

impl Fields {
    pub(super) fn http(&mut self, field: &str, http: v1::HttpTarget) -> Http {
        let inside = format!("{field}.http.redirects");
        let known = self.one_of(inside, http.redirects, &Redirects::ALL, redirects, "is no policy of redirects");
        Http {
            connect_timeout: self.duration(format!("{field}.http.connect_timeout"), http.connect_timeout),
            read_timeout: self.duration(format!("{field}.http.read_timeout"), http.read_timeout),
            request_timeout: self.duration(format!("{field}.http.request_timeout"), http.request_timeout),
            method: http.method,
            urls: http.urls,
            headers: sorted(http.headers),
            body: http.body,
            success_when: http.success_when.unwrap_or_default().status,
            redirects: known,
            max_response_bytes: Some(http.max_response_bytes).filter(|bytes| *bytes > 0),
            wait_for_callback: http.wait_for_callback,
        }
    }
}
