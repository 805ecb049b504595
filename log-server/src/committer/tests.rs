//! The committer over a store in memory.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::answers::proof_text;
use crate::fork_log::KEPT_OF_ONE_ISSUER;
use crate::memory_ledger::MemoryLedger;
use crate::offers::Offers;
use crate::quorum::Quorum;
use crate::vetting::BatchSoFar;
use merkle::leaf_hash;
use note::{KeyKind, KeyName, SigningKey};
use receipt::Chain;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const SECRET_BODY: &str = r#"{"type":"x","header":"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}"#;

struct Bench {
    ledger: MemoryLedger,
    registry: Arc<Registry>,
    queue: SyncSender<Command>,
    thread: JoinHandle<Result<(), StoreFault>>,
}

struct Gate {
    key: SigningKey,
    chain: Chain,
}

impl Gate {
    fn new(name: &str) -> Self {
        let key = SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [name.len() as u8; 32]);
        Self { key, chain: Chain::new(IssuerName::new(name).unwrap()) }
    }

    fn open(&mut self) -> Receipt {
        self.chain.open(NOW, &self.key).unwrap()
    }

    fn next(&mut self) -> Receipt {
        self.chain.append(r#"{"type":"heartbeat"}"#, NOW, &self.key).unwrap()
    }

    /// What would come next, without moving on.
    fn other(&self, body: &str) -> Receipt {
        self.chain.clone().append(body, NOW, &self.key).unwrap()
    }
}

/// Longer than any test takes, on a machine that does much else.
const LONG: Duration = Duration::from_secs(60);

fn start(gates: &[&Gate], linger: Duration) -> Bench {
    let mut ledger = MemoryLedger::new();
    let head = ledger.commit(&[]).unwrap().head;
    let registry = Arc::new(Registry::default());
    let publication = Arc::new(Publication::new(
        Offers::new(Duration::from_millis(200), Vec::new(), Quorum::every(0)),
        Duration::from_millis(200),
    ));
    let clock = Clock::from_fn(|| NOW);
    let mut committer =
        Committer::new(ledger.clone(), head, Arc::clone(&registry), publication, clock, ForkLog::default(), linger);
    committer.list(&gates.iter().map(|gate| gate.key.verifier()).collect::<Vec<_>>()).unwrap().unwrap();
    let (queue, commands) = sync_channel(64);
    let thread = std::thread::spawn(move || committer.run(&commands));
    Bench { ledger, registry, queue, thread }
}

impl Bench {
    fn send(&self, receipts: &[Receipt]) -> oneshot::Receiver<Vec<Outcome>> {
        let (reply, outcomes) = oneshot::channel();
        let receipts =
            receipts.iter().map(|receipt| BatchSoFar::default().vet(receipt.bytes(), &self.registry)).collect();
        self.queue.send(Command::Submit(Submission { receipts, reply })).unwrap();
        outcomes
    }

    fn submit(&self, receipts: &[Receipt]) -> Vec<Outcome> {
        self.send(receipts).blocking_recv().unwrap()
    }

    fn codes(&self, receipts: &[Receipt]) -> Vec<&'static str> {
        self.submit(receipts).iter().map(code).collect()
    }
}

fn code(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Included { duplicate: false, .. } => "ok",
        Outcome::Included { duplicate: true, .. } => "duplicate",
        Outcome::NotTaken(reason) => reason.code(),
        Outcome::Skipped(_) => "skipped",
    }
}

#[test]
fn every_included_receipt_is_proven_under_the_head_it_is_answered_with() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    for receipt in [gate.open(), gate.next(), gate.next()] {
        let outcomes = bench.submit(std::slice::from_ref(&receipt));
        let Outcome::Included { located, under, .. } = &outcomes[0] else { panic!("{outcomes:?}") };
        let proof =
            note::TlogProof::parse(proof_text(under.edge.as_ref(), located.index, &under.head).unwrap().as_bytes())
                .unwrap();
        let checkpoint = under.head.checkpoint();
        proof.inclusion.verify(&leaf_hash(receipt.bytes()), located.index, checkpoint.size, &checkpoint.root).unwrap();
    }
}

#[test]
fn a_duplicate_is_answered_with_the_place_of_the_first_also_within_one_group() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let (open, next) = (gate.open(), gate.next());
    assert_eq!(
        bench.codes(&[open.clone(), open.clone(), next.clone(), open.clone()]),
        ["ok", "duplicate", "ok", "duplicate"]
    );
    let again = bench.submit(&[next]);
    assert!(
        matches!(&again[0], Outcome::Included { located, duplicate: true, .. } if located.index == LeafIndex(1)),
        "{again:?}"
    );
    assert_eq!(bench.ledger.entries().len(), 2);
}

