//! Proofs: the format, each refusal, and mutations.

use merkle::{Hash, InclusionProof, LeafIndex, MAX_PROOF_HASHES, MemoryTree, leaf_hash, prove_inclusion};
use note::{
    BadCosignature, Checkpoint, CheckpointError, CosignatureError, KeyKind, KeyName, NoteError, Origin, Policy,
    ProofFormatError, ProofRefusal, SignedCheckpoint, SigningKey, TlogProof, VerifierKey, cosign, sign_checkpoint,
};
use proptest::prelude::*;

#[test]
fn every_entry_of_every_small_tree_is_proved_and_read_back() {
    for size in 1..20 {
        for index in 0..size {
            let proof = proof(index, size, &[1, 2]);
            let read = TlogProof::parse(proof.to_string().as_bytes()).unwrap();
            assert_eq!(read, proof);
            let verified = read.verify(&entry(index), &policy(2)).unwrap();
            assert_eq!((verified.log, verified.cosigned_by, verified.quorum_met), (0, vec![0, 1], true));
            assert_eq!(verified.cosignatures.len(), 2);
        }
    }
}

#[test]
fn a_head_that_no_listed_log_signed_is_refused_as_such() {
    let policy = Policy::parse(format!("log {}\nquorum none\n", log(9).verifier()).as_bytes()).unwrap();
    let refusal = proof(3, 8, &[]).verify(&entry(3), &policy).unwrap_err();
    assert_eq!(refusal, ProofRefusal::NoListedLog { origin: origin() });
    let no_logs = Policy::parse(b"quorum none\n").unwrap();
    assert_eq!(
        proof(3, 8, &[]).verify(&entry(3), &no_logs).unwrap_err(),
        ProofRefusal::NoListedLog { origin: origin() }
    );
}

#[test]
fn a_listed_logs_signature_under_another_origin_is_refused_as_such() {
    let mut proof = proof(3, 8, &[]);
    let text = proof.checkpoint.note().text().replace("log.example/agents", "log.example/other");
    let key = log(1);
    proof.checkpoint = SignedCheckpoint::parse(&note::sign_note(&text, &[&key]).unwrap()).unwrap();
    let refusal = proof.verify(&entry(3), &policy(0)).unwrap_err();
    assert_eq!(
        refusal,
        ProofRefusal::WrongOrigin { origin: Origin::new("log.example/other").unwrap(), log: key.name().clone() }
    );
}

#[test]
fn a_bad_line_under_a_listed_logs_key_is_refused_as_such() {
    let proof = proof(3, 8, &[1, 2]);
    let altered = proof.to_string().replace("\n8\n", "\n9\n");
    let refusal = TlogProof::parse(altered.as_bytes()).unwrap().verify(&entry(3), &policy(2)).unwrap_err();
    assert_eq!(refusal, ProofRefusal::BadLogSignature { log: log(1).name().clone() });
}

#[test]
fn another_entry_another_index_or_another_path_is_not_included() {
    let proof = proof(3, 8, &[1, 2]);
    let not_included = |proof: &TlogProof, leaf: &Hash| {
        assert!(matches!(proof.verify(leaf, &policy(2)), Err(ProofRefusal::NotIncluded { .. })))
    };
    not_included(&proof, &entry(4));
    for index in [0, 2, 4, 7, 8, 11, u64::MAX] {
        not_included(&TlogProof { index: LeafIndex(index), ..proof.clone() }, &entry(3));
    }
    let hashes = proof.inclusion.hashes().to_vec();
    for changed in [
        hashes[..2].to_vec(),
        [hashes.clone(), vec![hashes[0]]].concat(),
        vec![hashes[1], hashes[0], hashes[2]],
        vec![],
    ] {
        not_included(&TlogProof { inclusion: InclusionProof::new(changed), ..proof.clone() }, &entry(3));
    }
}

#[test]
fn too_few_witnesses_is_a_refusal_of_its_own_that_keeps_what_was_proved() {
    let Err(ProofRefusal::QuorumNotMet(verified)) = proof(3, 8, &[2]).verify(&entry(3), &policy(2)) else {
        panic!("one of two is no quorum");
    };
    assert_eq!((verified.cosigned_by.as_slice(), verified.quorum_met), ([1].as_slice(), false));
    let same = proof(3, 8, &[2]).verify_inclusion(&entry(3), &policy(2)).unwrap();
    assert_eq!(same, *verified);
}

#[test]
fn one_witness_signing_twice_counts_once() {
    let mut proof = proof(3, 8, &[1]);
    let again = cosign(proof.checkpoint.note().text(), &witness(1), 99).unwrap();
    let note = format!("{}{}\n", proof.checkpoint.note(), again.line);
    proof.checkpoint = SignedCheckpoint::parse(note.as_bytes()).unwrap();
    let verified = proof.verify_inclusion(&entry(3), &policy(2)).unwrap();
    assert_eq!((verified.cosigned_by.len(), verified.cosignatures.len(), verified.quorum_met), (1, 2, false));
}

#[test]
fn a_bad_line_under_a_known_witness_key_is_reported_and_does_not_count() {
    let mut proof = proof(3, 8, &[1]);
    let of_another_text = cosign("log.example/agents\n7\n", &witness(2), 99).unwrap();
    let note = format!("{}{}\n", proof.checkpoint.note(), of_another_text.line);
    proof.checkpoint = SignedCheckpoint::parse(note.as_bytes()).unwrap();
    let verified = proof.verify(&entry(3), &policy(1)).unwrap();
    assert_eq!(verified.cosigned_by, [0]);
    assert_eq!(verified.bad_cosignatures, [BadCosignature { witness: 1, reason: CosignatureError::BadSignature }]);
}

