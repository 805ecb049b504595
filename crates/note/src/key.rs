//! Keys: vkeys, private keys in the note package's text form, strict Ed25519, and ML-DSA-44.
//!
//! ```text
//! vkey         <name>+<8 lowercase hex: key id>+<base64(type || public key)>
//! private key  PRIVATE+KEY+<name>+<8 lowercase hex: key id>+<base64(type || seed)>
//! key id       SHA-256(<name> || 0x0A || type || public key)[:4]
//! ```
//!
//! A seed has 32 bytes for every kind. Holds the only calls of Ed25519 in the project, beside [`crate::tables`], which
//! answers as these do and faster; those of ML-DSA are in `ml_dsa`. Does not hold which message a signature
//! covers: `signed` and `cosignature` know that. Reads no files and makes no randomness: a seed is an argument.

use crate::ml_dsa;
use crate::name::{KeyName, NameError};
use ed25519_dalek::Signer;
use sha2::{Digest, Sha256};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use zeroize::Zeroizing;

pub(crate) const PRIVATE_PREFIX: &str = "PRIVATE+KEY+";

/// The first four bytes of the hash of a key, as it stands before every signature: a hint which key to
/// try, never proof of anything (signed-note, Signatures).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 4]);

/// What a key signs, by signed-note's signature type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KeyKind {
    /// `0x01`: Ed25519 over the note text. Gates and logs.
    Ed25519,
    /// `0x04`: timestamped Ed25519 cosignature/v1 over a checkpoint. Witnesses.
    CosignatureV1,
    /// `0x06`: timestamped ML-DSA-44 cosignature over a tree or subtree. Witnesses, beside the kind above.
    MlDsa44,
}

/// A public key with its name and kind: whom to believe. Decoded once; a `VerifierKey` of an Ed25519 kind that exists
/// is a canonically encoded point of large order.
#[derive(Clone)]
pub struct VerifierKey {
    name: KeyName,
    id: KeyId,
    kind: KeyKind,
    public: Public,
}

#[derive(Clone)]
enum Public {
    Ed25519(ed25519_dalek::VerifyingKey),
    MlDsa44(ml_dsa::PublicKey),
}

/// A private key with its name and kind. Wiped from memory when dropped; neither printable nor clonable.
pub struct SigningKey {
    secret: Secret,
    verifier: VerifierKey,
}

enum Secret {
    Ed25519(ed25519_dalek::SigningKey),
    MlDsa44(ml_dsa::SecretKey),
}

/// Why a text is no key. The text itself is never repeated: it may be a private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not three parts joined by `+`, or not the `PRIVATE+KEY+` form.
    #[error(
        "not a key: a vkey reads name+8 hex digits+base64; copy the whole line that was printed when the key was made"
    )]
    Shape,
    /// A private key where a vkey is expected.
    #[error("this is a private key; give the vkey that was printed beside it, and keep this one to yourself")]
    PrivateKey,
    /// The name is none.
    #[error("the key's name is not allowed: {0}")]
    Name(#[from] NameError),
    /// The id is not 8 lowercase hex digits.
    #[error("the key's id is not 8 lowercase hex digits; copy the whole line")]
    Id,
    /// The part after the last separator is not canonical, padded, standard base64.
    #[error("the key's last part is not canonical base64; copy the whole line")]
    Base64,
    /// A signature type byte that is not implemented here.
    #[error(
        "keys of signature type {0:#04x} are not supported; use type 0x01 for gates and logs, 0x04 or 0x06 for witnesses"
    )]
    UnknownKind(u8),
    /// The key material has the wrong length.
    #[error("the key's last part has the wrong length; copy the whole line")]
    Length,
    /// The id is another key's: name, type or key were changed, or the line is damaged.
    #[error("the key's id does not belong to this name, type and key; the line was altered or damaged")]
    IdMismatch,
    /// The bytes encode no curve point, or encode one in a way that not every implementation accepts.
    #[error("the key is not a canonically encoded Ed25519 point; nobody can sign with it reliably, make a new key")]
    NotAPoint,
    /// The bytes are no ML-DSA-44 public key.
    #[error("the key is not an ML-DSA-44 public key; copy the whole line")]
    NotAKey,
    /// Signatures by it can be made without any secret: a point of small order, or an ML-DSA key whose `t1` is zero.
    #[error("the key is weak: anybody can sign with it; make a new key")]
    Weak,
}

impl KeyError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Shape => "key-shape",
            Self::PrivateKey => "private-key",
            Self::Name(error) => error.code(),
            Self::Id => "key-id",
            Self::Base64 => "key-base64",
            Self::UnknownKind(_) => "key-kind-unknown",
            Self::Length => "key-length",
            Self::IdMismatch => "key-id-mismatch",
            Self::NotAPoint => "not-a-point",
            Self::NotAKey => "not-a-key",
            Self::Weak => "weak-key",
        }
    }
}