#[test]
fn a_refusal_stops_later_receipts_of_its_issuer_in_its_submission_only() {
    let (mut a, mut b) = (Gate::new("gate-a"), Gate::new("gate-bb"));
    let bench = start(&[&a, &b], Duration::ZERO);
    let (a0, a1, a2) = (a.open(), a.next(), a.next());
    let (b0, b1) = (b.open(), b.next());
    let codes = bench.codes(&[a0.clone(), b0, a2.clone(), a1.clone(), b1]);
    assert_eq!(codes, ["ok", "ok", "gap", "skipped", "ok"]);
    assert_eq!(bench.codes(&[a1, a2]), ["ok", "ok"]);
}

#[test]
fn a_receipt_behind_a_rotation_in_one_batch_is_judged_by_the_new_key() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let new = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [77; 32]);
    let rotate = gate.chain.rotate(NOW, &gate.key, &new).unwrap();
    let old_again = gate.next();
    gate.key = new;
    let mut after_rotation = Gate { key: gate.key, chain: Chain::after(&rotate).unwrap() };
    let good = after_rotation.next();
    assert_eq!(bench.codes(&[open, rotate, old_again]), ["ok", "ok", "bad-signature"]);
    assert_eq!(bench.codes(&[good]), ["ok"]);
}

#[test]
fn a_fork_is_kept_as_evidence_once_and_nothing_is_appended() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let fork = gate.other(r#"{"type":"other"}"#);
    let next = gate.next();
    assert_eq!(bench.codes(&[open, next]), ["ok", "ok"]);
    for _ in 0..3 {
        assert_eq!(bench.codes(std::slice::from_ref(&fork)), ["fork"]);
    }
    assert_eq!(bench.ledger.entries().len(), 2);
    let evidence = bench.ledger.evidence();
    assert_eq!(evidence.len(), 1);
    let evidence: receipt::IssuerForkEvidence = serde_json::from_str(&evidence[0]).unwrap();
    assert_eq!(evidence.check().unwrap().key, gate.key.verifier());
    assert_eq!(bench.registry.get(&IssuerName::new("gate").unwrap()).unwrap().forks, 3);
}

#[test]
fn a_fork_of_a_receipt_in_the_same_group_is_evidence_too() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let fork = gate.other(r#"{"type":"other"}"#);
    let next = gate.next();
    assert_eq!(bench.codes(&[open, next, fork]), ["ok", "ok", "fork"]);
    assert_eq!(bench.ledger.evidence().len(), 1);
}

#[test]
fn the_answer_to_a_fork_says_what_is_kept_and_no_more() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let forks: Vec<Receipt> = (0..=KEPT_OF_ONE_ISSUER).map(|n| gate.other(&format!(r#"{{"type":"x{n}"}}"#))).collect();
    assert_eq!(bench.codes(&[open, gate.next()]), ["ok", "ok"]);
    let detail = |fork: &Receipt| match bench.submit(std::slice::from_ref(fork)).remove(0) {
        Outcome::NotTaken(reason) if reason.code() == "fork" => reason.detail(),
        other => panic!("{other:?}"),
    };
    let (beyond, kept) = forks.split_last().unwrap();
    for fork in kept {
        assert!(detail(fork).contains("both are kept"), "{}", detail(fork));
    }
    assert!(detail(&kept[0]).contains("both were kept"), "{}", detail(&kept[0]));
    assert!(detail(beyond).contains("counted only") && !detail(beyond).contains("both"), "{}", detail(beyond));
    assert_eq!(bench.ledger.evidence().len(), KEPT_OF_ONE_ISSUER);
}

#[test]
fn a_fork_whose_body_holds_a_credential_is_a_fork_and_evidence() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let fork = gate.other(SECRET_BODY);
    assert_eq!(bench.codes(&[open, gate.next()]), ["ok", "ok"]);
    assert_eq!(bench.codes(&[fork]), ["fork"]);
    assert_eq!(bench.ledger.evidence().len(), 1);
}

#[test]
fn a_credential_counts_only_against_what_would_be_placed() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    let here = gate.other(SECRET_BODY);
    let beyond = {
        gate.next();
        gate.other(SECRET_BODY)
    };
    gate.key = SigningKey::from_seed(gate.key.name().clone(), KeyKind::Ed25519, [99; 32]);
    let forged = gate.other(SECRET_BODY);
    assert_eq!(bench.codes(&[open]), ["ok"]);
    for (receipt, code) in [(here, "credential-shaped"), (beyond, "gap"), (forged, "bad-signature")] {
        assert_eq!(bench.codes(std::slice::from_ref(&receipt)), [code]);
    }
    assert_eq!(bench.ledger.entries().len(), 1);
}

#[test]
fn a_hash_that_cannot_be_read_stops_the_log_and_accuses_nobody() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let open = gate.open();
    assert_eq!(bench.codes(std::slice::from_ref(&open)), ["ok"]);
    bench.ledger.lose_hashes();
    assert!(bench.send(&[open]).blocking_recv().is_err());
    assert!(bench.thread.join().unwrap().is_err());
    assert!(bench.ledger.evidence().is_empty());
}

