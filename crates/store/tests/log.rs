//! The tiled log on disk: what is committed stays, what is torn goes, what is damaged is named.

use crate::stage;
use counterfoil_store::{StoreError, Tlog};
use merkle::{EMPTY_ROOT, LeafIndex, PageId, ResourcePath, TileId, TreeSize};
use stage::*;
use std::fs;

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

#[test]
fn a_head_cut_while_it_was_written_is_a_head_that_was_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let ([first, second], count) = two_commits(&path);
    for cut in first..=second {
        let torn = dir.path().join(format!("cut-{cut}"));
        copy(&path, &torn);
        fs::File::options().write(true).open(torn.join("heads")).unwrap().set_len(cut).unwrap();
        fs::write(torn.join("heads.count"), &count).unwrap();
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
    let ([first, second], count) = two_commits(&path);
    for keep in first..second {
        let torn = dir.path().join(format!("zero-{keep}"));
        copy(&path, &torn);
        let mut bytes = fs::read(torn.join("heads")).unwrap();
        bytes[keep as usize..].fill(0);
        fs::write(torn.join("heads"), bytes).unwrap();
        fs::write(torn.join("heads.count"), &count).unwrap();
        assert_holds(&open(&torn).unwrap_or_else(|error| panic!("zeroes from {keep}: {error}")), 3);
    }
}

#[test]
fn a_damaged_head_stops_the_log_rather_than_being_taken_for_a_torn_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let ([first, second], count) = two_commits(&path);
    for (flipped, bit) in (first..second).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        let damaged = dir.path().join("flipped");
        copy(&path, &damaged);
        let mut bytes = fs::read(damaged.join("heads")).unwrap();
        bytes[flipped as usize] ^= 1 << bit;
        fs::write(damaged.join("heads"), bytes).unwrap();
        // With and without the count that says that there are two.
        for count in [fs::read(path.join("heads.count")).unwrap(), count.clone()] {
            fs::write(damaged.join("heads.count"), count).unwrap();
            let refused = matches!(open(&damaged), Err(StoreError::Damaged { what: "head", position: 1, .. }));
            assert!(refused, "byte {flipped} bit {bit}");
        }
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
fn hashes_that_are_missing_or_wrong_where_the_tree_grows_are_derived_again() {
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
    let whole = fs::read(&file).unwrap();
    let mut bytes = whole.clone();
    bytes[599 * 32] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_holds(&open(&path).unwrap(), 600);
    assert_eq!(fs::read(&file).unwrap(), whole);
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
