//! Keys of other systems that the auditor pinned: the only keys under which a carried receipt is ever believed.
//!
//! ```toml
//! [[foreign_key]]
//! format = "acta"                  # or "obsigna", "pipelock"
//! kid = "key-1"                    # acta: its kid; obsigna: its verificationMethod; pipelock has none
//! issuer = "aps:gateway:test"      # optional: these, and no others, are that issuer's keys
//! key = "TLWr9q15+/WrvMr8wmnYXNJlHtS4hbWGnyQa7fCluik="
//!
//! [[foreign_jwks]]
//! format = "acta"
//! issuer = "aps:gateway:test"      # optional, as above
//! jwks = '{"keys":[…]}'            # or jwks_file = "keys.json", beside the rule file
//! ```
//!
//! A key is 32 bytes of Ed25519 in hex, in base64 (either alphabet), or as a PEM public key. Keys of small order and
//! other spellings of one point are refused.
//!
//! Holds the parse and the look-up. Has no files: whoever can read them hands over a reader.

use note::{KeyKind, KeyName, VerifierKey};
use receipt::ijson;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Most pinned keys: each is looked through for every carried receipt.
pub const MAX_FOREIGN_KEYS: usize = 1024;

/// The formats whose receipts are signed.
const SIGNED_FORMATS: [&str; 3] = [super::acta::FORMAT, super::obsigna::FORMAT, super::pipelock::FORMAT];

/// What stands before the 32 bytes in a public key file (RFC 8410, section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// One `[[foreign_key]]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyTable {
    format: String,
    kid: Option<String>,
    issuer: Option<String>,
    key: String,
}

/// One `[[foreign_jwks]]` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JwksTable {
    format: String,
    issuer: Option<String>,
    jwks: Option<String>,
    jwks_file: Option<String>,
}

/// One pinned key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    format: &'static str,
    kid: Option<String>,
    issuer: Option<String>,
    key: VerifierKey,
}

/// All keys of other systems that the auditor pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedKeys(Vec<Pin>);

/// Under which keys a carried receipt may be believed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust<'pins> {
    /// Any of these.
    Under(Vec<&'pins VerifierKey>),
    /// The auditor pinned keys of this issuer, and the one that the receipt names is none of them.
    OtherKey,
    /// Nothing is pinned for it.
    Unpinned,
}

/// Reads a file that the rule file names, or says why it cannot be read.
pub type ReadNamed<'shell> = &'shell mut dyn FnMut(&str) -> Result<String, String>;

impl PinnedKeys {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a key; the error completes "foreign_key n: …".
    pub(crate) fn add_key(&mut self, table: KeyTable) -> Result<(), String> {
        let format = signed_format(&table.format)?;
        let bytes = decode_key(&table.key)
            .ok_or("write key as 64 hex digits, as base64 of 32 bytes, or as a PEM public key of Ed25519")?;
        if table.kid.as_deref() == Some("") || table.issuer.as_deref() == Some("") {
            return Err(String::from("leave kid or issuer out instead of writing it empty"));
        }
        let kid = match format {
            super::pipelock::FORMAT if table.kid.is_some() || table.issuer.is_some() => {
                return Err(String::from("pipelock receipts name their key and nobody else; leave kid and issuer out"));
            }
            super::pipelock::FORMAT => Some(hex::encode(bytes)),
            _ if table.kid.is_none() && table.issuer.is_none() => {
                return Err(String::from("say whose key it is: kid, issuer, or both"));
            }
            _ => table.kid,
        };
        self.add(Pin { format, kid, issuer: table.issuer, key: strict_key(&bytes)? })
    }

    /// Adds the Ed25519 keys of a JWKS (RFC 7517, RFC 8037); the error completes "foreign_jwks n: …".
    pub(crate) fn add_jwks(&mut self, table: JwksTable, read: ReadNamed<'_>) -> Result<(), String> {
        let format = signed_format(&table.format)?;
        if format == super::pipelock::FORMAT {
            return Err(String::from("pipelock has no JWKS; write each key as [[foreign_key]]"));
        }
        let text = match (table.jwks, table.jwks_file) {
            (Some(text), None) => text,
            (None, Some(name)) => read(&name)?,
            _ => return Err(String::from("write either jwks or jwks_file")),
        };
        let set = ijson::parse_object(&text).map_err(|error| format!("the JWKS cannot be read: {error}"))?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or("the JWKS has no array keys")?;
        let before = self.0.len();
        for key in keys {
            if let Some((kid, bytes)) = ed25519_of(key)? {
                let key = strict_key(&bytes)?;
                self.add(Pin { format, kid: Some(kid), issuer: table.issuer.clone(), key })?;
            }
        }
        if self.0.len() == before { Err(String::from("the JWKS has no Ed25519 key that signs")) } else { Ok(()) }
    }

