//! What a witness makes of its peers: of those that hold more of its own journal than it does, of those whose journal forks,
//! and of those that want to have somebody accused.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_tests::witnesses::{House, Running, Tempo, copy_dir, until};
use merkle::{RootHash, TreeSize, leaf_hash};
use note::{Checkpoint, KeyKind, KeyName, Origin, SigningKey, VerifierKey, parse_cosignature_line, sign_checkpoint};
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use testkit::liar::{Liar, Showing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use witness::broken::Broken;
use witness::serve::StartError;

const ORIGIN: &str = "log.example/watched";
/// Nothing is given up because the machine was busy.
const TEMPO: Tempo = Tempo { interval_ms: 300, deadline_ms: 60_000 };
/// For peers that let us wait.
const HASTY: Tempo = Tempo { interval_ms: 300, deadline_ms: 1_000 };
/// A start waits for its peers for some seconds and no longer, in which a machine may have something else to do.
const STARTS: usize = 5;

/// A log, a witness, and another that holds what the first one's journal says.
struct Stage {
    liar: Arc<Liar>,
    house: House,
    keeper: House,
}

impl Stage {
    async fn new() -> Stage {
        let liar = Liar::start(ORIGIN, 7).await.unwrap();
        liar.grow(0, 10).unwrap();
        let [house, keeper] = ["one", "keeper"].map(House::new);
        house.configure(&liar, &[&keeper], TEMPO);
        keeper.configure(&liar, &[&house], TEMPO);
        for house in [&house, &keeper] {
            liar.show(&house.name, Showing::newest(0));
        }
        Stage { liar, house, keeper }
    }

    /// Lets the log grow until the witness has cosigned that and `keeper` holds the journal's head over the line that says so.
    async fn go_on(&self, witness: &Running, keeper: &Running) {
        let (log, journal) = (self.liar.vkey(), &self.house.journal_vkey);
        let size = self.liar.grow(0, 5).unwrap();
        until("the witness has cosigned", || async { witness.held_size(&log).await == size }).await;
        let at_least = witness.status().await.journal_size;
        until("the keeper holds its journal's head", || async {
            keeper.nudge(journal).await;
            keeper.held_size(journal).await >= at_least
        })
        .await;
    }

    /// Goes on twice and stops; what is returned holds a copy of the witness's `state` from in between.
    async fn go_on_past_a_copy(&mut self, keeper: &Running) -> TempDir {
        let old = tempfile::tempdir().unwrap();
        for copied in [true, false] {
            let witness = self.house.start().await;
            self.go_on(&witness, keeper).await;
            witness.stop().await;
            if copied {
                copy_dir(&self.house.state(), &old.path().join("state"));
            }
        }
        old
    }
}

fn assert_rolled_back(broken: &Broken, keeper: &House) {
    assert!(matches!(broken, Broken::RolledBack(_)), "{broken}");
    let sentence = broken.to_string();
    for words in [keeper.vkey.name().as_str(), "older copy of the state directory", "new key and a new name"] {
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_state_is_refused_at_the_start_and_nothing_is_signed_with_it() {
    let mut stage = Stage::new().await;
    let keeper = stage.keeper.start().await;
    let old = stage.go_on_past_a_copy(&keeper).await;
    let newest = old.path().join("newest");
    fs::rename(stage.house.state(), &newest).unwrap();

    let mut refused = None;
    for _ in 0..STARTS {
        copy_dir(&old.path().join("state"), &stage.house.state());
        match stage.house.try_start().await {
            Err(StartError::Broken(broken)) => {
                refused = Some(broken);
                break;
            }
            Err(other) => panic!("{other}"),
            Ok(witness) => assert_rolled_back(&witness.stopped().await, &stage.keeper),
        }
        fs::remove_dir_all(stage.house.state()).unwrap();
    }
    assert_rolled_back(&refused.expect("it starts"), &stage.keeper);
    for file in ["journal/heads", "journal/entries"] {
        let [before, after] =
            [old.path().join("state"), stage.house.state()].map(|dir| fs::read(dir.join(file)).unwrap());
        assert_eq!(before, after, "{file}");
    }

    fs::remove_dir_all(stage.house.state()).unwrap();
    fs::rename(&newest, stage.house.state()).unwrap();
    let witness = stage.house.start().await;
    stage.go_on(&witness, &keeper).await;
    witness.stop().await;
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_that_no_peer_was_there_to_refuse_is_stopped_when_one_comes() {
    let mut stage = Stage::new().await;
    let keeper = stage.keeper.start().await;
    let old = stage.go_on_past_a_copy(&keeper).await;
    keeper.stop().await;

    fs::remove_dir_all(stage.house.state()).unwrap();
    copy_dir(&old.path().join("state"), &stage.house.state());
    let witness = stage.house.start().await;
    until("it cosigns without its peer", || async { witness.nudge(&stage.liar.vkey()).await }).await;
    let keeper = stage.keeper.start().await;
    assert_rolled_back(&witness.stopped().await, &stage.keeper);
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_goes_on_with_an_older_copy_is_accused_by_its_journals_key() {
    let mut stage = Stage::new().await;
    let keeper = stage.keeper.start().await;
    let old = stage.go_on_past_a_copy(&keeper).await;

    fs::remove_dir_all(stage.house.state()).unwrap();
    copy_dir(&old.path().join("state"), &stage.house.state());
    // Its operator has taken out the peers, so that it starts.
    stage.house.configure(&stage.liar, &[], TEMPO);
    let witness = stage.house.start().await;
    let journal = stage.house.journal_vkey.clone();
    until("the keeper accuses it", || async {
        stage.liar.grow(0, 1).unwrap();
        let _cosigned = witness.nudge(&stage.liar.vkey()).await;
        let _refused = keeper.nudge(&journal).await;
        keeper.accuses(&journal).await
    })
    .await;
    assert!(keeper.log(&journal).await.forked.is_some());
    assert!(keeper.log(&stage.liar.vkey()).await.forked.is_none(), "the log is not to blame for it");
    witness.stop().await;
    keeper.stop().await;
}

/// What a hostile peer answers, whatever it is asked.
enum Answer {
    Body(Vec<u8>),
    /// One after the other, over and over, for each thing that is asked for: a witness that asks for two things a round
    /// would else be answered the one with the first for ever.
    InTurn([Vec<u8>; 2]),
    Status(&'static str),
    Stalls,
    Endless,
}

/// A peer that answers everything alike, and how often it was asked.
struct Hostile {
    url: String,
    asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Hostile {
    async fn start(answer: Answer) -> Hostile {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU64::new(0));
        let (count, answer) = (Arc::clone(&asked), Arc::new(answer));
        let turns = Arc::new(Mutex::new(HashMap::<Vec<u8>, usize>::new()));
        let task = tokio::spawn(async move {
            loop {
                let (mut peer, _) = listener.accept().await.unwrap();
                let (count, answer, turns) = (Arc::clone(&count), Arc::clone(&answer), Arc::clone(&turns));
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let length = peer.read(&mut request).await.unwrap_or_default();
                    count.fetch_add(1, Ordering::SeqCst);
                    let line = request[..length].split(|byte| *byte == b'\r').next().unwrap_or_default().to_vec();
                    let turn = {
                        let mut turns = turns.lock().unwrap();
                        let turn = turns.entry(line).or_default();
                        *turn += 1;
                        *turn % 2
                    };
                    let (status, body) = match &*answer {
                        Answer::Body(body) => ("200 OK", body.clone()),
                        Answer::InTurn(bodies) => ("200 OK", bodies[turn].clone()),
                        Answer::Status(status) => (*status, Vec::new()),
                        Answer::Endless => ("200 OK", vec![b'a'; 1 << 24]),
                        Answer::Stalls => std::future::pending().await,
                    };
                    let head =
                        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                    let _ = peer.write_all(&[head.as_bytes(), &body].concat()).await;
                });
            }
        });
        Hostile { url, asked, task }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn key(name: &str, kind: KeyKind, seed: u8) -> SigningKey {
    SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [seed; 32])
}

/// A head of no history, under `log`'s origin or another, cosigned by `witness`.
fn made_up(log: &SigningKey, witness: &SigningKey) -> Vec<u8> {
    let head = Checkpoint::new(Origin::from(log.name()), TreeSize(10), RootHash(leaf_hash(b"made up")));
    let head = sign_checkpoint(&head, log).unwrap();
    let line = note::cosign(head.note().text(), witness, 1_790_000_000).unwrap().line;
    head.with_cosignatures(&[parse_cosignature_line(&line).unwrap()]).bytes().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_peer_gets_nobody_accused_and_holds_nothing_up() {
    let liar = Liar::start(ORIGIN, 7).await.unwrap();
    liar.grow(0, 10).unwrap();
    liar.show("one", Showing::newest(0));
    let (log, mut house) = (liar.vkey(), House::new("one"));
    let peer = key("witness.example/hostile", KeyKind::CosignatureV1, 1);
    let peer_journal = key("witness.example/hostile/journal", KeyKind::Ed25519, 2).verifier();
    let namesake = key("witness.example/hostile", KeyKind::CosignatureV1, 3);
    let stranger = key(ORIGIN, KeyKind::Ed25519, 4);
    let good = liar.head(0, 10).unwrap();
    let by_namesake = note::cosign(good.note().text(), &namesake, 1_790_000_000).unwrap().line;
    let by_namesake = good.with_cosignatures(&[parse_cosignature_line(&by_namesake).unwrap()]);
    let answers = [
        ("garbage", Answer::Body(b"<html>Welcome!</html>".to_vec())),
        ("nothing", Answer::Body(Vec::new())),
        ("another root under the log's name", Answer::Body(made_up(&stranger, &peer))),
        ("a head without its cosignature", Answer::Body(good.bytes().to_vec())),
        ("a head cosigned by a namesake", Answer::Body(by_namesake.bytes().to_vec())),
        ("500", Answer::Status("500 No")),
        ("a redirect", Answer::Status("302 There\r\nlocation: http://127.0.0.1:1/")),
        ("no end", Answer::Endless),
        ("no answer", Answer::Stalls),
    ];
    for (what, answer) in answers {
        let hostile = Hostile::start(answer).await;
        house.configure_with(&liar, &[(&peer.verifier(), &peer_journal, hostile.url.clone())], HASTY);
        let witness = house.start().await;
        // The peer is asked for its journal, for ours at the start, and what it holds of the log.
        until(&format!("{what}: it is asked"), || async { hostile.asked.load(Ordering::SeqCst) >= 4 }).await;
        let size = liar.grow(0, 1).unwrap();
        until(&format!("{what}: the log is cosigned all the same"), || async { witness.held_size(&log).await == size })
            .await;
        until(&format!("{what}: it is shown"), || async {
            let peers = witness.log(&log).await.peers;
            peers.len() == 1 && peers[0].code.is_some() && peers[0].agreed_at.is_none()
        })
        .await;
        assert_eq!(witness.evidence().await, [], "{what}");
        witness.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_holds_another_history_without_the_logs_signature_on_it_proves_nothing() {
    // A peer of good standing, whose key was stolen or sold: it cosigns what it likes.
    let liar = Liar::start(ORIGIN, 7).await.unwrap();
    liar.grow(0, 10).unwrap();
    liar.show("one", Showing::newest(0));
    let (log, mut house): (VerifierKey, _) = (liar.vkey(), House::new("one"));
    let peer = key("witness.example/sold", KeyKind::CosignatureV1, 1);
    let journal = key("witness.example/sold/journal", KeyKind::Ed25519, 2).verifier();
    let fork = liar.branch(0, 3).unwrap();
    liar.grow(fork, 20).unwrap();
    let other = liar.head(fork, 23).unwrap();
    let text = other.note().text().to_owned();
    let line = note::cosign(&text, &peer, 1_790_000_000).unwrap().line;
    let unsigned = Hostile::start(Answer::Body(format!("{text}\n{line}\n").into_bytes())).await;
    house.configure_with(&liar, &[(&peer.verifier(), &journal, unsigned.url.clone())], TEMPO);
    let witness = house.start().await;
    until("it is asked", || async { unsigned.asked.load(Ordering::SeqCst) >= 4 }).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(witness.evidence().await, []);
    witness.stop().await;

    // With the log's signature on it the log has signed two histories, whoever shows it.
    let line = parse_cosignature_line(&line).unwrap();
    let signed = Hostile::start(Answer::Body(other.with_cosignatures(&[line]).bytes().to_vec())).await;
    house.configure_with(&liar, &[(&peer.verifier(), &journal, signed.url.clone())], TEMPO);
    let same_size = liar.grow(0, 13).unwrap();
    assert_eq!(same_size, 23);
    let witness = house.start().await;
    until("the log is accused", || async { witness.accuses(&log).await }).await;
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_vouches_for_two_histories_is_accused_beside_the_log_even_by_who_holds_neither() {
    let liar = Liar::start(ORIGIN, 7).await.unwrap();
    liar.grow(0, 10).unwrap();
    let fork = liar.branch(0, 3).unwrap();
    liar.grow(fork, 7).unwrap();
    let peer = key("witness.example/both", KeyKind::CosignatureV1, 1);
    let journal = key("witness.example/both/journal", KeyKind::Ed25519, 2).verifier();
    let vouched = [0, fork].map(|history| {
        let head = liar.head(history, 10).unwrap();
        let line = note::cosign(head.note().text(), &peer, 1_790_000_000).unwrap().line;
        head.with_cosignatures(&[parse_cosignature_line(&line).unwrap()]).bytes().to_vec()
    });
    let both = Hostile::start(Answer::InTurn(vouched)).await;
    // The log shows the witness itself nothing at all.
    let mut house = House::new("one");
    house.configure_with(&liar, &[(&peer.verifier(), &journal, both.url.clone())], TEMPO);
    let witness = house.start().await;
    until("both are accused", || async {
        let page = witness.get("/evidence/0").await.unwrap_or_default();
        let mut kinds: Vec<_> = String::from_utf8(page)
            .unwrap()
            .lines()
            .map(|line| audit::check_evidence(line, &[]).unwrap())
            .map(|proven| (proven.kind, proven.key))
            .collect();
        kinds.sort_by_key(|(kind, _)| *kind);
        kinds.dedup();
        kinds == [("log-fork", liar.vkey()), ("witness-fork", peer.verifier())]
    })
    .await;
    assert_eq!(witness.held_size(&liar.vkey()).await, 0, "no head of a peer's becomes ours");
    witness.stop().await;
}
