//! A witness as a bundle shows it: its cosignatures, its own copy of the head, its journal.

use super::keys::key;
use super::tiled::TiledLog;
use audit::{MemoryBundle, witness_dir};
use note::{CosignatureLine, KeyKind, KeyName, SignedCheckpoint, SigningKey, Verified, cosign};
use serde_json::{Value, json};
use std::sync::Arc;

/// A witness: one name, one or two keys, a journal.
#[derive(Clone, Debug)]
pub struct Witness {
    /// Its name.
    pub name: String,
    /// Its keys: the Ed25519 one and, where it has one, the ML-DSA-44 one.
    pub keys: Vec<Arc<SigningKey>>,
    /// What it saw.
    pub journal: TiledLog,
    /// The newest head it cosigned, with its lines.
    pub held: Option<SignedCheckpoint<Verified>>,
    /// Whether unchanged looks go into the journal as one folded line, or each as one.
    pub folds: bool,
    /// Looks that the journal does not have yet: the first, the last and how many.
    folding: Option<(u64, u64, u64)>,
}

impl Witness {
    /// A witness that has seen nothing.
    pub fn new(name: &str, with_ml_dsa: bool) -> Witness {
        let kinds = [KeyKind::CosignatureV1, KeyKind::MlDsa44];
        let keys = kinds.into_iter().take(if with_ml_dsa { 2 } else { 1 }).map(|kind| key(name, kind, 0)).collect();
        let journal = TiledLog::new(&format!("{name}/journal"));
        Witness { name: name.to_owned(), keys, journal, held: None, folds: false, folding: None }
    }

    /// Its directory in a bundle.
    pub fn dir(&self) -> String {
        witness_dir(&KeyName::new(&self.name).expect("the names of a world are key names"))
    }

    /// It fetches `head`: cosigns it, and writes it down.
    pub fn look(&mut self, head: &SignedCheckpoint<Verified>, now_ms: u64) {
        let is_held = self.held.as_ref().is_some_and(|held| held.checkpoint() == head.checkpoint());
        self.held = Some(head.with_cosignatures(&self.lines(head.note().text(), now_ms)));
        match (is_held, self.folds) {
            (false, _) => {
                self.unfold(head);
                self.write_down(head, "cosigned", now_ms);
            }
            (true, false) => self.journal_line(
                &json!({"time": now_ms, "origin": origin(head), "outcome": "unchanged", "size": head.checkpoint().size.0}),
            ),
            (true, true) => {
                let (first, _, count) = self.folding.unwrap_or((now_ms, now_ms, 0));
                self.folding = Some((first, now_ms, count + 1));
            }
        }
    }

    /// One line of its journal about `head`, which it holds whole.
    pub fn write_down(&mut self, head: &SignedCheckpoint<Verified>, outcome: &str, now_ms: u64) {
        let checkpoint = String::from_utf8_lossy(head.log_signed_only().bytes()).into_owned();
        // No two witnesses look at quite the same time; here their clocks agree, so the name tells the lines apart.
        self.journal_line(&json!({
            "time": now_ms,
            "origin": origin(head),
            "outcome": outcome,
            "by": self.name,
            "checkpoint": checkpoint,
        }));
    }

    /// The line for the looks since the last one, if they were folded.
    pub fn unfold(&mut self, head: &SignedCheckpoint<Verified>) {
        if let Some((first, last, count)) = self.folding.take() {
            self.journal_line(&json!({
                "time": first,
                "until": last,
                "count": count,
                "origin": origin(head),
                "outcome": "unchanged",
            }));
        }
    }

    /// Any line.
    pub fn journal_line(&mut self, line: &Value) {
        self.journal.push(line.to_string().into_bytes());
    }

    /// Its lines over a head, by each of its keys.
    pub fn lines(&self, text: &str, now_ms: u64) -> Vec<CosignatureLine> {
        let line = |key: &Arc<SigningKey>| {
            let line = cosign(text, key, now_ms / 1000).expect("a witness's key cosigns any head");
            line.to_line().expect("what was just cosigned is a line")
        };
        self.keys.iter().map(line).collect()
    }

    /// Its lines on the head it holds.
    pub fn held_lines(&self) -> Vec<CosignatureLine> {
        let Some(held) = &self.held else { return Vec::new() };
        let line = |key: &Arc<SigningKey>| {
            let verifier = key.verifier();
            let signature = held.note().signatures_by(&verifier).next()?;
            note::parse_cosignature_line(&signature.line()).ok()
        };
        self.keys.iter().filter_map(line).collect()
    }

    /// What it serves, below its directory: the head it holds, the journal under a head that it cosigned itself.
    pub fn write(&self, bundle: &mut MemoryBundle, now_ms: u64) {
        let dir = self.dir();
        if let Some(held) = &self.held {
            bundle.insert(format!("{dir}/checkpoint"), held.bytes());
        }
        let mut served = self.clone();
        if let Some(held) = &self.held {
            served.unfold(held);
        }
        let head = served.journal.head();
        let head = head.with_cosignatures(&self.lines(head.note().text(), now_ms));
        served.journal.write(bundle, &format!("{dir}/journal/"));
        bundle.insert(format!("{dir}/journal/checkpoint"), head.bytes());
    }
}

fn origin(head: &SignedCheckpoint<Verified>) -> &str {
    head.checkpoint().origin.as_str()
}
