//! `request/digests`: the digest of what was executed, against those of what was decided and approved (protocol 3.3).
//!
//! What was decided has the digest that its `approval` member states, or that its own members give where all of them
//! are in the clear.

use super::*;

/// The action digest that a decision states and the one that its members give.
pub(crate) struct DecidedDigest {
    stated: Option<Digest>,
    computed: Option<Digest>,
}

/// The digest of a decided action, twice where it can be told twice. The computed one needs all members in the clear;
/// the request id is the nonce.
pub(crate) fn decided_digest(decision: &Decision) -> DecidedDigest {
    let stated = decision.approval.shown().and_then(|approval| approval.digest.shown()).copied();
    DecidedDigest { stated, computed: computed_digest(decision) }
}

fn computed_digest(decision: &Decision) -> Option<Digest> {
    let args = decision.args.shown().filter(|args| !holds_commitment(args))?;
    let capability_id = match &decision.capability {
        None => None,
        // A capability without a name leaves open what stands for it in the digest.
        Some(capability) => Some(capability.clear()?.id.shown()?.as_str()),
    };
    // A nonce of its own would stand in the request id's place.
    if decision.other.contains_key("nonce") {
        return None;
    }
    let action = Action {
        operation: decision.operation.shown()?,
        resource: decision.resource.shown()?,
        args,
        capability_id,
        nonce: decision.request_id.shown()?,
    };
    Some(ActionDigest::of(&action).0)
}

fn holds_commitment(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(holds_commitment),
        Value::Object(members) => committed_digest(value).is_some() || members.values().any(holds_commitment),
        _ => false,
    }
}

fn half(digest: &Digest) -> Key {
    Key::of_digest(&digest.0)
}

impl RequestChecks {
    /// The digest that an outcome will be compared with. A decision that states another digest than its own members
    /// give was approved for something else.
    pub(crate) fn digest_of(&mut self, at: &ReceiptRef, decision: &Decision, digest: DecidedDigest) -> Option<Key> {
        if let (Some(stated), Some(computed)) = (digest.stated, digest.computed) {
            self.approvals.checked();
            if stated != computed {
                self.approvals.fail("approval-for-other-action", &[at], || {
                    [
                        format!("the decision rests on an approval of {stated}, and what it allows is {computed}"),
                        String::from("which of operation, resource, args, capability and request differs"),
                        String::from("ask who approved what they were shown"),
                    ]
                });
            }
        }
        if decision.approval.is_some() {
            self.approvals.checked();
        }
        digest.stated.or(digest.computed).as_ref().map(half)
    }

    pub(super) fn compare_digests(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        outcome: &Outcome,
        decision: u64,
        open: &Open,
        approval: Option<&Approval>,
    ) -> Result<(), ReadError> {
        if outcome.executed_digest.is_committed() {
            committed(&mut self.digests, at, "executed_digest");
        }
        let Some(executed) = outcome.executed_digest.shown() else { return Ok(()) };
        self.compared += 1;
        let approved = approval.filter(|it| it.answer == Answer::Approved && it.digest.is_some());
        if open.digest.is_none() && approved.is_none() {
            self.digests.not_checked("digest-unknown", &[at], || {
                [
                    format!("the outcome says that {executed} was executed"),
                    String::from(
                        "that this is what was decided: the decision shows neither a digest nor all that goes into one",
                    ),
                    String::from(
                        "ask the gate for the arguments, or have it write them, or the digest, into its decisions",
                    ),
                ]
            });
            return Ok(());
        }
        self.digests.checked();
        let other = |of: &str| {
            [
                format!("what was executed, {executed}, is not what was {of}"),
                String::from("which of operation, resource, args, capability and request differs"),
                String::from(
                    "compare the arguments dispatched with those in the decision; undo the action if nobody can answer for it",
                ),
            ]
        };
        if open.digest.is_some_and(|decided| decided != half(executed)) {
            let code = ("executed-other-than-decided", Fail);
            terms.find(&mut self.digests, code, &[decision], &[at], || other("decided"))?;
        }
        match approved {
            Some(approved) if approved.digest != Some(half(executed)) => {
                let (code, earlier) = (("executed-other-than-approved", Fail), [decision, approved.index]);
                terms.find(&mut self.digests, code, &earlier, &[at], || other("approved"))
            }
            _ => Ok(()),
        }
    }
}
