//! `policies.json`: whom to believe, and how many of them.

use super::{VectorFile, b64, key};
use note::{KeyKind, Member, Policy};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn policies() -> VectorFile {
    VectorFile {
        name: "policies.json",
        about: "Read policy (or policy_b64) as a tlog-policy. code null: logs and witnesses are its vkeys in order, groups and quorum what they are made of, and quorums says of sets of cosigners, by place among the witnesses, whether they satisfy it. Else code, and line, from 1.",
        cases: inputs().into_iter().map(|(name, policy)| case(name, &policy)).collect(),
    }
}

fn case(name: &str, octets: &[u8]) -> Value {
    let given = match std::str::from_utf8(octets) {
        Ok(text) => json!({"name": name, "policy": text}),
        Err(_) => json!({"name": name, "policy_b64": b64(octets)}),
    };
    let policy = match Policy::parse(octets) {
        Ok(policy) => policy,
        Err(error) => {
            return super::with(super::with(given, "code", json!(error.kind.code())), "line", json!(error.line));
        }
    };
    let name_of = |member: Member| policy.name_of(member).to_string();
    let groups = policy.groups().iter().map(|group| {
        let members: Vec<String> = group.members.iter().map(|member| name_of(*member)).collect();
        json!({"name": group.name.to_string(), "threshold": group.threshold, "members": members})
    });
    let read = json!({
        "code": null,
        "logs": policy.logs().iter().map(|log| &log.vkey).collect::<Vec<_>>(),
        "witnesses": policy.witnesses().iter().map(|witness| &witness.vkey).collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "quorum": policy.quorum().map(name_of),
        "quorums": quorums(&policy),
    });
    super::members(&read).into_iter().fold(given, |given, (name, value)| super::with(given, &name, value))
}

/// Every set of at most five witnesses, and whether it is enough.
fn quorums(policy: &Policy) -> Vec<Value> {
    let witnesses = policy.witnesses().len().min(5);
    (0u32..1 << witnesses)
        .map(|bits| {
            let set: BTreeSet<usize> = (0..witnesses).filter(|place| bits >> place & 1 == 1).collect();
            json!([set, policy.satisfied_by(&set)])
        })
        .collect()
}

fn log_line() -> String {
    format!("log {}\n", key("log.example/agents", KeyKind::Ed25519, 1).verifier())
}

fn witness_line(number: u8) -> String {
    let vkey = key(&format!("witness.example/{number}"), KeyKind::CosignatureV1, number + 1).verifier();
    format!("witness w{number} {vkey}\n")
}

fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let log = log_line();
    let three = format!("{log}{}{}{}", witness_line(1), witness_line(2), witness_line(3));
    let five = format!("{three}{}{}", witness_line(4), witness_line(5));
    let vkey = |line: &str| line.split(' ').next_back().unwrap_or_default().trim().to_owned();
    let (log_vkey, first) = (vkey(&log), vkey(&witness_line(1)));
    let with = |rest: &str| format!("{three}{rest}").into_bytes();
    let of_five = |rest: &str| format!("{five}{rest}").into_bytes();
    let renamed = key("other.example", KeyKind::CosignatureV1, 2).verifier();
    let twin = key("witness.example/1", KeyKind::CosignatureV1, 6).verifier();
    let many = |count: usize| {
        let groups: String = (0..count)
            .map(|group| {
                format!("group g{group} any {}\n", if group == 0 { "w1".to_owned() } else { format!("g{}", group - 1) })
            })
            .collect();
        format!("{log}{}{groups}quorum g{}\n", witness_line(1), count - 1)
    };
    vec![
        ("no witness is asked for", format!("{log}quorum none\n").into_bytes()),
        ("no log is listed", format!("{}quorum w1\n", witness_line(1)).into_bytes()),
        ("one witness", format!("{log}{}quorum w1\n", witness_line(1)).into_bytes()),
        ("two of three", with("group q 2 w1 w2 w3\nquorum q\n")),
        ("any of three", with("group q any w1 w2 w3\nquorum q\n")),
        ("all of three", with("group q all w1 w2 w3\nquorum q\n")),
        ("a number that is all", with("group q 3 w1 w2 w3\nquorum q\n")),
        ("groups in groups", of_five("group a any w1 w2\ngroup b all w3 w4\ngroup q 2 a b w5\nquorum q\n")),
        ("three levels", of_five("group a any w1 w2\ngroup b 2 a w3 w4\ngroup q all b w5\nquorum q\n")),
        ("a group that the quorum does not ask", with("group q any w1 w2\nquorum w3\n")),
        ("two keys of one witness", format!("{three}witness twin {twin}\ngroup one any w1 twin\ngroup q 2 one w2 w3\nquorum q\n").into_bytes()),
        ("addresses, comments, blank lines, tabs", format!("# a policy\n\n\tlog  {log_vkey}\thttps://log.example/agents \n  # more\nwitness w1 {first} https://witness.example\n\nquorum\tw1\n").into_bytes()),
        ("a name that is no UTF-8", [b"witness \xff ", first.as_bytes(), b"\nquorum \xff\n"].concat()),
        ("names that are keywords", with("group quorum any w1 w2\ngroup log all quorum w3\nquorum log\n")),
        ("256 groups", many(256).into_bytes()),
        ("257 groups", many(257).into_bytes()),
        ("nothing", Vec::new()),
        ("comments alone", b"# nothing\n".to_vec()),
        ("no quorum line", three.clone().into_bytes()),
        ("two quorum lines", with("quorum w1\nquorum w2\n")),
        ("the same quorum line twice", with("quorum w1\nquorum w1\n")),
        ("a quorum of a name that is not there", with("quorum w4\n")),
        ("a quorum before what it names", format!("quorum w1\n{three}").into_bytes()),
        ("a quorum of nothing", with("quorum\n")),
        ("a quorum of two", with("quorum w1 w2\n")),
        ("the last line does not end", format!("{three}quorum w1").into_bytes()),
        ("carriage returns", format!("{three}quorum w1\n").replace('\n', "\r\n").into_bytes()),
        ("a zero byte", with("quorum w1\0\n")),
        ("a form feed for a blank", with("quorum\u{c}w1\n")),
        ("a no-break space for a blank is part of a word", with("quorum\u{a0}w1\n")),
        ("an unknown word", with("quorums w1\n")),
        ("a keyword in upper case", with("QUORUM w1\n")),
        ("a comment behind a line", with("quorum w1 # here\n")),
        ("a threshold of nothing", with("group q 0 w1 w2\nquorum q\n")),
        ("a threshold above the members", with("group q 4 w1 w2 w3\nquorum q\n")),
        ("a threshold with a leading zero", with("group q 02 w1 w2 w3\nquorum q\n")),
        ("a threshold with a sign", with("group q +2 w1 w2 w3\nquorum q\n")),
        ("a threshold that is no number", with("group q most w1 w2\nquorum q\n")),
        ("a threshold of 2^64", with("group q 18446744073709551616 w1 w2\nquorum q\n")),
        ("a group without members", with("group q any\nquorum q\n")),
        ("a group without a threshold", with("group q\nquorum q\n")),
        ("a member twice", with("group q 2 w1 w1 w2\nquorum q\n")),
        ("a member of two groups", with("group a any w1 w2\ngroup q 2 a w1\nquorum q\n")),
        ("a group in itself", with("group q any w1 q\nquorum q\n")),
        ("a group before its member", with("group q any w1 r\ngroup r any w2 w3\nquorum q\n")),
        ("none as a member", with("group q any w1 none\nquorum q\n")),
        ("a group called none", with("group none any w1 w2\nquorum w3\n")),
        ("a witness called none", format!("{log}{}quorum none\n", witness_line(1).replace("w1", "none")).into_bytes()),
        ("a name defined twice", format!("{three}{}quorum w1\n", witness_line(4).replace("w4", "w1")).into_bytes()),
        ("a group of a witness's name", with("group w1 any w2 w3\nquorum w1\n")),
        ("one witness key twice", format!("{three}{}quorum w1\n", witness_line(1).replace("w1", "w4")).into_bytes()),
        ("one witness key under two names", format!("{three}witness w4 {renamed}\nquorum w1\n").into_bytes()),
        ("one log twice", format!("{log}{log}quorum none\n").into_bytes()),
        ("a log's key for a witness", format!("{log}witness w1 {log_vkey}\nquorum w1\n").into_bytes()),
        ("a witness's key for a log", format!("log {first}\nquorum none\n").into_bytes()),
        ("a vkey with another id", format!("{}quorum none\n", log.replace("log.example", "log2.example")).into_bytes()),
        ("a vkey that is none", b"log log.example\nquorum none\n".to_vec()),
        ("a log line without a vkey", b"log\nquorum none\n".to_vec()),
        ("a witness line without a vkey", b"witness w1\nquorum none\n".to_vec()),
        ("a log line with a word too many", format!("log {log_vkey} https://a.example https://b.example\nquorum none\n").into_bytes()),
        ("a witness line with a word too many", format!("witness w1 {first} https://a.example b\nquorum none\n").into_bytes()),
        ("a byte order mark", [b"\xef\xbb\xbf", log.as_bytes(), b"quorum none\n"].concat()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_code_of_a_policy_but_that_of_two_mebibytes_is_shown() {
        let codes: BTreeSet<String> =
            policies().cases.iter().filter_map(|case| case["code"].as_str().map(str::to_owned)).collect();
        for code in [
            "policy-too-many",
            "policy-unterminated",
            "policy-control",
            "policy-keyword",
            "policy-too-few-words",
            "policy-too-many-words",
            "policy-key-kind",
            "policy-duplicate-key",
            "policy-duplicate-name",
            "policy-reserved-name",
            "policy-threshold",
            "policy-undefined",
            "policy-none-as-member",
            "policy-member-twice",
            "policy-second-quorum",
            "policy-no-quorum",
            "key-id-mismatch",
            "key-shape",
        ] {
            assert!(codes.contains(code), "{code} in {codes:?}");
        }
    }
}
