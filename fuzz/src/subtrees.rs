//! cosign: requests of `sign-subtree`.

use crate::world::key;
use cosign::subtree::{Standing, SubtreeRefusal, SubtreeRequest, sign_subtree};
use note::{CosignedTree, KeyKind, NoteSignature, SigningKey};
use std::sync::LazyLock;

/// The witness that is asked. It cosigned the heads of the world's log that the seeds hold, and no others.
static WITNESS: LazyLock<SigningKey> = LazyLock::new(witness);

/// The key that [`WITNESS`] is, for whoever writes the seeds.
pub fn witness() -> SigningKey {
    key("w1.example", KeyKind::MlDsa44, 11)
}

/// A request prints as it was read; and only what is part of a tree that the witness cosigned is cosigned, at no time.
pub fn request(data: &[u8]) {
    let answer = sign_subtree(data, &WITNESS, |_| Standing::Watched);
    let Ok(request) = SubtreeRequest::parse(data) else {
        assert!(matches!(answer, Err(SubtreeRefusal::Malformed(_))));
        return;
    };
    assert_eq!(request.to_string().as_bytes(), data);
    let Ok(answer) = answer else { return };
    let line = NoteSignature::parse(answer.strip_suffix('\n').unwrap()).unwrap();
    let signed = CosignedTree {
        origin: request.checkpoint.origin.clone(),
        start: request.subtree.start(),
        end: request.subtree.end(),
        hash: request.hash,
    };
    assert_eq!(signed.verify(&line, &WITNESS.verifier()), Ok(0));
}
