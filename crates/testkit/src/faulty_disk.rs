//! A disk in memory that fails, stops or forgets where a test wants it to.
//!
//! It promises what ARCHITECTURE.md ("What is assumed") lets the store assume, and not a bit more: bytes and length of
//! a file are durable after a sync of the file, names after a sync of their directory. At a power cut every write,
//! cut, new name, renaming and removal that was not synced is kept, lost or torn, each for itself. A sync that
//! failed leaves its file looking whole, and what it did not write is never tried again (as Linux does it).
//!
//! Every call of [`Disk`] and [`DiskFile`] is counted. [`FaultyDisk::arm`] chooses the one that goes wrong; what
//! goes wrong by chance hangs on a seed, so a test that prints fault and seed can be run again.

mod nodes;

use nodes::{Chance, Node, World};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::disk::{Disk, DiskFile, Found, OpenFor};

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are those of the calls
pub enum Call {
    Open,
    Find,
    List,
    CreateDir,
    Rename,
    RemoveFile,
    RemoveDir,
    SyncDirectory,
    Len,
    Read,
    Write,
    Sync,
    SetLen,
    Lock,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 14] = [
        Call::Open,
        Call::Find,
        Call::List,
        Call::CreateDir,
        Call::Rename,
        Call::RemoveFile,
        Call::RemoveDir,
        Call::SyncDirectory,
        Call::Len,
        Call::Read,
        Call::Write,
        Call::Sync,
        Call::SetLen,
        Call::Lock,
    ];

    /// Whether it leaves the disk as it was, so that it makes no difference how much of it was done.
    pub fn only_looks(self) -> bool {
        matches!(self, Call::Find | Call::List | Call::Len | Call::Read | Call::Lock)
    }
}

/// How much of the call that goes wrong is done nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    None,
    /// Some of it: the beginning of a write, some of what a sync should have made durable.
    Part,
    /// All of it; only the answer is an error.
    All,
}

impl Extent {
    /// All of them.
    pub const ALL: [Extent; 3] = [Extent::None, Extent::Part, Extent::All];
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The call fails with this `errno`, and the next one works.
    Fails(i32),
    /// The process is killed in this call: no later one does anything.
    Killed,
    /// A write writes one bit wrong, and nobody says so. Other calls do what they should.
    Rots,
}

impl Trouble {
    /// The device answers nonsense.
    pub const EIO: Trouble = Trouble::Fails(5);
    /// The disk is full.
    pub const ENOSPC: Trouble = Trouble::Fails(28);
    /// The disk may only be read.
    pub const EROFS: Trouble = Trouble::Fails(30);
}

/// One thing that goes wrong at one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Number of the call, counted from [`FaultyDisk::arm`] on.
    pub at: u64,
    /// What goes wrong.
    pub trouble: Trouble,
    /// How much is done.
    pub extent: Extent,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// The disk; a clone is the same disk.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    world: World,
    calls: u64,
    seen: BTreeSet<Call>,
    fault: Option<Fault>,
    /// The call that went wrong, and on what.
    met: Option<(Call, PathBuf)>,
    dead: bool,
}

impl FaultyDisk {
    /// An empty disk: nothing but `/`.
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    /// As the store takes it.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// A disk of its own that holds the same, with the same not yet synced.
    pub fn copy(&self) -> FaultyDisk {
        let mut state = self.state().clone();
        state.world.forget_locks();
        FaultyDisk::of(state.world)
    }

