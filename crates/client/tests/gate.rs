//! The gate as its author uses it: decisions are durable before anything runs, and every scope ends in the outcome that
//! its end calls for.

use crate::gate_scene;
use client::gate::{Act, ArgsMode, Decision, Gate, GateError, Report};
use client::outbox::OutboxView;
use gate_scene::{LONG, NOW, allow, bodies, body, config, copy_of, open, wait_until_nothing_is_owed};
use receipt::body::Executes;
use receipt::{SeqNo, UnixMillis};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn a_decision_is_on_disk_before_the_action_runs_and_its_outcome_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let mut act =
        gate.decide(allow("r-1").operation("refund").resource("order/17").args_in_clear(json!({"n": 1}))).unwrap();
    let seen = OutboxView::open(dir.path()).unwrap().status().receipts;
    let (id, digest) = (act.receipt_id().unwrap(), act.action_digest());
    let answer = act.call(|| Ok::<_, Infallible>(json!({"done": true}))).unwrap();
    act.result(&answer);
    act.finish().unwrap().unwrap();
    drop(gate);
    assert_eq!(seen, 2, "the open and the decision");
    let bodies = bodies(dir.path());
    assert_eq!(bodies.len(), 2);
    assert_eq!(
        bodies[1],
        json!({
            "type": "outcome", "request_id": "r-1", "decision": id.to_string(), "executed": true, "executed_by": "gate",
            "executed_digest": digest, "result_digest": receipt::Digest::of_json(&answer), "started_at": NOW, "ended_at": NOW,
        })
    );
}

fn last_outcome(dir: &Path) -> Value {
    let bodies = bodies(dir);
    let last = bodies.last().unwrap().clone();
    assert_eq!(last["type"], "outcome", "{last}");
    last
}

/// `executed`, `unknown`, `error`.
fn told(outcome: &Value) -> (bool, bool, Option<&str>) {
    (
        outcome["executed"].as_bool().unwrap(),
        outcome.get("unknown").is_some(),
        outcome.get("error").and_then(Value::as_str),
    )
}

#[derive(Debug)]
struct NoSuchUser;

impl std::fmt::Display for NoSuchUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("no such user")
    }
}

#[test]
fn a_call_that_fails_or_panics_or_never_comes_is_told_as_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    type End = (fn(Act), (bool, bool, Option<&'static str>));
    let ends: [End; 11] = [
        (|mut act| drop(act.call(|| Err::<(), _>(NoSuchUser))), (false, false, Some("NoSuchUser: no such user"))),
        (
            |mut act| {
                let ran = std::panic::AssertUnwindSafe(|| act.call(|| -> Result<(), Infallible> { panic!("torn") }));
                std::panic::catch_unwind(ran).unwrap_err();
            },
            (false, false, Some("panic: torn")),
        ),
        (drop, (false, true, Some("cancelled"))),
        (
            |mut act| {
                act.not_executed("the order was gone");
                act.finish().unwrap();
            },
            (false, false, Some("the order was gone")),
        ),
        (|mut act| act.call(|| Ok::<_, Infallible>(())).unwrap(), (true, false, None)),
        (
            |mut act| {
                act.call(|| Ok::<_, Infallible>(())).unwrap();
                act.not_executed("it was, though");
            },
            (true, false, Some("it was, though")),
        ),
        (
            |mut act| {
                act.call(|| Ok::<_, Infallible>(())).unwrap();
                act.call(|| Err::<(), _>("late")).unwrap_err();
            },
            (true, false, Some("&str: late")),
        ),
        (
            |act| assert!(act.finish().unwrap().is_some()),
            (false, true, Some("outcome-unknown: the scope ended without a call")),
        ),
        // The far side may have done what it did not answer in time.
        (
            |mut act| {
                act.call(|| Err::<(), _>("timed out")).unwrap_err();
                act.not_answered();
                act.not_executed("given up");
            },
            (false, true, Some("given up")),
        ),
        (|mut act| act.not_answered(), (false, true, Some("outcome-unknown: the call was not answered"))),
        (
            |mut act| {
                act.not_answered();
                act.call(|| Ok::<_, Infallible>(())).unwrap();
            },
            (true, false, None),
        ),
    ];
    for (number, (end, expected)) in ends.into_iter().enumerate() {
        let gate = open(dir.path());
        end(gate.decide(allow(&format!("r-{number}"))).unwrap());
        assert_eq!(gate.status().unwrap().open_decisions, 0);
        drop(gate);
        let outcome = last_outcome(dir.path());
        assert_eq!(told(&outcome), expected, "{number}");
        assert_eq!((&outcome["request_id"], &outcome["executed_by"]), (&json!(format!("r-{number}")), &json!("gate")));
    }
}

#[test]
fn a_panic_between_decision_and_call_is_told_as_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let act = gate.decide(allow("r-1")).unwrap();
    let thread = std::thread::spawn(move || {
        let _act = act;
        panic!("outside");
    });
    thread.join().unwrap_err();
    drop(gate);
    assert_eq!(told(&last_outcome(dir.path())), (false, false, Some("panic")));
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_an_outcome_that_says_it_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let mut act = gate.decide_async(allow("r-1")).await.unwrap();
    let scope = async move {
        act.run(std::future::pending::<Result<(), Infallible>>()).await.unwrap();
        act.finish_async().await.unwrap();
    };
    assert!(tokio::time::timeout(Duration::from_millis(20), scope).await.is_err());
    let mut act = gate.decide_async(allow("r-2")).await.unwrap();
    let answer = act.run(async { Ok::<_, Infallible>(7) }).await.unwrap();
    act.finish_async().await.unwrap();
    drop(gate);
    let bodies = bodies(dir.path());
    assert_eq!(answer, 7);
    assert_eq!(told(&bodies[1]), (false, true, Some("cancelled")));
    assert_eq!(told(&bodies[3]), (true, false, None));
}

