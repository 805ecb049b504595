//! What a fetch tells in the end.

use super::signed::Signed;
use super::tiled::{Counts, Mirrored};
use crate::arguments::Fetch;
use crate::documents::print;
use crate::failure::Failure;
use audit::amount::{amount, witnesses};
use audit::quote::plain;
use note::{Policy, PolicyLog};
use serde_json::json;
use service::ExitStatus;
use service::wrap::hanging;

/// What went into the bundle, and what is wrong with it.
#[derive(Default)]
pub(super) struct Summary {
    /// Entries of the log.
    pub(super) size: u64,
    pub(super) counts: Counts,
    pub(super) heads: u64,
    /// Documents of evidence that log and witnesses serve, as far as they were kept.
    pub(super) evidence: u64,
    /// Whether the log's entries are no receipts.
    pub(super) is_foreign: bool,
    /// Whether nothing of the log was fetched, because it contradicts what is held.
    pub(super) is_stopped: bool,
    offered_size: u64,
    quorum_met: bool,
    witnesses: usize,
    /// What the log or a witness served and should not have.
    pub(super) faults: Vec<String>,
    /// What could not be had.
    pub(super) missing: Vec<String>,
    repaired: u64,
    first_repaired: Option<String>,
}

impl Summary {
    pub(super) fn take_signed(&mut self, signed: &Signed, policy: &Policy) {
        self.offered_size = signed.size();
        self.quorum_met = signed.quorum_met(policy);
        self.witnesses = signed.witness_checkpoints.len();
        self.faults.extend(signed.faults.iter().cloned());
        self.missing.extend(signed.missing.iter().cloned());
    }

    pub(super) fn take_mirrored(&mut self, mirrored: Mirrored) {
        self.faults.extend(mirrored.faults);
        self.repaired += mirrored.repaired;
        self.first_repaired = self.first_repaired.take().or(mirrored.first_repaired);
    }
}

pub(super) fn show(
    arguments: &Fetch,
    policy: &Policy,
    log: &PolicyLog,
    summary: &Summary,
) -> Result<ExitStatus, Failure> {
    let status = match (summary.faults.is_empty(), summary.missing.is_empty()) {
        (false, _) => ExitStatus::Failed,
        (true, false) => ExitStatus::NotChecked,
        (true, true) => ExitStatus::Ok,
    };
    let name = log.vkey.name().as_str();
    let listed = policy.witness_names().len();
    let Counts { held, taken_over, fetched, fetched_bytes } = summary.counts;
    let value = json!({
        "log": name,
        "bundle": arguments.out.display().to_string(),
        "entries": summary.size,
        "entries_held": held,
        "entries_taken_over": taken_over,
        "entries_fetched": fetched,
        "bytes_fetched": fetched_bytes,
        "repaired": summary.repaired,
        "receipts": !summary.is_foreign,
        "heads": summary.heads,
        "evidence": summary.evidence,
        "offered_size": summary.offered_size,
        "quorum_met": summary.quorum_met,
        "witnesses": summary.witnesses,
        "witnesses_listed": listed,
        "faults": summary.faults,
        "missing": summary.missing,
        "exit_code": status.code(),
    });
    let out = arguments.out.display();
    let first = match summary.is_stopped {
        true => format!("{name}: the bundle in {out} stays as it is"),
        false => format!(
            "{name}: {}, {}, {} of {}, in {out}",
            amount(summary.size, "entry", "entries"),
            amount(summary.heads, "head", "heads"),
            summary.witnesses,
            witnesses(listed, policy.witnesses().len()),
        ),
    };
    let mut lines = hanging("", &plain(&first));
    let mut say = |label: &str, text: &str| lines.extend(hanging(label, text));
    if !summary.is_stopped && (held + taken_over > 0 || arguments.since.is_some()) {
        let taken_over = arguments.since.as_ref().map(|since| match taken_over {
            0 => format!("none taken over from {} (whole pages of 256 are), ", since.display()),
            some => format!("{some} taken over from {}, ", since.display()),
        });
        say("entries  ", &plain(&format!("{held} held already, {}{fetched} fetched", taken_over.unwrap_or_default())));
    }
    if summary.evidence > 0 {
        let documents = amount(summary.evidence, "document", "documents");
        say("evidence ", &format!("{documents} against the log or a witness; the audit tells what they show"));
    }
    if summary.is_foreign {
        say(
            "note     ",
            "this is no log of receipts: its heads, its tree and their witnesses can be judged, and what its entries say cannot",
        );
    }
    if let Some(first) = &summary.first_repaired {
        let copies = amount(summary.repaired, "file on this machine was", "files on this machine were");
        say("note     ", &plain(&format!("{copies} damaged and fetched again; look after the disk ({first})")));
    }
    if !summary.quorum_met && !summary.is_stopped {
        say("note     ", "no quorum vouches for the newest offered head yet; fetch again when it has been cosigned");
    }
    summary.faults.iter().for_each(|fault| say("FAULT    ", fault));
    summary.missing.iter().for_each(|missing| say("missing  ", missing));
    print(arguments.json, &value, &lines)?;
    Ok(status)
}
