//! `counterfoil-log issuer add|retire|list`: the operator's list, which a running log takes over at SIGHUP.

use super::{PROGRAM, layout};
use crate::arguments::Issuer;
use crate::issuers_file::{self, IssuersError};
use note::{KeyKind, VerifierKey};
use serde::Serialize;
use service::ExitStatus;
use service::keys;
use service::output::{Output, complain};
use std::path::Path;

#[derive(Serialize)]
struct Listed {
    name: String,
    vkey: String,
    retired: bool,
}

#[derive(Serialize)]
struct Retired {
    name: String,
    vkey: String,
    /// False if it was retired before.
    retired_now: bool,
}

#[derive(Serialize)]
struct Added {
    name: String,
    vkey: String,
    added: bool,
}

pub(crate) fn issuer(call: &Issuer) -> ExitStatus {
    let done = match call {
        Issuer::Add { dir, vkey, json } => issuers_file::add(&dir.join(layout::ISSUERS), vkey, own_key(dir).as_ref())
            .map(|(key, added)| print_added(&key, added.is_made(), Output::new(*json))),
        Issuer::Retire { dir, name, json } => {
            issuers_file::retire(&dir.join(layout::ISSUERS), name, own_key(dir).as_ref())
                .map(|(key, change)| print_retired(&key, change.is_made(), Output::new(*json)))
        }
        Issuer::List { dir, json } => {
            let path = dir.join(layout::ISSUERS);
            issuers_file::read(&path, own_key(dir).as_ref()).and_then(|listed| {
                print_list(&listed, &issuers_file::read_retired(&path)?, Output::new(*json));
                Ok(())
            })
        }
    };
    match done {
        Ok(()) => ExitStatus::Ok,
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                IssuersError::NotAKey { .. } | IssuersError::OwnKey(_) | IssuersError::OtherKey { .. } => {
                    ExitStatus::Usage
                }
                _ => ExitStatus::Failed,
            }
        }
    }
}

/// The log's vkey, where its private key is in `dir` and ours to read. Where it is not, the log checks its list at its start.
fn own_key(dir: &Path) -> Option<VerifierKey> {
    keys::read_signing_key(&dir.join(layout::KEY), KeyKind::Ed25519).ok().map(|key| key.verifier())
}

fn print_added(key: &VerifierKey, added: bool, output: Output) {
    let result = Added { name: key.name().to_string(), vkey: key.to_string(), added };
    output.print(&result, |to| match added {
        true => writeln!(
            to,
            "{} may submit receipts once the log has read its list again:\nsend it a SIGHUP, or start it",
            key.name()
        ),
        false => writeln!(to, "{} was listed already; nothing has changed", key.name()),
    });
}

fn print_retired(key: &VerifierKey, retired_now: bool, output: Output) {
    let result = Retired { name: key.name().to_string(), vkey: key.to_string(), retired_now };
    output.print(&result, |to| match retired_now {
        true => writeln!(
            to,
            "{} may submit nothing more once the log has read its list again:\nsend it a SIGHUP. What it has in the log stays.",
            key.name()
        ),
        false => writeln!(to, "{} was retired already; nothing has changed", key.name()),
    });
}

fn print_list(listed: &[VerifierKey], retired: &[VerifierKey], output: Output) {
    let entry = |retired: bool| {
        move |key: &VerifierKey| Listed { name: key.name().to_string(), vkey: key.to_string(), retired }
    };
    let all: Vec<Listed> = listed.iter().map(entry(false)).chain(retired.iter().map(entry(true))).collect();
    output.print(&all, |to| {
        if listed.is_empty() {
            writeln!(to, "no issuer is listed; add one with `counterfoil-log issuer add --dir DIR VKEY`")?;
        }
        all.iter().try_for_each(|issuer| {
            writeln!(to, "{}{}", issuer.vkey, if issuer.retired { "  (retired: may not submit)" } else { "" })
        })
    });
}
