//! How far an input was taken into the outbox, so that a submission that was killed can be run again whole and nothing
//! is submitted twice.
//!
//! Before the first line of an input is signed, a mark says: from this line of this input on, receipts begin at that seq.
//! As there is one writer, which signs the lines in order, line and seq then advance together until the next mark; and
//! what really happened is in `receipts`, not in a position that would have to be kept in step with it. A line counts as
//! taken only if the receipt at its place says exactly what the line says: an input that was replaced, or that
//! somebody else's receipts interrupted, is noticed at the first line that differs.

use super::store::InputMark;
use super::{Outbox, OutboxError};
use receipt::SeqNo;

/// What the outbox holds of one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedInput {
    /// First line, seq of its receipt, and the seq at which the run ended.
    runs: Vec<(u64, u64, u64)>,
}

impl Outbox {
    /// What is here of the input called `source`.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn submitted_input(&self, source: &str) -> Result<SubmittedInput, OutboxError> {
        let inner = self.working()?;
        let marks = inner.store.input_marks()?;
        let ends = marks.iter().skip(1).map(|mark| mark.seq).chain([inner.store.count()]);
        let runs = marks.iter().zip(ends).filter(|(mark, _)| mark.source == source);
        Ok(SubmittedInput { runs: runs.map(|(mark, end)| (mark.line, mark.seq, end)).collect() })
    }

    /// Says, durably, that the next receipt is of line `line` (from 0) of the input called `source`, and the next one of the
    /// next line. [`Outbox::ensure_open_before`] comes first.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn begin_input(&self, source: &str, line: u64) -> Result<(), OutboxError> {
        let mut inner = self.working()?;
        let mark = InputMark { source: source.to_owned(), line, seq: inner.store.count() };
        inner.write(|store| store.append_input_mark(&mark))
    }

    /// Whether the receipt at `seq` has exactly this body.
    ///
    /// # Errors
    /// [`OutboxError`].
    pub fn says(&self, seq: SeqNo, body: &str) -> Result<bool, OutboxError> {
        Ok(self.receipt(seq)?.is_some_and(|receipt| receipt.body_text() == body))
    }
}

impl SubmittedInput {
    /// The seq at which the receipt of line `line` (from 0) should be; `None` where the line was not taken yet. Where an
    /// input was begun again, the newest run counts.
    pub fn seq_of(&self, line: u64) -> Option<SeqNo> {
        let places = self
            .runs
            .iter()
            .rev()
            .map(|(first, seq, end)| (line.checked_sub(*first).and_then(|offset| seq.checked_add(offset)), *end));
        places.flat_map(|(seq, end)| seq.filter(|seq| *seq < end)).next().map(SeqNo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_over_a_line_says_where_its_receipt_is() {
        // Lines 0 to 4 at seqs 1 to 5; from line 3 on again at 9 and 10.
        let input = SubmittedInput { runs: vec![(0, 1, 6), (3, 9, 11)] };
        let seqs: Vec<_> = (0..7).map(|line| input.seq_of(line).map(|seq| seq.0)).collect();
        assert_eq!(seqs, [Some(1), Some(2), Some(3), Some(9), Some(10), None, None]);
        assert_eq!(SubmittedInput { runs: Vec::new() }.seq_of(0), None);
    }
}