    fn add(&mut self, pin: Pin) -> Result<(), String> {
        if self.0.len() == MAX_FOREIGN_KEYS {
            return Err(format!("more than {MAX_FOREIGN_KEYS} keys are pinned"));
        }
        if self.0.contains(&pin) {
            return Err(String::from("this key stands there already"));
        }
        self.0.push(pin);
        Ok(())
    }

    /// The keys for a receipt of `format` that names this issuer and key. Keys pinned for an issuer are all that it has.
    pub(super) fn of(&self, format: &str, issuer: &str, kid: &str) -> Trust<'_> {
        let of_issuer = |pin: &&Pin| pin.format == format && pin.issuer.as_deref() == Some(issuer);
        let is_pinned = self.0.iter().any(|pin| of_issuer(&pin));
        let of_anybody = |pin: &&Pin| pin.format == format && pin.issuer.is_none();
        let keys: Vec<&VerifierKey> = self
            .0
            .iter()
            .filter(|pin| if is_pinned { of_issuer(pin) } else { of_anybody(pin) })
            .filter(|pin| pin.kid.as_deref().is_none_or(|own| own == kid))
            .map(|pin| &pin.key)
            .collect();
        match (keys.is_empty(), is_pinned) {
            (false, _) => Trust::Under(keys),
            (true, true) => Trust::OtherKey,
            (true, false) => Trust::Unpinned,
        }
    }
}

fn signed_format(format: &str) -> Result<&'static str, String> {
    SIGNED_FORMATS
        .into_iter()
        .find(|known| *known == format)
        .ok_or_else(|| format!("write format as one of: {}", SIGNED_FORMATS.join(", ")))
}

fn strict_key(bytes: &[u8; 32]) -> Result<VerifierKey, String> {
    // The name says nothing here: a pin has its issuer and kid beside it.
    let name = KeyName::new("pinned").map_err(|error| error.to_string())?;
    VerifierKey::new(name, KeyKind::Ed25519, bytes).map_err(|error| error.to_string())
}

/// A key in one of its spellings.
fn decode_key(text: &str) -> Option<[u8; 32]> {
    let text: String = text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    if text.len() == 64 {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).ok()?;
        return Some(bytes);
    }
    let bytes = merkle::decode_base64(&text).or_else(|| decode_base64url(&text))?;
    bytes.strip_prefix(&SPKI_PREFIX).unwrap_or(&bytes).try_into().ok()
}

/// Base64 in the URL alphabet, without padding, canonical (RFC 4648, section 5).
pub(super) fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    if text.contains(['+', '/', '=']) {
        return None;
    }
    let padding = ["", "===", "==", "="][text.len() % 4];
    merkle::decode_base64(&(text.replace('-', "+").replace('_', "/") + padding))
}

/// Kid and bytes of a JWK, if it is an Ed25519 key that signs.
fn ed25519_of(key: &Value) -> Result<Option<(String, [u8; 32])>, String> {
    let members = key.as_object().ok_or("a key of the JWKS is no object")?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if members.contains_key("d") {
        return Err(String::from("the JWKS holds a private key; keep that to yourself and give the public ones"));
    }
    if text("kty") != Some("OKP") || text("crv") != Some("Ed25519") || !signs(members) {
        return Ok(None);
    }
    let kid = text("kid").filter(|kid| !kid.is_empty()).ok_or("a key of the JWKS has no kid")?;
    let bytes = text("x").and_then(decode_base64url).and_then(|bytes| bytes.try_into().ok());
    Ok(Some((kid.to_owned(), bytes.ok_or("x of a key of the JWKS is not base64url of 32 bytes")?)))
}

