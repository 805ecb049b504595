//! `bodies.json`: the exact texts of the bodies of decisions and outcomes, for what a gate's author says.
//!
//! The texts are written by hand, not made by the builder: a builder that changes shows here. Digests in them are taken
//! over texts that are written by hand, too.

use super::{ISSUER, VectorFile};
use receipt::{Digest, ReceiptId};
use serde_json::{Value, json};

pub(super) fn bodies() -> VectorFile {
    let mut cases: Vec<Value> = decisions()
        .into_iter()
        .map(|case| json!({"name": case.0, "call": case.1, "given": case.2, "body": case.3}))
        .collect();
    cases.extend(committed());
    cases.extend(ends().into_iter().map(|(name, end, body)| json!({"name": name, "end": end, "body": body})));
    VectorFile {
        name: "bodies.json",
        about: "call decision or deny with the members given makes exactly body (disclosures: the lines kept beside it; salts are given by member). end: how a scope, or a word of the caller, ended makes exactly the outcome's body.",
        cases,
    }
}

type Call = (&'static str, &'static str, Value, String);

/// SHA-256 over a text that stands here as JCS would write it.
fn digest(canonical: &str) -> Digest {
    Digest::of_bytes(canonical.as_bytes())
}

fn decisions() -> Vec<Call> {
    let id = |number: u8| ReceiptId(merkle::leaf_hash(&[number])).to_string();
    let root = merkle::leaf_hash(b"root").to_base64();
    let args = json!({"to": "a@b.test", "body": "prüfen ✓"});
    let args_digest = digest(r#"{"body":"prüfen ✓","to":"a@b.test"}"#);
    let history = json!({"classes": ["READ", "IDENTITY_MUTATION"], "heads": {"cust_77": id(1)}, "size": 12, "root": root, "witnessed": true});
    vec![
        ("the shortest decision", "decision", json!({"request_id": "r-1", "authenticated": true}),
            r#"{"type":"decision","request_id":"r-1","decision":"allow","authenticated":true,"executes":"gate"}"#.to_owned()),
        ("the shortest denial", "deny", json!({"request_id": "r-2", "authenticated": false}),
            r#"{"type":"decision","request_id":"r-2","decision":"deny","authenticated":false,"executes":"none"}"#.to_owned()),
        ("the caller executes", "decision", json!({"request_id": "r-3", "authenticated": true, "executes": "caller"}),
            r#"{"type":"decision","request_id":"r-3","decision":"allow","authenticated":true,"executes":"caller"}"#.to_owned()),
        ("arguments as a digest, which is how they go if nothing else is said", "decision", json!({"request_id": "r-4", "authenticated": true, "operation": "mail.send", "resource": "outbox", "args": args}),
            format!(r#"{{"type":"decision","request_id":"r-4","decision":"allow","operation":"mail.send","resource":"outbox","args_digest":"{args_digest}","authenticated":true,"executes":"gate"}}"#)),
        ("arguments in the clear, in the order given", "decision", json!({"request_id": "r-5", "authenticated": true, "args": args, "args_mode": "clear"}),
            r#"{"type":"decision","request_id":"r-5","decision":"allow","args":{"to":"a@b.test","body":"prüfen ✓"},"authenticated":true,"executes":"gate"}"#.to_owned()),
        ("numbers as ECMAScript writes them", "decision", json!({"request_id": "r-6", "authenticated": true, "args": [1.0, -0.0, 0.1, 1e-7, 1e-6, 1e15, 9007199254740991u64, -1.5], "args_mode": "clear"}),
            r#"{"type":"decision","request_id":"r-6","decision":"allow","args":[1,0,0.1,1e-7,0.000001,1000000000000000,9007199254740991,-1.5],"authenticated":true,"executes":"gate"}"#.to_owned()),
        ("only the escapes that JSON needs", "decision", json!({"request_id": "r/9", "authenticated": true, "why": "a\"b\\c/d\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}\u{2028}é\u{1f600}<&>"}),
            "{\"type\":\"decision\",\"request_id\":\"r/9\",\"decision\":\"allow\",\"why\":\"a\\\"b\\\\c/d\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\u{2028}é\u{1f600}<&>\",\"authenticated\":true,\"executes\":\"gate\"}".to_owned()),
        ("every member, given in another order", "decision", json!({
                "extra": {"x_trace": "t-1", "a_extra": {"b": [1, null]}}, "approval": {"digest": digest("x"), "by": "ops", "at": 1790000000000u64}, "executes": "gate", "history": history,
                "facts": [{"source": "ticket_1", "trust": "untrusted", "summary": "locked out"}], "grant": {"principal": "p", "purpose": "q"},
                "capability": {"id": "cap_1", "max_calls": 3}, "bound_agent": "agent-7", "claimed_agent": "agent-8",
                "proven": ["capability_signature", "nonce_fresh"], "authenticated": true, "args": {}, "session": "s-1", "subjects": ["cust_77", "cust_78"],
                "action_class": "CREDENTIAL_RECOVERY", "resource": "res", "operation": "op", "caller_reason": "no", "why": "because", "rule": "R1",
                "request_id": "r-10",
            }),
            format!(r#"{{"type":"decision","request_id":"r-10","decision":"allow","rule":"R1","why":"because","caller_reason":"no","operation":"op","resource":"res","action_class":"CREDENTIAL_RECOVERY","subjects":["cust_77","cust_78"],"session":"s-1","args_digest":"{}","authenticated":true,"proven":["capability_signature","nonce_fresh"],"claimed_agent":"agent-8","bound_agent":"agent-7","capability":{{"id":"cap_1","max_calls":3}},"grant":{{"principal":"p","purpose":"q"}},"facts":[{{"source":"ticket_1","trust":"untrusted","summary":"locked out"}}],"prior_action_classes":["READ","IDENTITY_MUTATION"],"prior_heads":{{"cust_77":"{}"}},"history":{{"size":12,"root":"{root}","witnessed":true}},"executes":"gate","approval":{{"digest":"{}","by":"ops","at":1790000000000}},"x_trace":"t-1","a_extra":{{"b":[1,null]}}}}"#, digest("{}"), id(1), digest("x"))),
        ("a denial judged by history", "deny", json!({"request_id": "r-11", "authenticated": true, "rule": "R4_SEQUENCE", "action_class": "CREDENTIAL_RECOVERY", "subjects": ["cust_77"], "history": history}),
            format!(r#"{{"type":"decision","request_id":"r-11","decision":"deny","rule":"R4_SEQUENCE","action_class":"CREDENTIAL_RECOVERY","subjects":["cust_77"],"authenticated":true,"prior_action_classes":["READ","IDENTITY_MUTATION"],"prior_heads":{{"cust_77":"{}"}},"history":{{"size":12,"root":"{root}","witnessed":true}},"executes":"none"}}"#, id(1))),
        ("an empty history", "decision", json!({"request_id": "r-12", "authenticated": true, "action_class": "READ", "subjects": ["cust_9"], "history": {"classes": [], "heads": {}, "size": 3, "root": root, "witnessed": true}}),
            format!(r#"{{"type":"decision","request_id":"r-12","decision":"allow","action_class":"READ","subjects":["cust_9"],"authenticated":true,"prior_action_classes":[],"prior_heads":{{}},"history":{{"size":3,"root":"{root}","witnessed":true}},"executes":"gate"}}"#)),
        ("a history without a witnessed head", "decision", json!({"request_id": "r-13", "authenticated": true, "action_class": "READ", "subjects": ["cust_9"], "history": {"classes": ["READ"], "heads": {"cust_9": id(2)}, "size": 3, "root": root, "witnessed": false, "why": "the newest cosignature is 20 minutes old"}}),
            format!(r#"{{"type":"decision","request_id":"r-13","decision":"allow","action_class":"READ","subjects":["cust_9"],"authenticated":true,"prior_action_classes":["READ"],"prior_heads":{{"cust_9":"{}"}},"history":{{"size":3,"root":"{root}","witnessed":false,"why":"the newest cosignature is 20 minutes old"}},"executes":"gate"}}"#, id(2))),
        ("empty arrays are there", "decision", json!({"request_id": "r-14", "authenticated": true, "subjects": [], "proven": [], "facts": []}),
            r#"{"type":"decision","request_id":"r-14","decision":"allow","subjects":[],"authenticated":true,"proven":[],"facts":[],"executes":"gate"}"#.to_owned()),
    ]
}

/// Calls with members committed to, and calls that are refused. Committed arguments are committed whole, whether or not
/// they would go as a digest.
fn committed() -> Vec<Value> {
    let (one, two) = ("AAECAwQFBgcICQoLDA0O_w", "EBESExQVFhcYGRobHB0e_w");
    let committed = |salt: &str, name: &str, value: &str| digest(&format!(r#"["{salt}","{name}",{value}]"#));
    let kept = |salt: &str, name: &str, value: &str| format!(r#"{{"salt":"{salt}","name":"{name}","value":{value}}}"#);
    let operation = committed(one, "operation", r#""mail.send""#);
    let args = committed(two, "args", r#"{"a":[0.5],"b":1}"#);
    let secret = committed(one, "why", r#""password=hunter2 for https://u:p@h.test""#);
    vec![
        json!({
                    "name": "two members committed to, disclosed in the order named", "call": "decision",
                    "given": {"request_id": "r-20", "authenticated": true, "operation": "mail.send", "args": {"b": 1, "a": [0.5]}, "args_mode": "clear", "commit": ["args", "operation"], "salts": {"operation": one, "args": two}},
                    "body": format!(r##"{{"type":"decision","request_id":"r-20","decision":"allow","operation":{{"#":"{operation}"}},"args":{{"#":"{args}"}},"authenticated":true,"executes":"gate"}}"##),
                    "disclosures": [kept(two, "args", r#"{"b":1,"a":[0.5]}"#), kept(one, "operation", r#""mail.send""#)],
        }),
        json!({
            "name": "a committed value is not searched for credentials: it is not in the log", "call": "deny",
            "given": {"request_id": "r-21", "authenticated": true, "why": "password=hunter2 for https://u:p@h.test", "commit": ["why"], "salts": {"why": one}},
            "body": format!(r##"{{"type":"decision","request_id":"r-21","decision":"deny","why":{{"#":"{secret}"}},"authenticated":true,"executes":"none"}}"##),
            "disclosures": [kept(one, "why", r#""password=hunter2 for https://u:p@h.test""#)],
        }),
        json!({
            "name": "committed arguments that would otherwise go as a digest", "call": "decision",
            "given": {"request_id": "r-26", "authenticated": true, "args": {"b": 1, "a": [0.5]}, "commit": ["args"], "salts": {"args": two}},
            "body": format!(r##"{{"type":"decision","request_id":"r-26","decision":"allow","args":{{"#":"{args}"}},"authenticated":true,"executes":"gate"}}"##),
            "disclosures": [kept(two, "args", r#"{"b":1,"a":[0.5]}"#)],
        }),
        json!({
            "name": "an extra member with a defined name, null", "call": "decision",
            "given": {"request_id": "r-27", "authenticated": true, "extra": {"why": null}},
            "code": "decision-claims",
        }),
        json!({
            "name": "a committed member that is not there", "call": "decision",
            "given": {"request_id": "r-28", "authenticated": true, "commit": ["why"], "salts": {"why": one}},
            "code": "decision-claims",
        }),
        json!({
            "name": "a committed request id", "call": "decision",
            "given": {"request_id": "r-29", "authenticated": true, "commit": ["request_id"], "salts": {"request_id": one}},
            "code": "decision-claims",
        }),
        json!({
            "name": "a denial that somebody executes", "call": "deny",
            "given": {"request_id": "r-30", "authenticated": true, "executes": "gate"},
            "code": "decision-claims",
        }),
        json!({
            "name": "a credential in the clear", "call": "decision",
            "given": {"request_id": "r-22", "authenticated": true, "args": {"url": "https://u:p4ss@h.test"}, "args_mode": "clear"},
            "code": "credential-shaped", "member": "/args/url",
        }),
        json!({
            "name": "a bound agent without a proven capability", "call": "decision",
            "given": {"request_id": "r-23", "authenticated": true, "bound_agent": "agent-7", "proven": ["nonce_fresh"]},
            "code": "decision-claims",
        }),
        json!({
            "name": "a bound agent and nothing proven", "call": "deny",
            "given": {"request_id": "r-24", "authenticated": true, "bound_agent": "agent-7"},
            "code": "decision-claims",
        }),
        json!({
            "name": "an extra member that takes the place of a defined one", "call": "decision",
            "given": {"request_id": "r-25", "authenticated": true, "extra": {"executed": true, "prior_heads": {}}},
            "code": "decision-claims",
        }),
    ]
}

/// How scopes end. `given` is the call that decided.
fn ends() -> Vec<(&'static str, Value, String)> {
    let decision = ReceiptId(merkle::leaf_hash(ISSUER.as_bytes())).to_string();
    let action = digest(r#"{"args":{"a":1},"capability_id":null,"nonce":"r-1","operation":"op","resource":"res"}"#);
    let with_capability =
        digest(r#"{"args":{"a":1},"capability_id":"cap_1","nonce":"r-1","operation":"op","resource":"res"}"#);
    let (start, end) = (1_790_000_000_000u64, 1_790_000_000_250u64);
    let plain = json!({"request_id": "r-1", "authenticated": true});
    let clear = json!({
        "request_id": "r-1", "authenticated": true, "operation": "op", "resource": "res", "args": {"a": 1}, "args_mode": "clear",
    });
    let also = |call: &Value, name: &str, value: Value| super::with(call.clone(), name, value);
    let given = |how: &str, call: &Value, more: Value| {
        let mut members =
            json!({"how": how, "given": call, "decision": decision, "started_at": start, "ended_at": end});
        for (name, value) in super::members(&more) {
            members[name] = value;
        }
        members
    };
    let head = |executed: bool| {
        format!(r#"{{"type":"outcome","request_id":"r-1","decision":"{decision}","executed":{executed}"#)
    };
    let times = format!(r#""started_at":{start},"ended_at":{end}}}"#);
    let done = |call: &Value| given("returned", call, json!({}));
    let failed =
        |kind: &str, message: &str| given("error", &plain, json!({"error_type": kind, "error_message": message}));
    let approved = json!({"digest": action, "by": "ops"});
    vec![
        ("the body returned", done(&plain), format!(r#"{},"executed_by":"gate",{times}"#, head(true))),
        (
            "of an action that the decision shows whole",
            done(&clear),
            format!(r#"{},"executed_by":"gate","executed_digest":"{action}",{times}"#, head(true)),
        ),
        (
            "of one under a capability with an id",
            done(&also(&clear, "capability", json!({"id": "cap_1"}))),
            format!(r#"{},"executed_by":"gate","executed_digest":"{with_capability}",{times}"#, head(true)),
        ),
        (
            "of one under a capability without an id",
            done(&also(&clear, "capability", json!({"max_calls": 1}))),
            format!(r#"{},"executed_by":"gate",{times}"#, head(true)),
        ),
        (
            "of one whose arguments go as a digest",
            done(&also(&clear, "args_mode", json!("digest"))),
            format!(r#"{},"executed_by":"gate",{times}"#, head(true)),
        ),
        (
            "of one whose arguments go as a digest, and that rests on an approval",
            done(&also(&also(&clear, "args_mode", json!("digest")), "approval", approved)),
            format!(r#"{},"executed_by":"gate","executed_digest":"{action}",{times}"#, head(true)),
        ),
        (
            "of one with a committed member",
            done(&also(&clear, "commit", json!(["operation"]))),
            format!(r#"{},"executed_by":"gate",{times}"#, head(true)),
        ),
        (
            "of one with a nonce of its own",
            done(&also(&clear, "extra", json!({"nonce": "n"}))),
            format!(r#"{},"executed_by":"gate",{times}"#, head(true)),
        ),
        (
            "a result in JSON",
            given("returned", &plain, json!({"result": {"b": 1.0, "a": "é"}})),
            format!(
                r#"{},"executed_by":"gate","result_digest":"{}",{times}"#,
                head(true),
                digest(r#"{"a":"é","b":1}"#)
            ),
        ),
        (
            "a result of bytes",
            given("returned", &plain, json!({"result_b64": "AP8="})),
            format!(r#"{},"executed_by":"gate","result_digest":"{}",{times}"#, head(true), Digest::of_bytes(&[0, 255])),
        ),
        (
            "a bound agent",
            done(&also(
                &also(&also(&plain, "proven", json!(["capability_signature"])), "bound_agent", json!("agent-7")),
                "claimed_agent",
                json!("agent-8"),
            )),
            format!(r#"{},"executed_by":"gate","agent":"agent-7",{times}"#, head(true)),
        ),
        (
            "a claimed agent",
            done(&also(&plain, "claimed_agent", json!("agent-8"))),
            format!(r#"{},"executed_by":"gate","agent":"agent-8","authenticated":false,{times}"#, head(true)),
        ),
        (
            "a committed agent",
            done(&also(&also(&plain, "claimed_agent", json!("agent-8")), "commit", json!(["claimed_agent"]))),
            format!(r#"{},"executed_by":"gate",{times}"#, head(true)),
        ),
        (
            "not executed, by the gate's own word",
            given("not-executed", &clear, json!({"reason": "the order was gone"})),
            format!(r#"{},"executed_by":"gate","error":"the order was gone",{times}"#, head(false)),
        ),
        (
            "an error",
            failed("ValueError", "no such \"user\"\n"),
            format!(r#"{},"executed_by":"gate","error":"ValueError: no such \"user\"\n",{times}"#, head(false)),
        ),
        (
            "an error without a message",
            failed("KeyError", ""),
            format!(r#"{},"executed_by":"gate","error":"KeyError: ",{times}"#, head(false)),
        ),
        (
            "an error of a claimed agent's call",
            given(
                "error",
                &also(&clear, "claimed_agent", json!("agent-8")),
                json!({"error_type": "E", "error_message": "m"}),
            ),
            format!(
                r#"{},"executed_by":"gate","agent":"agent-8","authenticated":false,"error":"E: m",{times}"#,
                head(false)
            ),
        ),
        (
            "a long error, cut to 300 characters",
            failed("ValueError", &"é".repeat(400)),
            format!(r#"{},"executed_by":"gate","error":"ValueError: {}",{times}"#, head(false), "é".repeat(288)),
        ),
        (
            "a long error of characters beyond the basic plane, which count as one",
            failed("ValueError", &"\u{1f600}".repeat(400)),
            format!(
                r#"{},"executed_by":"gate","error":"ValueError: {}",{times}"#,
                head(false),
                "\u{1f600}".repeat(288)
            ),
        ),
        (
            "an error that holds a credential",
            failed("HttpError", "GET https://user:hunter2@h.test failed"),
            format!(r#"{},"executed_by":"gate","error":"HttpError",{times}"#, head(false)),
        ),
        (
            "a credential behind the cut",
            failed("HttpError", &format!("{} https://user:hunter2@h.test", "x".repeat(400))),
            format!(r#"{},"executed_by":"gate","error":"HttpError",{times}"#, head(false)),
        ),
        (
            "an error after the call returned",
            given("error-after-call", &clear, json!({"error_type": "ValueError", "error_message": "bad answer"})),
            format!(
                r#"{},"executed_by":"gate","executed_digest":"{action}","error":"ValueError: bad answer",{times}"#,
                head(true)
            ),
        ),
        (
            "cancelled",
            given("cancelled", &clear, json!({})),
            format!(r#"{},"unknown":true,"executed_by":"gate","error":"cancelled",{times}"#, head(false)),
        ),
        (
            "found open at the next start",
            json!({"how": "crashed", "given": clear, "decision": decision}),
            format!(
                r#"{},"unknown":true,"executed_by":"gate","error":"outcome-unknown: the gate stopped before it could tell"}}"#,
                head(false)
            ),
        ),
        (
            "the caller says that it executed",
            json!({"how": "reported", "given": also(&clear, "executes", json!("caller")), "decision": decision, "executed": true, "executed_digest": action}),
            format!(r#"{},"executed_by":"caller","executed_digest":"{action}"}}"#, head(true)),
        ),
        (
            "the caller says that it did not",
            json!({"how": "reported", "given": also(&plain, "executes", json!("caller")), "decision": decision, "executed": false, "error": "timeout"}),
            format!(r#"{},"executed_by":"caller","error":"timeout"}}"#, head(false)),
        ),
        (
            "the caller's word names no agent: the gate does not know who executed",
            json!({"how": "reported", "given": also(&also(&plain, "claimed_agent", json!("agent-8")), "executes", json!("caller")), "decision": decision, "executed": true}),
            format!(r#"{},"executed_by":"caller"}}"#, head(true)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use receipt::{Body, commit::Disclosure, ijson};

    #[test]
    fn every_text_is_a_body_and_every_disclosure_opens_its_member() {
        for case in bodies().cases {
            let Some(text) = case["body"].as_str() else { continue };
            let members = ijson::parse_object(text).unwrap();
            for line in case["disclosures"].as_array().into_iter().flatten() {
                assert!(Disclosure::parse(line.as_str().unwrap()).unwrap().opens_in(&members), "{}", case["name"]);
            }
            let members = ijson::parse_members(text).unwrap();
            Body::from_members(members).unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        }
    }
}
