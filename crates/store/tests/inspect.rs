//! A store that nobody has open, checked as it lies there: one flipped bit anywhere is found and placed, what is derived
//! is mended, and nothing is changed by looking.

use crate::stage;
use counterfoil_store::{LogStore, Remedy, Sealed, StoreError, StoreReport, inspect, rebuild_indexes};
use merkle::{LeafIndex, ResourcePath};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, sign_checkpoint};
use receipt::{Admitted, Chain, IssuerState, ReceiptText, UnixMillis, admit, place, presume_signature};
use std::fs;
use std::path::{Path, PathBuf};

fn key(name: &str, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32])
}

fn log_key() -> SigningKey {
    key("log.example", 5)
}

struct Gate {
    key: SigningKey,
    chain: Chain,
    state: IssuerState,
}

impl Gate {
    fn new(name: &str, seed: u8) -> Gate {
        let key = key(name, seed);
        let state = IssuerState::registered(key.verifier());
        Gate { chain: Chain::new(state.name().clone()), state, key }
    }

    fn next(&mut self) -> Admitted {
        let at = UnixMillis(1_790_000_000_000 + self.chain.next_seq().0);
        let receipt = match self.chain.next_seq().0 {
            0 => self.chain.open(at, &self.key).unwrap(),
            seq => self.chain.append(format!("{{\"type\":\"note\",\"n\":{seq}}}"), at, &self.key).unwrap(),
        };
        let admitted = admit(Some(&self.state), receipt.bytes(), &|_| None, None).unwrap();
        self.state = admitted.state.clone();
        admitted
    }
}

fn commit(store: &mut LogStore, admitted: &[Admitted]) {
    let key = log_key();
    let sign = |size, root| sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), size, root), &key);
    store.commit(admitted, |size, root| sign(size, root).map(Sealed::new)).unwrap();
}

/// A closed store of 600 receipts by two gates, which rotate their keys and take turns.
fn closed(dir: &Path) -> PathBuf {
    let path = dir.join("store");
    LogStore::create(&path).unwrap();
    let (mut store, _) = LogStore::open(&path, &log_key().verifier(), &mut |_, _| {}).unwrap();
    let mut gates = [Gate::new("gate.example/a", 1), Gate::new("gate.example/b", 2)];
    let mut made = 0;
    for batch in [1, 255, 1, 200, 143] {
        let admitted: Vec<Admitted> = (made..made + batch)
            .map(|number| {
                let gate = &mut gates[usize::from(number % 3 == 0)];
                if number != 300 {
                    return gate.next();
                }
                let next = key("gate.example/b", 9);
                let at = UnixMillis(1_790_000_000_000 + gate.chain.next_seq().0);
                let receipt = gate.chain.rotate(at, &gate.key, &next).unwrap();
                gate.key = next;
                let admitted = admit(Some(&gate.state), receipt.bytes(), &|_| None, None).unwrap();
                gate.state = admitted.state.clone();
                admitted
            })
            .collect();
        commit(&mut store, &admitted);
        made += batch;
    }
    store.append_evidence("{\"n\":0}").unwrap();
    store.catch_up().unwrap();
    path
}

fn look(path: &Path) -> StoreReport {
    inspect(path, &log_key().verifier(), true, &mut |_, _| {}).unwrap()
}

/// What was found: file, what, position.
fn places(path: &Path, report: &StoreReport) -> Vec<(String, &'static str, u64)> {
    let name = |file: &Path| file.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
    report.findings.first().iter().map(|found| (name(&found.path), found.what, found.position)).collect()
}

fn flip(path: &Path, byte: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[byte] ^= 1 << (byte % 8);
    fs::write(path, bytes).unwrap();
}

/// Where entry `index` begins in `entries`, its length prefix in front.
fn offset_of(path: &Path, index: usize) -> usize {
    let bytes = fs::read(path.join("entries")).unwrap();
    (0..index).fold(0, |at, _| at + 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]])))
}

#[test]
fn a_sound_store_is_all_right_and_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let before = stage::snapshot(&path);
    for signatures in [true, false] {
        let mut heard = Vec::new();
        let report = inspect(&path, &log_key().verifier(), signatures, &mut |done, of| heard.push((done, of))).unwrap();
        assert_eq!(places(&path, &report), []);
        assert_eq!((report.looked_at.entries, report.looked_at.heads, report.issuers), (600, 5, 2));
        assert_eq!((heard.last(), report.unjudged), (Some(&(600, 600)), 0));
        assert!(heard.is_sorted());
    }
    assert_eq!(stage::snapshot(&path), before);
}

