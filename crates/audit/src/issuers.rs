//! The auditor's issuers file: whose receipts the auditor expects, under which keys.
//!
//! ```text
//! # comment
//! gate.example/support-1+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW
//! gate.example/support-2+af0cfe78+AY1b… heartbeat=60s from=2026-01-01T00:00:00Z until=2027-01-01T00:00:00Z
//! ```
//!
//! One vkey a line, of type 0x01, each name once; options after it, each at most once, separated by single spaces:
//! `heartbeat` (the longest silence the auditor accepts, `ms`, `s`, `m`, `h` or `d`), `from` and `until` (the
//! issuer's receipts must be issued at or after `from` and before `until`, RFC 3339 in UTC). Blank lines and lines
//! that start with `#` are skipped. A file without options is also what a log takes.
//!
//! Holds the parse. Does not hold what is done with it ([`crate::audit`]).

use crate::time::{parse_duration, parse_time};
use note::{KeyKind, VerifierKey};
use receipt::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Most issuers in one file. Each gets a check of its own in the verdict.
pub const MAX_ISSUERS: usize = 100_000;

/// An issuer that the auditor cares about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedIssuer {
    /// The key it was registered with; `rotate` receipts lead on from it.
    #[serde(with = "vkey_form")]
    pub vkey: VerifierKey,
    /// The longest silence the auditor accepts, in milliseconds.
    pub heartbeat_ms: Option<u64>,
    /// Receipts issued before this are none of its.
    pub from: Option<UnixMillis>,
    /// Receipts issued at or after this are none of its.
    pub until: Option<UnixMillis>,
}

/// A key as its vkey.
mod vkey_form {
    use super::VerifierKey;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(vkey: &VerifierKey, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(vkey)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VerifierKey, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A line that cannot be used. The auditor is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("issuers file, line {line}: {kind}")]
pub struct IssuersError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: IssuersErrorKind,
}

/// What can be wrong with a line of the issuers file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuersErrorKind {
    /// The first word is no vkey.
    #[error("{0}")]
    Key(String),
    /// A vkey of another type.
    #[error("the key is not of type 0x01; use the issuer's vkey, not a witness's")]
    KeyKind,
    /// The name has a line already.
    #[error("this issuer stands in the file twice; keep one line")]
    Duplicate,
    /// Not one of the options, or twice, or a value it cannot have.
    #[error(
        "write options as heartbeat=60s, from=2026-01-01T00:00:00Z, until=2027-01-01T00:00:00Z, each at most once, one space between"
    )]
    Option,
    /// `until` is not after `from`.
    #[error("until must be later than from")]
    Period,
    /// More than [`MAX_ISSUERS`].
    #[error("more than {MAX_ISSUERS} issuers; split the audit")]
    TooMany,
}

/// Reads an issuers file.
///
/// # Errors
/// [`IssuersError`]: the first line that cannot be used.
pub fn parse_issuers(text: &str) -> Result<Vec<AuditedIssuer>, IssuersError> {
    let mut issuers = Vec::new();
    let mut names = HashSet::new();
    for (place, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refused = |kind| IssuersError { line: place + 1, kind };
        let issuer = parse_line(line).map_err(refused)?;
        if !names.insert(issuer.vkey.name().clone()) {
            return Err(refused(IssuersErrorKind::Duplicate));
        }
        if issuers.len() == MAX_ISSUERS {
            return Err(refused(IssuersErrorKind::TooMany));
        }
        issuers.push(issuer);
    }
    Ok(issuers)
}

fn parse_line(line: &str) -> Result<AuditedIssuer, IssuersErrorKind> {
    let mut words = line.split(' ');
    let vkey: VerifierKey = words
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|error: note::KeyError| IssuersErrorKind::Key(error.to_string()))?;
    if vkey.kind() != KeyKind::Ed25519 {
        return Err(IssuersErrorKind::KeyKind);
    }
    let mut issuer = AuditedIssuer { vkey, heartbeat_ms: None, from: None, until: None };
    for word in words {
        let (name, value) = word.split_once('=').ok_or(IssuersErrorKind::Option)?;
        let fresh = match name {
            "heartbeat" => set(&mut issuer.heartbeat_ms, parse_duration(value).filter(|millis| *millis > 0)),
            "from" => set(&mut issuer.from, parse_time(value)),
            "until" => set(&mut issuer.until, parse_time(value)),
            _ => None,
        };
        fresh.ok_or(IssuersErrorKind::Option)?;
    }
    match (issuer.from, issuer.until) {
        (Some(from), Some(until)) if until <= from => Err(IssuersErrorKind::Period),
        _ => Ok(issuer),
    }
}

/// Sets an option once. `None` when it was set, or when there is no value to set.
fn set<T>(option: &mut Option<T>, value: Option<T>) -> Option<()> {
    match option.is_none() {
        true => value.map(|value| *option = Some(value)),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyName, SigningKey};

    fn vkey(name: &str, kind: KeyKind) -> String {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [7; 32]).verifier().to_string()
    }

    fn kind_of(text: &str) -> IssuersErrorKind {
        parse_issuers(text).unwrap_err().kind
    }

    #[test]
    fn options_comments_and_blank_lines_are_read() {
        let (a, b) = (vkey("a", KeyKind::Ed25519), vkey("b", KeyKind::Ed25519));
        let text = format!("# ours\n\n{a}\n{b} heartbeat=60s until=2027-01-01T00:00:00Z from=2026-01-01T00:00:00Z\n");
        let issuers = parse_issuers(&text).unwrap();
        assert_eq!(issuers[0], AuditedIssuer { vkey: a.parse().unwrap(), heartbeat_ms: None, from: None, until: None });
        assert_eq!(issuers[1].heartbeat_ms, Some(60_000));
        assert_eq!(issuers[1].from, Some(UnixMillis(1_767_225_600_000)));
        assert_eq!(issuers[1].until, Some(UnixMillis(1_798_761_600_000)));
        assert_eq!(parse_issuers("").unwrap(), Vec::new());
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        let a = vkey("a", KeyKind::Ed25519);
        let error = parse_issuers(&format!("{a}\n\n{a}\n")).unwrap_err();
        assert_eq!(error, IssuersError { line: 3, kind: IssuersErrorKind::Duplicate });
        for options in [
            "heartbeat=60",
            "heartbeat=0s",
            "heartbeat=1s heartbeat=1s",
            "colour=red",
            "heartbeat",
            "",
            " from=2026-01-01T00:00:00Z",
            "from=2026-01-01",
        ] {
            assert_eq!(kind_of(&format!("{a} {options}")), IssuersErrorKind::Option, "{options:?}");
        }
        assert_eq!(
            kind_of(&format!("{a} from=2026-01-01T00:00:00Z until=2026-01-01T00:00:00Z")),
            IssuersErrorKind::Period
        );
        assert!(matches!(kind_of("gate"), IssuersErrorKind::Key(_)));
        assert_eq!(kind_of(&vkey("w", KeyKind::CosignatureV1)), IssuersErrorKind::KeyKind);
    }
}
