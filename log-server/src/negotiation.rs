//! What a request's headers ask for: how long to wait (`Prefer`, RFC 7240) and in what form to answer (`Accept`).

use client::wire;
use http::{HeaderMap, header};

/// How sure a submitter wants to be before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// A durable signed head covers the entry.
    #[default]
    Integrated,
    /// And an offered head that covers it has its quorum.
    Cosigned,
}

/// How a proof is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As `tlog-proof` text.
    #[default]
    Text,
    /// As a JSON object that names index and id too.
    Json,
}

impl Wait {
    /// What `Prefer` says. A preference that is not ours is none of our business (RFC 7240, section 2), so
    /// anything else means the default.
    pub fn of(headers: &HeaderMap) -> Self {
        let preferences = headers
            .get_all(wire::PREFER)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        for preference in preferences {
            let preference =
                preference.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().replace('"', "");
            match preference.as_str() {
                wire::WAIT_COSIGNED => return Self::Cosigned,
                wire::WAIT_INTEGRATED => return Self::Integrated,
                _ => {}
            }
        }
        Self::default()
    }
}

impl Form {
    /// What `Accept` likes better; text where it likes both the same.
    pub fn of(headers: &HeaderMap) -> Self {
        let accept: Vec<&str> = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .collect();
        if weight(&accept, "application", "json") > weight(&accept, "text", "plain") { Self::Json } else { Self::Text }
    }
}

/// The weight, in thousandths, of the most specific range that matches (RFC 9110, section 12.5.1).
fn weight(accept: &[&str], main: &str, sub: &str) -> u16 {
    let mut best = (0, 0);
    for range in accept {
        let mut parts = range.split(';').map(str::trim);
        let Some((range_main, range_sub)) = parts.next().and_then(|range| range.split_once('/')) else { continue };
        let specificity = match (range_main, range_sub) {
            ("*", "*") => 1,
            (range_main, "*") if range_main.eq_ignore_ascii_case(main) => 2,
            (range_main, range_sub) if range_main.eq_ignore_ascii_case(main) && range_sub.eq_ignore_ascii_case(sub) => {
                3
            }
            _ => continue,
        };
        let quality = parts.find_map(|parameter| parameter.strip_prefix("q=")).map_or(1000, thousandths);
        if specificity > best.0 {
            best = (specificity, quality);
        }
    }
    best.1
}

fn thousandths(quality: &str) -> u16 {
    match quality.parse::<f32>() {
        Ok(quality) if (0.0..=1.0).contains(&quality) => (quality * 1000.0) as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn the_submitter_says_what_to_wait_for_and_by_default_it_is_integration() {
        assert_eq!(Wait::of(&HeaderMap::new()), Wait::Integrated);
        for (value, wait) in [
            ("wait=cosigned", Wait::Cosigned),
            ("Wait=\"cosigned\"", Wait::Cosigned),
            ("respond-async, wait=cosigned; x=y", Wait::Cosigned),
            ("wait=integrated", Wait::Integrated),
            ("wait=10", Wait::Integrated),
            ("handling=strict", Wait::Integrated),
        ] {
            assert_eq!(Wait::of(&headers("prefer", value)), wait, "{value}");
        }
    }

    #[test]
    fn a_proof_is_text_unless_json_is_liked_better() {
        assert_eq!(Form::of(&HeaderMap::new()), Form::Text);
        for (value, form) in [
            ("*/*", Form::Text),
            ("application/json", Form::Json),
            ("text/plain, application/json", Form::Text),
            ("text/plain;q=0.5, application/json", Form::Json),
            ("application/json;q=0.9, */*;q=0.1", Form::Json),
            ("text/*, application/json;q=0.2", Form::Text),
            ("application/*", Form::Json),
            ("application/json;q=0", Form::Text),
            ("nonsense", Form::Text),
        ] {
            assert_eq!(Form::of(&headers("accept", value)), form, "{value}");
        }
    }
}
