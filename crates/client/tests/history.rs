//! Histories by what the log shows: over sessions, gates, restarts and resets, and against logs that lie.

use crate::served_world;
use client::gate::{Decision, Gate, GateConfig};
use client::history::{History, HistoryConfig, HistoryError, HistoryMode, SubjectHistory, Whose};
use note::TlogProof;
use receipt::ReceiptId;
use serde_json::json;
use served_world::{Served, ServedGate, classes, decision};
use std::time::Duration;
use testkit::world::tiled::TiledLog;

const MUTATION: &str = "IDENTITY_MUTATION";
const RECOVERY: &str = "CREDENTIAL_RECOVERY";

/// A log with two gates, of which the first changed a customer's address.
async fn mutated() -> (Served, ServedGate, ServedGate) {
    let mut served = Served::start().await;
    let (mut one, mut two) = (served.gate("gate.example/1"), served.gate("gate.example/2"));
    served.decide(&one, &decision("r-1", MUTATION, "s-1", &["cust_77"], true));
    served.decide(&two, &decision("r-1", "READ", "s-9", &["cust_78"], true));
    served.deliver(&mut one);
    served.deliver(&mut two);
    served.publish();
    (served, one, two)
}

#[tokio::test]
async fn what_one_gate_allowed_another_gate_sees_and_can_prove() {
    let (served, one, two) = mutated().await;
    let mut follower = served.follower(&two);
    let history = follower.of(&["cust_77"], &two.outbox).await.unwrap();
    let item = &history.logged[0];
    assert_eq!((item.action_class.as_str(), item.issuer.as_str(), item.seq.0), (MUTATION, "gate.example/1", 1));
    assert_eq!((item.index.map(|index| index.0), item.session.as_deref()), (Some(1), Some("s-1")));
    let logged = one.outbox.receipt(item.seq).unwrap().unwrap();
    assert_eq!(history.heads, [("cust_77".to_owned(), logged.id())]);
    assert_eq!((history.size.0, history.is_witnessed(), &history.why), (4, true, &None));
    let proof = follower.proof(&history, item).await.unwrap();
    let verified = TlogProof::parse(proof.as_bytes()).unwrap().verify(&item.id.0, &served.world.policy()).unwrap();
    assert_eq!(verified.checkpoint.checkpoint().root, history.root);
    let mut pending = item.clone();
    pending.index = None;
    assert_eq!(follower.proof(&history, &pending).await.unwrap_err().code(), "history-unavailable");
}

#[tokio::test]
async fn a_pair_split_over_two_sessions_is_one_history_of_the_customer() {
    // Runs F to H: two sessions, two resources, one customer.
    let (mut served, mut one, _) = mutated().await;
    let mut follower = served.follower(&one);
    assert_eq!(classes(&follower.of(&["cust_77"], &one.outbox).await), [MUTATION]);
    served.decide(&one, &decision("r-2", RECOVERY, "s-2", &["auth_77", "cust_77"], false));
    served.decide(&one, &decision("r-3", "READ", "s-3", &["auth_77"], true));
    served.deliver(&mut one);
    served.publish();
    let both = follower.of(&["auth_77", "cust_77"], &one.outbox).await;
    assert_eq!(classes(&both), [MUTATION, "READ"], "a denial is in no history");
    let heads: Vec<String> = both.unwrap().heads.iter().map(|(subject, _)| subject.clone()).collect();
    assert_eq!(heads, ["auth_77", "cust_77"]);
    let alone = follower.of(&["cust_77"], &one.outbox).await.unwrap();
    let denied = one.outbox.receipt(receipt::SeqNo(2)).unwrap().unwrap();
    assert_eq!(alone.heads, [("cust_77".to_owned(), denied.id())], "and moves its head");
}

