//! Whether the log is one of receipts at all.
//!
//! Any tiled log can be mirrored and its heads judged. Its entries are then no receipts, and to call every one of them
//! malformed would accuse a log that never promised any. So entries that are no receipts are set aside as long as the log
//! holds no receipt with a good signature by an issuer that the auditor named. The first such makes it a log of receipts, and
//! all that were set aside are malformed. Nothing less does: whoever may write to a log of something else can write there
//! what begins as a receipt, or is a whole one under a name and a key of his own. A log of receipts is taken for another one
//! only if every issuer that the auditor named is absent, and then the verdict is not `ok`.

use crate::amount::amount;
use crate::quote::plain;
use crate::verdict::{CheckBuilder, MAX_FINDINGS_PER_CODE, ReceiptRef};
use serde::{Deserialize, Serialize};

/// Entries of a log in which no listed issuer's receipt was found yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NoReceipts {
    /// Whether one was.
    ended: bool,
    /// As many as a check names, each with why it is none.
    first: Vec<(ReceiptRef, String)>,
    count: u64,
}

impl NoReceipts {
    /// An entry that is no receipt.
    pub(crate) fn add(&mut self, at: ReceiptRef, why: &str, check: &mut CheckBuilder) {
        if self.ended {
            return malformed(check, &at, why);
        }
        self.count += 1;
        if (self.first.len() as u64) < MAX_FINDINGS_PER_CODE {
            self.first.push((at, why.to_owned()));
        }
    }

    /// A receipt with a good signature by a listed issuer.
    pub(crate) fn end(&mut self, check: &mut CheckBuilder) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let Some((last, why)) = self.first.last().cloned() else { return };
        let named = self.first.len() as u64;
        self.first.drain(..).for_each(|(at, why)| malformed(check, &at, &why));
        // Beyond what is named they are only counted.
        (named..self.count).for_each(|_| malformed(check, &last, &why));
    }

    /// Whether the log, as far as it was read, is one of something else: its entries are held against nobody.
    pub(crate) fn is_something_else(&self) -> bool {
        !self.ended && self.count > 0
    }

    /// Tells `check` if the log held entries and no receipt.
    pub(crate) fn finish(self, check: &mut CheckBuilder) {
        if !self.is_something_else() {
            return;
        }
        check.not_checked("no-receipts", &[], || {
            [
                format!(
                    "the log holds {} and no receipt signed by an issuer in the issuers file: it may be no log of receipts",
                    amount(self.count, "entry that is no receipt", "entries that are no receipts")
                ),
                String::from("anything that its entries say: only its heads, its tree and their witnesses were judged"),
                String::from("if receipts should be in it, compare the log's vkey and address with its operator's, and the issuers file with the issuers'"),
            ]
        });
    }
}

fn malformed(check: &mut CheckBuilder, at: &ReceiptRef, why: &str) {
    check.fail("malformed", &[at], || {
        [
            format!("the entry is no receipt: {}", plain(why)),
            String::from("who submitted it: the log should have refused it"),
            String::from("ask the log's operator why it was admitted"),
        ]
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::verdict::{Check, Family, Status};
    use merkle::LeafIndex;

    fn check_of(entries: &[&str], then_a_receipt: bool) -> Check {
        let mut check = CheckBuilder::new(Family::Issuer, "entries");
        let mut none = NoReceipts::default();
        for (index, entry) in entries.iter().enumerate() {
            check.checked();
            let at = ReceiptRef::entry(LeafIndex(index as u64), merkle::leaf_hash(entry.as_bytes()));
            none.add(at, "why", &mut check);
        }
        if then_a_receipt {
            none.end(&mut check);
        }
        none.finish(&mut check);
        check.finish("")
    }

    #[test]
    fn a_log_of_something_else_is_not_checked_and_accused_of_nothing() {
        let check = check_of(&["a", "b", "c"], false);
        assert_eq!((check.status, check.count("no-receipts"), check.count("malformed")), (Status::NotChecked, 1, 0));
    }

    #[test]
    fn one_receipt_at_the_end_makes_all_others_malformed_and_one_that_only_begins_as_one_does_not() {
        let check = check_of(&["a", "b", "c"], true);
        assert_eq!((check.status, check.count("no-receipts"), check.count("malformed")), (Status::Fail, 0, 3));
        assert_eq!(check.findings[0].receipts[0].index, Some(0));
        let check = check_of(&["a", "b", "counterfoil/receipt/v1\nx", "c"], false);
        assert_eq!((check.status, check.count("no-receipts"), check.count("malformed")), (Status::NotChecked, 1, 0));
    }

    #[test]
    fn however_many_come_before_the_first_receipt_all_are_counted() {
        let many = vec!["x"; MAX_FINDINGS_PER_CODE as usize + 7];
        let check = check_of(&many, true);
        assert_eq!(check.count("malformed"), MAX_FINDINGS_PER_CODE + 7);
        assert_eq!(check.findings.len() as u64, MAX_FINDINGS_PER_CODE);
    }

    #[test]
    fn an_empty_log_is_not_called_a_log_of_something_else() {
        assert_eq!(check_of(&[], false).count("no-receipts"), 0);
    }
}
