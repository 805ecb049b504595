//! `request/pairing`: one decision before each outcome, one outcome at most after each decision, in the order that the
//! gate signed them.

use super::*;

impl RequestChecks {
    /// The same request is decided again.
    pub(crate) fn decided_again(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        first: u64,
    ) -> Result<(), ReadError> {
        terms.find(&mut self.pairing, ("pairing-ambiguous", NotChecked), &[first], &[at], || {
            [
                String::from("the gate decided one request id twice"),
                String::from(
                    "which of the decisions its outcome and its approval belong to; they are not paired by order",
                ),
                String::from("have the gate give every request an id of its own"),
            ]
        })
    }

    /// An outcome or an approval names a request and a decision that do not belong together. `earlier` are those of
    /// them that the log holds.
    pub(crate) fn contradicts(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        earlier: &[u64],
    ) -> Result<(), ReadError> {
        terms.find(&mut self.pairing, ("pairing-ambiguous", NotChecked), earlier, &[at], || {
            [
                String::from("a receipt names a request id and a decision that do not belong together"),
                String::from("which call it is about"),
                String::from("ask the gate's operator which of the two is right"),
            ]
        })
    }

    /// An outcome that names neither a request nor a decision in the clear.
    pub(crate) fn unpairable(&mut self, at: &ReceiptRef, outcome: &Outcome) {
        if outcome.request_id.is_committed() || outcome.decision.is_committed() {
            committed(&mut self.pairing, at, "request_id or decision");
            return;
        }
        self.pairing.not_checked("pairing-ambiguous", &[at], || {
            [
                String::from("an outcome names neither a request nor a decision"),
                String::from("which call it is the outcome of"),
                String::from("have the gate write request_id and decision into its outcomes"),
            ]
        });
    }

    /// An outcome names a decision of another issuer.
    pub(crate) fn elsewhere(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        decision: u64,
        denied: bool,
    ) -> Result<(), ReadError> {
        terms.find(&mut self.pairing, ("outcome-elsewhere", NotChecked), &[decision], &[at], || {
            [
                String::from(match denied {
                    true => "one issuer says that it executed what another issuer denied",
                    false => "an outcome names the decision of another issuer",
                }),
                String::from("that the one may speak for the other; receipts of two issuers are not paired"),
                String::from(
                    "ask the gate that decided whether this is its executor, and have it log the outcome itself",
                ),
            ]
        })
    }

    /// An outcome that no decision stands before, anywhere in the log.
    pub(crate) fn without_decision(&mut self, orphan: &Orphan, speakers: &[Speaker], full: bool) {
        let patchy = speakers.get(orphan.issuer as usize).is_none_or(|speaker| speaker.patchy);
        let severity = if patchy || full { NotChecked } else { Fail };
        let Orphan { at, ran, .. } = orphan;
        self.pairing.find("outcome-without-decision", severity, &[at], || {
            [
                format!(
                    "the gate logged the outcome of a call{}, and no decision of that request stands in its stream",
                    if *ran == Ran::Yes { " that was executed" } else { "" }
                ),
                String::from(match severity {
                    Fail => "that nothing allowed it; only that the gate's stream, which is whole, does not say what",
                    _ => "that there was none: receipts of this issuer are missing here, hidden, or more than are remembered",
                }),
                String::from("ask the gate's operator for the decision"),
            ]
        });
    }

    /// An outcome that came before its decision.
    pub(crate) fn outcome_before(&mut self, at: &ReceiptRef, orphan: &Orphan) {
        // By the issuer's own numbering: the log may have admitted the two out of order.
        if orphan.at.seq < at.seq {
            self.pairing.fail("outcome-before-decision", &[&orphan.at, at], || {
                [
                    String::from("the gate signed the outcome of this call before its decision"),
                    String::from("when it really decided"),
                    String::from("treat the decision as made afterwards; ask the gate's operator why"),
                ]
            });
        } else {
            self.pairing.not_checked("pairing-ambiguous", &[at, &orphan.at], || {
                [
                    String::from("the log holds an outcome before the decision that its issuer signed earlier"),
                    String::from(
                        "whether the outcome agrees with the decision: receipts out of order are not compared",
                    ),
                    String::from("see the issuer's stream for what the log admitted out of order"),
                ]
            });
        }
    }

