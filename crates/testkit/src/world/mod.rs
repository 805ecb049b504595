//! Whole worlds in memory: a log, witnesses, gates, and the bundle that an auditor would fetch from them.
//!
//! | module | holds |
//! |---|---|
//! | [`honest`] | worlds in which nobody lies, with every benign oddity |
//! | [`attacks`] | what a lying log, gate or witness does to one, and what an audit must then say |
//! | [`mutation`] | what somebody without any key does to a bundle |
//! | [`accepted`] | why a bundle that is not as it was may be accepted all the same |
//!
//! Everything comes from a seed: no clock, no randomness, no disk. A seed that failed fails again.

pub mod accepted;
pub mod attacks;
pub mod gate;
pub mod honest;
pub mod keys;
pub mod mutation;
pub mod random;
pub mod seeds;
pub mod tiled;
pub mod witness;

use audit::{AuditedIssuer, MemoryBundle, Rules, Terms, Verdict, parse_issuers};
use gate::{Call, Gate, Logged};
use merkle::LeafIndex;
use note::{KeyKind, Policy, SignedCheckpoint, TlogProof, Verified};
use receipt::{IssuerForkEvidence, Receipt, UnixMillis};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiled::TiledLog;
use witness::Witness;

/// When every world begins, in Unix milliseconds: 2026-11-29T12:00:00Z.
pub const START_MS: u64 = 1_795_953_600_000;

/// The log's origin.
pub const ORIGIN: &str = "log.example/agents";

/// The times that the auditor gives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// `--at`, in milliseconds.
    pub at_ms: Option<u64>,
    /// `--max-age`, in milliseconds.
    pub max_age_ms: Option<u64>,
    /// `--outcome-deadline`, in milliseconds.
    pub outcome_deadline_ms: Option<u64>,
}

/// A log, its witnesses, its gates; and what an auditor knows of them.
#[derive(Clone, Debug)]
pub struct World {
    /// The log.
    pub log: TiledLog,
    /// The head it offers for cosigning.
    pub offered: Option<SignedCheckpoint<Verified>>,
    /// The witnesses of the policy.
    pub witnesses: Vec<Witness>,
    /// How many of them must agree.
    pub quorum: usize,
    /// The gates that write to it.
    pub gates: Vec<Gate>,
    /// Gates that the auditor knows and that write elsewhere.
    pub absent: Vec<Gate>,
    /// Files that the bundle has besides: kept proofs, copies of the auditor's own.
    pub beside: BTreeMap<String, Vec<u8>>,
    /// The time.
    pub now_ms: u64,
    /// How long before its limit a gate sends its heartbeat, in milliseconds.
    pub early_ms: u64,
    /// The times that the auditor gives.
    pub asked: Asked,
    requests: u64,
}

impl World {
    /// Gates that have opened their streams; no head yet.
    pub fn new(gates: usize, witnesses: usize, quorum: usize) -> World {
        let mut world = World {
            log: TiledLog::new(ORIGIN),
            offered: None,
            witnesses: (1..=witnesses)
                .map(|number| Witness::new(&format!("witness-{number}.example"), false))
                .collect(),
            quorum,
            gates: Vec::new(),
            absent: Vec::new(),
            beside: BTreeMap::new(),
            now_ms: START_MS,
            early_ms: 0,
            asked: Asked::default(),
            requests: 0,
        };
        for number in 1..=gates {
            world.add_gate(Gate::new(&format!("gate.example/support-{number}")));
        }
        world
    }

    /// A gate opens its stream. Answers its number.
    pub fn add_gate(&mut self, mut gate: Gate) -> usize {
        let open = gate.open(self.now_ms);
        self.gates.push(gate);
        self.log_receipt(&open);
        self.gates.len() - 1
    }

    /// The gate says something, and the log holds it.
    pub fn say(&mut self, gate: usize, body: &Value) -> Logged {
        let receipt = self.gates[gate].issue(body, self.now_ms);
        self.log_receipt(&receipt)
    }

    /// The log holds a receipt, whether it should or not.
    pub fn log_receipt(&mut self, receipt: &Receipt) -> Logged {
        Logged { index: self.log.push(receipt.bytes().to_vec()), receipt: receipt.clone() }
    }

