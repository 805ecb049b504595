//! Files that were cut, lost, or changed by something other than a crash: what is derived comes back by itself, and
//! of everything else the place is named, and nothing is changed, and nothing is forgotten.

use crate::stage;
use counterfoil_store::{Inspection, StoreError, Tlog};
use merkle::TreeSize;
use stage::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Whose loss is the loss of something committed.
const TRUTH: [&str; 2] = ["entries", "heads"];

fn is_truth(path: &Path) -> bool {
    TRUTH.iter().any(|name| path == Path::new(name))
}

/// A closed log with these commits: its files, and its size.
fn closed(dir: &Path, commits: &[u64]) -> (Vec<(PathBuf, Vec<u8>)>, u64) {
    let path = dir.join("log");
    let mut log = Tlog::create(&path).unwrap();
    commits.iter().for_each(|count| commit(&mut log, *count));
    drop(log);
    // So that all hashes count as durable: the start looks at nothing but the right edge.
    drop(open(&path).unwrap());
    (snapshot(&path), commits.iter().sum())
}

fn verify(log: &Tlog) -> Result<Inspection, StoreError> {
    log.verify_all(&is_ours, &mut |_, _| {})
}

/// Cuts every file at `cuts` of its length and checks what the start makes of it.
fn cut_every_file(commits: &[u64], cuts: impl Fn(usize) -> Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let (files, size) = closed(dir.path(), commits);
    let work = dir.path().join("work");
    for (place, (path, bytes)) in files.iter().enumerate() {
        for cut in cuts(bytes.len()) {
            let mut cut_short = files.clone();
            cut_short[place].1.truncate(cut);
            lay(&work, &cut_short);
            match open(&work) {
                Ok(log) => {
                    assert!(!is_truth(path), "{path:?} cut at {cut} was not missed");
                    assert_holds(&log, size);
                    assert_eq!(verify(&log).unwrap().heads, commits.len() as u64);
                }
                Err(StoreError::Damaged { path: named, .. }) => {
                    assert!(is_truth(path), "{path:?} cut at {cut} is derived and must come back");
                    assert_eq!(named, work.join(path), "cut at {cut}");
                    for (path, bytes) in snapshot(&work).iter().filter(|(path, _)| is_truth(path)) {
                        let before = cut_short.iter().find(|(other, _)| other == path);
                        assert_eq!(before.map(|(_, bytes)| bytes), Some(bytes), "{path:?} was changed");
                    }
                }
                Err(error) => panic!("{path:?} cut at {cut}: {error}"),
            }
        }
    }
}

#[test]
fn a_small_log_cut_at_any_byte_of_any_file_is_whole_or_names_what_is_missing() {
    cut_every_file(&[1, 2, 3, 1], |length| (0..length).collect());
}

#[test]
fn a_log_of_several_tiles_cut_anywhere_near_its_ends_is_whole_or_names_what_is_missing() {
    cut_every_file(&[200, 55, 2, 300, 1], |length| {
        (length.saturating_sub(200)..length).step_by(7).chain([0]).collect()
    });
}

#[test]
fn a_file_that_is_gone_comes_back_or_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let (files, size) = closed(dir.path(), &[300, 1, 7]);
    let work = dir.path().join("work");
    for gone in 0..files.len() {
        let mut others = files.clone();
        let (path, _) = others.remove(gone);
        lay(&work, &others);
        match open(&work) {
            Ok(log) if !is_truth(&path) => assert_holds(&log, size),
            Err(StoreError::Damaged { path: named, .. }) if is_truth(&path) => assert_eq!(named, work.join(&path)),
            outcome => panic!("{path:?}: {outcome:?}"),
        }
        assert_eq!(work.join("heads").exists(), path != Path::new("heads"), "nothing is made in its place");
    }
}

#[test]
fn an_older_copy_of_the_heads_is_noticed() {
    // A log that believed it would sign another history over the same sizes.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    commit(&mut log, 3);
    let older = fs::read(path.join("heads")).unwrap();
    commit(&mut log, 2);
    drop(log);
    fs::write(path.join("heads"), older).unwrap();
    assert!(matches!(open(&path), Err(StoreError::Damaged { what: "head", position: 1, .. })));
    // Where a power cut has eaten the count too, all that is known is that the heads are whole.
    fs::remove_file(path.join("heads.count")).unwrap();
    assert_holds(&open(&path).unwrap(), 3);
}

#[test]
fn no_offset_that_is_wrong_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let commits: Vec<u64> = [700].into_iter().chain(std::iter::repeat_n(1, 520)).collect();
    let (files, size) = closed(dir.path(), &commits);
    let work = dir.path().join("work");
    for name in ["entries.offsets", "heads.offsets"] {
        let place = files.iter().position(|(path, _)| path == Path::new(name)).unwrap();
        for byte in 0..files[place].1.len() {
            let mut wrong = files.clone();
            wrong[place].1[byte] ^= 1 << (byte % 8);
            lay(&work, &wrong);
            let log = open(&work).unwrap();
            assert_eq!((log.reader().size().0, log.reader().head_count()), (size, commits.len() as u64));
            drop(log);
            assert_eq!(snapshot(&work), files, "{name} byte {byte}: it is mended and nothing else is changed");
        }
    }
}

