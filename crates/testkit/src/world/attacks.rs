//! What a lying log, gate or witness does to an honest world, and what an audit must then say.
//!
//! One table in two parts, [`ATTACKS`] and [`CALLS`]: each row has the deed, the codes that must be found with what they do
//! to the verdict, the documents that must convict and whom. What is not provable must be found and convict nobody.
//! Whatever else the audit says must not fail, but for the consequences that the row names.

mod deeds_heads;
mod deeds_rules;
mod deeds_streams;
mod deeds_witnesses;
mod stage;

pub use stage::Stage;

use super::honest::{Oddity, Plan};
use super::random::Random;
use audit::Severity::{self, Fail, NotChecked, Notice};
use audit::{Verdict, check_evidence};
use note::VerifierKey;

/// Who a document must convict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The log.
    Log,
    /// The stage's gate.
    Gate,
    /// The stage's witness.
    Witness,
}

/// What an attack touches. Two that touch different things go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Heads, witnesses, what is shown of the log.
    Heads,
    /// Receipts.
    Receipts,
    /// So much that nothing goes with it.
    Everything,
}

/// One attack and the right answer to it.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What it touches.
    pub touches: Touches,
    /// What must be found.
    pub finds: &'static [(&'static str, Severity)],
    /// What may fail besides, as a consequence.
    pub may: &'static [&'static str],
    /// Which documents must be there, against whom. Documents against anybody else must not.
    pub evidence: &'static [(&'static str, Who)],
    /// The deed.
    pub deed: fn(&mut Stage),
}

const fn attack(
    name: &'static str,
    touches: Touches,
    finds: &'static [(&'static str, Severity)],
    may: &'static [&'static str],
    evidence: &'static [(&'static str, Who)],
    deed: fn(&mut Stage),
) -> Attack {
    Attack { name, touches, finds, may, evidence, deed }
}

use Touches::{Everything, Heads, Receipts};
use Who::{Gate, Log, Witness};