impl KeyKind {
    /// The signature type byte.
    pub fn byte(self) -> u8 {
        match self {
            KeyKind::Ed25519 => 0x01,
            KeyKind::CosignatureV1 => 0x04,
            KeyKind::MlDsa44 => 0x06,
        }
    }

    /// The kind with this signature type byte, if it is implemented here.
    pub fn from_byte(byte: u8) -> Option<KeyKind> {
        match byte {
            0x01 => Some(KeyKind::Ed25519),
            0x04 => Some(KeyKind::CosignatureV1),
            0x06 => Some(KeyKind::MlDsa44),
            _ => None,
        }
    }

    /// Whether keys of this kind cosign, and sign nothing else.
    pub fn cosigns(self) -> bool {
        match self {
            KeyKind::Ed25519 => false,
            KeyKind::CosignatureV1 | KeyKind::MlDsa44 => true,
        }
    }
}

impl KeyId {
    /// The recommended id (signed-note, Signatures), which for cosignatures is mandatory.
    pub fn of(name: &KeyName, kind: KeyKind, public_key: &[u8]) -> KeyId {
        let mut hash = Sha256::new();
        hash.update(name.as_str().as_bytes());
        hash.update([b'\n', kind.byte()]);
        hash.update(public_key);
        let digest: [u8; 32] = hash.finalize().into();
        KeyId([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl VerifierKey {
    /// A key from its parts: 32 bytes of a point, or the 1312 of an ML-DSA-44 key. Refuses what is weak, and points that
    /// are not canonically encoded.
    pub fn new(name: KeyName, kind: KeyKind, public_key: &[u8]) -> Result<VerifierKey, KeyError> {
        let public = match kind {
            KeyKind::Ed25519 | KeyKind::CosignatureV1 => {
                Public::Ed25519(strict_point(public_key.try_into().map_err(|_| KeyError::Length)?)?)
            }
            KeyKind::MlDsa44 => Public::MlDsa44(ml_dsa::PublicKey::new(public_key)?),
        };
        let id = KeyId::of(&name, kind, public_key);
        Ok(VerifierKey { name, id, kind, public })
    }

    /// Whose key it is.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// The id that stands before this key's signatures.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What the key signs.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The public key's bytes: 32 of the point (RFC 8032), or 1312 (FIPS 204). Two keys with the same bytes are one
    /// key, whatever their names.
    pub fn public_key_bytes(&self) -> &[u8] {
        self.public.bytes()
    }

    /// The point of an Ed25519 key, for [`crate::tables`].
    pub(crate) fn ed25519(&self) -> Option<&ed25519_dalek::VerifyingKey> {
        match &self.public {
            Public::Ed25519(point) => Some(point),
            Public::MlDsa44(_) => None,
        }
    }

    /// Whether `signature` is this key's over exactly `message`. Ed25519 by strict verification: canonical
    /// encodings, no small-order points, cofactorless equation; ML-DSA-44 by FIPS 204 with an empty context. A
    /// signature of another length than the kind's (64 or 2420 bytes) is none. Says nothing about what the message is.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::Ed25519(point) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| point.verify_strict(message, &signature).is_ok()),
            Public::MlDsa44(key) => key.verify(message, signature),
        }
    }
}

impl Public {
    fn bytes(&self) -> &[u8] {
        match self {
            Public::Ed25519(point) => point.as_bytes(),
            Public::MlDsa44(key) => key.as_bytes(),
        }
    }
}

fn strict_point(bytes: &[u8; 32]) -> Result<ed25519_dalek::VerifyingKey, KeyError> {
    let point = ed25519_dalek::VerifyingKey::from_bytes(bytes).map_err(|_| KeyError::NotAPoint)?;
    // Decoding takes field elements beyond the prime and a negative zero; only what encodes back to the
    // same bytes is read alike by everybody.
    if point.to_edwards().compress().to_bytes() != *bytes {
        return Err(KeyError::NotAPoint);
    }
    if point.is_weak() { Err(KeyError::Weak) } else { Ok(point) }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<VerifierKey, KeyError> {
        if text.starts_with(PRIVATE_PREFIX) {
            return Err(KeyError::PrivateKey);
        }
        let parts = KeyText::split(text)?;
        let key = VerifierKey::new(parts.name, parts.kind, &parts.material)?;
        if key.id != parts.id {
            return Err(KeyError::IdMismatch);
        }
        Ok(key)
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&key_text(&self.name, self.id, self.kind, self.public_key_bytes()))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

impl PartialEq for VerifierKey {
    fn eq(&self, other: &VerifierKey) -> bool {
        self.kind == other.kind && self.name == other.name && self.public_key_bytes() == other.public_key_bytes()
    }
}

impl Eq for VerifierKey {}

impl Hash for VerifierKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.name.hash(state);
        self.public_key_bytes().hash(state);
    }
}

impl serde::Serialize for VerifierKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for VerifierKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<VerifierKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl SigningKey {
    /// The key that 32 bytes of seed (RFC 8032's private key, FIPS 204's ξ) make. The seed must come from the operating
    /// system's randomness, or be a test's.
    pub fn from_seed(name: KeyName, kind: KeyKind, seed: [u8; 32]) -> SigningKey {
        let seed = Zeroizing::new(seed);
        let (secret, public) = match kind {
            // A clamped scalar is 8k with 0 < k < the group's order, so its point is never of small order, and it is
            // encoded canonically by construction: there is nothing here to refuse.
            KeyKind::Ed25519 | KeyKind::CosignatureV1 => {
                let secret = ed25519_dalek::SigningKey::from_bytes(&seed);
                let point = secret.verifying_key();
                (Secret::Ed25519(secret), Public::Ed25519(point))
            }
            KeyKind::MlDsa44 => {
                let (secret, public) = ml_dsa::SecretKey::from_seed(seed);
                (Secret::MlDsa44(secret), Public::MlDsa44(public))
            }
        };
        let id = KeyId::of(&name, kind, public.bytes());
        SigningKey { secret, verifier: VerifierKey { name, id, kind, public } }
    }

