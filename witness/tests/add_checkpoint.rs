//! `add-checkpoint` (C2SP tlog-witness), byte for byte: every status and body, and what is left behind.

use crate::exchange;
use crate::pusher;
use crate::stage;
use exchange::{Connection, ask};
use merkle::{Hash, TreeSize, leaf_hash, prove_consistency};
use note::{
    Checkpoint, Cosignature, KeyId, KeyKind, KeyName, NoteSignature, SigningKey, VerifierKey, cosign,
    parse_cosignature_line, sign_checkpoint, sign_note,
};
use pusher::{Pusher, body, cosigned, held, monitored, proof, push, witness};
use stage::{House, NOON_S};

const ORIGIN: &str = "log.example/pushed";

/// The heads of a public test log, as other implementations were asked to cosign them.
mod sigsum {
    pub(crate) const KEY: &str = "ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f";
    pub(crate) const ORIGIN: &str =
        "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562";
    pub(crate) const ONE: (&str, &str) = (
        "1\nKgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3wfUQMFSzVnnNuWRTYrajXpNUbIQY=",
    );
    pub(crate) const THREE: (&str, &str) = (
        "3\nRcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=",
        "UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36kezNobZs4SUUdrcawfAB8WVrx6go=",
    );
    pub(crate) const FIVE: (&str, &str) = (
        "5\nQrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=",
        "UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLOZ/ASRcWJi0tW90dJWAShei7sDww=",
    );
    pub(crate) const TO_THREE: [&str; 2] =
        ["KgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "KgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="];
    pub(crate) const TO_FIVE: [&str; 4] = [
        "KgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "KgMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "wgiIFdZfYNv6WU1OllBKsWnLYIS/DBMqt8Uh/S4OukE=",
        "KgQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ];

    pub(crate) fn note(origin: &str, (head, signature): (&str, &str)) -> String {
        format!("{origin}\n{head}\n\n— {origin} {signature}\n")
    }

    pub(crate) fn body(old: u64, proof: &[&str], note: &str) -> Vec<u8> {
        let lines: String = proof.iter().map(|line| format!("{line}\n")).collect();
        format!("old {old}\n{lines}\n{note}").into_bytes()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_known_sequence_of_a_sigsum_log_is_answered_as_other_witnesses_answer_it() {
    use sigsum::{FIVE, KEY, ONE, ORIGIN, THREE, TO_FIVE, TO_THREE, body, note};
    let house = House::new();
    let key = hex_32(KEY);
    let vkey = VerifierKey::new(KeyName::new(ORIGIN).unwrap(), KeyKind::Ed25519, &key).unwrap();
    assert_eq!(vkey.id(), KeyId([0x52, 0x02, 0x28, 0x9b]));
    let witness = witness(&house, &[vkey]).await;
    let (one, three, five) = (note(ORIGIN, ONE), note(ORIGIN, THREE), note(ORIGIN, FIVE));

    cosigned(&push(&witness, &body(0, &[], &one)).await, &house, &one);
    // A signature with another last byte is nobody's. Where the last letter carries bits that no byte has, a lenient decoder
    // reads a bad signature too, and here it is no base64.
    let (forged, misspelt) = (THREE.1.replace("6go=", "6gw="), THREE.1.replace("6go=", "6gx="));
    assert_eq!(push(&witness, &body(1, &TO_THREE, &note(ORIGIN, (THREE.0, &forged)))).await.status, 403);
    assert_eq!(push(&witness, &body(1, &TO_THREE, &note(ORIGIN, (THREE.0, &misspelt)))).await.status, 400);
    let elsewhere = note(&ORIGIN.replace("e562", "e563"), THREE);
    assert_eq!(push(&witness, &body(1, &TO_THREE, &elsewhere)).await.status, 404);
    assert_eq!(push(&witness, &body(1, &[], &three)).await.status, 422);
    let altered = [TO_THREE[0], "KwIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="];
    assert_eq!(push(&witness, &body(1, &altered, &three)).await.status, 422);
    cosigned(&push(&witness, &body(1, &TO_THREE, &three)).await, &house, &three);
    assert_eq!(held(&push(&witness, &body(1, &TO_FIVE, &five)).await), "3\n");
    cosigned(&push(&witness, &body(3, &TO_FIVE, &five)).await, &house, &five);
    for note in [&one, &three, &five] {
        assert_eq!(held(&push(&witness, &body(0, &[], note)).await), "5\n");
    }
    assert_eq!(push(&witness, &body(5, &[], &five.replace("\n\n", "\n"))).await.status, 400);
    let (text, names) = monitored(&witness, ORIGIN).await.unwrap();
    assert_eq!(
        (text, names),
        (format!("{ORIGIN}\n{}\n", FIVE.0), vec![ORIGIN.to_owned(), "witness.example/w1".to_owned()])
    );
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checks_are_made_in_the_order_of_the_text_and_each_has_its_status() {
    let (house, log, stranger) = (House::new(), Pusher::new(ORIGIN), Pusher::new("stranger.example"));
    let witness = witness(&house, &[log.key.verifier()]).await;
    cosigned(&push(&witness, &log.call(0, 9)).await, &house, &log.head(9));
    let impostor = SigningKey::from_seed(log.key.name().clone(), KeyKind::Ed25519, [99; 32]);
    let text = |size| log.checkpoint(size, 0).to_string();
    let by_impostor = |size| String::from_utf8(sign_note(&text(size), &[&impostor]).unwrap()).unwrap();
    let bad = |size| log.head(size).replace(&text(size), &log.checkpoint(size, 7).to_string());
    for (what, body, status) in [
        ("an unknown origin, though everything else is wrong too", body(12, &proof(1, 2), &stranger.head(11)), 404),
        ("an unknown origin, properly", body(0, &[], &stranger.head(3)), 404),
        ("no line by the log's key, though the old size is wrong too", body(12, &[], &by_impostor(11)), 403),
        ("a bad line under the log's key, though the old size is wrong too", body(12, &[], &bad(11)), 403),
        ("an old size above the head's, though it is not the one held", body(12, &[], &log.head(11)), 400),
        ("an old size above the held one", body(10, &[], &log.head(11)), 409),
        ("an old size below the held one, with a proof that holds", log.call(8, 11), 409),
        ("the old size of nothing", log.call(0, 11), 409),
        ("an older head", log.call(8, 8), 409),
        ("a proof of something else", body(9, &proof(8, 11), &log.head(11)), 422),
        ("no proof", body(9, &[], &log.head(11)), 422),
        ("a proof with one hash more", body(9, &[proof(9, 11), proof(8, 11)].concat(), &log.head(11)), 422),
        ("a proof where nothing is to be proved", body(9, &proof(8, 11), &log.head(9)), 422),
    ] {
        let answer = push(&witness, &body).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        if status == 409 {
            assert_eq!(held(&answer), "9\n", "{what}");
        } else {
            assert_ne!(answer.header("content-type"), Some("text/x.tlog.size"), "{what}");
        }
    }
    // None of it moved the witness or accused anybody.
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, text(9));
    assert_eq!(ask(&witness.url, "GET", "/evidence/0", b"").await.status, 404);
    cosigned(&push(&witness, &log.call(9, 11)).await, &house, &log.head(11));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_any_other_spelling_is_400() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    cosigned(&push(&witness, &log.call(0, 5)).await, &house, &log.head(5));
    let good = String::from_utf8(log.call(5, 9)).unwrap();
    let hash = proof(5, 9)[0].to_base64();
    // The last letter before the padding has two spare bits, which must be zero.
    let spare = hash.replace(&hash[42..], &format!("{}=", char::from(hash.as_bytes()[42] + 1)));
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from:?}");
        good.replacen(from, to, 1)
    };
    for (what, body) in [
        ("nothing", String::new()),
        ("a newline", "\n".to_owned()),
        ("no old size", changed("old 5\n", "")),
        ("no number", changed("old 5\n", "old \n")),
        ("a leading zero", changed("old 5\n", "old 05\n")),
        ("zero twice", changed("old 5\n", "old 00\n")),
        ("a plus sign", changed("old 5\n", "old +5\n")),
        ("a minus sign", changed("old 5\n", "old -5\n")),
        ("a number beyond 2^64", changed("old 5\n", "old 18446744073709551616\n")),
        ("another word", changed("old 5\n", "Old 5\n")),
        ("two spaces", changed("old 5\n", "old  5\n")),
        ("a tab", changed("old 5\n", "old\t5\n")),
        ("a space behind", changed("old 5\n", "old 5 \n")),
        ("a space before", changed("old 5\n", " old 5\n")),
        ("a carriage return", changed("old 5\n", "old 5\r\n")),
        ("carriage returns everywhere", good.replace('\n', "\r\n")),
        ("no blank line", changed("\n\nlog", "\nlog")),
        ("two blank lines", changed("\n\nlog", "\n\n\nlog")),
        ("a blank line between size and proof", changed("old 5\n", "old 5\n\n")),
        ("a hash without padding", changed(&hash, hash.trim_end_matches('='))),
        ("a hash with spare bits", changed(&hash, &spare)),
        ("a hash in the other alphabet", changed(&hash, &"-_".repeat(22))),
        ("a hash of 31 bytes", changed(&hash, &format!("{}A==", &"A".repeat(41)))),
        ("a hash of 33 bytes", changed(&hash, &"A".repeat(44))),
        ("two hashes on a line", changed(&format!("{hash}\n"), &hash)),
        ("a space behind a hash", changed(&hash, &format!("{hash} "))),
        ("64 hashes", changed(&format!("{hash}\n"), &format!("{hash}\n").repeat(64))),
        ("no newline at the end", good.trim_end().to_owned()),
        ("a line behind the end", format!("{good}\n")),
        ("a head without signatures", changed("\n\n—", "\n—")),
        ("a signature line that is none", changed("— ", "-- ")),
        ("a size with a leading zero in the head", changed("\n9\n", "\n09\n")),
        ("no root in the head", "old 5\n\nlog.example/pushed\n9\n\n— log.example/pushed AAAAAAAA\n".to_owned()),
        ("a control character", changed("old 5\n", "old 5\n\0")),
    ] {
        let answer = push(&witness, body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{what}: {}", answer.text());
    }
    assert_eq!(push(&witness, b"old 5\n\n\xff\n9\n").await.status, 400, "no UTF-8");
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, log.checkpoint(5, 0).to_string());
    cosigned(&push(&witness, good.as_bytes()).await, &house, &log.head(9));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_three_proof_lines_are_read_and_judged() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    cosigned(&push(&witness, &log.call(0, 5)).await, &house, &log.head(5));
    for (hashes, status) in [(63, 422), (64, 400)] {
        let answer = push(&witness, &body(5, &vec![leaf_hash(b""); hashes], &log.head(9))).await;
        assert_eq!(answer.status, status, "{hashes}: {}", answer.text());
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_empty_tree_has_one_root_and_whatever_grows_out_of_it_needs_no_proof() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    let mut impossible = log.checkpoint(0, 0);
    impossible.root = Pusher::tree(1, 0).root();
    let impossible = sign_checkpoint(&impossible, &log.key).unwrap().note().to_string();
    assert_eq!(push(&witness, &body(0, &[], &impossible)).await.status, 422);
    assert_eq!(monitored(&witness, ORIGIN).await, None);
    for _ in 0..2 {
        cosigned(&push(&witness, &log.call(0, 0)).await, &house, &log.head(0));
        // From a head of size 0 that was cosigned it is no other answer.
        assert_eq!(push(&witness, &body(0, &[], &impossible)).await.status, 422);
        assert_eq!(push(&witness, &body(0, &[leaf_hash(b"")], &log.head(5))).await.status, 422);
        assert_eq!(push(&witness, &body(0, &[leaf_hash(b"")], &log.head(0))).await.status, 422);
    }
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, log.checkpoint(0, 0).to_string());
    cosigned(&push(&witness, &log.call(0, 5)).await, &house, &log.head(5));
    assert_eq!(held(&push(&witness, &log.call(0, 0)).await), "5\n");
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_root_at_one_size_is_422_and_evidence() {
    is_refused_with_evidence(5, &[], 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_that_leads_to_the_signed_root_from_another_one_is_422_and_evidence() {
    let proof = prove_consistency(&Pusher::tree(9, 1), TreeSize(5), TreeSize(9)).unwrap();
    is_refused_with_evidence(5, proof.hashes(), 9).await;
}

/// Holds a head of size `held`, is pushed one of the log's second history, and takes nothing more of that log.
async fn is_refused_with_evidence(held: u64, proof: &[Hash], size: u64) {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    cosigned(&push(&witness, &log.call(0, held)).await, &house, &log.head(held));
    let answer = push(&witness, &body(held, proof, &log.head_of(size, 1))).await;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let evidence = ask(&witness.url, "GET", "/evidence/0", b"").await;
    assert_eq!((evidence.status, evidence.text().lines().count()), (200, 1));
    let shown = serde_json::from_str::<cosign::LogFork>(evidence.text().trim_end()).unwrap().check().unwrap();
    assert_eq!(shown.key, log.key.verifier());
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, log.checkpoint(held, 0).to_string());
    // Its key is not trusted any more, until the operator has looked.
    assert_eq!(push(&witness, &log.call(held, held + 1)).await.status, 403);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_head_pushed_again_gets_a_fresh_time_that_never_goes_back_and_is_never_0() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    let (first, again, head) = (log.call(0, 5), log.call(5, 5), log.head(5));
    house.set_clock_s(0);
    assert_eq!(push(&witness, &first).await.status, 503, "the clock is not set");
    assert_eq!(monitored(&witness, ORIGIN).await, None);
    house.set_clock_s(NOON_S);
    assert_eq!(cosigned(&push(&witness, &first).await, &house, &head), NOON_S);
    for (clock, time) in [(NOON_S + 9, NOON_S + 9), (NOON_S - 3600, NOON_S + 9), (NOON_S + 10, NOON_S + 10)] {
        house.set_clock_s(clock);
        assert_eq!(cosigned(&push(&witness, &again).await, &house, &head), time);
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_watched_and_not_said_to_push_is_unknown_here() {
    let (log, house) = (stage::FakeLog::start(ORIGIN, 5).await, House::new());
    house.configure(&log, &[], "");
    let witness = house.start().await;
    let (head, _) = log.history(5, 0, 0);
    assert_eq!(push(&witness, &body(0, &[], &head.note().to_string())).await.status, 404);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_peoples_lines_on_a_head_are_read_over_and_only_the_witnesss_own_comes_back() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    let mut head = log.head(5);
    let text = log.checkpoint(5, 0).to_string();
    // Of the log's name and another id, of another witness, and fifteen as long as post-quantum lines get.
    let namesake = SigningKey::from_seed(log.key.name().clone(), KeyKind::Ed25519, [8; 32]);
    let other = SigningKey::from_seed(KeyName::new("other.example").unwrap(), KeyKind::CosignatureV1, [9; 32]);
    head +=
        &format!("{}\n", String::from_utf8(sign_note("x\n", &[&namesake]).unwrap()).unwrap().lines().last().unwrap());
    head += &format!("{}\n", cosign(&text, &other, 7).unwrap().line);
    for number in 0..15_u8 {
        let name = KeyName::new(&format!("pq-{number}.example")).unwrap();
        head += &format!("{}\n", NoteSignature { name, key_id: KeyId([number; 4]), blob: vec![number; 4990] }.line());
    }
    cosigned(&push(&witness, &body(0, &[], &head)).await, &house, &head);
    let (served, names) = monitored(&witness, ORIGIN).await.unwrap();
    assert_eq!((served, names), (text, vec![ORIGIN.to_owned(), "witness.example/w1".to_owned()]));
    // A bad line under the log's own key is not covered by a good one beside it.
    let bad = format!("{}{}\n", log.head(6), log.head(5).lines().last().unwrap());
    assert_eq!(push(&witness, &body(5, &proof(5, 6), &bad)).await.status, 403);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_forged_under_the_witnesss_own_name_is_neither_kept_nor_served() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let mut running = witness(&house, &[log.key.verifier()]).await;
    let text = log.checkpoint(5, 0).to_string();
    let stranger = SigningKey::from_seed(house.vkey.name().clone(), KeyKind::CosignatureV1, [9; 32]);
    let Cosignature { line, .. } = cosign(&text, &stranger, note::MAX_TIMESTAMP_S).unwrap();
    let mut under_its_id = parse_cosignature_line(&line).unwrap().signature().clone();
    under_its_id.key_id = house.vkey.id();
    let head = format!("{}{line}\n{}\n", log.head(5), under_its_id.line());
    for _ in 0..2 {
        let answer = push(&running, &body(0, &[], &head)).await;
        if answer.status == 200 {
            assert_eq!(cosigned(&answer, &house, &head), NOON_S);
        } else {
            assert_eq!(held(&answer), "5\n");
        }
        let (served, names) = monitored(&running, ORIGIN).await.unwrap();
        assert_eq!((served, names), (text.clone(), vec![ORIGIN.to_owned(), "witness.example/w1".to_owned()]));
        // Nor in what it left on the disk.
        running.kill().await;
        running = stage::reopened(&house).await;
    }
    assert_eq!(cosigned(&push(&running, &body(5, &[], &head)).await, &house, &head), NOON_S);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_held_after_a_kill() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let mut running = witness(&house, &[log.key.verifier()]).await;
    let mut old = 0;
    for size in [1, 2, 7] {
        cosigned(&push(&running, &log.call(old, size)).await, &house, &log.head(size));
        old = size;
        running.kill().await;
        running = stage::reopened(&house).await;
        assert_eq!(monitored(&running, ORIGIN).await.unwrap().0, log.checkpoint(size, 0).to_string());
        assert_eq!(held(&push(&running, &log.call(0, 9)).await), format!("{size}\n"));
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_with_extension_lines_is_cosigned_with_them() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    let extended = Checkpoint { extensions: vec!["one".into(), "two".into()], ..log.checkpoint(5, 0) };
    let head = sign_checkpoint(&extended, &log.key).unwrap().note().to_string();
    cosigned(&push(&witness, &body(0, &[], &head)).await, &house, &head);
    assert_eq!(monitored(&witness, ORIGIN).await.unwrap().0, extended.to_string());
    // They decide nothing: the same head without them is the same head.
    cosigned(&push(&witness, &log.call(5, 5)).await, &house, &log.head(5));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_on_one_connection_are_all_answered_on_it() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    let mut connection = Connection::open(&witness.url).await;
    let mut old = 0;
    for size in 1..20 {
        let call = log.call(old, size);
        let answer = match size % 2 {
            0 => connection.ask("POST", "/add-checkpoint", &call).await,
            _ => connection.post_in_chunks("/add-checkpoint", &call).await,
        };
        cosigned(&answer, &house, &log.head(size));
        // Refusals do not end it either.
        assert_eq!(held(&connection.ask("POST", "/add-checkpoint", &log.call(0, size)).await), format!("{size}\n"));
        assert_eq!(connection.ask("POST", "/add-checkpoint", b"old\n").await.status, 400);
        old = size;
    }
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_post_is_answered_and_no_body_without_end() {
    let (house, log) = (House::new(), Pusher::new(ORIGIN));
    let witness = witness(&house, &[log.key.verifier()]).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let answer = ask(&witness.url, method, "/add-checkpoint", if method == "PUT" { b"old 0\n" } else { b"" }).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    assert_eq!(push(&witness, &vec![b'x'; 4 << 20]).await.status, 413);
    cosigned(&push(&witness, &log.call(0, 5)).await, &house, &log.head(5));
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_of_one_log_do_not_touch_another() {
    let (house, logs) = (House::new(), ["a.example", "b.example"].map(Pusher::new));
    let witness = witness(&house, &logs.each_ref().map(|log| log.key.verifier())).await;
    cosigned(&push(&witness, &logs[0].call(0, 5)).await, &house, &logs[0].head(5));
    assert_eq!(monitored(&witness, "b.example").await, None);
    cosigned(&push(&witness, &logs[1].call(0, 3)).await, &house, &logs[1].head(3));
    assert_eq!(held(&push(&witness, &logs[0].call(0, 5)).await), "5\n");
    assert_eq!(held(&push(&witness, &logs[1].call(0, 5)).await), "3\n");
    // One log's key signs nothing for another.
    let crossed = sign_note(&logs[1].checkpoint(4, 0).to_string(), &[&logs[0].key]).unwrap();
    assert_eq!(push(&witness, &body(3, &proof(3, 4), std::str::from_utf8(&crossed).unwrap())).await.status, 403);
    assert_eq!(monitored(&witness, "c.example").await, None);
    witness.stop().await;
}

fn hex_32(text: &str) -> [u8; 32] {
    std::array::from_fn(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).unwrap())
}