#[tokio::test]
async fn a_gate_that_forgets_everything_is_told_what_it_did() {
    // Run I: the gate presents an empty history, because it has one.
    let (served, one, _) = mutated().await;
    let one = one.reset();
    let mut follower = served.follower(&one);
    let history = follower.of(&["cust_77"], &one.outbox).await;
    assert_eq!(classes(&history), [MUTATION]);
    assert_eq!(history.unwrap().pending, []);
    // Under another name, too.
    let mut served = served;
    let other = served.gate("gate.example/3");
    assert_eq!(classes(&served.follower(&other).of(&["cust_77"], &other.outbox).await), [MUTATION]);
}

#[tokio::test]
async fn what_the_log_does_not_show_yet_is_pending_and_only_adds() {
    let (mut served, mut one, two) = mutated().await;
    let mut follower = served.follower(&one);
    served.decide(&one, &decision("r-2", "READ", "s-1", &["cust_77"], true));
    let last = served.decide(&one, &decision("r-3", RECOVERY, "s-1", &["cust_77"], false));
    let history = follower.of(&["cust_77"], &one.outbox).await;
    assert_eq!(classes(&history), [MUTATION, "READ"]);
    let history = history.unwrap();
    assert_eq!((history.logged.len(), history.pending.len()), (1, 1));
    assert_eq!(history.heads[0].1, one.outbox.receipt(last).unwrap().unwrap().id());
    assert_eq!(history.next_seq, last.next().unwrap());
    // Logged, and no head covers it: still pending.
    served.deliver(&mut one);
    served.serve();
    assert_eq!(follower.of(&["cust_77"], &one.outbox).await.unwrap().pending.len(), 1);
    // Signed, and no witness was there yet: the same, under the old head.
    served.world.seal();
    served.serve();
    let history = follower.of(&["cust_77"], &one.outbox).await.unwrap();
    assert_eq!((history.size.0, history.logged.len(), history.pending.len()), (4, 1, 1));
    assert_eq!(history.heads[0].1, one.outbox.receipt(last).unwrap().unwrap().id());
    assert_eq!(follower.size().0, 6);
    // To another gate it is nothing before that.
    assert_eq!(follower.of(&["cust_77"], &two.outbox).await.unwrap().classes(), [MUTATION]);
    served.publish();
    let history = follower.of(&["cust_77"], &one.outbox).await.unwrap();
    assert_eq!((history.size.0, history.logged.len(), history.pending.len()), (6, 2, 0));
}

#[tokio::test]
async fn whose_decisions_count_is_the_gates_choice() {
    let (served, one, two) = mutated().await;
    let own = |gate: &ServedGate| History::open(HistoryConfig { whose: Whose::Own, ..served.config(gate) }).unwrap();
    assert_eq!(classes(&own(&two).of(&["cust_77", "cust_78"], &two.outbox).await), ["READ"]);
    assert_eq!(classes(&own(&one).of(&["cust_77", "cust_78"], &one.outbox).await), [MUTATION]);
    assert_eq!(classes(&served.follower(&one).of(&["cust_77", "cust_78"], &one.outbox).await), [MUTATION, "READ"]);
}

#[tokio::test]
async fn a_log_that_grows_over_pages_is_read_once_and_whole() {
    let (mut served, mut one, _) = mutated().await;
    let mut follower = served.follower(&one);
    let mut expected = vec![MUTATION.to_owned()];
    for (round, size) in [5u64, 255, 256, 257, 300, 513].into_iter().enumerate() {
        let class = format!("CLASS_{round}");
        served.decide(&one, &decision(&format!("q-{round}"), &class, "s", &["cust_77"], true));
        expected.push(class);
        while served.world.log.entries.len() as u64 + one.outbox.next_seq().unwrap().0 < size + 2 {
            served.decide(&one, &json!({"type": "heartbeat"}));
            if one.outbox.next_seq().unwrap().0 % 64 == 0 {
                served.deliver(&mut one);
                break;
            }
        }
        served.deliver(&mut one);
        while (served.world.log.entries.len() as u64) < size {
            served.decide(&one, &json!({"type": "heartbeat"}));
            served.deliver(&mut one);
        }
        served.publish();
        assert_eq!(classes(&follower.of(&["cust_77"], &one.outbox).await), expected);
        assert_eq!(follower.size(), served.world.log.size());
    }
    // Whoever reads it from the beginning sees the same.
    let gate = served.gate("gate.example/9");
    let mut fresh = served.follower(&gate);
    assert_eq!(classes(&fresh.of(&["cust_77"], &gate.outbox).await), expected);
    assert_eq!(fresh.refused_entries(), 0);
}

