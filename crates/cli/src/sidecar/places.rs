//! Which seq a receipt id stands at: read from the outbox when somebody first asks, and kept up from there.

use client::OutboxError;
use client::outbox::OutboxReader;
use receipt::{ReceiptId, SeqNo};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Receipts by the first half of their ids, 48 bytes each: what answers is compared with the whole id.
#[derive(Default)]
pub(super) struct Places(Mutex<Read>);

#[derive(Default)]
struct Read {
    next: u64,
    by_id: HashMap<u128, u64>,
}

impl Places {
    /// The seq of a receipt of this outbox. Reads what has been signed since it was last asked.
    pub(super) fn seq_of(&self, outbox: &OutboxReader, id: &ReceiptId) -> Result<Option<SeqNo>, OutboxError> {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seq) = read.by_id.get(&half(id)) {
            return Ok(Some(SeqNo(*seq)));
        }
        let end = outbox.next_seq()?.0;
        while read.next < end {
            let seq = read.next;
            if let Some(receipt) = outbox.receipt(SeqNo(seq))? {
                read.by_id.insert(half(&receipt.id()), seq);
            }
            read.next += 1;
        }
        Ok(read.by_id.get(&half(id)).map(|seq| SeqNo(*seq)))
    }
}

fn half(id: &ReceiptId) -> u128 {
    let mut half = [0; 16];
    half.copy_from_slice(&id.0.0[..16]);
    u128::from_be_bytes(half)
}
