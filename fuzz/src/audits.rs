//! audit: the files that an auditor brings, other systems' records, and the whole judge over a hostile bundle.

use crate::bytes::Bytes;
use crate::world::{START_MS, World};
use audit::{
    EvidenceError, FORMATS, MemoryBundle, ReadError, Rules, Terms, check_evidence, import_lines, parse_issuers,
};
use receipt::{UnixMillis, ijson};

/// Evidence of any kind is checked without a panic, and its sentences are safe to print.
pub fn evidence(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match check_evidence(text, &[]) {
        Ok(proven) => [proven.sentence, proven.not_shown].iter().for_each(|sentence| assert_printable(sentence)),
        Err(error) => assert_printable(&error.to_string()),
    }
}

/// A rule file is refused or used, without a panic.
pub fn rules(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(rules) = Rules::parse(text) else { return };
    assert!(!rules.sequences.is_empty());
    let _ = rules.subjects_of("contact_77");
}

/// An issuers file is refused or used, without a panic; no issuer twice.
pub fn issuers(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(issuers) = parse_issuers(text) else { return };
    for issuer in &issuers {
        assert_eq!(issuers.iter().filter(|other| other.vkey.name() == issuer.vkey.name()).count(), 1);
        assert!(issuer.from.zip(issuer.until).is_none_or(|(from, until)| from < until));
    }
}

/// What is imported can be signed, and the judge takes it.
pub fn foreign(data: &[u8]) {
    let Some((format, text)) = data.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    let Ok(records) = import_lines(format, text) else { return };
    for record in records {
        let body = ijson::parse_object(&record.body_json).unwrap();
        assert_eq!(body["type"], "foreign");
        assert!(!record.body_json.contains('\n'));
        let mut gate = World::new().gates.remove(0);
        let key = gate.key();
        assert!(gate.chain.append(record.body_json, UnixMillis(START_MS), &key).is_ok());
    }
}

/// Most bodies, entries and edits of one bundle: what comes after them would only be more of the same.
const MAX_STEPS: usize = 12;

/// A world in which somebody with all the keys logs what the input says, and a bundle of it that somebody without
/// any key then edits: judged without a panic, the same on any number of threads, in sentences that are safe to
/// print.
pub fn judge(data: &[u8]) {
    let mut data = Bytes(data);
    let mut world = World::new();
    log_what_it_says(&mut world, &mut data);
    let mut bundle = world.bundle();
    edit_as_it_says(&mut bundle, &mut data);
    let (policy, issuers, rules) = (world.policy(), world.issuers(), Rules::built_in());
    let (at, max_age_ms) =
        [(None, None), (Some(UnixMillis(u64::MAX)), Some(0)), (Some(UnixMillis(START_MS)), Some(60_000))]
            [usize::from(data.byte()) % 3];
    let audit = |threads| {
        let terms = Terms {
            policy: &policy,
            issuers: &issuers,
            rules: &rules,
            at,
            max_age_ms,
            outcome_deadline_ms: max_age_ms,
            threads,
            progress: &|_, _| {},
        };
        audit::audit(&bundle, &terms)
    };
    let verdict = match audit(1) {
        Ok(verdict) => verdict,
        Err(ReadError::TooLarge { .. }) => return,
        Err(other) => panic!("a bundle in memory cannot be read: {other}"),
    };
    assert_eq!(audit(3).as_ref(), Ok(&verdict));
    for check in &verdict.checks {
        assert_printable(&check.id());
        assert_printable(&check.covers);
        for finding in &check.findings {
            [&finding.shown, &finding.not_shown, &finding.next]
                .into_iter()
                .for_each(|sentence| assert_printable(sentence));
        }
    }
    let lanes = &verdict.completeness;
    for issuer in &lanes.issuers {
        assert_printable(&issuer.issuer);
        issuer
            .unhonoured
            .iter()
            .chain(issuer.beyond.iter().map(|beyond| &beyond.shown_by))
            .for_each(|path| assert_printable(path));
    }
    for witness in &lanes.witnesses {
        witness.outcomes.keys().chain([&witness.witness]).for_each(|name| assert_printable(name));
    }
    verdict.coverage.ignored.iter().for_each(|path| assert_printable(path));
    for evidence in &verdict.evidence {
        // Across a rotation it asks for the key before, which another rotation may have brought.
        let checked = check_evidence(&evidence.to_string(), &[]);
        assert!(
            matches!(checked, Ok(_) | Err(EvidenceError::NeedsKey { .. })),
            "evidence that does not check: {evidence}"
        );
    }
}

fn log_what_it_says(world: &mut World, data: &mut Bytes<'_>) {
    for _ in 0..MAX_STEPS {
        match data.byte() % 8 {
            0 => break,
            1 | 2 => {
                let length = data.short();
                let body = String::from_utf8_lossy(data.chunk(length)).into_owned();
                let key = world.gates[0].key();
                let logged = world.gates[0].chain.append(body, UnixMillis(world.now_ms), &key);
                logged.iter().for_each(|receipt| world.log.push(receipt.bytes().to_vec()));
            }
            3 => {
                let length = data.short();
                world.log.push(data.chunk(length).to_vec());
            }
            4 => {
                let format = FORMATS[usize::from(data.byte()) % FORMATS.len()];
                let length = data.short();
                let text = String::from_utf8_lossy(data.chunk(length)).into_owned();
                if import_lines(format, &text).is_ok() {
                    world.import(format, &text);
                }
            }
            5 => world.log_heartbeats(usize::from(data.byte() % 8)),
            6 => drop(world.seal_for(&[0, 1, 2][..usize::from(data.byte()) % 4])),
            _ => world.now_ms = world.now_ms.wrapping_add(data.number()),
        }
        // Times that the world's own clock can still add to.
        world.now_ms %= 1 << 60;
    }
    world.seal();
    if !data.byte().is_multiple_of(2) {
        drop(world.seal_for(&[0]));
    }
}

/// Takes files away, cuts, changes and swaps them, and makes new ones, as the input says.
pub(crate) fn edit_as_it_says(bundle: &mut MemoryBundle, data: &mut Bytes<'_>) {
    for _ in 0..MAX_STEPS {
        let paths = audit::BundleSource::list(bundle);
        let step = data.byte() % 8;
        let Some(path) = paths.get(usize::from(data.byte()) % paths.len().max(1)) else { return };
        let mut bytes = bundle.get(path).unwrap_or_default().to_vec();
        let place = data.short() % (bytes.len() + 1);
        match step {
            0 => return,
            1 => drop(bundle.remove(path)),
            2 => {
                bytes.truncate(place);
                bundle.insert(path, bytes);
            }
            3 => {
                bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << (step % 8));
                bundle.insert(path, bytes);
            }
            4 => {
                let length = data.short();
                bytes.splice(place..place, data.chunk(length).iter().copied());
                bundle.insert(path, bytes);
            }
            5 => {
                let length = data.short();
                bundle.insert(path, data.chunk(length));
            }
            6 => {
                let other = paths[usize::from(data.byte()) % paths.len()].clone();
                bundle.insert(other, bytes);
            }
            _ => {
                let length = usize::from(data.byte());
                let new = String::from_utf8_lossy(data.chunk(length)).into_owned();
                bundle.insert(new, bytes);
            }
        }
    }
}

pub(crate) fn assert_printable(sentence: &str) {
    let bad = |character: char| {
        character != '\n' && character.is_control()
            || matches!(character, '\u{590}'..='\u{8ff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!sentence.contains(bad), "not safe to print: {sentence:?}");
}
