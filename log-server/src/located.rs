//! A receipt that is in the log, by its names and its place. Answers are made from this, so that whoever reads a long
//! answer slowly holds names in memory and not receipts.

use merkle::LeafIndex;
use receipt::{IssuerName, Receipt, ReceiptId, SeqNo};

/// What names a receipt, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Whose it is.
    pub issuer: IssuerName,
    /// Its number in the issuer's stream.
    pub seq: SeqNo,
    /// Its id.
    pub id: ReceiptId,
    /// Its place in the log.
    pub index: LeafIndex,
}

impl Located {
    /// `receipt`, which is at `index`.
    pub fn new(receipt: &Receipt, index: LeafIndex) -> Self {
        Self { issuer: receipt.issuer().clone(), seq: receipt.seq(), id: receipt.id(), index }
    }
}
