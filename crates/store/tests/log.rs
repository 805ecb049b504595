//! The tiled log on disk: what is committed stays, what is torn goes, what is damaged is named.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_store::{Sealed, StoreError, Tlog};
use merkle::{
    EMPTY_ROOT, LeafIndex, MemoryTree, PageId, ResourcePath, RootHash, TileId, TreeSize, leaf_hash, prove_inclusion,
};
use note::{Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified};
use std::fs;
use std::path::Path;

fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [5; 32])
}

fn head(size: TreeSize, root: RootHash) -> Sealed<SignedCheckpoint<Verified>> {
    let head = Checkpoint::new(Origin::new("log.example").unwrap(), size, root);
    Sealed::new(note::sign_checkpoint(&head, &key()).unwrap())
}

fn is_ours(bytes: &[u8]) -> Option<(TreeSize, RootHash)> {
    let head = SignedCheckpoint::parse(bytes).and_then(|head| head.verify(&key().verifier())).ok()?;
    Some((head.checkpoint().size, head.checkpoint().root))
}

fn open(dir: &Path) -> Result<Tlog, StoreError> {
    Tlog::open(dir, &is_ours).map(|(log, _)| log)
}

fn entry(number: u64) -> Vec<u8> {
    format!("entry {number} {}", "x".repeat(number as usize % 23)).into_bytes()
}

fn commit(log: &mut Tlog, count: u64) {
    let first = log.reader().size().0;
    let entries: Vec<Vec<u8>> = (first..first + count).map(entry).collect();
    let appended = log.append(&entries).unwrap();
    log.record_head(head(appended.size, appended.root)).unwrap();
}

fn tree(size: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..size).for_each(|number| tree.push(leaf_hash(&entry(number))));
    tree
}

/// Everything a reader can see agrees with a log of `size` entries that was built in memory.
fn assert_holds(log: &Tlog, size: u64) {
    let (reader, tree) = (log.reader(), tree(size));
    assert_eq!(reader.size(), TreeSize(size));
    for number in 0..size {
        assert_eq!(reader.entry(LeafIndex(number)).unwrap().unwrap(), entry(number));
    }
    assert_eq!(reader.entry(LeafIndex(size)).unwrap(), None);
    for tile in TileId::all(TreeSize(size)) {
        let stored = reader.resource(&ResourcePath::Tile(tile)).unwrap().unwrap();
        let first = tile.index * 256;
        let expected = (first..first + u64::from(tile.width))
            .flat_map(|place| merkle::HashSource::subtree(&tree, 8 * tile.level, place).unwrap().0);
        assert_eq!(stored, expected.collect::<Vec<u8>>(), "{tile}");
    }
    for index in [0, size / 2, size.saturating_sub(1)].into_iter().filter(|index| *index < size) {
        let proof = prove_inclusion(&reader, LeafIndex(index), TreeSize(size)).unwrap();
        proof.verify(&leaf_hash(&entry(index)), LeafIndex(index), TreeSize(size), &tree.root()).unwrap();
    }
    let latest = reader.latest_head().map(|head| is_ours(&head).unwrap());
    assert!(latest.is_none_or(|latest| latest == (TreeSize(size), tree.root())));
}

#[test]
fn what_is_committed_is_there_after_every_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    drop(Tlog::create(&path).unwrap());
    let mut size = 0;
    for count in [1, 1, 253, 1, 1, 255, 300, 2] {
        let mut log = open(&path).unwrap();
        assert_holds(&log, size);
        commit(&mut log, count);
        size += count;
        assert_holds(&log, size);
    }
    let log = open(&path).unwrap();
    assert_eq!(log.reader().head_count(), 8);
    let heads = log.reader().resource(&ResourcePath::Heads(PageId { index: 0, width: 8 })).unwrap().unwrap();
    let sizes: Vec<u64> =
        merkle::decode_entries(&heads).unwrap().iter().map(|head| is_ours(head).unwrap().0.0).collect();
    assert_eq!(sizes, [1, 2, 255, 256, 257, 512, 812, 814]);
}

