//! One receipt at a time: what is taken, and each refusal with its status and code.

use crate::stand;
use counterfoil_log_server::refusal::CODE_CREDENTIAL;
use note::{KeyKind, SigningKey};
use receipt::{IssuerForkEvidence, Receipt, ReceiptId, ReceiptText, SeqNo, UnixMillis};
use stand::{Answer, Gate, NOW, Place, Running, index_of, key, until, verify};

const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

async fn size(log: &Running) -> u64 {
    log.get("/v1/issuers").await.json()["issuers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|issuer| issuer["next_seq"].as_u64().unwrap())
        .sum()
}

fn assert_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let problem = answer.json();
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["status"], status);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    for member in ["type", "title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
    }
}

#[tokio::test]
async fn a_receipt_is_answered_with_a_proof_that_verifies() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    for index in 0..5 {
        let receipt = if index == 0 { gate.open() } else { gate.next() };
        let answer = log.submit(&receipt).await;
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        let proven = verify(&receipt, &answer.text());
        assert_eq!(index_of(&answer.text()).0, index);
        assert!(proven.checkpoint.checkpoint().size.0 > index);
    }
    log.stop().await.unwrap();
}

#[tokio::test]
async fn json_is_answered_to_who_asks_for_it() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let receipt = gate.open();
    let answer = log.post("/v1/receipts", &[("accept", "application/json")], receipt.bytes()).await;
    let json = answer.json();
    assert_eq!(
        (json["index"].as_u64(), json["issuer"].as_str(), json["seq"].as_u64()),
        (Some(0), Some("gate.example/a"), Some(0))
    );
    assert_eq!(json["id"], receipt.id().to_string());
    verify(&receipt, json["proof"].as_str().unwrap());
}

#[tokio::test]
async fn a_duplicate_is_answered_with_its_proof_and_changes_nothing() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let (open, next) = (gate.open(), gate.next());
    log.take(&open).await;
    log.take(&next).await;
    let again = log.submit(&open).await;
    assert_eq!(again.status, 200);
    verify(&open, &again.text());
    assert_eq!(index_of(&again.text()).0, 0);
    assert_eq!(size(&log).await, 2);
}

#[tokio::test]
async fn bytes_that_are_no_receipt_are_400_malformed() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let open = gate.open();
    let text = open.to_string();
    let duplicate_keys = text.replace(r#"{"type""#, r#"{"type":"open","type""#);
    let mut not_utf8 = open.bytes().to_vec();
    not_utf8[30] = 0xff;
    let cases: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"hello".to_vec(),
        open.bytes()[..open.bytes().len() - 1].to_vec(),
        open.bytes()[..open.bytes().len() / 2].to_vec(),
        [open.bytes(), b"\n"].concat(),
        not_utf8,
        duplicate_keys.into_bytes(),
        text.replace("\n0\n", "\n00\n").into_bytes(),
        text.replace("\n0\n", "\n-1\n").into_bytes(),
        text.replace("counterfoil/receipt/v1", "counterfoil/receipt/v2").into_bytes(),
        vec![0; receipt::MAX_ENTRY],
    ];
    for case in cases {
        assert_refused(&log.post("/v1/receipts", &[], &case).await, 400, "malformed");
    }
    assert_eq!(size(&log).await, 0);
}

#[tokio::test]
async fn an_entry_that_is_too_large_is_413() {
    let place = Place::new(&[]);
    let log = place.run().await;
    let answer = log.post("/v1/receipts", &[], &vec![b'x'; receipt::MAX_ENTRY + 1]).await;
    assert_refused(&answer, 413, "too-large");
    assert_eq!(answer.json()["limit_bytes"], receipt::MAX_ENTRY);
}

#[tokio::test]
async fn an_issuer_that_is_not_listed_is_403() {
    let mut stranger = Gate::new("gate.example/stranger");
    let place = Place::new(&[&Gate::new("gate.example/a")]);
    let log = place.run().await;
    assert_refused(&log.submit(&stranger.open()).await, 403, "unknown-issuer");
}

#[tokio::test]
async fn a_signature_that_is_not_the_issuers_is_401() {
    let mut gate = Gate::new("gate.example/a");
    let impostor = key("gate.example/a", KeyKind::Ed25519, 99);
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let open = gate.chain.clone().open(UnixMillis(NOW), &impostor).unwrap();
    assert_refused(&log.submit(&open).await, 401, "bad-signature");
    let good = gate.open();
    let changed = good.to_string().replace(&NOW.to_string(), &(NOW + 1).to_string());
    assert_refused(&log.post("/v1/receipts", &[], changed.as_bytes()).await, 401, "bad-signature");
    let twice = format!("{good}{}", good.to_string().lines().last().unwrap()) + "\n";
    let answer = log.post("/v1/receipts", &[], twice.as_bytes()).await;
    assert!(matches!(answer.status, 400 | 401), "{}", answer.text());
    assert_eq!(size(&log).await, 0);
    log.take(&good).await;
}