/// Attacks on what is signed: heads, cosignatures, streams, histories.
#[rustfmt::skip]
pub const ATTACKS: &[Attack] = &[
    // The log's heads.
    attack("log forks, same size", Heads, &[("log-fork", Fail)], &[], &[("log-fork", Log)], deeds_heads::fork_same_size),
    attack("log forks, smaller head", Heads, &[("log-fork", Fail)], &[], &[("log-fork", Log)], deeds_heads::fork_smaller),
    attack("log forks, larger head", Heads, &[("omitted-head", Fail)], &[], &[("omitted-head", Log)], deeds_heads::fork_larger),
    attack("log forks in its own list", Heads, &[("log-fork", Fail)], &[], &[("log-fork", Log)], deeds_heads::fork_listed),
    attack("log omits a head from its list", Heads, &[("omitted-head", Fail)], &[], &[("omitted-head", Log)], deeds_heads::omit_head),
    attack("log omits a head, one journal hides it", Heads, &[("omitted-head", Fail)], &[], &[("omitted-head", Log)], deeds_heads::omit_head_with_helper),
    attack("log is rolled back", Everything, &[("omitted-head", Fail)], &[], &[("omitted-head", Log)], deeds_heads::roll_back),
    attack("tail cut below a kept proof", Everything, &[("omitted-head", Fail), ("tail-short", Fail), ("proof-beyond", NotChecked)], &[], &[("omitted-receipt", Log)], deeds_heads::cut_tail),
    attack("log lists a smaller head after a larger", Heads, &[("heads-rollback", Fail)], &[], &[], deeds_heads::list_goes_back),
    attack("old bundle replayed", Everything, &[("stale", Fail), ("silent-witness", NotChecked)], &[], &[], deeds_heads::stale_replay),
    attack("kept proof of another history", Heads, &[("omitted-receipt", Fail), ("log-fork", Fail)], &["tail-short"], &[("log-fork", Log), ("omitted-receipt", Log)], deeds_heads::kept_from_second_history),
    attack("entry changed under a signed head", Everything, &[("root-mismatch", Fail), ("bad-signature", Fail), ("tile-differs", Fail)], &["gap", "never-witnessed", "log-fork", "omitted-receipt", "quorum-missing"], &[], deeds_heads::change_entry),
    // The witnesses.
    attack("witness cosigns two histories", Heads, &[("log-fork", Fail), ("witness-fork", Fail)], &[], &[("log-fork", Log), ("witness-fork", Witness)], deeds_witnesses::two_histories),
    attack("witness hides from its journal what it cosigned", Heads, &[("journal-behind", NotChecked)], &[], &[], deeds_witnesses::hide_cosigned),
    attack("journal rewritten", Heads, &[("journal-root-mismatch", Fail)], &[], &[], deeds_witnesses::rewrite_journal),
    attack("cosignature forged under a witness's name", Heads, &[("bad-cosignature", Fail)], &[], &[], deeds_witnesses::forge_line),
    attack("quorum below what the policy asks", Heads, &[("quorum-missing", Fail)], &[], &[], deeds_witnesses::miss_quorum),
    attack("newest head shown to no witness", Heads, &[("never-witnessed", Fail), ("quorum-missing", Fail)], &[], &[], deeds_witnesses::unwitnessed),
    attack("accusation under a key of the same name", Heads, &[("issuer-fork", Notice)], &[], &[], deeds_witnesses::forged_accusation),
    attack("kept proof made up", Heads, &[("proof-unverified", NotChecked)], &[], &[], deeds_witnesses::made_up_proof),
    // Streams: what a gate signs and a log admits.
    attack("gate skips a seq, log admits it", Receipts, &[("gap", Fail)], &[], &[("log-admitted", Log)], deeds_streams::gap),
    attack("gate forks, log admits both", Receipts, &[("fork", Fail)], &[], &[("issuer-fork", Gate), ("log-admitted", Log)], deeds_streams::fork),
    attack("gate denies its head, log admits it", Receipts, &[("fork", Fail)], &[], &[("issuer-fork", Gate), ("log-admitted", Log)], deeds_streams::deny_head),
    attack("gate forks, other half in a kept proof", Heads, &[("fork", Fail), ("log-fork", Fail), ("omitted-receipt", Fail)], &[], &[("issuer-fork", Gate), ("log-fork", Log), ("omitted-receipt", Log)], deeds_streams::fork_in_kept_proof),
    attack("log admits a bad signature", Receipts, &[("bad-signature", Fail)], &["gap"], &[("log-admitted", Log)], deeds_streams::bad_signature),
    attack("log admits a line too many", Receipts, &[("bad-signature", Fail)], &["gap"], &[("log-admitted", Log)], deeds_streams::line_too_many),
    attack("log admits a receipt twice", Receipts, &[("duplicate", Fail)], &[], &[("log-admitted", Log)], deeds_streams::duplicate),
    attack("log admits what is no receipt", Receipts, &[("malformed", Fail)], &[], &[("log-admitted", Log)], deeds_streams::malformed),
    attack("log reorders a stream", Receipts, &[("gap", Fail), ("out-of-order", Fail)], &[], &[("log-admitted", Log)], deeds_streams::reorder),
    attack("time runs backwards, log admits it", Receipts, &[("time-reversed", Fail)], &[], &[("log-admitted", Log)], deeds_streams::time_reversed),
    attack("gate speaks after its close", Receipts, &[("closed", Fail)], &[], &[("log-admitted", Log)], deeds_streams::after_close),
    attack("gate opens twice", Receipts, &[("bad-open", Fail)], &[], &[("log-admitted", Log)], deeds_streams::open_twice),
    attack("receipt replaced by a stranger's", Receipts, &[("gap", Fail), ("unknown-issuer", NotChecked)], &[], &[("log-admitted", Log)], deeds_streams::replaced_by_stranger),
    attack("gate silent between two receipts", Receipts, &[("silent", Fail)], &[], &[], deeds_streams::silent),
    attack("gate silent at the end", Everything, &[("silent", Fail)], &[], &[], deeds_streams::silent_at_end),
    // What receipts say.
    attack("sequence split over sessions", Receipts, &[("sequence-forbidden", Fail)], &[], &[], deeds_rules::split_sequence),
    attack("prior history denied", Receipts, &[("prior-classes-differ", Fail)], &[], &[], deeds_rules::false_prior),
    attack("root of the log made up", Receipts, &[("history-root-differs", Fail)], &[], &[], deeds_rules::false_root),
    attack("gate judged under another history of the log", Everything, &[("log-fork", Fail), ("omitted-receipt", Fail)], &["tail-short"], &[("log-fork", Log), ("omitted-receipt", Log)], deeds_heads::judged_under_second_history),
    attack("prior head outdated", Receipts, &[("prior-heads-differ", Fail)], &[], &[], deeds_rules::stale_prior_head),
];

