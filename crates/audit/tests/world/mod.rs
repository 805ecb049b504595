//! A small world for tests: a log, three witnesses of which two must agree, gates; and the bundle that an auditor
//! would fetch from them. Everything from fixed seeds.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // Each test uses a part of it.

use audit::{AuditedIssuer, MemoryBundle, Rules, Terms, Verdict, parse_issuers, witness_dir};
use merkle::{HashSource, MemoryTree, PageId, ResourcePath, TileId, TreeSize};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, Policy, SignedCheckpoint, SigningKey, Verified, cosign, sign_checkpoint,
};
use receipt::{Chain, IssuerName, Receipt, UnixMillis};

/// When the world begins, in Unix seconds: 2026-11-29T12:00:00Z.
pub const START_S: u64 = 1_795_953_600;
/// The same in milliseconds.
pub const START_MS: u64 = START_S * 1000;

pub fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

/// Any tiled log: the log itself, a witness's journal.
#[derive(Clone)]
pub struct TestLog {
    pub key: SigningKeyParts,
    pub entries: Vec<Vec<u8>>,
    pub tree: MemoryTree,
    /// Signed heads, without cosignatures.
    pub heads: Vec<SignedCheckpoint<Verified>>,
}

/// What it takes to make a signing key again; keys themselves are not cloned.
#[derive(Clone)]
pub struct SigningKeyParts {
    pub name: String,
    pub seed: u8,
}

impl SigningKeyParts {
    pub fn log_key(&self) -> SigningKey {
        key(&self.name, KeyKind::Ed25519, self.seed)
    }
}

impl TestLog {
    pub fn new(name: &str, seed: u8) -> TestLog {
        TestLog {
            key: SigningKeyParts { name: name.to_owned(), seed },
            entries: Vec::new(),
            tree: MemoryTree::new(),
            heads: Vec::new(),
        }
    }

    pub fn push(&mut self, entry: Vec<u8>) {
        self.tree.push(merkle::leaf_hash(&entry));
        self.entries.push(entry);
    }

    /// Signs a head over all entries.
    pub fn seal(&mut self) -> SignedCheckpoint<Verified> {
        let key = self.key.log_key();
        let head = Checkpoint::new(Origin::from(key.name()), self.tree.size(), self.tree.root());
        let head = sign_checkpoint(&head, &key).unwrap();
        self.heads.push(head.clone());
        head
    }

    /// Its entries and tiles below `prefix`.
    pub fn write(&self, bundle: &mut MemoryBundle, prefix: &str) {
        let size = self.tree.size();
        for tile in TileId::all(size) {
            let first = tile.index * 256;
            let hashes = (first..first + u64::from(tile.width))
                .flat_map(|place| self.tree.subtree(tile.level * 8, place).unwrap().0);
            bundle.insert(format!("{prefix}{}", ResourcePath::Tile(tile)), hashes.collect::<Vec<u8>>());
        }
        write_pages(bundle, prefix, &self.entries, ResourcePath::Entries);
    }

    /// The list of its heads.
    pub fn write_heads(&self, bundle: &mut MemoryBundle, prefix: &str) {
        let heads: Vec<Vec<u8>> = self.heads.iter().map(|head| head.bytes().to_vec()).collect();
        write_pages(bundle, prefix, &heads, ResourcePath::Heads);
    }
}

pub fn write_pages(
    bundle: &mut MemoryBundle,
    prefix: &str,
    entries: &[Vec<u8>],
    path: impl Fn(PageId) -> ResourcePath,
) {
    for page in PageId::all(entries.len() as u64) {
        let first = page.first().unwrap() as usize;
        let mut bytes = Vec::new();
        for entry in &entries[first..first + usize::from(page.width)] {
            merkle::encode_entry(&mut bytes, entry).unwrap();
        }
        bundle.insert(format!("{prefix}{}", path(page)), bytes);
    }
}

