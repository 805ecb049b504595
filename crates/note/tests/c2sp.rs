//! Rules of the C2SP texts that the tests beside this file touch only in passing.

use merkle::{Hash, InclusionProof, LeafIndex, MemoryTree, TreeSize, leaf_hash, prove_inclusion};
use note::{
    Checkpoint, CosignatureError, KeyId, KeyKind, KeyName, NoteSignature, Origin, Policy, SignatureError,
    SignedCheckpoint, SignedNote, SigningKey, TlogProof, cosign, parse_cosignature_line, sign_checkpoint, sign_note,
};

#[test]
fn sixteen_signatures_as_long_as_post_quantum_ones_get_are_read() {
    let log = key("log.example/agents", KeyKind::Ed25519, 1);
    let mut text = String::from_utf8(sign_note("text\n", &[&log]).unwrap()).unwrap();
    for number in 0..16_u8 {
        // Nearly five thousand bytes: the longest that signed-note speaks of.
        let name = KeyName::new(&format!("pq-{number}.example")).unwrap();
        text += &NoteSignature { name, key_id: KeyId([number; 4]), blob: vec![number; 4990] }.line();
        text.push('\n');
    }
    let note = SignedNote::parse(text.as_bytes()).unwrap();
    assert_eq!(note.signatures().len(), 17);
    assert_eq!(note.verify(&log.verifier()), Ok(()));
}

#[test]
fn a_key_checks_no_signature_of_another_type_though_the_curve_is_the_same() {
    let (name, seed) = ("example.com/one", 7);
    let (plain, witness) = (key(name, KeyKind::Ed25519, seed), key(name, KeyKind::CosignatureV1, seed));
    assert_eq!(plain.verifier().public_key_bytes(), witness.verifier().public_key_bytes());
    assert_ne!(plain.id(), witness.id());
    let note = SignedNote::parse(&sign_note("text\n", &[&plain]).unwrap()).unwrap();
    assert_eq!(note.verify(&witness.verifier()), Err(SignatureError::WrongKeyKind));
    let line = cosign(note.text(), &witness, 9).unwrap().to_line().unwrap();
    assert_eq!(line.verify(note.text(), &plain.verifier()), Err(CosignatureError::WrongKeyKind));
    // Under the id of the other type, the very bytes of a signature count for nothing.
    let mut disguised = line.signature().clone();
    disguised.key_id = plain.id();
    let disguised = parse_cosignature_line(&disguised.line()).unwrap();
    assert_eq!(disguised.verify(note.text(), &witness.verifier()), Err(CosignatureError::OtherKey));
}

#[test]
fn what_a_witness_signs_is_a_header_its_time_and_the_whole_text_with_extension_lines() {
    let witness = key("w.example", KeyKind::CosignatureV1, 2);
    let extended = Checkpoint { extensions: vec!["one".into(), "two".into()], ..head(7) }.to_string();
    let cosignature = cosign(&extended, &witness, 1_679_315_147).unwrap();
    let line = cosignature.to_line().unwrap();
    assert!(line.verify(&extended, &witness.verifier()).is_ok());
    for other in [head(7).to_string(), extended.replace("two", "too"), extended.replace("two\n", "")] {
        assert_eq!(line.verify(&other, &witness.verifier()), Err(CosignatureError::BadSignature), "{other}");
    }
    // The bytes themselves, without the code that puts them together.
    let message = format!("cosignature/v1\ntime 1679315147\nlog.example/agents\n7\n{}\none\ntwo\n", root(7));
    let blob = &line.signature().blob;
    assert_eq!(blob.len(), 72);
    assert_eq!(blob[..8], 1_679_315_147_u64.to_be_bytes());
    assert!(witness.verifier().verify(message.as_bytes(), blob[8..].try_into().unwrap()));
    assert!(!witness.verifier().verify(&message.as_bytes()[..message.len() - 1], blob[8..].try_into().unwrap()));
}

