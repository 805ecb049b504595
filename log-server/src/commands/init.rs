//! `counterfoil-log init`: a new log, whole or not at all. Everything is made under another name and renamed at the end,
//! so that a kill leaves no half-made log that looks like one.

use super::{PROGRAM, layout};
use crate::arguments::Init;
use crate::{config, issuers_file};
use note::{KeyKind, KeyName, Origin};
use serde::Serialize;
use service::output::{Output, complain};
use service::{ExitStatus, keys};
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error("{0} exists; choose a directory that does not, a log is never made over another one")]
    Exists(PathBuf),
    #[error("{0:?} is no origin ({1}); write a name such as log.example/agents, without spaces and plus signs")]
    Origin(String, String),
    #[error("{0:?} is no address to listen on; write ADDRESS:PORT, for example 127.0.0.1:8080")]
    Listen(String),
    #[error(transparent)]
    Key(#[from] keys::KeyFileError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error("cannot write {0}: {1}")]
    System(PathBuf, std::io::Error),
}

#[derive(Serialize)]
struct Made {
    vkey: String,
    dir: PathBuf,
    config: PathBuf,
}

pub(crate) fn init(arguments: &Init) -> ExitStatus {
    match make(arguments) {
        Ok(made) => {
            Output::new(arguments.json).print(&made, |to| print_next_steps(to, &made));
            ExitStatus::Ok
        }
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                InitError::Origin(..) | InitError::Listen(_) => ExitStatus::Usage,
                _ => ExitStatus::Failed,
            }
        }
    }
}

/// The vkey alone in the first line, so that a script need not look for it.
fn print_next_steps(to: &mut dyn Write, made: &Made) -> std::io::Result<()> {
    let (dir, config) = (made.dir.display(), made.config.display());
    writeln!(to, "{}", made.vkey)?;
    writeln!(to)?;
    writeln!(to, "The line above is the log's vkey: give it to witnesses, gates and auditors.\nNext:")?;
    writeln!(to, "  counterfoil-log issuer add --dir {dir} VKEY")?;
    writeln!(to, "      lets a gate submit (counterfoil keygen --kind issuer makes its key)")?;
    writeln!(to, "  edit {config}: add a [[witness]] section for each witness")?;
    writeln!(to, "  counterfoil-log serve --config {config}")
}

fn make(arguments: &Init) -> Result<Made, InitError> {
    let Init { dir, origin, listen, .. } = arguments;
    let name = KeyName::new(origin).map_err(|error| InitError::Origin(origin.clone(), error.to_string()))?;
    Origin::new(origin).map_err(|error| InitError::Origin(origin.clone(), error.to_string()))?;
    if listen.parse::<SocketAddr>().is_err()
        && listen.rsplit_once(':').is_none_or(|(host, port)| host.is_empty() || port.parse::<u16>().is_err())
    {
        return Err(InitError::Listen(listen.clone()));
    }
    if fs::symlink_metadata(dir).is_ok() {
        return Err(InitError::Exists(dir.clone()));
    }
    let system = |path: &Path| {
        let path = path.to_owned();
        move |error| InitError::System(path, error)
    };
    let mut unfinished_name = dir.file_name().unwrap_or_default().to_owned();
    unfinished_name.push(".being-made");
    let unfinished = dir.with_file_name(unfinished_name);
    // What a killed attempt left has never been a log.
    if fs::symlink_metadata(&unfinished).is_ok() {
        fs::remove_dir_all(&unfinished).map_err(system(&unfinished))?;
    }
    fs::create_dir_all(&unfinished).map_err(system(&unfinished))?;
    let key = keys::new_signing_key(name, KeyKind::Ed25519)?;
    keys::write_new_signing_key(&unfinished.join(layout::KEY), &key)?;
    for (file, text) in
        [(layout::CONFIG, config::initial_text(listen)), (layout::ISSUERS, issuers_file::HEADER.to_owned())]
    {
        let path = unfinished.join(file);
        write_durably(&path, &text).map_err(system(&path))?;
    }
    store::LogStore::create(&unfinished.join(layout::STORE))?;
    File::open(&unfinished).and_then(|made| made.sync_all()).map_err(system(&unfinished))?;
    fs::rename(&unfinished, dir).map_err(system(dir))?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(system(parent))?;
    Ok(Made { vkey: key.verifier().to_string(), dir: dir.clone(), config: dir.join(layout::CONFIG) })
}

fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
