//! Other systems' receipts, carried whole in `foreign` receipts (protocol 3.7): each checked by its own format's
//! rules, none trusted for more than its format can show.
//!
//! A format is one file: its parse, its checks, and, where it records actions, the view of them that the sequence
//! rules judge. A carried receipt of a format without a file here is `not_checked`.

mod acta;
mod capbroker;
mod capbroker_pairs;
mod chains;
mod go_json;
mod import;
mod obsigna;
mod pinned;
mod pipelock;
mod sequence_attack;
mod signed;
mod sorted_json;

pub use import::{ImportError, ImportErrorKind, ImportedRecord, import_lines};
pub(crate) use pinned::{JwksTable, KeyTable};
pub use pinned::{MAX_FOREIGN_KEYS, PinnedKeys, ReadNamed};

use crate::action::Action;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use receipt::body::{Foreign, Shown};
use receipt::ijson;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signed::Unread;
use std::borrow::Cow;

/// The formats that can be imported and checked.
pub const FORMATS: [&str; 5] =
    [sequence_attack::FORMAT, capbroker::FORMAT, acta::FORMAT, obsigna::FORMAT, pipelock::FORMAT];

/// The foreign family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ForeignChecks {
    sequence_attack: sequence_attack::SequenceAttackChecks,
    capbroker: capbroker::CapbrokerChecks,
    acta: acta::ActaChecks,
    obsigna: obsigna::ObsignaChecks,
    pipelock: pipelock::PipelockChecks,
    carried: CheckBuilder,
    receipts: u64,
}

impl ForeignChecks {
    pub(crate) fn new() -> ForeignChecks {
        ForeignChecks {
            sequence_attack: sequence_attack::SequenceAttackChecks::new(),
            capbroker: capbroker::CapbrokerChecks::new(),
            acta: acta::ActaChecks::new(),
            obsigna: obsigna::ObsignaChecks::new(),
            pipelock: pipelock::PipelockChecks::new(),
            carried: CheckBuilder::new(Family::Foreign, "carried"),
            receipts: 0,
        }
    }

    /// Checks one foreign receipt; returns the action it records, if it records one.
    pub(crate) fn add(&mut self, at: &ReceiptRef, foreign: &Foreign, pins: &PinnedKeys) -> Option<Action<'static>> {
        self.receipts += 1;
        let Some(format) = foreign.format.shown() else {
            self.not_carried(at, "its format is not shown");
            return None;
        };
        let carried = match Carried::of(foreign) {
            Ok(carried) => carried,
            Err(why) => {
                self.not_carried(at, why);
                return None;
            }
        };
        match format.as_str() {
            acta::FORMAT => self.acta.add(at, carried.read(acta::Record::parse, acta::Record::read), pins),
            obsigna::FORMAT => self.obsigna.add(at, carried.read(obsigna::parse, obsigna::read), pins),
            pipelock::FORMAT => self.pipelock.add(at, carried.read(pipelock::parse, pipelock::read), pins),
            _ => return self.add_plain(at, format, carried),
        }
        self.carried.checked();
        None
    }

    /// Checks one of a format whose bytes do not matter.
    fn add_plain(&mut self, at: &ReceiptRef, format: &str, carried: Carried<'_>) -> Option<Action<'static>> {
        let value = match carried.value() {
            Ok(value) => value,
            Err(why) => {
                self.not_carried(at, why);
                return None;
            }
        };
        self.carried.checked();
        match format {
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
        checks.extend(self.acta.finish());
        checks.extend(self.obsigna.finish());
        checks.extend(self.pipelock.finish());
        checks
    }
}

/// What a foreign receipt carries, in the clear or as bytes.
enum Carried<'receipt> {
    Value(&'receipt Value),
    Bytes(&'receipt [u8]),
}

impl<'receipt> Carried<'receipt> {
    fn of(foreign: &'receipt Foreign) -> Result<Carried<'receipt>, &'static str> {
        match (foreign.receipt.shown(), foreign.receipt_b64.shown()) {
            (Some(value), None) => Ok(Carried::Value(value)),
            (None, Some(bytes)) => Ok(Carried::Bytes(&bytes.0)),
            (Some(_), Some(_)) => Err("it carries both receipt and receipt_b64, and they may differ"),
            (None, None) => Err("it carries neither receipt nor receipt_b64 in the clear"),
        }
    }

    /// As a JSON value.
    fn value(self) -> Result<Cow<'receipt, Value>, &'static str> {
        match self {
            Carried::Value(value) => Ok(Cow::Borrowed(value)),
            Carried::Bytes(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| "receipt_b64 is not UTF-8")?;
                ijson::parse_value(text).map(Cow::Owned).map_err(|_| "receipt_b64 is not strict JSON (I-JSON)")
            }
        }
    }

    /// As a record of a format to which its bytes matter, where there are bytes.
    fn read<Record>(
        self,
        from_text: impl FnOnce(&str) -> Result<Record, Unread>,
        from_value: impl FnOnce(&Value) -> Result<Record, &'static str>,
    ) -> Result<Record, Unread> {
        match self {
            Carried::Value(value) => Ok(from_value(value)?),
            Carried::Bytes(bytes) => from_text(std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?),
        }
    }
}
