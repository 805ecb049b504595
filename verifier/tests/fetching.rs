//! `fetch` from real sockets: a log and its witnesses are mirrored, and what they serve is judged.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../crates/audit/tests/world/mod.rs"]
mod world;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use merkle::{HashSource, PageId, ResourcePath, TileId};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tempfile::TempDir;
use world::{TestLog, World};

/// What is served now, and which paths were asked for.
#[derive(Default)]
struct Stage {
    world: Option<World>,
    /// In place of what a path would be answered with.
    instead: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
    /// Partial pages of one width only, as a static export has them.
    static_export: bool,
}

struct Served {
    stage: Arc<Mutex<Stage>>,
    addresses: Vec<SocketAddr>,
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Served {
    /// The world's log on the first address, its witnesses on the next three.
    fn new(world: World) -> Served {
        let stage = Arc::new(Mutex::new(Stage { world: Some(world), ..Stage::default() }));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let addresses = (0..4).map(|who| runtime.block_on(serve(Arc::clone(&stage), who))).collect();
        let served = Served { stage, addresses, dir: tempfile::tempdir().unwrap(), runtime };
        served.write_policy();
        served
    }

    fn write_policy(&self) {
        let stage = self.stage.lock().unwrap();
        let world = stage.world.as_ref().unwrap();
        let text: String = world
            .policy_text()
            .lines()
            .map(|line| match line.split(' ').next() {
                Some("log") => format!("{line} http://{}\n", self.addresses[0]),
                Some("witness") => {
                    let number: usize = line.split(' ').nth(1).unwrap()[1..].parse().unwrap();
                    format!("{line} http://{}\n", self.addresses[number])
                }
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(self.path("policy"), text).unwrap();
        fs::write(self.path("issuers"), world.issuers_text()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn change(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.stage.lock().unwrap());
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), text)
    }

    fn fetch(&self) -> (i32, String) {
        self.run(&["fetch", "--policy", "policy", "--out", "bundle", "--wait", "0s"])
    }

    fn audit(&self) -> (i32, String) {
        self.run(&["audit", "--policy", "policy", "--issuers", "issuers", "bundle"])
    }
}

async fn serve(stage: Arc<Mutex<Stage>>, who: usize) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(move |uri: Uri| {
        let answer = answer(&mut stage.lock().unwrap(), who, uri.path().trim_start_matches('/'));
        async move { answer }
    });
    tokio::spawn(service::serve(listener, router, service::Limits::default(), std::future::pending()));
    address
}

fn answer(stage: &mut Stage, who: usize, path: &str) -> Response {
    let named = if who == 0 { format!("log/{path}") } else { format!("w{who}/{path}") };
    stage.asked.push(named.clone());
    let found = match stage.instead.get(&named) {
        Some(bytes) => Some(bytes.clone()),
        None => resource(stage, who, path),
    };
    match found {
        Some(bytes) => bytes.into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn resource(stage: &Stage, who: usize, path: &str) -> Option<Vec<u8>> {
    let world = stage.world.as_ref()?;
    if who == 0 {
        return match ResourcePath::parse(path)? {
            ResourcePath::Checkpoint => Some(world.with_cosignatures(world.log.heads.last()?).bytes().to_vec()),
            other => tiled(&world.log, other, stage.static_export),
        };
    }
    let witness = &world.witnesses[who - 1];
    if let Some(path) = path.strip_prefix("journal/") {
        let mut journal = witness.journal.clone();
        return match ResourcePath::parse(path)? {
            ResourcePath::Checkpoint => {
                let head = journal.seal();
                let line =
                    note::cosign(head.note().text(), &witness.key(), world.now_ms / 1000).unwrap().to_line().unwrap();
                Some(head.with_cosignatures(&[line]).bytes().to_vec())
            }
            other => tiled(&journal, other, false),
        };
    }
    let origin = note::Origin::new("log.example/test").unwrap();
    (path == format!("{}/checkpoint", client::witness::origin_hash(&origin)))
        .then(|| witness.checkpoint.as_ref().map(|head| head.bytes().to_vec()))
        .flatten()
}

fn tiled(log: &TestLog, path: ResourcePath, exact_only: bool) -> Option<Vec<u8>> {
    let heads: Vec<Vec<u8>> = log.heads.iter().map(|head| head.bytes().to_vec()).collect();
    let page = |page: PageId, all: &[Vec<u8>]| {
        let held = PageId::at(page.index, all.len() as u64)
            .filter(|held| page.width <= held.width && (!exact_only || page.width == held.width))?;
        let first = held.first()? as usize;
        let mut bytes = Vec::new();
        all[first..first + usize::from(page.width)]
            .iter()
            .for_each(|entry| merkle::encode_entry(&mut bytes, entry).unwrap());
        Some(bytes)
    };
    match path {
        ResourcePath::Entries(wanted) => page(wanted, &log.entries),
        ResourcePath::Heads(wanted) => page(wanted, &heads),
        ResourcePath::Tile(tile) => {
            TileId::at(tile.level, tile.index, log.tree.size()).filter(|held| tile.width <= held.width)?;
            let first = tile.index * 256;
            Some(
                (first..first + u64::from(tile.width))
                    .flat_map(|place| log.tree.subtree(tile.level * 8, place).unwrap().0)
                    .collect(),
            )
        }
        ResourcePath::Checkpoint => None,
    }
}

fn world_of(receipts: usize) -> World {
    let mut world = World::new();
    world.log_heartbeats(receipts / 2);
    world.seal();
    world.log_heartbeats(receipts - receipts / 2);
    world.seal();
    world
}

fn files_below(dir: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path.display().to_string()) }
    }
    files.sort();
    files
}

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
    let pages = ["log/tile/entries/001.p/45", "log/tile/0/001.p/45", "log/heads/000.p/2"];
    let good = pages.map(|page| fs::read(served.path("bundle").join(page)).unwrap());
    served.change(|stage| {
        for (page, good) in pages.iter().zip(&good) {
            let mut bytes = good.clone();
            *bytes.last_mut().unwrap() ^= 1;
            stage.instead.insert((*page).to_owned(), bytes);
        }
    });
    let (code, text) = served.fetch();
    assert_eq!(code, 1, "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (page, good) in pages.iter().zip(&good) {
        assert!(text.contains(&format!("{page}: the log now serves other bytes")), "{page}: {text}");
        assert!(fs::read(served.path("bundle").join(page)).unwrap() == *good, "{page} was replaced");
    }
    assert_eq!(served.audit().0, 0, "{}", served.audit().1);
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

#[test]
fn evidence_that_the_log_publishes_comes_along() {
    let world = world_of(30);
    let mut second = TestLog::new("log.example/test", 1);
    (0..31u8).for_each(|byte| second.push(vec![byte]));
    let document =
        serde_json::to_string(&cosign::LogFork::make(&second.seal(), world.log.heads.last().unwrap(), None).unwrap())
            .unwrap();
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
