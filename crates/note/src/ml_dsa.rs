//! ML-DSA-44 (FIPS 204): the keys and the arithmetic, in bytes.
//!
//! Holds the only calls of ML-DSA in the project. Does not hold which message is signed (`cosigned`) nor names and
//! ids (`key`).
//!
//! * *Pure ML-DSA with an empty context*, as tlog-cosignature asks: its message carries its own label.
//! * *Deterministic signing*, the variant of FIPS 204 in which the 32 bytes of fresh randomness are zero. Signing stays
//!   a function of its arguments, needs nothing that can fail, and a witness that is asked twice for one second says
//!   the same bytes twice. What hedging adds is a harder target for somebody who can disturb the processor while it
//!   signs; Ed25519 beside it has the same exposure, so it would protect nothing here by itself.

use crate::key::KeyError;
use fips204::ml_dsa_44;
use fips204::traits::{KeyGen, SerDes, Signer, Verifier};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of a public key (FIPS 204, table 2).
pub(crate) const PUBLIC_KEY_LEN: usize = ml_dsa_44::PK_LEN;

/// Bytes of a signature (FIPS 204, table 2).
pub(crate) const SIGNATURE_LEN: usize = ml_dsa_44::SIG_LEN;

/// Bytes of `rho`, from which a key's matrix is made; the rest of the public key is `t1` (FIPS 204, algorithm 22).
const RHO_LEN: usize = 32;

const CONTEXT: &[u8] = b"";

/// A public key, decoded once. Copies share it: decoded it takes four kilobytes.
#[derive(Clone)]
pub(crate) struct PublicKey(Arc<Decoded>);

struct Decoded {
    bytes: [u8; PUBLIC_KEY_LEN],
    key: ml_dsa_44::PublicKey,
}

/// A private key: its seed, and what is computed from it. Both are wiped when dropped.
pub(crate) struct SecretKey {
    seed: Zeroizing<[u8; 32]>,
    key: Box<ml_dsa_44::PrivateKey>,
}

impl PublicKey {
    pub(crate) fn new(bytes: &[u8]) -> Result<PublicKey, KeyError> {
        let bytes: [u8; PUBLIC_KEY_LEN] = bytes.try_into().map_err(|_| KeyError::Length)?;
        // With t1 = 0 the secret drops out of the check, and any short vector is a signature.
        if bytes[RHO_LEN..].iter().all(|byte| *byte == 0) {
            return Err(KeyError::Weak);
        }
        let key = ml_dsa_44::PublicKey::try_from_bytes(bytes).map_err(|_| KeyError::NotAKey)?;
        Ok(PublicKey(Arc::new(Decoded { bytes, key })))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; PUBLIC_KEY_LEN] {
        &self.0.bytes
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        <&[u8; SIGNATURE_LEN]>::try_from(signature)
            .is_ok_and(|signature| self.0.key.verify(message, signature, CONTEXT))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}…)", hex::encode(&self.0.bytes[..8]))
    }
}

impl SecretKey {
    /// The key pair that the seed makes (FIPS 204, algorithm 6).
    pub(crate) fn from_seed(seed: Zeroizing<[u8; 32]>) -> (SecretKey, PublicKey) {
        let (public, secret) = ml_dsa_44::KG::keygen_from_seed(&seed);
        let public = PublicKey(Arc::new(Decoded { bytes: public.clone().into_bytes(), key: public }));
        (SecretKey { seed, key: Box::new(secret) }, public)
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.key
            .try_sign_with_seed(&[0; 32], message, CONTEXT)
            .expect("a key made from a seed fails to sign with a chance below 2^-256 (FIPS 204, appendix C)")
    }
}
