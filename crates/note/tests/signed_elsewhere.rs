//! Cosignatures whose private key is somewhere else.

use note::{CosignatureError, KeyKind, KeyName, SigningKey, cosign, cosign_with};

const TEXT: &str = "log.example\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";

fn key(kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new("w.example").unwrap(), kind, [seed; 32])
}

fn elsewhere(key: &SigningKey, signature: Vec<u8>) -> Result<note::Cosignature, CosignatureError> {
    cosign_with(TEXT, &key.verifier(), 5, |_| Ok::<_, CosignatureError>(signature))
}

#[test]
fn a_cosignature_made_elsewhere_is_the_one_made_here() {
    for kind in [KeyKind::CosignatureV1, KeyKind::MlDsa44] {
        let key = key(kind, 1);
        let made =
            cosign_with(TEXT, &key.verifier(), 5, |message| Ok::<_, CosignatureError>(key.sign(message))).unwrap();
        assert_eq!(made, cosign(TEXT, &key, 5).unwrap());
    }
}

#[test]
fn a_signature_by_another_key_over_another_message_or_none_at_all_makes_no_cosignature() {
    let own = key(KeyKind::CosignatureV1, 1);
    let other = key(KeyKind::CosignatureV1, 2);
    let by_other = cosign_with(TEXT, &own.verifier(), 5, |message| Ok::<_, CosignatureError>(other.sign(message)));
    assert_eq!(by_other, Err(CosignatureError::BadSignature));
    assert_eq!(elsewhere(&own, own.sign(b"another message")), Err(CosignatureError::BadSignature));
    assert_eq!(elsewhere(&own, vec![0; 64]), Err(CosignatureError::BadSignature));
    for length in [0, 63, 65, 2420] {
        assert_eq!(elsewhere(&own, vec![0; length]), Err(CosignatureError::Malformed), "{length}");
    }
    let log = key(KeyKind::Ed25519, 1);
    assert_eq!(elsewhere(&log, log.sign(TEXT.as_bytes())), Err(CosignatureError::WrongKeyKind));
    let refused = cosign_with(TEXT, &own.verifier(), 0, |_| -> Result<_, CosignatureError> { panic!("asked to sign") });
    assert_eq!(refused, Err(CosignatureError::ZeroTimestamp));
}
