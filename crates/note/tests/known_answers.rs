//! Known answers: notes, keys and cosignatures made by other implementations.

use merkle::{Hash, LeafIndex, RootHash, TreeSize};
use note::{
    Checkpoint, CheckpointError, KeyId, KeyKind, KeyName, NoteError, Origin, Policy, ProofRefusal, SignatureError,
    SignedCheckpoint, SignedNote, SigningKey, TlogProof, VerifierKey, cosign, parse_cosignature_line, sign_checkpoint,
    sign_note, verified_cosignatures,
};

/// The example of the signed-note specification.
const SPEC_VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const SPEC_NOTE: &str = "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

/// The well-known keys and note of the Go note package's documentation.
const NEUMANN: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const NEUMANN_PRIVATE: &str = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const ENOCH: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const TWO_SIGNERS: &str = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";

/// The log of tessera's test data.
const TESSERA_VKEY: &str = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx";
const TESSERA_SEED: &str = "eca663f499017d2365c27c7a7679158d43cfec1330bdb259290afbd0d21777a0";
const TESSERA_ENTRIES: [&str; 15] = [
    "one", "two", "three", "four", "five", "six", "seven", "eit", "nain", "ten", "ileven", "twelf", "threeten",
    "fourten", "fivten",
];

/// A sigsum log's test heads: origin, key, and signatures at sizes 1, 3 and 5.
const SIGSUM_ORIGIN: &str = "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562";
const SIGSUM_KEY: &str = "ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f";
const SIGSUM_HEADS: [(u64, &str, &str); 3] = [
    (
        1,
        "KgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3wfUQMFSzVnnNuWRTYrajXpNUbIQY=",
    ),
    (
        3,
        "RcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=",
        "UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36kezNobZs4SUUdrcawfAB8WVrx6go=",
    ),
    (
        5,
        "QrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=",
        "UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLOZ/ASRcWJi0tW90dJWAShei7sDww=",
    ),
];

#[test]
fn the_specs_example_note_verifies() {
    let key: VerifierKey = SPEC_VKEY.parse().unwrap();
    assert_eq!(key.to_string(), SPEC_VKEY);
    let note = SignedNote::parse(SPEC_NOTE.as_bytes()).unwrap();
    assert_eq!(note.text(), "This is an example message.\n");
    assert_eq!(note.verify(&key), Ok(()));
}

#[test]
fn a_note_signed_by_go_verifies_and_is_reproduced_byte_for_byte() {
    let note = SignedNote::parse(TWO_SIGNERS.as_bytes()).unwrap();
    for key in [NEUMANN, ENOCH] {
        assert_eq!(note.verify(&key.parse().unwrap()), Ok(()), "{key}");
    }
    let neumann = SigningKey::from_private_text(NEUMANN_PRIVATE).unwrap();
    assert_eq!(neumann.verifier().to_string(), NEUMANN);
    assert_eq!(*neumann.to_private_text(), NEUMANN_PRIVATE);
    let again = sign_note(note.text(), &[&neumann]).unwrap();
    assert!(TWO_SIGNERS.as_bytes().starts_with(&again));
}

#[test]
fn a_note_is_not_signed_by_keys_that_did_not_sign_it() {
    let note = SignedNote::parse(SPEC_NOTE.as_bytes()).unwrap();
    assert_eq!(note.verify(&NEUMANN.parse().unwrap()), Err(SignatureError::Missing));
    let altered = SPEC_NOTE.replace("example message", "exemplary message");
    assert_eq!(
        SignedNote::parse(altered.as_bytes()).unwrap().verify(&SPEC_VKEY.parse().unwrap()),
        Err(SignatureError::Bad)
    );
}

#[test]
fn the_keys_of_public_logs_parse() {
    let sumdb: VerifierKey = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8".parse().unwrap();
    assert_eq!(sumdb.id(), KeyId([0x03, 0x3d, 0xe0, 0xae]));
}

#[test]
fn tesseras_seed_makes_tesseras_key() {
    assert_eq!(tessera().verifier().to_string(), TESSERA_VKEY);
}

#[test]
fn sigsum_heads_verify_and_their_key_id_is_computed_alike() {
    let log = sigsum();
    assert_eq!(log.id().to_string(), "5202289b");
    for (size, root, signature) in SIGSUM_HEADS {
        let head =
            SignedCheckpoint::parse(sigsum_note(size, root, signature).as_bytes()).unwrap().verify(&log).unwrap();
        assert_eq!(head.checkpoint().size, TreeSize(size));
        assert_eq!(head.checkpoint().root, RootHash(Hash::from_base64(root).unwrap()));
    }
}

#[test]
fn base64_with_trailing_bits_is_no_signature_line() {
    // A lenient decoder reads `…6gx=` as bytes, and then the signature is bad; here it is malformed.
    let (size, root, signature) = SIGSUM_HEADS[1];
    let note = sigsum_note(size, root, &signature.replace("6go=", "6gx="));
    assert_eq!(SignedCheckpoint::parse(note.as_bytes()), Err(CheckpointError::Note(NoteError::BadLine(1))));
}

#[test]
fn the_specs_example_cosignature_line_states_its_time() {
    let line = "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==";
    let parsed = parse_cosignature_line(line).unwrap();
    assert_eq!(parsed.key_id().to_string(), "8d66cf3f");
    assert_eq!(parsed.timestamp_s(), 1_679_315_147);
    assert_eq!(parsed.line(), line);
}

