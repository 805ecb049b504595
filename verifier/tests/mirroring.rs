//! `fetch` that is killed, goes on, takes over what an earlier bundle holds, and is told apart from a log that changed
//! its story.

use crate::served;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use served::world::{START_S, TestLog, World};
use served::{Served, contents, world_of};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Files under way at once, by the program's own word.
const AT_ONCE: usize = 16;

#[test]
fn a_fetch_that_is_killed_at_any_moment_goes_on_and_ends_with_the_same_bundle() {
    let rounds = if std::env::var_os("COUNTERFOIL_LONG").is_some() { 300 } else { 30 };
    let seed = std::env::var("COUNTERFOIL_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let served = Served::new(world_of(3000));
    assert_eq!(served.fetch_to("whole", &[]).0, 0);
    let whole = contents(&served.path("whole"));
    served.change(|stage| stage.delay = Duration::from_millis(2));
    let mut asked = 0;
    let mut lasted = Duration::from_millis(150);
    for round in 0..rounds {
        served.forget_asked();
        let mut child = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(["fetch", "--policy", "policy", "--out", "killed", "--wait", "0s"])
            .current_dir(served.dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(lasted.mul_f64(random.random_range(0.0..1.0)));
        let is_done = child.try_wait().unwrap().is_some();
        let _already_gone = child.kill();
        child.wait().unwrap();
        asked += served.asked().iter().filter(|path| path.contains("entries/")).count();
        // What is in place is whole, whenever it was killed.
        if served.path("killed").is_dir() {
            for (path, bytes) in contents(&served.path("killed")) {
                let is_whole = whole.get(&path) == Some(&bytes) || path.starts_with(".unfinished-");
                assert!(is_whole, "seed {seed}, round {round}: {path}");
            }
        }
        if is_done || random.random_range(0..10) == 0 {
            let _nothing_yet = fs::remove_dir_all(served.path("killed"));
            lasted = if is_done { lasted.mul_f64(0.8) } else { lasted };
            asked = 0;
        }
        let pages = 3001usize.div_ceil(256);
        assert!(asked <= pages + (round + 1) * AT_ONCE, "seed {seed}: {asked} pages were asked for, of {pages}");
    }
    served.change(|stage| stage.delay = Duration::ZERO);
    let (code, text) = served.fetch_to("killed", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(contents(&served.path("killed")) == whole, "seed {seed}: another bundle");
    served.forget_asked();
    assert_eq!(served.fetch_to("killed", &[]).0, 0);
    let again: Vec<String> = served.asked().into_iter().filter(|path| path.contains("/tile/")).collect();
    assert!(again.is_empty(), "what is held is not asked for again: {again:?}");
    assert!(contents(&served.path("killed")) == whole);
}

#[test]
fn an_earlier_bundle_of_which_nothing_can_be_taken_over_is_told_too() {
    let served = Served::new(world_of(30));
    assert_eq!(served.fetch_to("old", &[]).0, 0);
    let (code, text) = served.fetch_to("new", &["--since", "old"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("0 held already, none taken over from old (whole pages of 256 are), 31 fetched"), "{text}");
}

#[test]
fn an_earlier_bundle_is_taken_over_and_what_was_is_told() {
    let served = Served::new(world_of(600));
    assert_eq!(served.fetch_to("old", &[]).0, 0);
    let before = contents(&served.path("old"));
    served.grow(300);
    served.forget_asked();
    let (code, text) = served.fetch_to("new", &["--since", "old"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("entries 0 held already, 512 taken over from old, 389 fetched"), "{text}");
    let asked = served.asked();
    for path in ["tile/entries/000", "tile/entries/001", "tile/0/000", "tile/0/001"] {
        assert!(!asked.iter().any(|asked| *asked == format!("log/{path}")), "{path} was fetched");
    }
    assert_eq!(served.fetch_to("alone", &[]).0, 0);
    assert!(contents(&served.path("new")) == contents(&served.path("alone")), "the same as without it");
    assert!(contents(&served.path("old")) == before, "the earlier one is as it was");
    let inode = |path: &str| fs::metadata(served.path(path)).unwrap().ino();
    assert_eq!(inode("old/log/tile/entries/000"), inode("new/log/tile/entries/000"), "it takes no room twice");
    let (code, text) = served.audit_of("new");
    assert_eq!(code, 0, "{text}");
    let (_, json) = served.fetch_to("json", &["--since", "new", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["entries_taken_over"].as_u64(), json["entries_fetched"].as_u64()), (Some(768), Some(133)));
    // The bundle itself as the earlier one.
    served.grow(100);
    let (code, text) = served.fetch_to("new", &["--since", "new"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn damage_to_a_held_or_earlier_copy_is_put_right_and_told() {
    let served = Served::new(world_of(600));
    assert_eq!(served.fetch_to("old", &[]).0, 0);
    let whole = contents(&served.path("old"));
    // Hard links would be damaged with it.
    assert!(Command::new("cp").args(["-r", "old", "held"]).current_dir(served.dir.path()).status().unwrap().success());
    let damage = |path: &str, cut: bool| {
        let mut bytes = fs::read(served.path(path)).unwrap();
        if cut {
            bytes.clear()
        } else {
            bytes[40] ^= 1
        }
        fs::write(served.path(path), bytes).unwrap();
    };
    let paths = ["log/tile/entries/000", "log/tile/0/001", "log/tile/1/000.p/2", "log/tile/entries/002.p/89"];
    for (cut, out, more) in [(false, "held", &[][..]), (true, "held", &[]), (false, "new", &["--since", "old"])] {
        let of = if out == "new" { "old" } else { "held" };
        paths.iter().for_each(|path| damage(&format!("{of}/{path}"), cut));
        let (code, text) = served.fetch_to(out, more);
        assert_eq!(code, 0, "{text}");
        // What is no whole page or tile counts as not there; of an earlier bundle only full ones are looked at.
        assert_eq!(text.contains("damaged and fetched again"), !cut, "{text}");
        assert!(contents(&served.path(out)) == whole, "{out}");
    }
}

#[test]
fn only_a_finished_bundle_of_the_same_log_is_an_earlier_one() {
    let served = Served::new(world_of(30));
    let mut other = World::new();
    other.log = TestLog::new("log.example/other", 2);
    other.log_heartbeats(3);
    other.seal();
    let bundle = other.bundle();
    for path in audit::BundleSource::list(&bundle) {
        let place = served.path("other").join(&path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bundle.get(&path).unwrap()).unwrap();
    }
    fs::create_dir_all(served.path("begun/log/tile")).unwrap();
    fs::write(served.path("x.tar.zst"), "x").unwrap();
    for (since, code, words) in [
        ("other", 64, "log.example/other"),
        ("begun", 65, "not fetched to the end|no bundle that was fetched to the end"),
        ("absent", 65, "cannot read absent"),
        ("x.tar.zst", 64, "unpack it"),
    ] {
        let (got, text) = served.fetch_to("new", &["--since", since]);
        assert_eq!(got, code, "{since}: {text}");
        assert!(words.split('|').any(|words| text.contains(words)), "{since}: {text}");
        assert!(!served.path("new").exists(), "{since}: nothing is made");
    }
    // Nor is another log's bundle gone on with.
    let (code, text) = served.fetch_to("other", &[]);
    assert_eq!(code, 64, "{text}");
}

/// The same log with another history from the first entry on, as far as its gate is concerned.
fn second_history(receipts: usize) -> World {
    let mut world = World::new();
    world.now_ms += 5;
    world.log_heartbeats(receipts);
    world.seal();
    assert!(world.now_ms > START_S * 1000);
    world
}

#[test]
fn a_log_that_does_not_honour_the_earlier_bundle_is_said_to_and_both_heads_are_kept() {
    for receipts in [600, 700, 900, 300] {
        let served = Served::new(world_of(600));
        let first = if receipts == 600 { second_history(600) } else { second_history(receipts) };
        assert_eq!(served.fetch_to("old", &[]).0, 0);
        let before = contents(&served.path("old"));
        served.change(|stage| stage.world = Some(first));
        let (code, text) = served.fetch_to("new", &["--since", "old"]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("the log signed two histories: the earlier bundle holds a head of size 601"), "{text}");
        assert!(text.contains("nothing was taken over"), "{text}");
        assert!(contents(&served.path("old")) == before);
        let evidence = format!("evidence/log-fork-601-{}.json", receipts + 1);
        let (code, text) = served.run(&["evidence", &format!("new/{evidence}")]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("log.example/test signed two histories"), "{text}");
        let (code, text) = served.audit_of("new");
        assert!(code == 1 && text.contains("log-fork"), "{text}");
        // The new story is there in full.
        assert_eq!(served.fetch_to("alone", &[]).0, 0);
        let (mut new, alone) = (contents(&served.path("new")), contents(&served.path("alone")));
        assert!(new.remove(&evidence).is_some());
        assert!(new == alone, "{receipts}");
        // The earlier bundle is not mixed with it.
        let (code, text) = served.fetch_to("old", &[]);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("the log signed two histories: the bundle holds"), "{text}");
        let mut after = contents(&served.path("old"));
        assert!(after.remove(&evidence).is_some());
        assert!(after == before, "{receipts}");
    }
}

#[test]
fn a_log_that_went_back_is_said_to_and_the_larger_head_stays() {
    let mut world = world_of(300);
    let small = world.clone();
    world.log_heartbeats(200);
    world.seal();
    let served = Served::new(world);
    assert_eq!(served.fetch_to("old", &[]).0, 0);
    let before = contents(&served.path("old"));
    served.change(|stage| stage.world = Some(small));
    let (code, text) = served.fetch_to("old", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("the log went back: the bundle holds a head of size 501") && text.contains("of size 301"),
        "{text}"
    );
    let after = contents(&served.path("old"));
    for (path, bytes) in before.iter().filter(|(path, _)| path.starts_with("log/")) {
        assert!(after.get(path) == Some(bytes), "{path}");
    }
    assert!(after.contains_key("evidence/head-301.checkpoint"));
    let (code, text) = served.fetch_to("new", &["--since", "old"]);
    assert_eq!(code, 1, "{text}");
    assert!(served.path("new/evidence/head-501.checkpoint").is_file(), "{text}");
}

#[test]
fn a_journal_that_changes_its_story_does_not_change_the_copy_that_is_held() {
    let served = Served::new(world_of(30));
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    let journal = |of: &str| {
        let all = contents(&served.path(of)).into_iter();
        all.filter(|(path, _)| path.contains("witness-2.example/journal/")).collect::<Vec<_>>()
    };
    let before = journal("bundle");
    served.change(|stage| {
        let world = stage.world.as_mut().unwrap();
        let head = world.log.heads[0].clone();
        world.witnesses[1].journal = TestLog::new("witness-2.example/journal", 22);
        (0..3).for_each(|late| world.witnesses[1].journal_line(&head, "cosigned", START_S + 7 + late));
    });
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("do not contain the 2 that it showed before"), "{text}");
    assert!(journal("bundle") == before);
}

#[test]
fn the_end_of_the_list_of_heads_is_found_with_few_requests() {
    let mut world = World::new();
    for _ in 0..300 {
        world.log_heartbeats(1);
        world.log.seal();
    }
    world.seal();
    let served = Served::new(world);
    let heads_asked = || served.asked().iter().filter(|path| path.contains("/heads/")).count();
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    assert!(heads_asked() <= 14, "{:?}", served.asked());
    served.forget_asked();
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    assert_eq!(heads_asked(), 3, "no full page behind it, the one that is held, none that is wider");
    served.grow(1);
    served.forget_asked();
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    assert!(heads_asked() <= 5, "{:?}", served.asked());
    // A static copy has one width of it.
    served.change(|stage| stage.static_export = true);
    let (code, text) = served.fetch_to("static", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("302 heads"), "{text}");
    assert!(contents(&served.path("static")) == contents(&served.path("bundle")));
}

#[test]
fn damage_to_the_list_of_heads_accuses_nobody_and_a_list_that_became_shorter_is_said() {
    let mut world = World::new();
    for _ in 0..300 {
        world.log_heartbeats(1);
        world.log.seal();
    }
    world.seal();
    let served = Served::new(world.clone());
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    let whole = contents(&served.path("bundle"));
    let page = served.path("bundle/log/heads/000");
    let good = fs::read(&page).unwrap();
    let lines: Vec<usize> = good.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    // A letter of a root, which still reads as one.
    let mut bytes = good.clone();
    bytes[lines[1] + 5] = if bytes[lines[1] + 5] == b'A' { b'B' } else { b'A' };
    fs::write(&page, &bytes).unwrap();
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("log/heads/000: it holds a head that the log did not sign") && !text.contains("are not those"),
        "{text}"
    );
    // What reads as nothing is fetched again.
    bytes[lines[0]] = 0;
    fs::write(&page, &bytes).unwrap();
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 0, "{text}");
    assert!(contents(&served.path("bundle")) == whole);
    served.change(|stage| drop(stage.world.as_mut().unwrap().log.heads.drain(270..300)));
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("now shows 15, and showed 45 before"), "{text}");
}

#[test]
fn a_witness_that_takes_back_what_it_showed_is_said_to_and_its_head_is_kept() {
    let mut world = world_of(30);
    let before = world.witnesses[1].checkpoint.clone();
    world.log_heartbeats(20);
    world.seal();
    let served = Served::new(world);
    assert_eq!(served.fetch_to("bundle", &[]).0, 0);
    let held = fs::read(served.path("bundle/witness/witness-2.example/checkpoint")).unwrap();
    served.change(|stage| stage.world.as_mut().unwrap().witnesses[1].checkpoint = before);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("showed a head of size 51 before, and now shows one of size 31"), "{text}");
    assert!(fs::read(served.path("bundle/witness/witness-2.example/checkpoint")).unwrap() == held);
}
