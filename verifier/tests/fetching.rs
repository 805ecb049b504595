//! `fetch` from real sockets: a log and its witnesses are mirrored, and what they serve is judged.

use crate::served;
use merkle::{PageId, ResourcePath};
use served::world::{TestLog, World};
use served::{Served, files_below, tiled, world_of};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

#[test]
fn an_honest_log_is_mirrored_and_its_audit_is_ok() {
    let served = Served::new(world_of(600));
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("601 entries, 2 heads, 3 of 3 witnesses"), "{text}");
    let (code, text) = served.audit();
    assert_eq!(code, 0, "{text}");
    assert!(!text.contains("ignored"), "{text}");
    drop(served.runtime);
}

#[test]
fn a_bundle_is_brought_up_to_date_without_fetching_full_pages_again() {
    let served = Served::new(world_of(600));
    assert_eq!(served.fetch().0, 0);
    let page = served.path("bundle/log/tile/entries/000");
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let first: SystemTime = written(&page);
    served.change(|stage| {
        stage.asked.clear();
        let world = stage.world.as_mut().unwrap();
        world.log_heartbeats(300);
        world.seal();
    });
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    assert_eq!(written(&page), first);
    let asked = served.stage.lock().unwrap().asked.clone();
    for path in ["log/tile/entries/000", "log/tile/entries/001", "log/tile/0/000", "log/tile/0/001"] {
        assert!(!asked.iter().any(|asked| asked == path), "{path} was fetched again");
    }
    // The partial pages of before are gone, and nothing unfinished lies about.
    let files = files_below(&served.path("bundle"));
    assert!(files.iter().any(|file| file.ends_with("log/tile/entries/003.p/133")), "{files:?}");
    assert!(
        !files.iter().any(|file| file.ends_with("log/tile/entries/002.p/89")
            || file.ends_with("heads/000.p/2")
            || file.contains(".unfinished-")),
        "{files:?}"
    );
    assert_eq!(served.audit().0, 0, "{}", served.audit().1);
}

#[test]
fn a_static_copy_of_a_log_is_mirrored_too() {
    let served = Served::new(world_of(30));
    served.change(|stage| stage.static_export = true);
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    assert_eq!(served.audit().0, 0);
}

#[test]
fn an_empty_log_is_mirrored_and_not_checked() {
    let mut world = World::new();
    world.log = TestLog::new("log.example/test", 1);
    world.seal();
    let served = Served::new(world);
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    assert_eq!(served.audit().0, 2);
}

#[test]
fn a_directory_of_something_else_is_not_touched() {
    let served = Served::new(world_of(3));
    fs::create_dir(served.path("bundle")).unwrap();
    fs::write(served.path("bundle/thesis.tex"), "mine").unwrap();
    let (code, text) = served.fetch();
    assert_eq!(code, 64, "{text}");
    assert_eq!(files_below(&served.path("bundle")).len(), 1);
    assert!(served.stage.lock().unwrap().asked.is_empty());
}

#[test]
fn a_log_that_cannot_be_reached_is_a_failure_in_one_line() {
    let served = Served::new(world_of(3));
    let policy = fs::read_to_string(served.path("policy")).unwrap();
    fs::write(served.path("policy"), policy.replace(&served.addresses[0].to_string(), "127.0.0.1:1")).unwrap();
    let (code, text) = served.fetch();
    assert_eq!((code, text.lines().count()), (1, 1), "{text}");
    let without = policy.replace(&format!(" http://{}", served.addresses[0]), "");
    fs::write(served.path("policy"), without).unwrap();
    assert_eq!(served.fetch().0, 64);
}

#[test]
fn a_witness_that_cannot_be_reached_is_missing_and_the_rest_is_mirrored() {
    let served = Served::new(world_of(30));
    let policy = fs::read_to_string(served.path("policy")).unwrap();
    fs::write(served.path("policy"), policy.replace(&served.addresses[2].to_string(), "127.0.0.1:1")).unwrap();
    let (code, text) = served.fetch();
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("2 of 3 witnesses") && text.contains("missing"), "{text}");
    assert_eq!(served.audit().0, 2);
}