#[tokio::test]
async fn what_no_log_may_admit_counts_for_nothing() {
    let (mut served, mut one, two) = mutated().await;
    let mut stranger = served.gate("gate.example/4");
    served.decide(&stranger, &decision("r-1", RECOVERY, "s", &["cust_77"], true));
    // Without its open, and with a byte of its signature changed.
    let entry = |gate: &ServedGate, seq| gate.outbox.receipt(receipt::SeqNo(seq)).unwrap().unwrap().bytes().to_vec();
    let orphan = entry(&stranger, 1);
    let mut spoilt = entry(&stranger, 0);
    let place = spoilt.len() - 20;
    spoilt[place] = if spoilt[place] == b'A' { b'B' } else { b'A' };
    for entry in [orphan, spoilt, b"no receipt".to_vec(), entry(&one, 1)] {
        served.world.log.push(entry);
    }
    served.decide(&one, &decision("r-2", "READ", "s", &["cust_77"], true));
    served.deliver(&mut one);
    served.publish();
    let mut follower = served.follower(&two);
    assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION, "READ"]);
    assert_eq!(follower.refused_entries(), 4);
    // Once it is opened, it counts.
    served.deliver(&mut stranger);
    served.publish();
    assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION, "READ", RECOVERY]);
}

#[tokio::test]
async fn an_entry_that_is_hidden_or_changed_is_not_believed_and_accuses_nobody() {
    let (mut served, one, two) = mutated().await;
    let page = "log/tile/entries/000.p/4";
    let hide = |entries: Vec<Vec<u8>>| {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| merkle::encode_entry(&mut bytes, entry).unwrap());
        bytes
    };
    let entries = served.world.log.entries.clone();
    let mut swapped = entries.clone();
    swapped[1] = entries[3].clone();
    for lie in [hide(swapped), hide(entries[..3].to_vec()), b"no page".to_vec(), Vec::new()] {
        served.change(|files| files.insert(page, lie));
        let mut follower = served.follower(&two);
        let refused = follower.of(&["cust_77"], &two.outbox).await.unwrap_err();
        assert_eq!(refused.code(), "history-unavailable", "{refused}");
        assert_eq!(two.outbox.status().unwrap().alarms, 0);
        // What a gate that fails open gets is what was proved: nothing.
        let config = HistoryConfig { mode: HistoryMode::FailOpen, ..served.config(&two) };
        let open = History::open(config).unwrap().of(&["cust_77"], &two.outbox).await.unwrap();
        assert_eq!((open.size.0, open.is_witnessed(), open.logged.len()), (0, false, 0));
        assert!(open.why.is_some());
        // And the truth, once it is served.
        served.serve();
        assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION]);
    }
    drop(one);
}

#[tokio::test]
async fn a_log_that_shows_less_than_before_is_refused_also_after_a_restart() {
    let (mut served, mut one, two) = mutated().await;
    let before = served.world.bundle();
    served.decide(&one, &decision("r-2", RECOVERY, "s-2", &["cust_77"], true));
    served.deliver(&mut one);
    served.publish();
    let mut follower = served.follower(&two);
    assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION, RECOVERY]);
    // A head that is older is not taken; the one that is held is fresh.
    served.change(|files| {
        let checkpoint = before.get("log/checkpoint").unwrap().to_vec();
        files.insert("log/checkpoint", checkpoint);
    });
    let history = follower.of(&["cust_77"], &two.outbox).await;
    assert_eq!((classes(&history), history.unwrap().size.0), (vec![MUTATION.to_owned(), RECOVERY.to_owned()], 5));
    assert_eq!(two.outbox.status().unwrap().alarms, 1);
    drop(follower);
    // After a restart only the head is known, and what is below it is refused all the same.
    let mut follower = served.follower(&two);
    let refused = follower.of(&["cust_77"], &two.outbox).await.unwrap_err();
    assert_eq!(refused.code(), "log-rolled-back", "{refused}");
    let config = HistoryConfig { mode: HistoryMode::FailOpen, ..served.config(&two) };
    drop(follower);
    let open = History::open(config).unwrap().of(&["cust_77"], &two.outbox).await.unwrap();
    assert!(open.why.unwrap().contains("never shrinks"));
}

