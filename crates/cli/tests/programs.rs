//! The program as its users meet it, against a strict log.

use crate::strict_log;
use note::{KeyKind, SigningKey, VerifierKey};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use strict_log::{Misbehaviour, StrictLog, log_key, witness_key};

/// A gate's directory, its key, and a log that knows it.
struct Gate {
    dir: tempfile::TempDir,
    key: SigningKey,
    log: StrictLog,
}

impl Gate {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = call(&[
            "keygen",
            "--kind",
            "issuer",
            "--name",
            "gate.example/a",
            "--out",
            dir.path().join("gate.key").to_str().unwrap(),
        ]);
        assert_eq!(code(&made), 0, "{made:?}");
        let key =
            SigningKey::from_private_text(fs::read_to_string(dir.path().join("gate.key")).unwrap().trim_end()).unwrap();
        assert_eq!(text(&made.stdout).trim_end(), key.verifier().to_string());
        let log = StrictLog::start(&[&key]).await;
        let gate = Self { dir, key, log };
        let config = format!(
            "log = \"{}\"\nlog_key = \"{}\"\nkey = \"gate.key\"\noutbox = \"outbox\"\ngive_up_s = 600\n",
            gate.log.url,
            log_key().verifier()
        );
        fs::write(gate.path("gate.toml"), config).unwrap();
        gate
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Calls the program with this gate's configuration.
    async fn call(&self, words: &[&str]) -> Output {
        let (split, config) = (if words[0] == "outbox" { 2 } else { 1 }, self.path("gate.toml"));
        let mut all = words[..split].to_vec();
        all.extend(["--config", config.to_str().unwrap()]);
        all.extend(&words[split..]);
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        tokio::task::spawn_blocking(move || call(&all.iter().map(String::as_str).collect::<Vec<_>>())).await.unwrap()
    }

