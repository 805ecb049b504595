//! The edges of the note, key and checkpoint formats.

use merkle::{Hash, RootHash, TreeSize};
use note::{
    Checkpoint, CheckpointError, CosignatureError, KeyError, KeyKind, KeyName, MAX_NOTE_LEN, MAX_SIGNATURES,
    MAX_TIMESTAMP_S, NoteError, Origin, SignatureError, SignedCheckpoint, SignedNote, SigningKey, TextError,
    VerifierKey, cosign, parse_cosignature_line, sign_checkpoint, sign_note, verified_cosignatures,
};
use proptest::prelude::*;

#[test]
fn the_last_blank_line_ends_the_text() {
    let key = log_key();
    let text = "Ognuno sta solo\n\ned è subito sera.\n\n\n";
    let note = sign_note(text, &[&key]).unwrap();
    let note = SignedNote::parse(&note).unwrap();
    assert_eq!(note.text(), text);
    assert_eq!(note.verify(&key.verifier()), Ok(()));
    let blank = sign_note("\n", &[&key]).unwrap();
    assert_eq!(SignedNote::parse(&blank).unwrap().text(), "\n");
}

#[test]
fn malformed_notes_are_refused_with_their_reason() {
    let line = signature_line();
    for (note, error) in [
        (String::new(), NoteError::Unsigned),
        ("text\n".to_owned(), NoteError::Unsigned),
        ("text\n\n".to_owned(), NoteError::Unsigned),
        (format!("text\n{line}\n"), NoteError::Unsigned),
        (format!("text\n\n{line}"), NoteError::Unsigned),
        (format!("text\n\n{line}\n\n"), NoteError::Unsigned),
        (format!("text\r\n\n{line}\n"), NoteError::Control(4)),
        (format!("te\0xt\n\n{line}\n"), NoteError::Control(2)),
        (format!("te\txt\n\n{line}\n"), NoteError::Control(2)),
        (format!("text\n\n{line}\nmore\n"), NoteError::BadLine(2)),
        (format!("text\n\n{line} \n"), NoteError::BadLine(1)),
        (format!("text\n\n {line}\n"), NoteError::BadLine(1)),
        (format!("text\n\n{}\n", line.replace('—', "-")), NoteError::BadLine(1)),
        (format!("text\n\n{}\n", line.replace("log.example", "log+example")), NoteError::BadLine(1)),
        (format!("text\n\n{}\n", line.replace("log.example", "log\u{a0}example")), NoteError::BadLine(1)),
        (format!("text\n\n{}\n", line.replace("log.example/agents ", "")), NoteError::BadLine(1)),
        ("text\n\n— name AAAAAA==\n".to_owned(), NoteError::BadLine(1)),
        ("text\n\n— name AAAA\n".to_owned(), NoteError::BadLine(1)),
        ("text\n\n— name AAAAAAA\n".to_owned(), NoteError::BadLine(1)),
        (format!("text\n\n{}", format!("{line}\n").repeat(MAX_SIGNATURES + 1)), NoteError::TooManySignatures),
        ("x".repeat(MAX_NOTE_LEN + 1), NoteError::TooLong),
    ] {
        assert_eq!(SignedNote::parse(note.as_bytes()), Err(error), "{:?}", note.chars().take(200).collect::<String>());
    }
    assert_eq!(SignedNote::parse(b"te\xffxt\n\n"), Err(NoteError::NotUtf8));
    assert!(SignedNote::parse(format!("text\n\n{}", format!("{line}\n").repeat(MAX_SIGNATURES)).as_bytes()).is_ok());
}

#[test]
fn a_control_character_is_told_with_its_place_wherever_it_stands() {
    let (text, line) = ("x".repeat(200), signature_line());
    for place in 0..text.len() - 1 {
        let mut note = format!("{text}\n\n{line}\n").into_bytes();
        note[place] = 0x1f;
        // The first one counts.
        note[text.len() - 1] = 0;
        assert_eq!(SignedNote::parse(&note), Err(NoteError::Control(place)));
    }
    for allowed in [b'\n', b' ', 0x7f] {
        let mut note = format!("{text}\n\n{line}\n").into_bytes();
        note[64] = allowed;
        assert!(SignedNote::parse(&note).is_ok());
    }
}

