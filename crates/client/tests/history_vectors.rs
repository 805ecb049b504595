//! `vectors/history.json`: logs, and what they show of their subjects.
//!
//! Made with the follower itself. To write the file anew: `COUNTERFOIL_WRITE_VECTORS=1 cargo test -p counterfoil-client
//! --test all history_vectors`.

use crate::served_world;
use client::history::{History, HistoryConfig, Whose};
use receipt::SeqNo;
use serde_json::{Value, json};
use served_world::{Served, ServedGate, decision};
use std::path::PathBuf;
use testkit::vectors::VectorFile;

/// What the follower answers to `gate`, which has nothing pending.
async fn answer(served: &Served, gate: &ServedGate, subjects: &[&str], whose: Whose) -> Value {
    let mut follower = History::open(HistoryConfig { whose, ..served.config(gate) }).unwrap();
    let history = follower.of(subjects, &gate.outbox).await.unwrap();
    assert_eq!(history.pending, []);
    let classes: Vec<Value> = history
        .logged
        .iter()
        .map(|item| {
            json!({
                "action_class": item.action_class, "index": item.index.unwrap().0, "issuer": item.issuer, "seq": item.seq,
                "id": item.id, "session": item.session,
            })
        })
        .collect();
    let heads: serde_json::Map<String, Value> =
        history.heads.iter().map(|(subject, id)| (subject.clone(), json!(id))).collect();
    json!({"subjects": subjects, "issuer": if whose == Whose::Own { json!(gate.outbox.name()) } else { Value::Null }, "classes": classes, "heads": heads})
}

async fn case(name: &str, served: &Served, gate: &ServedGate, queries: &[(&[&str], Whose)]) -> Value {
    let mut answers = Vec::new();
    for (subjects, whose) in queries {
        answers.push(answer(served, gate, subjects, *whose).await);
    }
    let log = &served.world.log;
    json!({
        "name": name, "entries_b64": log.entries.iter().map(|entry| merkle::encode_base64(entry)).collect::<Vec<_>>(),
        "size": log.size().0, "root_b64": log.tree.root().0.to_base64(), "queries": answers,
    })
}

async fn cases() -> Vec<Value> {
    let mut served = Served::start().await;
    let (mut one, mut two) = (served.gate("gate.example/1"), served.gate("gate.example/2"));
    let mut cases = Vec::new();
    served.publish();
    cases.push(case("an empty log", &served, &one, &[(&["cust_77"], Whose::All)]).await);

    served.decide(&one, &decision("r-1", "IDENTITY_MUTATION", "s-1", &["cust_77"], true));
    served.deliver(&mut one);
    served.decide(&two, &decision("r-1", "READ", "s-2", &["cust_78", "cust_77"], true));
    served.decide(&two, &decision("r-2", "CREDENTIAL_RECOVERY", "s-3", &["cust_77"], false));
    served.deliver(&mut two);
    served.decide(&one, &json!({"type": "heartbeat"}));
    served.decide(&one, &decision("r-2", "WRITE", "s-1", &["cust_78", "cust_78"], true));
    served.deliver(&mut one);
    served.publish();
    let asked: &[(&[&str], Whose)] = &[
        (&["cust_77"], Whose::All),
        (&["cust_78"], Whose::All),
        (&["cust_78", "cust_77"], Whose::All),
        (&["cust_77", "nobody"], Whose::All),
        (&["nobody"], Whose::All),
        (&["cust_77", "cust_78"], Whose::Own),
        (&[], Whose::All),
    ];
    cases.push(
        case("two gates and two customers; a denial moves a head and is in no history", &served, &one, asked).await,
    );
    cases.push(
        case("the same log, asked by the other gate", &served, &two, &[(&["cust_77", "cust_78"], Whose::Own)]).await,
    );

    let hidden = receipt::commit("subjects", &json!(["cust_77"]), [1; 16]).0;
    let class = receipt::commit("action_class", &json!("DELETE"), [2; 16]).0;
    for (request, member, value) in [("r-3", "subjects", hidden), ("r-4", "action_class", class)] {
        let mut body = decision(request, "DELETE", "s-1", &["cust_77"], true);
        body[member] = value;
        served.decide(&one, &body);
    }
    let mut unclassed = decision("r-5", "", "s-1", &["cust_79"], true);
    unclassed.as_object_mut().unwrap().remove("action_class");
    served.decide(&one, &unclassed);
    served.decide(&one, &json!({"type": "outcome", "request_id": "r-1", "executed": true, "subjects": ["cust_77"]}));
    served.deliver(&mut one);
    served.publish();
    let asked: &[(&[&str], Whose)] = &[(&["cust_77"], Whose::All), (&["cust_79"], Whose::All)];
    cases.push(case("committed subjects and classes, and a decision without a class", &served, &one, asked).await);

    let mut stranger = served.gate("gate.example/3");
    served.decide(&stranger, &decision("r-1", "DELETE", "s", &["cust_77"], true));
    let entry = |gate: &ServedGate, seq| gate.outbox.receipt(SeqNo(seq)).unwrap().unwrap().bytes().to_vec();
    let mut spoilt = entry(&stranger, 0);
    let place = spoilt.len() - 20;
    spoilt[place] = if spoilt[place] == b'A' { b'B' } else { b'A' };
    for entry in [entry(&stranger, 1), spoilt, b"no receipt".to_vec(), entry(&one, 1), Vec::new()] {
        served.world.log.push(entry);
    }
    served.publish();
    cases.push(
        case("entries that no log may admit count for nothing", &served, &one, &[(&["cust_77"], Whose::All)]).await,
    );
    served.deliver(&mut stranger);
    served.publish();
    cases.push(case("and the stream goes on where it belongs", &served, &one, &[(&["cust_77"], Whose::All)]).await);
    cases
}

#[tokio::test]
async fn the_committed_histories_are_what_the_follower_makes() {
    let file = VectorFile {
        name: "history.json",
        about: "Read entries_b64 as a whole log: size and root_b64 are its tree's. Of queries: classes are the allowed decisions with a class, in the clear, that name any of subjects, in the log's order and each once; heads the newest receipt that names each subject, denials and decisions without a class too; of issuer alone where it is given. What admission refuses counts for nothing.",
        cases: cases().await,
    };
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/history.json");
    let text = file.text();
    if std::env::var_os("COUNTERFOIL_WRITE_VECTORS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        committed == text,
        "history.json is not what the follower makes, first in line {:?}",
        differs.map(|line| line + 1)
    );
}
