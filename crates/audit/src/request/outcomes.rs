//! `request/outcomes`: allowed calls against `--outcome-deadline`.
//!
//! Overdue is what the log did not hold at a time later than the deadline. How long the log is known for is a quorum's
//! word, or the gate's own: of a gate that has since signed other receipts the outcome would stand among them. A bundle
//! that ends before a deadline shows nothing missing.

use super::*;

impl RequestChecks {
    /// An outcome that has come, against the deadline.
    pub(super) fn judge_late(
        &mut self,
        terms: &CallTerms<'_>,
        (at, issued_at): (&ReceiptRef, UnixMillis),
        decision: u64,
        open: &Open,
    ) -> Result<(), ReadError> {
        let due = terms.outcome_deadline_ms.map(|deadline| open.issued_at.0.saturating_add(deadline));
        if due.is_some_and(|due| issued_at.0 > due) {
            let took = show_duration(issued_at.0.saturating_sub(open.issued_at.0));
            terms.find(&mut self.outcomes, ("outcome-late", Notice), &[decision], &[at], || {
                [
                    format!("the outcome came {took} after its decision, later than --outcome-deadline"),
                    String::from("that anything is missing: it came"),
                    String::from("nothing to do, or a longer deadline"),
                ]
            })?;
        }
        Ok(())
    }

    /// The outcome that the gate itself does not know. It answers the call and contradicts nothing.
    pub(super) fn judge_unknown(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        decision: u64,
        open: &Open,
        approval: Option<&Approval>,
    ) -> Result<(), ReadError> {
        self.unknown += 1;
        let answer = approval.map(|approval| approval.answer);
        if let (Asked::By(rule), None | Some(Answer::Unknown | Answer::Elsewhere)) = (open.approval, answer) {
            self.report_open_unapproved(terms, decision, rule, "the gate that allowed it does not know either")?;
        }
        terms.find(&mut self.outcomes, ("outcome-unknown", NotChecked), &[decision], &[at], || {
            [
                String::from(
                    "the gate says that it does not know whether this call ran: it stopped, or was stopped, before it could tell",
                ),
                String::from("whether the action took place, and with what result"),
                String::from("look at the records of whatever was to be acted on; if it often happens, find out what ends the gate"),
            ]
        })
    }

    /// Allowed calls without outcome; answers how many there are.
    pub(super) fn judge_open(
        &mut self,
        terms: &CallTerms<'_>,
        known: Known,
        pairs: &Pairs,
        speakers: &[Speaker],
    ) -> Result<u64, ReadError> {
        let mut awaited = Vec::new();
        for (decision, key) in pairs.unanswered() {
            let Some((issuer, open, answer)) = pairs.unanswered_call(&key) else { continue };
            if let (Asked::By(rule), None | Some(Answer::Unknown | Answer::Elsewhere)) = (open.approval, answer) {
                self.report_open_unapproved(terms, decision, rule, "no outcome of it is in the log either")?;
            }
            if open.performer == Performer::Nobody {
                continue;
            }
            awaited.push(decision);
            let (Some(deadline), Some(speaker)) = (terms.outcome_deadline_ms, speakers.get(issuer as usize)) else {
                continue;
            };
            self.judge_overdue(terms, known, (decision, open), deadline, speaker)?;
        }
        self.outcomes.required(terms.outcome_deadline_ms.is_some() && self.allowed > 0);
        if self.allowed > 0 && (terms.outcome_deadline_ms.is_some() || awaited.is_empty()) {
            self.outcomes.checked();
        }
        if terms.outcome_deadline_ms.is_none() && !awaited.is_empty() {
            let shown = &awaited[..awaited.len().min(MAX_RECEIPTS_PER_FINDING)];
            terms.find(&mut self.outcomes, ("outcome-open", Notice), shown, &[], || {
                [
                    format!(
                        "of {} the log holds no outcome; the first of them are named here",
                        amount(awaited.len() as u64, "allowed call", "allowed calls")
                    ),
                    String::from("whether they were executed: an allow is not an execution"),
                    String::from("give --outcome-deadline to have those judged that are overdue"),
                ]
            })?;
        }
        Ok(awaited.len() as u64)
    }

    fn judge_overdue(
        &mut self,
        terms: &CallTerms<'_>,
        known: Known,
        (decision, open): (u64, &Open),
        deadline: u64,
        speaker: &Speaker,
    ) -> Result<(), ReadError> {
        let due = open.issued_at.0.saturating_add(deadline);
        let Some(as_of) = known.as_of else {
            return terms.find(&mut self.outcomes, ("outcome-time-unknown", NotChecked), &[decision], &[], || {
                [
                    String::from(
                        "an allowed call has no outcome, and no time is known at which to tell whether it is overdue",
                    ),
                    String::from("whether it was executed"),
                    String::from("give the time of the audit with --at"),
                ]
            });
        };
        if as_of.0 <= due {
            return Ok(());
        }
        // What the log did not hold by then: a quorum's word, or the gate's own later receipts.
        let until = known.vouched.unwrap_or_default().max(speaker.last_issued_at).min(as_of);
        let why = if open.performer == Performer::Caller {
            Some("the caller was to execute it, out of the gate's sight")
        } else if open.performer == Performer::Hidden {
            Some("who was to execute it is only committed to")
        } else if !known.complete {
            Some("the entries in the bundle end early")
        } else if speaker.unpaired || speaker.patchy {
            Some("outcomes of this issuer cannot be paired, or receipts of it are missing or hidden")
        } else if until.0 <= due {
            Some("the bundle ends before the deadline did")
        } else {
            None
        };
        let severity = if why.is_some() { NotChecked } else { Fail };
        terms.find(&mut self.outcomes, ("outcome-missing", severity), &[decision], &[], || {
            [
                format!(
                    "a call was allowed at {}, and by {} the log held no outcome of it; the deadline is {}",
                    show_time(open.issued_at),
                    show_time(until),
                    show_duration(deadline)
                ),
                match why {
                    None => String::from("whether it was executed: an allow is not an execution"),
                    Some(why) => format!("whether there is an outcome: {why}"),
                },
                String::from(match why {
                    None => {
                        "ask the gate's operator what became of it; look at the records of whatever was to be acted on"
                    }
                    Some(_) => "fetch the bundle again, or ask whoever was to execute it",
                }),
            ]
        })
    }
}
