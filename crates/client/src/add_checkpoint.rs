//! Pushing a head to a witness of any make: the `add-checkpoint` call (C2SP tlog-witness).
//!
//! ```text
//! POST <submission prefix>/add-checkpoint
//!
//!   old <size the witness holds>
//!   <hash, base64>                 the consistency proof, at most 63 lines, none where old is 0 or the head's size
//!                                  <- a blank line
//!   <checkpoint>
//!
//! 200  — <witness> <base64>        its cosignatures of that checkpoint
//! 409  text/x.tlog.size            the size that it holds instead, decimal, and a newline
//! ```
//!
//! Holds the bytes of one call and what an answer means. Does not hold which size to name, when to call, or what to do
//! about a witness that is ahead: that is whoever has the log.

use crate::http::{FetchError, Refusal, Request};
use crate::wire;
use crate::witness::{MAX_LINES_BYTES, WitnessClient};
use bytes::Bytes;
use merkle::{ConsistencyProof, TreeSize};
use note::{CosignatureLine, NoteSignature, SignedCheckpoint, Verified, VerifierKey};
use reqwest::Url;

/// Most proof lines of a call (tlog-witness, add-checkpoint). A tree would need 2^62 leaves for more.
pub const MAX_PROOF_LINES: usize = 63;

/// Media type of a 409 that names a size.
pub const SIZE_TYPE: &str = "text/x.tlog.size";

/// What the witness says to a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It took the head.
    Taken {
        /// Its cosignatures, each verified under one of its keys over the head that was pushed. None is possible: then it
        /// answers under other keys than the one it was configured with.
        lines: Vec<CosignatureLine>,
        /// Signature lines that are nothing of this witness's keys over this head.
        dropped: usize,
    },
    /// It cosigned a head of this size last, and nothing now. Its word alone: no signature stands behind it.
    Holds(TreeSize),
}

impl WitnessClient {
    /// Pushes `head`, to be cosigned by `keys`, with the proof that it grew out of the head of size `old`. Only the log's own signature lines are
    /// sent: witnesses bound what they read, and what others signed is nothing to them.
    ///
    /// # Errors
    /// [`FetchError`]: any other status (404 for a log unknown there, 403 for a signature it does not trust, 422 for a
    /// proof that does not verify), no answer in time, or one that is not as specified.
    pub async fn add_checkpoint(
        &self,
        keys: &[VerifierKey],
        old: TreeSize,
        proof: &ConsistencyProof,
        head: &SignedCheckpoint<Verified>,
    ) -> Result<Pushed, FetchError> {
        let url = self.base.join("add-checkpoint");
        let body = body(old, proof, head).map_err(|reason| FetchError::request(&url, reason))?;
        match self.http.send(Request::post(url.clone(), wire::TEXT, Bytes::from(body), MAX_LINES_BYTES)).await {
            Ok(answer) => taken(&url, &answer, keys, head),
            Err(error) => match error.refusal().filter(|refusal| refusal.status == 409).and_then(held) {
                Some(size) => Ok(Pushed::Holds(size)),
                None => Err(error),
            },
        }
    }
}

fn body(old: TreeSize, proof: &ConsistencyProof, head: &SignedCheckpoint<Verified>) -> Result<Vec<u8>, String> {
    let new = head.checkpoint().size;
    if old > new {
        return Err(format!("a head of size {new} did not grow out of one of size {old}"));
    }
    let hashes = proof.hashes();
    if hashes.len() > MAX_PROOF_LINES {
        return Err(format!("the proof has {} hashes, the call takes at most {MAX_PROOF_LINES}", hashes.len()));
    }
    let mut text = format!("old {old}\n");
    for hash in hashes {
        text.push_str(&hash.to_base64());
        text.push('\n');
    }
    text.push('\n');
    let mut body = text.into_bytes();
    body.extend_from_slice(head.log_signed_only().bytes());
    Ok(body)
}

