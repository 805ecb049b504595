//! Configurations that are taken, and those that are not.
#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use client::Reach;
use note::{KeyName, SigningKey};
use service::config::{Flags, load_with_environment};

fn vkey(name: &str, kind: KeyKind) -> String {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [1; 32]).verifier().to_string()
}

fn log(vkey: String, url: &str) -> LogSettings {
    LogSettings { vkey, url: Some(url.to_owned()), ..LogSettings::default() }
}

fn good_log() -> LogSettings {
    log(vkey("log.example/a", KeyKind::Ed25519), "http://log.example")
}

fn good_peer() -> PeerSettings {
    PeerSettings {
        vkey: vkey("w.example", KeyKind::CosignatureV1),
        journal_vkey: vkey("w.example/journal", KeyKind::Ed25519),
        url: "https://w.example".to_owned(),
        private_address: false,
    }
}

fn load(text: &str) -> Result<Settings, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = load_with_environment::<Settings>(Some(&path), std::iter::empty(), Flags::new());
    loaded.map(|loaded| loaded.values).map_err(|error| error.to_string())
}

#[test]
fn every_fault_of_a_log_names_the_log_it_is_in_and_what_to_do() {
    let key = || vkey("log.example/b", KeyKind::Ed25519);
    let pushes = LogSettings { vkey: key(), accept_pushes: true, ..LogSettings::default() };
    let with_issuers = LogSettings { issuers: Some("issuers.txt".into()), ..good_log() };
    for (level, logs, fault) in [
        (
            Level::Consistency,
            vec![good_log(), log("nonsense".to_owned(), "http://log.example")],
            "2 in the configuration: its vkey: not a key",
        ),
        (
            Level::Consistency,
            vec![log(vkey("w", KeyKind::CosignatureV1), "http://log.example")],
            "1 in the configuration: its vkey is not of type 0x01",
        ),
        (Level::Consistency, vec![log(key(), "log.example")], "1 in the configuration: \"log.example\""),
        (
            Level::Consistency,
            vec![good_log(), good_log()],
            "2 in the configuration: the log \"log.example/a\" is listed before",
        ),
        (
            Level::Consistency,
            vec![LogSettings { accept_pushes: false, ..pushes.clone() }],
            "1 in the configuration: it has no url",
        ),
        (Level::Full, vec![pushes.clone()], "1 in the configuration: it has no url, and level \"full\" fetches"),
        (
            Level::Consistency,
            vec![with_issuers.clone()],
            "1 in the configuration: its issuers are read at level \"full\"",
        ),
        (
            Level::Consistency,
            vec![log(key(), "http://127.1:80")],
            "1 in the configuration: 127.0.0.1 is not a public address",
        ),
        (
            Level::Consistency,
            vec![log(key(), "http://[fd00::1]/log")],
            "1 in the configuration: fd00::1 is not a public address",
        ),
    ] {
        let error = Settings { level, log: logs, ..Settings::default() }.watched_logs().unwrap_err().to_string();
        assert!(error.starts_with(&format!("log number {fault}")), "{error}");
    }
    let inside = LogSettings { private_address: true, ..log(key(), "http://127.0.0.1:8080") };
    for (level, log) in [(Level::Consistency, pushes), (Level::Consistency, inside), (Level::Full, with_issuers)] {
        assert_eq!(Settings { level, log: vec![log], ..Settings::default() }.watched_logs().unwrap().len(), 1);
    }
}

#[test]
fn every_fault_of_a_peer_names_the_peer_it_is_in() {
    let other_journal = || vkey("v.example/journal", KeyKind::Ed25519);
    for (peer, fault) in [
        (PeerSettings { vkey: "nonsense".to_owned(), ..good_peer() }, "its vkey: not a key"),
        (PeerSettings { vkey: vkey("w.example", KeyKind::Ed25519), ..good_peer() }, "its vkey is not of type 0x04"),
        (
            PeerSettings { journal_vkey: other_journal(), ..good_peer() },
            "its journal_vkey is not a key of type 0x01 named w.example/journal",
        ),
        (PeerSettings { url: "http://10.0.0.1".to_owned(), ..good_peer() }, "10.0.0.1 is not a public address"),
        (good_peer(), "the witness w.example is listed before"),
    ] {
        let settings = Settings { peer: vec![good_peer(), peer], ..Settings::default() };
        let error = settings.watched_peers().unwrap_err().to_string();
        assert!(error.starts_with(&format!("peer number 2 in the configuration: {fault}")), "{error}");
    }
    let peers = Settings { peer: vec![good_peer(); MAX_PEERS + 1], ..Settings::default() };
    assert_eq!(peers.watched_peers(), Err(SettingsError::TooManyPeers));
}

