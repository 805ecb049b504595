//! Evidence, which nothing else can bring back.

use super::every_call::{at_every_call, seeds};
use counterfoil_store::{EvidenceFile, StoreError};
use std::path::Path;
use testkit::faulty_disk::{Call, Extent, FaultyDisk};

const DIR: &str = "/state";

/// A directory with a durable name and no evidence yet.
fn empty() -> FaultyDisk {
    use counterfoil_store::disk::Disk;
    let disk = FaultyDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk
}

/// Documents that lie across some sectors.
fn document(number: usize) -> String {
    format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(700 * (number % 3)))
}

fn kept(file: &EvidenceFile) -> Vec<String> {
    file.reader().page(0).unwrap()
}

/// The next start: everything acknowledged is there, in order, and what is new is kept as well.
fn go_on(disk: &FaultyDisk, acknowledged: &[String]) {
    let mut file = EvidenceFile::open_on(disk, Path::new(DIR)).unwrap();
    let found = kept(&file);
    assert_eq!(found[..acknowledged.len()], *acknowledged);
    assert!((found.len() - acknowledged.len()) <= 1, "{found:?}");
    assert!(found.iter().enumerate().all(|(number, found)| *found == document(number)), "{found:?}");
    // Whatever is said to be there already must stay there too.
    let again = document(acknowledged.len());
    file.append(&again).unwrap();
    drop(file);
    let disk = disk.after_power_cut(0);
    assert!(kept(&EvidenceFile::open_on(&disk, Path::new(DIR)).unwrap()).contains(&again));
}

#[test]
fn trouble_at_any_call_loses_no_evidence_that_was_acknowledged() {
    let act = |disk: &FaultyDisk| {
        let mut acknowledged = Vec::new();
        let run = || -> Result<(), StoreError> {
            let mut file = EvidenceFile::open_on(disk, Path::new(DIR))?;
            for number in 0..6 {
                let document = document(number);
                if let Err(error) = file.append(&document) {
                    assert!(matches!(file.append("{}"), Err(StoreError::Poisoned)), "after {error} it takes more");
                    return Err(error);
                }
                acknowledged.push(document);
            }
            Ok(())
        };
        let mut run = run;
        let is_done = run().is_ok();
        (acknowledged, is_done)
    };
    let covered = at_every_call(&empty(), &Extent::ALL, act, |disk, acknowledged, seed| {
        go_on(&disk.after_kill(), &acknowledged);
        for seed in [0, 1].into_iter().chain(seed..seed + seeds(20)) {
            go_on(&disk.after_power_cut(seed), &acknowledged);
        }
    });
    assert!(covered.calls > 15, "{covered:?}");
    assert!([Call::Open, Call::Read, Call::Write, Call::Sync].iter().all(|call| covered.met.contains(call)));
}

#[test]
fn a_document_that_lacks_a_sector_was_never_kept() {
    let disk = empty();
    let mut file = EvidenceFile::open_on(&disk, Path::new(DIR)).unwrap();
    file.append(&document(0)).unwrap();
    file.append(&document(2)).unwrap();
    let path = Path::new(DIR).join("evidence.ndjson");
    let mut bytes = disk.bytes(&path).unwrap();
    bytes[512..1024].fill(0);
    disk.overwrite(&path, &bytes).unwrap();
    drop(file);
    let mut file = EvidenceFile::open_json_on(&disk, Path::new(DIR)).unwrap();
    assert_eq!(kept(&file), [document(0)]);
    assert!(file.append(&document(2)).unwrap(), "it is new");
}