#[tokio::test]
async fn a_log_with_two_histories_is_convicted() {
    let (mut served, mut one, two) = mutated().await;
    let mut follower = served.follower(&two);
    follower.of(&["cust_77"], &two.outbox).await.unwrap();
    // The same size without the mutation; a larger one; and a smaller one.
    let other = |entries: Vec<Vec<u8>>, log: &TiledLog| log.with_entries(entries);
    let entries = served.world.log.entries.clone();
    let heartbeats: Vec<Vec<u8>> = entries.iter().rev().cloned().collect();
    let longer = [heartbeats.clone(), entries.clone()].concat();
    for lie in [heartbeats.clone(), longer, heartbeats[..2].to_vec()] {
        let log = other(lie, &served.world.log);
        served.serve_other(&log, 3);
        let answer = follower.of(&["cust_77"], &two.outbox).await;
        if log.size() < served.world.log.size() {
            // What is below the larger head only the larger's tiles could show: it is not believed, and no more.
            assert_eq!(classes(&answer), [MUTATION]);
            continue;
        }
        let refused = answer.unwrap_err();
        assert_eq!(refused.code(), "log-fork", "{refused}");
        if let HistoryError::Fork { kept, .. } = refused {
            let fork: cosign::LogFork = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
            assert_eq!(fork.check().unwrap().key, served.world.log.key.verifier());
        }
    }
    let alarms = client::OutboxView::open(two.outbox.dir()).unwrap().alarms().unwrap();
    assert_eq!(alarms.len(), 2);
    for alarm in alarms {
        let alarm: serde_json::Value = serde_json::from_str(&alarm).unwrap();
        let evidence: cosign::LogFork = serde_json::from_value(alarm["evidence"].clone()).unwrap();
        assert_eq!((alarm["what"].as_str(), evidence.check().is_ok()), (Some("log-fork"), true));
    }
    // The true history goes on.
    served.decide(&one, &decision("r-2", "READ", "s-2", &["cust_77"], true));
    served.deliver(&mut one);
    served.publish();
    assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION, "READ"]);
}

#[tokio::test]
async fn a_head_that_too_few_witnesses_or_old_ones_vouch_for_is_none() {
    let (mut served, mut one, two) = mutated().await;
    let mut follower = served.follower(&two);
    assert!(follower.of(&["cust_77"], &two.outbox).await.unwrap().is_witnessed());
    served.decide(&one, &decision("r-2", "READ", "s-2", &["cust_77"], true));
    served.deliver(&mut one);
    served.wait(1_000);
    served.world.seal();
    served.world.look([1]);
    served.serve();
    // One of two: what was witnessed before still counts, until it is too old.
    let history = follower.of(&["cust_77"], &two.outbox).await.unwrap();
    assert_eq!((history.size.0, history.classes()), (4, vec![MUTATION]));
    served.wait(600_001);
    let refused = follower.of(&["cust_77"], &two.outbox).await.unwrap_err();
    assert_eq!(refused.code(), "history-unavailable");
    assert!(refused.to_string().contains("1 of the policy's keys"), "{refused}");
    let config = HistoryConfig { mode: HistoryMode::FailOpen, ..served.config(&two) };
    let open = History::open(config).unwrap().of(&["cust_77"], &two.outbox).await.unwrap();
    assert_eq!((open.size.0, open.classes(), open.is_witnessed()), (5, vec![MUTATION, "READ"], false));
    let prior = open.prior();
    assert_eq!((prior.size, prior.witnessed), (5, false));
    assert!(prior.why.unwrap().contains("witnesses"));
    // The second witness comes, and the first was there ten minutes ago.
    served.world.look([2]);
    served.serve();
    assert!(follower.of(&["cust_77"], &two.outbox).await.unwrap_err().to_string().contains("seconds ago"));
    served.world.look([1]);
    served.serve();
    assert!(follower.of(&["cust_77"], &two.outbox).await.unwrap().is_witnessed());
}