#[test]
fn what_a_gate_that_stopped_left_open_gets_the_outcome_unknown_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let ended = gate.decide(allow("r-0")).unwrap();
    // As a kill does: nothing of these scopes is ever run again.
    for number in 1..4 {
        std::mem::forget(gate.decide(allow(&format!("r-{number}")).claimed_agent("agent-7")).unwrap());
    }
    drop(ended);
    gate.close();
    let copy = tempfile::tempdir().unwrap();
    for name in ["receipts", "acknowledged", "open"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let gate = open(copy.path());
    wait_until_nothing_is_owed(&gate);
    assert_eq!(gate.status().unwrap().open_decisions, 0);
    drop(gate);
    let bodies = bodies(copy.path());
    let left = &bodies[bodies.len() - 3..];
    for (number, outcome) in (1..).zip(left) {
        assert_eq!(outcome["request_id"], format!("r-{number}"));
        assert_eq!(told(outcome), (false, true, Some("outcome-unknown: the gate stopped before it could tell")));
        assert_eq!(
            (&outcome["agent"], &outcome["authenticated"], outcome.get("started_at")),
            (&json!("agent-7"), &json!(false), None)
        );
    }
    // And only once.
    let gate = open(copy.path());
    assert_eq!(gate.status().unwrap().owed, 0);
    drop(gate);
    assert_eq!(gate_scene::bodies(copy.path()).len(), bodies.len());
}

#[test]
fn a_request_that_comes_again_before_the_log_was_asked_ends_the_call_that_was_left_first() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    for number in 1..4 {
        std::mem::forget(gate.decide(allow(&format!("r-{number}"))).unwrap());
    }
    gate.close();
    let copy = copy_of(dir.path());
    // A log that takes the connection and says nothing.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::open(gate_scene::to(copy.path(), &format!("http://{}/", mute.local_addr().unwrap()))).unwrap();
    let status = gate.status().unwrap();
    assert_eq!((status.owed, status.open_decisions), (3, 3));
    let metric = "counterfoil_gate_owed{issuer=\"gate.example/support-1\"} 3\n";
    assert!(gate.metrics().contains(metric), "{}", gate.metrics());
    drop(gate.decide(allow("r-2")).unwrap());
    assert_eq!(gate.status().unwrap().owed, 2);
    drop(gate);
    let written: Vec<_> = bodies(copy.path())[3..].to_vec();
    assert_eq!((&written[0]["type"], &written[0]["request_id"]), (&json!("outcome"), &json!("r-2")));
    assert_eq!(told(&written[0]), (false, true, Some("outcome-unknown: the gate stopped before it could tell")));
    assert_eq!((&written[1]["type"], &written[2]["type"], written.len()), (&json!("decision"), &json!("outcome"), 3));
    // A stream that is ended ends with all of them.
    let gate = Gate::open(gate_scene::to(copy.path(), &format!("http://{}/", mute.local_addr().unwrap()))).unwrap();
    assert_eq!(gate.end(Duration::ZERO).unwrap_err().code(), "log-unreachable");
    drop(gate);
    let written: Vec<_> = bodies(copy.path())[6..].to_vec();
    assert_eq!(written.iter().map(|body| body["type"].clone()).collect::<Vec<_>>(), ["outcome", "outcome", "close"]);
}

