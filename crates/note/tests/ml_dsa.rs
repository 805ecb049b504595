//! ML-DSA-44 cosignatures: a known answer of another make, both kinds of key beside each other, and what the
//! signature does not cover.

use merkle::{Hash, InclusionProof, LeafIndex, MemoryTree, RootHash, TreeSize, leaf_hash};
use note::{
    Checkpoint, CosignatureError, CosignatureLine, CosignedTree, KeyError, KeyId, KeyKind, KeyName,
    MAX_COSIGNATURE_LINE_LEN, NoteError, Origin, Policy, ProofRefusal, SignatureError, SignedCheckpoint, SignedNote,
    SigningKey, TlogProof, VerifierKey, cosign, parse_cosignature_line, sign_checkpoint, sign_note,
    verified_cosignatures,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Torchwood's test data for litewitness: a checkpoint whose log signs as a cosigner, at no time.
const KNOWN: &str = include_str!("mldsa44.note");
const KNOWN_SEED: &str = "2886adc2b0eabfce67c0472939127998bf886cf256bfee8ba76a253fce1146e0";

#[test]
fn the_known_seed_makes_the_known_key() {
    let key = known_key();
    let public = key.verifier();
    assert_eq!(public.public_key_bytes().len(), 1312);
    assert_eq!(sha256(public.public_key_bytes()), "a87b918c511f5e0e65e0caa54e73961ff42e48e9491098f5afac41b2501b4b20");
    assert_eq!(key.id().to_string(), "b5df45c5");
    assert!(public.to_string().starts_with("example.com/mldsa-log+b5df45c5+BuhtcL97l3dcitjZ8Y9J54gmQ1TWn/BMF0yePKpT"));
}

#[test]
fn the_known_signature_verifies_as_a_subtrees_and_speaks_of_no_time() {
    let note = SignedNote::parse(KNOWN.as_bytes()).unwrap();
    let line = &note.signatures()[0];
    let whole: Vec<u8> = line.key_id.0.iter().chain(&line.blob).copied().collect();
    assert_eq!(whole.len(), 2432);
    assert_eq!(sha256(&whole), "b256475f5a33b9c241fbfd249d7e13d71a2c643a52846c582afc78ecdfa1d3bd");
    let tree = CosignedTree::of(&Checkpoint::parse(note.text()).unwrap());
    assert_eq!(tree.hash, leaf_hash(b"testonly"));
    let key = known_key();
    assert_eq!(tree.verify(line, &key.verifier()), Ok(0));
    // Of a checkpoint a witness says when it looked.
    assert_eq!(CosignatureLine::try_from(line), Err(CosignatureError::ZeroTimestamp));
    // That signature was made with fresh randomness; ours is made without, and as good.
    let ours = tree.cosign(&key).unwrap();
    assert_ne!(&ours, line);
    assert_eq!(tree.cosign(&key).unwrap(), ours, "the same every time");
    // What RustCrypto's ml-dsa 0.1.2 signs deterministically for this seed and message, too.
    let whole: Vec<u8> = ours.key_id.0.iter().chain(&ours.blob).copied().collect();
    assert_eq!(sha256(&whole), "3f7becc839720c72376c2e4b7b9543e680af7b500a0d2b2794f91b8e7c64ed1e");
    assert_eq!(tree.verify(&ours, &key.verifier()), Ok(0));
}

#[test]
fn a_changed_byte_anywhere_spoils_the_signature() {
    let note = SignedNote::parse(KNOWN.as_bytes()).unwrap();
    let tree = CosignedTree::of(&Checkpoint::parse(note.text()).unwrap());
    let key = known_key().verifier();
    for place in (0..2428).step_by(31).chain(2420..2428) {
        let mut line = note.signatures()[0].clone();
        line.blob[place] ^= 1;
        assert!(tree.verify(&line, &key).is_err(), "byte {place}");
    }
    for changed in [
        CosignedTree { end: 2, ..tree.clone() },
        CosignedTree { start: 1, ..tree.clone() },
        CosignedTree { hash: Hash([0; 32]), ..tree.clone() },
        CosignedTree { origin: Origin::new("example.com/mldsa-lo").unwrap(), ..tree.clone() },
    ] {
        assert_eq!(changed.verify(&note.signatures()[0], &key), Err(CosignatureError::BadSignature), "{changed:?}");
    }
    for length in [0, 7, 8, 9, 72, 2427, 2429] {
        let mut line = note.signatures()[0].clone();
        line.blob.resize(length, 0);
        assert_eq!(tree.verify(&line, &key), Err(CosignatureError::Malformed), "{length}");
    }
}

#[test]
fn keys_read_back_from_their_texts() {
    let key = known_key();
    let text = key.to_private_text();
    assert!(text.starts_with("PRIVATE+KEY+example.com/mldsa-log+b5df45c5+"));
    assert_eq!(text.len(), "PRIVATE+KEY+example.com/mldsa-log+b5df45c5+".len() + 44);
    let again = SigningKey::from_private_text(&text).unwrap();
    assert_eq!(again.verifier(), key.verifier());
    assert_eq!(*again.to_private_text(), *text);
    assert!(!format!("{key:?}").contains(text.rsplit_once('+').unwrap().1));
    let vkey = key.verifier().to_string();
    assert_eq!(vkey.len(), "example.com/mldsa-log+b5df45c5+".len() + 1752);
    assert_eq!(vkey.parse::<VerifierKey>().unwrap(), key.verifier());
}

#[test]
fn keys_of_another_length_and_weak_ones_are_refused_with_their_reason() {
    let key = known_key().verifier();
    let (name, bytes) = (key.name().clone(), key.public_key_bytes());
    let with = |bytes: &[u8]| VerifierKey::new(name.clone(), KeyKind::MlDsa44, bytes);
    assert_eq!(with(bytes), Ok(key.clone()));
    assert_eq!(with(&bytes[..1311]), Err(KeyError::Length));
    assert_eq!(with(&[bytes, &[0]].concat()), Err(KeyError::Length));
    assert_eq!(with(&[7; 32]), Err(KeyError::Length));
    assert_eq!(with(&[&bytes[..32], &[0; 1280]].concat()), Err(KeyError::Weak), "t1 = 0");
    assert_eq!(VerifierKey::new(name.clone(), KeyKind::CosignatureV1, bytes), Err(KeyError::Length));
    let vkey = key.to_string();
    assert_eq!(vkey.replace("mldsa-log", "mldsa-lag").parse::<VerifierKey>(), Err(KeyError::IdMismatch));
    assert_eq!(vkey.replace("+Buht", "+BOht").parse::<VerifierKey>(), Err(KeyError::Length), "type 0x04");
    // A private text of the kind with a public key's length, and the other way round.
    let private = known_key().to_private_text();
    assert_eq!(SigningKey::from_private_text(&format!("PRIVATE+KEY+{vkey}")).unwrap_err(), KeyError::Length);
    assert_eq!(private.strip_prefix("PRIVATE+KEY+").unwrap().parse::<VerifierKey>(), Err(KeyError::Length));
}

#[test]
fn a_cosignature_holds_for_one_tree_one_time_and_one_witness() {
    let witness = witness(KeyKind::MlDsa44);
    let text = head(7).to_string();
    let cosignature = cosign(&text, &witness, 1_700_000_000).unwrap();
    assert!(cosignature.line.len() < MAX_COSIGNATURE_LINE_LEN);
    let line = cosignature.to_line().unwrap();
    assert_eq!(line.timestamp_s(), 1_700_000_000);
    assert_eq!(line.verify(&text, &witness.verifier()), Ok(cosignature.clone()));
    for other in [
        head(8).to_string(),
        text.replace("log.example/a", "log.example/b"),
        Checkpoint { root: RootHash(Hash([4; 32])), ..head(7) }.to_string(),
    ] {
        assert_eq!(line.verify(&other, &witness.verifier()), Err(CosignatureError::BadSignature), "{other}");
    }
    let mut later = line.signature().clone();
    later.blob[7] += 1;
    let later = parse_cosignature_line(&later.line()).unwrap();
    assert_eq!(later.verify(&text, &witness.verifier()), Err(CosignatureError::BadSignature));
    assert_eq!(cosign(&text, &witness, 0), Err(CosignatureError::ZeroTimestamp));
    assert_eq!(cosign("no checkpoint\n", &witness, 1), Err(CosignatureError::NotACheckpoint));
    let long = Checkpoint { origin: Origin::new(&"x".repeat(256)).unwrap(), ..head(7) }.to_string();
    assert_eq!(cosign(&long, &witness, 1), Err(CosignatureError::OriginTooLong));
    // The name is part of what is signed, unlike with Ed25519: the same seed under another name is another cosigner.
    let twin = SigningKey::from_seed(KeyName::new("twin.example").unwrap(), KeyKind::MlDsa44, [2; 32]);
    let renamed =
        note::NoteSignature { name: twin.name().clone(), key_id: twin.id(), blob: line.signature().blob.clone() };
    let renamed = CosignatureLine::try_from(&renamed).unwrap();
    assert_eq!(renamed.verify(&text, &twin.verifier()), Err(CosignatureError::BadSignature));
}

#[test]
fn an_empty_log_is_cosigned_too() {
    let (witness, empty) = (witness(KeyKind::MlDsa44), head(0).to_string());
    let line = cosign(&empty, &witness, 1).unwrap().to_line().unwrap();
    assert!(line.verify(&empty, &witness.verifier()).is_ok());
}

#[test]
fn the_longest_line_has_the_length_that_bounds_are_made_of() {
    let key = SigningKey::from_seed(KeyName::new(&"w".repeat(255)).unwrap(), KeyKind::MlDsa44, [2; 32]);
    let line = cosign(&head(7).to_string(), &key, 1).unwrap().line;
    assert_eq!(line.len() + 1, MAX_COSIGNATURE_LINE_LEN);
}

#[test]
fn keys_of_one_name_and_seed_are_told_apart_by_their_kind() {
    let (old, new) = (witness(KeyKind::CosignatureV1), witness(KeyKind::MlDsa44));
    assert_eq!(old.name(), new.name());
    assert_ne!(old.id(), new.id());
    let text = head(7).to_string();
    let [of_old, of_new] = [&old, &new].map(|key| cosign(&text, key, 5).unwrap().to_line().unwrap());
    assert_eq!(of_old.verify(&text, &new.verifier()), Err(CosignatureError::OtherKey));
    assert_eq!(of_new.verify(&text, &old.verifier()), Err(CosignatureError::OtherKey));
    // Somebody who puts the other key's id before a signature of the wrong length.
    let mut crossed = of_old.signature().clone();
    crossed.key_id = new.id();
    let crossed = CosignatureLine::try_from(&crossed).unwrap();
    assert_eq!(crossed.verify(&text, &new.verifier()), Err(CosignatureError::Malformed));
    let signed = sign_checkpoint(&head(7), &log()).unwrap();
    let both = signed.with_cosignatures(&[of_old, of_new]);
    let found = verified_cosignatures(both.note(), &[new.verifier(), old.verifier()]);
    assert_eq!(found.iter().map(|good| good.as_ref().unwrap().0).collect::<Vec<_>>(), [1, 0]);
    // Later lines take the place of those of their own kind only.
    let later = cosign(&text, &new, 9).unwrap().to_line().unwrap();
    let again = both.with_cosignatures(&[later]);
    let times: Vec<u64> = verified_cosignatures(again.note(), &[old.verifier(), new.verifier()])
        .into_iter()
        .map(|good| good.unwrap().1.timestamp_s)
        .collect();
    assert_eq!(times, [5, 9]);
}

#[test]
fn a_note_with_as_many_ml_dsa_lines_as_it_may_have_is_within_its_bound() {
    let signed = sign_checkpoint(&head(7), &log()).unwrap();
    let text = signed.note().text();
    let one = cosign(text, &witness(KeyKind::MlDsa44), 5).unwrap().to_line().unwrap().signature().clone();
    let lines: Vec<CosignatureLine> = (0..note::MAX_SIGNATURES as u32 - 1)
        .map(|number| {
            let name = format!("{number:0255}");
            let (name, key_id) = (KeyName::new(&name).unwrap(), KeyId(number.to_be_bytes()));
            CosignatureLine::try_from(&note::NoteSignature { name, key_id, ..one.clone() }).unwrap()
        })
        .collect();
    let full = signed.with_cosignatures(&lines);
    assert_eq!(full.note().signatures().len(), note::MAX_SIGNATURES);
    assert!(full.bytes().len() < note::MAX_NOTE_LEN / 4, "{}", full.bytes().len());
    assert!(SignedCheckpoint::parse(full.bytes()).is_ok());
}

#[test]
fn a_cosigning_key_signs_no_note_and_no_head_and_a_logs_key_is_never_one() {
    let key = SigningKey::from_seed(log().name().clone(), KeyKind::MlDsa44, [2; 32]);
    assert_eq!(sign_note("text\n", &[&key]), Err(NoteError::WrongKeyKind));
    assert!(sign_checkpoint(&head(7), &key).is_err());
    let signed = sign_checkpoint(&head(7), &log()).unwrap();
    let line = cosign(signed.note().text(), &key, 1).unwrap();
    let disguised = format!("{}\n{}\n", signed.note().text(), line.line);
    let disguised = SignedCheckpoint::parse(disguised.as_bytes()).unwrap();
    assert_eq!(disguised.note().verify(&key.verifier()), Err(SignatureError::WrongKeyKind));
    assert!(disguised.verify(&key.verifier()).is_err());
    let policy = format!("log {}\nquorum none\n", key.verifier());
    let error = Policy::parse(policy.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("a log needs a key of type 0x01, this one is of type 0x06"), "{error}");
    let tree = CosignedTree::of(&head(7));
    assert_eq!(tree.cosign(&witness(KeyKind::CosignatureV1)), Err(CosignatureError::WrongKeyKind));
    assert_eq!(tree.cosign(&log()), Err(CosignatureError::WrongKeyKind));
}

#[test]
fn a_policy_asks_for_either_kind_or_for_both() {
    let (old, new) = (witness(KeyKind::CosignatureV1), witness(KeyKind::MlDsa44));
    for (threshold, of_either, min_keys) in [("any", true, 1), ("all", false, 2)] {
        let policy = policy(threshold);
        assert_eq!(policy.witnesses().len(), 2);
        assert_eq!(Policy::parse(&policy.to_octets()).unwrap(), policy);
        let tolerance = policy.tolerance();
        assert_eq!((tolerance.min_keys, tolerance.min_quorum, tolerance.liars_for_split_view), (min_keys, 1, 1));
        for (cosigners, satisfied) in [(vec![], false), (vec![0], of_either), (vec![1], of_either), (vec![0, 1], true)]
        {
            assert_eq!(policy.satisfied_by(&BTreeSet::from_iter(cosigners.clone())), satisfied, "{cosigners:?}");
        }
        for keys in [vec![&old], vec![&new], vec![&old, &new]] {
            let met = proof(&keys, &head(1)).verify(&leaf_hash(b"entry"), &policy).is_ok();
            assert_eq!(met, threshold == "any" || keys.len() == 2, "{threshold} {}", keys.len());
        }
        assert!(matches!(
            proof(&[], &head(1)).verify(&leaf_hash(b"entry"), &policy),
            Err(ProofRefusal::QuorumNotMet(_))
        ));
    }
}

#[test]
fn the_same_ml_dsa_key_counts_once_whatever_the_policy_calls_it() {
    let new = witness(KeyKind::MlDsa44);
    let twin = SigningKey::from_seed(KeyName::new("twin.example").unwrap(), KeyKind::MlDsa44, [2; 32]);
    let text = format!("witness a {}\nwitness b {}\nquorum none\n", new.verifier(), twin.verifier());
    let error = Policy::parse(text.as_bytes()).unwrap_err();
    assert_eq!((error.line, error.kind), (2, note::PolicyErrorKind::DuplicateKey(1)));
}

/// The message holds origin, size and root: whoever has the log's signature over other extension lines can move the
/// witness's line over to them. The log alone answers for those lines, and without its signature there is no head.
#[test]
fn extension_lines_are_the_logs_word_alone_under_an_ml_dsa_line() {
    let (old, new) = (witness(KeyKind::CosignatureV1), witness(KeyKind::MlDsa44));
    let plain = Checkpoint { extensions: vec!["seen by the witness".into()], ..head(1) };
    let other = Checkpoint { extensions: vec!["never seen by the witness".into()], ..head(1) };
    let lines = [&old, &new].map(|key| cosign(&plain.to_string(), key, 5).unwrap().to_line().unwrap());
    assert!(lines[1].verify(&other.to_string(), &new.verifier()).is_ok());
    assert_eq!(lines[0].verify(&other.to_string(), &old.verifier()), Err(CosignatureError::BadSignature));
    // Signed by the log: the tree is the one that was cosigned, so the quorum is met; Ed25519 says which text it was.
    let moved = sign_checkpoint(&other, &log()).unwrap().with_cosignatures(&lines);
    let of = |head: SignedCheckpoint| TlogProof {
        extra: None,
        index: LeafIndex(0),
        inclusion: InclusionProof::new(vec![]),
        checkpoint: head,
    };
    let verified = of(moved.into_unverified()).verify(&leaf_hash(b"entry"), &policy("any")).unwrap();
    assert_eq!(verified.cosigned_by, [1]);
    assert_eq!(verified.bad_cosignatures.len(), 1);
    assert_eq!(verified.bad_cosignatures[0].witness, 0);
    assert!(
        of(sign_checkpoint(&other, &log()).unwrap().with_cosignatures(&lines).into_unverified())
            .verify(&leaf_hash(b"entry"), &policy("all"))
            .is_err()
    );
    // Not signed by the log over these lines: no head at all.
    let signed = sign_checkpoint(&plain, &log()).unwrap().with_cosignatures(&lines);
    let forged = signed.to_string_with(&other);
    let forged = SignedCheckpoint::parse(forged.as_bytes()).unwrap();
    assert!(matches!(
        of(forged).verify(&leaf_hash(b"entry"), &policy("any")),
        Err(ProofRefusal::BadLogSignature { .. })
    ));
}

/// The signature lines of a head under another text.
trait WithText {
    fn to_string_with(&self, text: &Checkpoint) -> String;
}

impl<State> WithText for SignedCheckpoint<State> {
    fn to_string_with(&self, text: &Checkpoint) -> String {
        let lines: String = self.note().signatures().iter().map(|line| line.line() + "\n").collect();
        format!("{text}\n{lines}")
    }
}

fn known_key() -> SigningKey {
    let seed = hex::decode(KNOWN_SEED).unwrap().try_into().unwrap();
    SigningKey::from_seed(KeyName::new("example.com/mldsa-log").unwrap(), KeyKind::MlDsa44, seed)
}

fn witness(kind: KeyKind) -> SigningKey {
    SigningKey::from_seed(KeyName::new("witness.example").unwrap(), kind, [2; 32])
}

fn log() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example/agents").unwrap(), KeyKind::Ed25519, [1; 32])
}