/// The lines of a 200. Each must be a signature line, or this is no witness that answers; those of other keys and kinds
/// are ignored, as tlog-witness asks, and so is one of the witness's own that does not verify.
fn taken(
    url: &Url,
    answer: &[u8],
    keys: &[VerifierKey],
    head: &SignedCheckpoint<Verified>,
) -> Result<Pushed, FetchError> {
    let bad = |reason: &str| FetchError::bad_body(url, reason);
    let text = std::str::from_utf8(answer).map_err(|_| bad("it is not UTF-8"))?;
    let whole = text.strip_suffix('\n').ok_or_else(|| bad("it is empty, or its last line does not end"))?;
    let (mut lines, mut dropped) = (Vec::new(), 0);
    for line in whole.split('\n') {
        let signature = NoteSignature::parse(line).ok_or_else(|| bad("a line of it is no signature line"))?;
        match CosignatureLine::try_from(&signature) {
            Ok(line) if keys.iter().any(|key| line.verify(head.note().text(), key).is_ok()) => lines.push(line),
            Ok(_) | Err(_) => dropped += 1,
        }
    }
    Ok(Pushed::Taken { lines, dropped })
}

/// The size that a 409 names; `None` where it is not the answer that tlog-witness describes. Parameters behind the media
/// type are let pass: some servers add a charset to whatever begins with `text/`.
fn held(refusal: &Refusal) -> Option<TreeSize> {
    let media_type = refusal.content_type.split(';').next()?.trim();
    if !media_type.eq_ignore_ascii_case(SIZE_TYPE) {
        return None;
    }
    let line = std::str::from_utf8(&refusal.body).ok()?.strip_suffix('\n')?;
    merkle::decimal::parse_u64(line).map(TreeSize)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use merkle::{Hash, MemoryTree, leaf_hash, prove_consistency};
    use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};

    fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
        SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
    }

    fn tree(size: u64) -> MemoryTree {
        let mut tree = MemoryTree::new();
        (0..size).for_each(|index| tree.push(leaf_hash(&index.to_be_bytes())));
        tree
    }

    fn head(tree: &MemoryTree) -> SignedCheckpoint<Verified> {
        let checkpoint = Checkpoint::new(Origin::new("log.example").unwrap(), tree.size(), tree.root());
        sign_checkpoint(&checkpoint, &key("log.example", KeyKind::Ed25519, 1)).unwrap()
    }

    fn url() -> Url {
        "http://w.example/add-checkpoint".parse().unwrap()
    }

    fn refused(content_type: &str, body: &'static [u8]) -> Refusal {
        Refusal {
            status: 409,
            retry_after: None,
            content_type: content_type.to_owned(),
            body: Bytes::from_static(body),
        }
    }

    #[test]
    fn a_call_is_the_old_size_the_proof_a_blank_line_and_what_the_log_signed() {
        let tree = tree(7);
        let witness = key("w.example", KeyKind::CosignatureV1, 2);
        let bare = head(&tree);
        let line = cosign(bare.note().text(), &witness, 9).unwrap().to_line().unwrap();
        let proof = prove_consistency(&tree, TreeSize(3), TreeSize(7)).unwrap();
        let text = String::from_utf8(body(TreeSize(3), &proof, &bare.with_cosignatures(&[line])).unwrap()).unwrap();
        let (before, checkpoint) = text.split_once("\n\n").unwrap();
        let mut lines = before.split('\n');
        assert_eq!(lines.next(), Some("old 3"));
        let hashes: Vec<Hash> = lines.map(|line| Hash::from_base64(line).unwrap()).collect();
        assert_eq!(hashes, proof.hashes());
        assert_eq!(checkpoint.as_bytes(), bare.bytes());
        // Without a proof the blank line follows at once.
        let first = body(TreeSize(0), &ConsistencyProof::default(), &bare).unwrap();
        assert!(first.starts_with(b"old 0\n\nlog.example\n7\n"));
    }

    #[test]
    fn what_no_witness_may_be_sent_is_not_sent() {
        let head = head(&tree(3));
        let long = ConsistencyProof::new(vec![leaf_hash(b""); MAX_PROOF_LINES + 1]);
        assert!(body(TreeSize(1), &long, &head).unwrap_err().contains("64 hashes"));
        assert!(body(TreeSize(4), &ConsistencyProof::default(), &head).is_err());
        let longest = ConsistencyProof::new(vec![leaf_hash(b""); MAX_PROOF_LINES]);
        assert!(body(TreeSize(1), &longest, &head).is_ok());
    }

    #[test]
    fn of_the_lines_only_the_witnesses_own_over_this_head_are_kept_and_the_others_counted() {
        let (mine, other) = (key("w.example", KeyKind::CosignatureV1, 2), key("x.example", KeyKind::CosignatureV1, 3));
        let (head, older) = (head(&tree(3)), head(&tree(2)));
        let line = |text: &str, key: &SigningKey, time| cosign(text, key, time).unwrap().line;
        let good = line(head.note().text(), &mine, 5);
        // Of another key, over another head, and of the right length for a key of another kind.
        let longer =
            NoteSignature { name: mine.name().clone(), key_id: note::KeyId([1, 2, 3, 4]), blob: vec![7; 2428] };
        let answer =
            [line(head.note().text(), &other, 5), line(older.note().text(), &mine, 5), longer.line(), good.clone()];
        let text = format!("{}\n", answer.join("\n"));
        match taken(&url(), text.as_bytes(), &[mine.verifier()], &head).unwrap() {
            Pushed::Taken { lines, dropped } => {
                assert_eq!(lines.iter().map(CosignatureLine::line).collect::<Vec<_>>(), std::slice::from_ref(&good));
                assert_eq!(dropped, 3);
            }
            other => panic!("{other:?}"),
        }
        // Both lines of a witness that has two keys.
        let second = key("w.example", KeyKind::MlDsa44, 2);
        let both = format!("{good}\n{}\n", line(head.note().text(), &second, 5));
        let taken_both = taken(&url(), both.as_bytes(), &[mine.verifier(), second.verifier()], &head).unwrap();
        assert!(matches!(taken_both, Pushed::Taken { lines, dropped: 0 } if lines.len() == 2));
        for bad in
            ["", "\n", "hello\n", &good, &format!("{good}\n\n"), &format!("{good}\r\n"), "\u{2014} w.example !\n"]
        {
            assert!(taken(&url(), bad.as_bytes(), &[mine.verifier()], &head).is_err(), "{bad:?}");
        }
        assert!(taken(&url(), b"\xff\n", &[mine.verifier()], &head).is_err());
    }

    #[test]
    fn a_409_is_a_size_only_in_its_media_type_and_spelling() {
        for (content_type, body, size) in [
            (SIZE_TYPE, &b"0\n"[..], Some(0)),
            ("text/x.tlog.size; charset=utf-8", b"12\n", Some(12)),
            (SIZE_TYPE, b"18446744073709551615\n", Some(u64::MAX)),
            ("text/plain", b"12\n", None),
            ("", b"12\n", None),
            ("text/x.tlog.sizes", b"12\n", None),
            (SIZE_TYPE, b"12", None),
            (SIZE_TYPE, b"12\n\n", None),
            (SIZE_TYPE, b"012\n", None),
            (SIZE_TYPE, b"+12\n", None),
            (SIZE_TYPE, b"12 \n", None),
            (SIZE_TYPE, b"-1\n", None),
            (SIZE_TYPE, b"18446744073709551616\n", None),
            (SIZE_TYPE, b"\xff\n", None),
            (SIZE_TYPE, b"", None),
        ] {
            assert_eq!(held(&refused(content_type, body)), size.map(TreeSize), "{content_type} {body:?}");
        }
    }
}