#[tokio::test]
async fn a_log_that_is_away_ends_what_can_be_said_when_its_last_word_is_old() {
    let (mut served, _one, two) = mutated().await;
    let mut follower = served.follower(&two);
    follower.of(&["cust_77"], &two.outbox).await.unwrap();
    served.change(|files| *files = audit::MemoryBundle::new());
    assert_eq!(classes(&follower.of(&["cust_77"], &two.outbox).await), [MUTATION]);
    served.wait(601_000);
    assert_eq!(follower.of(&["cust_77"], &two.outbox).await.unwrap_err().code(), "history-unavailable");
}

#[tokio::test]
async fn a_head_of_another_log_or_key_is_none() {
    let (mut served, _one, two) = mutated().await;
    let other = TiledLog::new("log.example/other");
    served.serve_other(&other, 3);
    let refused = served.follower(&two).of(&["cust_77"], &two.outbox).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Head(_)), "{refused}");
}

#[tokio::test]
async fn decisions_judged_by_history_stand_before_the_auditor() {
    let (mut served, mut one, mut two) = mutated().await;
    let mut gates = [(served.follower(&one), 0u64), (served.follower(&two), 0)];
    for round in 0..24u64 {
        let place = usize::try_from(round % 2).unwrap();
        let gate = if place == 0 { &one } else { &two };
        let subjects = match round % 3 {
            0 => vec!["cust_77"],
            1 => vec!["cust_78", "cust_77"],
            _ => vec!["cust_79"],
        };
        let history = gates[place].0.of(&subjects, &gate.outbox).await.unwrap();
        let prior = history.prior();
        let class = ["READ", "WRITE"][usize::try_from(round % 5 / 3).unwrap()];
        let mut body = decision(&format!("a-{round}"), class, &format!("s-{}", round % 4), &subjects, round % 7 != 0);
        body["prior_action_classes"] = json!(prior.action_classes);
        body["prior_heads"] = prior.heads.iter().map(|(subject, id)| (subject.clone(), json!(id))).collect();
        body["history"] = json!({"size": prior.size, "root": prior.root, "witnessed": prior.witnessed});
        served.decide(gate, &body);
        gates[place].1 += 1;
        // The first gate's receipts take their time, and the second's come between.
        if round % 4 != 0 {
            served.deliver(&mut two);
        }
        if round % 3 == 2 {
            served.deliver(&mut one);
            served.publish();
        }
        if round == 11 {
            // A restart of the follower: what it knew is read again.
            gates[0].0 = served.follower(&two);
            gates[0].0 = served.follower(&one);
        }
    }
    served.deliver(&mut one);
    served.deliver(&mut two);
    served.publish();
    let verdict = served.world.audit(&served.world.bundle());
    let prior = verdict.checks.iter().filter(|check| check.id().contains("prior"));
    let told = testkit::world::told(&verdict);
    for check in prior {
        assert_eq!(check.findings.len(), 0, "{told}");
        assert_ne!(check.covers, "nothing of this kind in the log");
    }
    assert_eq!(verdict.exit_code, 0, "{told}");
}