#[test]
fn nothing_is_looked_at_while_another_has_it_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let _open = LogStore::open(&path, &log_key().verifier(), &mut |_, _| {}).unwrap();
    let refused = inspect(&path, &log_key().verifier(), true, &mut |_, _| {});
    assert!(matches!(refused, Err(StoreError::InUse(_))), "{refused:?}");
}

#[test]
fn one_flipped_bit_in_the_log_itself_is_placed_and_nothing_derives_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let work = dir.path().join("work");
    let files = stage::snapshot(&path);
    // The whole pages have a hash above them, the last one only the last head.
    for index in [0, 7, 255, 256, 400, 511, 512, 599] {
        for within in [2, 60, 200] {
            stage::lay(&work, &files);
            flip(&work.join("entries"), offset_of(&work, index) + within);
            let report = look(&work);
            assert_eq!(places(&work, &report), [("entries".to_owned(), "entry", index as u64)], "byte {within}");
            assert_eq!(report.findings.to_restore(), 1);
            let quick = inspect(&work, &log_key().verifier(), false, &mut |_, _| {}).unwrap();
            assert_eq!(places(&work, &quick), places(&work, &report), "without signatures");
            let start = LogStore::open(&work, &log_key().verifier(), &mut |_, _| {});
            // A start derives the hashes that no sync has reached yet, which here are all.
            assert!(start.is_err(), "{index}");
        }
    }
    // A length: where it says more than there is, its page cannot be taken apart.
    for index in [3, 300, 599] {
        stage::lay(&work, &files);
        let at = offset_of(&work, index);
        flip(&work.join("entries"), at);
        let found = places(&work, &look(&work));
        assert_eq!(found[0].0, "entries");
        assert!(found[0].2 >= index as u64 && found[0].2 / 256 == index as u64 / 256, "{index}: {found:?}");
    }
    for byte in (0..files.iter().find(|(name, _)| name == Path::new("heads")).unwrap().1.len()).step_by(11) {
        stage::lay(&work, &files);
        flip(&work.join("heads"), byte);
        let report = look(&work);
        assert!(report.findings.to_restore() > 0, "byte {byte}");
        assert!(places(&work, &report).iter().all(|(file, ..)| file == "heads"), "byte {byte}");
    }
}

#[test]
fn one_flipped_bit_in_what_is_derived_is_placed_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let work = dir.path().join("work");
    let files = stage::snapshot(&path);
    let arrays: Vec<String> = files
        .iter()
        .filter(|(name, _)| name.starts_with("issuers"))
        .map(|(name, _)| name.to_str().unwrap().to_owned())
        .collect();
    assert_eq!(arrays.len(), 2);
    let mut cases: Vec<(String, usize, &str, Option<u64>)> = vec![
        ("hashes/0".to_owned(), 7 * 32, "hash", Some(7)),
        ("hashes/0".to_owned(), 511 * 32 + 31, "hash", Some(511)),
        ("hashes/0".to_owned(), 590 * 32, "hash", Some(590)),
        ("hashes/1".to_owned(), 5, "hash", Some(0)),
        ("hashes/1".to_owned(), 40, "hash", Some(1)),
        ("entries.offsets".to_owned(), 16 + 3, "page", Some(1)),
        ("heads.offsets".to_owned(), 12, "page", Some(0)),
    ];
    for array in arrays {
        cases.push((array.clone(), 7, "place", Some(0)));
        cases.push((array, 8 * 100 + 6, "place", Some(100)));
    }
    for (file, byte, what, position) in cases {
        stage::lay(&work, &files);
        flip(&work.join(&file), byte);
        let report = look(&work);
        let found = places(&work, &report);
        assert_eq!(found, [(file.clone(), what, position.unwrap())], "{file} byte {byte}");
        assert_eq!(report.findings.first()[0].remedy, Remedy::Rebuild);
        assert_eq!(report.findings.in_hashes(), what == "hash");
        rebuild_indexes(&work, &log_key().verifier(), what == "hash", &mut |_, _| {}).unwrap();
        assert_eq!(places(&work, &look(&work)), [], "{file} byte {byte}");
        for (name, bytes) in files.iter().filter(|(name, _)| name == Path::new(&file)) {
            assert_eq!(&fs::read(work.join(name)).unwrap(), bytes, "{file}");
        }
    }
}

