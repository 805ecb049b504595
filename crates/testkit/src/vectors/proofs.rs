//! `proofs.json`: that an entry is in a witnessed log, and everything that only looks so.

use super::{VectorFile, b64, key};
use merkle::{Hash, InclusionProof, LeafIndex, MemoryTree, RootHash, TreeSize, leaf_hash};
use note::{
    Checkpoint, CosignatureLine, KeyKind, Origin, Policy, SignedCheckpoint, SigningKey, TlogProof, Verified, cosign,
    proof_text, sign_checkpoint, sign_note,
};
use serde_json::{Value, json};

const ORIGIN: &str = "log.example/agents";

/// When witnesses cosign, seconds since the epoch.
const COSIGNED_AT: u64 = 1_790_000_000;

pub(super) fn proofs() -> VectorFile {
    let world = World::new();
    let mut cases = vec![];
    cases.extend(world.good());
    cases.extend(world.refused());
    cases.extend(world.cosignatures());
    cases.extend(world.malformed());
    VectorFile {
        name: "proofs.json",
        about: "Judge proof (or proof_b64), a tlog-proof, of the entry entry_b64 under policy. code null: the entry is at index in the log's tree of size, and the policy's witnesses in witnesses (vkey names, each once a key, in the policy's order) cosigned it, enough for its quorum. Else code; with quorum-not-met, index, size and witnesses still hold.",
        cases,
    }
}

/// One log, four witnesses of whom one has two keys, and policies over them.
struct World {
    log: SigningKey,
    witnesses: Vec<SigningKey>,
    tree: MemoryTree,
    policy: String,
}

impl World {
    fn new() -> Self {
        let log = key(ORIGIN, KeyKind::Ed25519, 1);
        let witness = |name: &str, number: u8| key(name, KeyKind::CosignatureV1, number);
        let witnesses = vec![
            witness("w.example/1", 2),
            witness("w.example/2", 3),
            witness("w.example/3", 4),
            witness("w.example/1", 5),
        ];
        let mut tree = MemoryTree::new();
        (0..15).for_each(|leaf| tree.push(leaf_hash(&entry(leaf))));
        let mut policy = format!("log {}\n", log.verifier());
        for (place, witness) in witnesses.iter().enumerate().take(3) {
            policy.push_str(&format!("witness w{} {}\n", place + 1, witness.verifier()));
        }
        Self { log, witnesses, tree, policy: format!("{policy}group q 2 w1 w2 w3\nquorum q\n") }
    }

    fn head(&self, size: u64) -> SignedCheckpoint<Verified> {
        let mut tree = MemoryTree::new();
        (0..size).for_each(|leaf| tree.push(leaf_hash(&entry(leaf))));
        self.head_over(TreeSize(size), tree.root())
    }

    fn head_over(&self, size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
        let origin = Origin::new(ORIGIN).expect("the log's name is an origin");
        sign_checkpoint(&Checkpoint::new(origin, size, root), &self.log).expect("a log's key signs its heads")
    }

    /// The head with the lines of the witnesses at these places.
    fn cosigned(&self, head: &SignedCheckpoint<Verified>, places: &[usize]) -> SignedCheckpoint<Verified> {
        let lines: Vec<CosignatureLine> = places.iter().map(|place| self.line(head, *place, COSIGNED_AT)).collect();
        head.with_cosignatures(&lines)
    }

    fn line(&self, head: &SignedCheckpoint<Verified>, place: usize, at: u64) -> CosignatureLine {
        let cosignature = cosign(head.note().text(), &self.witnesses[place], at);
        let line = cosignature.and_then(|cosignature| cosignature.to_line());
        line.expect("a witness's key cosigns a checkpoint")
    }

    fn inclusion(&self, index: u64, size: u64) -> Vec<Hash> {
        let proof = merkle::prove_inclusion(&self.tree, LeafIndex(index), TreeSize(size));
        proof.map(|proof| proof.hashes().to_vec()).unwrap_or_default()
    }

    /// The proof of entry `index` of 15, cosigned by the first and the second witness.
    fn proof(&self, index: u64) -> String {
        self.proof_under(index, &self.cosigned(&self.head(15), &[0, 1]))
    }

    fn proof_under(&self, index: u64, head: &SignedCheckpoint<Verified>) -> String {
        let size = head.checkpoint().size.0;
        proof_text(LeafIndex(index), &InclusionProof::new(self.inclusion(index, size)), head)
    }

    fn case(&self, name: &str, leaf: u64, proof: &str) -> Value {
        case(name, &self.policy, &entry(leaf), proof.as_bytes())
    }

