//! `[[log]]` and `[[peer]]`: who is watched, and what each entry must be before anything runs.
//!
//! Holds the entries' keys and checks. Does not hold the keys of the witness itself (`settings`).

use super::{Level, SettingsError};
use crate::journal::book::{SUFFIX as JOURNAL_SUFFIX, journal_name};
use client::reach::is_public;
use client::{AddressError, BaseUrl, Reach};
use note::{KeyKind, KeyName, Origin, VerifierKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// Most logs of one witness: each costs a task, a connection and at most 300 kB of remembered heads.
pub const MAX_LOGS: usize = 1024;

/// Most peers of one witness. Each is asked for each log once a minute: with the most logs, 1,100 requests a second.
pub const MAX_PEERS: usize = 64;

/// One log to watch, as the file has it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct LogSettings {
    /// The log's key; its name is the log's origin.
    pub vkey: String,
    /// The log's own address. Left out for a log that only pushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The log's address may be one that is not public: loopback, private, link-local and so on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub private_address: bool,
    /// The log may push its heads by tlog-witness's `add-checkpoint`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub accept_pushes: bool,
    /// Level `full`: a file of the vkeys of issuers, one a line. Without it an issuer is who its `open` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuers: Option<PathBuf>,
    /// Numbers of evidence against this log that the operator has seen and wants to go on in spite of.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub acknowledged_evidence: BTreeSet<u64>,
}

/// One peer, as the file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PeerSettings {
    /// The other witness's key.
    pub vkey: String,
    /// The key of its journal.
    pub journal_vkey: String,
    /// Its address.
    pub url: String,
    /// Its address may be one that is not public.
    #[serde(default)]
    pub private_address: bool,
}

/// One log to watch, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedLog {
    /// Its key.
    pub vkey: VerifierKey,
    /// Where it is; `None` for a log that only pushes.
    pub url: Option<BaseUrl>,
    /// Which addresses it may be at.
    pub reach: Reach,
    /// Whether it may push its heads. Always so where there is no `url`.
    pub accept_pushes: bool,
    /// The file of its issuers' vkeys, relative to the configuration; level `full` only.
    pub issuers: Option<PathBuf>,
    /// Evidence that no longer stops us.
    pub acknowledged_evidence: BTreeSet<u64>,
    /// The peer whose journal it is, where it is no log of the configuration.
    pub journal_of: Option<KeyName>,
    /// The witness's level.
    pub level: Level,
}

/// One peer, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPeer {
    /// Its key, of a witness.
    pub vkey: VerifierKey,
    /// The key of its journal.
    pub journal_vkey: VerifierKey,
    /// Where it is.
    pub url: BaseUrl,
    /// Which addresses it may be at.
    pub reach: Reach,
}

/// Which section of the file a fault is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `[[log]]`.
    Log,
    /// `[[peer]]`.
    Peer,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// A vkey that is none.
    #[error("its {0}: {1}")]
    Key(&'static str, note::KeyError),
    /// A vkey of another kind.
    #[error("its vkey is not of type 0x01; copy the vkey that the log prints")]
    NotALog,
    /// The same for a peer.
    #[error("its vkey is not of type 0x04; copy the vkey that the other witness prints")]
    NotAWitness,
    /// The journal's key is not the one of this witness.
    #[error(
        "its journal_vkey is not a key of type 0x01 named {0}/journal; copy the journal's vkey that the other witness prints"
    )]
    NotItsJournal(KeyName),
    /// A URL that is none.
    #[error(transparent)]
    Url(AddressError),
    /// No URL, and no pushes either.
    #[error(
        "it has no url, so nothing of it would be seen; add its url, or accept_pushes = true if it pushes its heads"
    )]
    Unreachable,
    /// An address that is not public.
    #[error(
        "{0} is not a public address; if it is meant to be there, in a network of your own, add private_address = true (log add: --private-address)"
    )]
    PrivateAddress(IpAddr),
    /// Level full needs the entries.
    #[error("it has no url, and level \"full\" fetches every entry; add its url")]
    NoEntries,
    /// Heads are pushed to a witness that has to fetch.
    #[error(
        "at level \"full\" a witness fetches every entry itself, and takes no pushed heads; take accept_pushes out"
    )]
    PushedFull,
    /// Issuers at a level where nobody reads them.
    #[error("its issuers are read at level \"full\" only; leave the key out, or set the level")]
    IssuersUnread,
    /// A witness's journal at a level where entries must be receipts.
    #[error(
        "it is a witness's journal, which holds no receipts; a witness of level \"full\" watches journals of its [[peer]]s only"
    )]
    JournalFull,
    /// A log listed before.
    #[error("the log {0:?} is listed before; keep one, a witness cosigns one history of a log")]
    LogTwice(Origin),
    /// A peer listed before.
    #[error("the witness {0} is listed before; keep one")]
    PeerTwice(KeyName),
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Section::Log => "log",
            Section::Peer => "peer",
        })
    }
}

