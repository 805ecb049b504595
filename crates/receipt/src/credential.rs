//! Credential-shaped values, which have no place in a log that is for ever (section 5.2).
//!
//! Found by what a value looks like (`shape`: API tokens, private keys, authorization headers) and by
//! what its member is called (`name`: `password`, `api_key`). Carried foreign receipts, JSON inside
//! strings and base64 of exact bytes are searched too. Nothing here ever repeats a value: a finding is a
//! place and a kind.
//!
//! A net for accidents, not a wall: whoever wants to put a secret into a log can encode it. So it errs
//! towards letting things through, and digests, base64 hashes, vkeys, uuids and ids always pass.

mod name;
mod shape;

use crate::ijson::{self, Json, Members};
use crate::path::MemberPath;
use name::NamedAs;
use serde_json::{Map, Value};
use std::fmt;

/// How often JSON may hide in a string of JSON before the search stops: arguments are often passed on as
/// text once, and a carried receipt may carry such a call.
const MAX_EMBEDDING: usize = 3;

/// A credential-shaped value: where, and of what kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialFound {
    /// The member that holds it; where a member's *name* is the credential, the object it stands in.
    pub path: MemberPath,
    /// What it looks like.
    pub kind: CredentialKind,
}

/// What a credential looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    /// A token with a provider's own prefix.
    ApiToken,
    /// A JSON web token.
    WebToken,
    /// A private key, in PEM, as a JWK, or in the note package's form.
    PrivateKey,
    /// A bearer or basic authorization header.
    AuthorizationHeader,
    /// A URL with a password in it.
    UrlPassword,
    /// A string in a member whose name says that it is secret.
    NamedSecret,
}

impl CredentialKind {
    /// The kind in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiToken => "an API token",
            Self::WebToken => "a JSON web token",
            Self::PrivateKey => "a private key",
            Self::AuthorizationHeader => "an authorization header",
            Self::UrlPassword => "a URL with a password",
            Self::NamedSecret => "a secret, by its member's name",
        }
    }
}

impl fmt::Display for CredentialFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind } = self;
        write!(formatter, "{path} looks like {}; remove it, commit to it or carry its digest", kind.as_str())
    }
}

/// Looks through the members of a body for the first credential-shaped value, in the order written.
pub fn find_credential(members: &Map<String, Value>) -> Option<CredentialFound> {
    find_credential_in(&members.into())
}

/// As [`find_credential`], for members where they lie.
pub fn find_credential_in(members: &Members<'_>) -> Option<CredentialFound> {
    in_object(members, NamedAs::Nothing, 0)
}

fn in_object(members: &Members<'_>, named: NamedAs, embedding: usize) -> Option<CredentialFound> {
    let text_of = |name: &str| members.get(name).and_then(Json::as_str);
    // {"name": "X-Api-Key", "value": …}: how lists of headers and variables are often written.
    let labelled = ["name", "key", "header"].into_iter().filter_map(text_of).map(name::named_as).max();
    let is_web_key = text_of("kty").is_some();
    members.iter().find_map(|(name, value)| {
        if let Some(kind) = shape::shape_of(name) {
            return Some(CredentialFound { path: MemberPath::root(), kind });
        }
        let found = if is_web_key && name::is_private_part_of_web_key(name) && value.as_str().is_some() {
            Some(CredentialFound { path: MemberPath::root(), kind: CredentialKind::PrivateKey })
        } else if name == "receipt_b64"
            && let Some(text) = exact_text(value)
        {
            in_string(&text, NamedAs::Nothing, embedding)
        } else if name == "value" {
            in_value(value, labelled.unwrap_or(NamedAs::Nothing).max(named), embedding)
        } else {
            in_value(value, name::named_as(name), embedding)
        };
        found.map(|found| CredentialFound { path: found.path.within_member(name), ..found })
    })
}

fn in_value(value: &Json<'_>, named: NamedAs, embedding: usize) -> Option<CredentialFound> {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => None,
        Json::String(text) => in_string(text, named, embedding),
        Json::Array(elements) => elements.iter().enumerate().find_map(|(index, element)| {
            let found = in_value(element, named, embedding)?;
            Some(CredentialFound { path: found.path.within_element(index), ..found })
        }),
        Json::Object(members) => in_object(members, named, embedding),
    }
}

fn in_string(text: &str, named: NamedAs, embedding: usize) -> Option<CredentialFound> {
    let here = |kind| CredentialFound { path: MemberPath::root(), kind };
    if let Some(kind) = shape::shape_of(text) {
        return Some(here(kind));
    }
    if name::is_secret(named, text) {
        return Some(here(CredentialKind::NamedSecret));
    }
    match embedded_json(text) {
        Some(value) if embedding < MAX_EMBEDDING => in_value(&value, named, embedding + 1),
        _ => None,
    }
}

/// The object or array that a string holds as text.
fn embedded_json(text: &str) -> Option<Json<'_>> {
    let opens = text.trim_start().starts_with(['{', '[']);
    if opens { ijson::parse_json(text).ok() } else { None }
}

/// What the exact bytes of a foreign receipt say, where they are text.
fn exact_text(value: &Json<'_>) -> Option<String> {
    String::from_utf8(merkle::decode_base64(value.as_str()?)?).ok()
}

#[cfg(test)]
mod tests;
