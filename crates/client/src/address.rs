//! Where a log or a witness is: the prefix below which all its paths lie.
//!
//! Holds the checks that keep a typing error from becoming a request to somebody else. Does not resolve names.

use crate::reach;
use reqwest::Url;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The address of a log or witness: `http` or `https`, a host, maybe a port and a path, nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(Url);

/// Why a text is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not an absolute URL.
    #[error("{text:?} is not an address ({reason}); write http://host:port or https://host/prefix")]
    NotAUrl {
        /// What was given.
        text: String,
        /// What the URL parser found.
        reason: String,
    },
    /// Another scheme.
    #[error("{0:?} is neither http nor https; write http://host:port or https://host/prefix")]
    Scheme(String),
    /// Parts that no server's address has.
    #[error("the address {0:?} holds a {1}; leave it out")]
    Surplus(String, &'static str),
}

impl BaseUrl {
    /// The IP address that stands in it in place of a name, if one does.
    pub fn ip_address(&self) -> Option<IpAddr> {
        reach::literal(&self.0)
    }

    /// The address `path` below this one. `path` is one of our own: made of segments that need no encoding.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let joined = format!("{}{path}", url.path());
        url.set_path(&joined);
        url
    }

    /// The same for segments that may hold any character: each is percent-encoded. `None` for a segment that URLs
    /// take for a step in the tree (`.` and `..`), however it is written.
    pub(crate) fn segments(&self, segments: &[&str]) -> Option<Url> {
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return None;
        }
        let mut url = self.0.clone();
        url.path_segments_mut().ok()?.pop_if_empty().extend(segments);
        Some(url)
    }

    /// The prefix that lies at `path` below this one.
    pub(crate) fn below(&self, path: &str) -> BaseUrl {
        BaseUrl(self.join(&format!("{path}/")))
    }
}

impl FromStr for BaseUrl {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text)
            .map_err(|error| AddressError::NotAUrl { text: text.to_owned(), reason: error.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme(text.to_owned()));
        }
        let surplus = [
            (!url.username().is_empty() || url.password().is_some(), "user name or password"),
            (url.query().is_some(), "query"),
            (url.fragment().is_some(), "fragment"),
        ];
        if let Some((_, what)) = surplus.into_iter().find(|(found, _)| *found) {
            return Err(AddressError::Surplus(text.to_owned(), what));
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Self(url))
    }
}

/// Without the slash at its end, as people write it.
impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn paths_are_joined_below_the_prefix_whether_or_not_it_ends_in_a_slash() {
        for text in ["http://log.example/a/b", "http://log.example/a/b/"] {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!(base.to_string(), "http://log.example/a/b");
            assert_eq!(base.join("tile/0/x001/067.p/3").as_str(), "http://log.example/a/b/tile/0/x001/067.p/3");
            assert_eq!(base.below("journal").join("checkpoint").as_str(), "http://log.example/a/b/journal/checkpoint");
        }
        let bare: BaseUrl = "http://127.0.0.1:8080".parse().unwrap();
        assert_eq!(bare.join("checkpoint").as_str(), "http://127.0.0.1:8080/checkpoint");
    }

    #[test]
    fn a_name_with_slashes_is_one_segment() {
        let base: BaseUrl = "http://log.example/p".parse().unwrap();
        let url = base.segments(&["v1", "issuers", "gate.example/support 1%é"]).unwrap();
        assert_eq!(url.as_str(), "http://log.example/p/v1/issuers/gate.example%2Fsupport%201%25%C3%A9");
        assert_eq!(base.segments(&["v1", "issuers", ".."]), None);
    }

    #[test]
    fn what_is_no_servers_address_is_refused_with_a_sentence() {
        for text in [
            "",
            "log.example",
            "ftp://log.example",
            "file:///etc/passwd",
            "http://u:p@log.example",
            "http://log.example/?a=b",
            "http://log.example/#x",
            "http://",
        ] {
            let error = text.parse::<BaseUrl>().unwrap_err().to_string();
            assert!(error.contains("write http://") || error.contains("leave it out"), "{text}: {error}");
        }
    }
}
