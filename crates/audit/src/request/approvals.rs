//! `request/approvals`: a person's yes where the rule file asks for it, for the action that was allowed, and before it
//! was executed; and no call that went on after a person's no.

use super::*;

impl RequestChecks {
    /// An approval receipt, of whatever kind.
    pub(crate) fn approval_seen(&mut self, at: &ReceiptRef, approval: &body::Approval) {
        self.approval_receipts += 1;
        self.approvals.checked();
        let hidden = [
            ("request_id", approval.request_id.is_committed()),
            ("decision", approval.decision.is_committed()),
            ("verdict", approval.verdict.is_committed()),
            ("digest", approval.digest.is_committed()),
        ];
        if let Some((member, _)) = hidden.iter().find(|(_, is_committed)| *is_committed) {
            committed(&mut self.approvals, at, member);
        }
    }

    /// Whether the auditor's file asks for an approval receipt of this allowed call.
    pub(crate) fn asked(&mut self, at: &ReceiptRef, rules: &Rules, decision: &Decision) -> Asked {
        if rules.approvals.is_empty() || decision.executes.shown() == Some(&body::Executes::None) {
            return Asked::No;
        }
        let is_named = |rule: &ApprovalRule| {
            let is_among = |all: &[String], one: Option<&String>| one.is_some_and(|one| all.contains(one));
            is_among(&rule.classes, decision.action_class.shown())
                || is_among(&rule.operations, decision.operation.shown())
        };
        let Some(place) = rules.approvals.iter().position(is_named) else {
            let may_be = |rule: &ApprovalRule| {
                (!rule.classes.is_empty() && decision.action_class.is_committed())
                    || (!rule.operations.is_empty() && decision.operation.is_committed())
            };
            if !rules.approvals.iter().any(may_be) {
                return Asked::No;
            }
            committed(&mut self.approvals, at, "action_class or operation");
            return Asked::Hidden;
        };
        self.asked += 1;
        self.approvals.checked();
        let rule = &rules.approvals[place].code;
        match &decision.approval {
            // At most 256 rules.
            None => Asked::By(place as u16),
            Some(approval) => {
                match approval.clear() {
                    None => committed(&mut self.approvals, at, "approval"),
                    Some(approval) if approval.digest.is_none() => self.report_without_digest(&[at], rule),
                    Some(_) => {}
                }
                Asked::No
            }
        }
    }

    /// A person had answered before the call was allowed.
    pub(crate) fn approved_before(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        open: &Open,
        before: &Approval,
    ) -> Result<(), ReadError> {
        match before.answer {
            Answer::Declined => {
                terms.find(&mut self.approvals, ("allowed-after-decline", Fail), &[before.index], &[at], || {
                    [
                        String::from("a person declined this request, and then the gate allowed it"),
                        String::from("whether the person was asked again outside the log"),
                        String::from("ask the person; ask the operator why a no did not count"),
                    ]
                })
            }
            Answer::Unknown => self.report_unclear(terms, &[before.index], at),
            _ => self.compare_approved(terms, before, open, &[before.index], &[at]),
        }
    }

    /// A person answers while the call is open.
    pub(crate) fn approved(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        approval: &Approval,
        decision: u64,
        open: &Open,
        before: Option<&Approval>,
    ) -> Result<(), ReadError> {
        let differs = |before: &Approval| before.answer != approval.answer || before.digest != approval.digest;
        match before {
            Some(before) if differs(before) => self.report_unclear(terms, &[decision, before.index], at),
            _ => self.compare_approved(terms, approval, open, &[decision], &[at]),
        }
    }

    /// A person answers when the action has taken place.
    pub(crate) fn approved_late(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        approval: &Approval,
        outcome: u64,
        asked: bool,
    ) -> Result<(), ReadError> {
        let severity = if asked && approval.answer == Answer::Approved { Fail } else { Notice };
        terms.find(&mut self.approvals, ("approval-after-execution", severity), &[outcome], &[at], || {
            [
                String::from("a person's answer to this request was logged after the action had been executed"),
                String::from("when the person was asked"),
                String::from("do not count it as permission; ask the operator why the gate did not wait"),
            ]
        })
    }