#[tokio::test]
async fn a_gap_is_409_and_says_what_is_expected() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let open = gate.open();
    log.take(&open).await;
    let (_left_out, beyond) = (gate.next(), gate.next());
    let answer = log.submit(&beyond).await;
    assert_refused(&answer, 409, "gap");
    assert_eq!(answer.json()["expected_seq"], 1);
    assert_eq!(answer.json()["expected_prev"], open.id().to_string());
    assert_eq!(size(&log).await, 1);
}

#[tokio::test]
async fn a_fork_is_409_and_both_receipts_are_kept_as_evidence_once() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let open = gate.open();
    let (fork_at_held_seq, good) = (gate.aside(r#"{"type":"other"}"#, NOW), gate.next());
    log.take(&open).await;
    log.take(&good).await;
    for _ in 0..3 {
        assert_refused(&log.submit(&fork_at_held_seq).await, 409, "fork");
    }
    let elsewhere = ReceiptText {
        issuer: good.issuer().clone(),
        seq: SeqNo(2),
        prev: fork_at_held_seq.id(),
        issued_at: UnixMillis(NOW),
        body: HEARTBEAT.to_owned(),
    };
    assert_refused(&log.submit(&elsewhere.sign(&gate.key).unwrap()).await, 409, "fork");
    assert_eq!(size(&log).await, 2);

    let page = log.get("/v1/evidence/0").await;
    assert_eq!(page.header("content-type"), Some("application/x-ndjson"));
    let documents: Vec<IssuerForkEvidence> =
        page.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 2);
    for document in documents {
        assert_eq!(document.check().unwrap().key, gate.vkey());
    }
    assert_eq!(log.get("/v1/evidence/1").await.text(), "");
    assert_eq!(log.get("/v1/evidence/00").await.status, 404);
    log.stop().await.unwrap();

    // What is kept is remembered over a restart.
    let log = place.run().await;
    assert_refused(&log.submit(&fork_at_held_seq).await, 409, "fork");
    assert_eq!(log.get("/v1/evidence/0").await.text().lines().count(), 2);
}

#[tokio::test]
async fn nothing_comes_after_a_close() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    log.take(&gate.say(r#"{"type":"close"}"#)).await;
    assert_refused(&log.submit(&gate.next()).await, 409, "closed");
    assert_eq!(size(&log).await, 2);
}

#[tokio::test]
async fn a_clock_that_went_back_is_409() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    assert_refused(&log.submit(&gate.aside(HEARTBEAT, NOW - 1)).await, 409, "time-reversed");
    log.take(&gate.aside(HEARTBEAT, NOW)).await;
}

#[tokio::test]
async fn a_receipt_from_the_future_is_422_by_the_logs_own_clock() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let early = gate.aside(HEARTBEAT, NOW + receipt::MAX_AHEAD_MS + 1);
    assert_refused(&log.submit(&early).await, 422, "future-dated");
    place.set_clock(NOW + 1);
    log.take(&early).await;
}

