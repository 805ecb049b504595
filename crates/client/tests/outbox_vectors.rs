//! `vectors/outbox.json`: the files of outboxes, and what becomes of whoever opens them.
//!
//! Made with the outbox itself, then damaged by hand. To write the file anew: `COUNTERFOIL_WRITE_VECTORS=1 cargo test -p
//! counterfoil-client --test all outbox_vectors`.

use client::outbox::{DropLine, DropReason, GateDescription, NewBody, Outbox, OutboxError, OutboxView};
use client::proof::OfferedProof;
use merkle::{LeafIndex, MemoryTree, TreeSize};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, TlogProof, cosign, sign_checkpoint};
use receipt::{SeqNo, UnixMillis, commit};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::vectors::VectorFile;

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

fn key(number: u8) -> SigningKey {
    let seed = std::array::from_fn(|place| number * 32 + place as u8);
    SigningKey::from_seed(KeyName::new("gate.example/support-1").unwrap(), KeyKind::Ed25519, seed)
}

fn log_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/agents").unwrap(), KeyKind::Ed25519, [7; 32])
}

type Files = BTreeMap<String, Vec<u8>>;

/// The files below `dir`, the lock apart, which holds nothing.
fn files_of(dir: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("lock") {
                files.insert(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn made(work: impl FnOnce(&Outbox)) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(dir.path(), key(0), GateDescription::default()).unwrap();
    work(&outbox);
    drop(outbox);
    files_of(dir.path())
}

fn allow(request: &str, executes: &str) -> String {
    json!({"type": "decision", "request_id": request, "decision": "allow", "authenticated": true, "executes": executes})
        .to_string()
}

const DENY: &str = r#"{"type":"decision","request_id":"d-1","decision":"deny","authenticated":true,"executes":"none"}"#;

fn append(outbox: &Outbox, bodies: &[&str]) {
    outbox.append_all(bodies, NOW).unwrap();
}

/// Acknowledges the receipts from `first` on, in a log that holds nothing else; with a witness's line or without.
fn acknowledge(outbox: &Outbox, first: u64, cosigned: bool) {
    let log = log_key();
    outbox.bind(&log.verifier(), "https://log.example").unwrap();
    let receipts: Vec<_> =
        (0..outbox.next_seq().unwrap().0).map(|seq| outbox.receipt(SeqNo(seq)).unwrap().unwrap()).collect();
    let mut tree = MemoryTree::new();
    receipts.iter().for_each(|receipt| tree.push(receipt.id().0));
    let head = Checkpoint::new(Origin::from(log.name()), tree.size(), tree.root());
    let mut checkpoint = sign_checkpoint(&head, &log).unwrap();
    if cosigned {
        let witness = SigningKey::from_seed(KeyName::new("w.example").unwrap(), KeyKind::CosignatureV1, [8; 32]);
        let line = cosign(checkpoint.note().text(), &witness, NOW.0 / 1000).unwrap().to_line().unwrap();
        checkpoint = checkpoint.with_cosignatures(&[line]);
    }
    let proofs: Vec<_> = receipts
        .iter()
        .skip(usize::try_from(first).unwrap())
        .map(|receipt| {
            let index = LeafIndex(receipt.seq().0);
            let inclusion = merkle::prove_inclusion(&tree, index, TreeSize(tree.size().0)).unwrap();
            let proof = TlogProof { extra: None, index, inclusion, checkpoint: checkpoint.clone().into_unverified() };
            let offered = OfferedProof::parse(&proof.to_string()).unwrap();
            (receipt.seq(), offered.check(receipt.bytes(), &log.verifier()).unwrap())
        })
        .collect();
    outbox.acknowledge(&proofs).unwrap();
}

fn three() -> Files {
    made(|outbox| append(outbox, &[DENY, r#"{"type":"heartbeat"}"#]))
}

fn acknowledged() -> Files {
    made(|outbox| {
        append(outbox, &[DENY, r#"{"type":"heartbeat"}"#]);
        acknowledge(outbox, 0, false);
    })
}

fn open_call() -> Files {
    made(|outbox| {
        let outcome = r#"{"type":"outcome","request_id":"r-1","executed":true}"#;
        append(outbox, &[&allow("r-1", "gate"), &allow("r-2", "gate"), outcome, &allow("r-3", "caller"), DENY]);
    })
}

fn changed(mut files: Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Files {
    change(files.entry(name.to_owned()).or_default());
    files
}

fn replaced(name: &str, text: &str) -> impl FnOnce(Files) -> Files {
    let (name, text) = (name.to_owned(), text.as_bytes().to_vec());
    move |mut files| {
        files.insert(name, text);
        files
    }
}

/// Where the receipts begin in `receipts`, length prefix included.
fn places(receipts: &[u8]) -> Vec<usize> {
    let mut places = vec![0];
    while let Some(length) = receipts.get(places[places.len() - 1]..).and_then(|rest| rest.first_chunk::<2>()) {
        places.push(places[places.len() - 1] + 2 + usize::from(u16::from_be_bytes(*length)));
    }
    places
}

fn scenarios() -> Vec<(&'static str, u8, Files)> {
    let flip = |files: Files, name: &str, at: fn(&[u8]) -> usize| {
        changed(files, name, |bytes| {
            let place = at(bytes);
            bytes[place] ^= 1;
        })
    };
    let (fresh, twice) = (made(|_| ()), acknowledged());
    let salted = commit("why", &json!("a secret reason"), [1; 16]);
    let committed = json!({"type": "decision", "request_id": "c-1", "decision": "deny", "why": salted.0, "authenticated": true, "executes": "none"}).to_string();
    let with_disclosure = made(|outbox| {
        let disclosures = [salted.1.clone()];
        outbox.append_new(&[NewBody { text: &committed, disclosures: &disclosures }], NOW).unwrap();
    });
    let stale = format!("{}\n", commit("why", &json!("never signed"), [2; 16]).1);
    let dropped = |told: bool| {
        made(|outbox| {
            append(outbox, &[DENY]);
            let line = |at, why| DropLine { at, why, request_id: format!("r-{at}") };
            outbox
                .note_drops(&[line(1_790_000_000_001, DropReason::Full), line(1_790_000_000_002, DropReason::Disk)])
                .unwrap();
            if told {
                append(
                    outbox,
                    &[r#"{"type":"dropped","count":1,"since":1790000000001,"until":1790000000001,"why":"full"}"#],
                );
            }
        })
    };
    let rotated = made(|outbox| {
        append(outbox, &[DENY]);
        outbox.rotate(key(1), NOW).unwrap();
        append(outbox, &[DENY.replace("d-1", "d-2").as_str()]);
    });
    let closed = made(|outbox| append(outbox, &[DENY, r#"{"type":"close"}"#]));
    let begun = made(|outbox| {
        append(outbox, &[DENY, r#"{"type":"heartbeat"}"#]);
        acknowledge(outbox, 0, false);
        append(outbox, &[DENY.replace("d-1", "d-2").as_str(), r#"{"type":"heartbeat"}"#]);
        outbox.mark_sent(SeqNo(4)).unwrap();
    });
    let better = made(|outbox| {
        append(outbox, &[DENY]);
        acknowledge(outbox, 0, false);
        acknowledge(outbox, 1, true);
    });
    vec![
        ("nothing but a directory", 0, Files::new()),
        ("opened and not used", 0, fresh),
        ("three receipts", 0, three()),
        ("three receipts, by another key", 1, three()),
        ("three receipts, acknowledged", 0, acknowledged()),
        ("acknowledged, and a better proof since", 0, better),
        ("three acknowledged, one sent, one queued", 0, begun),
        ("two calls ended or not the gate's, one open", 0, open_call()),
        ("the open call known from the file", 0, replaced("open", r#"{"next_seq":6,"open":[2]}"#)(open_call())),
        (
            "the file of open calls from before the last receipts",
            0,
            replaced("open", r#"{"next_seq":2,"open":[1]}"#)(open_call()),
        ),
        (
            "a file of open calls that knows more receipts than there are",
            0,
            replaced("open", r#"{"next_seq":9,"open":[]}"#)(open_call()),
        ),
        ("a file of open calls that is none", 0, replaced("open", "{")(open_call())),
        ("a key handed over, opened with the new one", 1, rotated.clone()),
        ("a key handed over, opened with the old one", 0, rotated),
        ("closed", 0, closed),
        ("a disclosure", 0, with_disclosure.clone()),
        (
            "a disclosure of a receipt that was never signed",
            0,
            replaced("disclosures/2.jsonl", &stale)(with_disclosure),
        ),
        ("two actions without a receipt, one of them told", 0, dropped(true)),
        ("two actions without a receipt, none told", 0, dropped(false)),
        (
            "a torn receipt at the end",
            0,
            changed(three(), "receipts", |bytes| bytes.extend_from_slice(b"\x01\x40counterfoil/receipt/v1\ngate.exa")),
        ),
        ("one byte of a length at the end", 0, changed(three(), "receipts", |bytes| bytes.push(1))),
        (
            "a torn acknowledgement at the end",
            0,
            changed(twice.clone(), "acknowledged", |bytes| bytes.extend_from_slice(br#"{"seq":3,"ind"#)),
        ),
        (
            "the last receipt cut after it was sent",
            0,
            changed(
                changed(three(), "sent", |bytes| *bytes = b"3                   \n".to_vec()),
                "receipts",
                |bytes| bytes.truncate(bytes.len() - 10),
            ),
        ),
        (
            "acknowledged receipts that are gone",
            0,
            changed(twice.clone(), "receipts", |bytes| bytes.truncate(places(bytes)[2])),
        ),
        ("no state", 0, changed(three(), "state", Vec::clear)),
        ("a state that is none", 0, replaced("state", "no state")(three())),
        ("a byte of the middle receipt's body changed", 0, flip(three(), "receipts", |bytes| places(bytes)[1] + 200)),
        (
            "a byte of the middle receipt's signature changed",
            0,
            flip(three(), "receipts", |bytes| places(bytes)[2] - 10),
        ),
        ("a byte of a length changed", 0, flip(three(), "receipts", |bytes| places(bytes)[1] + 1)),
        (
            "the middle receipt gone",
            0,
            changed(three(), "receipts", |bytes| drop(bytes.drain(places(bytes)[1]..places(bytes)[2]))),
        ),
        (
            "the middle receipt twice",
            0,
            changed(three(), "receipts", |bytes| {
                let again = bytes[places(bytes)[1]..places(bytes)[2]].to_vec();
                let place = places(bytes)[2];
                bytes.splice(place..place, again);
            }),
        ),
        ("the first receipt gone", 0, changed(three(), "receipts", |bytes| drop(bytes.drain(..places(bytes)[1])))),
        (
            "an acknowledgement that is no JSON, in the middle",
            0,
            changed(twice.clone(), "acknowledged", |bytes| bytes[0] = b'x'),
        ),
        (
            "an acknowledgement out of order",
            0,
            changed(twice.clone(), "acknowledged", |bytes| {
                let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                bytes.drain(..second);
            }),
        ),
        ("made by Node.js", 0, replaced("writer", r#"{"writer":"node"}"#)(three())),
    ]
}

/// A copy of the files on disk.
fn laid_out(files: &Files) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn code(error: &OutboxError) -> Value {
    json!({"code": error.code()})
}

fn read(dir: &Path) -> Value {
    match OutboxView::open(dir) {
        Err(error) => code(&error),
        Ok(view) => {
            let status = view.status();
            json!({
                "issuer": status.issuer, "vkey": status.vkey, "closed": status.closed, "receipts": status.receipts,
                "acknowledged": status.acknowledged, "sent": status.sent, "queued": status.queued, "alarms": status.alarms,
                "torn": status.dropped,
            })
        }
    }
}

/// What a gate finds that opens it to write.
fn opened(dir: &Path, number: u8) -> Value {
    let found = || -> Result<Value, OutboxError> {
        let outbox = Outbox::open(dir, key(number), GateDescription::default())?;
        let status = outbox.status()?;
        let next = outbox.next_seq()?;
        let head = next.0.checked_sub(1).map(|last| outbox.receipt(SeqNo(last))).transpose()?.flatten();
        let open: Vec<u64> = outbox.open_calls()?.iter().map(|call| call.seq.0).collect();
        let drops = outbox.drops()?;
        let disclosures: Map<String, Value> = files_of(dir)
            .keys()
            .filter(|name| name.starts_with("disclosures/"))
            .map(|name| (name.clone(), Value::Null))
            .collect();
        Ok(json!({
            "next_seq": next.0, "head_hex": head.map(|receipt| receipt.id()), "closed": status.closed, "torn": status.dropped,
            "open_calls": open, "drops": {"count": drops.count, "told": drops.told},
            "disclosures": disclosures.keys().collect::<Vec<_>>(),
        }))
    };
    found().unwrap_or_else(|error| code(&error))
}

fn file() -> VectorFile {
    let cases = scenarios().into_iter().map(|(name, number, files)| {
        let (as_read, as_written) = (laid_out(&files), laid_out(&files));
        let encoded: Map<String, Value> =
            files.iter().map(|(name, bytes)| (name.clone(), json!(merkle::encode_base64(bytes)))).collect();
        json!({
            "name": name, "seed_hex": hex::encode((0..32).map(|place| number * 32 + place).collect::<Vec<u8>>()), "files_b64": encoded,
            "read": read(as_read.path()), "opened": opened(as_written.path(), number),
        })
    });
    VectorFile {
        name: "outbox.json",
        about: "Lay out files_b64 as an outbox's directory (with an empty file lock where the implementation wants one). read: what looking at it without a lock shows, or the code. opened: what is there once a gate with the key of seed_hex has opened it to write, before it writes anything, or the code.",
        cases: cases.collect(),
    }
}

#[test]
fn the_committed_outboxes_are_what_the_outbox_makes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/outbox.json");
    let text = file().text();
    if std::env::var_os("COUNTERFOIL_WRITE_VECTORS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        committed == text,
        "outbox.json is not what the outbox makes, first in line {:?}",
        differs.map(|line| line + 1)
    );
}