#[test]
fn a_second_key_of_a_witness_is_no_second_witness() {
    let served = Served::new(world_of(30));
    let policy = fs::read_to_string(served.path("policy")).unwrap();
    let name = note::KeyName::new("witness-1.example").unwrap();
    let second = note::SigningKey::from_seed(name, note::KeyKind::MlDsa44, [99; 32]).verifier();
    fs::write(served.path("policy"), format!("{policy}witness w1q {second}\n")).unwrap();
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("3 of 3 witnesses with 4 keys"), "{text}");
}

#[test]
fn what_a_log_should_not_serve_is_kept_and_said() {
    let served = Served::new(world_of(300));
    let page = "log/tile/entries/000";
    let mut bytes = served
        .stage
        .lock()
        .unwrap()
        .world
        .as_ref()
        .map(|world| tiled(&world.log, ResourcePath::Entries(PageId { index: 0, width: 256 }), false).unwrap())
        .unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    served.change(|stage| drop(stage.instead.insert(page.to_owned(), bytes.clone())));
    let (code, text) = served.fetch();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("FAULT") && text.contains("not those its head"), "{text}");
    assert_eq!(fs::read(served.path("bundle").join(page)).unwrap(), bytes);
    let (code, text) = served.audit();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("root-mismatch"), "{text}");
}

#[test]
fn a_good_copy_is_not_replaced_by_what_a_tampered_log_serves_later() {
    let served = Served::new(world_of(300));
    assert_eq!(served.fetch().0, 0);
    let held = ["log/tile/entries/001.p/45", "log/heads/000.p/2"];
    let good = held.map(|page| fs::read(served.path("bundle").join(page)).unwrap());
    served.grow(20);
    // The same places, wider, and no longer the same in the part that was there.
    let tamper = |tampered: &[&str]| {
        served.change(|stage| {
            let world = stage.world.as_ref().unwrap();
            let bytes = tampered.iter().map(|path| {
                let resource = ResourcePath::parse(path.strip_prefix("log/").unwrap()).unwrap();
                let mut bytes = tiled(&world.log, resource, false).unwrap();
                bytes[40] ^= 1;
                ((*path).to_owned(), bytes)
            });
            stage.instead.extend(bytes.collect::<Vec<_>>());
        })
    };
    tamper(&["log/tile/0/001.p/65"]);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("does not show that the head of size 321") && text.contains("stays as it is"), "{text}");
    assert!(served.path("bundle/evidence/head-321.checkpoint").is_file());
    served.change(|stage| stage.instead.clear());
    tamper(&["log/tile/entries/001.p/65", "log/heads/000.p/3", "log/heads/000.p/2"]);
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("heads/000.p/2: other bytes are served now"), "{text}");
    assert!(text.contains("001.p/65: its entries are not those its head"), "{text}");
    for (page, good) in held.iter().zip(&good) {
        assert!(fs::read(served.path("bundle").join(page)).unwrap() == *good, "{page} was replaced");
    }
}

#[test]
fn a_log_that_leaves_its_newest_heads_out_is_said() {
    let mut world = world_of(30);
    let mut old = world.clone();
    world.log_heartbeats(5);
    world.seal();
    // The log as it was, the witnesses as they are.
    old.witnesses = world.witnesses.clone();
    let served = Served::new(old);
    let (code, text) = served.fetch();
    assert_eq!(code, 1, "{text}");
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains("does not reach it"), "{text}");
    let (code, text) = served.audit();
    assert_eq!(code, 1);
    assert!(text.contains("omitted-head"), "{text}");
}

/// A document that shows the log of `world` to have signed two histories.
fn fork_of(world: &World) -> String {
    let mut second = TestLog::new("log.example/test", 1);
    (0..31u8).for_each(|byte| second.push(vec![byte]));
    let fork = cosign::LogFork::make(&second.seal(), world.log.heads.last().unwrap(), None).unwrap();
    serde_json::to_string(&fork).unwrap()
}

