//! Worlds in which nobody lies, with what happens to honest people all the same.

use super::gate::{Call, Gate};
use super::random::Random;
use super::witness::Witness;
use super::{Asked, World};
use receipt::commit;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Something that looks odd and accuses nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// An outcome is logged long after its decision.
    LateOutcome,
    /// A gate submits a receipt again; the log answers with the index it has.
    SubmittedAgain,
    /// A witness does not look for a day.
    WitnessDown,
    /// A witness's newest cosignature is over an older head.
    LaggingWitness,
    /// The auditor names an issuer that wrote nothing here.
    EmptyIssuer,
    /// A call is denied, and a harmless one follows.
    DeniedThenRead,
    /// A gate changes its key.
    KeyRotation,
    /// The log stood still for an hour, and lists its last head again.
    LogRestart,
    /// A gate's clock is a little off.
    SkewedClock,
    /// The log signs heads that nobody is offered.
    HeadsBetween,
    /// Seven gates.
    ManyGates,
    /// Members of a decision are only committed to.
    CommittedMembers,
    /// A person agrees.
    Approvals,
    /// An allowed action fails.
    FailedExecutions,
    /// A capability is used exactly as often as it allows; the next call is denied.
    BudgetUsedUp,
    /// Notes from trusted sources, and quoted ones from others.
    Memory,
    /// Another system's receipts.
    ForeignRecords,
    /// Heartbeats come exactly at the limit.
    HeartbeatAtLimit,
    /// A gate closes its stream, and says nothing for ever after.
    CloseAndSilence,
    /// A witness has an ML-DSA-44 key beside its Ed25519 key.
    MlDsaWitness,
    /// Journals fold looks that found nothing new.
    FoldedJournals,
    /// Proofs that somebody kept.
    KeptProofs,
    /// A recovery, and only then a mutation.
    RecoveryBeforeMutation,
    /// A mutation, and the recovery after it denied.
    DeniedRecovery,
    /// Decisions that say what history they were judged by.
    ToldHistory,
    /// The log signs one more head while the bundle is fetched.
    LogMovedOn,
    /// A receipt of a type that nobody knows yet.
    UnknownType,
    /// The auditor gives times, and looks a minute after the last head.
    AskedWithTimes,
}

impl Oddity {
    /// All of them.
    pub const ALL: [Oddity; 28] = [
        Oddity::LateOutcome,
        Oddity::SubmittedAgain,
        Oddity::WitnessDown,
        Oddity::LaggingWitness,
        Oddity::EmptyIssuer,
        Oddity::DeniedThenRead,
        Oddity::KeyRotation,
        Oddity::LogRestart,
        Oddity::SkewedClock,
        Oddity::HeadsBetween,
        Oddity::ManyGates,
        Oddity::CommittedMembers,
        Oddity::Approvals,
        Oddity::FailedExecutions,
        Oddity::BudgetUsedUp,
        Oddity::Memory,
        Oddity::ForeignRecords,
        Oddity::HeartbeatAtLimit,
        Oddity::CloseAndSilence,
        Oddity::MlDsaWitness,
        Oddity::FoldedJournals,
        Oddity::KeptProofs,
        Oddity::RecoveryBeforeMutation,
        Oddity::DeniedRecovery,
        Oddity::ToldHistory,
        Oddity::LogMovedOn,
        Oddity::UnknownType,
        Oddity::AskedWithTimes,
    ];

    /// What an audit may say that it could not check because of it.
    pub fn leaves_unchecked(self) -> &'static [&'static str] {
        match self {
            Oddity::EmptyIssuer => &["issuer-absent"],
            Oddity::LaggingWitness => &["silent-witness"],
            // The witnesses of a world rest for longer than any auditor would like.
            Oddity::AskedWithTimes => &["not-fresh"],
            Oddity::CommittedMembers => {
                &["member-committed", "prior-unjudged", "prior-heads-unjudged", "digest-unknown"]
            }
            _ => &[],
        }
    }
}

/// What a world is to be like.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where everything comes from.
    pub seed: u64,
    /// Gates.
    pub gates: usize,
    /// Witnesses, and how many must agree.
    pub witnesses: (usize, usize),
    /// Heads that are offered.
    pub rounds: usize,
    /// What happens besides.
    pub oddities: BTreeSet<Oddity>,
}