#[test]
fn extra_data_is_carried_and_says_nothing_about_what_is_proved() {
    let log = key("log.example/agents", KeyKind::Ed25519, 1);
    let policy = Policy::parse(format!("log {}\nquorum none\n", log.verifier()).as_bytes()).unwrap();
    let tree = tree(8);
    let bare = TlogProof {
        extra: None,
        index: LeafIndex(3),
        inclusion: prove_inclusion(&tree, LeafIndex(3), TreeSize(8)).unwrap(),
        checkpoint: sign_checkpoint(&head(8), &log).unwrap().into_unverified(),
    };
    let shown = bare.verify(&leaf(3), &policy).unwrap();
    for extra in ["x", "index 4", "c2sp.org/tlog-proof@v1\nindex 0\n"] {
        let with = TlogProof { extra: Some(extra.as_bytes().to_vec()), ..bare.clone() };
        let read = TlogProof::parse(with.to_string().as_bytes()).unwrap();
        assert_eq!(read.extra.as_deref(), Some(extra.as_bytes()));
        assert_eq!(read.verify(&leaf(3), &policy).unwrap(), shown);
        assert!(read.verify(&leaf(4), &policy).is_err());
    }
}

#[test]
fn the_path_of_a_proof_goes_from_the_leafs_sibling_to_the_roots_child() {
    let log = key("log.example/agents", KeyKind::Ed25519, 1);
    let tree = tree(8);
    let proof = TlogProof {
        extra: None,
        index: LeafIndex(3),
        inclusion: prove_inclusion(&tree, LeafIndex(3), TreeSize(8)).unwrap(),
        checkpoint: sign_checkpoint(&head(8), &log).unwrap().into_unverified(),
    };
    let node = |left: u64, right: u64| merkle::node_hash(&leaf(left), &leaf(right));
    let expected = [leaf(2), node(0, 1), merkle::node_hash(&node(4, 5), &node(6, 7))];
    let lines: String = expected.iter().map(|hash| format!("{}\n", hash.to_base64())).collect();
    let text = proof.to_string();
    assert_eq!(text, format!("c2sp.org/tlog-proof@v1\nindex 3\n{lines}\n{}", proof.checkpoint.note()));
    let reversed: Vec<Hash> = expected.iter().rev().copied().collect();
    let reversed = TlogProof { inclusion: InclusionProof::new(reversed), ..proof };
    let policy = Policy::parse(format!("log {}\nquorum none\n", log.verifier()).as_bytes()).unwrap();
    assert!(reversed.verify(&leaf(3), &policy).is_err());
}

#[test]
fn any_listed_log_will_do_and_each_only_under_its_own_origin() {
    let keys: Vec<SigningKey> =
        (1..4).map(|seed| key(&format!("log-{seed}.example"), KeyKind::Ed25519, seed)).collect();
    let lines: String = keys.iter().map(|log| format!("log {}\n", log.verifier())).collect();
    let policy = Policy::parse(format!("{lines}quorum none\n").as_bytes()).unwrap();
    for (place, log) in keys.iter().enumerate() {
        let of = |origin: &KeyName, signer: &SigningKey| {
            let text = Checkpoint { origin: Origin::from(origin), ..head(1) }.to_string();
            let checkpoint = SignedCheckpoint::parse(&sign_note(&text, &[signer]).unwrap()).unwrap();
            let inclusion = InclusionProof::new(Vec::new());
            TlogProof { extra: None, index: LeafIndex(0), inclusion, checkpoint }.verify(&leaf(0), &policy)
        };
        assert_eq!(of(log.name(), log).unwrap().log, place);
        assert!(of(keys[(place + 1) % 3].name(), log).is_err(), "a key speaks for the origin that is its name");
    }
}

fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

fn leaf(index: u64) -> Hash {
    leaf_hash(&index.to_be_bytes())
}

fn tree(size: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..size).for_each(|index| tree.push(leaf(index)));
    tree
}

fn root(size: u64) -> String {
    tree(size).root().0.to_base64()
}

fn head(size: u64) -> Checkpoint {
    Checkpoint::new(Origin::new("log.example/agents").unwrap(), TreeSize(size), tree(size).root())
}
