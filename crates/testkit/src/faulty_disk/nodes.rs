//! Files and directories as a running process sees them, as they are durable, and what lies between.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// Decides what is left to chance: the generator that Steele, Lea and Flood call SplitMix64.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Less than `limit`, which is at least 1.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit.max(1) as u64) as usize
    }

    fn heads(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// All of a disk. Nodes are never freed: a test's disk is small.
#[derive(Clone, Debug)]
pub(super) struct World {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(FileNode),
    Dir(Dir),
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct FileNode {
    pub(super) now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    pub(super) locked: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

/// A directory: names and the numbers of their nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Dir {
    pub(super) now: BTreeMap<OsString, usize>,
    durable: BTreeMap<OsString, usize>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Made(OsString, usize),
    Removed(OsString),
    Renamed(OsString, OsString, usize),
}

const ROOT: usize = 0;

impl Default for World {
    fn default() -> World {
        World { nodes: vec![Node::Dir(Dir::default())] }
    }
}

impl World {
    pub(super) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
        names.into_iter().try_fold(ROOT, |node, name| match &self.nodes[node] {
            Node::Dir(dir) => dir.now.get(name.as_os_str()).copied(),
            Node::File(_) => None,
        })
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<&FileNode> {
        match self.find(path).map(|node| &self.nodes[node]) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file_mut(&mut self, path: &Path) -> io::Result<&mut FileNode> {
        self.file(path)?;
        let node = self.find(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.opened(node))
    }

    pub(super) fn dir(&self, path: &Path) -> io::Result<&Dir> {
        match self.find(path).map(|node| &self.nodes[node]) {
            Some(Node::Dir(dir)) => Ok(dir),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn dir_mut(&mut self, path: &Path) -> io::Result<&mut Dir> {
        self.dir(path)?;
        match self.find(path).map(|node| &mut self.nodes[node]) {
            Some(Node::Dir(dir)) => Ok(dir),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The file behind a handle, whether it still has a name or not.
    pub(super) fn opened(&mut self, node: usize) -> &mut FileNode {
        match &mut self.nodes[node] {
            Node::File(file) => file,
            Node::Dir(_) => unreachable!("only files are opened"),
        }
    }

    pub(super) fn open(&mut self, path: &Path, make: bool) -> io::Result<usize> {
        match self.file(path) {
            Ok(_) => self.find(path).ok_or(io::ErrorKind::NotFound.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && make => {
                self.make(path, Node::File(FileNode::default()))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        if self.find(path).is_some() {
            return self.dir(path).map(drop);
        }
        if let Some(parent) = path.parent() {
            self.create_dir_all(parent)?;
        }
        self.make(path, Node::Dir(Dir::default())).map(drop)
    }

    fn make(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let (parent, name) = split(path)?;
        let number = self.nodes.len();
        self.dir_mut(parent)?.change(NameChange::Made(name, number));
        self.nodes.push(node);
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ((parent, from_name), (to_parent, to_name)) = (split(from)?, split(to)?);
        if parent != to_parent {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let node = self.find(from).ok_or(io::ErrorKind::NotFound)?;
        self.dir_mut(parent)?.change(NameChange::Renamed(from_name, to_name, node));
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        let (parent, name) = split(path)?;
        self.dir_mut(parent)?.change(NameChange::Removed(name));
        Ok(())
    }

    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let names: Vec<PathBuf> = self.dir(path)?.now.keys().map(|name| path.join(name)).collect();
        for path in names {
            if self.file(&path).is_ok() { self.remove_file(&path)? } else { self.remove_dir_all(&path)? }
        }
        let (parent, name) = split(path)?;
        self.dir_mut(parent)?.change(NameChange::Removed(name));
        Ok(())
    }

    /// A removal that stopped on its way.
    pub(super) fn remove_some(&mut self, path: &Path, chance: &mut Chance) {
        let names: Vec<PathBuf> =
            self.dir(path).map(|dir| dir.now.keys().map(|name| path.join(name)).collect()).unwrap_or_default();
        for path in names.into_iter().filter(|_| chance.heads()) {
            let _ = if self.file(&path).is_ok() { self.remove_file(&path) } else { self.remove_dir_all(&path) };
        }
    }

    pub(super) fn forget_locks(&mut self) {
        for node in &mut self.nodes {
            if let Node::File(file) = node {
                file.locked = false;
            }
        }
    }

    /// Seed 0 keeps nothing, seed 1 everything.
    pub(super) fn after_power_cut(&self, chance: &mut Chance, seed: u64) -> World {
        let nodes = self.nodes.iter().map(|node| match node {
            Node::File(file) => {
                let found = match seed {
                    0 => file.durable.clone(),
                    1 => file.now.clone(),
                    _ => file.by_chance(chance),
                };
                Node::File(FileNode { now: found.clone(), durable: found, ..FileNode::default() })
            }
            Node::Dir(dir) => {
                let found = match seed {
                    0 => dir.durable.clone(),
                    1 => dir.now.clone(),
                    _ => dir.by_chance(chance).0,
                };
                Node::Dir(Dir { now: found.clone(), durable: found, unsynced: Vec::new() })
            }
        });
        World { nodes: nodes.collect() }
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut dirs = vec![PathBuf::from("/")];
        while let Some(path) = dirs.pop() {
            for name in self.dir(&path).map(|dir| dir.now.keys().cloned().collect::<Vec<_>>()).unwrap_or_default() {
                let path = path.join(name);
                if self.file(&path).is_ok() { files.push(path) } else { dirs.push(path) }
            }
        }
        files.sort();
        files
    }
}

impl FileNode {
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = self.now.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        read
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        put(&mut self.now, offset as usize, bytes);
        self.unsynced.push(Change::Write(offset as usize, bytes.to_vec()));
    }

    pub(super) fn set_len(&mut self, length: usize) {
        self.now.resize(length, 0);
        self.unsynced.push(Change::Length(length));
    }

    /// Everything that was changed since the last sync is durable. What a failed sync has given up is not among it.
    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            change.apply(&mut self.durable);
        }
    }

    /// Some of it is, and the rest is given up.
    pub(super) fn sync_some(&mut self, chance: &mut Chance) {
        self.durable = self.by_chance(chance);
        self.unsynced.clear();
    }

    /// All of it is given up.
    pub(super) fn sync_none(&mut self) {
        self.unsynced.clear();
    }

    fn by_chance(&self, chance: &mut Chance) -> Vec<u8> {
        let mut found = self.durable.clone();
        for change in &self.unsynced {
            change.apply_by_chance(&mut found, chance);
        }
        found
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, written) => put(bytes, *offset, written),
            Change::Length(length) => bytes.resize(*length, 0),
        }
    }

    fn apply_by_chance(&self, bytes: &mut Vec<u8>, chance: &mut Chance) {
        match (self, chance.below(5)) {
            (_, 0) => {}
            (Change::Length(_), 1 | 2) => {}
            (_, 1) | (Change::Length(_), _) => self.apply(bytes),
            // The length only.
            (Change::Write(offset, written), 2) => put(bytes, offset + written.len(), &[]),
            // The beginning only.
            (Change::Write(offset, written), 3) => put(bytes, *offset, &written[..chance.below(written.len() + 1)]),
            // Some sectors, with the whole length or just as much as is needed for them.
            (Change::Write(offset, written), _) => {
                if chance.heads() {
                    put(bytes, offset + written.len(), &[]);
                }
                let mut begin = 0;
                while begin < written.len() {
                    let end = ((offset + begin) / SECTOR * SECTOR + SECTOR - offset).min(written.len());
                    if chance.heads() {
                        put(bytes, offset + begin, &written[begin..end]);
                    }
                    begin = end;
                }
            }
        }
    }
}

impl Dir {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.now.clone();
        self.unsynced.clear();
    }

    pub(super) fn sync_some(&mut self, chance: &mut Chance) {
        (self.durable, self.unsynced) = self.by_chance(chance);
    }

    /// The names that are there, and the changes that did not get there.
    fn by_chance(&self, chance: &mut Chance) -> (BTreeMap<OsString, usize>, Vec<NameChange>) {
        let mut found = self.durable.clone();
        let mut left = Vec::new();
        for change in &self.unsynced {
            if chance.heads() { change.apply(&mut found) } else { left.push(change.clone()) }
        }
        (found, left)
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<OsString, usize>) {
        match self {
            NameChange::Made(name, node) => drop(names.insert(name.clone(), *node)),
            NameChange::Removed(name) => drop(names.remove(name)),
            NameChange::Renamed(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

/// Puts bytes at an offset; what lies between the end and there reads as zeroes.
fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

fn split(path: &Path) -> io::Result<(&Path, OsString)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((parent, name.to_owned()))
}