#[test]
fn a_real_witness_line_states_its_time() {
    let line = "— ArmoredWitness-small-breeze nRq5UQAAAABnoqrsRIofXn68vTohcAm2KG4ACGyRPNePUk02BSWD0WKV5ElejTk5Z+Tm3GmJ5j/etA+fkL9XuaQsnTyZbr437sF4AQ==";
    let parsed = parse_cosignature_line(line).unwrap();
    assert_eq!((parsed.key_id().to_string().as_str(), parsed.timestamp_s()), ("9d1ab951", 1_738_713_836));
}

#[test]
fn cosignatures_of_an_independent_implementation_are_reproduced_byte_for_byte() {
    let proof = TlogProof::parse(include_bytes!("eleventh.tlog-proof")).unwrap();
    let note = proof.checkpoint.note();
    let made = [
        cosign(note.text(), &witness(1), 1_700_000_000).unwrap(),
        cosign(note.text(), &witness(2), 1_700_000_007).unwrap(),
    ];
    let found = verified_cosignatures(note, &[witness(1).verifier(), witness(2).verifier()]);
    assert_eq!(found, made.into_iter().enumerate().map(Ok).collect::<Vec<_>>());
}

#[test]
fn a_head_signed_here_is_what_an_independent_implementation_signed() {
    let proof = TlogProof::parse(include_bytes!("eleventh.tlog-proof")).unwrap();
    let root = RootHash(Hash::from_base64("rKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=").unwrap());
    let log = tessera();
    let head = sign_checkpoint(&Checkpoint::new(Origin::from(log.name()), TreeSize(15), root), &log).unwrap();
    assert_eq!(head, proof.checkpoint.verify(&log.verifier()).unwrap().log_signed_only());
}

#[test]
fn a_proof_made_by_an_independent_implementation_verifies_and_prints_back() {
    let bytes = include_bytes!("eleventh.tlog-proof");
    let proof = TlogProof::parse(bytes).unwrap();
    assert_eq!(proof.to_string().as_bytes(), bytes);
    assert_eq!(proof.extra.as_deref(), Some(b"some extra data".as_slice()));
    assert_eq!(proof.index, LeafIndex(10));
    let policy = format!(
        "log {TESSERA_VKEY}\nwitness w1 {}\nwitness w2 {}\ngroup both all w1 w2\nquorum both\n",
        witness(1).verifier(),
        witness(2).verifier()
    );
    let policy = Policy::parse(policy.as_bytes()).unwrap();
    for (index, entry) in TESSERA_ENTRIES.iter().enumerate() {
        let result = proof.verify(&merkle::leaf_hash(entry.as_bytes()), &policy);
        match index {
            10 => assert_eq!(result.unwrap().cosigned_by, [0, 1]),
            _ => assert!(matches!(result, Err(ProofRefusal::NotIncluded { .. })), "{entry}"),
        }
    }
}

fn tessera() -> SigningKey {
    let seed = hex::decode(TESSERA_SEED).unwrap().try_into().unwrap();
    SigningKey::from_seed(KeyName::new("example.com/log/testdata").unwrap(), KeyKind::Ed25519, seed)
}

fn witness(number: u8) -> SigningKey {
    let name = KeyName::new(&format!("witness.example/w{number}")).unwrap();
    SigningKey::from_seed(name, KeyKind::CosignatureV1, [6 + number; 32])
}

fn sigsum() -> VerifierKey {
    let key = hex::decode(SIGSUM_KEY).unwrap();
    VerifierKey::new(KeyName::new(SIGSUM_ORIGIN).unwrap(), KeyKind::Ed25519, &key).unwrap()
}

fn sigsum_note(size: u64, root: &str, signature: &str) -> String {
    format!("{SIGSUM_ORIGIN}\n{size}\n{root}\n\n— {SIGSUM_ORIGIN} {signature}\n")
}

#[test]
fn a_private_key_in_the_place_of_a_vkey_is_named_and_never_repeated() {
    assert_eq!(NEUMANN_PRIVATE.parse::<VerifierKey>(), Err(note::KeyError::PrivateKey));
    let secret = NEUMANN_PRIVATE.rsplit_once('+').map_or(NEUMANN_PRIVATE, |(_, secret)| secret);
    for policy in [
        format!("{NEUMANN_PRIVATE}\n"),
        NEUMANN_PRIVATE.to_owned(),
        format!("log {NEUMANN_PRIVATE}\n"),
        format!("witness w {NEUMANN_PRIVATE}\n"),
        format!("key={NEUMANN_PRIVATE}\n"),
        format!("quorum {NEUMANN_PRIVATE}\n"),
        format!("quorum none {NEUMANN_PRIVATE}\n"),
        format!("group {NEUMANN_PRIVATE} any {NEUMANN_PRIVATE}\n"),
        format!("group g {NEUMANN_PRIVATE} w\n"),
    ] {
        let error = Policy::parse(policy.as_bytes()).unwrap_err();
        for message in [error.to_string(), format!("{error:?}")] {
            assert!(!message.contains(secret) && !message.contains("c74f20a3"), "{message}");
        }
    }
    let error = Policy::parse(format!("{NEUMANN_PRIVATE}\n").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("this is a private key; give the vkey"), "{error}");
}
