//! `counterfoil-log issuer add|list|retire`: the operator's list, which a running log takes over at SIGHUP.

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
}

#[derive(Serialize)]
struct Added {
    name: String,
    vkey: String,
    added: bool,
}

#[derive(Serialize)]
struct Retired<'a> {
    name: &'a str,
    retired: bool,
}

pub(crate) fn issuer(call: &Issuer) -> ExitStatus {
    let done = match call {
        Issuer::Add { dir, vkey, json } => issuers_file::add(&dir.join(layout::ISSUERS), vkey, own_key(dir).as_ref())
            .map(|(key, added)| print_added(&key, added.is_made(), Output::new(*json))),
        Issuer::Retire { dir, name, json } => {
            issuers_file::retire(&dir.join(layout::ISSUERS), name, own_key(dir).as_ref())
                .map(|change| print_retired(name, change.is_made(), Output::new(*json)))
        }
        Issuer::List { dir, json } => issuers_file::read(&dir.join(layout::ISSUERS), own_key(dir).as_ref())
            .map(|keys| print_list(&keys, Output::new(*json))),
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
            "{} may submit receipts once the log has read its list again: send it a SIGHUP, or start it",
            key.name()
        ),
        false => writeln!(to, "{} was listed already; nothing has changed", key.name()),
    });
}

fn print_retired(name: &str, retired: bool, output: Output) {
    output.print(&Retired { name, retired }, |to| match retired {
        true => writeln!(
            to,
            "{name} may submit no more receipts once the log has read its list again (send it a SIGHUP, or start it); what it has in the log stays"
        ),
        false => writeln!(to, "{name} is not listed; nothing has changed"),
    });
}

fn print_list(keys: &[VerifierKey], output: Output) {
    let listed: Vec<Listed> =
        keys.iter().map(|key| Listed { name: key.name().to_string(), vkey: key.to_string() }).collect();
    output.print(&listed, |to| {
        if listed.is_empty() {
            return writeln!(to, "no issuer is listed; add one with `counterfoil-log issuer add --dir DIR VKEY`");
        }
        listed.iter().try_for_each(|issuer| writeln!(to, "{}", issuer.vkey))
    });
}
