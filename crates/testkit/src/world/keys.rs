//! Keys out of a name and a number, each made once a process: making an ML-DSA key takes longer than auditing a world.

use note::{KeyKind, KeyName, SigningKey};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type Made = HashMap<(String, u8, u32), Arc<SigningKey>>;

static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);

/// The `number`th key of this name and kind.
///
/// # Panics
/// If `name` is no key name.
pub fn key(name: &str, kind: KeyKind, number: u32) -> Arc<SigningKey> {
    // A map of finished keys is as good after a panic elsewhere as before.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let digest = Sha256::new().chain_update(number.to_be_bytes()).chain_update(name);
        let seed: [u8; 32] = digest.chain_update([kind.byte()]).finalize().into();
        let name = KeyName::new(name).expect("the names of a world are key names");
        Arc::new(SigningKey::from_seed(name, kind, seed))
    };
    Arc::clone(made.entry((name.to_owned(), kind.byte(), number)).or_insert_with(make))
}
