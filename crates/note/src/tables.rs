//! Prepared keys: the signatures of a key that signs often, checked in less than half the time.
//!
//! A check computes `R' = s·B − k·A` with `k = SHA-512(R ‖ A ‖ M) mod L`, and most of that is doubling points. For a
//! key that comes back, multiples of `−A` are worth keeping ([`multiples`]); for `B` they are kept anyway. Holds the
//! check with them, and the decision which keys they are kept for. Does not hold signing, nor anything secret: times
//! differ with the signature, which everybody may see.
//!
//! # Why the answer is `verify_strict`'s
//!
//! That function (ed25519-dalek 2.2) refuses exactly where one of these fails, and so does [`PreparedKey::verify`]:
//!
//! 1. *`s` is canonical, below L.* The same call decides it here.
//! 2. *`A` is not of small order.* No [`VerifierKey`] is.
//! 3. *The 32 bytes of `R` are those of `R'`, compressed.* The same comparison, of the same point: `k` is the same
//!    scalar, reduced before use there and here, and sums of multiples give `k·A` for an `A` with a small-order
//!    component as well, since the addition law of the curve has no exceptions.
//! 4. *`R` decodes, to a point that is not of small order.* There this is asked of the bytes, before the rest. Where
//!    3 holds they are the compressed `R'`, which decodes to `R'` and nothing else: so it is enough to ask whether
//!    `R'` is of small order. Where 3 fails, both refuse whatever the answer. So `R` is never decoded here, which
//!    saves a square root.

mod multiples;