    /// Counts the calls from zero again, and lets one of them go wrong.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut state = self.state();
        (state.calls, state.seen, state.fault, state.met) = (0, BTreeSet::new(), fault, None);
    }

    /// How many calls there were since [`FaultyDisk::arm`].
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Which calls there were since [`FaultyDisk::arm`].
    pub fn seen(&self) -> BTreeSet<Call> {
        self.state().seen.clone()
    }

    /// The call that went wrong, and the path it was about; `None` while all went well.
    pub fn met(&self) -> Option<(Call, PathBuf)> {
        self.state().met.clone()
    }

    /// What the next process finds when this one is killed and the machine stays up: everything, durable or not.
    pub fn after_kill(&self) -> FaultyDisk {
        self.copy()
    }

    /// What the next process finds after a power cut. Seed 0 keeps nothing that was not synced, seed 1 everything;
    /// any other lets chance decide for every single change.
    pub fn after_power_cut(&self, seed: u64) -> FaultyDisk {
        FaultyDisk::of(self.state().world.after_power_cut(&mut Chance::new(seed), seed))
    }

    /// The bytes of a file, as the running process sees them.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.world.file(path).ok().map(|file| file.now.clone())
    }

    /// Makes a file hold these bytes, durably.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let file = state.world.file_mut(path)?;
        file.set_len(0);
        file.write(bytes, 0);
        file.sync();
        Ok(())
    }

    /// Flips one bit of a file, durably.
    ///
    /// # Errors
    /// When there is no such file or byte.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u32) -> io::Result<()> {
        let mut bytes = self.bytes(path).ok_or(io::ErrorKind::NotFound)?;
        let place = usize::try_from(byte).ok().and_then(|byte| bytes.get_mut(byte));
        *place.ok_or(io::ErrorKind::UnexpectedEof)? ^= 1 << (bit % 8);
        self.overwrite(path, &bytes)
    }

    /// The paths of all files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state().world.files()
    }

    fn of(world: World) -> FaultyDisk {
        FaultyDisk(Arc::new(Mutex::new(State { world, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a call does, unless it is the one that goes wrong: then `part` of it, all, or `none` of it.
    fn call<T>(
        &self,
        call: Call,
        path: &Path,
        all: impl FnOnce(&mut World) -> io::Result<T>,
        part: impl FnOnce(&mut World, &mut Chance),
        none: impl FnOnce(&mut World),
    ) -> io::Result<T> {
        let mut state = self.state();
        if state.dead {
            return Err(io::Error::other("this process was killed"));
        }
        let number = state.calls;
        state.calls += 1;
        state.seen.insert(call);
        let Some(fault) = state.fault.filter(|fault| fault.at == number) else { return all(&mut state.world) };
        state.met = Some((call, path.to_owned()));
        if fault.trouble == Trouble::Rots {
            return all(&mut state.world);
        }
        match fault.extent {
            Extent::None => none(&mut state.world),
            Extent::Part => part(&mut state.world, &mut Chance::new(fault.seed)),
            // An error of its own says no more than the one that is made up.
            Extent::All => drop(all(&mut state.world)),
        }
        match fault.trouble {
            Trouble::Fails(errno) => Err(io::Error::from_raw_os_error(errno)),
            Trouble::Killed | Trouble::Rots => {
                state.dead = true;
                Err(io::Error::other("this process is killed"))
            }
        }
    }

    /// The bytes of a write with one bit wrong, if the next call is one that rots.
    fn rotten(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let state = self.state();
        let fault = state.fault.filter(|fault| fault.at == state.calls && fault.trouble == Trouble::Rots)?;
        let mut chance = Chance::new(fault.seed);
        let mut bytes = bytes.to_vec();
        let place = chance.below(bytes.len());
        *bytes.get_mut(place)? ^= 1 << chance.below(8);
        Some(bytes)
    }

    /// A call that is done or not.
    fn whole<T>(&self, call: Call, path: &Path, all: impl FnOnce(&mut World) -> io::Result<T>) -> io::Result<T> {
        self.call(call, path, all, |_, _| {}, |_| {})
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        let node = self.whole(Call::Open, path, |world| world.open(path, how == OpenFor::Writing))?;
        let may_write = how == OpenFor::Writing;
        Ok(Arc::new(Handle { disk: self.clone(), path: path.to_owned(), node, may_write, locked: Mutex::new(false) }))
    }

    fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        self.whole(Call::Find, path, |world| {
            Ok(world.find(path).map(|node| match world.node(node) {
                Node::File(file) => Found::File(file.now.len() as u64),
                Node::Dir(_) => Found::Other,
            }))
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.whole(Call::List, dir, |world| Ok(world.dir(dir)?.now.keys().map(|name| dir.join(name)).collect()))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.call(
            Call::CreateDir,
            dir,
            |world| world.create_dir_all(dir),
            |world, _| {
                // Those above it only.
                let _ = dir.parent().map(|parent| world.create_dir_all(parent));
            },
            |_| {},
        )
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole(Call::Rename, from, |world| world.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.whole(Call::RemoveFile, path, |world| world.remove_file(path))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.call(
            Call::RemoveDir,
            dir,
            |world| world.remove_dir_all(dir),
            |world, chance| world.remove_some(dir, chance),
            |_| {},
        )
    }

    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        self.call(
            Call::SyncDirectory,
            dir,
            |world| world.dir_mut(dir).map(nodes::Dir::sync),
            |world, chance| {
                if let Ok(dir) = world.dir_mut(dir) {
                    dir.sync_some(chance);
                }
            },
            |_| {},
        )
    }
}

/// An open file.
#[derive(Debug)]
struct Handle {
    disk: FaultyDisk,
    path: PathBuf,
    node: usize,
    may_write: bool,
    locked: Mutex<bool>,
}

impl Handle {
    fn may_write(&self) -> io::Result<()> {
        if self.may_write { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for Handle {
    fn len(&self) -> io::Result<u64> {
        self.disk.whole(Call::Len, &self.path, |world| Ok(world.opened(self.node).now.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.whole(Call::Read, &self.path, |world| Ok(world.opened(self.node).read(buffer, offset)))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = buffer.len();
        let read = self.disk.whole(Call::Read, &self.path, |world| Ok(world.opened(self.node).read(buffer, offset)))?;
        if read == wanted { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.may_write()?;
        let rotten = self.disk.rotten(bytes);
        self.disk.call(
            Call::Write,
            &self.path,
            |world| {
                world.opened(self.node).write(rotten.as_deref().unwrap_or(bytes), offset);
                Ok(())
            },
            |world, chance| world.opened(self.node).write(&bytes[..chance.below(bytes.len() + 1)], offset),
            |_| {},
        )
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.call(
            Call::Sync,
            &self.path,
            |world| {
                world.opened(self.node).sync();
                Ok(())
            },
            |world, chance| world.opened(self.node).sync_some(chance),
            |world| world.opened(self.node).sync_none(),
        )
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.may_write()?;
        self.disk.whole(Call::SetLen, &self.path, |world| {
            world.opened(self.node).set_len(length as usize);
            Ok(())
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        let got = self.disk.whole(Call::Lock, &self.path, |world| {
            let file = world.opened(self.node);
            let free = !file.locked || *locked;
            file.locked = true;
            Ok(free)
        })?;
        *locked |= got;
        Ok(got)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if *self.locked.lock().unwrap_or_else(PoisonError::into_inner) {
            self.disk.state().world.opened(self.node).locked = false;
        }
    }
}

#[cfg(test)]
mod tests;
