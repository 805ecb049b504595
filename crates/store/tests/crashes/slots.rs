//! The head that a witness holds: one that was given back, or found at a start, is never forgotten.

use crate::every_call::{at_every_call, seeds};
use counterfoil_store::{Cosigned, HeadSlots, Sealed, StoreError};
use merkle::{RootHash, TreeSize, leaf_hash};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, cosign, sign_checkpoint};
use std::path::Path;
use testkit::faulty_disk::{Call, Extent, Fault, FaultyDisk, Trouble};

const PATH: &str = "/state/log.head";

fn keys() -> (SigningKey, SigningKey) {
    let key = |name, kind, seed| SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32]);
    (key("log.example", KeyKind::Ed25519, 1), key("witness.example", KeyKind::CosignatureV1, 2))
}

fn cosigned(size: u64) -> Cosigned {
    let (log, witness) = keys();
    let head = Checkpoint::new(Origin::new("log.example").unwrap(), TreeSize(size), RootHash(leaf_hash(b"x")));
    let head = sign_checkpoint(&head, &log).unwrap();
    let cosignature = cosign(head.note().text(), &witness, 1_000 + size).unwrap();
    Cosigned::new(head, cosignature)
}

/// The file, and the size of the head held.
fn open(disk: &FaultyDisk) -> Result<(HeadSlots, u64), StoreError> {
    let (log, witness) = keys();
    let (slots, held) = HeadSlots::open_on(disk, Path::new(PATH), &log.verifier(), &witness.verifier())?;
    Ok((slots, held.map_or(0, |held| held.checkpoint().checkpoint().size.0)))
}

#[test]
fn trouble_at_any_call_never_makes_a_witness_forget_a_head() {
    use counterfoil_store::disk::Disk;
    let empty = FaultyDisk::new();
    empty.create_dir_all(Path::new("/state")).unwrap();
    empty.sync_directory(Path::new("/")).unwrap();
    let heads: Vec<Cosigned> = (1..5).map(cosigned).collect();
    // Also from a file that holds heads already.
    let holding = empty.copy();
    let (mut slots, _) = open(&holding).unwrap();
    heads[..2].iter().for_each(|head| drop(slots.persist(Sealed::new(head.clone())).unwrap()));
    // And from one where the process was killed between the write of a head and its sync.
    let torn = holding.copy();
    drop(slots);
    let (mut slots, _) = open(&torn).unwrap();
    torn.arm(Some(Fault { at: 1, trouble: Trouble::Killed, extent: Extent::None, seed: 0 }));
    slots.persist(Sealed::new(heads[2].clone())).unwrap_err();
    assert_eq!(torn.met().unwrap().0, Call::Sync);
    drop(slots);
    for (start, before) in [(empty, 0), (holding.after_power_cut(0), 2), (torn.after_kill(), 2)] {
        let act = |disk: &FaultyDisk| {
            let mut released = before;
            let mut run = || -> Result<(), StoreError> {
                let (mut slots, held) = open(disk)?;
                released = held;
                for head in &heads[held as usize..] {
                    match slots.persist(Sealed::new(head.clone())) {
                        Ok(head) => released = head.checkpoint().checkpoint().size.0,
                        Err(error) => {
                            let more = slots.persist(Sealed::new(heads[0].clone()));
                            assert!(matches!(more, Err(StoreError::Poisoned)), "after {error} it takes more");
                            return Err(error);
                        }
                    }
                }
                Ok(())
            };
            let is_done = run().is_ok();
            (released, is_done)
        };
        let covered = at_every_call(&start, &Extent::ALL, act, |disk, released, seed| {
            let found = std::iter::once(disk.after_kill());
            for disk in
                found.chain([0, 1].into_iter().chain(seed..seed + seeds(4)).map(|seed| disk.after_power_cut(seed)))
            {
                let (slots, held) = open(&disk).unwrap();
                assert!((released..=released + 1).contains(&held), "{held} is held after {released} was given back");
                drop(slots);
                assert_eq!(open(&disk.after_power_cut(0)).unwrap().1, held, "what a start has shown stays");
            }
        });
        assert!(covered.calls > 10, "{covered:?}");
        let all = [Call::Open, Call::Len, Call::Read, Call::Write, Call::Sync, Call::SyncDirectory, Call::Lock];
        let met = |call: &&Call| covered.met.contains(call) || **call == Call::Read && start.files().is_empty();
        assert!(all.iter().all(|call| met(&call)), "{covered:?}");
    }
}
