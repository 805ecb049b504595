//! `evidence` and `policy`: one document each, and what it says.

use crate::arguments;
use crate::ascii_json;
use crate::failure::{Failure, failed, read_file, read_issuers, read_policy, unreadable};
use crate::tolerance;
use audit::amount::witnesses;
use audit::quote::plain;
use audit::{EvidenceError, ToleranceReport, check_evidence};
use note::{Member, VerifierKey};
use serde_json::json;
use service::ExitStatus;
use service::wrap::hanging;
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
    let convicts = shown.demand.is_none();
    let value = json!({
        "kind": shown.kind, "key": key, "convicts": convicts, "shown": shown.sentence, "not_shown": shown.not_shown
    });
    let next = match convicts {
        true => "compare the key with the one you know; the document proves nothing about any other",
        false => {
            "compare the key with the one you know, then look at the log's own address; by itself the document convicts \
             nobody. audit tells when the document lies in the bundle, below evidence/"
        }
    };
    let text = [
        hanging("", &shown.sentence),
        hanging("key        ", &plain(&key)),
        hanging("not shown  ", &shown.not_shown),
        hanging("next       ", next),
    ];
    print(arguments.json, &value, &text.concat())?;
    Ok(if convicts { ExitStatus::Ok } else { ExitStatus::NotChecked })
}

pub(crate) fn run_policy(arguments: &arguments::Policy) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let tolerance = ToleranceReport::from(policy.tolerance());
    let logs: Vec<String> = policy.logs().iter().map(|log| log.vkey.name().to_string()).collect();
    let (listed, keys_listed) = (policy.witness_names().len(), policy.witnesses().len());
    let quorum = policy.quorum().map(|member| match member {
        Member::Witness(_) | Member::Group(_) => policy.name_of(member).to_string(),
    });
    let value = json!({
        "logs": logs,
        "witnesses_listed": listed,
        "keys_listed": keys_listed,
        "quorum": quorum,
        "witnesses": tolerance.witnesses,
        "keys": tolerance.keys,
        "min_quorum": tolerance.min_quorum,
        "min_keys": tolerance.min_keys,
        "liars_for_split_view": tolerance.liars_for_split_view,
        "max_silent": tolerance.max_silent,
        "exact": tolerance.exact,
    });
    let mut lines =
        vec![hanging("logs        ", &plain(&if logs.is_empty() { String::from("none") } else { logs.join(", ") }))];
    match &quorum {
        None => lines.push(hanging(
            "quorum      ",
            "none: no witness is asked, and the log alone decides what it shows to whom",
        )),
        Some(quorum) => {
            let counted = format!(
                "{quorum}; {} can count towards it (listed: {})",
                witnesses(tolerance.witnesses, tolerance.keys),
                witnesses(listed, keys_listed)
            );
            lines.push(hanging("quorum      ", &plain(&counted)));
            lines.push(hanging("agree       ", &tolerance::agree(&tolerance)));
            lines.push(hanging("split view  ", &tolerance::split_view(&tolerance)));
            lines.push(hanging("silent      ", &tolerance::silent(&tolerance)));
            if !tolerance.exact {
                lines.push(hanging("not exact   ", tolerance::NOT_EXACT));
            }
            lines.push(hanging(
                "note        ",
                "keys of one name are one witness; witnesses of one operator belong into one group with \"any\", so that they count once",
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