#[test]
fn whatever_a_crash_leaves_behind_the_committed_part_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (files, size) = closed(dir.path(), &[3, 250, 4]);
    let work = dir.path().join("work");
    let tails: [&[u8]; 5] = [&[0], &[0; 5000], &[0xff; 5000], b"\x00\x03abc\x00", b"\x02"];
    for (place, (path, _)) in files.iter().enumerate().filter(|(_, (path, _))| path != Path::new("heads")) {
        for tail in tails {
            let mut longer = files.clone();
            longer[place].1.extend_from_slice(tail);
            lay(&work, &longer);
            let mut log = open(&work).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            commit(&mut log, 5);
            drop(log);
            let log = open(&work).unwrap();
            assert_holds(&log, size + 5);
            assert_eq!(verify(&log).unwrap(), Inspection { entries: size + 5, heads: 4 });
        }
    }
}

#[test]
fn sectors_of_a_head_that_never_reached_the_disk_make_it_one_that_was_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Tlog::create(&path).unwrap();
    // Heads of some 170 bytes: among a dozen some lie across the sectors of 512.
    let mut ends = Vec::new();
    let mut stages = Vec::new();
    for _ in 0..12 {
        commit(&mut log, 1);
        ends.push(fs::metadata(path.join("heads")).unwrap().len() as usize);
        stages.push(snapshot(&path));
    }
    let work = dir.path().join("work");
    for last in 1..ends.len() {
        let (begin, end) = (ends[last - 1], ends[last]);
        let sectors: Vec<usize> = (begin / 512..=(end - 1) / 512).collect();
        for lost in 1..1u32 << sectors.len() {
            for zeroes_behind in [0, 100, 4096] {
                let mut files = stages[last].clone();
                for (path, bytes) in &mut files {
                    if path == Path::new("heads") {
                        for (bit, sector) in sectors.iter().enumerate().filter(|(bit, _)| lost >> bit & 1 == 1) {
                            let _ = bit;
                            bytes[(sector * 512).max(begin)..((sector + 1) * 512).min(end)].fill(0);
                        }
                        bytes.resize(end + zeroes_behind, 0);
                    }
                    if path == Path::new("heads.count") {
                        *bytes = stages[last - 1].iter().find(|(other, _)| other == path).unwrap().1.clone();
                    }
                }
                lay(&work, &files);
                let log = open(&work).unwrap_or_else(|error| panic!("head {last} lost {lost:b}: {error}"));
                assert_holds(&log, last as u64);
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_in_entries_hashes_or_heads_is_found_and_placed() {
    let dir = tempfile::tempdir().unwrap();
    let (files, size) = closed(dir.path(), &[100, 160, 1, 290, 2]);
    let work = dir.path().join("work");
    lay(&work, &files);
    assert_eq!(verify(&open(&work).unwrap()).unwrap(), Inspection { entries: size, heads: 5 });
    for name in ["entries", "heads", "hashes/0", "hashes/1"] {
        let place = files.iter().position(|(path, _)| path == Path::new(name)).unwrap();
        let length = files[place].1.len();
        for byte in (0..length).step_by(37).chain(length - 40..length) {
            let mut flipped = files.clone();
            flipped[place].1[byte] ^= 1 << (byte % 8);
            lay(&work, &flipped);
            // At the start where it matters to what is signed next; by reading everything anywhere.
            let found = open(&work).and_then(|log| verify(&log));
            if found.is_ok() && name.starts_with("hashes") {
                assert_eq!(snapshot(&work), files, "{name} byte {byte}: derived again");
                continue;
            }
            let Err(StoreError::Damaged { path, what, position, .. }) = found else {
                panic!("{name} byte {byte}: {found:?}");
            };
            let expected = match name {
                "entries" => ["entry", "string"].contains(&what),
                "heads" => ["head", "string"].contains(&what),
                _ => what == "hash" && position == byte as u64 / 32,
            };
            assert!(expected && path == work.join(name), "{name} byte {byte}: {path:?} {what} {position}");
        }
    }
}

#[test]
fn an_entry_changed_together_with_its_hash_does_not_lead_to_the_signed_root() {
    let dir = tempfile::tempdir().unwrap();
    let (mut files, _) = closed(dir.path(), &[2, 2, 2]);
    for (path, bytes) in &mut files {
        if path == Path::new("entries") {
            let length = bytes.len();
            bytes[length - 1] ^= 1;
        }
        if path == Path::new("hashes/0") {
            // The entry as it is now is "entry 5 xxxxy".
            let mut changed = entry(5);
            *changed.last_mut().unwrap() ^= 1;
            bytes[5 * 32..].copy_from_slice(&merkle::leaf_hash(&changed).0);
        }
    }
    let work = dir.path().join("work");
    lay(&work, &files);
    assert!(matches!(open(&work), Err(StoreError::WrongRoot { size: TreeSize(6) })));
}
