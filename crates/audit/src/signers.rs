//! The part of judging an entry that needs no order: hash, parse, signature. Done for any entry on any core, before the
//! entries are placed one after the other ([`crate::issuer`]).

use merkle::Hash;
use note::KeyTables;
use receipt::{Checked, IssuerState, Malformed, Receipt, Refusal, check_signature};
use std::collections::HashMap;
use std::sync::Arc;

/// An entry after the work that needs no order: hashed, parsed, its signature computed.
pub(crate) struct Entry {
    pub(crate) index: u64,
    pub(crate) leaf: Hash,
    pub(crate) prepared: Prepared,
}

/// What parsing came to.
pub(crate) enum Prepared {
    /// Why it is no receipt.
    Malformed(Malformed),
    /// Of an issuer that the auditor does not know.
    Unknown(Receipt),
    /// Bad whatever the key.
    Refused(Receipt, Refusal),
    Checked(Checked),
}

/// What an entry's signature is computed by, for any entry on any thread: each issuer with its keys as far as the log
/// has been read. An issuer's keys may have changed by the time that the entry is placed; [`place`] sees to that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signers {
    pub(crate) states: HashMap<Arc<str>, IssuerState>,
}

impl Signers {
    /// The expensive part of judging an entry, which needs no order.
    pub(crate) fn prepare(&self, index: u64, bytes: &[u8], tables: &KeyTables) -> Entry {
        match Receipt::parse(bytes) {
            Ok(receipt) => {
                let leaf = receipt.id().0;
                let prepared = match self.states.get(receipt.issuer().as_str()) {
                    None => Prepared::Unknown(receipt),
                    Some(state) => match check_signature(&receipt, state, tables) {
                        Ok(checked) => Prepared::Checked(checked),
                        Err(refusal) => Prepared::Refused(receipt, refusal),
                    },
                };
                Entry { index, leaf, prepared }
            }
            Err(malformed) => Entry { index, leaf: merkle::leaf_hash(bytes), prepared: Prepared::Malformed(malformed) },
        }
    }
}