#[test]
fn evidence_that_the_log_publishes_comes_along() {
    let world = world_of(30);
    let document = fork_of(&world);
    let served = Served::new(world);
    served.change(|stage| {
        stage.instead.insert(String::from("log/v1/evidence/0"), format!("{document}\n").into_bytes());
        stage.instead.insert(String::from("log/v1/evidence/1"), Vec::new());
    });
    let (code, text) = served.fetch();
    assert_eq!(code, 0, "{text}");
    assert_eq!(fs::read_to_string(served.path("bundle/evidence/log-000000.json")).unwrap(), document);
    assert_eq!(served.audit().0, 1);
}

#[test]
fn a_log_that_only_its_witnesses_convict_is_convicted() {
    let world = world_of(30);
    let document = fork_of(&world);
    let served = Served::new(world);
    served.change(|stage| {
        for witness in 1..=3 {
            stage.instead.insert(format!("w{witness}/evidence/0"), format!("{document}\n").into_bytes());
        }
    });
    // The second time nothing is new.
    for _ in 0..2 {
        let (code, text) = served.fetch_to("bundle", &[]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("evidence 3 documents"), "{text}");
    }
    let kept = served.path("bundle/evidence/witness-2.example-000000.json");
    assert_eq!(fs::read_to_string(kept).unwrap(), document);
    let arguments = ["audit", "--json", "--policy", "policy", "--issuers", "issuers", "bundle"];
    let (code, text) = served.run(&arguments);
    let verdict: serde_json::Value = serde_json::from_str(&text).unwrap();
    let checks = verdict["checks"].as_array().unwrap();
    let failed: Vec<&serde_json::Value> = checks.iter().filter(|check| check["status"] == "fail").collect();
    assert_eq!((code, failed.len(), failed[0]["name"].as_str()), (1, 1, Some("evidence")), "{text}");
    let findings = failed[0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 3);
    for finding in findings {
        assert_eq!(finding["code"], "log-fork");
        // Against any other key than the policy's it would be a notice.
        assert_eq!(finding["severity"], "fail");
        assert!(finding["shown"].as_str().unwrap().contains("log.example/test signed two histories"), "{finding}");
    }
}

#[test]
fn what_a_witness_serves_as_evidence_and_is_none_is_said_and_stays_there() {
    let world = world_of(30);
    let mut other = World::new();
    other.log = TestLog::new("other.example", 7);
    let (mut one, mut two) = (other.log.clone(), other.log.clone());
    one.push(vec![1]);
    two.push(vec![2]);
    let elsewhere = serde_json::to_string(&cosign::LogFork::make(&one.seal(), &two.seal(), None).unwrap()).unwrap();
    let document = fork_of(&world);
    let served = Served::new(world);
    served.change(|stage| {
        let bad = "no document\n{}\n".repeat(4);
        let page = format!("{bad}{elsewhere}\n{document}\n");
        stage.instead.insert(String::from("w1/evidence/0"), page.into_bytes());
        stage.instead.insert(String::from("w2/evidence/0"), b"cut off".to_vec());
        // More, and more of it on a page, than anybody would want.
        for page in 0..3 {
            let page_of = format!("{document}\n").repeat(256);
            stage.instead.insert(format!("w3/evidence/{page}"), page_of.into_bytes());
        }
    });
    let (code, text) = served.fetch_to("bundle", &[]);
    assert_eq!(code, 1, "{text}");
    assert_eq!(text.matches("shows nothing").count(), 4, "{text}");
    assert!(text.contains("4 more documents show nothing"), "{text}");
    assert!(text.contains("its last line does not end"), "{text}");
    assert!(text.contains("more than the 256 documents that were kept"), "{text}");
    let kept = files_below(&served.path("bundle/evidence"));
    let of = |name: &str| kept.iter().filter(|path| path.contains(name)).count();
    assert_eq!(["witness-1.example-000009", "witness-1", "witness-2", "witness-3"].map(of), [1, 1, 0, 256], "{kept:?}");
}
