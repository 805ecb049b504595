//! A log and three witnesses from real sockets, as a test wants them, and the verifier run beside them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // Each test uses a part of it.

pub(crate) use crate::world;

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
use std::time::Duration;
use tempfile::TempDir;
use world::{TestLog, World};

/// What is served now, and which paths were asked for.
#[derive(Default)]
pub struct Stage {
    pub world: Option<World>,
    /// In place of what a path would be answered with.
    pub instead: BTreeMap<String, Vec<u8>>,
    /// Beginnings of paths at which nothing is served.
    pub withheld: Vec<String>,
    pub asked: Vec<String>,
    /// Partial pages of one width only, as a static export has them.
    pub static_export: bool,
    /// Before each answer.
    pub delay: Duration,
}

pub struct Served {
    pub stage: Arc<Mutex<Stage>>,
    pub addresses: Vec<SocketAddr>,
    pub dir: TempDir,
    pub runtime: tokio::runtime::Runtime,
}

impl Served {
    /// The world's log on the first address, its witnesses on the next three.
    pub fn new(world: World) -> Served {
        let stage = Arc::new(Mutex::new(Stage { world: Some(world), ..Stage::default() }));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let addresses = (0..4).map(|who| runtime.block_on(serve(Arc::clone(&stage), who))).collect();
        let served = Served { stage, addresses, dir: tempfile::tempdir().unwrap(), runtime };
        served.write_policy();
        served
    }

    pub fn write_policy(&self) {
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

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn change(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.stage.lock().unwrap());
    }

    pub fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-verify"))
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), text)
    }

    pub fn fetch(&self) -> (i32, String) {
        self.run(&["fetch", "--policy", "policy", "--out", "bundle", "--wait", "0s"])
    }

    /// The same into another directory, with more arguments.
    pub fn fetch_to(&self, out: &str, more: &[&str]) -> (i32, String) {
        let (code, text) = self.run(&[&["fetch", "--policy", "policy", "--out", out, "--wait", "0s"], more].concat());
        (code, text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub fn audit(&self) -> (i32, String) {
        self.audit_of("bundle")
    }

    pub fn audit_of(&self, bundle: &str) -> (i32, String) {
        self.run(&["audit", "--policy", "policy", "--issuers", "issuers", bundle])
    }

    /// What was asked of the log since it was last forgotten.
    pub fn asked(&self) -> Vec<String> {
        self.stage.lock().unwrap().asked.iter().filter(|path| path.starts_with("log/")).cloned().collect()
    }

    pub fn forget_asked(&self) {
        self.change(|stage| stage.asked.clear());
    }

    /// The log and its witnesses go on.
    pub fn grow(&self, receipts: usize) {
        self.change(|stage| {
            let world = stage.world.as_mut().unwrap();
            world.log_heartbeats(receipts);
            world.seal();
        });
    }
}

async fn serve(stage: Arc<Mutex<Stage>>, who: usize) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(move |uri: Uri| {
        let (answer, delay) = {
            let mut stage = stage.lock().unwrap();
            (answer(&mut stage, who, uri.path().trim_start_matches('/')), stage.delay)
        };
        async move {
            tokio::time::sleep(delay).await;
            answer
        }
    });
    tokio::spawn(service::serve(listener, router, service::Limits::default(), std::future::pending()));
    address
}

fn answer(stage: &mut Stage, who: usize, path: &str) -> Response {
    let named = if who == 0 { format!("log/{path}") } else { format!("w{who}/{path}") };
    stage.asked.push(named.clone());
    let is_withheld = stage.withheld.iter().any(|prefix| named.starts_with(prefix));
    let found = match stage.instead.get(&named) {
        _ if is_withheld => None,
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

pub fn tiled(log: &TestLog, path: ResourcePath, exact_only: bool) -> Option<Vec<u8>> {
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

pub fn world_of(receipts: usize) -> World {
    let mut world = World::new();
    world.log_heartbeats(receipts / 2);
    world.seal();
    world.log_heartbeats(receipts - receipts / 2);
    world.seal();
    world
}

/// All files below a directory, by path.
pub fn files_below(dir: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path.display().to_string()) }
    }
    files.sort();
    files
}

/// Path below `dir` and bytes of every file.
pub fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let below = |file: &String| file[dir.display().to_string().len() + 1..].to_owned();
    files_below(dir).iter().map(|file| (below(file), fs::read(file).unwrap())).collect()
}
