//! `head/evidence`: accusations that lie in the bundle, each checked by itself, and by the log presented where it must.
//!
//! A good one against a key that this audit relies on fails it: against the key, and not the name, which anybody can give
//! a key of his own to accuse its bearer. A document that convicts nobody by itself says what the log must show; it fails
//! the audit only if the log presented does not: anybody can make one about a log that hides nothing.

use crate::bundle::{BundleSource, MAX_EVIDENCE_BYTES, ReadError, read_part};
use crate::evidence::{Demand, EvidenceError, ProvenEvidence, check_evidence};
use crate::judge::Terms;
use crate::members::is_evidence;
use crate::quote::{plain, quoted};
use crate::verdict::{Check, CheckBuilder, Family};
use note::VerifierKey;

/// What the documents are held against.
pub(crate) struct Held<'audit> {
    pub(crate) bundle: &'audit dyn BundleSource,
    pub(crate) paths: &'audit [String],
    pub(crate) terms: &'audit Terms<'audit>,
    pub(crate) log: &'audit VerifierKey,
    /// Those that the auditor's issuers have or had.
    pub(crate) issuer_keys: &'audit [VerifierKey],
    /// Whether the log is one of receipts, and so must refuse what is none.
    pub(crate) is_of_receipts: bool,
}

/// What the log presented shows of what a document demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is there.
    There,
    /// It is not, though the part where it must be was read.
    Missing,
    /// That part is not in the bundle.
    Unread,
}
/// Judges every document; `answer` looks up in the log presented what one demands.
pub(crate) fn judge_documents(
    held: &Held<'_>,
    answer: &dyn Fn(&Demand) -> Result<Answer, ReadError>,
) -> Result<Check, ReadError> {
    let mut check = CheckBuilder::new(Family::Head, "evidence");
    let mut files = 0;
    for path in held.paths.iter().filter(|path| is_evidence(path)) {
        let Some(bytes) = read_part(held.bundle, path, MAX_EVIDENCE_BYTES)? else { continue };
        files += 1;
        check.checked();
        let shown = std::str::from_utf8(&bytes)
            .map_err(|_| String::from("it is not UTF-8"))
            .and_then(|text| check_evidence(text, held.issuer_keys).map_err(|error: EvidenceError| error.to_string()));
        match shown {
            Err(why) => check.not_checked("evidence-unproven", &[], || {
                [
                    format!("{}: {why}", quoted(path)),
                    String::from("anything against anyone"),
                    String::from("ask whoever put it there; take it out of the bundle if it shows nothing"),
                ]
            }),
            Ok(shown) => {
                let is_relied_on = shown.key == *held.log
                    || held.terms.policy.witnesses().iter().any(|witness| witness.vkey == shown.key)
                    || held.issuer_keys.contains(&shown.key);
                match (is_relied_on, &shown.demand) {
                    (false, _) => report_stranger(path, &shown, &mut check),
                    (true, None) if shown.kind == "log-admitted" && !held.is_of_receipts => {
                        report_no_duty(path, &shown, &mut check);
                    }
                    (true, None) => report_conviction(path, &shown, &mut check),
                    (true, Some(demand @ Demand::Rotation { .. })) => {
                        report_rotation(path, &shown, answer(demand)?, &mut check);
                    }
                    (true, Some(demand)) if shown.key == *held.log => {
                        report_demand(path, &shown, answer(demand)?, &mut check);
                    }
                    // Another log of the policy, whose list and entries are not in this bundle.
                    (true, Some(_)) => report_demand(path, &shown, Answer::Unread, &mut check),
                }
            }
        }
    }
    check.required(files > 0);
    Ok(check.finish(match files {
        0 => String::from("nothing of this kind in the bundle"),
        files => format!("{files} evidence documents, each checked by itself"),
    }))
}

fn report_conviction(path: &str, shown: &ProvenEvidence, check: &mut CheckBuilder) {
    check.fail(shown.kind, &[], || {
        [
            format!("{}: {}", quoted(path), shown.sentence),
            shown.not_shown.clone(),
            String::from("publish it; it stands by itself"),
        ]
    });
}

/// What a log of something else admits is its own affair.
fn report_no_duty(path: &str, shown: &ProvenEvidence, check: &mut CheckBuilder) {
    check.not_checked("evidence-unproven", &[], || {
        [
            format!(
                "{}: {} The log presented is no log of receipts, and need not refuse it.",
                quoted(path),
                shown.sentence
            ),
            String::from("anything against anyone"),
            String::from("ask whoever put it there; take it out of the bundle if it shows nothing"),
        ]
    });
}

fn report_stranger(path: &str, shown: &ProvenEvidence, check: &mut CheckBuilder) {
    check.notice(shown.kind, &[], || {
        [
            format!("{}, against a key that this audit does not rely on: {}", quoted(path), shown.sentence),
            String::from("anything against anybody whose key you know: anybody can make a key of this name"),
            format!("compare the key it names, {}, with the one you know", plain(&shown.key.to_string())),
        ]
    });
}

fn report_rotation(path: &str, shown: &ProvenEvidence, answer: Answer, check: &mut CheckBuilder) {
    let told = format!("{}: {}", quoted(path), shown.sentence);
    match answer {
        Answer::There => check.not_checked("evidence-unproven", &[], || {
            [
                format!("{told} The log holds a rotation of the same text."),
                String::from(
                    "that the issuer signed two histories: who held the key before can sign its rotation again, alone",
                ),
                String::from(
                    "ask the issuer who held the key before; another text of the rotation would convict, another signature does not",
                ),
            ]
        }),
        Answer::Missing => check.fail(shown.kind, &[], || {
            [
                format!("{told} The log holds another rotation in its place."),
                shown.not_shown.clone(),
                String::from("publish it together with the rotation in the log: the new key signed both"),
            ]
        }),
        Answer::Unread => check.not_checked("evidence-unread", &[], || {
            [
                format!("{told} The rotation that it denies is not in the bundle."),
                String::from(
                    "that the issuer signed two histories: who held the key before can sign its rotation again, alone",
                ),
                String::from(
                    "compare the document's rotation with the log's: another text convicts, another signature does not",
                ),
            ]
        }),
    }
}

fn report_demand(path: &str, shown: &ProvenEvidence, answer: Answer, check: &mut CheckBuilder) {
    let told = format!("{}: {}", quoted(path), shown.sentence);
    match answer {
        Answer::There => check.notice("evidence-met", &[], || {
            [
                format!("{told} The log presented shows it."),
                String::from("that it was always there"),
                String::from("nothing to do; who made the document may have been shown another log"),
            ]
        }),
        Answer::Missing => check.fail(shown.kind, &[], || {
            [
                format!("{told} The log presented does not show it."),
                String::from("who left it out: the log, or whoever made the bundle"),
                String::from("look at the log's own address; if it is missing there, publish the document"),
            ]
        }),
        Answer::Unread => check.not_checked("evidence-unread", &[], || {
            [
                format!("{told} The part of the log where it must be is not in the bundle."),
                String::from("whether the log shows it"),
                String::from("fetch the bundle again, or look at the log's own address"),
            ]
        }),
    }
}
