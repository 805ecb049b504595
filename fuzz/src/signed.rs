//! audit: receipts of the signed formats, carried as they come.

use crate::audits::assert_printable;
use crate::world::World;
use audit::{Rules, Status, import_lines};
use serde_json::{Value, json};
use testkit::signed_records::{chain, pin, sorted};

/// The only key that is pinned.
const PINNED: u8 = 41;

/// How many receipts that key ever signed.
const SIGNED: u64 = 3;

/// Any bytes, carried as a receipt of acta.
pub fn acta(data: &[u8]) {
    carried("acta", data, |value| value.clone());
}

/// Any bytes, carried as a receipt of obsigna.
pub fn obsigna(data: &[u8]) {
    carried("obsigna", data, |value| {
        let mut signed = without_nulls(value);
        signed.as_object_mut().unwrap().remove("proof");
        signed
    });
}

/// Any bytes, carried as a receipt of pipelock.
pub fn pipelock(data: &[u8]) {
    carried("pipelock", data, |value| {
        let receipt = value.get("detail").unwrap_or(value);
        let mut record = receipt["action_record"].clone();
        record.as_object_mut().unwrap().retain(|_, value| !is_zero(value));
        record
    });
}

/// Whatever the bytes are: they are judged without a panic, in sentences that are safe to print; the importer takes what
/// the judge calls a record and nothing else; and what is believed says what the pinned key signed (`signed` takes away
/// what no signature covers).
fn carried(format: &str, data: &[u8], signed: fn(&Value) -> Value) {
    // What is longer is refused by its length alone.
    if data.len() > 40_000 {
        return;
    }
    let mut world = World::new();
    let body = json!({"type": "foreign", "format": format, "receipt_b64": merkle::encode_base64(data)});
    world.log_body(0, &body.to_string());
    world.seal();
    let verdict = world.audit_by(&world.bundle(), &Rules::parse(&pin(format, PINNED)).unwrap());
    for check in &verdict.checks {
        assert_printable(&check.covers);
        for finding in &check.findings {
            [&finding.shown, &finding.not_shown, &finding.next].into_iter().for_each(|said| assert_printable(said));
        }
    }
    assert_eq!(verdict.check("issuer/gate.example/support-1").unwrap().status, Status::Ok);
    let status = |check: &str| verdict.check(&format!("foreign/{format}/{check}")).unwrap().status;
    let Ok(text) = str::from_utf8(data) else {
        assert_eq!(status("record"), Status::Fail);
        return;
    };
    let imported = import_lines(format, text).map_or(0, |records| records.len());
    if status("record") == Status::Ok {
        assert_eq!(imported, 1);
    }
    if status("signature") == Status::Ok {
        let said = sorted(&signed(&serde_json::from_str(text).unwrap()));
        let chain = chain(format, PINNED, SIGNED);
        assert!(chain.iter().any(|receipt| sorted(&signed(receipt)) == said), "{text}");
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(without_nulls).collect()),
        // 1.0 and 1 are one number to this format.
        Value::Number(number) => number
            .as_f64()
            .filter(|float| number.is_f64() && float.fract() == 0.0)
            .map_or_else(|| value.clone(), |float| json!(float as i64)),
        other => other.clone(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
