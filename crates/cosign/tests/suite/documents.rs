//! Evidence documents: what they show, and every way in which one shows nothing.

use crate::histories::{ask, cosigned, evidence, head, head_signed_by, key, log_key, tree, witness_key};
use counterfoil_cosign::{EvidenceError, LogFork, WitnessFork, implied_root};
use merkle::{MAX_PROOF_HASHES, MemoryTree, ProofError, RootHash, TreeSize, leaf_hash};
use note::KeyKind;
use serde_json::{Value, json};

#[test]
fn a_document_that_shows_nothing_is_refused() {
    let honest = (head(&tree(5, 0, 0)), head(&tree(9, 0, 0)));
    let larger = tree(9, 0, 0);
    let implied = implied_root(&larger, TreeSize(5), &honest.1).unwrap();
    assert_eq!(LogFork::make(&honest.0, &honest.1, Some(implied)), Err(EvidenceError::Consistent));
    assert_eq!(LogFork::make(&honest.0, &honest.1, None), Err(EvidenceError::Members));
    assert_eq!(LogFork::make(&honest.0, &honest.0, None), Err(EvidenceError::SameHead));
    let empty = head(&tree(0, 0, 0));
    let implied = implied_root(&larger, TreeSize(0), &honest.1).unwrap();
    assert_eq!(LogFork::make(&empty, &honest.1, Some(implied)), Err(EvidenceError::Empty));
}

#[test]
fn evidence_reads_back_as_it_was_written_and_takes_no_unknown_member() {
    for (held, offered) in [(tree(3, 2, 1), tree(3, 2, 2)), (tree(3, 1, 1), tree(3, 9, 2))] {
        let fork = evidence(ask(&held, &offered));
        let text = serde_json::to_string(&fork).unwrap();
        assert!(text.starts_with("{\"kind\":\"log-fork\",\"log\":\"log.example/one+"), "{text}");
        assert_eq!(serde_json::from_str::<LogFork>(&text).unwrap(), fork);
        assert!(serde_json::from_str::<LogFork>(&text.replacen('{', "{\"extra\":1,", 1)).is_err());
        assert!(serde_json::from_str::<LogFork>(&text.replace("log-fork", "witness-fork")).is_err());
    }
}

#[test]
fn a_witness_that_cosigned_both_histories_is_accused_and_one_that_did_not_is_not() {
    let (witness, other) = (witness_key(), key("other.example", KeyKind::CosignatureV1, 4));
    let (small, large) = (tree(3, 1, 1), tree(3, 9, 2));
    let implied = implied_root(&large, small.size(), &head(&large)).unwrap();
    let both = WitnessFork::make(
        &witness.verifier(),
        &cosigned(&large, &[&witness]),
        &cosigned(&small, &[&witness]),
        Some(implied.clone()),
    );
    assert_eq!(both.unwrap().check().unwrap().key, witness.verifier());
    let one = WitnessFork::make(
        &witness.verifier(),
        &cosigned(&small, &[&witness]),
        &cosigned(&large, &[&other]),
        Some(implied),
    );
    assert_eq!(one, Err(EvidenceError::NotCosigned { which: "second" }));
}

/// A fork of two sizes, as a document that can be edited: 5 and 12 leaves, of which 3 are common.
fn log_fork() -> Value {
    serde_json::to_value(evidence(ask(&tree(3, 2, 1), &tree(3, 9, 2)))).unwrap()
}

fn checked(document: &Value) -> Result<(), EvidenceError> {
    serde_json::from_value::<LogFork>(document.clone()).unwrap().check().map(|_| ())
}

fn edited(document: &Value, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) -> Value {
    let mut document = document.clone();
    edit(document.as_object_mut().unwrap());
    document
}

fn text_of(tree: &MemoryTree) -> String {
    String::from_utf8(head(tree).bytes().to_vec()).unwrap()
}

#[test]
fn the_document_that_the_edits_below_start_from_is_good() {
    assert_eq!(checked(&log_fork()), Ok(()));
}

#[test]
fn an_implied_root_that_is_the_first_heads_own_shows_nothing() {
    let agreeing = edited(&log_fork(), |fork| fork["implied_root"] = json!(tree(3, 2, 1).root()));
    assert_eq!(checked(&agreeing), Err(EvidenceError::Consistent));
}

#[test]
fn an_implied_root_that_the_proof_does_not_lead_from_shows_nothing() {
    let invented = edited(&log_fork(), |fork| fork["implied_root"] = json!(leaf_hash(b"invented")));
    assert_eq!(checked(&invented), Err(EvidenceError::Proof(ProofError::OldRoot)));
    // At a power of two the proof leaves the older root out, so that an invented one shows in the newer root.
    let power = serde_json::to_value(evidence(ask(&tree(3, 1, 1), &tree(3, 9, 2)))).unwrap();
    let invented = edited(&power, |fork| fork["implied_root"] = json!(leaf_hash(b"invented")));
    assert_eq!(checked(&invented), Err(EvidenceError::Proof(ProofError::NewRoot)));
}