#[test]
fn the_list_of_open_calls_is_believed_only_where_it_fits_the_receipts() {
    for saved in [
        r#"{"next_seq":99,"open":[]}"#,
        r#"{"next_seq":3,"open":[2]}"#,
        r#"{"next_seq":3,"open":[7]}"#,
        "no json",
        r#"{"next_seq":1,"open":[1]}"#,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let gate = open(dir.path());
        gate.deny(Decision::new(true).request_id("r-0")).unwrap();
        std::mem::forget(gate.decide(allow("r-1")).unwrap());
        gate.close();
        let copy = copy_of(dir.path());
        std::fs::write(copy.path().join("open"), saved).unwrap();
        let gate = open(copy.path());
        wait_until_nothing_is_owed(&gate);
        drop(gate);
        assert_eq!(last_outcome(copy.path())["request_id"], "r-1", "{saved}");
        assert_eq!(bodies(copy.path()).len(), 3, "{saved}");
    }
}

#[test]
fn a_second_gate_on_one_outbox_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let act = gate.decide(allow("r-1")).unwrap();
    let refused = |dir: &Path| Gate::open(config(dir)).map(|_| ()).unwrap_err();
    assert_eq!(refused(dir.path()).code(), "outbox-busy");
    // A scope that is open still has an outcome to write.
    gate.close();
    drop(gate);
    assert_eq!(refused(dir.path()).code(), "outbox-busy");
    drop(act);
    drop(open(dir.path()));
    let made_by_node = tempfile::tempdir().unwrap();
    std::fs::write(made_by_node.path().join("writer"), r#"{"writer":"node"}"#).unwrap();
    let error = refused(made_by_node.path());
    assert_eq!(error.code(), "outbox-writer");
    assert!(error.to_string().contains("use the TypeScript SDK"), "{error}");
    assert_eq!(std::fs::read_dir(made_by_node.path()).unwrap().count(), 1, "nothing was written there");
}