impl Plan {
    /// The plan of a seed: three to eight oddities.
    pub fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let count = random.between(3, 8);
        let oddities: BTreeSet<Oddity> = (0..count).map(|_| *random.pick(&Oddity::ALL)).collect();
        let gates = if oddities.contains(&Oddity::ManyGates) { 7 } else { random.between(1, 3) as usize };
        let witnesses = *random.pick(&[(3, 2), (3, 2), (4, 3), (5, 3)]);
        Plan { seed, gates, witnesses, rounds: random.between(2, 5) as usize, oddities }
    }

    /// The same with these oddities only.
    pub fn with(mut self, oddities: impl IntoIterator<Item = Oddity>) -> Plan {
        self.oddities = oddities.into_iter().collect();
        self.gates = self.gates.min(3);
        self
    }

    /// Whether this happens.
    pub fn has(&self, oddity: Oddity) -> bool {
        self.oddities.contains(&oddity)
    }

    /// The world.
    pub fn world(&self) -> World {
        let mut life = Life {
            world: World::new(0, self.witnesses.0, self.witnesses.1),
            plan: self,
            random: Random::new(self.seed ^ 0x6c69_6665),
            sessions: 0,
        };
        life.begin();
        for round in 0..self.rounds {
            life.round(round);
        }
        life.end();
        life.world
    }
}

/// A world while it is made.
struct Life<'plan> {
    world: World,
    plan: &'plan Plan,
    random: Random,
    sessions: u64,
}

const HOUR_MS: u64 = 3_600_000;

