//! What the tests of the tiled log share: one log, its key, and entries that can be told apart.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use counterfoil_store::{Sealed, StoreError, Tlog};
use merkle::{LeafIndex, MemoryTree, ResourcePath, RootHash, TileId, TreeSize, leaf_hash, prove_inclusion};
use note::{Checkpoint, KeyKind, KeyName, Origin, SignedCheckpoint, SigningKey, Verified};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(KeyName::new("log.example").unwrap(), KeyKind::Ed25519, [5; 32])
}

pub(crate) fn head(size: TreeSize, root: RootHash) -> Sealed<SignedCheckpoint<Verified>> {
    Sealed::new(sign(size, root))
}

pub(crate) fn sign(size: TreeSize, root: RootHash) -> SignedCheckpoint<Verified> {
    let head = Checkpoint::new(Origin::new("log.example").unwrap(), size, root);
    note::sign_checkpoint(&head, &key()).unwrap()
}

pub(crate) fn is_ours(bytes: &[u8]) -> Option<(TreeSize, RootHash)> {
    let head = SignedCheckpoint::parse(bytes).and_then(|head| head.verify(&key().verifier())).ok()?;
    Some((head.checkpoint().size, head.checkpoint().root))
}

pub(crate) fn open(dir: &Path) -> Result<Tlog, StoreError> {
    Tlog::open(dir, &is_ours).map(|(log, _)| log)
}

pub(crate) fn entry(number: u64) -> Vec<u8> {
    format!("entry {number} {}", "x".repeat(number as usize % 23)).into_bytes()
}

pub(crate) fn commit(log: &mut Tlog, count: u64) {
    let first = log.reader().size().0;
    let entries: Vec<Vec<u8>> = (first..first + count).map(entry).collect();
    let appended = log.append(&entries).unwrap();
    log.record_head(head(appended.size, appended.root)).unwrap();
}

pub(crate) fn tree(size: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    (0..size).for_each(|number| tree.push(leaf_hash(&entry(number))));
    tree
}

/// Everything a reader can see agrees with a log of `size` entries that was built in memory.
pub(crate) fn assert_holds(log: &Tlog, size: u64) {
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

/// A log of 3 and then 2 entries, closed. Answers how long `heads` is after each commit, and what is in `heads.count`
/// until the second has come that far.
pub(crate) fn two_commits(path: &Path) -> ([u64; 2], Vec<u8>) {
    let mut log = Tlog::create(path).unwrap();
    commit(&mut log, 3);
    let after_first = fs::metadata(path.join("heads")).unwrap().len();
    let count = fs::read(path.join("heads.count")).unwrap();
    commit(&mut log, 2);
    ([after_first, fs::metadata(path.join("heads")).unwrap().len()], count)
}

pub(crate) fn copy(from: &Path, to: &Path) {
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

/// Every file below `dir`, by its path there, with its bytes.
pub(crate) fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for file in fs::read_dir(next).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.push((path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Makes `dir` hold exactly these files.
pub(crate) fn lay(dir: &Path, files: &[(PathBuf, Vec<u8>)]) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
    for (path, bytes) in files {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), bytes).unwrap();
    }
}
