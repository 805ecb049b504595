//! The program as its users meet it: exit codes, reports, damaged bundles on disk, archives.

use crate::world;
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

#[test]
fn what_an_auditor_always_gives_can_stand_in_a_file_beside_what_it_names() {
    let world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let config = desk.path("verify.toml");
    fs::write(&config, "policy = \"policy\"\nissuers = \"issuers\"\nthreads = 1\n").unwrap();
    let (config, bundle) = (config.display().to_string(), desk.text("bundle"));
    let by_file = run(&["audit", "--config", &config, "--json", &bundle]);
    assert_eq!((by_file.code, &by_file.out), (0, &desk.audit(&["--json"]).out), "{}", by_file.err);
    fs::write(desk.path("verify.toml"), "polcy = \"policy\"\n").unwrap();
    let misspelt = run(&["audit", "--config", &config, &bundle]);
    assert_eq!(misspelt.code, 64);
    assert!(misspelt.err.contains("did you mean `policy`?"), "{}", misspelt.err);
    assert_eq!(run(&["audit", "--config", &desk.text("nowhere"), &bundle]).code, 64);
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
    assert!(ok.out.starts_with("ok: all ") && ok.out.contains(" checks made are ok; "), "{}", ok.out);

    let world = attacked();
    let failed = Desk::new(&world, &world.bundle()).audit(&[]);
    assert_eq!(failed.code, 1, "{}", failed.out);
    assert!(failed.out.starts_with("FAIL: 3 checks failed; every other required one was made\n"), "{}", failed.out);

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
        &["--report", "pdf=x"],
        &["--report", "html=x,html=y"],
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
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
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
    assert!(nowhere.err.contains("name a file in a directory that exists"), "{}", nowhere.err);
}

#[test]
fn a_page_and_json_are_written_together_and_say_the_same() {
    let world = attacked();
    let desk = Desk::new(&world, &world.bundle());
    let (page, json) = (desk.text("verdict.html"), desk.text("verdict.json"));
    let run = desk.audit(&["--report", &format!("html={page},json={json}")]);
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert_eq!(fs::read_to_string(&json).unwrap(), desk.audit(&["--json"]).out);
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">") && page.ends_with("</html>"), "{page}");
    for told in [
        "3 checks failed",
        "R4_SEQUENCE/session",
        "id=\"receipt-1\"",
        "&quot;action_class&quot;:&quot;IDENTITY_MUTATION&quot;",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    // By another audit of the same the page is the same.
    let again = desk.text("again.html");
    desk.audit(&["--report", &format!("html={again}")]);
    assert_eq!(fs::read_to_string(&again).unwrap(), page);
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
    // What is no file of it is told alike.
    std::os::unix::fs::symlink("/etc/passwd", desk.path("bundle/log/link")).unwrap();
    fs::write(desk.path("bundle/log/notes"), "x").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    builder.append_dir_all(".", desk.path("bundle")).unwrap();
    fs::write(desk.path("bundle.tar.zst"), zstd::encode_all(&builder.into_inner().unwrap()[..], 3).unwrap()).unwrap();
    let (policy, issuers, archive) = (desk.text("policy"), desk.text("issuers"), desk.text("bundle.tar.zst"));
    let of_archive = run(&["audit", "--policy", &policy, "--issuers", &issuers, "--json", &archive]);
    assert!(of_archive.out.contains("a symbolic link: log/link") && of_archive.out.contains("log/notes"));
    assert_eq!((of_archive.code, of_archive.out), (1, desk.audit(&["--json"]).out));
    // As the usual programs pack it, by the command in the help.
    let command = "tar -C bundle -cf - . | zstd -q -f -o packed.tar.zst";
    let packed = Command::new("sh").args(["-c", command]).current_dir(desk.path("")).output().unwrap();
    if packed.status.success() {
        let packed = desk.text("packed.tar.zst");
        let of_packed = run(&["audit", "--policy", &policy, "--issuers", &issuers, "--json", &packed]);
        assert_eq!((of_packed.code, of_packed.out), (1, desk.audit(&["--json"]).out));
    } else {
        let words = format!("SKIPPED: a bundle packed by tar and zstd: {}\n", String::from_utf8_lossy(&packed.stderr));
        std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).unwrap();
    }
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

    // The two files the other way round.
    let swapped = run(&["proof", "--policy", &policy, &entry_file, &proof_file]);
    assert_eq!(swapped.code, 65);
    assert!(swapped.err.contains("give the proof first, then its entry"), "{}", swapped.err);

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
    assert_eq!(check(r#"{"kind":"perjury"}"#).code, 2);
    assert_eq!(check("hello").code, 65);
    assert_eq!(check("{}").code, 65);
}

#[test]
fn documents_are_written_to_files_that_stand_by_themselves_or_say_where_to_look() {
    let mut world = honest();
    world.log_heartbeats(1);
    let left_out = world.seal();
    world.log_heartbeats(1);
    world.seal();
    world.log.heads.retain(|head| head.checkpoint() != left_out.checkpoint());
    let desk = Desk::new(&world, &world.bundle());
    let dir = desk.text("found");
    let audited = desk.audit(&["--evidence", &dir]);
    assert_eq!(audited.code, 1, "{}", audited.err);
    let files: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [desk.path("found/001-omitted-head.json")]);
    let checked = run(&["evidence", &files[0].display().to_string()]);
    assert_eq!(checked.code, 2, "{}", checked.err);
    let told = checked.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("signed a head of size 22") && told.contains("convicts nobody"), "{told}");
    let again = desk.audit(&["--evidence", &dir]);
    assert_eq!((again.code, again.err.contains("is not empty")), (64, true), "{}", again.err);
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
    // One witness with two keys.
    let two_keys = |number: u8| {
        let name = note::KeyName::new("witness.example/1").unwrap();
        note::SigningKey::from_seed(name, note::KeyKind::CosignatureV1, [number; 32]).verifier()
    };
    for (threshold, agree) in
        [("any", "1 witness must cosign s"), ("all", "1 witness must cosign, with at least 2 keys")]
    {
        let (old, new) = (two_keys(1), two_keys(2));
        let text = format!("witness old {old}\nwitness new {new}\ngroup q {threshold} old new\nquorum q\n");
        fs::write(desk.path("policy"), text).unwrap();
        let told = run_policy(&[]).out.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in ["q; 1 witness with 2 keys can count", agree, "only if 1 witness lies", "can block the quorum"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let json: serde_json::Value = serde_json::from_str(&run_policy(&["--json"]).out).unwrap();
        let numbers =
            ["witnesses", "keys", "liars_for_split_view", "max_silent"].map(|name| json[name].as_u64().unwrap());
        assert_eq!((numbers, &json["exact"]), ([1, 2, 1, 0], &serde_json::Value::Bool(true)));
    }
}

