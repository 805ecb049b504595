//! `counterfoil-witness log list`: the logs in the configuration. How they are is what `status` says.

use crate::arguments::LogList;
use crate::settings::{Settings, SettingsError, WatchedLog};
use client::Reach;
use serde::Serialize;
use service::ExitStatus;
use service::config::{ConfigError, Flags, Loaded};
use service::output::Output;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

/// Why nothing is listed. The configuration is to blame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    /// It cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// One of its entries is none.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// One log.
#[derive(Debug, Serialize)]
struct Listed {
    origin: String,
    vkey: String,
    url: Option<String>,
    private_address: bool,
    accept_pushes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuers: Option<PathBuf>,
    acknowledged_evidence: BTreeSet<u64>,
}

/// Prints the logs in the order of the file.
pub(crate) fn run(call: &LogList) -> Result<ExitStatus, ListError> {
    let loaded: Loaded<Settings> = service::config::load(Some(&call.config), Flags::new())?;
    let logs = loaded.values.watched_logs()?;
    let listed: Vec<Listed> = logs.iter().map(Listed::of).collect();
    Output::new(call.json).print(&listed, |out| write_words(&logs, out));
    Ok(ExitStatus::Ok)
}

impl Listed {
    fn of(log: &WatchedLog) -> Listed {
        Listed {
            origin: log.vkey.name().to_string(),
            vkey: log.vkey.to_string(),
            url: log.url.as_ref().map(ToString::to_string),
            private_address: log.reach == Reach::Any,
            accept_pushes: log.accept_pushes,
            issuers: log.issuers.clone(),
            acknowledged_evidence: log.acknowledged_evidence.clone(),
        }
    }
}

fn write_words(logs: &[WatchedLog], out: &mut dyn Write) -> io::Result<()> {
    if logs.is_empty() {
        writeln!(out, "no log is configured; add one with `counterfoil-witness log add VKEY URL --config FILE`")?;
    }
    logs.iter().try_for_each(|log| writeln!(out, "{}{}", log.vkey.name(), reach_note(log)))
}

/// Where a log is and what it may do, as it stands after its name.
pub(super) fn reach_note(log: &WatchedLog) -> String {
    let mut note = match &log.url {
        Some(url) => format!("  {url}"),
        None => "  pushes only".to_owned(),
    };
    if log.reach == Reach::Any {
        note.push_str("  private address");
    }
    if log.accept_pushes && log.url.is_some() {
        note.push_str("  may push");
    }
    if let Some(issuers) = &log.issuers {
        note.push_str(&format!("  issuers of {}", issuers.display()));
    }
    if !log.acknowledged_evidence.is_empty() {
        let numbers: Vec<String> = log.acknowledged_evidence.iter().map(u64::to_string).collect();
        note.push_str(&format!("  evidence {} acknowledged", numbers.join(", ")));
    }
    note
}