    fn good(&self) -> Vec<Value> {
        let head = self.head(15);
        let with_extra = self.proof(10).replacen("index", "extra AAEC/w==\nindex", 1);
        let no_quorum = format!("log {}\nquorum none\n", self.log.verifier());
        let twin = format!(
            "{}witness twin {}\n",
            self.policy.split("group").next().unwrap_or_default(),
            self.witnesses[3].verifier()
        );
        let one_witness = format!("{twin}group one any w1 twin\ngroup q 2 one w2 w3\nquorum q\n");
        let other_log = key("other.example", KeyKind::Ed25519, 6).verifier();
        let two_logs = self.policy.replacen("log ", &format!("log {other_log}\nlog "), 1);
        let both_keys = self.cosigned(&head, &[0, 3]);
        vec![
            self.case("two of three witnesses", 10, &self.proof(10)),
            self.case("all three", 0, &self.proof_under(0, &self.cosigned(&head, &[0, 1, 2]))),
            self.case("the last leaf", 14, &self.proof(14)),
            self.case("a tree of one leaf", 0, &self.proof_under(0, &self.cosigned(&self.head(1), &[1, 2]))),
            self.case("a tree of two leaves", 1, &self.proof_under(1, &self.cosigned(&self.head(2), &[2, 0]))),
            self.case("extra data, which proves nothing", 10, &with_extra),
            case("no quorum asked for", &no_quorum, &entry(3), self.proof_under(3, &head).as_bytes()),
            case("two logs in the policy", &two_logs, &entry(10), self.proof(10).as_bytes()),
            case(
                "two keys of one witness and another's",
                &one_witness,
                &entry(4),
                self.proof_under(4, &self.cosigned(&head, &[3, 1])).as_bytes(),
            ),
            case(
                "two keys of one witness are one of two",
                &one_witness,
                &entry(4),
                self.proof_under(4, &both_keys).as_bytes(),
            ),
        ]
    }

    fn refused(&self) -> Vec<Value> {
        let good = self.proof(10);
        let head = self.head(15);
        let hash = |place: usize| good.lines().nth(2 + place).unwrap_or_default().to_owned();
        let hashes: Vec<String> = (0..4).map(hash).collect();
        let text = head.note().text();
        let note = |text: &str, keys: &[&SigningKey]| {
            String::from_utf8(sign_note(text, keys).expect("the text of a checkpoint can be signed"))
                .unwrap_or_default()
        };
        let under = |checkpoint: &str| {
            let body = good.split_once("\n\n").map(|(body, _)| body).unwrap_or_default();
            format!("{body}\n\n{checkpoint}")
        };
        let stranger = key(ORIGIN, KeyKind::Ed25519, 7);
        let log_line =
            good.lines().find(|line| line.starts_with(&format!("— {ORIGIN}"))).unwrap_or_default().to_owned();
        let other = text.replace(ORIGIN, "log.example/other");
        let listed = key("log.example/other", KeyKind::Ed25519, 6);
        let two_logs = self.policy.replacen("log ", &format!("log {}\nlog ", listed.verifier()), 1);
        let forged = format!("{}{}", log_line.get(..log_line.len() - 8).unwrap_or_default(), "AAAAAAA=");
        vec![
            self.case("another entry", 11, &good),
            self.case("the next index", 10, &good.replacen("index 10", "index 11", 1)),
            self.case("an index beyond the tree", 10, &good.replacen("index 10", "index 15", 1)),
            self.case("the greatest index", 10, &good.replacen("index 10", "index 18446744073709551615", 1)),
            self.case("a hash more", 10, &good.replacen("\n\n", &format!("\n{}\n\n", hashes[0]), 1)),
            self.case("a hash missing", 10, &good.replacen(&format!("{}\n", hashes[3]), "", 1)),
            self.case("no hashes", 10, &good.replacen(&format!("{}\n", hashes.join("\n")), "", 1)),
            self.case(
                "hashes in another order",
                10,
                &good.replacen(
                    &format!("{}\n{}\n", hashes[0], hashes[1]),
                    &format!("{}\n{}\n", hashes[1], hashes[0]),
                    1,
                ),
            ),
            self.case("a hash changed", 10, &good.replacen(&hashes[2], &leaf_hash(b"x").to_base64(), 1)),
            self.case(
                "the proof of an earlier head",
                10,
                &under(
                    self.proof_under(10, &self.head(12)).split_once("\n\n").map(|(_, head)| head).unwrap_or_default(),
                ),
            ),
            self.case("a log with another key of that name", 10, &under(&note(text, &[&stranger]))),
            self.case("a head that nobody signed", 10, &under(&note(text, &[&listed]))),
            self.case("a head of another origin, by the listed key", 10, &under(&note(&other, &[&self.log]))),
            case(
                "a head of another listed log's origin, by this one's key",
                &two_logs,
                &entry(10),
                under(&note(&other, &[&self.log])).as_bytes(),
            ),
            self.case("the log's line with other bytes", 10, &good.replacen(&log_line, &forged, 1)),
            self.case(
                "a good and a bad line of the log",
                10,
                &good.replacen(&log_line, &format!("{log_line}\n{forged}"), 1),
            ),
            self.case("another size under the same line", 10, &good.replacen("\n15\n", "\n16\n", 1)),
            self.case(
                "another root under the same line",
                10,
                &good.replacen(&head.checkpoint().root.0.to_base64(), &leaf_hash(b"y").to_base64(), 1),
            ),
            case(
                "a policy without logs",
                &self.policy.lines().skip(1).map(|line| format!("{line}\n")).collect::<String>(),
                &entry(10),
                good.as_bytes(),
            ),
        ]
    }

