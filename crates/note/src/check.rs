//! Who does the arithmetic of a signature check: plainly, or with what was prepared for the key.
//!
//! Holds the choice and the plain way. Every way gives the same answer, [`VerifierKey::verify`]'s, to the last odd
//! encoding: two judges of one receipt that differ only in speed never differ in their verdict.

use crate::key::VerifierKey;

/// A way to compute what [`VerifierKey::verify`] answers.
pub trait SignatureCheck {
    /// Whether `signature` is `key`'s over exactly `message`, as [`VerifierKey::verify`] says.
    fn verify(&self, key: &VerifierKey, message: &[u8], signature: &[u8]) -> bool;
}

/// The plain way: nothing is prepared, nothing is kept. For few signatures, and for keys that nobody vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strict;

impl SignatureCheck for Strict {
    fn verify(&self, key: &VerifierKey, message: &[u8], signature: &[u8]) -> bool {
        key.verify(message, signature)
    }
}
