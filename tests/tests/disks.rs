//! Disks that are full, read-only or fail. The log promises nothing that is not there, says what is wrong, and goes on when
//! the disk does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use counterfoil_tests::disk::SmallDisk;
use counterfoil_tests::gates::{Gate, InFlight};
use counterfoil_tests::history::History;
use counterfoil_tests::process::{Ended, LogProgram};
use note::VerifierKey;
use std::path::Path;
use std::process::Command;
use testkit::stage::{Setup, Stage};
use tokio::runtime::Runtime;

/// Room for an empty store, its indexes and a few hundred receipts.
const DISK_MIB: u64 = 16;
/// Bytes that another file leaves to the log: some fifty receipts of those sent here.
const ROOM: u64 = 200_000;
const FULL: &str = "No space left on device";
const READ_ONLY: &str = "Read-only file system";

/// A log whose store lies on `disk`, gates, and what both have said so far.
struct Scene {
    program: LogProgram,
    key: VerifierKey,
    gates: Vec<Gate>,
    history: History,
    runtime: Runtime,
}

impl Scene {
    fn on(disk: &SmallDisk, dir: &Path) -> Scene {
        let gates: Vec<Gate> = [1, 1, 4].iter().zip(0..).map(|(batch, number)| Gate::new(number, *batch, 0)).collect();
        let vkeys: Vec<String> = gates.iter().map(Gate::vkey).collect();
        let executable = Path::new(env!("CARGO_BIN_EXE_counterfoil-under-test"));
        let setup = Setup { dir, executable, port: None, witnesses: 0, more_issuers: &vkeys };
        let stage = Stage::build(&setup).unwrap();
        let store = disk.path().join("store");
        let moved = Command::new("mv").arg(stage.log_dir().join("store")).arg(&store).status();
        assert!(moved.unwrap().success());
        let program = LogProgram::of(&stage, executable)
            .flag("--store", store.to_str().unwrap())
            // A small disk is below any sensible watermark all the time.
            .environment("COUNTERFOIL_MIN_FREE_MIB", "0");
        let key: VerifierKey = stage.log_vkey().parse().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        Scene { program, history: History::new(key.clone()), key, gates, runtime }
    }

    /// A few receipts of every gate, all of which must be taken.
    fn some_receipts(&mut self) {
        let client = self.program.client();
        for gate in &mut self.gates {
            for _ in 0..3 {
                self.runtime.block_on(gate.submit(&client, &self.key, &InFlight::default())).unwrap();
            }
        }
    }

    /// Receipts until every gate has been told that it goes no further.
    fn receipts_until_it_fails(&mut self) {
        let (key, program) = (self.key.clone(), &self.program);
        let submit = |gate: Gate| gate.submit_until_it_fails(program.client(), key.clone(), InFlight::default());
        let loads: Vec<_> = self.gates.drain(..).map(|gate| self.runtime.spawn(submit(gate))).collect();
        self.gates = loads.into_iter().map(|load| self.runtime.block_on(load).unwrap()).collect();
    }

    /// It runs again: everything it promised is there, in one history, and it takes more.
    fn it_goes_on(&mut self) {
        let client = self.program.client();
        self.runtime.block_on(async {
            for gate in &mut self.gates {
                gate.resume(&client).await;
            }
            self.history.extend(&client).await;
        });
        self.gates.iter().for_each(|gate| self.history.assert_holds(gate.acknowledged()));
        self.some_receipts();
        self.runtime.block_on(self.history.extend(&client));
        self.gates.iter().for_each(|gate| self.history.assert_holds(gate.acknowledged()));
    }

    fn promised(&self) -> usize {
        self.gates.iter().map(Gate::promised).sum()
    }
}