#[test]
fn a_proof_of_another_length_shows_nothing() {
    let hashes = log_fork()["proof"].as_array().unwrap().clone();
    for length in (0..hashes.len()).chain([MAX_PROOF_HASHES, MAX_PROOF_HASHES + 1, 4096]) {
        let proof: Vec<Value> = hashes.iter().cycle().take(length).cloned().collect();
        let decision = checked(&edited(&log_fork(), |fork| fork["proof"] = json!(proof)));
        assert!(
            matches!(decision, Err(EvidenceError::Proof(ProofError::WrongLength { .. }))),
            "{length}: {decision:?}"
        );
    }
}

#[test]
fn members_that_belong_to_the_other_form_show_nothing() {
    let two_sizes = log_fork();
    for member in ["implied_root", "proof"] {
        let without = edited(&two_sizes, |fork| drop(fork.remove(member)));
        assert_eq!(checked(&without), Err(EvidenceError::Members), "without {member}");
        let one_size = serde_json::to_value(evidence(ask(&tree(3, 2, 1), &tree(3, 2, 2)))).unwrap();
        let with = edited(&one_size, |fork| drop(fork.insert(member.to_owned(), two_sizes[member].clone())));
        assert_eq!(checked(&with), Err(EvidenceError::Members), "with {member}");
    }
}

#[test]
fn the_larger_head_first_shows_nothing() {
    let swapped = edited(&log_fork(), |fork| {
        let (first, second) = (fork["first"].clone(), fork["second"].clone());
        fork["first"] = second;
        fork["second"] = first;
    });
    assert_eq!(checked(&swapped), Err(EvidenceError::WrongOrder));
}

#[test]
fn a_key_that_did_not_sign_both_heads_is_not_accused() {
    let stranger = key("log.example/one", KeyKind::Ed25519, 9);
    let accusing = edited(&log_fork(), |fork| fork["log"] = json!(stranger.verifier().to_string()));
    assert!(matches!(checked(&accusing), Err(EvidenceError::NotSigned { which: "first", .. })));
    let other_log = key("log.example/two", KeyKind::Ed25519, 7);
    let accusing = edited(&log_fork(), |fork| fork["log"] = json!(other_log.verifier().to_string()));
    assert!(matches!(checked(&accusing), Err(EvidenceError::NotSigned { which: "first", .. })));
    // Somebody who signs a second head with a key of his own, under the log's name.
    let forged = head_signed_by(&stranger, TreeSize(12), tree(3, 9, 2).root());
    let forged = String::from_utf8(forged.bytes().to_vec()).unwrap();
    let forged = edited(&log_fork(), |fork| fork["second"] = json!(forged));
    assert!(matches!(checked(&forged), Err(EvidenceError::NotSigned { which: "second", .. })));
}

#[test]
fn heads_that_are_good_but_not_those_of_the_proof_show_nothing() {
    let honest = edited(&log_fork(), |fork| fork["first"] = json!(text_of(&tree(3, 2, 2))));
    assert_eq!(checked(&honest), Err(EvidenceError::Consistent));
    let longer = edited(&log_fork(), |fork| fork["second"] = json!(text_of(&tree(3, 30, 2))));
    assert!(matches!(checked(&longer), Err(EvidenceError::Proof(_))));
}

#[test]
fn what_is_no_document_is_not_read() {
    let good = log_fork();
    for (member, value) in [
        ("kind", json!("log-forks")),
        ("kind", json!(1)),
        ("log", json!("log.example/one")),
        ("first", json!(5)),
        ("implied_root", json!("AAAA")),
        ("implied_root", json!([1])),
        ("proof", json!("AAAA")),
        ("proof", json!(["AAAA"])),
        ("proof", json!([1])),
        ("extra", json!(null)),
    ] {
        let bad = edited(&good, |fork| drop(fork.insert(member.to_owned(), value.clone())));
        assert!(serde_json::from_value::<LogFork>(bad).is_err(), "{member}: {value}");
    }
    for member in ["kind", "log", "first", "second"] {
        let without = edited(&good, |fork| drop(fork.remove(member)));
        assert!(serde_json::from_value::<LogFork>(without).is_err(), "{member}");
    }
    let twice = good.to_string().replacen("\"first\"", "\"second\":\"\",\"first\"", 1);
    assert!(serde_json::from_str::<LogFork>(&twice).is_err(), "a member twice");
}