    /// Cosignatures that are none, too few, or the same again.
    fn cosignatures(&self) -> Vec<Value> {
        let head = self.head(15);
        let later = self.head(14);
        let under = |checkpoint: &str| {
            let proof = self.proof_under(10, &head);
            let body = proof.split_once("\n\n").map(|(body, _)| body.to_owned()).unwrap_or_default();
            format!("{body}\n\n{checkpoint}")
        };
        let with_lines =
            |lines: &[String]| under(&format!("{}{}", String::from_utf8_lossy(head.bytes()), lines.concat()));
        let line = |place: usize| format!("{}\n", self.line(&head, place, COSIGNED_AT).line());
        let bytes_of =
            |line: &str| merkle::decode_base64(line.trim().rsplit(' ').next().unwrap_or_default()).unwrap_or_default();
        let named = |name: &str, bytes: &[u8]| format!("— {name} {}\n", b64(bytes));
        let changed = |place: usize, byte: usize| {
            let mut bytes = bytes_of(&line(place));
            bytes[byte] ^= 1;
            named(self.witnesses[place].name().as_str(), &bytes)
        };
        let other_head = format!("{}\n", self.line(&later, 1, COSIGNED_AT).line());
        let under_other_key = {
            let id = bytes_of(&line(1));
            let signature = bytes_of(&line(2));
            named("w.example/2", &[&id[..4], &signature[4..]].concat())
        };
        let zero = {
            let mut bytes = bytes_of(&line(1));
            bytes[4..12].fill(0);
            named("w.example/2", &bytes)
        };
        let future = {
            let mut bytes = bytes_of(&line(1));
            bytes[4..12].fill(0xff);
            named("w.example/2", &bytes)
        };
        let short = named("w.example/2", &bytes_of(&line(1))[..75]);
        let later_time = format!("{}\n", self.line(&head, 0, COSIGNED_AT + 60).line());
        let by_note_key = {
            let gate = key("w.example/2", KeyKind::Ed25519, 3);
            let note = sign_note(head.note().text(), &[&gate]).unwrap_or_default();
            String::from_utf8_lossy(&note).split("\n\n").nth(1).unwrap_or_default().to_owned()
        };
        let bytes = String::from_utf8_lossy(head.bytes()).into_owned();
        let (text, log_line) = bytes.split_once("\n\n").unwrap_or_default();
        let known = |name: &str, lines: &[String]| self.case(name, 10, &with_lines(lines));
        vec![
            known("no witness", &[]),
            known("one witness of two", &[line(0)]),
            known("one witness twice", &[line(0), line(0)]),
            known("one witness at two times", &[line(0), later_time]),
            known("one witness's other key, which is not listed", &[line(0), line(3)]),
            known("a forged line under a known name", &[line(0), changed(1, 20)]),
            known("a line whose time was changed", &[line(0), changed(1, 11)]),
            known("a line of an unknown key id under a known name", &[line(0), changed(1, 0)]),
            known("a line over another head", &[line(0), other_head]),
            known("another witness's signature under this one's id", &[line(0), under_other_key]),
            known("time zero", &[line(0), zero]),
            known("a time beyond 2^63", &[line(0), future]),
            known("a line a byte short", &[line(0), short]),
            known("a plain signature by the witness's key", &[line(0), by_note_key]),
            known("a forged line beside enough good ones", &[line(0), changed(1, 20), line(2)]),
            known("a forged and a good line of one witness", &[changed(0, 20), line(0), line(1)]),
            self.case(
                "lines of the witnesses before the log's",
                10,
                &under(&format!("{text}\n\n{}{}{log_line}", line(1), line(0))),
            ),
        ]
    }