/// Attacks in what receipts say of calls: gates whose own words contradict each other.
#[rustfmt::skip]
pub const CALLS: &[Attack] = &[
    attack("outcome of a call nobody asked for", Receipts, &[("outcome-without-decision", Fail)], &[], &[], deeds_rules::outcome_of_nothing),
    attack("two outcomes of one call", Receipts, &[("two-outcomes", Fail)], &[], &[], deeds_rules::two_outcomes),
    attack("outcome before its decision", Receipts, &[("outcome-before-decision", Fail)], &["started-before-decision"], &[], deeds_rules::outcome_first),
    attack("executed after a denial", Receipts, &[("executed-after-deny", Fail)], &[], &[], deeds_rules::executed_after_deny),
    attack("executed something else", Receipts, &[("executed-other-than-decided", Fail)], &[], &[], deeds_rules::executed_something_else),
    attack("a person approved something else", Receipts, &[("approval-for-other-action", Fail)], &["executed-other-than-approved"], &[], deeds_rules::approved_something_else),
    attack("executed after a person declined", Receipts, &[("executed-after-decline", Fail)], &["allowed-after-decline"], &[], deeds_rules::executed_after_decline),
    attack("no outcome by the deadline", Everything, &[("outcome-missing", Fail)], &[], &[], deeds_rules::outcome_missing),
    attack("allowed under an expired capability", Receipts, &[("decided-after-expiry", Fail)], &[], &[], deeds_rules::expired),
    attack("executed by somebody else", Receipts, &[("executor-differs", Fail)], &[], &[], deeds_rules::other_executor),
    attack("allowed without authentication", Receipts, &[("allowed-unauthenticated", Fail)], &[], &[], deeds_rules::unauthenticated),
    attack("bound agent without proof", Receipts, &[("agent-unproven", Fail)], &[], &[], deeds_rules::unproven_agent),
    attack("a claim shown as a fact", Receipts, &[("claim-as-fact", Fail)], &[], &[], deeds_rules::claim_as_fact),
    attack("more calls than the budget", Receipts, &[("budget-exceeded", Fail)], &["allowed-beyond-budget", "calls-used-low"], &[], deeds_rules::budget_exceeded),
    attack("allowed on a spent budget", Receipts, &[("allowed-beyond-budget", Fail)], &[], &[], deeds_rules::allowed_beyond_budget),
    attack("identity changed on untrusted facts", Receipts, &[("untrusted-change", Fail)], &[], &[], deeds_rules::untrusted_change),
    attack("untrusted note in the agent's own voice", Receipts, &[("untrusted-memory-asserted", Fail)], &[], &[], deeds_rules::untrusted_note_asserted),
    attack("untrusted note about permission", Receipts, &[("untrusted-memory-about", Fail)], &[], &[], deeds_rules::untrusted_note_about_permission),
];

/// All attacks.
pub fn all() -> impl Iterator<Item = &'static Attack> + Clone {
    ATTACKS.iter().chain(CALLS)
}

/// One or two attacks on one world.
pub struct Attacked {
    /// What was done.
    pub attacks: Vec<&'static Attack>,
    /// What came of it.
    pub stage: Stage,
    /// The world before.
    pub plan: Plan,
}