#[test]
fn malformed_proofs_are_refused_with_their_reason() {
    let good = TlogProof { extra: Some(b"x".to_vec()), ..proof(3, 8, &[]) }.to_string();
    let hash = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let inserted =
        |hashes: usize| good.replace("index 3\n", &format!("index 3\n{}", format!("{hash}\n").repeat(hashes)));
    for (text, error) in [
        (String::new(), ProofFormatError::Truncated),
        (good.replace("@v1", "@v2"), ProofFormatError::Magic),
        (format!(" {good}"), ProofFormatError::Magic),
        (good.replace("extra eA==", "extra eA="), ProofFormatError::Extra),
        (good.replace("extra eA==", "extra eB=="), ProofFormatError::Extra),
        (good.replace("extra eA==", "extra "), ProofFormatError::Extra),
        (good.replace("extra eA==", "extra"), ProofFormatError::Index),
        (good.replace("extra eA==", "Extra eA=="), ProofFormatError::Index),
        (good.replace("index 3", "index 03"), ProofFormatError::Index),
        (good.replace("index 3", "index +3"), ProofFormatError::Index),
        (good.replace("index 3", "index  3"), ProofFormatError::Index),
        (good.replace("index 3", "index 18446744073709551616"), ProofFormatError::Index),
        (good.replace("index 3\n", ""), ProofFormatError::Index),
        (good.replace("index 3\n", "index 3\nindex 3\n"), ProofFormatError::Hash(1)),
        (good.replace("index 3\n", "index 3\n47DE\n"), ProofFormatError::Hash(1)),
        (inserted(MAX_PROOF_HASHES + 1), ProofFormatError::TooManyHashes),
        (
            good.replace("\n\nlog", "\n\n\nlog"),
            ProofFormatError::Checkpoint(CheckpointError::Text(note::TextError::EmptyLine)),
        ),
        (good.trim_end().to_owned(), ProofFormatError::Checkpoint(CheckpointError::Note(NoteError::Unsigned))),
        ("x".repeat(note::MAX_PROOF_LEN + 1), ProofFormatError::TooLong),
    ] {
        assert_eq!(TlogProof::parse(text.as_bytes()), Err(error), "{:?}", &text[..text.len().min(300)]);
    }
}

#[test]
fn empty_extra_data_is_no_extra_data() {
    let proof = TlogProof { extra: Some(Vec::new()), ..proof(0, 1, &[]) };
    assert_eq!(TlogProof::parse(proof.to_string().as_bytes()).unwrap().extra, None);
}

proptest! {
    #[test]
    fn no_changed_byte_leaves_a_proof_that_convinces_of_the_same(index in 0..13_u64, place: prop::sample::Index, change in 1..=255_u8) {
        let good = proof(index, 13, &[1, 2]).to_string();
        let mut bytes = good.clone().into_bytes();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        let verified = TlogProof::parse(&bytes).ok().and_then(|proof| proof.verify(&entry(index), &policy(2)).ok());
        prop_assert_eq!(verified, None, "byte {} of {}", place, good);
    }

    #[test]
    fn proofs_accept_only_what_they_print(text in "c2sp.org/tlog-proof@v1\n(extra [A-Z=]{0,8}\n)?(index [0-9]{0,3}\n)?([A-Za-z0-9+/]{42}[AEI]=\n){0,3}\n?") {
        let text = format!("{text}{}", proof(0, 1, &[1]).checkpoint.note());
        if let Ok(proof) = TlogProof::parse(text.as_bytes()) {
            prop_assert_eq!(proof.to_string(), text);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = TlogProof::parse(&bytes);
    }
}

fn proof(index: u64, size: u64, witnesses: &[u8]) -> TlogProof {
    let mut tree = MemoryTree::new();
    for index in 0..size {
        tree.push(entry(index));
    }
    let head = sign_checkpoint(&Checkpoint::new(origin(), tree.size(), tree.root()), &log(1)).unwrap();
    let lines: Vec<_> = witnesses
        .iter()
        .map(|seed| cosign(head.note().text(), &witness(*seed), 7).unwrap().to_line().unwrap())
        .collect();
    let checkpoint = head.with_cosignatures(&lines).into_unverified();
    TlogProof {
        extra: None,
        index: LeafIndex(index),
        inclusion: prove_inclusion(&tree, LeafIndex(index), tree.size()).unwrap(),
        checkpoint,
    }
}

/// The log, two witnesses, and how many of them it takes.
fn policy(quorum: usize) -> Policy {
    let mut text = format!(
        "log {}\nwitness a {}\nwitness b {}\n",
        log(1).verifier(),
        witness(1).verifier(),
        witness(2).verifier()
    );
    text += &if quorum == 0 { "quorum none\n".to_owned() } else { format!("group q {quorum} a b\nquorum q\n") };
    Policy::parse(text.as_bytes()).unwrap()
}

fn entry(index: u64) -> Hash {
    leaf_hash(&index.to_be_bytes())
}

fn origin() -> Origin {
    Origin::new("log.example/agents").unwrap()
}

fn log(seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/agents").unwrap(), KeyKind::Ed25519, [seed; 32])
}

fn witness(seed: u8) -> SigningKey {
    SigningKey::from_seed(
        KeyName::new(&format!("witness.example/w{seed}")).unwrap(),
        KeyKind::CosignatureV1,
        [100 + seed; 32],
    )
}

#[test]
fn keys_of_the_fixtures_differ() {
    let keys: Vec<VerifierKey> =
        vec![log(1).verifier(), log(9).verifier(), witness(1).verifier(), witness(2).verifier()];
    assert!(keys.iter().enumerate().all(|(place, key)| !keys[..place].contains(key)));
}