#[tokio::test]
async fn a_stream_opens_once_and_with_the_registered_key() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    assert_refused(&log.submit(&gate.aside(HEARTBEAT, NOW)).await, 422, "bad-open");
    let other_vkey =
        format!(r#"{{"type":"open","vkey":"{}"}}"#, key("gate.example/a", KeyKind::Ed25519, 99).verifier());
    assert_refused(&log.submit(&gate.aside(&other_vkey, NOW)).await, 422, "bad-open");
    let open = gate.open();
    log.take(&open).await;
    let open_again = gate.aside(&format!(r#"{{"type":"open","vkey":"{}"}}"#, gate.vkey()), NOW);
    assert_refused(&log.submit(&open_again).await, 422, "bad-open");
    assert_eq!(size(&log).await, 1);
}

#[tokio::test]
async fn a_rotation_hands_over_to_a_new_key_that_signed_it_too() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let new = key("gate.example/a", KeyKind::Ed25519, 77);
    let rotation = |vkey: &SigningKey| ReceiptText {
        issuer: gate.chain.issuer().clone(),
        seq: gate.chain.next_seq(),
        prev: gate.chain.head(),
        issued_at: UnixMillis(NOW),
        body: format!(r#"{{"type":"rotate","vkey":"{}"}}"#, vkey.verifier()),
    };
    let to_itself =
        gate.chain.clone().rotate(UnixMillis(NOW), &gate.key, &gate.key).map(|receipt| receipt.bytes().to_vec());
    if let Ok(to_itself) = to_itself {
        let answer = log.post("/v1/receipts", &[], &to_itself).await;
        assert!(matches!(answer.status, 400 | 401 | 422), "{}", answer.text());
    }
    let third = key("gate.example/a", KeyKind::Ed25519, 78);
    let signed = rotation(&new).sign_rotation(&gate.key, &new).unwrap().to_string();
    let by_another = rotation(&new).body.replace(&new.verifier().to_string(), &third.verifier().to_string());
    assert!(by_another.contains("rotate"));
    let without_second = signed.lines().take(signed.lines().count() - 1).collect::<Vec<_>>().join("\n") + "\n";
    let answer = log.post("/v1/receipts", &[], without_second.as_bytes()).await;
    assert_refused(&answer, 422, "bad-rotation");
    assert_eq!(size(&log).await, 1);
    let rotate = Receipt::parse(signed.as_bytes()).unwrap();
    log.take(&rotate).await;
    gate.chain = receipt::Chain::after(&rotate).unwrap();
    assert_refused(&log.submit(&gate.aside(HEARTBEAT, NOW)).await, 401, "bad-signature");
    gate.key = new.into();
    log.take(&gate.next()).await;
}

#[tokio::test]
async fn something_credential_shaped_is_422_and_named_but_never_echoed() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let body = format!(
        r#"{{"type":"decision","request_id":"r","decision":"allow","authenticated":true,"executes":"gate","args":{{"header":"{secret}"}}}}"#
    );
    let answer = log.submit(&gate.aside(&body, NOW)).await;
    assert_refused(&answer, 422, CODE_CREDENTIAL);
    assert!(answer.json()["member"].as_str().unwrap().contains("header"), "{}", answer.text());
    assert!(!answer.text().contains(secret));
    let verdicts = log.batch(&[gate.aside(&body, NOW).bytes()]).await;
    assert_eq!(
        (verdicts[0]["status"].as_str(), verdicts[0]["code"].as_str()),
        (Some("refused"), Some(CODE_CREDENTIAL))
    );
    assert_eq!(size(&log).await, 1);
}

#[tokio::test]
async fn one_receipt_gets_one_code_alone_and_in_a_batch() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    log.take(&gate.open()).await;
    let secret = r#"{"type":"x","header":"ghp_16C7e42F292c6912E7710c838347Ae178B4a"}"#;
    let (here, future) = (gate.aside(secret, NOW), gate.aside(secret, NOW + 3_600_000));
    let mut impostor = Gate::new("gate.example/a");
    impostor.key = key("gate.example/a", KeyKind::Ed25519, 66).into();
    impostor.chain = gate.chain.clone();
    let forged = impostor.aside(secret, NOW);
    let fork = gate.aside(secret, NOW + 1);
    log.take(&gate.next()).await;
    let mut stranger = Gate::new("gate.example/stranger");
    stranger.open();
    let unknown = stranger.aside(secret, NOW);
    let next = gate.aside(secret, NOW);
    for (receipt, code) in [
        (&unknown, "unknown-issuer"),
        (&forged, "bad-signature"),
        (&fork, "fork"),
        (&here, "fork"),
        (&future, "fork"),
        (&next, CODE_CREDENTIAL),
    ] {
        let alone = log.submit(receipt).await.json();
        let batched = log.batch(&[receipt.bytes()]).await.remove(0);
        assert_eq!((alone["code"].as_str(), batched["code"].as_str()), (Some(code), Some(code)), "{alone} {batched}");
    }
    assert_eq!(log.get("/v1/evidence/0").await.text().lines().count(), 3);
}

#[tokio::test]
async fn waiting_for_cosignatures_without_witnesses_takes_nothing() {
    let mut gate = Gate::new("gate.example/a");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let answer = log.post("/v1/receipts", &[("prefer", "wait=cosigned")], gate.open().bytes()).await;
    assert_refused(&answer, 501, "no-witnesses");
    assert_eq!(size(&log).await, 0);
}