#[test]
fn a_head_over_no_entries_is_a_head() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    let nothing: [&[u8]; 0] = [];
    let appended = log.append(&nothing).unwrap();
    assert_eq!((appended.size, appended.root), (TreeSize(0), EMPTY_ROOT));
    log.record_head(head(TreeSize(0), EMPTY_ROOT)).unwrap();
    drop(log);
    assert!(open(&path).unwrap().reader().latest_head().is_some());
}

#[test]
fn readers_see_nothing_that_is_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Tlog::create(&dir.path().join("log")).unwrap();
    commit(&mut log, 3);
    let reader = log.reader();
    log.append(&[entry(3)]).unwrap();
    assert_eq!(reader.size(), TreeSize(3));
    assert_eq!(reader.entry(LeafIndex(3)).unwrap(), None);
    assert_eq!(reader.resource(&ResourcePath::Tile(TileId { level: 0, index: 0, width: 4 })).unwrap(), None);
    assert_eq!(reader.resource(&ResourcePath::Entries(PageId { index: 0, width: 4 })).unwrap(), None);
    assert!(reader.resource(&ResourcePath::Entries(PageId { index: 0, width: 2 })).unwrap().is_some());
}

#[test]
fn only_the_head_over_what_was_appended_can_be_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Tlog::create(&dir.path().join("log")).unwrap();
    let appended = log.append(&[entry(0)]).unwrap();
    for (size, root) in [(TreeSize(2), appended.root), (TreeSize(1), EMPTY_ROOT), (TreeSize(0), EMPTY_ROOT)] {
        assert!(matches!(log.record_head(head(size, root)), Err(StoreError::OtherHead { .. })));
    }
    log.record_head(head(appended.size, appended.root)).unwrap();
}

#[test]
fn an_entry_that_is_too_long_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = Tlog::create(&dir.path().join("log")).unwrap();
    assert!(matches!(log.append(&[vec![0; 65_536]]), Err(StoreError::TooLong(_))));
    commit(&mut log, 2);
    assert_holds(&log, 2);
}

#[test]
fn a_second_writer_is_refused_and_nothing_is_made_over_something() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Tlog::create(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::InUse(_))));
    assert!(matches!(Tlog::create(&path), Err(StoreError::Exists(_))));
    drop(log);
    assert!(open(&path).is_ok());
    assert!(matches!(open(&dir.path().join("none")), Err(StoreError::Missing(_))));
    // A creation that was killed left its unfinished directory; the next one takes no notice of it.
    fs::create_dir(dir.path().join("other.being-made")).unwrap();
    assert!(Tlog::create(&dir.path().join("other")).is_ok());
}

/// A log of 3 and then 2 entries, closed; and the files as they are after each commit.
fn two_commits(path: &Path) -> [u64; 2] {
    let mut log = Tlog::create(path).unwrap();
    commit(&mut log, 3);
    let after_first = fs::metadata(path.join("heads")).unwrap().len();
    commit(&mut log, 2);
    [after_first, fs::metadata(path.join("heads")).unwrap().len()]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.path().is_dir() {
            copy(&file.path(), &to.join(file.file_name()));
        } else {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn a_head_cut_while_it_was_written_is_a_head_that_was_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let [first, second] = two_commits(&path);
    for cut in first..=second {
        let torn = dir.path().join(format!("cut-{cut}"));
        copy(&path, &torn);
        fs::File::options().write(true).open(torn.join("heads")).unwrap().set_len(cut).unwrap();
        let mut log = open(&torn).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let size = if cut == second { 5 } else { 3 };
        assert_holds(&log, size);
        commit(&mut log, 7);
        drop(log);
        assert_holds(&open(&torn).unwrap(), size + 7);
    }
}

#[test]
fn a_head_whose_end_never_reached_the_disk_is_a_head_that_was_never_signed() {
    // Some file systems grow a file before its data is there: the end of the last write reads as zeroes.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let [first, second] = two_commits(&path);
    for keep in first..second {
        let torn = dir.path().join(format!("zero-{keep}"));
        copy(&path, &torn);
        let mut bytes = fs::read(torn.join("heads")).unwrap();
        bytes[keep as usize..].fill(0);
        fs::write(torn.join("heads"), bytes).unwrap();
        assert_holds(&open(&torn).unwrap_or_else(|error| panic!("zeroes from {keep}: {error}")), 3);
    }
}

#[test]
fn a_damaged_head_stops_the_log_rather_than_being_taken_for_a_torn_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let [first, second] = two_commits(&path);
    for flipped in first + 2..second {
        let damaged = dir.path().join(format!("flip-{flipped}"));
        copy(&path, &damaged);
        let mut bytes = fs::read(damaged.join("heads")).unwrap();
        bytes[flipped as usize] ^= 1;
        fs::write(damaged.join("heads"), bytes).unwrap();
        assert!(matches!(open(&damaged), Err(StoreError::Damaged { what: "head", position: 1, .. })), "byte {flipped}");
    }
}