    /// Reads `PRIVATE+KEY+…`, without a line end. Refuses a text whose id is not the seed's.
    pub fn from_private_text(text: &str) -> Result<SigningKey, KeyError> {
        let rest = text.strip_prefix(PRIVATE_PREFIX).ok_or(KeyError::Shape)?;
        let parts = KeyText::split(rest)?;
        let seed = <[u8; 32]>::try_from(parts.material.as_slice()).map(Zeroizing::new).map_err(|_| KeyError::Length)?;
        let key = SigningKey::from_seed(parts.name, parts.kind, *seed);
        if key.verifier.id != parts.id {
            return Err(KeyError::IdMismatch);
        }
        Ok(key)
    }

    /// The text form that [`SigningKey::from_private_text`] reads, without a line end.
    pub fn to_private_text(&self) -> Zeroizing<String> {
        let seed = match &self.secret {
            Secret::Ed25519(secret) => secret.as_bytes(),
            Secret::MlDsa44(secret) => secret.seed(),
        };
        let public = Zeroizing::new(key_text(&self.verifier.name, self.verifier.id, self.verifier.kind, seed));
        // Room for the line end of a key file: growing the text would leave a copy behind.
        let mut text = Zeroizing::new(String::with_capacity(PRIVATE_PREFIX.len() + public.len() + 1));
        text.push_str(PRIVATE_PREFIX);
        text.push_str(&public);
        text
    }

    /// The public half, which others check with.
    pub fn verifier(&self) -> VerifierKey {
        self.verifier.clone()
    }

    /// Whose key it is.
    pub fn name(&self) -> &KeyName {
        &self.verifier.name
    }

    /// The id that stands before this key's signatures.
    pub fn id(&self) -> KeyId {
        self.verifier.id
    }

    /// What the key signs.
    pub fn kind(&self) -> KeyKind {
        self.verifier.kind
    }

    /// Signs exactly `message`: 64 bytes of Ed25519, 2420 of ML-DSA-44, the same every time. Callers outside this crate want `sign_note`, `sign_checkpoint` or `cosign`,
    /// which know what to sign.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Ed25519(secret) => secret.sign(message).to_bytes().to_vec(),
            Secret::MlDsa44(secret) => secret.sign(message).to_vec(),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {})", self.verifier)
    }
}

/// The three parts of a key's text, decoded; the material is a public key or a seed.
struct KeyText {
    name: KeyName,
    id: KeyId,
    kind: KeyKind,
    material: Zeroizing<Vec<u8>>,
}

impl KeyText {
    fn split(text: &str) -> Result<KeyText, KeyError> {
        // Names hold no `+`, base64 may: the third part is whatever is left.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(material)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Shape);
        };
        let name = KeyName::new(name)?;
        let id = key_id(id).ok_or(KeyError::Id)?;
        let material = Zeroizing::new(merkle::decode_base64(material).ok_or(KeyError::Base64)?);
        let (&byte, rest) = material.split_first().ok_or(KeyError::Length)?;
        let kind = KeyKind::from_byte(byte).ok_or(KeyError::UnknownKind(byte))?;
        Ok(KeyText { name, id, kind, material: Zeroizing::new(rest.to_vec()) })
    }
}

fn key_id(text: &str) -> Option<KeyId> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut id = [0; 4];
    hex::decode_to_slice(text, &mut id).ok()?;
    Some(KeyId(id))
}

fn key_text(name: &KeyName, id: KeyId, kind: KeyKind, material: &[u8]) -> String {
    let mut bytes = Zeroizing::new(Vec::with_capacity(1 + material.len()));
    bytes.push(kind.byte());
    bytes.extend_from_slice(material);
    let encoded = Zeroizing::new(merkle::encode_base64(&bytes));
    format!("{name}+{id}+{}", *encoded)
}
