//! The program as its users meet it: exit codes, reports, damaged bundles on disk, archives.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../crates/audit/tests/world/mod.rs"]
mod world;

use audit::{BundleSource, MemoryBundle};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use world::{World, decision};

/// A run of the program.
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn run(arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
        .args(arguments)
        .env_remove("COUNTERFOIL_POLICY")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().expect("no signal ended it"), out: text(output.stdout), err: text(output.stderr) }
}

/// The auditor's desk: a world's policy, issuers and bundle on disk.
struct Desk {
    dir: TempDir,
}

impl Desk {
    fn new(world: &World, bundle: &MemoryBundle) -> Desk {
        let desk = Desk { dir: tempfile::tempdir().unwrap() };
        fs::write(desk.path("policy"), world.policy_text()).unwrap();
        fs::write(desk.path("issuers"), world.issuers_text()).unwrap();
        write_bundle(&desk.path("bundle"), bundle);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn audit(&self, more: &[&str]) -> Run {
        let (policy, issuers, bundle) = (self.text("policy"), self.text("issuers"), self.text("bundle"));
        let mut arguments = vec!["audit", "--policy", &policy, "--issuers", &issuers];
        arguments.extend(more);
        arguments.push(&bundle);
        run(&arguments)
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
    world.log_heartbeats(20);
    world.seal();
    world
}

fn attacked() -> World {
    let mut world = World::new();
    world.log_body(0, &decision("1", true, "IDENTITY_MUTATION", "s1", "r1", "u1").to_string());
    world.log_body(0, &decision("2", true, "CREDENTIAL_RECOVERY", "s1", "r1", "u1").to_string());
    world.seal();
    world
}

#[test]
fn exit_codes_of_audit_are_the_contract() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let ok = desk.audit(&[]);
    assert_eq!(ok.code, 0, "{}{}", ok.out, ok.err);
    assert!(ok.out.starts_with("ok: every required check is ok\n"), "{}", ok.out);

    let world = attacked();
    let failed = Desk::new(&world, &world.bundle()).audit(&[]);
    assert_eq!(failed.code, 1, "{}", failed.out);
    assert!(failed.out.starts_with("FAIL: at least one check failed\n"));

    let mut bundle = honest().bundle();
    bundle.remove("witness/witness-2.example/checkpoint");
    let incomplete = Desk::new(&honest(), &bundle).audit(&[]);
    assert_eq!(incomplete.code, 2, "{}", incomplete.out);
    assert!(incomplete.out.starts_with("not checked: nothing failed"));
}

#[test]
fn a_directory_that_is_no_bundle_is_refused_in_one_line() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    fs::rename(desk.path("bundle/log"), desk.path("bundle/elsewhere")).unwrap();
    let refused = desk.audit(&[]);
    assert_eq!((refused.code, refused.out.as_str(), refused.err.lines().count()), (65, "", 1), "{}", refused.err);
    assert!(refused.err.contains("is no bundle"), "{}", refused.err);
}

#[test]
fn wrong_usage_is_64_and_unreadable_input_65() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    for arguments in [&["audit"][..], &["judge"], &["audit", "--colour", "x"]] {
        assert_eq!(run(arguments).code, 64, "{arguments:?}");
    }
    for more in [
        &["--at", "noon"][..],
        &["--max-age", "10m"],
        &["--max-age", "ten", "--at", "2026-11-29T12:00:00Z"],
        &["--report", "html=x"],
        &["--threads", "x"],
    ] {
        let run = desk.audit(more);
        assert_eq!(run.code, 64, "{more:?}: {}", run.err);
    }
    for file in ["policy", "issuers"] {
        let desk = Desk::new(&world, &world.bundle());
        fs::write(desk.path(file), "nonsense\n").unwrap();
        let run = desk.audit(&[]);
        assert_eq!(run.code, 65, "{file}: {}", run.err);
        assert!(run.err.contains("line 1"), "{}", run.err);
        fs::remove_file(desk.path(file)).unwrap();
        assert_eq!(desk.audit(&[]).code, 65);
    }
    fs::write(desk.path("rules"), "[[sequenec]]").unwrap();
    assert_eq!(desk.audit(&["--rules", &desk.text("rules")]).code, 65);
    fs::remove_dir_all(desk.path("bundle")).unwrap();
    assert_eq!(desk.audit(&[]).code, 65);
    fs::write(desk.path("bundle"), "hello").unwrap();
    let run = desk.audit(&[]);
    assert_eq!((run.code, run.out.as_str()), (65, ""));
    assert_eq!(run.err.lines().count(), 1, "one line: {}", run.err);
    assert_eq!(run_help(), 0);
}

