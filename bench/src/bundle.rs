//! A bundle as an auditor would have fetched it, made without a log: gates that decide and say what became of it, heads
//! that witnesses cosigned and wrote into their journals. Everything from fixed keys and times, signed over all cores.

use crate::failure::Failure;
use merkle::{HashSource, MemoryTree, PageId, ResourcePath, TILE_WIDTH, TileId};
use note::{
    Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, TlogProof, Verified, cosign, sign_checkpoint,
};
use rayon::prelude::*;
use receipt::{Chain, IssuerName, Receipt, UnixMillis};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// When it all begins: 2026-11-29T12:00:00Z.
const START_MS: u64 = 1_795_953_600_000;
/// Between two receipts of a gate.
const STEP_MS: u64 = 500;
/// Receipts that a gate signs at once.
const TURN: u64 = 200;
/// Receipts to a head.
const HEAD_EVERY: u64 = 256;
const ORIGIN: &str = "log.example/bench";

/// What was made.
pub(crate) struct Made {
    pub(crate) dir: PathBuf,
    pub(crate) receipts: u64,
    pub(crate) bytes: u64,
    pub(crate) heads: u64,
}

impl Made {
    pub(crate) fn policy(&self) -> PathBuf {
        self.dir.join("policy")
    }

    pub(crate) fn issuers(&self) -> PathBuf {
        self.dir.join("issuers")
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.dir.join("bundle")
    }

    /// A proof of the middle receipt with the cosignatures of three witnesses, and its entry.
    pub(crate) fn proof(&self) -> [PathBuf; 2] {
        ["r.tlog-proof", "r.entry"].map(|name| self.dir.join(name))
    }
}

/// Makes a bundle of `receipts` by `issuers` gates with `witnesses`, of which more than half are the quorum.
pub(crate) fn make(dir: &Path, receipts: u64, issuers: usize, witnesses: usize) -> Result<Made, Failure> {
    let log_key = key(ORIGIN, KeyKind::Ed25519, 1)?;
    let mut gates = (0..issuers).map(Gate::new).collect::<Result<Vec<_>, _>>()?;
    let mut houses = (0..witnesses).map(|number| House::new(dir, number)).collect::<Result<Vec<_>, _>>()?;
    let mut log = Tiled::new(dir.join("bundle/log/"));
    let mut heads = Pages::new(dir.join("bundle/log/"), ResourcePath::Heads);
    let (mut bytes, mut newest, mut middle) = (0, None, Vec::new());
    while log.tree.size().0 < receipts {
        let turn = TURN.min((receipts - log.tree.size().0).div_ceil(issuers as u64));
        let turns = gates.par_iter_mut().map(|gate| gate.turn(turn)).collect::<Result<Vec<_>, _>>()?;
        for place in 0..turn as usize {
            for receipt in turns.iter().map(|turn| &turn[place]) {
                if log.tree.size().0 == receipts {
                    break;
                }
                if log.tree.size().0 == receipts / 2 {
                    middle = receipt.bytes().to_vec();
                }
                bytes += receipt.bytes().len() as u64;
                log.push(receipt.bytes())?;
                let size = log.tree.size().0;
                if size.is_multiple_of(HEAD_EVERY) || size == receipts {
                    let head = Checkpoint::new(Origin::from(log_key.name()), log.tree.size(), log.tree.root());
                    let head = sign_checkpoint(&head, &log_key).map_err(Failure::unexpected)?;
                    heads.push(head.bytes())?;
                    let at_s = receipt.issued_at().0 / 1000 + 1;
                    houses.par_iter_mut().try_for_each(|house| house.cosign(&head, at_s))?;
                    newest = Some((head, at_s));
                }
            }
        }
    }
    let (head, at_s) = newest.ok_or_else(|| Failure::unexpected("a bundle of no receipts"))?;
    let count = heads.count;
    heads.close()?;
    log.close()?;
    let mut lines = Vec::new();
    for house in &mut houses {
        lines.push(house.close(&head, at_s)?);
    }
    write(&dir.join("bundle/log/checkpoint"), head.with_cosignatures(&lines).bytes())?;
    let index = merkle::LeafIndex(receipts / 2);
    let inclusion = merkle::prove_inclusion(&log.tree, index, log.tree.size()).map_err(Failure::unexpected)?;
    lines.truncate(3);
    let checkpoint = head.with_cosignatures(&lines).into_unverified();
    let proof = TlogProof { extra: None, index, inclusion, checkpoint };
    write(&dir.join("r.tlog-proof"), proof.to_string().as_bytes())?;
    write(&dir.join("r.entry"), &middle)?;

    let mut policy = format!("log {}\n", log_key.verifier());
    let names: Vec<String> = (0..witnesses).map(|number| format!("w{number}")).collect();
    for (name, house) in names.iter().zip(&houses) {
        policy += &format!("witness {name} {}\n", house.key.verifier());
    }
    policy += &format!("group most {} {}\nquorum most\n", witnesses / 2 + 1, names.join(" "));
    write(&dir.join("policy"), policy.as_bytes())?;
    let vkeys: String = gates.iter().map(|gate| format!("{}\n", gate.key.verifier())).collect();
    write(&dir.join("issuers"), vkeys.as_bytes())?;
    Ok(Made { dir: dir.to_owned(), receipts, bytes, heads: count })
}

