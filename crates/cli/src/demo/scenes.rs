//! The six scenes: what is done, and the verdict it must end in.

use super::{DemoError, tamper};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::malicious::SecondHistory;
use testkit::seeds;
use testkit::stage::{ISSUER, Stage, StageError, wait_for, witness_name};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Three witnesses, of which two must agree: the smallest set that survives one silent witness.
pub(super) const WITNESSES: usize = 3;
/// How long the malicious log waits for the port of the log that was killed.
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(50);

/// Only the session is looked at: what a gate sees that forgets everything between two sessions.
const RULES_BY_SESSION: &str = "[[sequence]]
code = \"R4_SEQUENCE\"
first = [\"IDENTITY_MUTATION\"]
then = [\"CREDENTIAL_RECOVERY\"]
scope = \"session\"
";

/// The person is looked at: every resource that is his counts as him.
const RULES_BY_SUBJECT: &str = "[[sequence]]
code = \"R4_SEQUENCE\"
first = [\"IDENTITY_MUTATION\"]
then = [\"CREDENTIAL_RECOVERY\"]
scope = \"subject\"

[[relation]]
subject = \"customer:cust_66\"
resources = [\"cust_66\"]
";

/// How a scene ended.
pub(super) struct Scene {
    /// What it is called.
    pub(super) name: &'static str,
    /// What was done.
    pub(super) done: String,
    /// The verdict it ended in.
    pub(super) verdict: String,
    /// The check that found it.
    pub(super) check: String,
    /// Whether that is the end it must have.
    pub(super) as_it_must: bool,
}

/// Everything a gate logs in an ordinary hour, fetched and audited: nothing to find.
pub(super) fn honest(stage: &Stage) -> Result<Scene, DemoError> {
    let decisions = [
        decision("r-1", "allow", "read_ticket", "ticket_1042", "READ"),
        decision("r-2", "deny", "delete_customer", "cust_31", "DESTRUCTION"),
        decision("r-3", "allow", "read_customer", "cust_31", "READ"),
    ];
    let logged = submit(stage, &decisions)?;
    let outcome = |number: usize, request: &str| json!({"type": "outcome", "request_id": request, "decision": logged[number], "executed": true, "executed_by": "gate"});
    submit(stage, &[outcome(0, "r-1"), outcome(2, "r-3")])?;
    let records =
        [seeds::run_b("cust_22"), seeds::run_c("cust_33"), seeds::run_d("cust_44"), seeds::run_e("cust_55")].concat();
    import(stage, &records)?;
    let audit = Audit::of(stage, &fetch(stage, "honest")?, None)?;
    Ok(Scene {
        name: "honest run",
        done: format!("{} receipts logged, {} cosigners", audit.entries(), WITNESSES),
        verdict: audit.overall(),
        check: "every check".to_owned(),
        as_it_must: audit.exit_code == 0,
    })
}

/// One receipt is taken out of the middle of the issuer's stream.
pub(super) fn receipt_torn_out(stage: &Stage) -> Result<Scene, DemoError> {
    const TORN: usize = 7;
    let bundle = copy_of_honest(stage, "torn-out")?;
    tamper::cut_entry(&bundle, TORN)?;
    let audit = Audit::of(stage, &bundle, None)?;
    Ok(audit.scene("receipt torn out", format!("receipt {TORN} cut from the bundle"), "issuer", "gap"))
}

/// The newest heads and what they cover are left out: the bundle of an earlier day.
pub(super) fn heads_left_out(stage: &Stage) -> Result<Scene, DemoError> {
    let bundle = copy_of_honest(stage, "heads-left-out")?;
    let newest = Audit::of(stage, &bundle, None)?.entries();
    tamper::leave_out_heads(&bundle, |head| head_size(head).filter(|size| *size < newest))?;
    let audit = Audit::of(stage, &bundle, None)?;
    Ok(audit.scene("heads left out", "newest heads cut from the bundle".to_owned(), "head", "omitted-head"))
}

/// The attack of run F: two harmless sessions that together take an account over.
pub(super) fn pair_over_two_sessions(stage: &Stage) -> Result<Scene, DemoError> {
    import(stage, &seeds::run_f("cust_66"))?;
    let bundle = fetch(stage, "two-sessions")?;
    let by_session = Audit::of(stage, &bundle, Some(RULES_BY_SESSION))?;
    let by_subject = Audit::of(stage, &bundle, Some(RULES_BY_SUBJECT))?;
    let done = format!("two sessions, {} by session", by_session.overall());
    let mut scene = by_subject.scene("split takeover", done, "sequence", "sequence-forbidden");
    scene.as_it_must &= by_session.exit_code == 0;
    Ok(scene)
}

/// The attack of run I: the gate signs that nothing came before, although it logged what did.
pub(super) fn empty_history_claimed(stage: &Stage) -> Result<Scene, DemoError> {
    import(stage, &seeds::run_i_forked("cust_77", "contact_77", "auth_77"))?;
    let audit = Audit::of(stage, &fetch(stage, "empty-history")?, None)?;
    let done = "gate claims nothing came before".to_owned();
    Ok(audit.scene("false history", done, "sequence", "prior-classes-differ"))
}

/// The log is stopped, copied, and a second history is signed with its key and served in its place.
pub(super) fn second_history(stage: &mut Stage, runtime: &Runtime) -> Result<Scene, DemoError> {
    stage.stop_log();
    let copy = stage.dir().join("log-copy");
    tamper::copy_tree(&stage.log_dir(), &copy)?;
    let entries = SecondHistory::entries_of(&copy.join("store"))?;
    let key = service::keys::read_signing_key(&copy.join("log.key"), note::KeyKind::Ed25519)
        .map_err(|error| DemoError::Key(error.to_string()))?;
    let instead = (0..5).map(|number| format!("a receipt that was never issued, {number}\n").into_bytes()).collect();
    let history = SecondHistory::new(&entries, entries.len() - 2, instead, &key)?;
    let sizes = format!("{} signed over a history of {}", history.size(), entries.len());
    let address = stage.log_url().replace("http://", "");
    let listener =
        runtime.block_on(wait_for_address(&address)).map_err(|error| DemoError::io(Path::new(&address), error))?;
    let server = runtime.spawn(history.serve(listener));
    let evidence = (0..WITNESSES).map(|number| wait_for_evidence(stage, number)).collect::<Result<Vec<_>, _>>();
    server.abort();
    let mut proven = 0;
    for (number, document) in evidence?.iter().enumerate() {
        let file = stage.dir().join(format!("evidence-{}.json", number + 1));
        fs::write(&file, document).map_err(|error| DemoError::io(&file, error))?;
        let (code, _) = stage.call(&["verify".as_ref(), "evidence".as_ref(), file.as_os_str()])?;
        proven += usize::from(code == 0);
    }
    Ok(Scene {
        name: "second history",
        done: sizes,
        verdict: if proven > 0 { "fork" } else { "nothing" }.to_owned(),
        check: format!("{proven} of {WITNESSES} witnesses"),
        as_it_must: proven == WITNESSES,
    })
}

/// One audit: the exit code and the verdict as JSON.
struct Audit {
    exit_code: i32,
    verdict: Value,
}

impl Audit {
    fn of(stage: &Stage, bundle: &Path, rules: Option<&str>) -> Result<Audit, DemoError> {
        let (policy, issuers, rule_file) = (stage.policy_file(), stage.issuers_file(), stage.dir().join("rules.toml"));
        let mut arguments: Vec<&OsStr> = vec!["verify".as_ref(), "audit".as_ref(), "--json".as_ref()];
        arguments.extend(["--policy".as_ref(), policy.as_os_str(), "--issuers".as_ref(), issuers.as_os_str()]);
        if let Some(rules) = rules {
            fs::write(&rule_file, rules).map_err(|error| DemoError::io(&rule_file, error))?;
            arguments.extend(["--rules".as_ref(), rule_file.as_os_str()]);
        }
        arguments.push(bundle.as_os_str());
        let (exit_code, said) = stage.call(&arguments)?;
        let verdict = serde_json::from_str(&said).map_err(|_| DemoError::Answer("verify audit"))?;
        Ok(Audit { exit_code, verdict })
    }

    fn overall(&self) -> String {
        self.verdict["overall"].as_str().unwrap_or("unreadable").to_owned()
    }

    fn entries(&self) -> u64 {
        self.verdict["coverage"]["entries"].as_u64().unwrap_or(0)
    }

    /// The scene of an audit that must fail by a finding `code` in `family`.
    fn scene(&self, name: &'static str, done: String, family: &str, code: &str) -> Scene {
        let checks = self.verdict["checks"].as_array().cloned().unwrap_or_default();
        let found = checks.iter().any(|check| {
            check["family"] == family
                && check["status"] == "fail"
                && check["counts"][code].as_u64().is_some_and(|count| count > 0)
        });
        let check = if found { code.to_owned() } else { format!("no {family}/{code}") };
        Scene { name, done, verdict: self.overall(), check, as_it_must: found && self.exit_code == 1 }
    }
}

/// A native decision as a gate of today writes it.
fn decision(request: &str, decision: &str, operation: &str, resource: &str, class: &str) -> Value {
    let rule = if decision == "allow" { "PASS" } else { "operation_not_permitted" };
    json!({
        "type": "decision", "request_id": request, "decision": decision, "rule": rule, "operation": operation,
        "resource": resource, "action_class": class, "session": "S-1", "authenticated": true,
        "proven": ["request_signature", "nonce_fresh"], "claimed_agent": "triage-bot", "executes": if decision == "allow" { "gate" } else { "none" },
    })
}

/// Submits bodies through the gate's outbox; answers the receipt ids.
fn submit(stage: &Stage, bodies: &[Value]) -> Result<Vec<String>, DemoError> {
    let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
    let said = through_outbox(stage, "submit", &[], &lines)?;
    let ids: Vec<String> = said.lines().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect();
    if ids.len() < bodies.len() {
        Err(DemoError::Answer("submit"))
    } else {
        Ok(ids[ids.len() - bodies.len()..].to_vec())
    }
}

/// Imports records of the seed suite through the gate's outbox and waits for the witnesses.
fn import(stage: &Stage, records: &[String]) -> Result<(), DemoError> {
    let policy = stage.policy_file();
    let more: [&OsStr; 6] = [
        "--format".as_ref(),
        "sequence-attack-repro".as_ref(),
        "--wait".as_ref(),
        "cosigned".as_ref(),
        "--policy".as_ref(),
        policy.as_os_str(),
    ];
    through_outbox(stage, "import", &more, records).map(drop)
}

fn through_outbox(stage: &Stage, call: &str, more: &[&OsStr], lines: &[String]) -> Result<String, DemoError> {
    // A file of its own for each call: the outbox knows a file's lines, and does not sign them again.
    let input = (0..).map(|number| stage.dir().join(format!("input-{number}.jsonl"))).find(|file| !file.exists());
    let input = input.ok_or(DemoError::Answer("the file system"))?;
    fs::write(&input, lines.join("\n") + "\n").map_err(|error| DemoError::io(&input, error))?;
    let (url, key, outbox) = (stage.log_url(), stage.issuer_key_file(), stage.dir().join("outbox"));
    let mut arguments: Vec<&OsStr> =
        vec![call.as_ref(), "--log".as_ref(), url.as_ref(), "--log-key".as_ref(), stage.log_vkey().as_ref()];
    arguments.extend(["--key".as_ref(), key.as_os_str(), "--outbox".as_ref(), outbox.as_os_str()]);
    arguments.extend(more);
    arguments.push(input.as_os_str());
    match stage.call(&arguments)? {
        (0, said) => Ok(said),
        (code, said) => Err(StageError::Call { what: format!("{call} for {ISSUER}"), code: Some(code), said }.into()),
    }
}

fn fetch(stage: &Stage, name: &str) -> Result<PathBuf, DemoError> {
    let (policy, bundle) = (stage.policy_file(), stage.dir().join("bundles").join(name));
    fs::create_dir_all(stage.dir().join("bundles")).map_err(|error| DemoError::io(&bundle, error))?;
    let (code, said) = stage.call(&[
        "verify".as_ref(),
        "fetch".as_ref(),
        "--policy".as_ref(),
        policy.as_os_str(),
        "--out".as_ref(),
        bundle.as_os_str(),
    ])?;
    if code == 0 {
        Ok(bundle)
    } else {
        Err(StageError::Call { what: "verify fetch".to_owned(), code: Some(code), said }.into())
    }
}

fn copy_of_honest(stage: &Stage, name: &str) -> Result<PathBuf, DemoError> {
    let bundles = stage.dir().join("bundles");
    let copy = bundles.join(name);
    tamper::copy_tree(&bundles.join("honest"), &copy)?;
    Ok(copy)
}

fn head_size(head: &[u8]) -> Option<u64> {
    let head = note::SignedCheckpoint::parse(head).ok()?;
    Some(head.claimed().size.0)
}

/// The stopped log's port may take a moment to come free.
async fn wait_for_address(address: &str) -> std::io::Result<TcpListener> {
    let started = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(_) if started.elapsed() < PATIENCE => tokio::time::sleep(GLANCE).await,
            bound => return bound,
        }
    }
}

/// The first evidence document that a witness serves.
fn wait_for_evidence(stage: &Stage, number: usize) -> Result<String, DemoError> {
    let mut document = None;
    let file = stage.witness_dir(number).join("state/evidence.ndjson");
    wait_for(&witness_name(number), || {
        document = fs::read_to_string(&file).ok().and_then(|lines| lines.lines().next().map(str::to_owned));
        Ok(document.is_some())
    })?;
    document.ok_or(DemoError::Answer("evidence"))
}
