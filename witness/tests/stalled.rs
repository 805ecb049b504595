//! A push that is stalled between its check and its write, while another one of the same log arrives: the race that
//! tlog-witness warns of. Whatever their order, never two histories, and never a step back.

use crate::stage;
use merkle::{HashSource, MemoryTree, TreeSize, prove_consistency};
use note::{SignedCheckpoint, Verified};
use stage::{FakeLog, House, NOON_S, Running};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::disk::{Disk, DiskFile, Found, OpenFor, RealDisk};

/// A disk on which nothing becomes durable while the door is shut.
#[derive(Debug, Clone, Default)]
struct Door(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    shut: bool,
    waiting: usize,
}

impl Door {
    fn shut(&self) {
        self.0.0.lock().unwrap().shut = true;
    }

    fn open(&self) {
        self.0.0.lock().unwrap().shut = false;
        self.0.1.notify_all();
    }

    fn waiting(&self) -> usize {
        self.0.0.lock().unwrap().waiting
    }

    fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.waiting += 1;
        while state.shut {
            state = self.0.1.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

#[derive(Debug)]
struct Stalling(Door);

#[derive(Debug)]
struct StallingFile(Door, Arc<dyn DiskFile>);

impl Disk for Stalling {
    fn open(&self, path: &Path, how: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(StallingFile(self.0.clone(), RealDisk.open(path, how)?)))
    }
    fn find(&self, path: &Path) -> io::Result<Option<Found>> {
        RealDisk.find(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.remove_dir_all(dir)
    }
    fn sync_directory(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_directory(dir)
    }
}

impl DiskFile for StallingFile {
    fn len(&self) -> io::Result<u64> {
        self.1.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.read_at(buffer, offset)
    }
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.read_exact_at(buffer, offset)
    }
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.1.write_all_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.pass();
        self.1.sync_data()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.1.set_len(length)
    }
    fn try_lock(&self) -> io::Result<bool> {
        self.1.try_lock()
    }
}

/// An add-checkpoint call for `head`, whose tree is `tree`, from a head of `old` entries.
fn call(old: u64, head: &SignedCheckpoint<Verified>, tree: &MemoryTree) -> Vec<u8> {
    let mut body = format!("old {old}\n");
    if old > 0 {
        let proof = prove_consistency(tree as &dyn HashSource, TreeSize(old), tree.size()).unwrap();
        proof.hashes().iter().for_each(|hash| body.push_str(&format!("{}\n", hash.to_base64())));
    }
    body.push('\n');
    [body.as_bytes(), head.bytes()].concat()
}

struct Scene {
    log: Arc<FakeLog>,
    house: House,
    door: Door,
    witness: Arc<Running>,
}

/// A witness that holds 10 entries of a log that pushes, on a disk with a door.
async fn scene() -> Scene {
    let (log, house, door) = (FakeLog::start("log.example/agents", 0).await, House::new(), Door::default());
    house.configure_pushing(&log);
    let witness = house.open_on(Arc::new(Stalling(door.clone()))).await.unwrap();
    let witness = Arc::new(house.run(witness).await);
    let (head, tree) = log.history(10, 0, 0);
    assert_eq!(witness.push(call(0, &head, &tree)).await.0, 200);
    Scene { log, house, door, witness }
}

impl Scene {
    /// Sends a call, whose answer comes some day.
    fn send(&self, call: Vec<u8>) -> tokio::task::JoinHandle<(u16, String)> {
        let witness = Arc::clone(&self.witness);
        tokio::spawn(async move { witness.push(call).await })
    }

    /// Sends a call and waits until its write is at the door.
    async fn stalled(&self, call: Vec<u8>) -> tokio::task::JoinHandle<(u16, String)> {
        self.door.shut();
        let sent = self.send(call);
        while self.door.waiting() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sent
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_history_that_comes_between_check_and_write_is_not_cosigned() {
    let scene = scene().await;
    let (honest, tree) = scene.log.history(20, 0, 0);
    let first = scene.stalled(call(10, &honest, &tree)).await;
    let (fork, other_tree) = scene.log.history(20, 15, 1);
    let second = scene.send(call(10, &fork, &other_tree));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!first.is_finished() && !second.is_finished(), "nothing is answered before it is durable");
    assert_eq!(scene.witness.cosigned(&scene.log).await.unwrap().0.size, TreeSize(10), "nor shown");
    scene.door.open();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(first.0, 200);
    assert_eq!(second, (409, "20\n".to_owned()));
    // Told the size, the caller tries with that: and accuses its own log.
    assert_eq!(scene.witness.push(call(20, &fork, &other_tree)).await.0, 422);
    assert_eq!(scene.witness.status().await.forked, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_head_that_comes_between_check_and_write_does_not_roll_back() {
    let scene = scene().await;
    let (large, large_tree) = scene.log.history(40, 0, 0);
    let first = scene.stalled(call(10, &large, &large_tree)).await;
    let (small, small_tree) = scene.log.history(25, 0, 0);
    let second = scene.send(call(10, &small, &small_tree));
    tokio::time::sleep(Duration::from_millis(100)).await;
    scene.door.open();
    assert_eq!(first.await.unwrap().0, 200);
    assert_eq!(second.await.unwrap(), (409, "40\n".to_owned()));
    assert_eq!(scene.witness.cosigned(&scene.log).await.unwrap().0.size, TreeSize(40));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_between_check_and_write_does_not_undo_the_check() {
    let scene = scene().await;
    let (honest, tree) = scene.log.history(20, 0, 0);
    let first = scene.stalled(call(10, &honest, &tree)).await;
    first.abort();
    let _ = first.await;
    let (fork, other_tree) = scene.log.history(20, 15, 1);
    let second = scene.send(call(10, &fork, &other_tree));
    tokio::time::sleep(Duration::from_millis(100)).await;
    scene.door.open();
    assert_eq!(second.await.unwrap(), (409, "20\n".to_owned()), "what nobody waited for is held all the same");
    let (held, time) = scene.witness.cosigned(&scene.log).await.unwrap();
    assert_eq!((held.size, held.root, time), (TreeSize(20), tree.root(), NOON_S));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_write_is_stalled_nothing_happened_or_all_of_it() {
    let scene = scene().await;
    let (honest, tree) = scene.log.history(20, 0, 0);
    let first = scene.stalled(call(10, &honest, &tree)).await;
    first.abort();
    let _ = first.await;
    // Another process would find the files in use until this one is gone: read them as the next start would.
    let copy = tempfile::tempdir().unwrap();
    let state = scene.house.home().join("state");
    for file in ["journal/entries", "journal/heads"] {
        assert!(state.join(file).exists(), "{file}");
    }
    let copied =
        std::process::Command::new("cp").arg("-r").arg(&state).arg(copy.path().join("state")).status().unwrap();
    assert!(copied.success());
    let other = House::with_state_of(&scene.house, &copy.path().join("state"));
    let reopened = other.start().await;
    let held = reopened.cosigned(&scene.log).await.unwrap().0.size;
    assert_eq!(held, TreeSize(10), "the head over the line was not signed yet");
    reopened.stop().await;
    scene.door.open();
}