    pub(super) fn judge_approval(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        decision: u64,
        open: &Open,
        approval: Option<&Approval>,
    ) -> Result<(), ReadError> {
        let answer = approval.map(|approval| approval.answer);
        if let (Some(Answer::Declined), Some(approval)) = (answer, approval) {
            let earlier = [decision, approval.index];
            return terms.find(&mut self.approvals, ("executed-after-decline", Fail), &earlier, &[at], || {
                [
                    String::from("a person declined this request, and then it was executed"),
                    String::from("whether the person was asked again outside the log"),
                    String::from(
                        "undo the action if nobody can answer for it; ask the operator why a no did not count",
                    ),
                ]
            });
        }
        let Asked::By(rule) = open.approval else { return Ok(()) };
        let rule = terms.rules.approvals.get(usize::from(rule)).map_or("a rule", |rule| rule.code.as_str());
        match (answer, approval) {
            (None, _) | (_, None) => {
                terms.find(&mut self.approvals, ("approval-missing", Fail), &[decision], &[at], || {
                    [
                        format!("{rule} asks for a person's approval of this action; it was executed, and neither its decision nor a receipt before shows one"),
                        String::from("that nobody approved it outside the log"),
                        String::from("ask the operator who approved it"),
                    ]
                })
            }
            (Some(Answer::Approved), Some(approval)) if approval.digest.is_none() => {
                self.report_without_digest(&[at], rule);
                Ok(())
            }
            (Some(Answer::Approved | Answer::Declined), _) => Ok(()),
            (Some(Answer::Unknown | Answer::Elsewhere), Some(approval)) => {
                self.report_unclear(terms, &[decision, approval.index], at)
            }
        }
    }

    pub(super) fn report_open_unapproved(
        &mut self,
        terms: &CallTerms<'_>,
        decision: u64,
        rule: u16,
        why_unknown: &str,
    ) -> Result<(), ReadError> {
        let rule = terms.rules.approvals.get(usize::from(rule)).map_or("a rule", |rule| rule.code.as_str());
        terms.find(&mut self.approvals, ("approval-missing", NotChecked), &[decision], &[], || {
            [
                format!("{rule} asks for a person's approval of this action; it was allowed, and no approval of it is in the log"),
                format!("whether it was executed: {why_unknown}"),
                String::from("ask the operator whether it was executed, and who approved it"),
            ]
        })
    }

    fn compare_approved(
        &mut self,
        terms: &CallTerms<'_>,
        approval: &Approval,
        open: &Open,
        earlier: &[u64],
        at: &[&ReceiptRef],
    ) -> Result<(), ReadError> {
        let (Answer::Approved, Some(approved), Some(decided)) = (approval.answer, approval.digest, open.digest) else {
            return Ok(());
        };
        if approved == decided {
            return Ok(());
        }
        terms.find(&mut self.approvals, ("approval-for-other-action", Fail), earlier, at, || {
            [
                String::from("the digest that the person approved is not that of the action that the gate allowed"),
                String::from("which of operation, resource, args, capability and request differs"),
                String::from("ask who approved what they were shown"),
            ]
        })
    }

    fn report_unclear(&mut self, terms: &CallTerms<'_>, earlier: &[u64], at: &ReceiptRef) -> Result<(), ReadError> {
        terms.find(&mut self.approvals, ("approval-unclear", NotChecked), earlier, &[at], || {
            [
                String::from("what a person said of this request cannot be told: two approvals differ, one does not show its verdict, or it stands in another issuer's stream"),
                String::from("whether the action was approved"),
                String::from("ask the person, or the gate for the disclosure"),
            ]
        })
    }

    fn report_without_digest(&mut self, receipts: &[&ReceiptRef], rule: &str) {
        self.approvals.not_checked("approval-without-digest", receipts, || {
            [
                format!("{rule} asks for an approval; the one that is there carries no digest of what was approved"),
                String::from("that this action is the one that the person was shown"),
                String::from("have the gate write the action digest into the approval"),
            ]
        });
    }
}