/// It ended by itself, with exit code 1 and a last sentence that names the disk's `fault` and a path on it.
fn assert_says(ended: &Ended, fault: &str, disk: &SmallDisk) {
    let last = ended.stderr.trim().lines().last().unwrap_or_default();
    println!("{last}");
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(last.contains(fault) && last.contains(disk.path().to_str().unwrap()), "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn a_log_whose_disk_is_full_stops_before_it_promises_and_goes_on_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&dir.path().join("disk"), DISK_MIB) else { return };
    let mut scene = Scene::on(&disk, &dir.path().join("stage"));
    let log = scene.program.start_ready().unwrap();
    scene.some_receipts();
    disk.fill(ROOM);
    scene.gates.iter_mut().for_each(|gate| gate.filling = 2000);
    let before = scene.promised();
    scene.receipts_until_it_fails();
    println!("{ROOM} bytes of room: {} receipts more went through", scene.promised() - before);
    assert_says(&log.wait(), FULL, &disk);

    // Nothing is left at all, then not even the room that indexes had which have to be derived again: the log finds room
    // in what recovery cuts off, or it says why not.
    for lost in [None, Some("ids.redb"), Some("state")] {
        if let Some(lost) = lost {
            let moved = Command::new("rm").arg("-r").arg(disk.path().join("store").join(lost)).status();
            assert!(moved.unwrap().success());
        }
        disk.fill(0);
        match scene.program.start_ready() {
            Ok(log) => log.kill(),
            Err(ended) => assert_says(&ended, FULL, &disk),
        }
    }
    disk.make_room();
    let _log = scene.program.start_ready().unwrap_or_else(|ended| panic!("there is room: {}", ended.stderr));
    scene.it_goes_on();
}

#[test]
fn a_log_on_a_read_only_disk_does_not_start_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&dir.path().join("disk"), DISK_MIB) else { return };
    let mut scene = Scene::on(&disk, &dir.path().join("stage"));
    let log = scene.program.start_ready().unwrap();
    scene.some_receipts();
    log.kill();
    disk.read_only(true);
    assert_says(&scene.program.start_ready().expect_err("it runs on a read-only disk"), READ_ONLY, &disk);
    disk.read_only(false);
    let _log = scene.program.start_ready().unwrap();
    scene.it_goes_on();
}

#[test]
fn a_log_whose_disk_becomes_read_only_stops_before_it_promises_and_goes_on_when_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_file(&dir.path().join("disk"), &dir.path().join("image"), 2 * DISK_MIB) else {
        return;
    };
    let mut scene = Scene::on(&disk, &dir.path().join("stage"));
    let log = scene.program.start_ready().unwrap();
    scene.some_receipts();
    if disk.fail().is_none() {
        return;
    }
    scene.receipts_until_it_fails();
    assert_says(&log.wait(), READ_ONLY, &disk);
    assert_says(&scene.program.start_ready().expect_err("it runs on a read-only disk"), READ_ONLY, &disk);
    disk.put_back();
    let _log = scene.program.start_ready().unwrap();
    scene.it_goes_on();
}

#[test]
fn a_log_whose_disk_is_nearly_full_refuses_and_takes_receipts_again_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::in_memory(&dir.path().join("disk"), 2 * DISK_MIB) else { return };
    let mut scene = Scene::on(&disk, &dir.path().join("stage"));
    scene.program = scene.program.environment("COUNTERFOIL_MIN_FREE_MIB", "4");
    let mut log = scene.program.start_ready().unwrap();
    scene.some_receipts();
    disk.fill(2 * 1024 * 1024);
    let client = scene.program.client();
    let refused = |scene: &mut Scene, gate: usize| {
        let in_flight = InFlight::default();
        let submitted = scene.gates[gate].submit(&client, &scene.key, &in_flight);
        scene.runtime.block_on(submitted).err()
    };
    // It may look at its disk only now and then.
    testkit::stage::wait_for("a refusal", || Ok(refused(&mut scene, 0).is_some())).unwrap();
    for gate in [0, 2] {
        let error = refused(&mut scene, gate).expect("below the watermark nothing is taken");
        let refusal = error.refusal().unwrap_or_else(|| panic!("{error}"));
        assert!(error.has_code("no-room") && refusal.status == 503 && refusal.retry_after.is_some(), "{error}");
    }
    assert!(log.is_running(), "{}", log.said());
    disk.make_room();
    testkit::stage::wait_for("room", || Ok(refused(&mut scene, 0).is_none())).unwrap();
    scene.it_goes_on();
    assert!(log.is_running(), "{}", log.said());
}