#[tokio::test]
async fn receipts_are_found_by_issuer_and_seq_and_by_id() {
    let mut gate = Gate::new("gate.example/support-1");
    let place = Place::new(&[&gate]);
    let log = place.run().await;
    let receipts = [gate.open(), gate.next(), gate.next()];
    for receipt in &receipts {
        log.take(receipt).await;
    }
    for (seq, receipt) in receipts.iter().enumerate() {
        let paths =
            [format!("/v1/issuers/gate.example%2Fsupport-1/receipts/{seq}"), format!("/v1/receipts/{}", receipt.id())];
        for path in paths {
            let found = log.get(&path).await;
            assert_eq!(found.status, 200, "{path}: {}", found.text());
            let found = found.json();
            assert_eq!(found["entry"], receipt.to_string());
            assert_eq!((found["index"].as_u64(), found["seq"].as_u64()), (Some(seq as u64), Some(seq as u64)));
            verify(receipt, found["proof"].as_str().unwrap());
        }
    }
    let absent = ReceiptId(merkle::leaf_hash(b"absent"));
    for path in [
        "/v1/issuers/gate.example%2Fsupport-1/receipts/3".to_owned(),
        "/v1/issuers/gate.example%2Fsupport-1/receipts/01".to_owned(),
        format!("/v1/receipts/{absent}"),
        format!("/v1/receipts/{}", receipts[0].id().to_string().to_uppercase()),
        "/v1/receipts/abc".to_owned(),
        "/v1/nothing".to_owned(),
        "/v1/issuers/%ff".to_owned(),
        "/v1/issuers/%ff/receipts/0".to_owned(),
        "/v1/receipts/%ff".to_owned(),
        "/v1/evidence/%ff".to_owned(),
    ] {
        assert_refused(&log.get(&path).await, 404, "not-found");
    }
    // Told apart from a path that nobody serves: a client must not take a server of another kind for a log.
    for path in ["/v1/issuers/nobody/receipts/0", "/v1/issuers/nobody"] {
        assert_refused(&log.get(path).await, 404, "unknown-issuer");
    }
    let issuer = log.get("/v1/issuers/gate.example%2Fsupport-1").await.json();
    assert_eq!(issuer["vkey"], gate.vkey().to_string());
    assert_eq!(issuer["head"], receipts[2].id().to_string());
    assert_eq!(
        (issuer["next_seq"].as_u64(), issuer["first_index"].as_u64(), issuer["last_index"].as_u64()),
        (Some(3), Some(0), Some(2))
    );
    assert_eq!(
        (issuer["last_issued_at"].as_u64(), issuer["closed"].as_bool(), issuer["listed"].as_bool()),
        (Some(NOW), Some(false), Some(true))
    );
}

#[tokio::test]
async fn the_list_of_issuers_is_read_again_on_request_and_a_bad_one_changes_nothing() {
    let (mut first, mut second) = (Gate::new("gate.example/a"), Gate::new("gate.example/b"));
    let place = Place::new(&[&first]);
    let log = place.run().await;
    log.take(&first.open()).await;
    let open = second.open();
    assert_refused(&log.submit(&open).await, 403, "unknown-issuer");
    place.list(&[&second]);
    log.reload();
    until("the list is read again", async || log.submit(&open).await.status == 200).await;
    assert_refused(&log.submit(&first.next()).await, 403, "unknown-issuer");
    std::fs::write(place.dir.path().join("issuers"), "nonsense").unwrap();
    log.reload();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    log.take(&second.next()).await;
}

#[tokio::test]
async fn a_mistyped_vkey_is_corrected_by_the_list_and_the_correction_lasts() {
    let (mistyped, mut gate) = (Gate::new("gate.example/a"), Gate::new("gate.example/a"));
    gate.key = key("gate.example/a", KeyKind::Ed25519, 77).into();
    let place = Place::new(&[&mistyped]);
    let log = place.run().await;
    let open = gate.open();
    assert_refused(&log.submit(&open).await, 401, "bad-signature");
    place.list(&[&gate]);
    log.reload();
    until("the list is read again", async || log.submit(&open).await.status == 200).await;
    log.stop().await.unwrap();
    let log = place.run().await;
    log.take(&gate.next()).await;
    assert_eq!(log.get("/v1/issuers/gate.example%2Fa").await.json()["vkey"], gate.vkey().to_string());
    log.stop().await.unwrap();
    // With receipts in the log, the key is the issuer's: only a rotate receipt changes it.
    place.list(&[&mistyped]);
    assert!(place.run_with(Vec::new(), None, |_| {}).await.is_err_and(|error| error.to_string().contains("rotate")));
}
