//! `fetch` from logs that fail, lie or are of another make: bounded, in a sentence, and safe to run again.

use crate::served;
use merkle::{RootHash, TreeSize};
use note::{Checkpoint, Origin, sign_checkpoint};
use served::world::{TestLog, World};
use served::{Served, contents, files_below, world_of};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use testkit::liar::{How, Liar, On, Showing};

const ORIGIN: &str = "log.example/lies";

/// A liar with a history of `size` entries and another of the same size, an auditor's policy that knows its key.
struct Scene {
    liar: Arc<Liar>,
    dir: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Scene {
    fn new(size: u64) -> Scene {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let liar = runtime.block_on(Liar::start(ORIGIN, 7)).unwrap();
        liar.grow(0, size).unwrap();
        let other = liar.branch(0, 0).unwrap();
        liar.grow(other, size).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("policy"), format!("log {} {}\nquorum none\n", liar.vkey(), liar.url("auditor")))
            .unwrap();
        fs::write(dir.path().join("issuers"), "").unwrap();
        Scene { liar, dir, _runtime: runtime }
    }

    /// What comes of a fetch from what is shown: exit code, and all that is said.
    fn fetch(&self, showing: Showing, out: &str) -> (i32, String) {
        self.fetch_within("60s", showing, out)
    }

    /// The same with another deadline of each answer.
    fn fetch_within(&self, timeout: &str, showing: Showing, out: &str) -> (i32, String) {
        self.liar.show("auditor", showing);
        self.run(&["fetch", "--policy", "policy", "--wait", "0s", "--timeout", timeout, "--out", out])
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), text)
    }
}

#[test]
fn whatever_a_log_does_wrong_is_said_in_a_line_and_the_next_run_goes_on() {
    let scene = Scene::new(700);
    let drips = How::Drips(2000, Duration::from_millis(1));
    for (on, how, words) in [
        (On::Level(1), How::Withheld, "nothing is served there (404)"),
        (On::Checkpoint, How::Stalls, "no complete answer within 1.5 s"),
        (On::Entries, How::Stalls, "no complete answer within 1.5 s"),
        (On::Tiles, How::Stalls, "no complete answer within 1.5 s"),
        (On::Entries, How::Drips(1, Duration::from_millis(20)), "no complete answer within 1.5 s"),
        (On::Entries, How::BreaksOff, "the connection broke off"),
        (On::Entries, How::CutShort, "not what it should be"),
        (On::Entries, How::Garbage, "not what it should be"),
        (On::Everything, How::Endless, "larger than"),
        (On::Entries, How::Endless, "larger than"),
        (On::Entries, How::Redirects, "redirects are refused"),
        (On::Entries, How::Withheld, "nothing is served there (404)"),
        (On::Entries, How::Status(503), "refused with status 503"),
    ] {
        // Only what never ends is not waited for, however busy this machine is.
        let timeout = if words.contains("no complete answer") { "1500ms" } else { "60s" };
        let (code, text) = scene.fetch_within(timeout, Showing::newest(0).but(on, how.clone()), "bundle");
        assert_eq!((code, text.lines().count()), (1, 1), "{on:?} {how:?}: {text}");
        assert!(text.contains(words) && text.contains("the same command goes on"), "{on:?} {how:?}: {text}");
    }
    let (code, text) = scene.fetch(Showing::newest(0).but(On::Everything, drips), "bundle");
    assert_eq!(code, 0, "slow, and yet in time: {text}");
    assert_eq!(scene.fetch(Showing::newest(0), "alone").0, 0);
    assert!(contents(&scene.dir.path().join("bundle")) == contents(&scene.dir.path().join("alone")));
}

#[test]
fn what_is_none_of_the_heads_is_kept_once_and_not_downloaded_without_end() {
    let scene = Scene::new(10_000);
    for (on, how, words) in [
        (On::Tiles, How::Garbage, "do not make the head of size 10000"),
        (On::Tiles, How::OfHistory(1), "do not make the head of size 10000"),
        (On::Level(0), How::Garbage, "its hashes are not those its head"),
        (On::Entries, How::OfHistory(1), "its entries are not those its head"),
    ] {
        let out = format!("{on:?}-{how:?}");
        let (code, text) = scene.fetch(Showing::newest(0).but(on, how.clone()), &out);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, 1, "{on:?} {how:?}: {text}");
        assert!(text.contains("FAULT") && text.contains(words), "{on:?} {how:?}: {text}");
        assert!(text.matches("FAULT").count() <= 20, "{text}");
        let files = files_below(&scene.dir.path().join(&out)).len();
        assert!(files < 45 || text.matches("are not those").count() < 16, "{on:?} {how:?}: {files} files");
    }
    // The same directory, once the log has come to its senses.
    for out in ["Entries-OfHistory(1)", "Level(0)-Garbage"] {
        let (code, text) = scene.fetch(Showing::newest(0), out);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("fetched again"), "{text}");
    }
}

