//! The loop over all calls: what goes wrong, at which of them, and how much of it is done nevertheless.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use testkit::faulty_disk::{Call, Extent, Fault, FaultyDisk, Trouble};

/// How many seeds of chance: `few` of them, or ten times as many when somebody has time.
pub(crate) fn seeds(few: u64) -> u64 {
    if std::env::var_os("COUNTERFOIL_LONG").is_some() { 10 * few } else { few }
}

/// What the loop has gone through.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// Calls of a run in which nothing goes wrong.
    pub(crate) calls: u64,
    /// What went wrong at least once.
    pub(crate) met: BTreeSet<Call>,
    /// Runs that ended in trouble and were judged.
    pub(crate) judged: u64,
}

/// Lets every call of `act` fail and be killed in turn, each time with so much of it done, from the disk `start` on,
/// and has `judge` look at what is left. `act` answers what it has released, and whether it came to its end.
pub(crate) fn at_every_call<T>(
    start: &FaultyDisk,
    extents: &[Extent],
    act: impl Fn(&FaultyDisk) -> (T, bool),
    judge: impl Fn(&FaultyDisk, T, u64),
) -> Covered {
    let mut covered = Covered::default();
    for extent in extents.iter().copied() {
        for is_killed in [false, true] {
            for at in 0.. {
                let errors = [Trouble::EIO, Trouble::ENOSPC, Trouble::EROFS];
                let trouble = if is_killed { Trouble::Killed } else { errors[at as usize % errors.len()] };
                let fault = Fault { at, trouble, extent, seed: at + 2 };
                let disk = start.copy();
                disk.arm(Some(fault));
                let run = AssertUnwindSafe(|| {
                    let (released, is_done) = act(&disk);
                    let Some((call, path)) = disk.met() else {
                        assert!(is_done, "nothing went wrong");
                        return None;
                    };
                    // Whether none or all of a look was done makes no difference, nor whether the process is killed then
                    // or before its next change.
                    if extent == Extent::None && !is_killed || !call.only_looks() {
                        assert!(!is_done || call.only_looks(), "{call:?} of {path:?} failed, and nobody noticed");
                        judge(&disk, released, fault.seed);
                    }
                    Some(call)
                });
                match catch_unwind(run) {
                    Ok(Some(call)) => {
                        covered.met.insert(call);
                        covered.judged += 1;
                    }
                    Ok(None) => {
                        covered.calls = covered.calls.max(disk.calls());
                        break;
                    }
                    Err(panic) => {
                        eprintln!("{fault:?} at {:?}", disk.met());
                        resume_unwind(panic);
                    }
                }
            }
        }
    }
    covered
}