/// The `[[log]]` entries of a witness of this level, checked.
pub(super) fn watched_logs(logs: &[LogSettings], level: Level) -> Result<Vec<WatchedLog>, SettingsError> {
    if logs.len() > MAX_LOGS {
        return Err(SettingsError::TooManyLogs);
    }
    let mut origins = HashSet::with_capacity(logs.len());
    let watched = (1..).zip(logs).map(|(place, log)| {
        let checked = watched_log(log, level).and_then(|log| {
            let origin = Origin::from(log.vkey.name());
            if origins.insert(origin.clone()) { Ok(log) } else { Err(EntryFault::LogTwice(origin)) }
        });
        checked.map_err(|fault| SettingsError::Entry { section: Section::Log, place, fault })
    });
    watched.collect()
}

/// The `[[peer]]` entries, checked.
pub(super) fn watched_peers(peers: &[PeerSettings]) -> Result<Vec<WatchedPeer>, SettingsError> {
    if peers.len() > MAX_PEERS {
        return Err(SettingsError::TooManyPeers);
    }
    let mut names = HashSet::with_capacity(peers.len());
    let watched = (1..).zip(peers).map(|(place, peer)| {
        let checked = watched_peer(peer).and_then(|peer| {
            let name = peer.vkey.name().clone();
            if names.insert(name.clone()) { Ok(peer) } else { Err(EntryFault::PeerTwice(name)) }
        });
        checked.map_err(|fault| SettingsError::Entry { section: Section::Peer, place, fault })
    });
    watched.collect()
}

/// One log, checked by itself.
pub(crate) fn watched_log(log: &LogSettings, level: Level) -> Result<WatchedLog, EntryFault> {
    let vkey: VerifierKey = log.vkey.parse().map_err(|error| EntryFault::Key("vkey", error))?;
    if vkey.kind() != KeyKind::Ed25519 {
        return Err(EntryFault::NotALog);
    }
    let reach = reach(log.private_address);
    let url = log.url.as_ref().map(|url| address(url, reach)).transpose()?;
    if url.is_none() {
        if !log.accept_pushes {
            return Err(EntryFault::Unreachable);
        }
        if level == Level::Full {
            return Err(EntryFault::NoEntries);
        }
    }
    if level == Level::Full && vkey.name().as_str().ends_with(JOURNAL_SUFFIX) {
        return Err(EntryFault::JournalFull);
    }
    if level == Level::Full && log.accept_pushes {
        return Err(EntryFault::PushedFull);
    }
    if log.issuers.is_some() && level != Level::Full {
        return Err(EntryFault::IssuersUnread);
    }
    Ok(WatchedLog {
        vkey,
        url,
        reach,
        accept_pushes: log.accept_pushes,
        issuers: log.issuers.clone(),
        acknowledged_evidence: log.acknowledged_evidence.clone(),
        journal_of: None,
        level,
    })
}

fn watched_peer(peer: &PeerSettings) -> Result<WatchedPeer, EntryFault> {
    let vkey: VerifierKey = peer.vkey.parse().map_err(|error| EntryFault::Key("vkey", error))?;
    if vkey.kind() != KeyKind::CosignatureV1 {
        return Err(EntryFault::NotAWitness);
    }
    let journal_vkey: VerifierKey =
        peer.journal_vkey.parse().map_err(|error| EntryFault::Key("journal_vkey", error))?;
    if journal_vkey.kind() != KeyKind::Ed25519 || journal_name(vkey.name()).ok().as_ref() != Some(journal_vkey.name()) {
        return Err(EntryFault::NotItsJournal(vkey.name().clone()));
    }
    let reach = reach(peer.private_address);
    Ok(WatchedPeer { url: address(&peer.url, reach)?, vkey, journal_vkey, reach })
}

/// What a file that says nothing means.
fn is_false(value: &bool) -> bool {
    !value
}

fn reach(private_address: bool) -> Reach {
    if private_address { Reach::Any } else { Reach::Public }
}

/// What the file spells out is known before anything is fetched; a name is judged whenever it is resolved.
fn address(url: &str, reach: Reach) -> Result<BaseUrl, EntryFault> {
    let url: BaseUrl = url.parse().map_err(EntryFault::Url)?;
    match url.ip_address() {
        Some(address) if reach == Reach::Public && !is_public(address) => Err(EntryFault::PrivateAddress(address)),
        _ => Ok(url),
    }
}