#[test]
fn a_flipped_bit_of_an_id_is_placed_wherever_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let work = dir.path().join("work");
    let files = stage::snapshot(&path);
    let ids = &files.iter().find(|(name, _)| name == Path::new("ids.redb")).unwrap().1;
    let leaves = &files.iter().find(|(name, _)| name == Path::new("hashes/0")).unwrap().1;
    let mut placed = 0;
    for index in [0, 100, 599] {
        // The first half of an id is what it is found by.
        let key = &leaves[32 * index..32 * index + 16];
        // Pages that are not in use any more may hold it too.
        for at in (0..ids.len() - 16).filter(|at| &ids[*at..*at + 16] == key) {
            stage::lay(&work, &files);
            flip(&work.join("ids.redb"), at + 11);
            let found = places(&work, &look(&work));
            if found.is_empty() {
                continue;
            }
            assert!(found.contains(&("ids.redb".to_owned(), "leaf", index as u64)), "{found:?}");
            placed += 1;
            rebuild_indexes(&work, &log_key().verifier(), false, &mut |_, _| {}).unwrap();
            assert_eq!(places(&work, &look(&work)), []);
        }
    }
    assert!(placed >= 3, "{placed}");
    // And garbage is said to be that.
    stage::lay(&work, &files);
    fs::write(work.join("ids.redb"), vec![0xa5; 9000]).unwrap();
    assert_eq!(places(&work, &look(&work)), [("ids.redb".to_owned(), "byte", 0)]);
}

#[test]
fn a_saved_state_that_no_receipts_make_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (closed(dir.path()), dir.path().join("other"));
    // As many receipts by gates of the same names, of other words.
    LogStore::create(&other).unwrap();
    let (mut store, _) = LogStore::open(&other, &log_key().verifier(), &mut |_, _| {}).unwrap();
    let mut gate = Gate::new("gate.example/a", 1);
    let admitted: Vec<Admitted> = (0..600).map(|_| gate.next()).collect();
    commit(&mut store, &admitted);
    drop(store);
    fs::remove_dir_all(path.join("state")).unwrap();
    assert_eq!(places(&path, &look(&path)), [], "states that are not saved are derived at the next start");
    stage::copy(&other.join("state"), &path.join("state"));
    let report = look(&path);
    assert_eq!(report.states_saved_at.map(|size| size.0), Some(600));
    assert!(places(&path, &report).iter().all(|(_, what, _)| ["leaf", "place"].contains(what)));
    assert!(places(&path, &report).contains(&("state".to_owned(), "leaf", 600)));
    rebuild_indexes(&path, &log_key().verifier(), false, &mut |_, _| {}).unwrap();
    assert_eq!(places(&path, &look(&path)), []);
}

#[test]
fn hashes_that_are_gone_and_arrays_that_are_short_are_told_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let work = dir.path().join("work");
    let files = stage::snapshot(&path);
    let (array, _) = files.iter().find(|(name, _)| name.starts_with("issuers")).unwrap();
    let spoil: [(&str, &dyn Fn()); 4] = [
        ("a level is gone", &|| fs::remove_file(work.join("hashes/1")).unwrap()),
        ("leaves are cut", &|| cut(&work.join("hashes/0"), 32 * 300)),
        ("an array is cut", &|| cut(&work.join(array), 8 * 20)),
        ("a stranger's array", &|| fs::write(work.join("issuers/00"), [0; 8]).unwrap()),
    ];
    for (what, spoil) in spoil {
        stage::lay(&work, &files);
        spoil();
        let report = look(&work);
        assert!(!report.findings.is_empty() && report.findings.to_restore() == 0, "{what}: {report:?}");
        rebuild_indexes(&work, &log_key().verifier(), report.findings.in_hashes(), &mut |_, _| {}).unwrap();
        assert_eq!(places(&work, &look(&work)), [], "{what}");
    }
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn a_receipt_that_should_never_have_been_taken_is_found_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let forge = |path: &Path, seed: u8, skip: u64| {
        LogStore::create(path).unwrap();
        let (mut store, _) = LogStore::open(path, &log_key().verifier(), &mut |_, _| {}).unwrap();
        let mut gate = Gate::new("gate.example/a", 1);
        let mut admitted: Vec<Admitted> = (0..40).map(|_| gate.next()).collect();
        // A log that did not look: it signed over whatever came.
        let text = ReceiptText {
            issuer: gate.state.name().clone(),
            seq: gate.state.next_seq(),
            prev: gate.state.head(),
            issued_at: UnixMillis(gate.state.last_issued_at().0 - skip),
            body: "{\"type\":\"heartbeat\"}".to_owned(),
        };
        let receipt = text.sign(&key("gate.example/a", seed)).unwrap();
        let lenient = ReceiptText { issued_at: UnixMillis(u64::MAX >> 12), ..text }.sign(&gate.key).unwrap();
        let state =
            place(&gate.state, presume_signature(&lenient, &gate.state).unwrap(), &|_| None, None).unwrap().state;
        admitted.push(Admitted { state, receipt });
        commit(&mut store, &admitted);
    };
    for (name, seed, skip, code) in [("signed", 7, 0, "bad-signature"), ("timed", 1, 5, "time-reversed")] {
        let path = dir.path().join(name);
        forge(&path, seed, skip);
        let report = look(&path);
        let found = report.findings.first();
        let entry = found.iter().find(|found| found.what == "entry").unwrap_or_else(|| panic!("{name}: {report:?}"));
        assert!(entry.position == 40 && entry.why.contains(code), "{entry}");
        assert_eq!(report.findings.to_restore(), 1);
        // A signature is left out where it is asked for, and nothing else.
        let quick = inspect(&path, &log_key().verifier(), false, &mut |_, _| {}).unwrap();
        assert_eq!(quick.findings.to_restore(), u64::from(code != "bad-signature"), "{quick:?}");
    }
}

