//! note: signed notes, checkpoints, keys, cosignature lines, proofs, policies.

use crate::world::World;
use merkle::leaf_hash;
use note::{
    Checkpoint, Policy, SignedCheckpoint, SignedNote, SigningKey, TlogProof, VerifierKey, parse_cosignature_line,
    verified_cosignatures,
};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The keys that signed the seeds, so that a good signature is not out of the fuzzer's reach.
static WORLD: LazyLock<World> = LazyLock::new(World::new);

fn witness_keys() -> Vec<VerifierKey> {
    let new = crate::subtrees::witness().verifier();
    WORLD.witnesses.iter().map(|witness| witness.key().verifier()).chain([new]).collect()
}

/// A note is exactly its text, a blank line and its signature lines.
pub fn signed(data: &[u8]) {
    let Ok(note) = SignedNote::parse(data) else { return };
    let lines: String = note.signatures().iter().map(|signature| signature.line() + "\n").collect();
    assert_eq!(format!("{}\n{lines}", note.text()).as_bytes(), data);
    assert_eq!(note.to_string().as_bytes(), data);
    assert_eq!(note.bytes(), data);
    let _ = note.verify(&WORLD.log.key.log_key().verifier());
    let _ = verified_cosignatures(&note, &witness_keys());
}

/// A signed checkpoint prints as it was read, and whatever is cut off it still verifies.
pub fn checkpoint(data: &[u8]) {
    let Ok(head) = SignedCheckpoint::parse(data) else { return };
    assert_eq!(head.bytes(), data);
    assert_eq!(head.claimed().to_string(), head.note().text());
    assert_eq!(Checkpoint::parse(head.note().text()).as_ref(), Ok(head.claimed()));
    let key = WORLD.log.key.log_key().verifier();
    let Ok(head) = head.verify(&key) else { return };
    let bare = head.log_signed_only();
    assert!(SignedCheckpoint::parse(bare.bytes()).is_ok_and(|bare| bare.verify(&key).is_ok()));
    let good = verified_cosignatures(head.note(), &witness_keys()).into_iter().filter_map(Result::ok);
    let lines: Vec<_> = good.map(|(_, cosignature)| cosignature.to_line().unwrap()).collect();
    let again = bare.with_cosignatures(&lines);
    assert_eq!(again.with_cosignatures(&lines).bytes(), again.bytes());
    assert!(SignedCheckpoint::parse(again.bytes()).is_ok_and(|again| again.verify(&key).is_ok()));
}

/// A vkey prints as it was read.
pub fn vkey(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(key) = text.parse::<VerifierKey>() else { return };
    assert_eq!(key.to_string(), text);
    assert!(!key.verify(b"nobody signed this", &[0; 64]));
}

/// A private key prints as it was read, and what it signs verifies under its vkey.
pub fn private_key(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(key) = SigningKey::from_private_text(text) else { return };
    assert_eq!(key.to_private_text().as_str(), text);
    let verifier = key.verifier();
    assert_eq!(verifier.to_string().parse(), Ok(verifier.clone()));
    assert!(verifier.verify(b"text", &key.sign(b"text")));
}

/// A cosignature line prints as it was read.
pub fn cosignature(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(line) = parse_cosignature_line(text) else { return };
    assert_eq!(line.line(), text.strip_suffix('\n').unwrap_or(text));
    for key in witness_keys() {
        let _ = line.verify("log.example/test\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", &key);
    }
}

/// A proof prints as it was read.
pub fn proof(data: &[u8]) {
    let Ok(proof) = TlogProof::parse(data) else { return };
    assert_eq!(proof.to_string().as_bytes(), data);
    let policy = WORLD.policy();
    for entry in &WORLD.log.entries {
        let whole = proof.verify(&leaf_hash(entry), &policy);
        assert!(whole.is_err() || proof.verify_inclusion(&leaf_hash(entry), &policy).is_ok());
    }
}

/// A policy, printed, is the same policy; and its quorum is answered in time.
pub fn policy(data: &[u8]) {
    let Ok(policy) = Policy::parse(data) else { return };
    let printed = policy.to_octets();
    let again = Policy::parse(&printed).unwrap();
    assert_eq!(again, policy);
    assert_eq!(again.to_octets(), printed);
    let everybody: BTreeSet<usize> = (0..policy.witnesses().len()).collect();
    let tolerance = policy.tolerance();
    assert!(policy.satisfied_by(&everybody) || tolerance.min_quorum > everybody.len());
    assert_eq!(policy.satisfied_by(&BTreeSet::new()), tolerance.min_quorum == 0);
}
