//! Other systems' receipts, carried whole in `foreign` receipts (protocol 3.7): each checked by its own format's
//! rules, none trusted for more than its format can show.
//!
//! A format is one file: its parse, its checks, and, where it records actions, the view of them that the sequence
//! rules judge. A carried receipt of a format without a file here is `not_checked`.

mod capbroker;
mod capbroker_pairs;
mod import;
mod sequence_attack;
mod sorted_json;

pub use import::{ImportError, ImportErrorKind, ImportedRecord, import_lines};

use crate::action::Action;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use receipt::body::{Foreign, Shown};
use receipt::ijson;
use serde_json::Value;
use std::borrow::Cow;

/// The formats that can be imported and checked.
pub const FORMATS: [&str; 2] = [sequence_attack::FORMAT, capbroker::FORMAT];

/// The foreign family over one log.
pub(crate) struct ForeignChecks {
    sequence_attack: sequence_attack::SequenceAttackChecks,
    capbroker: capbroker::CapbrokerChecks,
    carried: CheckBuilder,
    receipts: u64,
}

impl ForeignChecks {
    pub(crate) fn new() -> ForeignChecks {
        ForeignChecks {
            sequence_attack: sequence_attack::SequenceAttackChecks::new(),
            capbroker: capbroker::CapbrokerChecks::new(),
            carried: CheckBuilder::new(Family::Foreign, "carried"),
            receipts: 0,
        }
    }

    /// Checks one foreign receipt; returns the action it records, if it records one.
    pub(crate) fn add(&mut self, at: &ReceiptRef, foreign: &Foreign) -> Option<Action> {
        self.receipts += 1;
        let Some(format) = foreign.format.shown() else {
            self.not_carried(at, "its format is not shown");
            return None;
        };
        let value = match carried_value(foreign) {
            Ok(value) => value,
            Err(why) => {
                self.not_carried(at, why);
                return None;
            }
        };
        self.carried.checked();
        match format.as_str() {
            sequence_attack::FORMAT => self.sequence_attack.add(at, &value).map(|record| record.action(at.clone())),
            capbroker::FORMAT => {
                self.capbroker.add(at, &value);
                None
            }
            other => {
                self.carried.not_checked("format-unknown", &[at], || {
                    [
                        format!("a receipt of format {} is carried whole", quoted(other)),
                        String::from("anything about it: this verifier does not know the format"),
                        format!("check it with that format's own tool; known here: {}", FORMATS.join(", ")),
                    ]
                });
                None
            }
        }
    }

    fn not_carried(&mut self, at: &ReceiptRef, why: &'static str) {
        self.carried.not_checked("carried-unreadable", &[at], || {
            [
                format!("the foreign receipt's content cannot be checked: {why}"),
                String::from("anything about what it carries"),
                String::from("ask the operator of the carrying gate for the original record"),
            ]
        });
    }

    pub(crate) fn finish(mut self) -> Vec<Check> {
        self.carried.required(self.receipts > 0);
        let covers = match self.receipts {
            0 => String::from("nothing of this kind in the log"),
            receipts => format!("{receipts} foreign receipts"),
        };
        let mut checks = vec![self.carried.finish(covers)];
        checks.extend(self.sequence_attack.finish());
        checks.extend(self.capbroker.finish());
        checks
    }
}

/// The JSON value that a foreign receipt carries, in the clear or as bytes.
fn carried_value(foreign: &Foreign) -> Result<Cow<'_, Value>, &'static str> {
    match (foreign.receipt.shown(), foreign.receipt_b64.shown()) {
        (Some(value), None) => Ok(Cow::Borrowed(value)),
        (None, Some(bytes)) => {
            let text = std::str::from_utf8(&bytes.0).map_err(|_| "receipt_b64 is not UTF-8")?;
            ijson::parse_value(text).map(Cow::Owned).map_err(|_| "receipt_b64 is not strict JSON (I-JSON)")
        }
        (Some(_), Some(_)) => Err("it carries both receipt and receipt_b64, and they may differ"),
        (None, None) => Err("it carries neither receipt nor receipt_b64 in the clear"),
    }
}