    /// Bytes that are no proof.
    fn malformed(&self) -> Vec<Value> {
        let good = self.proof(10);
        let first_hash = good.lines().nth(2).unwrap_or_default().to_owned();
        let change = |name: &str, from: &str, to: &str| self.case(name, 10, &good.replacen(from, to, 1));
        vec![
            self.case("nothing", 10, ""),
            change("another version", "@v1", "@v2"),
            change("a space behind the first line", "@v1\n", "@v1 \n"),
            change("no index line", "index 10\n", ""),
            change("an index with a leading zero", "index 10", "index 010"),
            change("an index with a sign", "index 10", "index +10"),
            change("an index without a number", "index 10", "index "),
            change("an index of 2^64", "index 10", "index 18446744073709551616"),
            change("two spaces in the index line", "index 10", "index  10"),
            change("the index line twice", "index 10\n", "index 10\nindex 10\n"),
            change("an empty extra line", "index", "extra \nindex"),
            change("an extra line without padding", "index", "extra AA\nindex"),
            change("two extra lines", "index", "extra AA==\nextra AA==\nindex"),
            change("an extra line behind the index", "index 10\n", "index 10\nextra AA==\n"),
            change("a hash without padding", &first_hash, first_hash.trim_end_matches('=')),
            change("a hash in hex", &first_hash, &leaf_hash(b"x").to_hex()),
            change("a hash of 31 bytes", &first_hash, &b64(&[0; 31])),
            change("unused bits in a hash", &first_hash, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB="),
            change("a space behind a hash", &first_hash, &format!("{first_hash} ")),
            change("sixty-six hashes", &first_hash, &vec![first_hash.as_str(); 63].join("\n")),
            self.case("cut before the checkpoint", 10, good.split("\n\n").next().unwrap_or_default()),
            self.case(
                "cut behind the blank line",
                10,
                &format!("{}\n\n", good.split("\n\n").next().unwrap_or_default()),
            ),
            self.case(
                "a checkpoint without signatures",
                10,
                &good.rsplit_once("\n\n").map(|(body, _)| format!("{body}\n")).unwrap_or_default(),
            ),
            change("two blank lines", "\n\n", "\n\n\n"),
            self.case("carriage returns", 10, &good.replace('\n', "\r\n")),
            change("a size with a leading zero", "\n15\n", "\n015\n"),
            change("a root that is no hash", &self.head(15).checkpoint().root.0.to_base64(), "AAAA"),
            self.case("text behind", 10, &format!("{good}more")),
            case("bytes that are no UTF-8", &self.policy, &entry(10), &[good.as_bytes(), b"\xff"].concat()),
            self.case("a byte order mark", 10, &format!("\u{feff}{good}")),
        ]
    }
}

fn entry(leaf: u64) -> Vec<u8> {
    format!("entry {leaf}\n").into_bytes()
}

fn case(name: &str, policy: &str, entry: &[u8], proof: &[u8]) -> Value {
    let given = json!({"name": name, "policy": policy, "entry_b64": b64(entry)});
    let given = match std::str::from_utf8(proof) {
        Ok(text) => super::with(given, "proof", json!(text)),
        Err(_) => super::with(given, "proof_b64", json!(b64(proof))),
    };
    let parsed = match TlogProof::parse(proof) {
        Ok(parsed) => parsed,
        Err(error) => return super::with(given, "code", json!(error.code())),
    };
    let policy = Policy::parse(policy.as_bytes()).expect("the policies of these cases are good");
    let leaf = leaf_hash(entry);
    let code = parsed.verify(&leaf, &policy).err().map(|refusal| refusal.code());
    let given = super::with(given, "code", json!(code));
    match parsed.verify_inclusion(&leaf, &policy) {
        Err(_) => given,
        Ok(verified) => {
            let names = verified.cosigned_by.iter().map(|place| policy.witnesses()[*place].vkey.name().to_string());
            let given = super::with(given, "index", json!(parsed.index.0));
            let given = super::with(given, "size", json!(verified.checkpoint.checkpoint().size.0));
            super::with(given, "witnesses", json!(names.collect::<Vec<_>>()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_refusal_is_shown() {
        let codes: BTreeSet<String> =
            proofs().cases.iter().filter_map(|case| case["code"].as_str().map(str::to_owned)).collect();
        for code in [
            "no-listed-log",
            "wrong-origin",
            "bad-log-signature",
            "not-included",
            "quorum-not-met",
            "not-utf8",
            "proof-magic",
            "proof-extra",
            "proof-index",
            "proof-hash",
            "proof-too-many-hashes",
            "proof-truncated",
            "unsigned",
            "checkpoint-size",
            "checkpoint-root",
        ] {
            assert!(codes.contains(code), "{code} in {codes:?}");
        }
    }
}