/// Of one entry where the size is 1, else of a root that is nobody's.
fn head(size: u64) -> Checkpoint {
    let mut tree = MemoryTree::new();
    tree.push(leaf_hash(b"entry"));
    let root = match size {
        0 => merkle::EMPTY_ROOT,
        1 => tree.root(),
        _ => RootHash(Hash([3; 32])),
    };
    Checkpoint::new(Origin::new("log.example/agents").unwrap(), TreeSize(size), root)
}

/// Names in a policy are the policy's own, so both keys of one witness can be in it under names of their own.
fn policy(threshold: &str) -> Policy {
    let text = format!(
        "log {}\nwitness w-ed25519 {}\nwitness w-mldsa {}\ngroup w {threshold} w-ed25519 w-mldsa\nquorum w\n",
        log().verifier(),
        witness(KeyKind::CosignatureV1).verifier(),
        witness(KeyKind::MlDsa44).verifier()
    );
    Policy::parse(text.as_bytes()).unwrap()
}

fn proof(witnesses: &[&SigningKey], head: &Checkpoint) -> TlogProof {
    let signed = sign_checkpoint(head, &log()).unwrap();
    let lines: Vec<CosignatureLine> =
        witnesses.iter().map(|witness| cosign(signed.note().text(), witness, 5).unwrap().to_line().unwrap()).collect();
    let checkpoint = signed.with_cosignatures(&lines).into_unverified();
    TlogProof { extra: None, index: LeafIndex(0), inclusion: InclusionProof::new(vec![]), checkpoint }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