#[tokio::test]
async fn a_history_read_before_another_gates_receipts_came_stands_before_the_auditor() {
    // Between what the gate read and what it had itself decided, the log put another gate's decision on the same customer.
    let (mut served, mut one, mut two) = mutated().await;
    let mut follower = served.follower(&one);
    let judged = |history: &SubjectHistory, request: &str| {
        let prior = history.prior();
        let mut body = decision(request, "READ", "s-1", &["cust_78"], true);
        body["prior_action_classes"] = json!(prior.action_classes);
        body["prior_heads"] = prior.heads.iter().map(|(subject, id)| (subject.clone(), json!(id))).collect();
        body["history"] = json!({"size": prior.size, "root": prior.root, "witnessed": prior.witnessed});
        body
    };
    let history = follower.of(&["cust_78"], &one.outbox).await.unwrap();
    served.decide(&one, &judged(&history, "r-2"));
    served.decide(&two, &decision("r-2", "WRITE", "s-9", &["cust_78"], true));
    served.deliver(&mut two);
    let history = follower.of(&["cust_78"], &one.outbox).await.unwrap();
    assert_eq!(history.classes(), ["READ", "READ"]);
    served.decide(&one, &judged(&history, "r-3"));
    served.deliver(&mut one);
    served.publish();
    let verdict = served.world.audit(&served.world.bundle());
    let told = testkit::world::told(&verdict);
    assert!(
        verdict.checks.iter().filter(|check| check.id().contains("prior")).all(|check| check.findings.is_empty()),
        "{told}"
    );
    // A gate that says it read more than it did is found out.
    let history = follower.of(&["cust_78"], &one.outbox).await.unwrap();
    let mut body = judged(&history, "r-4");
    body["prior_action_classes"] = json!(["READ", "READ", "READ"]);
    served.decide(&one, &body);
    served.deliver(&mut one);
    served.publish();
    let verdict = served.world.audit(&served.world.bundle());
    let found =
        verdict.checks.iter().flat_map(|check| &check.findings).any(|finding| finding.code == "prior-classes-differ");
    assert!(found, "{}", testkit::world::told(&verdict));
}