fn run_help() -> i32 {
    let help = run(&["--help"]);
    assert!(help.out.contains("Examples:") && help.out.contains("Exit codes:"), "{}", help.out);
    assert!(run(&["--version"]).out.starts_with("counterfoil-verify "));
    help.code
}

#[test]
fn reports_fit_80_columns_and_obey_no_receipt() {
    let mut world = attacked();
    let hostile = "\u{202e}\u{1b}[2J\u{1b}]0;pwned\u{7}\u{9b}31m";
    for request in ["3", "4"] {
        let class = if request == "3" { "IDENTITY_MUTATION" } else { "CREDENTIAL_RECOVERY" };
        let mut body = decision(request, true, class, hostile, &"long ".repeat(100), "u9");
        body["prior_action_classes"] = serde_json::json!([hostile, "x".repeat(300)]);
        world.log_body(0, &body.to_string());
    }
    world.log_body(0, &format!(r#"{{"type":"foreign","format":"{}","receipt":1}}"#, "\\u202e\\u001b[31m"));
    world.seal();
    let mut bundle = world.bundle();
    bundle.insert("\u{202e}notes\u{1b}[31m", "x");
    let desk = Desk::new(&world, &bundle);
    let run = desk.audit(&[]);
    assert_eq!(run.code, 1);
    for line in run.out.lines() {
        // A single word that is longer is never broken.
        let fits = line.chars().count() <= 80 || !line.trim_start().contains(' ');
        assert!(fits, "{} columns: {line}", line.chars().count());
        assert!(line.chars().all(|character| matches!(character, ' '..='~')), "{line:?}");
    }
    assert!(
        run.out.contains("sequence-forbidden")
            && run.out.contains("prior-classes-differ")
            && run.out.contains("\\u{202e}"),
        "{}",
        run.out
    );

    let json = desk.audit(&["--json"]);
    assert_eq!((json.code, json.out.lines().count()), (1, 1));
    assert!(json.out.trim_end().chars().all(|character| matches!(character, ' '..='~')));
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((value["exit_code"].as_u64(), value["overall"].as_str()), (Some(1), Some("fail")));
}

#[test]
fn a_report_in_json_is_written_beside_the_text() {
    let world = attacked();
    let desk = Desk::new(&world, &world.bundle());
    let file = desk.text("report.json");
    let run = desk.audit(&["--report", &format!("json={file}")]);
    assert!(run.out.starts_with("FAIL"), "{}", run.out);
    let value: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let checks: Vec<String> = value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| format!("{}/{}", check["family"].as_str().unwrap(), check["name"].as_str().unwrap()))
        .collect();
    assert!(
        checks.contains(&String::from("head/root")) && checks.contains(&String::from("sequence/R4_SEQUENCE/subject")),
        "{checks:?}"
    );
    let finding = &value["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "R4_SEQUENCE/session")
        .unwrap()["findings"][0];
    assert_eq!(finding["code"], "sequence-forbidden");
    assert_eq!(
        (finding["receipts"][0]["index"].as_u64(), finding["receipts"][1]["index"].as_u64()),
        (Some(1), Some(2))
    );
    let nowhere = desk.audit(&["--report", "json=/nonexistent/report.json"]);
    assert_eq!(nowhere.code, 1);
}

#[test]
fn time_age_and_rules_are_taken_from_the_command_line() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let at = |seconds: u64| audit::time::show_time(receipt::UnixMillis(world.now_ms + seconds * 1000));
    assert_eq!(desk.audit(&["--at", &at(60), "--max-age", "60s"]).code, 0);
    let stale = desk.audit(&["--at", &at(61), "--max-age", "1m"]);
    assert_eq!(stale.code, 1);
    assert!(stale.out.contains("stale"));
    let rule = "[[sequence]]\ncode = \"MINE\"\nfirst = [\"A\"]\nthen = [\"B\"]\nscope = \"session\"\n";
    fs::write(desk.path("rules"), rule).unwrap();
    let run = desk.audit(&["--rules", &desk.text("rules")]);
    assert!(run.out.contains("MINE/session") && !run.out.contains("R4_SEQUENCE"), "{}", run.out);
}

#[test]
fn an_archive_is_judged_like_the_directory() {
    let world = attacked();
    let bundle = world.bundle();
    let desk = Desk::new(&world, &bundle);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", desk.path("bundle")).unwrap();
    fs::write(desk.path("bundle.tar.zst"), zstd::encode_all(&builder.into_inner().unwrap()[..], 3).unwrap()).unwrap();
    let (policy, issuers, archive) = (desk.text("policy"), desk.text("issuers"), desk.text("bundle.tar.zst"));
    let of_archive = run(&["audit", "--policy", &policy, "--issuers", &issuers, "--json", &archive]);
    assert_eq!((of_archive.code, of_archive.out), (1, desk.audit(&["--json"]).out));
    let bytes = fs::read(&archive).unwrap();
    fs::write(&archive, &bytes[..bytes.len() - 20]).unwrap();
    assert_eq!(run(&["audit", "--policy", &policy, "--issuers", &issuers, &archive]).code, 65);
}

#[test]
fn damaged_bundles_on_disk_never_end_ok() {
    let world = honest();
    let bundle = world.bundle();
    let desk = Desk::new(&world, &bundle);
    for path in bundle.list() {
        let place = desk.path("bundle").join(&path);
        let bytes = bundle.get(&path).unwrap();
        let mut flipped = bytes.to_vec();
        // In the last signature of a note or page, in the last hash of a tile. (In the name of a line it would make
        // the line a stranger's, which nobody has to look at.)
        let place_of_flip = flipped.len() - 5;
        flipped[place_of_flip] ^= 0x20;
        for damage in [Some(&bytes[..bytes.len() / 2]), Some(&[][..]), Some(&flipped[..]), None] {
            match damage {
                Some(damage) => fs::write(&place, damage).unwrap(),
                None => fs::remove_file(&place).unwrap(),
            }
            let run = desk.audit(&[]);
            assert!(matches!(run.code, 1 | 2 | 65), "{path} {:?}: {} {}", damage.map(<[u8]>::len), run.code, run.out);
        }
        fs::write(&place, bytes).unwrap();
    }
    // A link in place of a file is no file.
    let place = desk.path("bundle/log/checkpoint");
    fs::rename(&place, desk.path("checkpoint")).unwrap();
    std::os::unix::fs::symlink(desk.path("checkpoint"), &place).unwrap();
    assert_eq!(desk.audit(&[]).code, 2);
}

#[test]
fn one_receipt_is_checked_by_its_proof() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let (proof, entry) = world.proof(7);
    fs::write(desk.path("r.tlog-proof"), &proof).unwrap();
    fs::write(desk.path("r.entry"), &entry).unwrap();
    let (policy, issuers, proof_file, entry_file) =
        (desk.text("policy"), desk.text("issuers"), desk.text("r.tlog-proof"), desk.text("r.entry"));
    let check = |more: &[&str]| {
        let mut arguments = vec!["proof", "--policy", &policy];
        arguments.extend(more);
        arguments.extend([proof_file.as_str(), entry_file.as_str()]);
        run(&arguments)
    };
    let ok = check(&["--issuers", &issuers]);
    assert_eq!(ok.code, 0, "{}{}", ok.out, ok.err);
    assert!(
        ok.out.contains("seq 7 of gate.example/support-1") && ok.out.contains("quorum met by witness-1.example"),
        "{}",
        ok.out
    );
    let json: serde_json::Value = serde_json::from_str(&check(&["--json"]).out).unwrap();
    assert_eq!((json["index"].as_u64(), json["seq"].as_u64()), (Some(7), Some(7)));

    // An issuer that the auditor does not know; one whose key is another.
    fs::write(&issuers, "").unwrap();
    assert_eq!(check(&["--issuers", &issuers]).code, 2);
    fs::write(&issuers, format!("{}\n", world::key("gate.example/support-1", note::KeyKind::Ed25519, 99).verifier()))
        .unwrap();
    assert_eq!(check(&["--issuers", &issuers]).code, 2, "it may have been rotated");

    let mut other = entry.clone();
    other[3] ^= 1;
    fs::write(&entry_file, other).unwrap();
    assert_eq!(check(&[]).code, 1);
    fs::write(&entry_file, &entry).unwrap();
    fs::write(&proof_file, "hello").unwrap();
    assert_eq!(check(&[]).code, 65);

    let mut lonely = honest();
    lonely.log_heartbeats(1);
    lonely.seal_for(&[0]);
    fs::write(&proof_file, lonely.proof(7).0).unwrap();
    let refused = check(&[]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("quorum"), "{}", refused.err);
}