struct Gate {
    key: SigningKey,
    chain: Chain,
    number: u64,
    decisions: u64,
    /// The decision that the next receipt is the outcome of.
    decided: Option<Receipt>,
}

impl Gate {
    fn new(number: usize) -> Result<Gate, Failure> {
        let key = key(&format!("gate.example/bench-{number:02}"), KeyKind::Ed25519, 100 + number as u8)?;
        Ok(Gate {
            chain: Chain::new(IssuerName(key.name().clone())),
            key,
            number: number as u64,
            decisions: 0,
            decided: None,
        })
    }

    fn turn(&mut self, count: u64) -> Result<Vec<Receipt>, Failure> {
        (0..count).map(|_| self.next()).collect()
    }

    /// An `open`, then a decision and its outcome by turns.
    fn next(&mut self) -> Result<Receipt, Failure> {
        let seq = self.chain.next_seq().0;
        let at = UnixMillis(START_MS + seq * STEP_MS + self.number);
        if seq == 0 {
            return self.chain.open(at, &self.key).map_err(Failure::unexpected);
        }
        if let Some(decision) = self.decided.take() {
            return self.chain.append(outcome(self.decisions, &decision), at, &self.key).map_err(Failure::unexpected);
        }
        self.decisions += 1;
        let is_allowed = !self.decisions.is_multiple_of(16);
        let body = decision(self.decisions, self.number, is_allowed);
        let receipt = self.chain.append(body, at, &self.key).map_err(Failure::unexpected)?;
        self.decided = is_allowed.then(|| receipt.clone());
        Ok(receipt)
    }
}

fn decision(number: u64, gate: u64, is_allowed: bool) -> String {
    let classes = ["READ", "READ", "WRITE", "SEND"];
    let (ruling, executes) = if is_allowed { ("allow", "gate") } else { ("deny", "none") };
    json!({
        "type": "decision", "request_id": format!("r-{number}"), "decision": ruling,
        "rule": "purpose_granted", "operation": "tickets.update", "resource": format!("record-{}", number % 50_000),
        "action_class": classes[number as usize % 4], "subjects": [format!("customer:{}", (number + gate) % 30_000)],
        "session": format!("session-{gate}-{}", number / 20),
        "args_digest": format!("sha256:{number:064x}"),
        "authenticated": true, "proven": ["capability_signature", "request_signature", "nonce_fresh"],
        "bound_agent": "support-agent", "executes": executes,
    })
    .to_string()
}

fn outcome(number: u64, decision: &Receipt) -> String {
    json!({
        "type": "outcome", "request_id": format!("r-{number}"), "decision": decision.id().to_string(), "executed": true,
        "executed_by": "gate", "agent": "support-agent", "result_digest": format!("sha256:{number:064x}"),
    })
    .to_string()
}

/// A witness with its journal.
struct House {
    key: SigningKey,
    journal_key: SigningKey,
    dir: PathBuf,
    journal: Tiled,
}

impl House {
    fn new(dir: &Path, number: usize) -> Result<House, Failure> {
        let name = format!("witness-{number}.example");
        let dir = dir.join("bundle/witness").join(&name);
        let seed = 50 + 2 * number as u8;
        Ok(House {
            key: key(&name, KeyKind::CosignatureV1, seed)?,
            journal_key: key(&format!("{name}/journal"), KeyKind::Ed25519, seed + 1)?,
            journal: Tiled::new(dir.join("journal/")),
            dir,
        })
    }