#[test]
fn signatures_of_unknown_keys_are_ignored_even_if_name_or_id_is_known() {
    let (mine, same_name, other) = (log_key(), named("log.example/agents", 9), named("other.example", 1));
    let text = "text\n";
    let note = sign_note(text, &[&mine, &same_name, &other]).unwrap();
    let spoilt = String::from_utf8(note).unwrap().replace("text", "texts");
    // Under all three names the signatures are now bad; each key sees its own line only.
    let spoilt = SignedNote::parse(spoilt.as_bytes()).unwrap();
    assert_eq!(spoilt.verify(&mine.verifier()), Err(SignatureError::Bad));
    assert_eq!(spoilt.verify(&named("log.example/agents", 8).verifier()), Err(SignatureError::Missing));
    let id_of_mine_under_another_name =
        format!("text\n\n{}\n", signature_line().replace("log.example/agents", "log.example/agent"));
    assert_eq!(
        SignedNote::parse(id_of_mine_under_another_name.as_bytes()).unwrap().verify(&mine.verifier()),
        Err(SignatureError::Missing)
    );
}

#[test]
fn one_bad_line_under_a_known_key_refuses_the_note_whatever_else_it_carries() {
    let key = log_key();
    let good = signature_line();
    let forged = sign_note("other\n", &[&key]).unwrap();
    let forged = String::from_utf8(forged).unwrap().lines().last().unwrap().to_owned();
    let note = SignedNote::parse(format!("text\n\n{good}\n{forged}\n").as_bytes()).unwrap();
    assert_eq!(note.verify(&key.verifier()), Err(SignatureError::Bad));
    let short = note.signatures()[0].line().replace(&good[good.len() - 24..], "AAAA");
    let note = SignedNote::parse(format!("text\n\n{short}\n").as_bytes()).unwrap();
    assert_eq!(note.verify(&key.verifier()), Err(SignatureError::Bad));
}

#[test]
fn only_texts_that_a_reader_would_accept_are_signed() {
    let key = log_key();
    assert_eq!(sign_note("no newline", &[&key]), Err(NoteError::TextUnfinished));
    assert_eq!(sign_note("", &[&key]), Err(NoteError::TextUnfinished));
    assert_eq!(sign_note("tab\t\n", &[&key]), Err(NoteError::Control(3)));
    assert_eq!(sign_note("text\n", &[]), Err(NoteError::Unsigned));
    assert_eq!(sign_note("text\n", &[&witness_key()]), Err(NoteError::WrongKeyKind));
    assert_eq!(sign_note("text\n", &vec![&key; MAX_SIGNATURES + 1]), Err(NoteError::TooManySignatures));
    assert_eq!(sign_note(&("x".repeat(MAX_NOTE_LEN) + "\n"), &[&key]), Err(NoteError::TooLong));
}

#[test]
fn altered_keys_are_refused_with_their_reason() {
    let vkey = log_key().verifier().to_string();
    let (name, rest) = vkey.split_once('+').unwrap();
    let (id, material) = rest.split_once('+').unwrap();
    for (text, error) in [
        (String::new(), KeyError::Shape),
        (format!("{name}+{id}"), KeyError::Shape),
        (format!("+{id}+{material}"), KeyError::Name(note::NameError::Empty)),
        (format!("{name}x+{id}+{material}"), KeyError::IdMismatch),
        (format!("{name}+{}+{material}", id.to_uppercase()), KeyError::Id),
        (format!("{name}+{}+{material}", &id[1..]), KeyError::Id),
        (format!("{name}+0{id}+{material}"), KeyError::Id),
        (format!("{name}+{id}+{material}\n"), KeyError::Base64),
        (format!("{name}+{id}+ {material}"), KeyError::Base64),
        (format!("{name}+{id}+{material}="), KeyError::Base64),
        (format!("{name}+{id}+"), KeyError::Length),
        (format!("{name}+{id}+AQ=="), KeyError::Length),
        (format!("{name}+{id}+{material}AAAA"), KeyError::Length),
        (format!("{name}+{id}+AAAA"), KeyError::UnknownKind(0)),
        (format!("{name}+{id}+Bgo="), KeyError::Length),
        (format!("{name}+{id}+Awo="), KeyError::UnknownKind(3)),
    ] {
        assert_eq!(text.parse::<VerifierKey>(), Err(error), "{text}");
    }
    let as_witness =
        VerifierKey::new(KeyName::new(name).unwrap(), KeyKind::CosignatureV1, log_key().verifier().public_key_bytes())
            .unwrap();
    assert_ne!(as_witness.id(), log_key().id(), "ids differ by the type byte");
}