#[test]
fn a_missing_entry_is_named_and_an_unsigned_tail_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    two_commits(&path);
    let whole = fs::read(path.join("entries")).unwrap();
    for cut in 0..whole.len() {
        let torn = dir.path().join(format!("cut-{cut}"));
        copy(&path, &torn);
        fs::write(torn.join("entries"), &whole[..cut]).unwrap();
        assert!(matches!(open(&torn), Err(StoreError::Damaged { what: "entry", .. })), "cut at {cut}");
    }
    let more: Vec<u8> = [&whole[..], b"\x00\x03abc\x00\x09torn"].concat();
    for length in whole.len()..=more.len() {
        fs::write(path.join("entries"), &more[..length]).unwrap();
        assert_holds(&open(&path).unwrap(), 5);
    }
}

#[test]
fn hashes_that_are_missing_are_derived_again_and_wrong_ones_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    commit(&mut log, 600);
    drop(log);
    for (level, length) in [(0, 0), (0, 31), (0, 256 * 32), (0, 599 * 32 + 5), (1, 0), (1, 33)] {
        let file = path.join("hashes").join(level.to_string());
        fs::File::options().write(true).open(&file).unwrap().set_len(length).unwrap();
        assert_holds(&open(&path).unwrap_or_else(|error| panic!("{level} {length}: {error}")), 600);
    }
    fs::remove_dir_all(path.join("hashes")).unwrap();
    assert_holds(&open(&path).unwrap(), 600);
    // A bit of the right edge: what every later root is made of.
    let file = path.join("hashes/0");
    let mut bytes = fs::read(&file).unwrap();
    bytes[599 * 32] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(matches!(open(&path), Err(StoreError::WrongRoot { size: TreeSize(600) })));
}

#[test]
fn offsets_that_are_missing_or_wrong_are_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    commit(&mut log, 1000);
    drop(log);
    let whole = fs::read(path.join("entries.offsets")).unwrap();
    let wrong = |place: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[place] ^= byte;
        bytes
    };
    let zeroes = vec![0; whole.len()];
    let too_many = [&whole[..], &whole[..]].concat();
    for bytes in
        [vec![], whole[..9].to_vec(), zeroes, too_many, wrong(31, 1), wrong(23, 64), wrong(7, 1), wrong(24, 255)]
    {
        fs::write(path.join("entries.offsets"), &bytes).unwrap();
        assert_holds(&open(&path).unwrap(), 1000);
        assert_eq!(fs::read(path.join("entries.offsets")).unwrap(), whole);
    }
}

#[test]
fn a_flipped_bit_in_what_was_just_written_stops_the_log_before_it_signs() {
    // The write itself cannot be damaged from here, so the partial tile of the right edge is: it is read back too.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    commit(&mut log, 5);
    let file = path.join("hashes/0");
    let mut bytes = fs::read(&file).unwrap();
    bytes[32] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(log.append(&[entry(5)]).is_err());
    assert!(matches!(log.append(&[entry(5)]), Err(StoreError::Poisoned)));
    assert_eq!(log.reader().size(), TreeSize(5));
}
