//! What an operator can change while the log runs: which issuers may submit. The calls lie behind a token; without a token
//! file there are none.
//!
//! A change is in the issuers file, on disk, before it is answered; the running log follows the file, never the other way
//! round.

use crate::committer::{Command, ListError};
use crate::issuers_file::{self, Change, IssuersError};
use note::VerifierKey;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use subtle::ConstantTimeEq;
use tokio::sync::{Mutex, oneshot};
use zeroize::Zeroizing;

/// Fewest characters of a token: 32 hex digits are 128 bits.
const MIN_TOKEN: usize = 32;
/// Most bytes of a token file.
const MAX_TOKEN_FILE: u64 = 4096;
/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Why there is no token. Nothing of the file's content is in it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The system refused.
    #[error("cannot read the admin token file {path}: {source}")]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read it.
    #[error("others can read the admin token file {path} (mode {mode:04o}); run: chmod 600 {path}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds no token.
    #[error(
        "{path} holds no token: one line of at least {MIN_TOKEN} visible ASCII characters and nothing else; make one with: openssl rand -hex 32"
    )]
    NotAToken {
        /// The file.
        path: PathBuf,
    },
}

/// The secret that a caller has to show.
pub struct AdminToken(Zeroizing<String>);

impl AdminToken {
    /// Reads the token from a file of one line that nobody else can read.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let system = |source| TokenError::System { path: path.to_owned(), source };
        let file = File::open(path).map_err(system)?;
        let mode = file.metadata().map_err(system)?.mode();
        if mode & OTHERS != 0 {
            return Err(TokenError::Exposed { path: path.to_owned(), mode: mode & 0o7777 });
        }
        let mut text = Zeroizing::new(String::with_capacity(MAX_TOKEN_FILE as usize + 1));
        file.take(MAX_TOKEN_FILE + 1).read_to_string(&mut text).map_err(system)?;
        let token = text.strip_suffix('\n').unwrap_or(&text);
        let is_token = (MIN_TOKEN..=MAX_TOKEN_FILE as usize).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        match is_token {
            true => Ok(Self(Zeroizing::new(token.to_owned()))),
            false => Err(TokenError::NotAToken { path: path.to_owned() }),
        }
    }

    /// Whether `shown` is it. The time taken tells nothing but the length.
    pub fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AdminToken")
    }
}