#[test]
fn private_keys_show_no_secret_and_refuse_what_is_not_theirs() {
    let key = log_key();
    let text = key.to_private_text();
    let seed = text.rsplit_once('+').unwrap().1;
    assert!(!format!("{key:?}").contains(seed));
    assert_eq!(SigningKey::from_private_text(&text).unwrap().verifier(), key.verifier());
    let public = key.verifier().to_string();
    assert_eq!(SigningKey::from_private_text(&public).unwrap_err(), KeyError::Shape);
    let of_another = text.replace("log.example", "log.exemple");
    let error = SigningKey::from_private_text(&of_another).unwrap_err();
    assert_eq!(error, KeyError::IdMismatch);
    assert!(!format!("{error} {error:?}").contains(seed));
    assert_eq!(format!("{}\n", *text).parse::<VerifierKey>(), Err(KeyError::PrivateKey), "a private key is no vkey");
}

#[test]
fn malformed_checkpoint_texts_are_refused_with_their_reason() {
    let root = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    for (text, error) in [
        (String::new(), TextError::TooShort),
        ("\n".to_owned(), TextError::EmptyLine),
        ("log.example\n0\n".to_owned(), TextError::TooShort),
        (format!("log.example\n0\n{root}"), TextError::TooShort),
        (format!("\n0\n{root}\n"), TextError::EmptyLine),
        (format!("log.example\n\n{root}\n"), TextError::Size),
        (format!("log.example\n00\n{root}\n"), TextError::Size),
        (format!("log.example\n+1\n{root}\n"), TextError::Size),
        (format!("log.example\n-1\n{root}\n"), TextError::Size),
        (format!("log.example\n 1\n{root}\n"), TextError::Size),
        (format!("log.example\n1_000\n{root}\n"), TextError::Size),
        (format!("log.example\n18446744073709551616\n{root}\n"), TextError::Size),
        (format!("log.example\n١\n{root}\n"), TextError::Size),
        (format!("log.example\n1\n{}\n", root.replace("uFU=", "uFV=")), TextError::Root),
        (format!("log.example\n1\n{}\n", root.trim_end_matches('=')), TextError::Root),
        ("log.example\n1\nAAAA\n".to_owned(), TextError::Root),
        (format!("log.example\n1\n{root}\n\n"), TextError::EmptyLine),
        (format!("log.example\n1\n{root}\nmore\n\nyet more\n"), TextError::EmptyLine),
    ] {
        assert_eq!(Checkpoint::parse(&text), Err(error), "{text:?}");
    }
    let whole = format!("any origin + with spaces\n18446744073709551615\n{root}\nextension\nanother\n");
    let checkpoint = Checkpoint::parse(&whole).unwrap();
    assert_eq!((checkpoint.size, checkpoint.extensions.len()), (TreeSize(u64::MAX), 2));
    assert_eq!(checkpoint.to_string(), whole);
}

#[test]
fn a_checkpoint_under_another_origin_is_not_the_logs_although_its_key_signed_it() {
    let key = log_key();
    let text = head(7).to_string().replace("log.example/agents", "log.example/others");
    let note = sign_note(&text, &[&key]).unwrap();
    let refused = SignedCheckpoint::parse(&note).unwrap().verify(&key.verifier());
    assert!(matches!(refused, Err(CheckpointError::WrongOrigin { .. })));
}

#[test]
fn heads_that_no_reader_would_accept_are_not_signed() {
    let key = log_key();
    let mut smuggled = head(1);
    smuggled.extensions.push("one\ntwo".to_owned());
    assert_eq!(sign_checkpoint(&smuggled, &key), Err(CheckpointError::Text(TextError::Control)));
    smuggled.extensions = vec![String::new()];
    assert_eq!(sign_checkpoint(&smuggled, &key), Err(CheckpointError::Text(TextError::EmptyLine)));
    assert_eq!(sign_checkpoint(&head(1), &witness_key()), Err(CheckpointError::WrongKeyKind));
    assert!(matches!(sign_checkpoint(&head(1), &named("other.example", 1)), Err(CheckpointError::WrongOrigin { .. })));
}

