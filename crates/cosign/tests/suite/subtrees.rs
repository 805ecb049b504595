//! `sign-subtree`: what is signed, every refusal with its status, and the bytes of a request.

use cosign::subtree::{
    MAX_PROOF_LINES, MAX_REQUEST_LEN, MAX_SUBTREE_SIGNATURES, MalformedRequest, Standing, SubtreeRefusal,
    SubtreeRequest, sign_subtree,
};
use counterfoil_cosign as cosign;
use merkle::{Hash, MemoryTree, ProofError, Subtree, TreeSize, leaf_hash, prove_subtree};
use note::{
    Checkpoint, CosignedTree, KeyKind, KeyName, NoteSignature, Origin, SignedCheckpoint, SigningKey, Verified,
    cosign as cosigned, sign_checkpoint,
};

const SIZE: u64 = 14;

#[test]
fn every_subtree_of_a_head_that_the_witness_cosigned_is_cosigned_at_no_time() {
    let (tree, head, key) = (tree(), head(), witness().verifier());
    for end in 1..=SIZE {
        for start in 0..end {
            let Some(subtree) = Subtree::new(start, end) else { continue };
            let answer = sign(&request(subtree, &head).to_string()).unwrap();
            let line = NoteSignature::parse(answer.strip_suffix('\n').unwrap()).unwrap();
            let signed = CosignedTree { origin: origin(), start, end, hash: subtree.root(&tree).unwrap() };
            assert_eq!(signed.verify(&line, &key), Ok(0), "[{start}, {end})");
        }
    }
}

#[test]
fn the_same_request_gets_the_same_answer_and_an_answer_from_leaf_0_is_built_upon_too() {
    let head = head();
    let whole = Subtree::new(0, SIZE).unwrap();
    let answer = sign(&request(whole, &head).to_string()).unwrap();
    assert_eq!(sign(&request(whole, &head).to_string()).unwrap(), answer);
    let mut built = request(Subtree::new(8, 12).unwrap(), &head);
    built.signatures = vec![NoteSignature::parse(answer.trim_end()).unwrap()];
    assert!(sign(&built.to_string()).is_ok());
}

#[test]
fn a_head_that_the_witness_did_not_cosign_with_this_key_is_refused() {
    let subtree = Subtree::new(8, 12).unwrap();
    let not_cosigned = |signatures: Vec<NoteSignature>| {
        let request = SubtreeRequest { signatures, ..request(subtree, &head()) };
        assert_eq!(sign(&request.to_string()), Err(SubtreeRefusal::NotCosigned));
    };
    not_cosigned(vec![]);
    not_cosigned(bare().note().signatures().to_vec());
    // By its Ed25519 key, by another witness, of another head, and by nobody.
    let text = bare().note().text().to_owned();
    not_cosigned(vec![line(&text, &key("w.example", KeyKind::CosignatureV1, 2))]);
    not_cosigned(vec![line(&text, &key("x.example", KeyKind::MlDsa44, 3))]);
    not_cosigned(vec![line(&text.replace("\n14\n", "\n15\n"), &witness())]);
    let mut forged = line(&text, &witness());
    forged.blob[100] ^= 1;
    not_cosigned(vec![forged.clone()]);
    let mut short = forged.clone();
    short.blob.truncate(72);
    not_cosigned(vec![short]);
    // The first line under the key decides, so that nobody makes the witness check eight.
    not_cosigned(vec![forged.clone(), line(&text, &witness())]);
    let good = SubtreeRequest { signatures: vec![line(&text, &witness()), forged], ..request(subtree, &head()) };
    assert!(sign(&good.to_string()).is_ok());
}