#[test]
fn a_head_of_a_size_that_nobody_can_serve_does_not_keep_the_rest_away() {
    let served = Served::new(world_of(300));
    let lie = |size: u64| {
        served.change(|stage| {
            let key = stage.world.as_ref().unwrap().log.key.log_key();
            let root = RootHash(merkle::leaf_hash(b"no tree"));
            let head = sign_checkpoint(&Checkpoint::new(Origin::from(key.name()), TreeSize(size), root), &key).unwrap();
            stage.instead.insert(String::from("log/checkpoint"), head.bytes().to_vec());
        });
    };
    for size in [u64::MAX, 1 << 40, 600] {
        lie(size);
        let (code, text) = served.fetch_to(&format!("of-{size}"), &[]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&format!("signed a head of size {size} and does not serve its tree")), "{text}");
        assert!(text.contains("301 entries"), "{text}");
    }
}

#[test]
fn pages_of_sixteen_mib_are_mirrored() {
    let mut world = World::new();
    world.log = TestLog::new("log.example/test", 1);
    (0..300u32).for_each(|number| world.log.push(vec![number as u8; 65_535]));
    world.seal();
    let served = Served::new(world);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(fs::metadata(served.path("bundle/log/tile/entries/000")).unwrap().len(), 256 * 65_537);
}

/// Its heads and witnesses are those of the world; its entries are no receipts.
fn foreign(entries: usize) -> World {
    let mut world = World::new();
    world.log = TestLog::new("log.example/test", 1);
    (0..entries).for_each(|number| world.log.push(format!("certificate {number}").into_bytes()));
    world.seal();
    world
}

#[test]
fn a_log_of_something_else_is_mirrored_and_its_heads_and_witnesses_are_judged() {
    let served = Served::new(foreign(700));
    served.change(|stage| stage.withheld = vec![String::from("log/heads/"), String::from("log/v1/")]);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("700 entries, 0 heads") && text.contains("no log of receipts"), "{text}");
    let asked = served.asked().iter().filter(|path| path.contains("/heads/")).count();
    assert!(asked <= 2, "a list that such a log does not have is not looked for: {asked}");
    let (code, text) = served.run(&["audit", "--policy", "policy", "--issuers", "issuers", "--json", "bundle"]);
    assert_eq!(code, 2, "{text}");
    let verdict: serde_json::Value = serde_json::from_str(&text).unwrap();
    let check = |name: &str| {
        let checks = verdict["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(check("root")["status"], "ok");
    assert_eq!(check("newest-head")["status"], "ok");
    let entries = check("entries");
    assert_eq!((&entries["status"], &entries["counts"]["no-receipts"]), (&"not_checked".into(), &1.into()));
    // Whoever expects receipts of a gate is not told that all is well.
    assert_eq!(check("gate.example/support-1")["counts"]["issuer-absent"], 1);
    // The same from a directory of files.
    served.change(|stage| stage.static_export = true);
    assert_eq!(served.fetch_to("static", &[]).0, 0);
    assert!(contents(&served.path("static")) == contents(&served.path("bundle")));
}

#[test]
fn one_receipt_makes_it_a_log_of_receipts_with_everything_else_malformed() {
    let mut world = World::new();
    let open = world.log.entries[0].clone();
    world.log = TestLog::new("log.example/test", 1);
    (0..300).for_each(|number| world.log.push(format!("certificate {number}").into_bytes()));
    world.log.push(open);
    world.seal();
    let served = Served::new(world);
    let (_, text) = served.fetch_to("bundle", &[]);
    assert!(text.contains("301 entries"), "{text}");
    let (code, text) = served.audit();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("malformed"), "{text}");
}

#[test]
fn a_log_of_receipts_without_its_list_of_heads_is_said_to_lack_it() {
    let served = Served::new(world_of(30));
    served.change(|stage| stage.withheld = vec![String::from("log/heads/")]);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("the list of all heads that the log ever signed: it serves none"), "{text}");
}

#[test]
fn on_a_full_disk_a_fetch_says_so_and_goes_on_when_there_is_room() {
    let served = Served::new(world_of(3000));
    let disk = served.path("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=640k", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        let words = b"SKIPPED: a fetch onto a full disk: a small disk cannot be mounted here\n";
        return std::io::stderr().write_all(words).unwrap();
    }
    let _unmounted_at_last = Unmounted(&disk);
    let (code, text) = served.fetch_to("disk/bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("No space left on device") && text.contains("run the same command again"), "{text}");
    let resized = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&disk).status().unwrap();
    assert!(resized.success());
    served.forget_asked();
    let (code, text) = served.fetch_to("disk/bundle", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("held already"), "{text}");
    assert_eq!(served.fetch_to("alone", &[]).0, 0);
    assert!(contents(&disk.join("bundle")) == contents(&served.path("alone")));
}

struct Unmounted<'path>(&'path Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
