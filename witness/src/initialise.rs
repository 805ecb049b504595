//! `counterfoil-witness init`: a new witness on disk.
//!
//! ```text
//! D/config.toml    to fill in
//! D/witness.key    0600, type 0x04, named N
//! D/journal.key    0600, type 0x01, named N/journal
//! D/state/         what the witness remembers
//! ```
//!
//! The last step gives the directory its name: an init that is killed leaves nothing that looks like a witness.

use crate::evidence::Evidence;
use crate::journal::book::{Journal, journal_name};
use crate::keeper::Broken;
use note::{KeyKind, KeyName, NameError};
use serde::Serialize;
use service::keys::{KeyFileError, new_signing_key, write_new_signing_key};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The journal's directory below the state directory.
pub(crate) const JOURNAL: &str = "journal";

/// What was made.
#[derive(Debug, Serialize)]
pub(crate) struct NewWitness {
    /// The witness's name.
    pub(crate) name: String,
    /// Its vkey, for policies.
    pub(crate) vkey: String,
    /// The journal's vkey.
    pub(crate) journal_vkey: String,
    /// The configuration file.
    pub(crate) config: PathBuf,
}

/// Why no witness was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// The name, or the journal's, is none.
    #[error("this name cannot be a witness's: {0}")]
    Name(#[from] NameError),
    /// Something is there already.
    #[error("{0} exists; a witness is never made over another, choose another directory")]
    Exists(PathBuf),
    /// The system refused.
    #[error("cannot make {path}: {source}")]
    System {
        /// What was to be made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A key file could not be made.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// Journal or evidence could not be made.
    #[error("cannot make the witness's state: {0}")]
    State(#[from] Broken),
}

/// Makes the witness named `name`, to listen on `listen`, in `dir`, which must not exist.
pub(crate) fn initialise(dir: &Path, name: &str, listen: SocketAddr) -> Result<NewWitness, InitError> {
    let name = KeyName::new(name)?;
    let witness = new_signing_key(name.clone(), KeyKind::CosignatureV1)?;
    let journal = new_signing_key(journal_name(&name)?, KeyKind::Ed25519)?;
    if dir.symlink_metadata().is_ok() {
        return Err(InitError::Exists(dir.to_owned()));
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = |path: &Path| {
        let path = path.to_owned();
        move |source| InitError::System { path, source }
    };
    std::fs::create_dir_all(parent).map_err(system(parent))?;
    let mut unfinished = dir.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() {
        // Left by an init that was killed; nothing ever used it.
        std::fs::remove_dir_all(&unfinished).map_err(system(&unfinished))?;
    }
    std::fs::create_dir(&unfinished).map_err(system(&unfinished))?;
    write_new_signing_key(&unfinished.join("witness.key"), &witness)?;
    write_new_signing_key(&unfinished.join("journal.key"), &journal)?;
    let state = unfinished.join("state");
    std::fs::create_dir(&state).map_err(system(&state))?;
    Journal::create(&state.join(JOURNAL))?;
    Evidence::open(&state)?;
    let config = unfinished.join("config.toml");
    std::fs::write(&config, configuration(&name, listen)).map_err(system(&config))?;
    for path in [&state, &unfinished] {
        sync_dir(path).map_err(system(path))?;
    }
    std::fs::rename(&unfinished, dir).map_err(system(dir))?;
    sync_dir(parent).map_err(system(parent))?;
    Ok(NewWitness {
        name: name.to_string(),
        vkey: witness.verifier().to_string(),
        journal_vkey: journal.verifier().to_string(),
        config: dir.join("config.toml"),
    })
}

fn configuration(name: &KeyName, listen: SocketAddr) -> String {
    format!(
        "# The witness {name}. Every key can also be set by COUNTERFOIL_<KEY> in the environment, and by a flag.\n\
         listen = \"{listen}\"\n\
         witness_key = \"witness.key\"\n\
         journal_key = \"journal.key\"\n\
         state = \"state\"\n\
         \n\
         # Each log is fetched, and its unchanged head cosigned again, this often.\n\
         interval_ms = 5000\n\
         # No two fetches of a log are closer together than this, however often the log nudges.\n\
         nudge_gap_ms = 50\n\
         # A log that fails is fetched ever less often, down to this.\n\
         backoff_ms = 60000\n\
         # A fetch is given up after this.\n\
         fetch_deadline_ms = 20000\n\
         \n\
         # One block a log: its vkey as its operator published it, and its own address.\n\
         # [[log]]\n\
         # vkey = \"log.example/agents+…\"\n\
         # url = \"https://log.example/agents\"\n"
    )
}

fn sync_dir(path: &Path) -> io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