fn signs(members: &Map<String, Value>) -> bool {
    let is_among = |name: &str, words: &[&str]| {
        members.get(name).is_none_or(|value| value.as_str().is_some_and(|word| words.contains(&word)))
    };
    is_among("use", &["sig"]) && is_among("alg", &["EdDSA", "Ed25519"])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn pinned(toml: &str) -> Result<PinnedKeys, String> {
        let mut keys = PinnedKeys::default();
        keys.add_key(toml::from_str(toml).map_err(|error: toml::de::Error| error.to_string())?)?;
        Ok(keys)
    }

    fn own(seed: u8) -> VerifierKey {
        note::SigningKey::from_seed(KeyName::new("pinned").unwrap(), KeyKind::Ed25519, [seed; 32]).verifier()
    }

    fn jwks(text: &str) -> Result<PinnedKeys, String> {
        let table = JwksTable { format: "acta".into(), issuer: None, jwks: Some(text.into()), jwks_file: None };
        let mut keys = PinnedKeys::default();
        keys.add_jwks(table, &mut |_| Err(String::from("no files"))).map(|()| keys)
    }

    #[test]
    fn a_key_is_read_in_each_of_its_spellings_and_is_one_key() {
        let bytes = own(1).public_key_bytes().to_vec();
        let base64 = merkle::encode_base64(&bytes);
        let der = merkle::encode_base64(&[&SPKI_PREFIX[..], &bytes].concat());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
        let url = base64.replace('+', "-").replace('/', "_").replace('=', "");
        for key in [hex::encode(&bytes), base64.clone(), url, der, pem] {
            let keys = pinned(&format!("format = \"acta\"\nkid = \"k\"\nkey = '''{key}'''")).unwrap();
            assert_eq!(keys.of("acta", "anybody", "k"), Trust::Under(vec![&own(1)]), "{key}");
        }
        assert!(pinned(&format!("format = \"acta\"\nkid = \"k\"\nkey = \"{}\"", &base64[..40])).is_err());
    }

    #[test]
    fn keys_of_small_order_and_other_spellings_of_a_point_are_not_pinned() {
        // RFC 8032's identity, a point of order 8, and the identity beyond the field's prime.
        let orders = [
            "0100000000000000000000000000000000000000000000000000000000000000",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ];
        for key in orders {
            for format in ["acta", "obsigna"] {
                assert!(pinned(&format!("format = \"{format}\"\nkid = \"k\"\nkey = \"{key}\"")).is_err(), "{key}");
            }
            assert!(pinned(&format!("format = \"pipelock\"\nkey = \"{key}\"")).is_err(), "{key}");
        }
    }

    #[test]
    fn the_keys_of_a_pinned_issuer_are_all_that_it_has() {
        let key = hex::encode(own(1).public_key_bytes());
        let mut keys = pinned(&format!("format = \"acta\"\nkid = \"a\"\nissuer = \"A\"\nkey = \"{key}\"")).unwrap();
        let anybody = hex::encode(own(2).public_key_bytes());
        keys.add_key(toml::from_str(&format!("format = \"acta\"\nkid = \"b\"\nkey = \"{anybody}\"")).unwrap()).unwrap();
        assert_eq!(keys.of("acta", "A", "a"), Trust::Under(vec![&own(1)]));
        assert_eq!(keys.of("acta", "A", "b"), Trust::OtherKey);
        assert_eq!(keys.of("acta", "B", "b"), Trust::Under(vec![&own(2)]));
        assert_eq!(keys.of("acta", "B", "a"), Trust::Unpinned);
        assert_eq!(keys.of("obsigna", "A", "a"), Trust::Unpinned);
        assert_eq!(keys.of("obsigna", "B", "b"), Trust::Unpinned, "of one format, also where it is of no one issuer");
    }

    #[test]
    fn a_pin_that_says_nothing_or_too_much_is_refused() {
        let key = hex::encode(own(1).public_key_bytes());
        for toml in [
            format!("format = \"capbroker\"\nkid = \"k\"\nkey = \"{key}\""),
            format!("format = \"acta\"\nkey = \"{key}\""),
            format!("format = \"acta\"\nkid = \"\"\nkey = \"{key}\""),
            format!("format = \"pipelock\"\nkid = \"k\"\nkey = \"{key}\""),
            format!("format = \"acta\"\nkid = \"k\"\nkey = \"{key}\"\nalgorithm = \"none\""),
        ] {
            assert!(pinned(&toml).is_err(), "{toml}");
        }
        let mut twice = pinned(&format!("format = \"pipelock\"\nkey = \"{key}\"")).unwrap();
        assert!(twice.add_key(toml::from_str(&format!("format = \"pipelock\"\nkey = \"{key}\"")).unwrap()).is_err());
    }

    #[test]
    fn of_a_jwks_the_ed25519_keys_that_sign_are_taken() {
        let x = merkle::encode_base64(own(1).public_key_bytes()).replace('+', "-").replace('/', "_").replace('=', "");
        let key = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{x}","use":"sig","alg":"EdDSA"}}"#);
        let others = r#"{"kty":"RSA","kid":"r"},{"kty":"OKP","crv":"X25519","kid":"e"}"#;
        let keys = jwks(&format!(r#"{{"keys":[{others},{key}]}}"#)).unwrap();
        assert_eq!((keys.len(), keys.of("acta", "anybody", "k")), (1, Trust::Under(vec![&own(1)])));
        for bad in [
            format!(r#"{{"keys":[{others}]}}"#),
            format!(r#"{{"keys":[{}]}}"#, key.replace("\"use\"", "\"d\":\"AA\",\"use\"")),
            format!(r#"{{"keys":[{}]}}"#, key.replace("\"sig\"", "\"enc\"")),
            format!(r#"{{"keys":[{}]}}"#, key.replace("EdDSA", "none")),
            format!(r#"{{"keys":[{}]}}"#, key.replace("\"kid\":\"k\",", "")),
            format!(r#"{{"keys":[{}],"keys":[]}}"#, key),
        ] {
            assert!(jwks(&bad).is_err(), "{bad}");
        }
    }
}