/// Asks until the time was used up behind the log's head, of so many entries; answers how many were read.
async fn refused(follower: &mut History, gate: &ServedGate, entries: u64) -> u64 {
    loop {
        let refused = follower.of(&["cust_77"], &gate.outbox).await.unwrap_err();
        assert_eq!(refused.code(), "history-unavailable");
        match refused {
            HistoryError::TooSlow { read, size, .. } if size == entries => {
                assert!(refused.to_string().contains(&format!("{read} of {size} entries")), "{refused}");
                return read;
            }
            HistoryError::TooSlow { .. } => {}
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_log_that_takes_too_long_is_given_up_on_and_what_was_read_of_it_stays() {
    let (mut served, mut one, _two) = mutated().await;
    let mut config = served.config(&one);
    config.total = Duration::from_millis(500);
    let mut follower = History::open(config).unwrap();
    let silent = |served: &Served| served.change(|files| files.insert("silent", Vec::new()));
    silent(&served);
    assert_eq!(refused(&mut follower, &one, 4).await, 0);
    served.serve();
    // A slow machine may use up the time of a call; what it has read stays read.
    let read = loop {
        match follower.of(&["cust_77"], &one.outbox).await {
            Err(HistoryError::TooSlow { .. }) => {}
            read => break read,
        }
    };
    assert_eq!(classes(&read), [MUTATION]);
    served.wait(700_000);
    served.decide(&one, &decision("r-2", "READ", "s-1", &["cust_77"], true));
    served.deliver(&mut one);
    served.publish();
    silent(&served);
    assert_eq!(refused(&mut follower, &one, 5).await, 4);
    let mut config = served.config(&one);
    (config.total, config.mode) = (Duration::from_millis(500), HistoryMode::FailOpen);
    drop(follower);
    let mut follower = History::open(config).unwrap();
    let opened = loop {
        let opened = follower.of(&["cust_77"], &one.outbox).await.unwrap();
        if opened.why.as_ref().unwrap().contains("of 5 entries") {
            break opened;
        }
    };
    assert!(!opened.is_witnessed());
    drop(follower);
    served.serve();
    let history = served.follower(&one).of(&["cust_77"], &one.outbox).await;
    assert_eq!(classes(&history), [MUTATION, "READ"]);
}

#[tokio::test]
async fn a_receipt_that_the_log_holds_is_the_head_by_its_id() {
    let (served, one, two) = mutated().await;
    let history = served.follower(&two).of(&["cust_77"], &two.outbox).await.unwrap();
    let entry = one.outbox.receipt(receipt::SeqNo(1)).unwrap().unwrap();
    assert_eq!(history.heads[0].1, ReceiptId::of(entry.bytes()));
}

/// A gate, its scopes and all, whose log is the served one. Its sender finds nobody to send to.
fn opened(served: &Served, dir: &std::path::Path, policy: bool) -> Gate {
    let config = GateConfig {
        policy: policy.then(|| served.world.policy()),
        clock: served.world_clock(),
        ..GateConfig::new(
            dir,
            served_world::key("gate.example/3"),
            served.url.parse().unwrap(),
            served.world.log.key.verifier(),
        )
    };
    Gate::open(config).unwrap()
}

fn judged(class: &str, subjects: &[&str], history: &SubjectHistory) -> Decision {
    Decision::new(true).action_class(class).subjects(subjects.to_vec()).history(history.prior())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_judged_by_one_history_the_second_is_refused_until_it_knows_the_first() {
    let (served, _one, _two) = mutated().await;
    let dir = tempfile::tempdir().unwrap();
    let gate = opened(&served, dir.path(), true);
    let first = gate.history_async(&["cust_77"]).await.unwrap();
    let (second, other) = (first.clone(), gate.history_async(&["cust_78"]).await.unwrap());
    let act = gate.decide(judged(RECOVERY, &["cust_77"], &first)).unwrap();
    let refused = gate.decide(judged(RECOVERY, &["cust_77"], &second)).map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), "history-moved", "{refused}");
    assert!(gate.deny(judged("READ", &["cust_78"], &other)).unwrap().is_some(), "another subject is another matter");
    let again = tokio::task::spawn_blocking({
        let gate = gate.clone();
        move || gate.history(&["cust_77"])
    });
    let again = again.await.unwrap().unwrap();
    assert_eq!(again.classes(), [MUTATION, RECOVERY]);
    assert!(gate.deny(judged("READ", &["cust_77"], &again)).unwrap().is_some());
    let proof = gate.history_proof(&again, &again.logged[0]).unwrap();
    assert!(TlogProof::parse(proof.as_bytes()).unwrap().verify(&again.logged[0].id.0, &served.world.policy()).is_ok());
    drop(act);
    gate.close();
    assert_eq!(gate.history_async(&["cust_77"]).await.unwrap_err().code(), "outbox-stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_states_the_history_that_it_was_judged_by() {
    let (served, _one, _two) = mutated().await;
    let dir = tempfile::tempdir().unwrap();
    let gate = opened(&served, dir.path(), true);
    let history = gate.history_async(&["cust_77"]).await.unwrap();
    let denied = gate.deny(judged(RECOVERY, &["cust_77"], &history)).unwrap().unwrap();
    let text = gate.outbox().receipt(denied.seq).unwrap().unwrap().body_text().to_owned();
    let body: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["prior_action_classes"], json!([MUTATION]));
    assert_eq!(body["prior_heads"], json!({"cust_77": history.heads[0].1}));
    assert_eq!(body["history"], json!({"size": 4, "root": history.root.0.to_base64(), "witnessed": true}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_without_a_policy_has_nobody_to_believe() {
    let (served, _one, _two) = mutated().await;
    let dir = tempfile::tempdir().unwrap();
    let gate = opened(&served, dir.path(), false);
    assert_eq!(gate.history_async(&["cust_77"]).await.unwrap_err().code(), "history-unavailable");
}