    /// Writes a line for a head.
    fn cosign(&mut self, head: &SignedCheckpoint<Verified>, at_s: u64) -> Result<(), Failure> {
        let checkpoint = std::str::from_utf8(head.bytes()).map_err(Failure::unexpected)?;
        let (time, by) = (at_s * 1000, self.key.name().as_str());
        let line = json!({
            "time": time, "origin": ORIGIN, "outcome": "cosigned", "cosigned_at": at_s, "checkpoint": checkpoint, "by": by,
        });
        self.journal.push(line.to_string().as_bytes())
    }

    /// Writes what it shows: the newest head, and the journal's. Answers its line on the former.
    fn close(&mut self, head: &SignedCheckpoint<Verified>, at_s: u64) -> Result<note::CosignatureLine, Failure> {
        let line = |head: &SignedCheckpoint<Verified>| {
            let line = cosign(head.note().text(), &self.key, at_s).map_err(Failure::unexpected)?;
            line.to_line().map_err(Failure::unexpected)
        };
        let own = line(head)?;
        let tree = &self.journal.tree;
        let journal = Checkpoint::new(Origin::from(self.journal_key.name()), tree.size(), tree.root());
        let journal = sign_checkpoint(&journal, &self.journal_key).map_err(Failure::unexpected)?;
        let journal = journal.with_cosignatures(&[line(&journal)?]);
        self.journal.close()?;
        write(&self.dir.join("journal/checkpoint"), journal.bytes())?;
        write(&self.dir.join("checkpoint"), head.with_cosignatures(std::slice::from_ref(&own)).bytes())?;
        Ok(own)
    }
}

/// A tiled log that is written as it grows.
struct Tiled {
    dir: PathBuf,
    tree: MemoryTree,
    entries: Pages,
}

impl Tiled {
    fn new(dir: PathBuf) -> Tiled {
        Tiled { entries: Pages::new(dir.clone(), ResourcePath::Entries), tree: MemoryTree::new(), dir }
    }

    fn push(&mut self, entry: &[u8]) -> Result<(), Failure> {
        self.tree.push(merkle::leaf_hash(entry));
        self.entries.push(entry)
    }

    /// The last page and all tiles.
    fn close(&mut self) -> Result<(), Failure> {
        self.entries.close()?;
        for tile in TileId::all(self.tree.size()) {
            let first = tile.index * u64::from(TILE_WIDTH);
            let hashes = (first..first + u64::from(tile.width)).filter_map(|at| self.tree.subtree(tile.level * 8, at));
            let bytes: Vec<u8> = hashes.flat_map(|hash| hash.0).collect();
            write(&self.dir.join(ResourcePath::Tile(tile).to_string()), &bytes)?;
        }
        Ok(())
    }
}

/// Pages of entries or heads.
struct Pages {
    dir: PathBuf,
    path: fn(PageId) -> ResourcePath,
    count: u64,
    page: Vec<u8>,
}

impl Pages {
    fn new(dir: PathBuf, path: fn(PageId) -> ResourcePath) -> Pages {
        Pages { dir, path, count: 0, page: Vec::new() }
    }

    fn push(&mut self, entry: &[u8]) -> Result<(), Failure> {
        merkle::encode_entry(&mut self.page, entry).map_err(Failure::unexpected)?;
        self.count += 1;
        match self.count.is_multiple_of(u64::from(TILE_WIDTH)) {
            true => self.close(),
            false => Ok(()),
        }
    }

    /// Writes what there is of the page.
    fn close(&mut self) -> Result<(), Failure> {
        let Some(last) = PageId::all(self.count).last().filter(|_| !self.page.is_empty()) else { return Ok(()) };
        write(&self.dir.join((self.path)(last).to_string()), &self.page)?;
        self.page.clear();
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Failure::io(parent))?;
    }
    fs::write(path, bytes).map_err(Failure::io(path))
}

fn key(name: &str, kind: KeyKind, seed: u8) -> Result<SigningKey, Failure> {
    Ok(SigningKey::from_seed(KeyName::new(name).map_err(Failure::unexpected)?, kind, [seed; 32]))
}