/// One of the witnesses.
#[derive(Clone)]
pub struct TestWitness {
    pub name: String,
    pub seed: u8,
    pub journal: TestLog,
    /// The newest head it cosigned, with its line.
    pub checkpoint: Option<SignedCheckpoint<Verified>>,
}

impl TestWitness {
    pub fn key(&self) -> SigningKey {
        key(&self.name, KeyKind::CosignatureV1, self.seed)
    }

    /// Cosigns a head and writes it into the journal.
    pub fn cosign(&mut self, head: &SignedCheckpoint<Verified>, time_s: u64) {
        let line = cosign(head.note().text(), &self.key(), time_s).unwrap();
        self.checkpoint = Some(head.with_cosignatures(&[line.to_line().unwrap()]));
        self.journal_line(head, "cosigned", time_s);
    }

    /// Cosigns the head that it holds again, every so often from one time to another, as its journal folds it into a line.
    pub fn unchanged(&mut self, from_s: u64, until_s: u64, count: u64) {
        let held = self.checkpoint.as_ref().unwrap().log_signed_only();
        let line = cosign(held.note().text(), &self.key(), until_s).unwrap();
        let head = held.checkpoint();
        let journal = serde_json::json!({
            "time": from_s * 1000,
            "until": until_s * 1000,
            "count": count,
            "origin": head.origin.as_str(),
            "outcome": "unchanged",
            "size": head.size.0,
            "root": head.root.0.to_base64(),
            "seen_by": self.name,
        });
        self.journal.push(journal.to_string().into_bytes());
        self.checkpoint = Some(held.with_cosignatures(&[line.to_line().unwrap()]));
    }

    pub fn journal_line(&mut self, head: &SignedCheckpoint<Verified>, outcome: &str, time_s: u64) {
        let line = serde_json::json!({
            "time": time_s * 1000,
            "origin": head.checkpoint().origin.as_str(),
            "outcome": outcome,
            // No real witness looks at quite the same time as another.
            "seen_by": self.name,
            "checkpoint": String::from_utf8(head.log_signed_only().bytes().to_vec()).unwrap(),
        });
        self.journal.push(line.to_string().into_bytes());
    }
}

/// A gate.
#[derive(Clone)]
pub struct TestGate {
    pub name: String,
    pub seed: u8,
    pub chain: Chain,
}

impl TestGate {
    pub fn new(name: &str, seed: u8) -> TestGate {
        TestGate { name: name.to_owned(), seed, chain: Chain::new(IssuerName::new(name).unwrap()) }
    }

    pub fn key(&self) -> SigningKey {
        key(&self.name, KeyKind::Ed25519, self.seed)
    }

    /// The receipt that continues its stream; not yet in any log.
    pub fn issue(&mut self, body: &str, time_ms: u64) -> Receipt {
        let key = self.key();
        self.chain.append(body, UnixMillis(time_ms), &key).unwrap()
    }

    pub fn open(&mut self, time_ms: u64) -> Receipt {
        let key = self.key();
        self.chain.open(UnixMillis(time_ms), &key).unwrap()
    }
}

#[derive(Clone)]
pub struct World {
    pub log: TestLog,
    pub witnesses: Vec<TestWitness>,
    pub gates: Vec<TestGate>,
    pub now_ms: u64,
}

impl World {
    /// One gate that has opened its stream; no head yet.
    pub fn new() -> World {
        let witness = |number: u8| TestWitness {
            name: format!("witness-{number}.example"),
            seed: 10 + number,
            journal: TestLog::new(&format!("witness-{number}.example/journal"), 20 + number),
            checkpoint: None,
        };
        let mut world = World {
            log: TestLog::new("log.example/test", 1),
            witnesses: (1..=3).map(witness).collect(),
            gates: Vec::new(),
            now_ms: START_MS,
        };
        world.add_gate("gate.example/support-1");
        world
    }

    /// Another gate, which opens its stream. Answers its number.
    pub fn add_gate(&mut self, name: &str) -> usize {
        let number = self.gates.len();
        let mut gate = TestGate::new(name, 30 + number as u8);
        let open = gate.open(self.now_ms);
        self.gates.push(gate);
        self.log.push(open.bytes().to_vec());
        number
    }