/// Honest oddities that go with any attack and leave nothing unchecked.
const WITH: [Oddity; 9] = [
    Oddity::LateOutcome,
    Oddity::DeniedThenRead,
    Oddity::HeadsBetween,
    Oddity::Approvals,
    Oddity::FailedExecutions,
    Oddity::KeptProofs,
    Oddity::FoldedJournals,
    Oddity::MlDsaWitness,
    Oddity::ToldHistory,
];

impl Attacked {
    /// The attack of a seed: every row in turn, two of them together in every third round.
    pub fn of(seed: u64) -> Attacked {
        let attacks: Vec<&Attack> = all().collect();
        let count = attacks.len() as u64;
        let first = attacks[(seed % count) as usize];
        let mut random = Random::new(seed ^ 0x6174_7461_636b);
        let other: Vec<&Attack> = attacks
            .into_iter()
            .filter(|other| {
                first.touches != Everything && other.touches != Everything && other.touches != first.touches
            })
            .collect();
        let together = (seed / count) % 3 == 2 && !other.is_empty();
        let attacks = if together { vec![first, *random.pick(&other)] } else { vec![first] };
        Attacked::by(seed, attacks, random)
    }

    /// These attacks on the world of a seed.
    pub fn by(seed: u64, mut attacks: Vec<&'static Attack>, mut random: Random) -> Attacked {
        let oddities: Vec<Oddity> = (0..2).map(|_| *random.pick(&WITH)).collect();
        let plan = Plan::of(seed).with(oddities);
        let mut stage = Stage::new(&plan, random);
        // Receipts first: what heads are made over is there by then.
        attacks.sort_by_key(|attack| attack.touches != Receipts);
        attacks.iter().for_each(|attack| (attack.deed)(&mut stage));
        Attacked { attacks, stage, plan }
    }

    /// Whether the verdict is the right answer.
    ///
    /// # Errors
    /// What it says too little or too much.
    pub fn answered_by(&self, verdict: &Verdict) -> Result<(), String> {
        let finds = || self.attacks.iter().flat_map(|attack| attack.finds);
        let findings = || verdict.checks.iter().flat_map(|check| &check.findings);
        for (code, severity) in finds() {
            if !findings().any(|finding| finding.code == *code && finding.severity == *severity) {
                return Err(format!("not found: {code} {severity:?}"));
            }
        }
        let is_expected = |code: &str| {
            finds().any(|(found, _)| *found == code) || self.attacks.iter().any(|attack| attack.may.contains(&code))
        };
        if let Some(more) = findings().find(|finding| finding.severity == Fail && !is_expected(finding.code)) {
            return Err(format!("fails besides: {}", more.code));
        }
        self.convicts(verdict)?;
        let worst = |severity| finds().any(|(_, found)| *found == severity);
        let exit = if worst(Fail) { 1 } else { 2 * u8::from(worst(NotChecked)) };
        if verdict.exit_code != exit {
            return Err(format!("exit code {}, not {exit}", verdict.exit_code));
        }
        Ok(())
    }

    fn convicts(&self, verdict: &Verdict) -> Result<(), String> {
        let known: Vec<VerifierKey> = self.stage.world.gates.iter().map(|gate| gate.registered.verifier()).collect();
        let mut shown = Vec::new();
        for document in &verdict.evidence {
            let proven = check_evidence(&document.to_string(), &known);
            shown.push(proven.map_err(|error| format!("a document that does not check: {error}: {document}"))?);
        }
        let expected: Vec<(&str, VerifierKey)> = self
            .attacks
            .iter()
            .flat_map(|attack| attack.evidence)
            .map(|(kind, who)| (*kind, self.stage.key_of(*who)))
            .collect();
        for (kind, key) in &expected {
            if !shown.iter().any(|proven| proven.kind == *kind && proven.key == *key) {
                return Err(format!("no {kind} against {key}"));
            }
        }
        match shown.iter().find(|proven| !expected.iter().any(|(kind, key)| proven.kind == *kind && proven.key == *key))
        {
            Some(more) => Err(format!("a {} against {} that nobody expects: {}", more.kind, more.key, more.sentence)),
            None => Ok(()),
        }
    }
}
