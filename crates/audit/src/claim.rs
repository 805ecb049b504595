//! The claim family: who the agent is said to be, and what stands behind it.
//!
//! Only the agent that a verified capability is bound to is a fact (protocol 3.1, 3.2). An outcome shows the bound
//! agent; where there is none it shows the claimed one and says `authenticated: false`.

use crate::amount::amount;
use crate::bundle::ReadError;
use crate::calls::CallTerms;
use crate::key::Key;
use crate::pairs::{NONE, Open};
use crate::quote::quoted;
use crate::request::committed;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef, Severity};
use receipt::body::{Decision, Outcome, Proven, Ruling, Shown};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use Severity::{Fail, NotChecked, Notice};

/// Most agents that are told apart: some forty bytes each. Beyond, an outcome's agent is compared with none.
const MAX_AGENTS: usize = 1_000_000;

/// A bound agent that is not told apart any more.
const BEYOND: u32 = NONE - 1;

/// The claim family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClaimChecks {
    agents: CheckBuilder,
    numbers: HashMap<Key, u32>,
    decisions: u64,
    bound: u64,
    shown: u64,
}

impl ClaimChecks {
    pub(crate) fn new() -> ClaimChecks {
        ClaimChecks {
            agents: CheckBuilder::new(Family::Claim, "agents"),
            numbers: HashMap::new(),
            decisions: 0,
            bound: 0,
            shown: 0,
        }
    }

    /// What a decision says of who asked.
    pub(crate) fn decision(&mut self, at: &ReceiptRef, decision: &Decision) {
        self.decisions += 1;
        self.agents.checked();
        let may_be_allowed = decision.ruling.shown() != Some(&Ruling::Deny);
        match decision.authenticated.shown() {
            None if may_be_allowed => committed(&mut self.agents, at, "authenticated"),
            Some(false) if decision.ruling.shown() == Some(&Ruling::Allow) => {
                self.agents.fail("allowed-unauthenticated", &[at], || {
                    [
                        String::from(
                            "the gate allowed a call whose request, by the same receipt, was not authenticated",
                        ),
                        String::from("who asked"),
                        String::from("find out why the gate did not refuse; look at what the call did"),
                    ]
                });
            }
            _ => {}
        }
        let proven = decision.proven.shown().map(Vec::as_slice).unwrap_or_default();
        if decision.bound_agent.is_some() {
            self.bound += 1;
            if decision.proven.is_committed() {
                committed(&mut self.agents, at, "proven");
            } else if !proven.contains(&Proven::CapabilitySignature) {
                self.agents.fail("agent-unproven", &[at], || {
                    let agent = decision.bound_agent.shown().map_or(String::from("an agent"), |agent| quoted(agent));
                    [
                        format!("the gate shows {agent} as the one that the capability is bound to, and not that it verified the capability's signature"),
                        String::from("who asked"),
                        String::from("do not count this receipt for or against that agent"),
                    ]
                });
            }
        } else if let Some(agent) = decision.claimed_agent.shown()
            && !proven.contains(&Proven::RequestSignature)
            && !proven.contains(&Proven::CapabilitySignature)
        {
            self.agents.notice("agent-claimed", &[at], || {
                [
                    format!("the agent shown, {}, is the caller's own claim; the receipt shows nothing that was proven of it", quoted(agent)),
                    String::from("who asked"),
                    String::from("do not count this receipt for or against that agent"),
                ]
            });
        }
    }

    /// Number of the agent that an allowed call's capability is bound to.
    pub(crate) fn bound_agent(&mut self, decision: &Decision) -> u32 {
        let Some(agent) = decision.bound_agent.shown() else { return NONE };
        let key = Key::new(&[agent]);
        let next = self.numbers.len();
        match self.numbers.get(&key) {
            Some(number) => *number,
            None if next >= MAX_AGENTS => BEYOND,
            None => {
                self.numbers.insert(key, next as u32);
                next as u32
            }
        }
    }

    /// The agent that an outcome shows, against its decision.
    pub(crate) fn outcome(
        &mut self,
        terms: &CallTerms<'_>,
        at: &ReceiptRef,
        outcome: &Outcome,
        decision: u64,
        open: &Open,
    ) -> Result<(), ReadError> {
        let Some(agent) = outcome.agent.shown() else { return Ok(()) };
        self.shown += 1;
        if outcome.authenticated.is_committed() || open.agent_hidden {
            committed(&mut self.agents, at, if open.agent_hidden { "bound_agent" } else { "authenticated" });
            return Ok(());
        }
        let as_fact = outcome.authenticated.shown().copied();
        let agent_is = |number: u32| self.numbers.get(&Key::new(&[agent])) == Some(&number);
        let (code, shown) = match (open.bound_agent, as_fact) {
            (BEYOND, _) | (NONE, Some(false)) => return Ok(()),
            (NONE, Some(true)) => (
                ("claim-as-fact", Fail),
                "as authenticated, and its decision has no bound agent: only a claim stands behind it",
            ),
            (NONE, None) => (
                ("agent-standing-unknown", NotChecked),
                "without saying whether it is a claim, and its decision has no bound agent",
            ),
            (bound, _) if agent_is(bound) => return Ok(()),
            (_, Some(false)) => {
                (("agent-differs", Notice), "as a claim; the capability of its decision is bound to another")
            }
            (_, _) => (("agent-differs", Fail), "and the capability of its decision is bound to another"),
        };
        terms.find(&mut self.agents, code, &[decision], &[at], || {
            [
                format!("the outcome shows the agent {}, {shown}", quoted(agent)),
                String::from("who acted"),
                String::from("do not count this receipt for or against that agent; ask the gate's operator"),
            ]
        })
    }

    pub(crate) fn finish(mut self) -> Check {
        self.agents.required(self.decisions > 0);
        self.agents.finish(match self.decisions {
            0 => String::from("nothing of this kind in the log"),
            decisions => format!(
                "{}, {} with a bound agent; {} that show an agent",
                amount(decisions, "decision", "decisions"),
                self.bound,
                amount(self.shown, "paired outcome", "paired outcomes")
            ),
        })
    }
}