    /// The gate's next receipt, into the log, a second later. Answers its index.
    pub fn log_body(&mut self, gate: usize, body: &str) -> u64 {
        self.now_ms += 1000;
        let receipt = self.gates[gate].issue(body, self.now_ms);
        self.log.push(receipt.bytes().to_vec());
        self.log.entries.len() as u64 - 1
    }

    pub fn log_heartbeats(&mut self, count: usize) {
        for _ in 0..count {
            self.log_body(0, r#"{"type":"heartbeat"}"#);
        }
    }

    /// Imports another system's records through the first gate.
    pub fn import(&mut self, format: &str, lines: &str) {
        for record in audit::import_lines(format, lines).unwrap() {
            self.log_body(0, &record.body_json);
        }
    }

    /// The log signs a head and all witnesses cosign it.
    pub fn seal(&mut self) -> SignedCheckpoint<Verified> {
        self.seal_for(&[0, 1, 2])
    }

    /// The log signs a head and these witnesses cosign it.
    pub fn seal_for(&mut self, witnesses: &[usize]) -> SignedCheckpoint<Verified> {
        let head = self.log.seal();
        let time_s = self.now_ms / 1000;
        for witness in witnesses {
            self.witnesses[*witness].cosign(&head, time_s);
        }
        head
    }

    /// What an auditor fetches: the newest head with the cosignatures it gathered, everything else as served.
    pub fn bundle(&self) -> MemoryBundle {
        let mut bundle = MemoryBundle::new();
        self.log.write(&mut bundle, "log/");
        self.log.write_heads(&mut bundle, "log/");
        if let Some(head) = self.log.heads.last() {
            bundle.insert("log/checkpoint", self.with_cosignatures(head).bytes());
        }
        for witness in &self.witnesses {
            let dir = witness_dir(&KeyName::new(&witness.name).unwrap());
            if let Some(checkpoint) = &witness.checkpoint {
                bundle.insert(format!("{dir}/checkpoint"), checkpoint.bytes());
            }
            let mut journal = witness.journal.clone();
            let head = journal.seal();
            let line = cosign(head.note().text(), &witness.key(), self.now_ms / 1000).unwrap();
            journal.write(&mut bundle, &format!("{dir}/journal/"));
            bundle.insert(
                format!("{dir}/journal/checkpoint"),
                head.with_cosignatures(&[line.to_line().unwrap()]).bytes(),
            );
        }
        bundle
    }

    /// `head` with the line of every witness whose newest head it is.
    pub fn with_cosignatures(&self, head: &SignedCheckpoint<Verified>) -> SignedCheckpoint<Verified> {
        let mut lines = Vec::new();
        for witness in &self.witnesses {
            if let Some(cosigned) =
                witness.checkpoint.as_ref().filter(|cosigned| cosigned.checkpoint() == head.checkpoint())
            {
                let key = witness.key().verifier();
                let signature = cosigned.note().signatures_by(&key).next().unwrap();
                lines.push(note::parse_cosignature_line(&signature.line()).unwrap());
            }
        }
        head.with_cosignatures(&lines)
    }

    /// A proof of one entry under the newest head, with its entry.
    pub fn proof(&self, index: u64) -> (Vec<u8>, Vec<u8>) {
        let head = self.log.heads.last().unwrap();
        let proof = note::TlogProof {
            extra: None,
            index: merkle::LeafIndex(index),
            inclusion: merkle::prove_inclusion(&self.log.tree, merkle::LeafIndex(index), head.checkpoint().size)
                .unwrap(),
            checkpoint: self.with_cosignatures(head).into_unverified(),
        };
        (proof.to_string().into_bytes(), self.log.entries[index as usize].clone())
    }

    pub fn policy_text(&self) -> String {
        let mut text = format!("log {}\n", self.log.key.log_key().verifier());
        for (number, witness) in self.witnesses.iter().enumerate() {
            text.push_str(&format!("witness w{} {}\n", number + 1, witness.key().verifier()));
        }
        text.push_str("group all-of-them 2 w1 w2 w3\nquorum all-of-them\n");
        text
    }

    pub fn policy(&self) -> Policy {
        Policy::parse(self.policy_text().as_bytes()).unwrap()
    }

    pub fn issuers_text(&self) -> String {
        self.gates.iter().map(|gate| format!("{}\n", gate.key().verifier())).collect()
    }

    pub fn issuers(&self) -> Vec<AuditedIssuer> {
        parse_issuers(&self.issuers_text()).unwrap()
    }

    /// The verdict over the world's own bundle by the built-in rules.
    pub fn verdict(&self) -> Verdict {
        self.audit(&self.bundle())
    }

    /// The verdict over a bundle by the world's policy and issuers.
    pub fn audit(&self, bundle: &MemoryBundle) -> Verdict {
        self.audit_by(bundle, &Rules::built_in())
    }

    pub fn audit_by(&self, bundle: &MemoryBundle, rules: &Rules) -> Verdict {
        self.audit_with(bundle, &self.policy(), &self.issuers(), rules, None, None)
    }

    pub fn audit_with(
        &self,
        bundle: &MemoryBundle,
        policy: &Policy,
        issuers: &[AuditedIssuer],
        rules: &Rules,
        at: Option<u64>,
        max_age_ms: Option<u64>,
    ) -> Verdict {
        let terms = Terms {
            policy,
            issuers,
            rules,
            at: at.map(UnixMillis),
            max_age_ms,
            outcome_deadline_ms: None,
            threads: 2,
            progress: &|_, _| {},
        };
        audit::audit(bundle, &terms).unwrap()
    }
}

/// A native decision of class `class` in session, on resource and subject; empty ones are left out.
pub fn decision(
    request: &str,
    allow: bool,
    class: &str,
    session: &str,
    resource: &str,
    subject: &str,
) -> serde_json::Value {
    let mut body = serde_json::json!({
        "type": "decision",
        "request_id": request,
        "decision": if allow { "allow" } else { "deny" },
        "action_class": class,
        "authenticated": true,
        "executes": "gate",
    });
    for (name, value) in [("session", session), ("resource", resource)] {
        if !value.is_empty() {
            body[name] = value.into();
        }
    }
    if !subject.is_empty() {
        body["subjects"] = serde_json::json!([subject]);
    }
    body
}

/// All findings, as `family/name code severity`, for messages of failed assertions.
pub fn told(verdict: &Verdict) -> String {
    let mut out = String::new();
    for check in &verdict.checks {
        out.push_str(&format!("{} {} required={}: {}\n", check.id(), check.status, check.required, check.covers));
        for finding in &check.findings {
            out.push_str(&format!("    {} {:?}: {}\n", finding.code, finding.severity, finding.shown));
        }
    }
    out
}

/// Codes of the findings that fail, with the ids of their checks.
pub fn failures(verdict: &Verdict) -> Vec<(String, &'static str)> {
    let failing = |check: &audit::Check| {
        let codes = check
            .findings
            .iter()
            .filter(|finding| finding.severity == audit::Severity::Fail)
            .map(|finding| finding.code);
        codes.map(|code| (check.id(), code)).collect::<Vec<_>>()
    };
    verdict.checks.iter().flat_map(failing).collect()
}

/// Kind and name of the accused key of every document that the audit made, each of which checks by itself.
pub fn accusations(verdict: &Verdict) -> Vec<(&'static str, String)> {
    let proven = |document: &serde_json::Value| {
        let proven = audit::check_evidence(&document.to_string(), &[]).unwrap();
        (proven.kind, proven.key.name().to_string())
    };
    verdict.evidence.iter().map(proven).collect()
}

pub fn size(world: &World) -> TreeSize {
    world.log.tree.size()
}