    /// A call like no other before it.
    pub fn call(&mut self, session: &str, operation: &'static str, class: &'static str, subject: &str) -> Call {
        self.requests += 1;
        Call {
            request: format!("r-{}", self.requests),
            session: session.to_owned(),
            operation,
            class,
            resource: format!("record-of-{subject}"),
            subject: subject.to_owned(),
            capability: None,
            used: 0,
            approved: false,
        }
    }

    /// A call, allowed and carried out.
    pub fn carry_out(&mut self, gate: usize, call: &Call) -> Logged {
        let decision = self.say(gate, &call.decision(true));
        self.wait(30);
        if call.approved {
            self.say(gate, &call.approval(decision.receipt.id()));
            self.wait(30);
        }
        self.conclude(gate, call, &decision, true);
        decision
    }

    /// What became of a call.
    pub fn conclude(&mut self, gate: usize, call: &Call, decision: &Logged, executed: bool) -> Logged {
        let now_ms = self.gates[gate].clock(self.now_ms).0;
        self.say(gate, &call.outcome(decision.receipt.id(), executed, now_ms))
    }

    /// Time goes by, and every gate says something before its limit.
    pub fn wait(&mut self, ms: u64) {
        let until_ms = self.now_ms + ms;
        loop {
            let due = |gate: &Gate| {
                let heartbeat_ms = gate.heartbeat_ms.filter(|_| !gate.closed && !gate.muted)?;
                let due_ms = gate.last_ms() + heartbeat_ms.saturating_sub(self.early_ms);
                Some(due_ms.saturating_add_signed(-gate.skew_ms))
            };
            let first = self.gates.iter().enumerate().filter_map(|(place, gate)| Some((due(gate)?, place))).min();
            let Some((due_ms, gate)) = first.filter(|(due_ms, _)| *due_ms <= until_ms) else { break };
            self.now_ms = due_ms.max(self.now_ms);
            self.say(gate, &json!({"type": "heartbeat"}));
        }
        self.now_ms = until_ms;
    }

    /// The log signs a head and offers it.
    pub fn seal(&mut self) -> SignedCheckpoint<Verified> {
        let head = self.log.seal();
        self.offered = Some(head.clone());
        head
    }

    /// These witnesses look at what the log offers.
    pub fn look(&mut self, witnesses: impl IntoIterator<Item = usize>) {
        let Some(offered) = self.offered.clone() else { return };
        for witness in witnesses {
            self.witnesses[witness].look(&offered, self.now_ms);
        }
    }

    /// A head, and all witnesses look at it.
    pub fn seal_and_look(&mut self) -> SignedCheckpoint<Verified> {
        let head = self.seal();
        self.look(0..self.witnesses.len());
        head
    }

    /// Somebody keeps the proof of an entry under the offered head.
    pub fn keep(&mut self, name: &str, index: LeafIndex) {
        let Some((proof, entry)) = self.proof(index) else { return };
        self.beside.insert(format!("proofs/{name}.tlog-proof"), proof);
        self.beside.insert(format!("proofs/{name}.entry"), entry);
    }

    /// The proof of an entry under the offered head, and the entry, if the head covers it.
    pub fn proof(&self, index: LeafIndex) -> Option<(Vec<u8>, Vec<u8>)> {
        let head = self.offered.as_ref()?;
        let proof = TlogProof {
            extra: None,
            index,
            inclusion: merkle::prove_inclusion(&self.log.tree, index, head.checkpoint().size).ok()?,
            checkpoint: self.with_cosignatures(head).into_unverified(),
        };
        Some((proof.to_string().into_bytes(), self.log.entries[index.0 as usize].clone()))
    }

    /// A head with the lines of every witness that holds just it.
    pub fn with_cosignatures(&self, head: &SignedCheckpoint<Verified>) -> SignedCheckpoint<Verified> {
        let holds =
            |witness: &&Witness| witness.held.as_ref().is_some_and(|held| held.note().text() == head.note().text());
        let lines: Vec<_> = self.witnesses.iter().filter(holds).flat_map(Witness::held_lines).collect();
        head.with_cosignatures(&lines)
    }

