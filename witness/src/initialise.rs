//! `counterfoil-witness init`: a new witness on disk.
//!
//! ```text
//! D/config.toml    to fill in
//! D/witness.key    0600, type 0x04, named N; none where an ssh-agent has it
//! D/witness-mldsa.key   0600, type 0x06, named N, if wanted
//! D/journal.key    0600, type 0x01, named N/journal
//! D/state/         what the witness remembers
//! ```
//!
//! The last step gives the directory its name: an init that is killed leaves nothing that looks like a witness.

use crate::agent::{Agent, AgentError, parse_public_line};
use crate::arguments::Init;
use crate::broken::Broken;
use crate::evidence::Evidence;
use crate::journal::book::{Journal, journal_name};
use crate::settings::{Level, WITNESS_KEY};
use note::{KeyKind, KeyName, NameError, SigningKey, VerifierKey};
use serde::Serialize;
use service::keys::{KeyFileError, new_signing_key, write_new_signing_key};
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use store::disk::RealDisk;

/// The file of the second key.
const MLDSA_KEY: &str = "witness-mldsa.key";

/// What was made.
#[derive(Debug, Serialize)]
pub(crate) struct NewWitness {
    /// The witness's name.
    pub(crate) name: String,
    /// Its vkey, for policies.
    pub(crate) vkey: String,
    /// The vkey of its second key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mldsa_vkey: Option<String>,
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
    /// What is to be the key in the agent is none.
    #[error("{0} holds no Ed25519 key of OpenSSH's; give the .pub file that `ssh-keygen -t ed25519` wrote")]
    PublicKey(PathBuf),
    /// The agent does not have it.
    #[error(transparent)]
    Agent(#[from] AgentError),
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

/// Makes the witness that was asked for. Its directory must not exist.
pub(crate) fn initialise(call: &Init) -> Result<NewWitness, InitError> {
    let Init { dir, name, listen, level, .. } = call;
    let name = KeyName::new(name)?;
    let witness = match (&call.ssh_agent, &call.ssh_key) {
        (Some(socket), Some(public)) => WitnessKey::in_agent(&name, socket, public)?,
        _ => WitnessKey::File(Box::new(new_signing_key(name.clone(), KeyKind::CosignatureV1)?)),
    };
    let mldsa = call.mldsa.then(|| new_signing_key(name.clone(), KeyKind::MlDsa44)).transpose()?;
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
    if let WitnessKey::File(key) = &witness {
        write_new_signing_key(&unfinished.join(WITNESS_KEY), key)?;
    }
    if let Some(key) = &mldsa {
        write_new_signing_key(&unfinished.join(MLDSA_KEY), key)?;
    }
    write_new_signing_key(&unfinished.join("journal.key"), &journal)?;
    let state = unfinished.join("state");
    std::fs::create_dir(&state).map_err(system(&state))?;
    Journal::create(&RealDisk, &state)?;
    Evidence::open(&state)?;
    let config = unfinished.join("config.toml");
    let text = configuration(&name, *listen, *level, &key_lines(&witness, mldsa.is_some()));
    write_durably(&config, &text).map_err(system(&config))?;
    for path in [&state, &unfinished] {
        sync_dir(path).map_err(system(path))?;
    }
    std::fs::rename(&unfinished, dir).map_err(system(dir))?;
    sync_dir(parent).map_err(system(parent))?;
    Ok(NewWitness {
        name: name.to_string(),
        vkey: witness.verifier().to_string(),
        mldsa_vkey: mldsa.map(|key| key.verifier().to_string()),
        journal_vkey: journal.verifier().to_string(),
        config: dir.join("config.toml"),
    })
}

/// Where the private half of the witness's key is to be.
enum WitnessKey {
    File(Box<SigningKey>),
    Agent { socket: PathBuf, vkey: Box<VerifierKey> },
}

impl WitnessKey {
    /// The key in the agent that listens on `socket`, by the file with its public half.
    fn in_agent(name: &KeyName, socket: &Path, public: &Path) -> Result<WitnessKey, InitError> {
        let system = |source| InitError::System { path: public.to_owned(), source };
        let text = std::fs::read_to_string(public).map_err(system)?;
        let no_key = || InitError::PublicKey(public.to_owned());
        let point = parse_public_line(&text).ok_or_else(no_key)?;
        let vkey = VerifierKey::new(name.clone(), KeyKind::CosignatureV1, &point).map_err(|_| no_key())?;
        // The file's paths begin at the file, the command line's here.
        let socket = std::path::absolute(socket).map_err(system)?;
        Agent::open(&socket, &vkey)?;
        Ok(WitnessKey::Agent { socket, vkey: Box::new(vkey) })
    }

    fn verifier(&self) -> VerifierKey {
        match self {
            WitnessKey::File(key) => key.verifier(),
            WitnessKey::Agent { vkey, .. } => (**vkey).clone(),
        }
    }
}

/// What the configuration says of the witness's keys.
fn key_lines(witness: &WitnessKey, mldsa: bool) -> String {
    let line = |key: &str, value: &str| format!("{key} = {}\n", toml::Value::String(value.to_owned()));
    let witness = match witness {
        WitnessKey::File(_) => line("witness_key", WITNESS_KEY),
        WitnessKey::Agent { socket, vkey } => {
            line("ssh_agent", &socket.to_string_lossy()) + &line("witness_vkey", &vkey.to_string())
        }
    };
    if mldsa { witness + &line("mldsa_key", MLDSA_KEY) } else { witness }
}

fn configuration(name: &KeyName, listen: SocketAddr, level: Level, key_lines: &str) -> String {
    format!(
        "# The witness {name}. Every key can also be set by COUNTERFOIL_<KEY> in the environment, and by a flag\n\
         # (--set KEY=VALUE for those that have none of their own).\n\
         listen = \"{listen}\"\n\
         # What a cosignature says: \"consistency\" (history only grew), \"full\" (and every receipt may be there). For ever the same.\n\
         level = \"{level}\"\n\
         {key_lines}\
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
         # One block a log; `counterfoil-witness log add` looks at the log and writes one.\n\
         # [[log]]\n\
         # vkey = \"log.example/agents+...\"        # as its operator published it\n\
         # url = \"https://log.example/agents\"     # its own address; only public ones are connected to, unless\n\
         # private_address = true                 # it is in a network of your own\n\
         # accept_pushes = true                   # it may push its heads (add-checkpoint)\n\
         \n\
         # One block for each witness of somebody else to compare with.\n\
         # [[peer]]\n\
         # vkey = \"other.example/w+...\"\n\
         # journal_vkey = \"other.example/w/journal+...\"\n\
         # url = \"https://other.example/w\"\n"
    )
}

fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
