//! `evidence` and `policy`: one document each, and what it says.

use crate::arguments;
use crate::ascii_json;
use crate::failure::{Failure, failed, read_file, read_issuers, read_policy, unreadable};
use crate::wrap::hanging;
use audit::amount::amount;
use audit::quote::plain;
use audit::{EvidenceError, check_evidence};
use note::{Member, VerifierKey};
use serde_json::json;
use service::ExitStatus;
use std::io::Write;

/// Largest evidence document: the JSON parser's own limit.
const MAX_EVIDENCE_BYTES: u64 = receipt::ijson::MAX_JSON_LEN as u64;

pub(crate) fn run_evidence(arguments: &arguments::Evidence) -> Result<ExitStatus, Failure> {
    let bytes = read_file(&arguments.file, MAX_EVIDENCE_BYTES)?;
    let text =
        String::from_utf8(bytes).map_err(|_| unreadable(format!("{} is not UTF-8", arguments.file.display())))?;
    let issuers = arguments.issuers.as_deref().map(read_issuers).transpose()?.unwrap_or_default();
    let known: Vec<VerifierKey> = issuers.into_iter().map(|issuer| issuer.vkey).collect();
    let shown = match check_evidence(&text, &known) {
        Ok(shown) => shown,
        Err(error) => {
            let status = match error {
                EvidenceError::Unproven { .. } => ExitStatus::Failed,
                EvidenceError::UnknownKind(_) | EvidenceError::NeedsKey { .. } => ExitStatus::NotChecked,
                EvidenceError::Json(_) | EvidenceError::NoKind | EvidenceError::Shape { .. } => ExitStatus::Unreadable,
            };
            return Err(Failure { status, reason: format!("{}: {error}", arguments.file.display()) });
        }
    };
    let key = shown.key.to_string();
    let value = json!({"kind": shown.kind, "key": key, "shown": shown.sentence, "not_shown": shown.not_shown});
    let text = [
        hanging("", &shown.sentence),
        hanging("key        ", &plain(&key)),
        hanging("not shown  ", &shown.not_shown),
        hanging("next       ", "compare the key with the one you know; the document proves nothing about any other"),
    ];
    print(arguments.json, &value, &text.concat())?;
    Ok(ExitStatus::Ok)
}

pub(crate) fn run_policy(arguments: &arguments::Policy) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let tolerance = policy.tolerance();
    let logs: Vec<String> = policy.logs().iter().map(|log| log.vkey.name().to_string()).collect();
    let listed = policy.witnesses().len();
    let quorum = policy.quorum().map(|member| match member {
        Member::Witness(_) | Member::Group(_) => policy.name_of(member).to_string(),
    });
    let value = json!({
        "logs": logs,
        "witnesses_listed": listed,
        "quorum": quorum,
        "witnesses": tolerance.witnesses,
        "min_quorum": tolerance.min_quorum,
        "liars_for_split_view": tolerance.liars_for_split_view,
        "max_silent": tolerance.max_silent,
    });
    let mut lines =
        vec![hanging("logs        ", &plain(&if logs.is_empty() { String::from("none") } else { logs.join(", ") }))];
    match &quorum {
        None => lines.push(hanging(
            "quorum      ",
            "none: no witness is asked, and the log alone decides what it shows to whom",
        )),
        Some(quorum) => {
            lines.push(hanging(
                "quorum      ",
                &plain(&format!(
                    "{quorum}; {} of {} can count towards it",
                    tolerance.witnesses,
                    amount(listed as u64, "listed witness", "listed witnesses")
                )),
            ));
            lines.push(hanging(
                "agree       ",
                &format!("at least {} must cosign", amount(tolerance.min_quorum as u64, "witness", "witnesses")),
            ));
            let split = match tolerance.liars_for_split_view {
                0 => String::from("none: a log can show two histories, each with a quorum, without any witness lying"),
                liars => format!(
                    "a log can show two histories, each with a quorum, only if {}",
                    amount(liars as u64, "witness lies", "witnesses lie")
                ),
            };
            lines.push(hanging("split view  ", &split));
            lines.push(hanging(
                "silent      ",
                &format!("any {} of them may be silent without blocking the quorum", tolerance.max_silent),
            ));
            lines.push(hanging(
                "note        ",
                "witnesses of one operator belong into one group with \"any\", so that they count once",
            ));
        }
    }
    print(arguments.json, &value, &lines.concat())?;
    Ok(ExitStatus::Ok)
}

/// Prints a result: as JSON, or these lines.
pub(crate) fn print(json: bool, value: &serde_json::Value, lines: &[String]) -> Result<(), Failure> {
    let text = if json { ascii_json::to_string(value).map_err(failed)? } else { lines.join("\n") };
    // A reader that has gone away has what it wanted.
    let _reader_gone = writeln!(anstream::stdout().lock(), "{text}");
    Ok(())
}