#[test]
fn nothing_is_committed_for_refusals_and_duplicates() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let (open, _skipped, beyond) = (gate.open(), gate.next(), gate.next());
    bench.submit(std::slice::from_ref(&open));
    let commits = bench.ledger.commits();
    assert_eq!(bench.codes(&[open, beyond]), ["duplicate", "gap"]);
    assert_eq!(bench.ledger.commits(), commits);
}

#[test]
fn after_a_failed_commit_nobody_is_answered_and_nothing_more_is_written() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    bench.ledger.fail_after(2);
    assert_eq!(bench.codes(&[gate.open()]), ["ok"]);
    let unanswered = bench.send(&[gate.next()]);
    assert!(unanswered.blocking_recv().is_err());
    let ended = bench.thread.join().unwrap();
    assert!(ended.unwrap_err().to_string().contains("no space left"));
    let (reply, _outcomes) = oneshot::channel();
    assert!(bench.queue.send(Command::Submit(Submission { receipts: Vec::new(), reply })).is_err());
}

#[test]
fn a_lone_submitter_does_not_pay_the_linger() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], LONG);
    let started = Instant::now();
    assert_eq!(bench.codes(&[gate.open()]), ["ok"]);
    assert_eq!(bench.codes(&[gate.next()]), ["ok"]);
    assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
}

#[test]
fn what_has_queued_up_is_one_group() {
    let (queue, commands) = sync_channel(64);
    let submission = || Submission { receipts: Vec::new(), reply: oneshot::channel().0 };
    for _ in 0..5 {
        queue.send(Command::Submit(submission())).unwrap();
    }
    queue.send(Command::Stop).unwrap();
    queue.send(Command::Submit(submission())).unwrap();
    let (group, left_over) = gather(submission(), &commands, Duration::ZERO);
    assert_eq!(group.len(), 6);
    assert!(matches!(left_over, Some(Command::Stop)), "another command keeps its place between the submissions");
}

#[test]
fn a_linger_waits_for_what_is_about_to_come_and_no_longer() {
    let (queue, commands) = sync_channel(64);
    let submission = || Submission { receipts: Vec::new(), reply: oneshot::channel().0 };
    let late = queue.clone();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        late.send(Command::Submit(submission())).unwrap();
        late.send(Command::Stop).unwrap();
    });
    let started = Instant::now();
    let (group, _) = gather(submission(), &commands, LONG);
    assert_eq!(group.len(), 2);
    sender.join().unwrap();
    // Nothing comes any more, and it may.
    let (group, left_over) = gather(submission(), &commands, Duration::from_millis(50));
    assert!(group.len() == 1 && left_over.is_none());
    assert!(started.elapsed() < LONG, "{:?}", started.elapsed());
    drop(queue);
}

#[test]
fn an_issuer_that_is_no_longer_listed_can_submit_nothing_more() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    assert_eq!(bench.codes(&[gate.open()]), ["ok"]);
    let list = |keys| {
        let (done, listed) = oneshot::channel();
        bench.queue.send(Command::List { keys, done }).unwrap();
        listed.blocking_recv().unwrap()
    };
    let impostor = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [99; 32]);
    list(Vec::new()).unwrap();
    let next = gate.next();
    assert_eq!(bench.codes(std::slice::from_ref(&next)), ["unknown-issuer"]);
    assert!(list(vec![impostor.verifier()]).is_err());
    list(vec![gate.key.verifier()]).unwrap();
    assert_eq!(bench.codes(&[next]), ["ok"]);
}

#[test]
fn a_mistyped_key_can_be_corrected_as_long_as_the_issuer_has_no_receipts() {
    let (mistyped, mut gate) = (Gate::new("gate"), Gate::new("gate"));
    gate.key = SigningKey::from_seed(KeyName::new("gate").unwrap(), KeyKind::Ed25519, [99; 32]);
    let bench = start(&[&mistyped], Duration::ZERO);
    let (done, listed) = oneshot::channel();
    bench.queue.send(Command::List { keys: vec![gate.key.verifier()], done }).unwrap();
    listed.blocking_recv().unwrap().unwrap();
    assert_eq!(bench.codes(&[gate.open()]), ["ok"]);
}

#[test]
fn stopping_commits_what_came_before_it() {
    let mut gate = Gate::new("gate");
    let bench = start(&[&gate], Duration::ZERO);
    let waiting = bench.send(&[gate.open()]);
    bench.queue.send(Command::Stop).unwrap();
    assert_eq!(code(&waiting.blocking_recv().unwrap()[0]), "ok");
    bench.thread.join().unwrap().unwrap();
}