    fn logged(&self) -> Vec<String> {
        self.log.bodies(&self.key).into_iter().skip(1).collect()
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterfoil"));
    command.stdin(Stdio::null());
    command
}

fn call(words: &[&str]) -> Output {
    program().args(words).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn lines(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!(r#"{{"type":"heartbeat","number":{number}}}"#)).collect()
}

fn jsonl(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_comes_out_for_each_that_went_in_and_a_second_run_submits_nothing_twice() {
    let gate = Gate::new().await;
    let file = gate.file("in.jsonl", &jsonl(&lines(0, 300)));
    let first = gate.call(&["submit", &file]).await;
    assert_eq!(code(&first), 0, "{}", text(&first.stderr));
    let listed: Vec<Vec<&str>> = text(&first.stdout).lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(listed.len(), 300);
    for (place, words) in listed.iter().enumerate() {
        assert_eq!(
            (words[0], words[1].len(), words[2]),
            ((place + 1).to_string().as_str(), 64, (place + 1).to_string().as_str())
        );
    }
    assert_eq!(gate.logged(), lines(0, 300));
    // The same again, longer: the old lines are listed as they were, the new ones are new.
    gate.file("in.jsonl", &jsonl(&lines(0, 310)));
    let second = gate.call(&["submit", &file]).await;
    assert_eq!(code(&second), 0);
    assert!(text(&second.stdout).starts_with(text(&first.stdout)));
    assert!(text(&second.stderr).contains("300 of the lines were in the outbox already"), "{}", text(&second.stderr));
    assert_eq!(gate.logged(), lines(0, 310));
    // Once more on purpose; and a file that was replaced is new from its first line on.
    assert_eq!(code(&gate.call(&["submit", "--again", &file]).await), 0);
    assert_eq!(gate.logged().len(), 620);
    gate.file("in.jsonl", &jsonl(&lines(5, 7)));
    let replaced = gate.call(&["submit", "--json", &file]).await;
    let answer: Value = serde_json::from_str(text(&replaced.stdout).lines().next().unwrap()).unwrap();
    assert_eq!((&answer["seq"], &answer["index"], &answer["cosigned"]), (&621.into(), &621.into(), &false.into()));
    assert_eq!(gate.logged().len(), 622);
    gate.log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_killed_at_random_moments_and_run_again_submits_every_line_once() {
    let gate = Gate::new().await;
    gate.log.lock().otherwise = |batch| match batch % 5 {
        1 => Some(Misbehaviour::Unavailable),
        3 => Some(Misbehaviour::DropAfterCommit),
        _ => None,
    };
    let all = lines(0, 2_000);
    let file = gate.file("in.jsonl", &jsonl(&all));
    let config = gate.path("gate.toml");
    let seed = u64::from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos());
    eprintln!("seed {seed}");
    let mut random = seed;
    for _ in 0..12 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child =
            program().args(["submit", "--config"]).arg(&config).arg(&file).stdout(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(5 + (random >> 33) % 120)).await;
        // It may have ended by itself: then it had everything.
        let _ended_already = child.kill();
        child.wait().unwrap();
    }
    let last = gate.call(&["submit", &file]).await;
    assert_eq!(code(&last), 0, "{}", text(&last.stderr));
    assert_eq!(text(&last.stdout).lines().count(), 2_000);
    assert!(gate.logged() == all, "the log holds other lines than the file");
    gate.log.assert_spotless();
    let verified = gate.call(&["outbox", "verify"]).await;
    assert_eq!(code(&verified), 0, "{}", text(&verified.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_stays_open_has_its_lines_listed_as_they_come() {
    let gate = Gate::new().await;
    let mut child = program()
        .args(["submit", "--config"])
        .arg(gate.path("gate.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    tokio::task::spawn_blocking(move || {
        let mut listed = std::io::BufRead::lines(std::io::BufReader::new(stdout));
        for (place, line) in lines(0, 3).iter().enumerate() {
            writeln!(stdin, "{line}").unwrap();
            assert!(listed.next().unwrap().unwrap().starts_with(&format!("{} ", place + 1)));
        }
        drop(stdin);
        assert!(listed.next().is_none());
    })
    .await
    .unwrap();
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_stops_behind_the_good_ones_and_its_correction_goes_on_from_there() {
    let gate = Gate::new().await;
    let mut input = lines(0, 5);
    input[3] = r#"{"type":"note","password":"hunter2hunter2hunter2"}"#.into();
    let file = gate.file("in.jsonl", &jsonl(&input));
    let stopped = gate.call(&["submit", &file]).await;
    assert_eq!(code(&stopped), 65, "{}", text(&stopped.stderr));
    assert!(
        text(&stopped.stderr).contains("line 4: /password") && !text(&stopped.stderr).contains("hunter2"),
        "{}",
        text(&stopped.stderr)
    );
    assert_eq!(text(&stopped.stdout).lines().count(), 3);
    gate.file("in.jsonl", &jsonl(&lines(0, 5)));
    assert_eq!(code(&gate.call(&["submit", &file]).await), 0);
    assert_eq!(gate.logged(), lines(0, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelled_type_is_told_once_and_logged_and_an_object_over_several_lines_is_told_the_rule() {
    let gate = Gate::new().await;
    let input: Vec<String> = (0..3).map(|number| format!(r#"{{"type":"decison","number":{number}}}"#)).collect();
    let file = gate.file("in.jsonl", &jsonl(&input));
    let taken = gate.call(&["submit", &file]).await;
    let told = r#"line 1: type "decison" is not one this version knows; it is logged as it stands"#;
    assert_eq!((code(&taken), text(&taken.stderr).matches("decison").count()), (0, 1), "{}", text(&taken.stderr));
    assert!(text(&taken.stderr).contains(told), "{}", text(&taken.stderr));
    assert_eq!(gate.logged(), input);
    let pretty = gate.file("pretty.json", "{\n  \"type\": \"heartbeat\"\n}\n");
    let refused = gate.call(&["submit", &pretty]).await;
    let said = text(&refused.stderr);
    assert_eq!(code(&refused), 65, "{said}");
    assert!(said.contains("one object must stand on one line") && !said.contains("the lines before"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_log_that_is_away_did_not_get_is_flushed_later_without_the_key() {
    let gate = Gate::new().await;
    gate.log.lock().otherwise = |_| Some(Misbehaviour::Unavailable);
    let file = gate.file("in.jsonl", &jsonl(&lines(0, 3)));
    let away = gate.call(&["submit", "--give-up-s", "1", &file]).await;
    assert_eq!(code(&away), 1);
    assert!(text(&away.stderr).contains("4 receipts are safe in the outbox"), "{}", text(&away.stderr));
    let outbox = gate.path("outbox").to_str().unwrap().to_owned();
    let status = call(&["outbox", "status", "--outbox", &outbox, "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(
        (&status["receipts"], &status["sent"], &status["acknowledged"], &status["dropped"]),
        (&4.into(), &4.into(), &0.into(), &0.into())
    );
    assert_eq!(
        code(&call(&["outbox", "verify", "--outbox", &outbox])),
        2,
        "receipts without a proof are not checked, not ok"
    );
    gate.log.lock().otherwise = |_| None;
    fs::remove_file(gate.path("gate.key")).unwrap();
    let flushed = tokio::task::spawn_blocking({
        let outbox = outbox.clone();
        move || call(&["outbox", "flush", "--outbox", &outbox])
    });
    let flushed = flushed.await.unwrap();
    assert_eq!((code(&flushed), text(&flushed.stdout).lines().count()), (0, 4), "{}", text(&flushed.stderr));
    assert_eq!(code(&call(&["outbox", "verify", "--outbox", &outbox])), 0);
    let human = call(&["outbox", "status", "--outbox", &outbox]);
    assert!(text(&human.stdout).contains("acknowledged  4"), "{}", text(&human.stdout));
    let proofs = gate.path("proofs");
    assert_eq!(code(&call(&["outbox", "proofs", "--outbox", &outbox, "--out", proofs.to_str().unwrap()])), 0);
    assert_eq!(fs::read_dir(proofs).unwrap().count(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cosigned_submission_waits_for_the_policys_witnesses_and_says_when_they_do_not_come() {
    let gate = Gate::new().await;
    let policy = gate
        .file("policy", &format!("log {}\nwitness w1 {}\nquorum w1\n", log_key().verifier(), witness_key().verifier()));
    let file = gate.file("in.jsonl", &jsonl(&lines(0, 40)));
    let without = gate.call(&["submit", "--wait", "cosigned", &file]).await;
    assert_eq!(code(&without), 64);
    gate.log.lock().cosigns_after = u64::MAX;
    let late = gate.call(&["submit", "--wait", "cosigned", "--policy", &policy, "--give-up-s", "1", &file]).await;
    assert_eq!(code(&late), 2, "{}", text(&late.stderr));
    assert_eq!(gate.logged(), lines(0, 40));
    gate.log.lock().has_no_witnesses = true;
    let asked = gate.log.lock().cosigned_calls;
    let never = gate.call(&["submit", "--wait", "cosigned", "--policy", &policy, &file]).await;
    let said = text(&never.stderr);
    assert_eq!((code(&never), said.matches("has no witnesses").count()), (2, 1), "{said}");
    assert!(said.contains("[[witness]]") && !said.contains("nothing was taken"), "{said}");
    let asked = gate.log.lock().cosigned_calls - asked;
    assert!(asked <= 40, "what cannot come was asked for {asked} times");
    gate.log.lock().has_no_witnesses = false;
    gate.log.lock().cosigns_after = 0;
    let cosigned = gate.call(&["submit", "--wait", "cosigned", "--policy", &policy, "--json", &file]).await;
    assert_eq!((code(&cosigned), text(&cosigned.stdout).lines().count()), (0, 40), "{}", text(&cosigned.stderr));
    assert!(text(&cosigned.stdout).contains(r#""cosigned":true"#));
    gate.log.assert_spotless();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_another_system_go_in_as_they_stand_or_not_at_all() {
    let gate = Gate::new().await;
    let record = r#"{"event":"execution_result","operation":"a", "resource":"b","capability_id":"c","executed":true}"#;
    let file = gate.file("audit.jsonl", &format!("{record}\n{record}\n"));
    let imported = gate.call(&["import", "--format", "capbroker", &file]).await;
    assert_eq!((code(&imported), text(&imported.stdout).lines().count()), (0, 2), "{}", text(&imported.stderr));
    assert!(gate.logged()[0].ends_with(&format!(r#""receipt":{record}}}"#)), "{:?}", gate.logged());
    let bad = gate.file("bad.jsonl", &format!("{record}\nno record\n"));
    let refused = gate.call(&["import", "--format", "capbroker", &bad]).await;
    assert_eq!(code(&refused), 65);
    assert!(text(&refused.stderr).contains("line 2"), "{}", text(&refused.stderr));
    assert_eq!(gate.logged().len(), 2);
    assert_eq!(code(&gate.call(&["import", "--format", "unheard-of", &file]).await), 64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_is_fetched_checked_and_written_beside_its_entry() {
    let gate = Gate::new().await;
    let file = gate.file("in.jsonl", &jsonl(&lines(0, 4)));
    let submitted = gate.call(&["submit", &file]).await;
    let id = text(&submitted.stdout).lines().nth(1).unwrap().split(' ').nth(1).unwrap().to_owned();
    let (by_id, by_seq) = (gate.path("i.tlog-proof"), gate.path("s.tlog-proof"));
    let fetched = gate.call(&["fetch-proof", "--receipt", &id, "--out", by_id.to_str().unwrap(), "--json"]).await;
    assert_eq!(code(&fetched), 0, "{}", text(&fetched.stderr));
    let answer: Value = serde_json::from_slice(&fetched.stdout).unwrap();
    assert_eq!(
        (&answer["seq"], &answer["id"], &answer["head_checked"]),
        (&2.into(), &id.as_str().into(), &true.into())
    );
    assert_eq!(
        code(
            &gate
                .call(&["fetch-proof", "--issuer", "gate.example/a", "--seq", "2", "--out", by_seq.to_str().unwrap()])
                .await
        ),
        0
    );
    let entry = fs::read(gate.path("i.entry")).unwrap();
    assert_eq!((fs::read(gate.path("s.entry")).unwrap(), receipt::ReceiptId::of(&entry).to_string()), (entry, id));
    let absent = gate
        .call(&["fetch-proof", "--issuer", "gate.example/a", "--seq", "99", "--out", gate.path("x").to_str().unwrap()])
        .await;
    assert_eq!((code(&absent), gate.path("x").exists()), (1, false), "{}", text(&absent.stderr));
    let other = witness_key();
    let wrong = SigningKey::from_seed(other.name().clone(), KeyKind::Ed25519, [5; 32]).verifier().to_string();
    let wrong = gate
        .call(&[
            "fetch-proof",
            "--log-key",
            &wrong,
            "--receipt",
            &"0".repeat(64),
            "--out",
            gate.path("x").to_str().unwrap(),
        ])
        .await;
    assert_eq!(code(&wrong), 1);
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("w.key");
    let out = out.to_str().unwrap();
    for (purpose, kind) in [("witness", KeyKind::CosignatureV1), ("log", KeyKind::Ed25519)] {
        let _fresh = fs::remove_file(out);
        let made = call(&["keygen", "--kind", purpose, "--name", "w.example", "--out", out, "--json"]);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        let vkey: VerifierKey = made["vkey"].as_str().unwrap().parse().unwrap();
        assert_eq!((vkey.kind(), vkey.name().as_str()), (kind, "w.example"));
        assert_eq!(fs::metadata(out).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let again = call(&["keygen", "--kind", "log", "--name", "w.example", "--out", out]);
    assert_eq!(code(&again), 64);
    assert!(text(&again.stderr).contains("never overwritten"), "{}", text(&again.stderr));
    assert_eq!(code(&call(&["keygen", "--kind", "log", "--name", "two words", "--out", "/nonexistent"])), 64);
}

#[test]
fn wrong_usage_is_told_in_one_line_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("gate.key");
    call(&["keygen", "--kind", "issuer", "--name", "gate.example/a", "--out", key.to_str().unwrap()]);
    let vkey = log_key().verifier().to_string();
    let outbox = dir.path().join("outbox");
    let full = [
        "submit",
        "--log",
        "http://127.0.0.1:1",
        "--log-key",
        &vkey,
        "--key",
        key.to_str().unwrap(),
        "--outbox",
        outbox.to_str().unwrap(),
        "/nonexistent.jsonl",
    ];
    // Not a name that somebody else on this machine may have made a directory of.
    let nowhere = dir.path().join("nowhere").display().to_string();
    let nowhere_below = format!("{nowhere}/x");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["submit", "-"], 64, "--log"),
        (&full, 65, "cannot read /nonexistent.jsonl"),
        (&["submit", "--log", "log.example", "-"], 64, "write http://"),
        (&["outbox", "status", "--outbox", &nowhere], 64, "there is no outbox"),
        (&["outbox", "flush", "--outbox", &nowhere], 64, "there is no outbox"),
        (
            &["fetch-proof", "--log", "http://127.0.0.1:1", "--receipt", &"0".repeat(64), "--out", &nowhere_below],
            1,
            "cannot connect",
        ),
    ];
    for (words, expected, said) in cases {
        let output = call(words);
        let stderr = text(&output.stderr);
        assert_eq!((code(&output), stderr.trim_end().lines().count()), (expected, 1), "{words:?}: {stderr}");
        assert!(stderr.starts_with("counterfoil: ") && stderr.contains(said), "{words:?}: {stderr}");
    }
    assert_eq!(code(&call(&["--version"])), 0);
    assert!(text(&call(&["--help"]).stdout).contains("Exit codes"));
    assert!(!Path::new(&nowhere).exists());
}

#[test]
fn the_daemons_are_inside() {
    for daemon in ["log", "witness"] {
        let help = call(&[daemon, "--help"]);
        assert_eq!(code(&help), 0);
        assert!(text(&help.stdout).contains("serve"), "{}", text(&help.stdout));
    }
}

#[test]
fn every_help_fits_80_columns() {
    let asked: [&[&str]; 12] = [
        &[],
        &["demo"],
        &["keygen"],
        &["submit"],
        &["import"],
        &["outbox"],
        &["outbox", "status"],
        &["outbox", "flush"],
        &["outbox", "verify"],
        &["outbox", "proofs"],
        &["fetch-proof"],
        &["sidecar"],
    ];
    for words in asked {
        let help = call(&[words, &["--help"]].concat());
        assert_eq!(code(&help), 0, "{help:?}");
        for line in text(&help.stdout).lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
    }
}
