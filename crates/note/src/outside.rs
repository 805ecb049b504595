//! Signatures over what is no note, with a key that signs notes: for other worlds' envelopes (COSE, DSSE).
//!
//! One key under two protocols is safe only while no message of one can be read as a message of the other. Everything
//! that keys of this project sign is UTF-8 text that ends in a newline (signed-note's texts, among them receipts and
//! checkpoints) or begins with the cosignature's own words, which [`KeyKind::Ed25519`] keys never sign. So whatever ends in
//! no newline, or is no UTF-8, is no note: a COSE `Sig_structure` begins with 0x84, which begins no UTF-8 text, and a
//! DSSE encoding of a JSON object ends in `}`. That is checked here, before the signature, not believed of the caller.

use crate::key::{KeyKind, SigningKey};

/// Why a message was not signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// The message could be taken for a note's text.
    #[error("the message could be read as the text of a note; it was not signed")]
    MayBeNote,
    /// A witness's key vouches for heads and for nothing else, and other worlds know no key of type 0x06.
    #[error("a witness's key signs cosignatures only; give a key of type 0x01: the log's, or one of your own")]
    WrongKeyKind,
}

/// Signs `message`, which must not be readable as a note's text, by plain Ed25519 (RFC 8032): 64 bytes, the same every
/// time.
///
/// # Errors
/// [`OutsideError`]: nothing was signed.
pub fn sign_outside_notes(message: &[u8], key: &SigningKey) -> Result<Vec<u8>, OutsideError> {
    if key.kind() != KeyKind::Ed25519 {
        return Err(OutsideError::WrongKeyKind);
    }
    if message.ends_with(b"\n") && std::str::from_utf8(message).is_ok() {
        return Err(OutsideError::MayBeNote);
    }
    Ok(key.sign(message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{KeyName, SignedNote, sign_note};

    fn key(kind: KeyKind) -> SigningKey {
        SigningKey::from_seed(KeyName::new("log.example").unwrap(), kind, [7; 32])
    }

    #[test]
    fn no_text_of_a_note_is_signed() {
        let key = key(KeyKind::Ed25519);
        let note = SignedNote::parse(&sign_note("log.example\n0\nroot\n", &[&key]).unwrap()).unwrap();
        for text in [note.text(), "\n", "DSSEv1 28 type 2 {}\n", "é\n"] {
            assert_eq!(sign_outside_notes(text.as_bytes(), &key), Err(OutsideError::MayBeNote), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_note_is_signed_and_makes_no_note() {
        let key = key(KeyKind::Ed25519);
        for message in [&b"DSSEv1 28 type 2 {}"[..], b"\x84\x6aSignature1\n", b""] {
            let signature = sign_outside_notes(message, &key).unwrap();
            assert!(key.verifier().verify(message, &signature));
            assert!(std::str::from_utf8(message).map_or(true, |text| sign_note(text, &[&key]).is_err()));
        }
    }

    #[test]
    fn keys_of_witnesses_are_refused() {
        for kind in [KeyKind::CosignatureV1, KeyKind::MlDsa44] {
            assert_eq!(sign_outside_notes(b"{}", &key(kind)), Err(OutsideError::WrongKeyKind));
        }
    }
}
