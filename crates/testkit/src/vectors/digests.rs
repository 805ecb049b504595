//! `jcs.json`, `commitments.json`, `actions.json`: digests of JSON values.

use super::{VectorFile, members};
use receipt::commit::{Disclosure, commit};
use receipt::{Action, ActionDigest, Digest, ijson, jcs::canonical};
use serde_json::{Map, Value, json};

pub(super) fn jcs() -> VectorFile {
    let cases = JCS.iter().map(|(name, text)| match ijson::parse_value(text) {
        Ok(value) => {
            let canonical = canonical(&value);
            let sha256 = hex::encode(Digest::of_bytes(canonical.as_bytes()).0);
            json!({"name": name, "text": text, "canonical": canonical, "sha256": sha256})
        }
        Err(error) => json!({"name": name, "text": text, "code": error.code()}),
    });
    VectorFile {
        name: "jcs.json",
        about: "Parse text as one I-JSON value of any type, write it by RFC 8785, hash it. code where it is no I-JSON.",
        cases: cases.collect(),
    }
}

const JCS: &[(&str, &str)] = &[
    (
        "the example of RFC 8785",
        r#"{"numbers":[333333333.33333329,1E14,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
    ),
    (
        "names by UTF-16 units",
        "{\"\u{20ac}\":1,\"\\r\":2,\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7}",
    ),
    ("names that look like numbers", r#"{"10":1,"9":2,"1":3,"":4,"-1":5}"#),
    ("a prefix sorts first", r#"{"ab":1,"a":2,"aa":3}"#),
    ("the prototype is a name", r#"{"b":1,"__proto__":2,"constructor":3}"#),
    ("objects within objects", r#"{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":{}}"#),
    ("control characters", r#""\u0000\u0001\b\t\n\u000b\f\r\u000e\u001f \u007f\u0080""#),
    ("no escape that is not needed", "\"\\/\\u00e9\\u2028\\u2029\u{feff}<>&'\""),
    ("normalisation is left alone", "\"e\u{301}\\u00e9\""),
    ("minus zero", "-0"),
    ("minus zero as a fraction", "-0.0"),
    ("whole numbers however written", "[1.0,1e2,100E-2,0.3e1]"),
    ("the greatest and the least number", "[9007199254740991,-9007199254740991]"),
    ("where exponents begin", "[0.000001,0.0000001,1e-6,1e-7,123456789.125]"),
    ("doubles written short", "[0.1,0.2,0.30000000000000004,1.1,5e-324,2.2250738585072014e-308,1.0000000000000002]"),
    ("a number that rounds to zero", "[1e-400,-1e-400]"),
    ("a half between two doubles", "[4503599627370495.5,4503599627370497.5,0.5000000000000001]"),
    ("the empty containers", r#"[{},[],""]"#),
    ("white space goes", " [ 1 , { \"a\" : null } ] \n"),
    ("a number beyond the bound", "[9007199254740992]"),
    ("a number of the RFC that is beyond the bound", "[1E30]"),
    ("a name twice", r#"{"a":1,"\u0061":1}"#),
    ("a lone surrogate", r#""\ud800""#),
    ("no JSON", "[1,]"),
];

/// The salts of the cases: bytes that count up from 16 times `number`, the last one 255.
fn salt(number: u8) -> [u8; 16] {
    std::array::from_fn(|place| if place == 15 { 255 } else { number.wrapping_mul(16).wrapping_add(place as u8) })
}

/// A salt as it stands in a disclosure.
fn salt_text(number: u8) -> String {
    let (_, disclosure) = commit("", &Value::Null, salt(number));
    let line: Value = serde_json::from_str(&disclosure.to_string()).unwrap_or_default();
    line["salt"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn commitments() -> VectorFile {
    let values = [
        ("operation", json!("mail.send")),
        ("args", json!({"to": "a@b.test", "n": 1, "z": [0.5, null]})),
        ("why", json!("prüfen ✓ \u{1f600}\n\"quoted\"")),
        ("count", json!(0)),
        ("", json!("")),
        ("n\"ame/~", json!(false)),
        ("prior_action_classes", json!(["READ", "IDENTITY_MUTATION"])),
        ("nothing", Value::Null),
    ];
    let mut cases: Vec<Value> = values
        .iter()
        .zip(0u8..)
        .map(|((name, value), number)| {
            let (committed, disclosure) = commit(name, value, salt(number));
            json!({
                "name": format!("the member {name:?}"), "salt": salt_text(number), "member": name, "value": value,
                "digest": disclosure.digest(), "committed": committed, "disclosure": disclosure.to_string(),
            })
        })
        .collect();
    cases.extend(committed_bodies());
    let good = commit("args", &json!(1), salt(0)).1.to_string();
    let lines = [
        ("a kept line", good.as_str()),
        (
            "a kept line in another order and with spaces",
            " { \"value\": 1.0, \"name\": \"args\", \"salt\": \"AAECAwQFBgcICQoLDA0O_w\" }",
        ),
        ("a member too few", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"args"}"#),
        ("a member too many", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"args","value":1,"more":1}"#),
        ("a name that is no string", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":1,"value":1}"#),
        ("a salt with padding", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w==","name":"args","value":1}"#),
        ("a salt with unused bits set", r#"{"salt":"AAECAwQFBgcICQoLDA0O_x","name":"args","value":1}"#),
        ("a salt in the other alphabet", r#"{"salt":"AAECAwQFBgcICQoLDA0O/w","name":"args","value":1}"#),
        ("a salt of 15 bytes", r#"{"salt":"AAECAwQFBgcICQoLDA0O","name":"args","value":1}"#),
        ("a salt of 17 bytes", r#"{"salt":"AAECAwQFBgcICQoLDA0O_wA","name":"args","value":1}"#),
        ("a name twice", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"args","name":"args","value":1}"#),
        ("a value beyond the bound", r#"{"salt":"AAECAwQFBgcICQoLDA0O_w","name":"args","value":9007199254740993}"#),
        ("no object", "[]"),
    ];
    cases.extend(lines.into_iter().map(|(name, line)| match Disclosure::parse(line) {
        Ok(disclosure) => json!({"name": name, "disclosure": line, "digest": disclosure.digest()}),
        Err(error) => json!({"name": name, "disclosure": line, "code": error.code()}),
    }));
    VectorFile {
        name: "commitments.json",
        about: "With salt, member and value: make digest, committed (what stands in the receipt) and disclosure (the line that is kept). With body, commit and salts: replace the named members. With disclosure alone: read it; digest is what it opens, code why it is none.",
        cases,
    }
}

fn committed_bodies() -> Vec<Value> {
    let decision = json!({
        "type": "decision", "request_id": "r-1", "decision": "allow", "operation": "mail.send", "resource": "outbox",
        "args": {"to": "a@b.test"}, "authenticated": true, "executes": "gate",
    });
    let cases: [(&str, &[&str]); 3] = [
        ("one member committed", &["operation"]),
        ("members committed in the order of the body", &["args", "operation", "resource"]),
        ("required members committed", &["request_id", "authenticated"]),
    ];
    cases
        .into_iter()
        .map(|(name, names)| {
            let mut body: Map<String, Value> = members(&decision);
            let (mut salts, mut kept) = (Map::new(), Vec::new());
            for (number, member) in (0u8..).zip(names) {
                salts.insert((*member).to_owned(), json!(salt_text(number)));
                let (committed, disclosure) = commit(member, &decision[*member], salt(number));
                body.insert((*member).to_owned(), committed);
                kept.push(disclosure.to_string());
            }
            json!({
                "name": name, "body": decision.to_string(), "commit": names, "salts": salts,
                "committed_body": Value::Object(body).to_string(), "disclosures": kept,
            })
        })
        .collect()
}

pub(super) fn actions() -> VectorFile {
    let full = json!({"operation": "mail.send", "resource": "outbox", "args": {"to": "a@b.test", "body": "é"}, "capability_id": "cap_1", "nonce": "r-1"});
    let changed = |name: &str, value: Value| super::with(full.clone(), name, value);
    let actions = [
        ("all five members", full.clone()),
        ("no capability", changed("capability_id", Value::Null)),
        ("an empty capability is another one", changed("capability_id", json!(""))),
        ("no arguments", changed("args", Value::Null)),
        ("empty arguments are not none", changed("args", json!({}))),
        ("arguments in another order", changed("args", json!({"body": "é", "to": "a@b.test"}))),
        ("arguments with fractions", changed("args", json!({"a": [0.1, 1e-7, 1.0, -0.0]}))),
        ("an array", changed("args", json!([1, "1", true]))),
        ("another nonce", changed("nonce", json!("r-2"))),
        ("another operation", changed("operation", json!("mail.drop"))),
        ("characters that need an escape", changed("resource", json!("a\"b\\c/d\u{1}\u{7f}\u{2028}\u{1f600}"))),
    ];
    let cases = actions.into_iter().map(|(name, action)| {
        let text = |member: &str| action[member].as_str().unwrap_or_default();
        let digest = ActionDigest::of(&Action {
            operation: text("operation"),
            resource: text("resource"),
            args: &action["args"],
            capability_id: action["capability_id"].as_str(),
            nonce: text("nonce"),
        });
        json!({"name": name, "action": action, "canonical": canonical(&action), "digest": digest.to_string()})
    });
    VectorFile {
        name: "actions.json",
        about: "Write action by RFC 8785 (canonical) and hash it (digest). All five members are always there.",
        cases: cases.collect(),
    }
}