#[test]
fn the_whole_file_is_read() {
    let (log, peer) = (good_log(), good_peer());
    let text = format!(
        "level = \"full\"\nwitness_key = \"a\"\nmldsa_key = \"b\"\n[[log]]\nvkey = \"{}\"\nurl = \"http://10.0.0.1\"\n\
         private_address = true\nissuers = \"i\"\nacknowledged_evidence = [0, 3]\n\
         [[peer]]\nvkey = \"{}\"\njournal_vkey = \"{}\"\nurl = \"{}\"\n",
        log.vkey, peer.vkey, peer.journal_vkey, peer.url
    );
    let settings = load(&text).unwrap();
    let watched = &settings.watched_logs().unwrap()[0];
    assert_eq!((watched.reach, watched.accept_pushes), (Reach::Any, false));
    assert_eq!((watched.issuers.clone(), watched.acknowledged_evidence.len()), (Some("i".into()), 2));
    assert_eq!(settings.watched_peers().unwrap()[0].reach, Reach::Public);
    assert_eq!((settings.level, settings.mldsa_key), (Level::Full, Some("b".into())));
    let pushed = load(&text.replace("issuers", "accept_pushes = true\nissuers")).unwrap().watched_logs();
    assert!(pushed.unwrap_err().to_string().contains("takes no pushed heads"));
    assert!(load("level = \"deep\"").unwrap_err().contains("consistency"));
    let unknown = load(&text.replace("private_address", "private_adress")).unwrap_err();
    assert!(unknown.contains("did you mean `log.0.private_address`?"), "{unknown}");
    let unknown = load(&text.replace("journal_vkey", "journal_key")).unwrap_err();
    assert!(unknown.contains("did you mean `peer.0.journal_vkey`?"), "{unknown}");
}

#[test]
fn the_witnesss_key_is_in_one_place() {
    let agent = |vkey: &str| Settings {
        ssh_agent: Some("/run/agent".into()),
        witness_vkey: Some(vkey.to_owned()),
        ..Settings::default()
    };
    let key = vkey("w.example", KeyKind::CosignatureV1);
    assert_eq!(Settings::default().key_source(), Ok(KeySource::File("witness.key".into())));
    assert!(matches!(agent(&key).key_source(), Ok(KeySource::Agent { vkey, .. }) if vkey.to_string() == key));
    let both = Settings { witness_key: Some("witness.key".into()), ..agent(&key) };
    assert_eq!(both.key_source(), Err(SettingsError::TwoKeys));
    let without_vkey = Settings { witness_vkey: None, ..agent(&key) };
    let without_socket = Settings { ssh_agent: None, ..agent(&key) };
    for half in [without_vkey, without_socket] {
        assert!(matches!(half.key_source(), Err(SettingsError::HalfAnAgent { .. })));
    }
    for vkey in ["nonsense".to_owned(), vkey("w.example", KeyKind::Ed25519)] {
        assert!(matches!(agent(&vkey).key_source(), Err(SettingsError::AgentKey(_))), "{vkey}");
    }
}

#[test]
fn a_pace_without_pause_is_refused() {
    let settings = Settings { nudge_gap_ms: 0, ..Settings::default() };
    assert_eq!(settings.pace(), Err(SettingsError::TooOften("nudge_gap_ms")));
}

#[test]
fn what_a_running_witness_cannot_take_over_is_named() {
    let settings = Settings::default();
    let other = Settings {
        interval_ms: 1,
        level: Level::Full,
        peer: vec![good_peer()],
        log: vec![good_log()],
        ..Settings::default()
    };
    assert_eq!(settings.differs_from(&other), ["level", "interval_ms", "peer"]);
    assert!(settings.differs_from(&Settings { log: vec![good_log()], ..Settings::default() }).is_empty());
}