#[test]
fn an_audit_goes_on_from_the_state_that_an_earlier_one_saved() {
    let mut world = honest();
    let desk = Desk::new(&world, &world.bundle());
    let (state, next) = (desk.text("state"), desk.text("next"));
    let first = desk.audit(&["--save-state", &state]);
    assert_eq!((first.code, first.err.as_str()), (0, ""), "{}", first.out);
    world.log_heartbeats(10);
    world.seal();
    fs::remove_dir_all(desk.path("bundle")).unwrap();
    write_bundle(&desk.path("bundle"), &world.bundle());
    let second = desk.audit(&["--since", &state, "--save-state", &next]);
    assert_eq!(second.code, 0, "{}", second.err);
    let said = second.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("31 entries: 21 judged by the earlier audit"), "{said}");
    assert!(fs::metadata(&next).unwrap().len() > 0);

    // Other terms, a damaged state, none at all: each in one line that says what to do.
    for (arguments, words) in [
        (vec!["--since", &state, "--outcome-deadline", "5m"], "audit in full"),
        (vec!["--since", "/dev/null"], "no saved state"),
        (vec!["--since", "/nonexistent"], "cannot read"),
    ] {
        let refused = desk.audit(&arguments);
        assert_eq!(refused.code, 65, "{arguments:?}");
        assert!(refused.err.contains(words) && refused.err.lines().count() == 1, "{}", refused.err);
    }
    // Nothing is saved of what no head vouches for, and the verdict is not kept back.
    fs::remove_file(desk.path("bundle/log/tile/entries/000.p/31")).unwrap();
    let cut = desk.audit(&["--save-state", &desk.text("none")]);
    assert_eq!(cut.code, 2);
    assert!(cut.err.contains("no state was saved"), "{}", cut.err);
    assert!(!desk.path("none").exists());
}

#[test]
fn a_file_meant_for_something_else_is_refused_in_a_short_line_that_says_what_to_give() {
    let desk = TempDir::new().unwrap();
    let long = desk.path().join("long").display().to_string();
    fs::write(&long, format!("{}\n", "x".repeat(70_000))).unwrap();
    for arguments in
        [&["policy", &long][..], &["audit", "--policy", &long, "--issuers", &long, "bundle"], &["evidence", &long]]
    {
        let refused = run(arguments);
        assert_eq!((refused.code, refused.out.as_str()), (65, ""), "{arguments:?}");
        assert!(refused.err.len() < 1000, "{arguments:?}: {} bytes", refused.err.len());
    }
}
