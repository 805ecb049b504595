//! Whether the log is ready for receipts, and every reason why it is not. Pure; `/readyz` is `routes`'.

/// What readiness hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The committer works.
    pub committing: bool,
    /// There is a head on offer.
    pub head_offered: bool,
    /// That head is at most two intervals behind the newest signed one.
    pub offer_keeps_up: bool,
    /// The disk has room.
    pub room: bool,
    /// The log has been told to stop.
    pub draining: bool,
}

impl Condition {
    /// Why the log is not ready: a stable word and a sentence each, the gravest first. Empty if it is ready.
    pub fn reasons(self) -> Vec<(&'static str, &'static str)> {
        let rows = [
            (
                self.committing,
                "not-committing",
                "the log can no longer commit and is about to stop; start it again and look at its messages",
            ),
            (!self.draining, "draining", "the log has been told to stop; send receipts to it once it runs again"),
            (self.room, "no-room", "the store's disk is nearly full; make room (min_free_mib is the mark)"),
            (self.head_offered, "no-head", "the log has no head on offer yet; ask again in a moment"),
            (
                self.offer_keeps_up,
                "offer-lags",
                "the offered head is more than two intervals behind the newest signed one; look at the log's load",
            ),
        ];
        rows.into_iter().filter(|(good, ..)| !good).map(|(_, code, detail)| (code, detail)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Condition =
        Condition { committing: true, head_offered: true, offer_keeps_up: true, room: true, draining: false };

    #[test]
    fn a_log_in_good_condition_has_no_reason_not_to_be_ready() {
        assert!(READY.reasons().is_empty());
    }

    #[test]
    fn every_fault_is_named_by_itself_and_together_with_others() {
        for (condition, code) in [
            (Condition { committing: false, ..READY }, "not-committing"),
            (Condition { draining: true, ..READY }, "draining"),
            (Condition { room: false, ..READY }, "no-room"),
            (Condition { head_offered: false, ..READY }, "no-head"),
            (Condition { offer_keeps_up: false, ..READY }, "offer-lags"),
        ] {
            assert_eq!(condition.reasons().iter().map(|reason| reason.0).collect::<Vec<_>>(), [code]);
        }
        let both = Condition { room: false, draining: true, ..READY }.reasons();
        assert_eq!(both.iter().map(|reason| reason.0).collect::<Vec<_>>(), ["draining", "no-room"]);
    }
}