    /// What an auditor fetches.
    pub fn bundle(&self) -> MemoryBundle {
        let mut bundle = MemoryBundle::new();
        self.log.write(&mut bundle, "log/");
        self.log.write_heads(&mut bundle, "log/");
        if let Some(offered) = &self.offered {
            bundle.insert("log/checkpoint", self.with_cosignatures(offered).bytes());
        }
        for witness in &self.witnesses {
            witness.write(&mut bundle, self.now_ms);
        }
        for (path, bytes) in &self.beside {
            bundle.insert(path, bytes.as_slice());
        }
        bundle
    }

    /// The auditor's policy: a witness with two keys counts once.
    pub fn policy_text(&self) -> String {
        let mut text = format!("log {}\n", self.log.key.verifier());
        let mut members = String::new();
        for (place, witness) in self.witnesses.iter().enumerate() {
            let number = place + 1;
            match witness.keys.as_slice() {
                [key] => text.push_str(&format!("witness w{number} {}\n", key.verifier())),
                keys => {
                    let names: Vec<String> = (1..=keys.len()).map(|key| format!("w{number}-{key}")).collect();
                    for (name, key) in names.iter().zip(keys) {
                        text.push_str(&format!("witness {name} {}\n", key.verifier()));
                    }
                    text.push_str(&format!("group w{number} any {}\n", names.join(" ")));
                }
            }
            members.push_str(&format!(" w{number}"));
        }
        text + &format!("group enough {}{members}\nquorum enough\n", self.quorum)
    }

    /// The policy.
    ///
    /// # Panics
    /// If there are no witnesses, or fewer than the quorum.
    pub fn policy(&self) -> Policy {
        Policy::parse(self.policy_text().as_bytes()).expect("a world's policy is one")
    }

    /// The auditor's issuers file: the key that each gate was registered with.
    pub fn issuers_text(&self) -> String {
        self.gates.iter().chain(&self.absent).map(|gate| format!("{}\n", gate.registered.verifier())).collect()
    }

    /// The issuers.
    ///
    /// # Panics
    /// Never: gates have different names.
    pub fn issuers(&self) -> Vec<AuditedIssuer> {
        parse_issuers(&self.issuers_text()).expect("a world's issuers file is one")
    }

    /// The verdict over a bundle, by what this world's auditor knows.
    ///
    /// # Panics
    /// Never: memory can be read.
    pub fn audit(&self, bundle: &MemoryBundle) -> Verdict {
        let (policy, issuers, rules) = (self.policy(), self.issuers(), Rules::built_in());
        let terms = Terms {
            policy: &policy,
            issuers: &issuers,
            rules: &rules,
            at: self.asked.at_ms.map(UnixMillis),
            max_age_ms: self.asked.max_age_ms,
            outcome_deadline_ms: self.asked.outcome_deadline_ms,
            threads: 1,
            progress: &|_, _| {},
        };
        audit::audit(bundle, &terms).expect("a bundle in memory can be read")
    }
}

/// A document against somebody who merely has the name of a gate: it shows what it says, and accuses nobody here.
///
/// # Panics
/// Never: the two receipts have one seq.
pub fn namesake_accused(name: &str, now_ms: u64) -> Vec<u8> {
    let mut impostor = Gate::new(name);
    impostor.key = keys::key(name, KeyKind::Ed25519, 666);
    let mut other = impostor.clone();
    let (one, two) = (impostor.open(now_ms), other.open(now_ms + 1));
    let fork = IssuerForkEvidence::make(&impostor.key.verifier(), one.bytes(), two.bytes());
    serde_json::to_vec(&fork.expect("two receipts of one seq")).expect("a document is JSON")
}

/// All findings of a verdict, for the message of a failed assertion.
pub fn told(verdict: &Verdict) -> String {
    let mut out = format!("exit {}\n", verdict.exit_code);
    for check in &verdict.checks {
        out.push_str(&format!("{} {} required={}: {}\n", check.id(), check.status, check.required, check.covers));
        for finding in &check.findings {
            out.push_str(&format!("    {} {:?}: {}\n", finding.code, finding.severity, finding.shown));
        }
    }
    for document in &verdict.evidence {
        out.push_str(&format!("evidence: {}\n", document["kind"]));
    }
    out
}