#[test]
fn nobody_writes_an_outcome_or_a_decision_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    for (body, code) in [
        (r#"{"type":"outcome","request_id":"r-1","executed":true}"#, "scope-only"),
        (r#"{"executed":true,"type":"outcome"}"#, "scope-only"),
        (
            r#"{"type":"decision","request_id":"r-1","decision":"allow","authenticated":true,"executes":"gate"}"#,
            "scope-only",
        ),
        (r#"{"type":"open"}"#, "reserved-type"),
        (r#"{"type":"close"}"#, "reserved-type"),
        (r#"{"type":"rotate"}"#, "reserved-type"),
        (r#"{"type":"heartbeat"}"#, "reserved-type"),
        (r#"{"type":"dropped","count":5}"#, "reserved-type"),
        (r#"{"type":"memory","type":"outcome"}"#, "malformed"),
        (r#"{"type":"memory","source":7}"#, "malformed"),
        (r#"{"type":"note","password":"hunter2hunter2"}"#, "credential-shaped"),
    ] {
        assert_eq!(gate.append(body).unwrap_err().code(), code, "{body}");
    }
    gate.append(r#"{"type":"memory","source":"ticket","trust":"untrusted"}"#).unwrap();
    gate.append(r#"{"type":"example/mine","n":1}"#).unwrap();
    drop(gate);
    assert_eq!(bodies(dir.path()).len(), 2);
}

#[test]
fn the_callers_word_is_taken_once_and_only_for_what_the_caller_executes() {
    let dir = tempfile::tempdir().unwrap();
    let caller = || Decision::new(true).executes(Executes::Caller);
    let gate = open(dir.path());
    drop(gate.decide(caller().request_id("r-1")).unwrap());
    let mine = gate.decide(allow("r-2")).unwrap();
    let done = Report { executed: true, ..Report::default() };
    assert_eq!(gate.reported("r-2", &done).unwrap_err().code(), "scope-only");
    assert_eq!(gate.reported("r-9", &done).unwrap_err().code(), "no-such-decision");
    drop(mine);
    drop(gate);
    // Also by a gate that was not there when it was decided.
    let gate = open(dir.path());
    drop(gate.decide(caller().request_id("r-3").claimed_agent("agent-7")).unwrap());
    for request_id in ["r-1", "r-3"] {
        gate.reported(request_id, &done).unwrap();
        assert_eq!(gate.reported(request_id, &done).unwrap_err().code(), "no-such-decision");
    }
    drop(gate);
    let outcome = last_outcome(dir.path());
    assert_eq!((&outcome["executed"], &outcome["executed_by"]), (&json!(true), &json!("caller")));
    // Who it was that executed, the gate does not know.
    assert_eq!((outcome.get("agent"), outcome.get("authenticated")), (None, None));
    assert_eq!(bodies(dir.path()).len(), 6);
}

#[test]
fn a_second_call_of_one_request_waits_until_its_caller_has_reported_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let caller = || allow("r-1").executes(Executes::Caller);
    let gate = open(dir.path());
    drop(gate.decide(caller()).unwrap());
    drop(gate);
    // Also by a gate that was not there when it was decided.
    let gate = open(dir.path());
    for _ in 0..2 {
        assert_eq!(gate.decide(caller()).map(|_| ()).unwrap_err().code(), "decision-claims");
    }
    gate.reported("r-1", &Report { executed: true, ..Report::default() }).unwrap();
    drop(gate.decide(caller()).unwrap());
    assert_eq!(gate.decide(caller()).map(|_| ()).unwrap_err().code(), "decision-claims");
    gate.reported("r-1", &Report::default()).unwrap();
    drop(gate);
    assert_eq!(bodies(dir.path()).len(), 4);
}

#[test]
fn what_opens_committed_members_is_kept_and_goes_where_its_receipt_was_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let decision = Decision::new(true).rule("R1").operation("mail.send").commit(["operation"]);
    let queued = gate.deny(decision).unwrap().unwrap();
    let kept = gate.outbox().disclosures(queued.seq).unwrap();
    let receipt = gate.outbox().receipt(queued.seq).unwrap().unwrap();
    assert!(kept.len() == 1 && kept[0].opens_in(body(&receipt).as_object().unwrap()));
    let folder = dir.path().join("disclosures");
    assert!(folder.join("1.jsonl").exists(), "seq 1, behind the open");
    drop(gate);
    std::fs::write(folder.join("2.jsonl"), "of a receipt that no kill let come about").unwrap();
    let gate = open(dir.path());
    assert!(folder.join("1.jsonl").exists() && !folder.join("2.jsonl").exists());
    assert_eq!(gate.outbox().disclosures(SeqNo(2)).unwrap(), []);
    drop(gate);
}

#[test]
fn a_full_outbox_lets_nothing_run_and_always_has_room_for_the_outcomes_it_owes() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.max_queued = 8;
    let gate = Gate::open(config).unwrap();
    let first = gate.decide(allow("r-1")).unwrap();
    // The open and one decision wait, whose two further receipts are promised: 2 + 2 + 2 <= 8.
    let mut second = gate.decide(allow("r-2")).unwrap();
    let full = gate.decide(allow("r-3")).map(|_| ()).unwrap_err();
    assert!(matches!(full, GateError::Full { queued: 3, max_queued: 8, .. }), "{full}");
    assert_eq!(full.code(), "outbox-full");
    assert_eq!(gate.deny(Decision::new(true)).unwrap_err().code(), "outbox-full");
    assert_eq!(gate.append(r#"{"type":"note"}"#).unwrap_err().code(), "outbox-full");
    second.approved_by("user:bob").unwrap();
    second.call(|| Ok::<_, Infallible>(())).unwrap();
    second.finish().unwrap();
    first.finish().unwrap();
    assert_eq!(gate.status().unwrap().drops.count, 0);
    drop(gate);
    assert_eq!(bodies(dir.path()).len(), 5);
}

#[test]
fn a_decision_that_claims_too_much_is_refused_before_anything_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let refused = |decision: Decision| gate.decide(decision).map(|_| ()).unwrap_err();
    assert_eq!(refused(allow("r-1").bound_agent("agent-7")).code(), "decision-claims");
    assert_eq!(refused(allow("r-1").extra("executes", "none")).code(), "decision-claims");
    assert_eq!(refused(allow("r-1").commit(["request_id"])).code(), "decision-claims");
    assert_eq!(refused(allow("r-1").args_in_clear(json!({"n": 1_u64 << 60}))).code(), "malformed");
    let secret = refused(allow("r-1").args_in_clear(json!({"url": "https://u:p4ss@h.test"})));
    assert!(secret.code() == "credential-shaped" && secret.to_string().contains("/args/url"), "{secret}");
    assert!(!secret.to_string().contains("p4ss"), "{secret}");
    assert_eq!(gate.outbox().next_seq().unwrap(), SeqNo(0));
    let _held = gate.decide(allow("r-1")).unwrap();
    assert_eq!(refused(allow("r-1")).code(), "decision-claims");
}

#[test]
fn names_that_a_gate_keeps_in_memory_for_a_call_have_a_longest_length() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    // 1024 bytes, in fewer characters.
    let (longest, longer) = ("é".repeat(512), format!("{}x", "é".repeat(512)));
    let made: [fn(Decision, &str) -> Decision; 4] = [
        |decision, name| decision.request_id(name),
        |decision, name| decision.claimed_agent(name),
        |decision, name| decision.proven(["capability_signature"]).bound_agent(name),
        |decision, name| decision.session(name),
    ];
    for with in made {
        let error = gate.deny(with(Decision::new(true), &longer)).unwrap_err();
        assert!(error.code() == "decision-claims" && error.to_string().contains("1025"), "{error}");
        assert_eq!(gate.decide(with(Decision::new(true), &longer)).map(|_| ()).unwrap_err().code(), "decision-claims");
        gate.deny(with(Decision::new(true), &longest)).unwrap();
    }
    assert_eq!(gate.outbox().next_seq().unwrap(), SeqNo(5));
}

#[test]
fn a_clock_that_steps_back_takes_neither_receipts_nor_the_times_in_them_along() {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(NOW));
    let clock = Arc::clone(&now);
    let mut config = config(dir.path());
    config.clock = Arc::new(move || UnixMillis(clock.load(Ordering::Relaxed)));
    let gate = Gate::open(config).unwrap();
    let mut act = gate.decide(allow("r-1")).unwrap();
    now.store(NOW - 3_600_000, Ordering::Relaxed);
    act.call(|| Ok::<_, Infallible>(())).unwrap();
    let ended = act.finish().unwrap().unwrap();
    let mut act = gate.decide(allow("r-2")).unwrap();
    act.call(|| Ok::<_, Infallible>(())).unwrap();
    act.finish().unwrap();
    drop(gate);
    assert_eq!(ended.issued_at, UnixMillis(NOW));
    for outcome in bodies(dir.path()).iter().filter(|body| body["type"] == "outcome") {
        assert_eq!((&outcome["started_at"], &outcome["ended_at"]), (&json!(NOW), &json!(NOW)));
    }
}

#[test]
fn a_closed_gate_decides_nothing_more_and_its_open_scopes_still_end() {
    let dir = tempfile::tempdir().unwrap();
    let gate = open(dir.path());
    let mut act = gate.decide(allow("r-1")).unwrap();
    assert_eq!(gate.end(LONG).unwrap_err().code(), "scope-only");
    gate.close();
    assert_eq!(gate.decide(allow("r-2")).map(|_| ()).unwrap_err().code(), "outbox-stopped");
    act.call(|| Ok::<_, Infallible>(())).unwrap();
    act.finish().unwrap().unwrap();
    drop(gate);
    assert_eq!(told(&last_outcome(dir.path())), (true, false, None));
}

#[test]
fn a_call_in_json_is_the_same_decision() {
    let call =
        json!({"request_id": "r-1", "authenticated": true, "args": {"n": 1}, "args_mode": "clear", "decision": "deny"});
    let (ruling, decision) = Decision::from_call(call.as_object().unwrap()).unwrap();
    assert_eq!((ruling, decision), (receipt::body::Ruling::Deny, allow("r-1").args_in_clear(json!({"n": 1}))));
    assert_eq!(ArgsMode::default(), ArgsMode::Digest);
    for wrong in [
        json!({}),
        json!({"authenticated": "yes"}),
        json!({"authenticated": true, "executed": true}),
        json!({"authenticated": true, "prior_heads": {}}),
    ] {
        assert_eq!(Decision::from_call(wrong.as_object().unwrap()).unwrap_err().code(), "decision-claims", "{wrong}");
    }
}
