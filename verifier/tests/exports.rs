//! `export` as its users meet it, and what it writes read back: decoded, recomputed, and with every bit turned over.

use crate::world;
use coset::cbor::value::Value;
use coset::{CborSerializable, CoseSign1, Label, RegisteredLabelWithPrivate, TaggedCborSerializable, iana};
use merkle::Hash;
use note::{KeyKind, SigningKey, VerifierKey};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use world::{World, decision, key};

/// Whose receipt is exported, and under a head of how many entries.
const INDEX: u64 = 5;
const SIZE: u64 = 7;

/// A proof, its entry and what an export needs besides, on disk.
struct Desk {
    dir: TempDir,
    world: World,
}

/// A run of the program.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Desk {
        let mut world = World::new();
        world.log_heartbeats(4);
        world.log_body(0, &decision("r-5", false, "IDENTITY_MUTATION", "s", "é \u{202e}", "customer:7").to_string());
        world.log_heartbeats(1);
        world.seal();
        let desk = Desk { dir: tempfile::tempdir().unwrap(), world };
        let (proof, entry) = desk.world.proof(INDEX);
        fs::write(desk.path("policy"), desk.world.policy_text()).unwrap();
        fs::write(desk.path("issuers"), desk.world.issuers_text()).unwrap();
        fs::write(desk.path("r.tlog-proof"), proof).unwrap();
        fs::write(desk.path("r.entry"), entry).unwrap();
        desk.write_key("log.key", &desk.world.log.key.log_key());
        desk.write_key("notary.key", &notary());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write_key(&self, name: &str, key: &SigningKey) {
        fs::write(self.path(name), key.to_private_text().as_str()).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn export(&self, format: &str, more: &[&str]) -> Run {
        let mut arguments = vec!["export", "--format", format, "--policy", "policy", "--out", "out"];
        arguments.extend(more);
        arguments.extend(["r.tlog-proof", "r.entry"]);
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(arguments)
            .current_dir(self.dir.path())
            .env_remove("COUNTERFOIL_KEY")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn entry(&self) -> Vec<u8> {
        fs::read(self.path("r.entry")).unwrap()
    }

    fn written(&self) -> Vec<u8> {
        fs::read(self.path("out")).unwrap()
    }
}

fn notary() -> SigningKey {
    key("notary.example/1", KeyKind::Ed25519, 99)
}

/// The root that a path leads to (RFC 9162, section 2.1.3.2), written down once more.
fn root_from(leaf: Hash, index: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    let (mut place, mut last) = (index, size.checked_sub(1).filter(|last| index <= *last)?);
    let mut root = leaf;
    for hash in path {
        if last == 0 {
            return None;
        }
        if place % 2 == 1 || place == last {
            root = merkle::node_hash(hash, &root);
            while place % 2 == 0 && place != 0 {
                (place, last) = (place >> 1, last >> 1);
            }
        } else {
            root = merkle::node_hash(&root, hash);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    (last == 0).then_some(root)
}

/// What a reader of COSE receipts believes: index and size, if everything fits `entry` and `key`.
fn read_receipt(bytes: &[u8], entry: &[u8], key: &VerifierKey, origin: &str) -> Option<(u64, u64)> {
    let receipt = CoseSign1::from_tagged_slice(bytes).ok()?;
    // The library reads an undefined payload as none.
    if receipt.clone().to_tagged_vec().ok()? != bytes {
        return None;
    }
    let header = &receipt.protected.header;
    let of = |header: &coset::Header, label: i64| {
        header.rest.iter().find(|(name, _)| *name == Label::Int(label)).map(|(_, value)| value.clone())
    };
    if header.alg != Some(RegisteredLabelWithPrivate::Assigned(iana::Algorithm::EdDSA))
        || of(header, 395)? != Value::from(1)
        || receipt.payload.is_some()
    {
        return None;
    }
    let proofs = of(&receipt.unprotected, 396)?.into_map().ok()?;
    let [(label, list)] = proofs.as_slice() else { return None };
    let list = list.as_array().filter(|_| *label == Value::from(-1))?;
    let [proof] = list.as_slice() else { return None };
    let proof = Value::from_slice(proof.as_bytes()?).ok()?.into_array().ok()?;
    let [size, index, path] = proof.as_slice() else { return None };
    let number = |value: &Value| u64::try_from(value.as_integer()?).ok();
    let (size, index) = (number(size)?, number(index)?);
    let hash = |value: &Value| value.as_bytes()?.as_slice().try_into().ok().map(Hash);
    let path: Vec<Hash> = path.as_array()?.iter().map(hash).collect::<Option<_>>()?;
    let leaf = merkle::leaf_hash(entry);
    let root = root_from(leaf, index, size, &path)?;
    receipt
        .verify_detached_signature(&root.0, b"", |signature, message| {
            key.verify(message, signature).then_some(()).ok_or(())
        })
        .ok()?;
    let claims = of(header, 15)?.into_map().ok()?;
    let expected = [
        (Value::from(1), Value::from(key.name().as_str())),
        (Value::from(2), Value::from(format!("{origin}#{}@{index}/{size}", leaf.to_hex()))),
    ];
    (claims == expected).then_some((index, size))
}

#[test]
fn a_cose_receipt_is_believed_as_written_and_with_no_bit_turned_over() {
    let desk = Desk::new();
    let origin = "log.example/test";
    for (file, key) in [("log.key", desk.world.log.key.log_key()), ("notary.key", notary())] {
        let run = desk.export("cose", &["--key", file, "--issuers", "issuers"]);
        assert_eq!(run.code, 0, "{}{}", run.out, run.err);
        let (mut bytes, mut entry, key) = (desk.written(), desk.entry(), key.verifier());
        assert_eq!(read_receipt(&bytes, &entry, &key, origin), Some((INDEX, SIZE)), "{file}");
        for place in 0..bytes.len() * 8 {
            bytes[place / 8] ^= 1 << (place % 8);
            assert_eq!(read_receipt(&bytes, &entry, &key, origin), None, "{file}: bit {place}");
            bytes[place / 8] ^= 1 << (place % 8);
        }
        for place in 0..entry.len() {
            entry[place] ^= 1;
            assert_eq!(read_receipt(&bytes, &entry, &key, origin), None, "{file}: entry, byte {place}");
            entry[place] ^= 1;
        }
        assert_eq!(read_receipt(&bytes, &entry, &key, "log.example/other"), None);
    }
}

#[test]
fn the_same_receipt_and_key_make_the_same_bytes() {
    let desk = Desk::new();
    for (format, more) in [("cose", &["--key", "log.key"][..]), ("in-toto", &["--key", "log.key"]), ("in-toto", &[])] {
        assert_eq!(desk.export(format, more).code, 0);
        let first = desk.written();
        assert_eq!(desk.export(format, more).code, 0);
        assert_eq!(first, desk.written());
    }
}

#[test]
fn whose_word_it_is_is_said() {
    let desk = Desk::new();
    let by_log = desk.export("cose", &["--key", "log.key", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&by_log.out).unwrap();
    assert_eq!((value["signed_by_log"].as_bool(), value["index"].as_u64()), (Some(true), Some(INDEX)), "{value}");
    let by_notary = desk.export("cose", &["--key", "notary.key", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&by_notary.out).unwrap();
    assert_eq!(value["signed_by"], notary().verifier().to_string());
    assert_eq!(value["signed_by_log"], false);
    assert_eq!(value["jwk"]["crv"], "Ed25519");
    let words = |run: Run| run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(desk.export("cose", &["--key", "notary.key"])).contains("notary.example/1, which is not the log's key")
    );
    assert!(words(desk.export("cose", &["--key", "log.key"])).contains("the log's own, without its witnesses"));
    assert!(words(desk.export("in-toto", &[])).contains("nobody's: a bare statement is not signed"));
    let run = desk.export("in-toto", &["--key", "notary.key"]);
    // Keys and ids are never broken.
    let fits = |line: &str| line.chars().count() <= 80 || !line[11..].contains(' ');
    assert!(run.out.lines().all(fits), "{}", run.out);
}

#[test]
fn an_envelope_holds_the_bare_statement_under_the_keys_signature() {
    let desk = Desk::new();
    assert_eq!(desk.export("in-toto", &[]).code, 0);
    let bare = desk.written();
    let statement: serde_json::Value = serde_json::from_slice(&bare).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["subject"][0]["name"], "gate.example/support-1#5");
    let predicate = &statement["predicate"];
    assert_eq!(predicate["receipt"]["entry"], merkle::encode_base64(&desk.entry()));
    assert_eq!(predicate["receipt"]["body"]["request_id"], "r-5");
    assert_eq!(predicate["inclusion"]["treeSize"], SIZE);
    assert_eq!(predicate["cosignatures"].as_array().unwrap().len(), 3);
    // The proof in it is one that this program takes.
    fs::write(desk.path("again.tlog-proof"), predicate["tlogProof"].as_str().unwrap()).unwrap();
    assert_eq!(fs::read(desk.path("again.tlog-proof")).unwrap(), fs::read(desk.path("r.tlog-proof")).unwrap());

    assert_eq!(desk.export("in-toto", &["--key", "notary.key"]).code, 0);
    let envelope: serde_json::Value = serde_json::from_slice(&desk.written()).unwrap();
    let payload = merkle::decode_base64(envelope["payload"].as_str().unwrap()).unwrap();
    assert_eq!([&payload[..], b"\n"].concat(), bare);
    let signed = [format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len()).as_bytes(), &payload].concat();
    let signature = merkle::decode_base64(envelope["signatures"][0]["sig"].as_str().unwrap()).unwrap();
    assert!(notary().verifier().verify(&signed, &signature));
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
}

#[test]
fn nothing_is_written_of_what_proof_would_not_take() {
    let refused = |desk: &Desk, more: &[&str], code: i32, why: &str| {
        for format in ["cose", "in-toto"] {
            let run = desk.export(format, more);
            assert_eq!((run.code, run.out.as_str()), (code, ""), "{format} {why}: {}", run.err);
            assert!(run.err.contains(why), "{format} {why}: {}", run.err);
            assert!(!desk.path("out").exists(), "{format} {why}");
        }
    };
    let key = ["--key", "notary.key"];
    let desk = Desk::new();
    refused(&desk, &["--key", "nowhere.key"], 65, "cannot read the key file");
    fs::write(desk.path("r.entry"), desk.world.log.entries[4].clone()).unwrap();
    refused(&desk, &key, 1, "not at index 5");

    let mut world = World::new();
    world.log_heartbeats(2);
    world.seal_for(&[0]);
    let desk = Desk::new();
    let (proof, entry) = world.proof(1);
    fs::write(desk.path("r.tlog-proof"), proof).unwrap();
    fs::write(desk.path("r.entry"), entry).unwrap();
    refused(&desk, &key, 1, "do not satisfy the policy's quorum");

    let desk = Desk::new();
    fs::write(desk.path("issuers"), "").unwrap();
    refused(&desk, &["--key", "notary.key", "--issuers", "issuers"], 2, "nothing was written: not checked");
    let other = key_of_support(77);
    fs::write(desk.path("issuers"), format!("{other}\n")).unwrap();
    let run = desk.export("cose", &["--key", "notary.key", "--issuers", "issuers"]);
    assert!(run.code == 1 || run.code == 2, "{}", run.err);
    assert!(!desk.path("out").exists());
}

fn key_of_support(seed: u8) -> VerifierKey {
    key("gate.example/support-1", KeyKind::Ed25519, seed).verifier()
}

#[test]
fn keys_that_may_not_sign_and_missing_ones_are_refused() {
    let desk = Desk::new();
    let without = desk.export("cose", &[]);
    assert_eq!((without.code, desk.path("out").exists()), (64, false), "{}", without.err);
    desk.write_key("witness.key", &desk.world.witnesses[0].key());
    desk.write_key("mldsa.key", &key("witness-1.example", KeyKind::MlDsa44, 3));
    for file in ["witness.key", "mldsa.key", "no.key"] {
        for format in ["cose", "in-toto"] {
            let run = desk.export(format, &["--key", file]);
            assert_eq!((run.code, desk.path("out").exists()), (65, false), "{file}: {}", run.err);
        }
    }
    fs::set_permissions(desk.path("notary.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let exposed = desk.export("cose", &["--key", "notary.key"]);
    assert!(exposed.code == 65 && exposed.err.contains("chmod 600"), "{}", exposed.err);
}

#[test]
fn a_log_of_one_entry_has_a_statement_and_no_cose_receipt() {
    let mut world = World::new();
    world.seal();
    let desk = Desk::new();
    let (proof, entry) = world.proof(0);
    fs::write(desk.path("r.tlog-proof"), proof).unwrap();
    fs::write(desk.path("r.entry"), entry).unwrap();
    let run = desk.export("cose", &["--key", "notary.key"]);
    assert!(run.code == 1 && run.err.contains("fetch the proof again"), "{}", run.err);
    assert_eq!(desk.export("in-toto", &["--key", "notary.key"]).code, 0);
    assert!(desk.path("out").exists());
}