#[test]
fn cosignatures_hold_for_one_text_one_time_and_one_witness() {
    let witness = witness_key();
    let text = head(7).to_string();
    let cosignature = cosign(&text, &witness, 1_700_000_000).unwrap();
    let line = cosignature.to_line().unwrap();
    assert_eq!(line.verify(&text, &witness.verifier()), Ok(cosignature.clone()));
    assert_eq!(line.verify(&head(8).to_string(), &witness.verifier()), Err(CosignatureError::BadSignature));
    assert_eq!(line.verify(&text, &log_key().verifier()), Err(CosignatureError::WrongKeyKind));
    let namesake = SigningKey::from_seed(witness.name().clone(), KeyKind::CosignatureV1, [77; 32]).verifier();
    assert_eq!(line.verify(&text, &namesake), Err(CosignatureError::OtherKey));
    let mut later = line.signature().clone();
    later.blob[7] += 1;
    let later = parse_cosignature_line(&later.line()).unwrap();
    assert_eq!(later.timestamp_s(), 1_700_000_001);
    assert_eq!(later.verify(&text, &witness.verifier()), Err(CosignatureError::BadSignature));
}

#[test]
fn timestamps_are_neither_zero_nor_beyond_the_spec() {
    let witness = witness_key();
    let text = head(7).to_string();
    assert_eq!(cosign(&text, &witness, 0), Err(CosignatureError::ZeroTimestamp));
    assert_eq!(cosign(&text, &witness, MAX_TIMESTAMP_S + 1), Err(CosignatureError::TimestampTooLarge));
    assert_eq!(cosign(&text, &log_key(), 1), Err(CosignatureError::WrongKeyKind));
    let line = cosign(&text, &witness, MAX_TIMESTAMP_S).unwrap().to_line().unwrap();
    assert!(line.verify(&text, &witness.verifier()).is_ok());
    for (timestamp, error) in [(0_u64, CosignatureError::ZeroTimestamp), (1 << 63, CosignatureError::TimestampTooLarge)]
    {
        let mut forged = line.signature().clone();
        forged.blob[..8].copy_from_slice(&timestamp.to_be_bytes());
        assert_eq!(parse_cosignature_line(&forged.line()), Err(error));
    }
}

#[test]
fn a_bad_line_under_a_known_witness_key_is_reported_and_the_good_one_beside_it_counts() {
    let (log, witness) = (log_key(), witness_key());
    let signed = sign_checkpoint(&head(7), &log).unwrap();
    let of_another_head = cosign(&head(8).to_string(), &witness, 5).unwrap();
    let good = cosign(signed.note().text(), &witness, 6).unwrap();
    let stranger = cosign(
        signed.note().text(),
        &SigningKey::from_seed(KeyName::new("stranger").unwrap(), KeyKind::CosignatureV1, [1; 32]),
        6,
    )
    .unwrap();
    let note = format!("{}{}\n{}\n{}\n", signed.note(), of_another_head.line, stranger.line, good.line);
    let found =
        verified_cosignatures(&SignedNote::parse(note.as_bytes()).unwrap(), &[log.verifier(), witness.verifier()]);
    assert_eq!(found.len(), 3);
    assert_eq!(
        found[0].clone().unwrap_err().reason,
        CosignatureError::Malformed,
        "the log's plain line is no cosignature"
    );
    assert_eq!(
        found[1].clone().unwrap_err(),
        note::BadCosignature { witness: 1, reason: CosignatureError::BadSignature }
    );
    assert_eq!(found[2], Ok((1, good)));
}

#[test]
fn cosignatures_are_added_without_piling_up_and_stripped_again() {
    let (log, witness) = (log_key(), witness_key());
    let signed = sign_checkpoint(&head(7), &log).unwrap();
    let at = |timestamp| cosign(signed.note().text(), &witness, timestamp).unwrap().to_line().unwrap();
    let once = signed.with_cosignatures(&[at(5)]);
    assert_eq!(once.note().signatures().len(), 2);
    assert_eq!(once.with_cosignatures(&[at(5)]), once);
    let again = once.with_cosignatures(&[at(9), at(7)]);
    assert_eq!(again.note().signatures().len(), 2);
    assert_eq!(again.note().signatures()[1].line(), at(9).line());
    assert_eq!(again.note().text(), signed.note().text());
    assert_eq!(again.log_signed_only(), signed);
    // A forged line that claims the latest time of all does not keep the good one out.
    let mut forged = at(8).signature().clone();
    forged.blob[0] = 0x7f;
    let poisoned = format!("{}{}\n", signed.note(), forged.line());
    let poisoned = SignedCheckpoint::parse(poisoned.as_bytes()).unwrap().verify(&log.verifier()).unwrap();
    assert_eq!(poisoned.with_cosignatures(&[at(8)]), signed.with_cosignatures(&[at(8)]));
    let crowd: Vec<_> = (0..=255)
        .map(|seed| {
            cosign(
                signed.note().text(),
                &SigningKey::from_seed(KeyName::new(&format!("w{seed}")).unwrap(), KeyKind::CosignatureV1, [seed; 32]),
                1,
            )
            .unwrap()
            .to_line()
            .unwrap()
        })
        .collect();
    assert_eq!(signed.with_cosignatures(&crowd).note().signatures().len(), MAX_SIGNATURES);
}