#[test]
fn evidence_stands_by_itself_or_shows_nothing() {
    let mut world = honest();
    let mut second = world::TestLog::new("log.example/test", 1);
    (0..21u8).for_each(|byte| second.push(vec![byte]));
    let forked = second.seal();
    world.witnesses[0].journal_line(&forked, "fork", world::START_S);
    let desk = Desk::new(&world, &world.bundle());
    let report = desk.text("report.json");
    let audited = desk.audit(&["--report", &format!("json={report}")]);
    assert!(audited.out.contains("1 evidence document was made"), "{}", audited.out);
    let value: serde_json::Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let file = desk.text("fork.json");
    let check = |document: &str| {
        fs::write(&file, document).unwrap();
        run(&["evidence", &file])
    };
    let document = value["evidence"][0].to_string();
    let stands = check(&document);
    assert_eq!(stands.code, 0, "{}", stands.err);
    assert!(stands.out.contains("The log log.example/test signed two histories"), "{}", stands.out);
    let key = world.log.key.log_key().verifier().to_string();
    assert!(stands.out.lines().any(|line| line.split(' ').any(|word| word == key)), "a key is copied: {}", stands.out);
    assert_eq!(check(&document.replace("\\n21\\n", "\\n22\\n")).code, 1);
    assert_eq!(check(r#"{"kind":"omitted-head"}"#).code, 2);
    assert_eq!(check("hello").code, 65);
    assert_eq!(check("{}").code, 65);
}

#[test]
fn a_policys_tolerance_is_told() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let run_policy = |more: &[&str]| run(&[&["policy"], more, &[desk.text("policy").as_str()]].concat());
    let mut told = run_policy(&[]);
    assert_eq!(told.code, 0);
    told.out = told.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.out.contains("at least 2 witnesses must cosign") && told.out.contains("only if 1 witness lies"),
        "{}",
        told.out
    );
    let json: serde_json::Value = serde_json::from_str(&run_policy(&["--json"]).out).unwrap();
    assert_eq!((json["witnesses"].as_u64(), json["max_silent"].as_u64()), (Some(3), Some(1)));
    fs::write(desk.path("policy"), "quorum none\n").unwrap();
    assert!(run_policy(&[]).out.contains("none: no witness is asked"));
}
