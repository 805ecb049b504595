//! A log that listens nowhere and pushes its heads, and what it takes to look at a witness's answers.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use crate::exchange::{Answer, ask};
use crate::stage::{House, Running};
use merkle::{Hash, MemoryTree, TreeSize, leaf_hash, prove_consistency};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, VerifierKey, parse_cosignature_line,
    sign_checkpoint,
};

/// A log that listens nowhere and pushes.
pub(crate) struct Pusher {
    pub(crate) key: SigningKey,
}

impl Pusher {
    pub(crate) fn new(origin: &str) -> Pusher {
        Pusher { key: SigningKey::from_seed(KeyName::new(origin).unwrap(), KeyKind::Ed25519, [21; 32]) }
    }

    pub(crate) fn tree(size: u64, variant: u8) -> MemoryTree {
        let mut tree = MemoryTree::new();
        (0..size).for_each(|index| tree.push(leaf_hash(&[&index.to_be_bytes()[..], &[variant]].concat())));
        tree
    }

    pub(crate) fn checkpoint(&self, size: u64, variant: u8) -> Checkpoint {
        Checkpoint::new(Origin::from(self.key.name()), TreeSize(size), Self::tree(size, variant).root())
    }

    /// The head of `size`, as a note.
    pub(crate) fn head(&self, size: u64) -> String {
        self.head_of(size, 0)
    }

    pub(crate) fn head_of(&self, size: u64, variant: u8) -> String {
        sign_checkpoint(&self.checkpoint(size, variant), &self.key).unwrap().note().to_string()
    }

    /// The call that a proper log makes.
    pub(crate) fn call(&self, old: u64, size: u64) -> Vec<u8> {
        body(old, &proof(old, size), &self.head(size))
    }
}

pub(crate) fn proof(old: u64, size: u64) -> Vec<Hash> {
    match old {
        0 => Vec::new(),
        _ => prove_consistency(&Pusher::tree(size, 0), TreeSize(old), TreeSize(size)).unwrap().hashes().to_vec(),
    }
}

pub(crate) fn body(old: u64, proof: &[Hash], note: &str) -> Vec<u8> {
    let lines: String = proof.iter().map(|hash| format!("{}\n", hash.to_base64())).collect();
    format!("old {old}\n{lines}\n{note}").into_bytes()
}

/// A witness that takes pushes from these logs and fetches from none.
pub(crate) async fn witness(house: &House, logs: &[VerifierKey]) -> Running {
    let sections: String =
        logs.iter().map(|vkey| format!("[[log]]\nvkey = \"{vkey}\"\naccept_pushes = true\n")).collect();
    std::fs::write(house.home().join("config.toml"), sections).unwrap();
    house.start().await
}

pub(crate) async fn push(witness: &Running, body: &[u8]) -> Answer {
    ask(&witness.url, "POST", "/add-checkpoint", body).await
}

/// The time of the one cosignature in a 200, which must be the witness's over the head that was pushed.
pub(crate) fn cosigned(answer: &Answer, house: &House, note: &str) -> u64 {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let line = answer.text().strip_suffix('\n').unwrap();
    assert!(line.starts_with("— ") && !line.contains('\n'), "{line}");
    let text = SignedCheckpoint::parse(note.as_bytes()).unwrap().note().text().to_owned();
    parse_cosignature_line(line).unwrap().verify(&text, &house.vkey).unwrap().timestamp_s
}

/// What the monitoring path serves: its text, and the names on its lines.
pub(crate) async fn monitored(witness: &Running, origin: &str) -> Option<(String, Vec<String>)> {
    let hash = client::witness::origin_hash(&Origin::new(origin).unwrap());
    let answer = ask(&witness.url, "GET", &format!("/{hash}/checkpoint"), b"").await;
    if answer.status == 404 {
        return None;
    }
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; charset=utf-8")));
    let head = SignedCheckpoint::parse(&answer.body).unwrap();
    let names = head.note().signatures().iter().map(|line| line.name.to_string()).collect();
    Some((head.note().text().to_owned(), names))
}

/// A 409: where the witness is.
pub(crate) fn held(answer: &Answer) -> &str {
    assert_eq!((answer.status, answer.header("content-type")), (409, Some("text/x.tlog.size")));
    answer.text()
}