/// The checkpoint's tree is what was cosigned; the proof must lead from the subtree to it and nowhere else.
#[test]
fn a_subtree_that_is_not_proved_part_of_the_cosigned_tree_is_refused() {
    let subtree = Subtree::new(8, 12).unwrap();
    let good = request(subtree, &head());
    let not_proven = |request: SubtreeRequest| match sign(&request.to_string()) {
        Err(SubtreeRefusal::NotProven(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(not_proven(SubtreeRequest { hash: Hash([1; 32]), ..good.clone() }), ProofError::NewRoot);
    let moved = Subtree::new(4, 8).unwrap();
    not_proven(SubtreeRequest { subtree: moved, ..good.clone() });
    let mut hashes = good.proof.hashes().to_vec();
    hashes.pop();
    let cut = SubtreeRequest { proof: merkle::SubtreeProof::new(hashes), ..good.clone() };
    assert!(matches!(not_proven(cut), ProofError::WrongLength { .. }));
    let inside = Subtree::new(8, 13).unwrap();
    let wrong = SubtreeRequest { hash: Hash([1; 32]), ..request(inside, &head()) };
    assert_eq!(not_proven(wrong), ProofError::SubtreeRoot);
}

#[test]
fn logs_that_are_not_watched_or_signed_two_histories_get_nothing() {
    let request = request(Subtree::new(8, 12).unwrap(), &head()).to_string();
    for (standing, refusal) in
        [(Standing::Unknown, SubtreeRefusal::UnknownLog), (Standing::Forked, SubtreeRefusal::ForkedLog)]
    {
        let answer = sign_subtree(request.as_bytes(), &witness(), |asked| {
            assert_eq!(*asked, origin());
            standing
        });
        assert_eq!(answer, Err(refusal));
    }
    let wrong = sign_subtree(request.as_bytes(), &key("w.example", KeyKind::CosignatureV1, 2), |_| Standing::Watched);
    assert_eq!(wrong, Err(SubtreeRefusal::Key(note::CosignatureError::WrongKeyKind)));
}

#[test]
fn each_refusal_has_its_status() {
    for (refusal, status) in [
        (SubtreeRefusal::Malformed(MalformedRequest::Range), 400),
        (SubtreeRefusal::UnknownLog, 404),
        (SubtreeRefusal::ForkedLog, 403),
        (SubtreeRefusal::NotCosigned, 403),
        (SubtreeRefusal::NotProven(ProofError::NewRoot), 422),
        (SubtreeRefusal::Key(note::CosignatureError::WrongKeyKind), 500),
    ] {
        assert_eq!(refusal.status(), status);
    }
}

#[test]
fn requests_print_as_they_were_read_with_and_without_signatures() {
    let mut full = request(Subtree::new(8, 13).unwrap(), &head());
    full.cosignatures = vec![line(bare().note().text(), &key("x.example", KeyKind::MlDsa44, 3)); 8];
    let unsigned = SubtreeRequest { signatures: vec![], ..full.clone() };
    for request in [full, unsigned] {
        let text = request.to_string();
        assert_eq!(SubtreeRequest::parse(text.as_bytes()), Ok(request));
    }
}

#[test]
fn malformed_requests_are_refused_with_their_reason() {
    use MalformedRequest as Bad;
    let good = request(Subtree::new(8, 13).unwrap(), &head()).to_string();
    let hash = Hash([1; 32]).to_base64();
    let cosignature = line(bare().note().text(), &key("x.example", KeyKind::MlDsa44, 3)).line();
    let after_hash = |lines: &str| {
        let place = good.match_indices('\n').nth(1).unwrap().0 + 1;
        format!("{}{lines}{}", &good[..place], &good[place..])
    };
    let ranged = |range: &str| good.replacen("subtree 8 13", range, 1);
    let plain_line = bare().note().signatures()[0].line();
    for (text, reason) in [
        (String::new(), Bad::NoCheckpoint),
        ("subtree 8 13\n".to_owned(), Bad::NoCheckpoint),
        (ranged("subtree 08 13"), Bad::Range),
        (ranged("subtree 8  13"), Bad::Range),
        (ranged("subtree 8 13 "), Bad::Range),
        (ranged("subtree +8 13"), Bad::Range),
        (ranged("Subtree 8 13"), Bad::Range),
        (ranged("subtree 8"), Bad::Range),
        (ranged("subtree 8 18446744073709551616"), Bad::Range),
        (ranged("subtree 8 8"), Bad::NoSubtree { start: 8, end: 8 }),
        (ranged("subtree 9 8"), Bad::NoSubtree { start: 9, end: 8 }),
        (ranged("subtree 7 13"), Bad::NoSubtree { start: 7, end: 13 }),
        (ranged("subtree 8 15"), Bad::BeyondCheckpoint { end: 15, size: SIZE }),
        (good.replacen('\n', "\r\n", 1), Bad::Range),
        (good.replacen('\n', "\nx", 1), Bad::Hash),
        (after_hash("— x\n"), Bad::Signature(3)),
        (after_hash(&format!("{cosignature}\n— x\n")), Bad::Signature(4)),
        (after_hash(&format!("{hash}\n{cosignature}\n")), Bad::ProofLine(4)),
        (after_hash(&format!("{}\n", &hash[1..])), Bad::ProofLine(3)),
        (after_hash(&format!(" {hash}\n")), Bad::ProofLine(3)),
        (after_hash(&format!("{cosignature}\n").repeat(MAX_SUBTREE_SIGNATURES + 1)), Bad::TooManySignatures),
        (after_hash(&format!("{hash}\n").repeat(MAX_PROOF_LINES + 1)), Bad::ProofTooLong),
        (format!("{good}{}", format!("{plain_line}\n").repeat(MAX_SUBTREE_SIGNATURES)), Bad::TooManySignatures),
        (good.trim_end().to_owned(), Bad::Checkpoint),
        (format!("{good}\n"), Bad::Checkpoint),
        (good.replace("\n14\n", "\n014\n"), Bad::Checkpoint),
        (good.split_once("\n\n").unwrap().0.to_owned() + "\n\n", Bad::Checkpoint),
        ("x".repeat(MAX_REQUEST_LEN + 1), Bad::TooLong),
    ] {
        assert_eq!(SubtreeRequest::parse(text.as_bytes()), Err(reason), "{:?}", &text[..text.len().min(200)]);
        assert_eq!(sign(&text), Err(SubtreeRefusal::Malformed(reason)));
    }
    assert_eq!(SubtreeRequest::parse(b"\xff\n\n"), Err(Bad::NotUtf8));
}

/// The specification's request without signatures. Its hashes are those of no tree.
#[test]
fn the_specs_example_request_is_read() {
    let text = "subtree 8 13\nmbsQCg+dEIMGlpqeGgk94JutQwKKS2Lo5IuDhKmDjiU=\nCD82D2LDm0phY0+xKbHyZfq3Hw21lVkuV7Zis5EFg0k=\nh/ghL5nyaXTIBAklqDnisM+SFdbA3izoGZ5oRYMZzc0=\n8qtnAAU9sTKQx/zt3E4v8Jt2a9IMQUf0QUawvePF9y0=\nKuO5BNOmginG34Lm5G3e2GuiWliGo3K0ebzGpvI0fEg=\n\nexample.com/behind-the-sofa\n14\n/CcKVZM9n65aH7jLaIZuUB4/MSlEFQ4+ldwUC21rDHM=\n";
    let request = SubtreeRequest::parse(text.as_bytes()).unwrap();
    assert_eq!(request.to_string(), text);
    assert_eq!((request.subtree, request.proof.hashes().len()), (Subtree::new(8, 13).unwrap(), 4));
    assert_eq!(sign(text), Err(SubtreeRefusal::NotCosigned), "this witness remembers no head but by its signature");
}

fn sign(request: &str) -> Result<String, SubtreeRefusal> {
    sign_subtree(request.as_bytes(), &witness(), |_| Standing::Watched)
}

fn request(subtree: Subtree, head: &SignedCheckpoint<Verified>) -> SubtreeRequest {
    SubtreeRequest {
        subtree,
        hash: subtree.root(&tree()).unwrap(),
        cosignatures: vec![],
        proof: prove_subtree(&tree(), subtree, TreeSize(SIZE)).unwrap(),
        checkpoint: head.checkpoint().clone(),
        signatures: head.note().signatures().to_vec(),
    }
}

fn tree() -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..SIZE).for_each(|leaf| tree.push(leaf_hash(&[leaf as u8])));
    tree
}

fn origin() -> Origin {
    Origin::new("log.example/agents").unwrap()
}

fn bare() -> SignedCheckpoint<Verified> {
    let head = Checkpoint::new(origin(), TreeSize(SIZE), tree().root());
    sign_checkpoint(&head, &key("log.example/agents", KeyKind::Ed25519, 1)).unwrap()
}

/// As the witness's monitoring path shows it: the log's line, and one of each of the witness's keys.
fn head() -> SignedCheckpoint<Verified> {
    let text = bare().note().text().to_owned();
    let lines = [&key("w.example", KeyKind::CosignatureV1, 2), &witness()]
        .map(|key| cosigned(&text, key, 1_700_000_000).unwrap().to_line().unwrap());
    bare().with_cosignatures(&lines)
}

fn witness() -> SigningKey {
    key("w.example", KeyKind::MlDsa44, 2)
}

fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

fn line(text: &str, key: &SigningKey) -> NoteSignature {
    cosigned(text, key, 1_700_000_000).unwrap().to_line().unwrap().signature().clone()
}