    pub(super) fn judge_times(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        outcome: &Outcome,
        decision: u64,
        open: &Open,
    ) -> Result<(), ReadError> {
        let begun = outcome.started_at.shown().or(outcome.ended_at.shown()).and_then(instants);
        let Some([_, begun]) = begun.filter(|[_, latest]| *latest < open.issued_at) else { return Ok(()) };
        // A gate whose clock was put back goes on from its last receipt's time, which a log lets be five minutes ahead
        // at most; the caller's clock may be anything.
        let early = open.issued_at.0 - begun.0;
        let by_gate = open.performer == Performer::Gate && outcome.executed_by.shown() != Some(&ExecutedBy::Caller);
        let severity = if early > MAX_AHEAD_MS && by_gate { Fail } else { Notice };
        terms.find(&mut self.pairing, ("started-before-decision", severity), &[decision], &[at], || {
            [
                format!("the action began {} before the gate signed its decision, by the outcome", show_duration(early)),
                String::from(match severity {
                    Fail => "when it really decided",
                    _ => "that it was not decided first: the times are within what clocks may differ by, or of two clocks",
                }),
                String::from("compare the records of whatever was acted on"),
            ]
        })
    }

    /// An outcome that is not the first of an allowed call.
    pub(crate) fn settled_otherwise(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        ran: Ran,
        settled: &Settled,
    ) -> Result<(), ReadError> {
        match *settled {
            Settled::AfterDeny(decision) if ran == Ran::Yes => {
                terms.find(&mut self.pairing, ("executed-after-deny", Fail), &[decision], &[at], || {
                    [
                        String::from("the gate denied this call and says that it was executed"),
                        String::from("who saw to it"),
                        String::from("undo the action if nobody can answer for it; find out how it got past the gate"),
                    ]
                })
            }
            Settled::AfterDeny(decision) => {
                terms.find(&mut self.pairing, ("outcome-after-deny", Notice), &[decision], &[at], || {
                    [
                        String::from(match ran {
                            Ran::Unknown => {
                                "the gate denied this call and logged that it does not know whether it was executed"
                            }
                            _ => "the gate denied this call and logged an outcome: not executed",
                        }),
                        String::from("that anything happened"),
                        String::from("nothing to do"),
                    ]
                })
            }
            Settled::Second { decision, outcome, ran: before } => {
                let severity = match (before, ran) {
                    // What the gate did not know it may have found out: how often it ran is not told by that.
                    (Ran::Unknown, Ran::Yes) | (Ran::Yes, Ran::Unknown) => NotChecked,
                    (Ran::Yes, _) | (_, Ran::Yes) => Fail,
                    _ => Notice,
                };
                terms.find(&mut self.pairing, ("two-outcomes", severity), &[decision, outcome], &[at], || {
                    [
                        String::from(match (before, ran) {
                            (Ran::Yes, Ran::Yes) => "one decision has two outcomes, and by both the action was executed",
                            (Ran::No, Ran::No) => {
                                "one decision has two outcomes, and by both the action was not executed"
                            }
                            (Ran::Unknown, _) | (_, Ran::Unknown) => {
                                "one decision has two outcomes, and by one the gate does not know whether it was executed"
                            }
                            _ => "one decision has two outcomes: by one the action was executed, by the other not",
                        }),
                        String::from("how often it was executed"),
                        String::from("compare the records of whatever was acted on"),
                    ]
                })
            }
            Settled::Unjudged | Settled::Paired { .. } => Ok(()),
        }
    }

    /// A receipt that is not remembered.
    pub(crate) fn too_many(&mut self, at: &ReceiptRef) {
        self.pairing.not_checked("requests-too-many", &[at], || {
            [
                format!("the log has more requests than {MAX_REQUESTS}, or more open approvals than are remembered; this one is not"),
                String::from("what became of it"),
                String::from("audit the log in parts"),
            ]
        });
    }
}
