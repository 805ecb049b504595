//! `counterfoil fetch-proof`: a proof that a log holds a receipt, and the receipt beside it.

use crate::arguments::FetchProof;
use crate::failure::Failure;
use crate::files::write_whole;
use crate::settings::Settings;
use client::calls::Lookup;
use note::ProofRefusal;
use receipt::SeqNo;
use serde::Serialize;
use service::ExitStatus;
use service::config::Flags;
use service::output::{Output, complain};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How a proof's file name ends.
const PROOF_ENDING: &str = "tlog-proof";

#[derive(Serialize)]
struct Fetched {
    issuer: String,
    seq: u64,
    id: String,
    index: u64,
    tree_size: u64,
    /// Whether the head was checked against the log's vkey.
    head_checked: bool,
    /// Whether the policy's quorum is met; null without a policy.
    quorum_met: Option<bool>,
    proof: PathBuf,
    entry: PathBuf,
}

pub(crate) fn run(arguments: &FetchProof) -> Result<ExitStatus, Failure> {
    let flags = Flags::new()
        .set("log", arguments.log.clone())
        .set("log_key", arguments.log_key.clone())
        .set_path("policy", arguments.policy.as_deref());
    let settings = Settings::load(&arguments.common, flags)?;
    let (log, log_key, policy) = (settings.log()?, settings.log_key_if_any()?, settings.policy()?);
    let found = crate::runtime()?.block_on(async {
        match (&arguments.receipt, &arguments.issuer, arguments.seq) {
            (Some(id), _, _) => log.receipt_by_id(id).await,
            (None, Some(issuer), Some(seq)) => log.receipt_at(issuer, SeqNo(seq)).await,
            // clap asks for one of the two.
            (None, _, _) => Ok(None),
        }
    })?;
    let Some(Lookup { receipt, inclusion }) = found else {
        return Err(Failure::failed(format!(
            "the log at {} holds no such receipt; check the id, or the issuer and seq",
            log.base()
        )));
    };
    let entry_bytes = receipt.bytes();
    let offered = &inclusion.proof;
    let wrong = |fault: &dyn std::fmt::Display| {
        Failure::failed(format!("the log's answer proves nothing, and nothing was written: {fault}"))
    };
    let leaf = offered.check_inclusion(entry_bytes).map_err(|fault| wrong(&fault))?;
    if let Some(key) = &log_key {
        offered.check(entry_bytes, key).map_err(|fault| wrong(&fault))?;
    }
    let quorum_met = match policy.as_ref().map(|policy| offered.proof().verify(&leaf, policy)) {
        None => None,
        Some(Ok(_)) => Some(true),
        Some(Err(ProofRefusal::QuorumNotMet(_))) => Some(false),
        Some(Err(refusal)) => return Err(wrong(&refusal)),
    };
    let head_checked = log_key.is_some() || quorum_met.is_some();
    let entry = entry_path(&arguments.out);
    write_whole(&entry, entry_bytes)?;
    write_whole(&arguments.out, offered.text().as_bytes())?;
    let fetched = Fetched {
        issuer: receipt.issuer().to_string(),
        seq: receipt.seq().0,
        id: receipt.id().to_string(),
        index: inclusion.index.0,
        tree_size: offered.proof().checkpoint.claimed().size.0,
        head_checked,
        quorum_met,
        proof: arguments.out.clone(),
        entry: entry.clone(),
    };
    Output::new(arguments.common.json).print(&fetched, |out| {
        writeln!(out, "{} {} {}", fetched.seq, fetched.id, fetched.index)?;
        writeln!(out, "proof {}\nentry {}", arguments.out.display(), entry.display())
    });
    if !head_checked {
        complain(
            crate::PROGRAM,
            "whether the head is the log's was not checked; give --log-key, or check with `counterfoil-verify proof`",
        );
    }
    match quorum_met {
        Some(false) => Err(Failure::not_checked(
            "the proof is written, and its witnesses do not meet the policy's quorum; fetch it again later",
        )),
        _ => Ok(ExitStatus::Ok),
    }
}

/// `r.tlog-proof` has its entry in `r.entry`; any other name gets `.entry` at its end.
fn entry_path(proof: &Path) -> PathBuf {
    if proof.extension().is_some_and(|ending| ending == PROOF_ENDING) {
        return proof.with_extension("entry");
    }
    let mut name: OsString = proof.as_os_str().to_owned();
    name.push(".entry");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_named_like_its_proof() {
        assert_eq!(entry_path(Path::new("a/r.41.tlog-proof")), Path::new("a/r.41.entry"));
        assert_eq!(entry_path(Path::new("a/proof.txt")), Path::new("a/proof.txt.entry"));
    }
}