impl Life<'_> {
    fn has(&self, oddity: Oddity) -> bool {
        self.plan.has(oddity)
    }

    fn begin(&mut self) {
        let skewed = self.has(Oddity::SkewedClock);
        self.world.early_ms = if self.has(Oddity::HeartbeatAtLimit) { 0 } else { 10_000 };
        for number in 1..=self.plan.gates {
            let mut gate = Gate::new(&format!("gate.example/support-{number}"));
            gate.heartbeat_ms = (self.has(Oddity::HeartbeatAtLimit) || self.random.once_in(2)).then_some(HOUR_MS);
            gate.skew_ms = if skewed { self.random.between(0, 6000) as i64 - 3000 } else { 0 };
            self.world.add_gate(gate);
            self.world.wait(5);
        }
        if self.has(Oddity::EmptyIssuer) {
            self.world.absent.push(Gate::new("gate.example/elsewhere"));
        }
        if self.has(Oddity::MlDsaWitness) {
            self.world.witnesses[0] = Witness::new("witness-1.example", true);
        }
        let folds = self.has(Oddity::FoldedJournals);
        self.world.witnesses.iter_mut().for_each(|witness| witness.folds = folds);
    }

    fn round(&mut self, round: usize) {
        let calls = self.random.between(1, 3) * self.plan.gates as u64;
        for _ in 0..calls.min(8) {
            let gate = self.random.place(self.plan.gates);
            let pause_ms = self.random.between(50, 3000);
            self.world.wait(pause_ms);
            self.ordinary(gate);
        }
        for oddity in self.plan.oddities.iter().copied().collect::<Vec<_>>() {
            // The sessions in the foreign records have names of their own, which come once in a world.
            if round == 0 || self.random.once_in(2) && oddity != Oddity::ForeignRecords {
                let gate = self.random.place(self.plan.gates);
                self.odd(oddity, gate);
                self.world.wait(200);
            }
        }
        if self.has(Oddity::HeadsBetween) {
            self.world.log.seal();
            self.world.wait(300);
            self.ordinary(0);
        }
        self.world.seal();
        self.world.wait(200);
        let last = round + 1 == self.plan.rounds;
        let absent = self.absent_witnesses(round, last);
        let looking: Vec<usize> = (0..self.plan.witnesses.0).filter(|witness| !absent.contains(witness)).collect();
        self.world.look(looking.iter().copied());
        if self.has(Oddity::KeptProofs) {
            let index = self.random.below(self.world.log.size().0);
            self.world.keep(&format!("kept-{round}"), merkle::LeafIndex(index));
        }
        // The log is quiet for a while; witnesses look again.
        for _ in 0..self.random.below(3) {
            self.world.wait(60_000);
            self.world.look(looking.iter().copied());
        }
        if !last {
            let quiet_ms = match self.has(Oddity::WitnessDown) && round == 0 {
                true => 24 * HOUR_MS,
                false => self.random.between(1, 2 * HOUR_MS),
            };
            self.world.wait(quiet_ms);
        }
    }

    /// Witnesses that do not look in this round.
    fn absent_witnesses(&self, round: usize, last: bool) -> Vec<usize> {
        let spare = self.plan.witnesses.0 - self.plan.witnesses.1;
        let down = self.has(Oddity::WitnessDown) && round > 0 && !last;
        let lagging = self.has(Oddity::LaggingWitness) && last && round > 0;
        if spare > 0 && (down || lagging) { vec![self.plan.witnesses.0 - 1] } else { Vec::new() }
    }

    fn end(&mut self) {
        if self.has(Oddity::CloseAndSilence) {
            let gate = self.plan.gates - 1;
            self.world.say(gate, &json!({"type": "close"}));
            self.world.wait(3 * HOUR_MS);
        }
        self.world.wait(1000);
        self.world.seal();
        // The lagging one stays where it is.
        let lagging = self.absent_witnesses(1, true);
        self.world.look((0..self.plan.witnesses.0).filter(|witness| !lagging.contains(witness)));
        if self.has(Oddity::AskedWithTimes) {
            self.world.asked = Asked {
                at_ms: Some(self.world.now_ms + 60_000),
                max_age_ms: Some(300_000),
                outcome_deadline_ms: Some(HOUR_MS),
            };
        }
        if self.has(Oddity::LogMovedOn) {
            self.world.wait(100);
            self.ordinary(0);
            self.world.log.seal();
        }
        self.world.beside.insert(String::from("policy"), self.world.policy_text().into_bytes());
    }

    fn session(&mut self) -> String {
        self.sessions += 1;
        format!("s-{}", self.sessions)
    }

    fn subject(&mut self) -> String {
        format!("customer:{}", self.random.below(1_000_000_000_000))
    }

    fn call(&mut self, class: &'static str) -> Call {
        let (session, subject) = (self.session(), self.subject());
        let operation = match class {
            "READ" => "crm.read",
            "IDENTITY_MUTATION" => "crm.update_email",
            "CREDENTIAL_RECOVERY" => "idp.reset_password",
            _ => "mail.send",
        };
        self.world.call(&session, operation, class, &subject)
    }

    /// A call like any other.
    fn ordinary(&mut self, gate: usize) {
        if self.world.gates[gate].closed {
            return;
        }
        let class = *self.random.pick(&["READ", "READ", "MESSAGE", "IDENTITY_MUTATION", "CREDENTIAL_RECOVERY"]);
        let call = self.call(class);
        if self.random.once_in(5) {
            self.world.say(gate, &call.decision(false));
        } else {
            self.world.carry_out(gate, &call);
        }
    }

    fn odd(&mut self, oddity: Oddity, gate: usize) {
        match oddity {
            Oddity::LateOutcome => {
                let call = self.call("READ");
                let decision = self.world.say(gate, &call.decision(true));
                self.world.wait(3 * HOUR_MS);
                self.world.conclude(gate, &call, &decision, true);
            }
            // What the log has is not logged again: there is nothing to see.
            Oddity::SubmittedAgain => self.ordinary(gate),
            Oddity::DeniedThenRead => {
                let denied = self.call("IDENTITY_MUTATION");
                self.world.say(gate, &denied.decision(false));
                self.world.wait(100);
                let read = self.world.call(&denied.session, "crm.read", "READ", &denied.subject);
                self.world.carry_out(gate, &read);
            }
            Oddity::KeyRotation => {
                let rotate = self.world.gates[gate].rotate(self.world.now_ms);
                self.world.log_receipt(&rotate);
                self.ordinary(gate);
            }
            Oddity::LogRestart => {
                self.world.wait(HOUR_MS);
                self.world.log.seal();
                self.world.log.seal();
            }
            Oddity::CommittedMembers => {
                let call = self.call("MESSAGE");
                let mut body = call.decision(true);
                let salt = self.random.bits().to_be_bytes();
                let salt: [u8; 16] = std::array::from_fn(|place| salt[place % 8] ^ place as u8);
                let name = *self.random.pick(&["args", "session", "resource", "subjects", "operation"]);
                body[name] = commit(name, &body[name], salt).0;
                let decision = self.world.say(gate, &body);
                self.world.conclude(gate, &call, &decision, true);
            }
            Oddity::Approvals => {
                let mut call = self.call("IDENTITY_MUTATION");
                call.approved = true;
                self.world.carry_out(gate, &call);
            }
            Oddity::FailedExecutions => {
                let call = self.call("MESSAGE");
                let decision = self.world.say(gate, &call.decision(true));
                self.world.conclude(gate, &call, &decision, false);
            }
            Oddity::BudgetUsedUp => self.budget(gate),
            Oddity::Memory => self.memory(gate),
            Oddity::ForeignRecords => self.foreign(gate),
            Oddity::RecoveryBeforeMutation => {
                let recovery = self.call("CREDENTIAL_RECOVERY");
                self.world.carry_out(gate, &recovery);
                let (session, subject) = (&recovery.session, &recovery.subject);
                let mutation = self.world.call(session, "crm.update_email", "IDENTITY_MUTATION", subject);
                self.world.carry_out(gate, &mutation);
            }
            Oddity::DeniedRecovery => {
                let mutation = self.call("IDENTITY_MUTATION");
                self.world.carry_out(gate, &mutation);
                let (session, subject) = (&mutation.session, &mutation.subject);
                let recovery = self.world.call(session, "idp.reset_password", "CREDENTIAL_RECOVERY", subject);
                self.world.say(gate, &recovery.decision(false));
            }
            Oddity::ToldHistory => self.told_history(gate),
            Oddity::UnknownType => drop(self.world.say(gate, &json!({"type": "weather", "wind": 3}))),
            Oddity::HeartbeatAtLimit => self.world.wait(2 * HOUR_MS),
            // These are about the whole world.
            Oddity::WitnessDown
            | Oddity::LaggingWitness
            | Oddity::EmptyIssuer
            | Oddity::SkewedClock
            | Oddity::HeadsBetween
            | Oddity::ManyGates
            | Oddity::CloseAndSilence
            | Oddity::MlDsaWitness
            | Oddity::FoldedJournals
            | Oddity::KeptProofs
            | Oddity::LogMovedOn
            | Oddity::AskedWithTimes => {}
        }
    }

    fn budget(&mut self, gate: usize) {
        let max_calls = self.random.between(1, 3);
        let id = format!("cap-{}", self.random.bits());
        for used in 0..=max_calls {
            let mut call = self.call("MESSAGE");
            call.capability = Some((id.clone(), max_calls));
            call.used = used;
            if used < max_calls {
                self.world.carry_out(gate, &call);
            } else {
                let mut body = call.decision(false);
                body["rule"] = "call_limit_exceeded".into();
                body["proven"] =
                    json!(["capability_signature", "request_signature", "nonce_fresh", "params_match", "not_expired"]);
                self.world.say(gate, &body);
            }
            self.world.wait(70);
        }
    }

    fn memory(&mut self, gate: usize) {
        let digest = self.call("READ").digest();
        let note = |source: &str, trust: &str, form: &str| json!({"type": "memory", "note_digest": digest, "source": source, "trust": trust, "form": form, "about": ["preference"]});
        self.world.say(gate, &note("crm", "trusted", "asserted"));
        self.world.say(gate, &note("ticket", "untrusted", "quoted"));
    }

    fn foreign(&mut self, gate: usize) {
        let customer = format!("cust_{}", self.random.below(1_000_000_000_000));
        let lines =
            if self.random.once_in(2) { crate::seeds::run_e(&customer) } else { crate::seeds::run_c(&customer) };
        for record in audit::import_lines("sequence-attack-repro", &lines.join("\n")).expect("the seeds are records") {
            let body: Value = serde_json::from_str(&record.body_json).expect("what was imported is a body");
            self.world.say(gate, &body);
        }
    }

    /// Decisions that say what they were judged by: the session's classes, the subject's head, the log's root; the last as often
    /// under a head as after a part of what is under one.
    fn told_history(&mut self, gate: usize) {
        let (session, subject) = (self.session(), self.subject());
        for class in ["READ", "MESSAGE", "READ"] {
            let call = self.world.call(&session, "crm.any", class, &subject);
            let mut body = call.decision(true);
            let state = &self.world.gates[gate];
            body["prior_action_classes"] = state.allowed.get(&session).cloned().unwrap_or_default().into();
            if let Some(head) = state.subject_heads.get(&subject) {
                body["prior_heads"] = json!({ subject.as_str(): head.to_string() });
            }
            let log = &self.world.log;
            let sealed = log.heads.last().map_or(0, |head| head.checkpoint().size.0);
            let size = if self.random.once_in(2) { sealed } else { self.random.below(sealed + 1) };
            let root = merkle::root_of(&log.tree, merkle::TreeSize(size)).expect("the tree holds all its hashes");
            body["history"] = json!({"size": size, "root": root.0.to_base64(), "witnessed": true});
            let decision = self.world.say(gate, &body);
            self.world.wait(40);
            self.world.conclude(gate, &call, &decision, true);
        }
    }
}
