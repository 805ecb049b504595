//! A log that lies, and a log that merely fails: one key, several histories, and a script of who is shown which of them,
//! when, and what goes wrong on the way.
//!
//! ```text
//! http://127.0.0.1:<port>/<asker>/checkpoint, /<asker>/tile/…
//! ```
//!
//! Each asker (a witness, a client) is given a prefix of its own and by it sees what the liar means for it. Everything is
//! deterministic but for time: entries are numbered, garbage comes from a seed that the caller chooses and prints.
//!
//! Holds the liar's memory. Does not hold its answers (`answer`), what can go wrong (`manner`) nor a history (`history`).

mod answer;
mod gates;
mod history;
mod manner;

pub use gates::Gates;
pub use history::History;
pub use manner::{Head, How, Mishap, On, Showing, When};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use merkle::{PageId, ResourcePath, TreeSize};
use note::{CheckpointError, KeyKind, KeyName, NameError, SignedCheckpoint, SigningKey, Verified, VerifierKey};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The asker who is shown history 0 as it is, whatever the script: where redirects lead.
const STRAIGHT: &str = "straight";

/// Why the liar could not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum LiarError {
    /// No such history.
    #[error("there is no history number {0}")]
    NoHistory(usize),
    /// A head beyond the end.
    #[error("the history has {most} entries, and not {size}")]
    Beyond {
        /// The size asked for.
        size: TreeSize,
        /// What there is.
        most: TreeSize,
    },
    /// The origin is no key's name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The head cannot be signed.
    #[error(transparent)]
    Sign(#[from] CheckpointError),
    /// No socket.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A log with one key and any number of histories. Dropping the last handle ends its serving.
#[derive(Debug)]
pub struct Liar {
    key: SigningKey,
    seed: u64,
    url: String,
    memory: Mutex<Memory>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Memory {
    histories: Vec<History>,
    askers: HashMap<String, Asker>,
}

/// What is meant for one asker, and what it was given.
#[derive(Debug)]
struct Asker {
    script: Vec<(When, Showing)>,
    since: Instant,
    fetches: u64,
    /// When a head of each history first left for it.
    first_shown: HashMap<usize, Instant>,
}

/// What an asker gets: the bytes, if there are any, and what is to go wrong with them.
struct Shown {
    how: Option<How>,
    bytes: Option<Vec<u8>>,
}

impl Liar {
    /// A liar of this origin on a free port of the loopback address, with one empty history, number 0. `seed` makes its key
    /// and its garbage.
    ///
    /// # Errors
    /// [`LiarError`].
    pub async fn start(origin: &str, seed: u64) -> Result<Arc<Liar>, LiarError> {
        let key =
            SigningKey::from_seed(KeyName::new(origin)?, KeyKind::Ed25519, Sha256::digest(seed.to_be_bytes()).into());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let memory = Mutex::new(Memory { histories: vec![History::default()], askers: HashMap::new() });
        let liar = Arc::new(Liar { key, seed, url, memory, serving: Mutex::default() });
        let weak = Arc::downgrade(&liar);
        let router = Router::new().fallback(move |request: Request| {
            let liar = weak.upgrade();
            async move {
                match liar {
                    Some(liar) => answer::answer(State(liar), request).await,
                    None => StatusCode::GONE.into_response(),
                }
            }
        });
        let serving = tokio::spawn(async move {
            // Never ends by itself.
            let _ = axum::serve(listener, router).await;
        });
        *liar.serving.lock().unwrap_or_else(PoisonError::into_inner) = Some(serving);
        Ok(liar)
    }

    /// The key that signs all of it.
    pub fn vkey(&self) -> VerifierKey {
        self.key.verifier()
    }

    /// Where this asker is to look.
    pub fn url(&self, asker: &str) -> String {
        format!("{}/{asker}", self.url)
    }

    /// Branches a new history off history `of` after its first `at` entries; its number.
    ///
    /// # Errors
    /// [`LiarError::NoHistory`].
    pub fn branch(&self, of: usize, at: u64) -> Result<usize, LiarError> {
        let mut memory = self.memory();
        let branch = memory.histories.get(of).ok_or(LiarError::NoHistory(of))?.branch(at);
        memory.histories.push(branch);
        Ok(memory.histories.len() - 1)
    }

    /// Appends `count` entries that say which history and which place they are of; the new size.
    ///
    /// # Errors
    /// [`LiarError::NoHistory`].
    pub fn grow(&self, history: usize, count: u64) -> Result<u64, LiarError> {
        let mut memory = self.memory();
        let grown = memory.histories.get_mut(history).ok_or(LiarError::NoHistory(history))?;
        let size = grown.size().0;
        grown.extend((size..size + count).map(|place| format!("entry {place} of history {history}").into_bytes()));
        Ok(grown.size().0)
    }

    /// Appends entries of the caller's, such as receipts of [`Gates`]; the new size.
    ///
    /// # Errors
    /// [`LiarError::NoHistory`].
    pub fn extend(&self, history: usize, entries: Vec<Vec<u8>>) -> Result<u64, LiarError> {
        let mut memory = self.memory();
        let grown = memory.histories.get_mut(history).ok_or(LiarError::NoHistory(history))?;
        grown.extend(entries);
        Ok(grown.size().0)
    }

    /// The head of a history at `size`, signed, whether or not anybody is shown it.
    ///
    /// # Errors
    /// [`LiarError`].
    pub fn head(&self, history: usize, size: u64) -> Result<SignedCheckpoint<Verified>, LiarError> {
        let memory = self.memory();
        memory.histories.get(history).ok_or(LiarError::NoHistory(history))?.head(TreeSize(size), &self.key)
    }

    /// From now on shows this to the asker.
    pub fn show(&self, asker: &str, showing: Showing) {
        self.play(asker, vec![(When::Fetch(0), showing)]);
    }

    /// From now on follows a script for this asker: of its parts that have begun, the last one in the list counts.
    pub fn play(&self, asker: &str, script: Vec<(When, Showing)>) {
        let mut memory = self.memory();
        let first_shown = memory.askers.remove(asker).map(|before| before.first_shown).unwrap_or_default();
        let asker_now = Asker { script, since: Instant::now(), fetches: 0, first_shown };
        memory.askers.insert(asker.to_owned(), asker_now);
    }

    /// When a head of this history first left for this asker.
    pub fn first_shown(&self, asker: &str, history: usize) -> Option<Instant> {
        self.memory().askers.get(asker)?.first_shown.get(&history).copied()
    }

    /// How often this asker fetched the checkpoint since its script was given.
    pub fn fetches(&self, asker: &str) -> u64 {
        self.memory().askers.get(asker).map_or(0, |asker| asker.fetches)
    }

    /// What the asker gets at a path; `None` for one that nothing is meant for.
    fn shown(&self, asker: &str, path: &ResourcePath) -> Option<Shown> {
        let mut memory = self.memory();
        let Memory { histories, askers } = &mut *memory;
        let mut straight = Asker::straight();
        let asker = if asker == STRAIGHT { &mut straight } else { askers.get_mut(asker)? };
        let showing = asker.showing(*path == ResourcePath::Checkpoint)?;
        let how = showing.mishap(path).cloned();
        let of = if let Some(How::OfHistory(other)) = how { other } else { showing.history };
        let history = histories.get(of)?;
        let size = match showing.head {
            Head::Newest => history.size(),
            Head::Of(size) => TreeSize(size),
        };
        let bytes = match path {
            ResourcePath::Checkpoint => {
                asker.first_shown.entry(of).or_insert_with(Instant::now);
                Some(history.head(size, &self.key).ok()?.bytes().to_vec())
            }
            ResourcePath::Tile(tile) => history.tile(*tile),
            ResourcePath::Entries(page) => history.bundle(*page),
            ResourcePath::Heads(page) if *page == (PageId { index: 0, width: 1 }) => {
                let mut bytes = Vec::new();
                merkle::encode_entry(&mut bytes, history.head(size, &self.key).ok()?.bytes()).ok()?;
                Some(bytes)
            }
            ResourcePath::Heads(_) => None,
        };
        Some(Shown { how, bytes })
    }

    /// So many bytes that mean nothing, by the seed and by where they are served.
    fn garbage(&self, path: &str, length: usize) -> Vec<u8> {
        let block = |number: u64| {
            let mut hash = Sha256::new();
            hash.update(self.seed.to_be_bytes());
            hash.update(path.as_bytes());
            hash.update(number.to_be_bytes());
            hash.finalize()
        };
        (0..).flat_map(block).take(length).collect()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.get_mut().unwrap_or_else(PoisonError::into_inner) {
            serving.abort();
        }
    }
}

impl Asker {
    fn straight() -> Asker {
        let script = vec![(When::Fetch(0), Showing::newest(0))];
        Asker { script, since: Instant::now(), fetches: 0, first_shown: HashMap::new() }
    }

    /// The part of the script that counts. Tiles belong to the checkpoint that was fetched before them.
    fn showing(&mut self, is_fetch: bool) -> Option<Showing> {
        let fetch = if is_fetch { self.fetches } else { self.fetches.saturating_sub(1) };
        self.fetches += u64::from(is_fetch);
        let begun = |from: &When| match *from {
            When::Fetch(number) => fetch >= number,
            When::After(time) => self.since.elapsed() >= time,
        };
        self.script.iter().rev().find(|(from, _)| begun(from)).map(|(_, showing)| showing.clone())
    }
}
