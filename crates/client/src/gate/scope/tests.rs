#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::gate::bodies::DecisionText;
use crate::gate::{Decision, Report};
use crate::outbox::OutboxError;
use receipt::body::Ruling;
use receipt::{Body, find_credential, ijson};
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The shared cases for what gates write, which every SDK is held to.
fn cases() -> Vec<Map<String, Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/bodies.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().iter().map(|case| case.as_object().unwrap().clone()).collect()
}

/// The salt of a disclosure's line.
fn salt_of(text: &str) -> [u8; 16] {
    // Base64url of 16 bytes without padding, as standard base64 with it.
    let padded = format!("{}==", text.replace('-', "+").replace('_', "/"));
    merkle::decode_base64(&padded).unwrap().try_into().unwrap()
}

fn written(call: &str, given: &Value) -> Result<DecisionText, String> {
    let mut given = given.as_object().unwrap().clone();
    let salts: BTreeMap<String, [u8; 16]> = given
        .remove("salts")
        .map(|salts| {
            salts
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, salt)| (name.clone(), salt_of(salt.as_str().unwrap())))
                .collect()
        })
        .unwrap_or_default();
    let ruling = if call == "deny" { Ruling::Deny } else { Ruling::Allow };
    let code = |fault: bodies::ClaimsFault| fault.code().to_owned();
    let (_, decision) = Decision::from_call(&given).map_err(code)?;
    let request_id = decision.request_id.clone().unwrap();
    let names = decision.commit.clone();
    let mut names = names.iter();
    let mut salt = || names.next().and_then(|name| salts.get(name)).copied().unwrap_or_default();
    bodies::decision(ruling, &decision, &request_id, &mut salt).map_err(code)
}

#[test]
fn decisions_are_written_and_refused_as_the_shared_cases_say() {
    let mut compared = 0;
    for case in cases().iter().filter(|case| case.contains_key("call")) {
        let name = &case["name"];
        let written = written(case["call"].as_str().unwrap(), &case["given"]);
        match case.get("code").and_then(Value::as_str) {
            Some("credential-shaped") => {
                let found = find_credential(&ijson::parse_object(&written.unwrap().text).unwrap()).unwrap();
                assert_eq!(json!(found.path.to_string()), case["member"], "{name}");
            }
            Some(code) => assert_eq!(written.unwrap_err(), code, "{name}"),
            None => {
                let written = written.unwrap();
                assert_eq!(json!(written.text), case["body"], "{name}");
                let lines: Vec<String> = written.disclosures.iter().map(ToString::to_string).collect();
                assert_eq!(json!(lines), case.get("disclosures").cloned().unwrap_or(json!([])), "{name}");
            }
        }
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn outcomes_are_written_as_the_shared_cases_say() {
    let mut compared = 0;
    for case in cases() {
        let Some(end) = case.get("end") else { continue };
        let text = |name: &str| end.get(name).and_then(Value::as_str).map(str::to_owned);
        let decided = written("decision", &end["given"]).unwrap();
        let Body::Decision(decision) = Body::from_members(ijson::parse_members(&decided.text).unwrap()).unwrap() else {
            panic!("{case:?}")
        };
        let agent = bodies::agent_of(&decision);
        let id = ReceiptId::parse(&text("decision").unwrap()).unwrap();
        let request_id = end["given"]["request_id"].as_str().unwrap();
        let time = |name: &str| UnixMillis(end.get(name).and_then(Value::as_u64).unwrap_or_default());
        let mut ending = Ending::default();
        let failed = || Some(bodies::error_text(&text("error_type").unwrap(), &text("error_message").unwrap()));
        let mut by = By::Finish;
        match end["how"].as_str().unwrap() {
            "returned" => ending.returned = true,
            "not-executed" => ending.error = Some(bodies::reason_text(&text("reason").unwrap())),
            "error" => ending.error = failed(),
            "error-after-call" => (ending.returned, ending.error) = (true, failed()),
            "cancelled" => by = By::Drop,
            "crashed" | "reported" => {}
            other => panic!("{other}"),
        }
        ending.result_digest = end.get("result").map(Digest::of_json);
        if let Some(bytes) = text("result_b64") {
            ending.result_digest = Some(Digest::of_bytes(&merkle::decode_base64(&bytes).unwrap()));
        }
        let members = match end["how"].as_str().unwrap() {
            "crashed" => bodies::outcome_left(Some(request_id.to_owned()), id, agent),
            "reported" => {
                let report = Report {
                    executed: end["executed"].as_bool().unwrap(),
                    error: text("error"),
                    executed_digest: text("executed_digest").map(|digest| digest.parse().unwrap()),
                };
                bodies::outcome_reported(Some(request_id.to_owned()), id, &report)
            }
            _ => {
                let (executed_digest, started_at) = (decided.executed_digest, time("started_at"));
                Due { executed_digest, agent, started_at, ending }.outcome(request_id, id, by, time("ended_at"))
            }
        };
        assert_eq!(json!(bodies::outcome(&members)), case["body"], "{}", case["name"]);
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn every_way_to_end_has_its_row() {
    let told = |returned, calling, error: Option<&str>, by| {
        let ending = Ending { returned, calling, error: error.map(str::to_owned), ..Ending::default() };
        let (executed, unknown, error) = ending.told(by);
        (executed, unknown, error.unwrap_or_default())
    };
    let row = |executed, unknown, error: &str| (executed, unknown, error.to_owned());
    assert_eq!(told(true, false, None, By::Finish), row(true, false, ""));
    assert_eq!(told(true, false, None, By::Drop), row(true, false, ""));
    assert_eq!(told(true, false, None, By::Panic), row(true, false, "panic"));
    assert_eq!(told(true, false, Some("E: m"), By::Drop), row(true, false, "E: m"));
    assert_eq!(told(true, true, None, By::Drop), row(true, false, "cancelled"));
    assert_eq!(told(false, true, None, By::Drop), row(false, true, "cancelled"));
    assert_eq!(told(false, false, Some("E: m"), By::Panic), row(false, false, "E: m"));
    assert_eq!(told(false, false, None, By::Panic), row(false, false, "panic"));
    assert_eq!(told(false, false, None, By::Drop), row(false, true, "cancelled"));
    let aimless = "outcome-unknown: the scope ended without a call";
    assert_eq!(told(false, false, None, By::Finish), row(false, true, aimless));
}

#[test]
fn an_error_is_named_by_its_type_without_path_and_parameters() {
    assert_eq!(short_name(std::any::type_name::<OutboxError>()), "OutboxError");
    assert_eq!(short_name(std::any::type_name::<std::io::Error>()), "Error");
    assert_eq!(short_name(std::any::type_name::<Box<dyn std::error::Error>>()), "Box");
    assert_eq!(short_name(std::any::type_name::<&str>()), "&str");
}
