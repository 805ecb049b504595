//! `compare` as its users meet it: exit codes, sentences, bundles on disk and in archives.

use crate::world;
use audit::{BundleSource, MemoryBundle};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use world::World;

/// A run of the program.
struct Run {
    code: i32,
    out: String,
    err: String,
}

struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new(policy: &str, bundles: &[(&str, &MemoryBundle)]) -> Desk {
        let desk = Desk { dir: tempfile::tempdir().unwrap() };
        fs::write(desk.path("policy"), policy).unwrap();
        for (name, bundle) in bundles {
            write_bundle(&desk.path(name), bundle);
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn compare(&self, arguments: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(["compare", "--policy", "policy"])
            .args(arguments)
            .current_dir(self.dir.path())
            .env_remove("COUNTERFOIL_ISSUERS")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn write_bundle(dir: &Path, bundle: &MemoryBundle) {
    for path in bundle.list() {
        let place = dir.join(&path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, bundle.get(&path).unwrap()).unwrap();
    }
}

fn honest() -> World {
    let mut world = World::new();
    world.log_heartbeats(10);
    world.seal();
    world
}

/// A second history of the same log, from the eleventh entry on.
fn grown(world: &World, gate: Option<&str>) -> World {
    let mut world = world.clone();
    let gate = gate.map_or(0, |name| world.add_gate(name));
    for _ in 0..5 {
        world.log_body(gate, r#"{"type":"heartbeat"}"#);
    }
    world.seal();
    world
}

#[test]
fn exit_codes_of_compare_are_the_contract() {
    let world = honest();
    let (old, new) = (world.bundle(), grown(&world, None).bundle());
    let other = grown(&world, Some("gate.example/other")).bundle();
    let mut bare = other.clone();
    other.list().iter().filter(|path| path.contains("/journal/")).for_each(|path| drop(bare.remove(path)));
    let desk = Desk::new(
        &world.policy_text(),
        &[("old", &old), ("copy", &old), ("new", &new), ("other", &other), ("bare", &bare)],
    );
    let ok = desk.compare(&["old", "copy"]);
    assert_eq!((ok.code, ok.err.as_str()), (0, ""), "{}", ok.out);
    let headline = "ok: the bundles are one history; each of them still needs an audit of its own\n";
    assert!(ok.out.starts_with(headline), "{}", ok.out);
    let older = desk.compare(&["old", "new"]);
    assert_eq!(older.code, 0, "{}", older.out);
    assert!(older.out.contains("bundle 1 is an older copy"), "{}", older.out);
    let forked = desk.compare(&["old", "new", "other"]);
    assert_eq!(forked.code, 1, "{}", forked.out);
    assert!(forked.out.starts_with("FAIL: the bundles contradict each other"), "{}", forked.out);
    let incomplete = desk.compare(&["bare", "other"]);
    assert_eq!(incomplete.code, 2, "{}", incomplete.out);
    assert!(incomplete.out.starts_with("not checked: no contradiction was found"), "{}", incomplete.out);
    assert!(incomplete.out.contains("journal-not-compared"), "{}", incomplete.out);
    for arguments in [&["old"][..], &[], &["old", "new", "--colour"]] {
        assert_eq!(desk.compare(arguments).code, 64, "{arguments:?}");
    }
    let unreadable = desk.compare(&["old", "nowhere"]);
    assert_eq!((unreadable.code, unreadable.out.as_str()), (65, ""), "{}", unreadable.err);
    fs::write(desk.path("policy"), "nonsense\n").unwrap();
    assert_eq!(desk.compare(&["old", "new"]).code, 65);
}

#[test]
fn bundles_of_two_logs_are_refused_with_both_names() {
    let world = honest();
    let mut elsewhere = World::new();
    elsewhere.log = world::TestLog::new("log.example/elsewhere", 2);
    elsewhere.log_heartbeats(3);
    elsewhere.seal();
    let vkey = elsewhere.log.key.log_key().verifier();
    let bundles = [("here", &world.bundle()), ("there", &elsewhere.bundle())];
    let desk = Desk::new(&format!("log {vkey}\n{}", world.policy_text()), &bundles);
    let refused = desk.compare(&["here", "there"]);
    assert_eq!((refused.code, refused.out.as_str()), (64, ""));
    assert!(
        refused.err.contains("log.example/test") && refused.err.contains("log.example/elsewhere"),
        "{}",
        refused.err
    );
    assert_eq!(refused.err.lines().count(), 1);
    // Of the second the policy knows no key.
    let desk = Desk::new(&world.policy_text(), &bundles);
    let refused = desk.compare(&["here", "there"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("bundle 2 cannot be compared"), "{}", refused.err);
}

#[test]
fn the_text_fits_80_columns_and_the_json_holds_evidence_that_the_program_takes() {
    let world = honest();
    let one = grown(&world, None).bundle();
    let mut other = grown(&world, Some("gate.example/\u{202e}other")).bundle();
    other.insert("proofs/\u{202e}\u{1b}[31m.tlog-proof", "x");
    let desk = Desk::new(&world.policy_text(), &[("one", &one), ("other\u{1b}[2J", &other)]);
    let run = desk.compare(&["one", "other\u{1b}[2J"]);
    assert_eq!(run.code, 1, "{}", run.out);
    for line in run.out.lines() {
        // A single word that is longer is never broken.
        let fits = line.chars().count() <= 80 || !line.trim_start().contains(' ');
        assert!(fits, "{} columns: {line}", line.chars().count());
        assert!(line.chars().all(|character| matches!(character, ' '..='~')), "{line:?}");
    }
    let json = desk.compare(&["--json", "one", "other\u{1b}[2J"]);
    assert_eq!((json.code, json.out.lines().count()), (1, 1));
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((value["exit_code"].as_u64(), value["bundles"][1]["path"].as_str()), (Some(1), Some("other\u{1b}[2J")));
    let documents = value["evidence"].as_array().unwrap();
    assert!(documents.iter().any(|document| document["kind"] == "log-fork"), "{value}");
    for document in documents {
        fs::write(desk.path("evidence.json"), document.to_string()).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .arg("evidence")
            .arg(desk.path("evidence.json"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_archive_is_a_bundle_too() {
    let world = honest();
    let desk = Desk::new(&world.policy_text(), &[("old", &world.bundle())]);
    let new = grown(&world, None).bundle();
    let mut archive = tar::Builder::new(Vec::new());
    for path in new.list() {
        let bytes = new.get(&path).unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, &path, bytes).unwrap();
    }
    let tar = archive.into_inner().unwrap();
    fs::write(desk.path("new.tar.zst"), zstd::encode_all(&tar[..], 1).unwrap()).unwrap();
    let run = desk.compare(&["new.tar.zst", "old"]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("bundle 2 is an older copy"), "{}", run.out);
}