use crate::check::SignatureCheck;
use crate::key::VerifierKey;
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::VerifyingKey;
use multiples::Multiples;
use sha2::{Digest, Sha512};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes that one prepared key takes, of which there are never more than the capacity (and those in use when they
/// are evicted): 11 rows of 32 points, 160 bytes each.
pub const PREPARED_KEY_BYTES: usize = KeyMultiples::BYTES;

/// Checks of a key before it is prepared. Preparing costs about two plain checks and then saves more than half of
/// one each time, so it has paid for itself after four. Sixteen, because with more busy keys than there is room for
/// every table may be evicted unused: then preparing adds an eighth to the cost of checking, and no more.
const HOT_AFTER: u32 = 16;

/// Keys whose checks are counted, as a multiple of the capacity. Beyond that all counts are forgotten: so many keys
/// in turn are not worth preparing, and nobody can make the counts grow.
const COUNTED_PER_PLACE: usize = 4;

/// 107 KiB would save another tenth of a check, and 55 KiB are what a log with hundreds of issuers has to spare.
type KeyMultiples = Multiples<6, 4>;

/// 640 KiB, once a process.
type BaseMultiples = Multiples<8, 1>;

/// The canonical encodings of the eight points of small order.
static SMALL_ORDER: LazyLock<[[u8; 32]; 8]> = LazyLock::new(|| EIGHT_TORSION.map(|point| point.compress().to_bytes()));

static BASE: LazyLock<BaseMultiples> = LazyLock::new(|| Multiples::of(&ED25519_BASEPOINT_POINT));

/// A bounded store of prepared keys, to be shared by all threads that check signatures.
///
/// A key is prepared once it has been checked sixteen times; before that, and where there is no room, it is
/// checked plainly. When the store is full, the key whose last check is longest ago makes room. Takes at most
/// `capacity` times [`PREPARED_KEY_BYTES`], and 640 KiB that all stores of a process share. A check of a prepared key
/// takes no lock that another check would have to wait for.
pub struct KeyTables {
    capacity: usize,
    prepared: RwLock<BTreeMap<[u8; 32], Arc<PreparedKey>>>,
    /// Checks of keys that are not prepared.
    counts: Mutex<BTreeMap<[u8; 32], u32>>,
    /// Checks made by table, which is also the clock of "longest ago".
    checks: AtomicU64,
}

impl KeyTables {
    /// An empty store for at most `capacity` keys; with 0 every check is a plain one.
    pub fn new(capacity: usize) -> KeyTables {
        KeyTables { capacity, prepared: RwLock::default(), counts: Mutex::default(), checks: AtomicU64::new(0) }
    }

    /// Prepares `key` now, for a caller who knows that many of its signatures will come.
    /// Nothing is prepared for a key that is not Ed25519.
    pub fn prepare(&self, key: &VerifierKey) {
        let Some(point) = key.ed25519().filter(|_| self.capacity > 0 && self.find(key).is_none()) else {
            return;
        };
        let bytes = point.as_bytes();
        let prepared = Arc::new(PreparedKey::new(point, self.checks.load(Ordering::Relaxed)));
        let mut all = self.prepared.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= self.capacity && !all.contains_key(bytes) {
            let last_check = |prepared: &PreparedKey| prepared.last_check.load(Ordering::Relaxed);
            let oldest = all.iter().min_by_key(|(_, prepared)| last_check(prepared)).map(|(bytes, _)| *bytes);
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        all.insert(*bytes, prepared);
        drop(all);
        self.counts().remove(bytes);
    }

    /// Whether `key` is prepared at this moment.
    pub fn is_prepared(&self, key: &VerifierKey) -> bool {
        self.find(key).is_some()
    }

    /// How many checks were made with a prepared key, of all that were asked for.
    pub fn checks_by_table(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }

    fn find(&self, key: &VerifierKey) -> Option<Arc<PreparedKey>> {
        let point = key.ed25519()?;
        let all = self.prepared.read().unwrap_or_else(PoisonError::into_inner);
        all.get(point.as_bytes()).map(Arc::clone)
    }

    /// Counts one more plain check of `key`, and says whether it is the one that makes it hot: so that of many
    /// threads one prepares it, and where that came to nothing, another one later.
    fn becomes_hot(&self, key: &VerifierKey) -> bool {
        let Some(point) = key.ed25519() else { return false };
        let bytes = point.as_bytes();
        let mut counts = self.counts();
        if counts.len() >= self.capacity.saturating_mul(COUNTED_PER_PLACE) && !counts.contains_key(bytes) {
            counts.clear();
        }
        let count = counts.entry(*bytes).or_insert(0);
        *count = count.saturating_add(1);
        count.is_multiple_of(HOT_AFTER)
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignatureCheck for KeyTables {
    fn verify(&self, key: &VerifierKey, message: &[u8], signature: &[u8]) -> bool {
        if let Some(prepared) = self.find(key) {
            let now = self.checks.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            prepared.last_check.fetch_max(now, Ordering::Relaxed);
            return prepared.verify(key, message, signature);
        }
        if self.capacity > 0 && self.becomes_hot(key) {
            self.prepare(key);
        }
        key.verify(message, signature)
    }
}

impl fmt::Debug for KeyTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = self.prepared.read().unwrap_or_else(PoisonError::into_inner).len();
        write!(f, "KeyTables({prepared} of {} keys prepared)", self.capacity)
    }
}

/// What is kept for one key.
struct PreparedKey {
    /// Of `−A`.
    multiples: KeyMultiples,
    /// [`KeyTables::checks`] at the last check.
    last_check: AtomicU64,
}

impl PreparedKey {
    fn new(point: &VerifyingKey, now: u64) -> PreparedKey {
        PreparedKey { multiples: Multiples::of(&-point.to_edwards()), last_check: AtomicU64::new(now) }
    }

    /// See the head of the module.
    fn verify(&self, key: &VerifierKey, message: &[u8], signature: &[u8]) -> bool {
        let Some((r, s)) = signature.split_first_chunk::<32>() else { return false };
        let Ok(s) = <[u8; 32]>::try_from(s) else { return false };
        let Some(s) = Option::<Scalar>::from(Scalar::from_canonical_bytes(s)) else { return false };
        let hash = Sha512::new().chain_update(r).chain_update(key.public_key_bytes()).chain_update(message).finalize();
        let k = Scalar::from_bytes_mod_order_wide(&hash.into());
        let point = BASE.times(&s) + self.multiples.times(&k);
        // Encodings are unique here: `r` is a canonical one, so the point is of small order if, and only if, `r` is on the list.
        point.compress().as_bytes() == r && !SMALL_ORDER.contains(r)
    }
}

#[cfg(test)]
mod tests;