proptest! {
    #[test]
    fn whatever_is_signed_reads_back_and_verifies(text in "[^\\x00-\\x1f]{0,40}(\n[^\\x00-\\x1f]{0,20}){0,6}", seed: [u8; 32]) {
        let text = format!("{text}\n");
        let key = SigningKey::from_seed(KeyName::new("any.example").unwrap(), KeyKind::Ed25519, seed);
        let bytes = sign_note(&text, &[&key]).unwrap();
        let note = SignedNote::parse(&bytes).unwrap();
        prop_assert_eq!(note.text(), &text);
        prop_assert_eq!(note.bytes(), &bytes);
        prop_assert_eq!(note.verify(&key.verifier()), Ok(()));
    }

    #[test]
    fn keys_print_and_read_back(name in "[^\\x00-\\x20+\\s]{1,60}", seed: [u8; 32], witness: bool) {
        let kind = if witness { KeyKind::CosignatureV1 } else { KeyKind::Ed25519 };
        let key = SigningKey::from_seed(KeyName::new(&name).unwrap(), kind, seed);
        prop_assert_eq!(key.verifier().to_string().parse::<VerifierKey>(), Ok(key.verifier()));
        let again = SigningKey::from_private_text(&key.to_private_text()).unwrap();
        prop_assert_eq!(again.to_private_text(), key.to_private_text());
    }

    #[test]
    fn checkpoints_print_and_read_back(origin in "[^\\x00-\\x1f]{1,60}", size: u64, root: [u8; 32], extensions in proptest::collection::vec("[^\\x00-\\x1f]{1,30}", 0..4)) {
        let checkpoint = Checkpoint { origin: Origin::new(&origin).unwrap(), size: TreeSize(size), root: RootHash(Hash(root)), extensions };
        prop_assert_eq!(Checkpoint::parse(&checkpoint.to_string()), Ok(checkpoint));
    }

    #[test]
    fn no_changed_byte_of_a_signed_head_passes_as_the_logs(place: prop::sample::Index, change in 1..=255_u8) {
        let key = log_key();
        let signed = sign_checkpoint(&head(7), &key).unwrap();
        let mut bytes = signed.bytes().to_vec();
        bytes[place.index(signed.bytes().len())] ^= change;
        if let Ok(verified) = SignedCheckpoint::parse(&bytes).and_then(|parsed| parsed.verify(&key.verifier())) {
            panic!("accepted {verified:?}");
        }
    }

    #[test]
    fn notes_accept_only_what_they_print(bytes in "([a-z\n]{0,10}\n)?\n?(— ?[a-z+]{0,5} ?[A-Za-z0-9+/=]{0,12}\n){0,3}") {
        if let Ok(note) = SignedNote::parse(bytes.as_bytes()) {
            let lines: String = note.signatures().iter().map(|signature| signature.line() + "\n").collect();
            prop_assert_eq!(format!("{}\n{lines}", note.text()), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = SignedNote::parse(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = text.parse::<VerifierKey>();
        let _ = Checkpoint::parse(&text);
        let _ = parse_cosignature_line(&text);
    }
}

fn named(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32])
}

fn log_key() -> SigningKey {
    named("log.example/agents", 1)
}

fn witness_key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("witness.example").unwrap(), KeyKind::CosignatureV1, [2; 32])
}

fn signature_line() -> String {
    String::from_utf8(sign_note("text\n", &[&log_key()]).unwrap()).unwrap().lines().last().unwrap().to_owned()
}

fn head(size: u64) -> Checkpoint {
    Checkpoint::new(Origin::new("log.example/agents").unwrap(), TreeSize(size), RootHash(Hash([3; 32])))
}