#[test]
fn a_log_fork_carries_only_the_lines_of_the_log_that_it_accuses() {
    let witness = witness_key();
    let [one, other] = [tree(3, 2, 1), tree(3, 2, 2)].map(|tree| cosigned(&tree, &[&witness]));
    let fork = serde_json::to_value(LogFork::make(&one, &other, None).unwrap()).unwrap();
    for head in ["first", "second"] {
        let text = fork[head].as_str().unwrap();
        assert_eq!(text.matches("\n— ").count(), 1, "{text}");
        assert!(text.contains("\n— log.example/one "), "{text}");
    }
}

fn witness_forks() -> [WitnessFork; 2] {
    let (witness, other) = (witness_key(), key("other.example", KeyKind::CosignatureV1, 4));
    [(tree(3, 2, 1), tree(3, 2, 2)), (tree(3, 1, 1), tree(3, 9, 2))].map(|(small, large)| {
        let implied = (small.size() < large.size()).then(|| implied_root(&large, small.size(), &head(&large)).unwrap());
        let heads = [&small, &large].map(|tree| cosigned(tree, &[&other, &witness]));
        WitnessFork::make(&witness.verifier(), &heads[0], &heads[1], implied).unwrap()
    })
}

#[test]
fn a_witness_fork_carries_only_the_lines_of_the_witness_that_it_accuses() {
    for fork in witness_forks() {
        let document = serde_json::to_value(&fork).unwrap();
        for head in ["first", "second"] {
            let text = document[head].as_str().unwrap();
            assert_eq!(text.matches("\n— ").count(), 1, "{text}");
            assert!(text.contains("\n— witness.example "), "{text}");
        }
        let text = serde_json::to_string(&fork).unwrap();
        assert!(text.starts_with("{\"kind\":\"witness-fork\",\"witness\":\"witness.example+"), "{text}");
        assert_eq!(serde_json::from_str::<WitnessFork>(&text).unwrap(), fork);
        assert!(serde_json::from_str::<LogFork>(&text).is_err());
        let shown = fork.check().unwrap();
        assert_eq!(shown.key, witness_key().verifier());
        assert!(shown.sentence.contains("witness.example") && shown.sentence.contains("log.example/one"), "{shown:?}");
    }
}

#[test]
fn no_changed_byte_of_a_witness_fork_leaves_it_good() {
    for fork in witness_forks() {
        let text = serde_json::to_vec(&fork).unwrap();
        for place in 0..text.len() {
            let mut changed = text.clone();
            changed[place] ^= 1;
            if let Ok(changed) = serde_json::from_slice::<WitnessFork>(&changed) {
                assert!(changed.check().is_err(), "byte {place} of {}", String::from_utf8_lossy(&text));
            }
        }
    }
}

#[test]
fn a_witness_that_cosigned_heads_of_two_logs_did_nothing_wrong() {
    let witness = witness_key();
    let head_of = |log: &str, root: &[u8]| {
        let log = key(log, KeyKind::Ed25519, 7);
        let head = head_signed_by(&log, TreeSize(5), RootHash(leaf_hash(root)));
        let line = note::cosign(head.note().text(), &witness, 1_700_000_000).unwrap().to_line().unwrap();
        head.with_cosignatures(&[line])
    };
    let made = WitnessFork::make(&witness.verifier(), &head_of("a.example", b"a"), &head_of("b.example", b"b"), None);
    assert!(matches!(made, Err(EvidenceError::TwoLogs(..))), "{made:?}");
}

#[test]
fn a_witness_that_cosigned_an_honest_history_twice_did_nothing_wrong() {
    let witness = witness_key();
    let (small, large) = (tree(5, 0, 0), tree(9, 0, 0));
    let implied = implied_root(&large, small.size(), &head(&large)).unwrap();
    let [small, large] = [small, large].map(|tree| cosigned(&tree, &[&witness]));
    let witness = witness.verifier();
    assert_eq!(WitnessFork::make(&witness, &small, &large, Some(implied)), Err(EvidenceError::Consistent));
    assert_eq!(WitnessFork::make(&witness, &small, &large, None), Err(EvidenceError::Members));
    assert_eq!(WitnessFork::make(&witness, &small, &small, None), Err(EvidenceError::SameHead));
}

#[test]
fn a_key_that_is_no_witness_key_cannot_be_accused_as_one() {
    let document = serde_json::to_value(&witness_forks()[0]).unwrap();
    let accusing = edited(&document, |fork| fork["witness"] = json!(log_key().verifier().to_string()));
    let fork: WitnessFork = serde_json::from_value(accusing).unwrap();
    assert_eq!(fork.check(), Err(EvidenceError::NotCosigned { which: "first" }));
}