#[test]
fn what_is_served_is_compared_first_and_the_place_of_the_damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = closed(dir.path());
    let work = dir.path().join("work");
    let files = stage::snapshot(&path);
    let resource =
        |reader: &counterfoil_store::LogReader, name: &str| reader.resource(&ResourcePath::parse(name).unwrap());
    type Read<'a> = &'a dyn Fn(&counterfoil_store::LogReader) -> Result<(), StoreError>;
    let bundle: Read<'_> = &|reader| resource(reader, "tile/entries/000").map(drop);
    let partial_bundle: Read<'_> = &|reader| resource(reader, "tile/entries/002.p/88").map(drop);
    let narrow_bundle: Read<'_> = &|reader| resource(reader, "tile/entries/000.p/9").map(drop);
    let entry: Read<'_> = &|reader| reader.entry(LeafIndex(7)).map(drop);
    let late_entry: Read<'_> = &|reader| reader.entry(LeafIndex(550)).map(drop);
    let tile: Read<'_> = &|reader| resource(reader, "tile/0/000").map(drop);
    let narrow_tile: Read<'_> = &|reader| resource(reader, "tile/0/001.p/3").map(drop);
    let edge: Read<'_> = &|reader| resource(reader, "tile/0/002.p/88").map(drop);
    let upper_edge: Read<'_> = &|reader| resource(reader, "tile/1/000.p/2").map(drop);
    let proof: Read<'_> = &|reader| Err(reader.damage_around(LeafIndex(7)));
    let at = |index: usize| offset_of(&path, index) + 70;
    let cases: Vec<(&str, usize, &str, u64, Vec<Read<'_>>)> = vec![
        ("entries", at(7), "entry", 7, vec![bundle, narrow_bundle, entry]),
        ("entries", at(550), "entry", 550, vec![partial_bundle, late_entry]),
        ("hashes/0", 7 * 32, "hash", 7, vec![bundle, narrow_bundle, entry, tile, proof]),
        ("hashes/0", 300 * 32, "hash", 300, vec![narrow_tile]),
        ("hashes/0", 550 * 32, "hash", 550, vec![partial_bundle, late_entry, edge, upper_edge]),
        ("hashes/1", 3, "hash", 0, vec![tile, edge, upper_edge, proof]),
        ("hashes/1", 33, "hash", 1, vec![narrow_tile, edge, upper_edge]),
    ];
    for (file, byte, what, position, reads) in cases {
        stage::lay(&work, &files);
        // Rot comes while the log runs: a start would find what is near its end.
        let (store, _) = LogStore::open(&work, &log_key().verifier(), &mut |_, _| {}).unwrap();
        let reader = store.reader();
        for read in [bundle, partial_bundle, narrow_bundle, entry, late_entry, tile, narrow_tile, edge, upper_edge] {
            read(&reader).unwrap();
        }
        flip_in_place(&work.join(file), byte);
        for (number, read) in reads.into_iter().enumerate() {
            let found = read(&reader).expect_err(file);
            let named = matches!(&found, StoreError::Damaged { path, what: named, position: at, .. }
                if *path == work.join(file) && *named == what && *at == position);
            assert!(named && found.is_damage(), "{file} byte {byte}, read {number}: {found}");
        }
    }
}

fn flip_in_place(path: &Path, byte: usize) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut one = [0];
    file.read_exact_at(&mut one, byte as u64).unwrap();
    file.write_all_at(&[one[0] ^ 4], byte as u64).unwrap();
}
