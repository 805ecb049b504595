//! Bits that flip: nothing is signed over one, and the next start finds it or derives it again.

use super::log::{DIR, Released, base, open};
use counterfoil_store::StoreError;
use std::path::Path;
use testkit::faulty_disk::{Call, Extent, Fault, Trouble};

#[test]
fn a_bit_written_wrong_in_a_commit_stops_it_or_is_derived_again() {
    let (start, before) = base();
    let mut stopped = Vec::new();
    for seed in 0..4 {
        for at in 0.. {
            let disk = start.copy();
            let mut released: Released = before.clone();
            let mut log = open(&disk).unwrap();
            disk.arm(Some(Fault { at, trouble: Trouble::Rots, extent: Extent::All, seed }));
            // Over the edge of a tile, so that a hash of level 1 is written too.
            let committed = released.commit(&mut log, "then", 10);
            let Some((call, path)) = disk.met() else { break };
            if call != Call::Write {
                continue;
            }
            let name = path.strip_prefix(DIR).unwrap().display().to_string();
            disk.arm(None);
            drop(log);
            if let Err(error) = committed {
                assert!(
                    matches!(error, StoreError::Damaged { .. } | StoreError::WrongRoot { .. }),
                    "{name} seed {seed}: {error}"
                );
                stopped.push(name.clone());
            }
            match open(&disk) {
                Ok(mut log) => {
                    assert_ne!(name, "heads", "seed {seed}");
                    released.see(&log);
                    released.commit(&mut log, "later", 3).unwrap();
                    released.assert_kept(&log);
                }
                Err(StoreError::Damaged { path: named, what: "head", position: 3, .. }) => {
                    assert_eq!((name.as_str(), named), ("heads", path));
                }
                Err(error) => panic!("{name} seed {seed}: {error}"),
            }
        }
    }
    for (name, times) in [("entries", 4), ("hashes/0", 4), ("hashes/1", 4), ("heads", 4), ("heads.count", 0)] {
        assert_eq!(stopped.iter().filter(|stopped| *stopped == name).count(), times, "{name}: {stopped:?}");
    }
}

#[test]
fn a_bit_that_flips_at_rest_where_a_start_looks_is_named_or_derived_again() {
    let (start, mut before) = base();
    let mut log = open(&start).unwrap();
    before.commit(&mut log, "then", 10).unwrap();
    drop(log);
    // All hashes count as durable, so that the start has no reason to derive any.
    drop(open(&start).unwrap());
    for (name, is_truth) in [
        ("entries", true),
        ("heads", true),
        ("hashes/0", false),
        ("hashes/1", false),
        ("entries.offsets", false),
        ("heads.offsets", false),
        ("heads.count", false),
        ("hashes.count", false),
    ] {
        let path = Path::new(DIR).join(name);
        let length = start.bytes(&path).unwrap().len() as u64;
        for byte in length.saturating_sub(30)..length {
            let disk = start.copy();
            disk.flip_bit(&path, byte, (byte % 8) as u32).unwrap();
            match open(&disk) {
                Ok(mut log) => {
                    assert!(!is_truth, "{name} byte {byte} was not missed");
                    let mut released = before.clone();
                    released.commit(&mut log, "later", 3).unwrap();
                    released.assert_kept(&log);
                }
                Err(StoreError::Damaged { path: named, .. }) if is_truth => assert_eq!(named, path, "byte {byte}"),
                Err(error) => panic!("{name} byte {byte}: {error}"),
            }
        }
    }
}