/// Why a list of issuers was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The file, or what was to be put into it.
    #[error(transparent)]
    File(#[from] IssuersError),
    /// It contradicts what the log holds.
    #[error(transparent)]
    Registered(#[from] ListError),
    /// The log stops.
    #[error("the log is stopping; make the change once it runs again")]
    Stopping,
}

/// The list of issuers of a running log: the file, and the committer that goes by it. One change at a time.
#[derive(Debug)]
pub struct IssuerList {
    path: PathBuf,
    own: VerifierKey,
    queue: SyncSender<Command>,
    changing: Mutex<()>,
}

impl IssuerList {
    /// The list in `path` of the log with key `own`, whose committer takes commands from `queue`.
    pub fn new(path: PathBuf, own: VerifierKey, queue: SyncSender<Command>) -> Self {
        Self { path, own, queue, changing: Mutex::new(()) }
    }

    /// Makes the running log go by the file as it is now; answers how many issuers it lists.
    ///
    /// # Errors
    /// [`ChangeError`]: the running log's list is as it was.
    pub async fn reload(&self) -> Result<usize, ChangeError> {
        let _alone = self.changing.lock().await;
        self.take_over().await
    }

    /// Adds the issuer with this vkey: into the file, then into the running log. Answers false if it was listed already.
    ///
    /// # Errors
    /// [`ChangeError`]: nothing has changed.
    pub async fn add(&self, vkey: String) -> Result<(VerifierKey, bool), ChangeError> {
        let own = self.own.clone();
        self.change(move |path| issuers_file::add(path, &vkey, Some(&own))).await
    }

    /// Takes the issuer of this name out. Answers false if it was not listed.
    ///
    /// # Errors
    /// As [`IssuerList::add`].
    pub async fn retire(&self, name: String) -> Result<bool, ChangeError> {
        let own = self.own.clone();
        match self.change(move |path| issuers_file::retire(path, &name, Some(&own))).await {
            Ok((_, is_made)) => Ok(is_made),
            Err(ChangeError::File(IssuersError::NotListed(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The issuers in the file.
    ///
    /// # Errors
    /// [`ChangeError::File`].
    pub async fn listed(&self) -> Result<Vec<VerifierKey>, ChangeError> {
        let (path, own) = (self.path.clone(), self.own.clone());
        Ok(in_background(move || issuers_file::read(&path, Some(&own))).await??)
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Path) -> Result<(T, Change), IssuersError> + Send + 'static,
    ) -> Result<(T, bool), ChangeError> {
        let _alone = self.changing.lock().await;
        let path = self.path.clone();
        let (answer, changed) = in_background(move || change(&path)).await??;
        // Its lock is held until the log goes by the file, so that nobody builds on what is then undone.
        let Change::Made(made) = changed else { return Ok((answer, false)) };
        if let Err(error) = self.take_over().await {
            // What the log does not go by must not stand in its file: the next start would fail over it.
            in_background(move || made.undo()).await??;
            return Err(error);
        }
        Ok((answer, true))
    }

    async fn take_over(&self) -> Result<usize, ChangeError> {
        let (path, own, queue) = (self.path.clone(), self.own.clone(), self.queue.clone());
        let (done, listed) = oneshot::channel();
        let count = in_background(move || {
            let keys = issuers_file::read(&path, Some(&own))?;
            let count = keys.len();
            // A committer that is gone drops `done`, which is seen below.
            let _ = queue.send(Command::List { keys, done });
            Ok::<usize, IssuersError>(count)
        });
        let count = count.await??;
        listed.await.map_err(|_| ChangeError::Stopping)??;
        Ok(count)
    }
}

async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ChangeError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ChangeError::Stopping)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(text: &str, mode: u32) -> Result<AdminToken, TokenError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        AdminToken::read(&path)
    }

    #[tokio::test]
    async fn what_the_log_refuses_is_taken_out_of_the_file_and_nothing_else_is() {
        use note::{KeyKind, KeyName, SigningKey};
        let key = |name: &str, seed| {
            SigningKey::from_seed(KeyName::new(name).unwrap(), KeyKind::Ed25519, [seed; 32]).verifier()
        };
        let (refused, other) = (key("gate/refused", 1), key("gate/other", 2));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("issuers");
        std::fs::write(&path, issuers_file::HEADER).unwrap();
        let (queue, commands) = std::sync::mpsc::sync_channel(1);
        let list = IssuerList::new(path.clone(), key("log", 3), queue);
        let beside = {
            let (path, other) = (path.clone(), other.to_string());
            move || issuers_file::add(&path, &other, None).unwrap().1.is_made()
        };
        let committer = std::thread::spawn(move || {
            let Ok(Command::List { done, .. }) = commands.recv() else { panic!("another command") };
            // Somebody else at the same file, who has all the time that he can use before the log says no.
            let (added, seen) = std::sync::mpsc::channel();
            let beside = std::thread::spawn(move || added.send(beside()).unwrap());
            let _ = seen.recv_timeout(std::time::Duration::from_millis(300));
            let name = receipt::IssuerName::new("gate/refused").unwrap();
            done.send(Err(ListError { name })).unwrap();
            beside.join().unwrap();
        });
        assert!(matches!(list.add(refused.to_string()).await, Err(ChangeError::Registered(_))));
        committer.join().unwrap();
        assert_eq!(issuers_file::read(&path, None).unwrap(), [other]);
    }

    #[test]
    fn a_token_is_one_long_line_that_nobody_else_can_read() {
        let good = "0123456789abcdef0123456789abcdef";
        for text in [good.to_owned(), format!("{good}\n")] {
            let token = read(&text, 0o600).unwrap();
            assert!(token.is(good.as_bytes()));
            assert!(!token.is(&good.as_bytes()[1..]) && !token.is(b"") && !token.is(&[b'0'; 32]));
        }
        for mode in [0o640, 0o604, 0o644] {
            assert!(matches!(read(good, mode), Err(TokenError::Exposed { .. })), "{mode:o}");
        }
        for text in ["", "short", &good[1..], &format!("{good}\n\n"), &format!("{good} {good}"), &"x".repeat(5000)] {
            let error = read(text, 0o600).unwrap_err();
            assert!(matches!(error, TokenError::NotAToken { .. }), "{text:?}");
            assert!(text.is_empty() || !error.to_string().contains(text), "the content is repeated: {error}");
        }
    }
}
