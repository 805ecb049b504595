//! The issuer family: the rules of admission over every entry, per issuer, as `receipt::admit` states them; silence;
//! streams that end too early.
//!
//! The auditor's issuers file says whose keys count. A receipt of an issuer that is not in it was not checked; an
//! issuer in the file without a receipt was not either.

use crate::admitted::{Breach, Breaches};
use crate::amount::amount;
use crate::bundle::{BundleSource, ReadError};
use crate::completeness::{IssuerSpan, Placed, SpanMs};
use crate::issuers::AuditedIssuer;
use crate::kept::{KeptReceipt, Place};
use crate::no_receipts::NoReceipts;
use crate::quote::{plain, quoted};
use crate::signers::{Entry, Prepared, Signers};
use crate::silence::placed;
use crate::stream::Stream;
use crate::time::{instants, show_time};
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use merkle::LeafIndex;
use note::{Strict, VerifierKey};
use receipt::body::{Dropped, DroppedWhy, Member, Moment, Shown};
use receipt::{Admitted, Checked, Receipt, RefusalCode, SeqNo, UnixMillis, check_signature, place};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most unknown issuers that are told apart.
const MAX_UNKNOWN: usize = 1000;

/// Most evidence documents made from one log. Each may be twice a log entry in length.
const MAX_EVIDENCE: usize = 100;

/// The issuer family over one log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IssuerChecks {
    streams: HashMap<Arc<str>, Stream>,
    #[serde(skip)]
    signers: Arc<Signers>,
    /// Names in the order of the auditor's file.
    order: Vec<Arc<str>>,
    entries: CheckBuilder,
    entry_count: u64,
    no_receipts: NoReceipts,
    unknown: BTreeMap<Arc<str>, (ReceiptRef, u64)>,
    unknown_beyond: u64,
    #[serde(with = "json_form")]
    evidence: Vec<serde_json::Value>,
    breaches: Breaches,
    issued_at_ms: Option<[u64; 2]>,
}

/// JSON documents as texts, for formats that do not say what comes next.
mod json_form {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(documents: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
        documents.iter().map(Value::to_string).collect::<Vec<String>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| serde_json::from_str(text).map_err(de::Error::custom)).collect()
    }
}

/// What the issuer family says in the end.
pub(crate) struct IssuersJudged {
    /// One an issuer, one for all entries.
    pub(crate) checks: Vec<Check>,
    /// One an issuer.
    pub(crate) lanes: Vec<IssuerSpan>,
    /// Issuers' forks.
    pub(crate) evidence: Vec<serde_json::Value>,
    /// What the log admitted and had to refuse.
    pub(crate) breaches: Breaches,
}

/// How the log ended, for what can only be said of a whole stream.
pub(crate) struct LogEnd<'end> {
    /// The latest time the audit knows of, and who says so.
    pub(crate) as_of: Option<(UnixMillis, &'static str)>,
    /// Up to when the bundle shows what the log held: the latest time at which a quorum vouched for its head.
    pub(crate) shown_until: Option<UnixMillis>,
    /// Receipts whose proofs somebody kept.
    pub(crate) kept: &'end [KeptReceipt],
    /// Whether all entries under the newest head were there to read.
    pub(crate) complete: bool,
    /// How many entries the log is proven to have beyond those that were presented.
    pub(crate) unseen: u64,
}

/// Reads one entry of the log again.
pub(crate) type ReadEntry<'read> = &'read (dyn Fn(LeafIndex) -> Result<Option<Vec<u8>>, ReadError> + Sync);

impl IssuerChecks {
    pub(crate) fn new(issuers: &[AuditedIssuer]) -> IssuerChecks {
        let streams: Vec<Stream> = issuers.iter().map(Stream::new).collect();
        let checks = IssuerChecks {
            order: streams.iter().map(|stream| Arc::clone(&stream.name)).collect(),
            streams: streams.into_iter().map(|stream| (Arc::clone(&stream.name), stream)).collect(),
            signers: Arc::default(),
            entries: CheckBuilder::new(Family::Issuer, "entries"),
            entry_count: 0,
            no_receipts: NoReceipts::default(),
            unknown: BTreeMap::new(),
            unknown_beyond: 0,
            evidence: Vec::new(),
            breaches: Breaches::default(),
            issued_at_ms: None,
        };
        checks.with_signers()
    }

    /// Brings [`IssuerChecks::signers`] to where the streams are: after the checks were read back.
    pub(crate) fn with_signers(mut self) -> IssuerChecks {
        let states = self.streams.iter().map(|(name, stream)| (Arc::clone(name), stream.state.clone())).collect();
        self.signers = Arc::new(Signers { states });
        self
    }

    /// What signatures are computed by, as far as the log has been read.
    pub(crate) fn signers(&self) -> Arc<Signers> {
        Arc::clone(&self.signers)
    }

    /// The rest, entry by entry in the order of the log. Answers the receipt if it is genuine and new: signed by the
    /// key in force and not the repetition of another.
    pub(crate) fn place(
        &mut self,
        entry: Entry,
        read_entry: ReadEntry<'_>,
    ) -> Result<Option<(ReceiptRef, Receipt)>, ReadError> {
        self.entry_count += 1;
        self.entries.checked();
        let index = LeafIndex(entry.index);
        match entry.prepared {
            Prepared::Malformed(malformed) => {
                let at = ReceiptRef::entry(index, entry.leaf);
                self.breaches.add(Breach::malformed(index));
                self.no_receipts.add(at, &malformed.to_string(), &mut self.entries);
                Ok(None)
            }
            Prepared::Unknown(receipt) => {
                self.count_unknown(index, &receipt);
                Ok(None)
            }
            Prepared::Refused(receipt, refusal) => {
                if let Some(stream) = self.streams.get_mut(receipt.issuer().as_str()) {
                    let at = ReceiptRef::new(index, &stream.name, receipt.seq(), receipt.id());
                    self.breaches.add(Breach::by(stream, index, &receipt, &refusal));
                    stream.report(&at, &[], &refusal);
                }
                Ok(None)
            }
            Prepared::Checked(checked) => self.place_checked(index, checked, read_entry),
        }
    }

    fn place_checked(
        &mut self,
        index: LeafIndex,
        checked: Checked,
        read_entry: ReadEntry<'_>,
    ) -> Result<Option<(ReceiptRef, Receipt)>, ReadError> {
        let receipt = checked.receipt().clone();
        let Some(stream) = self.streams.get_mut(receipt.issuer().as_str()) else { return Ok(None) };
        let at = ReceiptRef::new(index, &stream.name, receipt.seq(), receipt.id());
        stream.check.checked();
        let refusal = match place(&stream.state, checked, &|seq| Some(stream.held.get(seq)?.0), None) {
            Ok(Admitted { state, .. }) => {
                self.no_receipts.end(&mut self.entries);
                stream.follow(&at, &receipt, &mut self.issued_at_ms);
                stream.state = state;
                if receipt.is_rotation() {
                    let signers = Arc::make_mut(&mut self.signers);
                    signers.states.insert(Arc::clone(&stream.name), stream.state.clone());
                }
                return Ok(Some((at, receipt)));
            }
            Err(refusal) => refusal,
        };
        if refusal.code != RefusalCode::BadSignature {
            self.no_receipts.end(&mut self.entries);
        }
        self.breaches.add(Breach::by(stream, index, &receipt, &refusal));
        let is_held = stream.held.get(receipt.seq()).is_some();
        match refusal.code {
            RefusalCode::BadSignature => {
                stream.report(&at, &[], &refusal);
                Ok(None)
            }
            RefusalCode::Duplicate => {
                let first: Vec<ReceiptRef> = stream.held_ref(receipt.seq()).into_iter().collect();
                stream.report(&at, &first, &refusal);
                Ok(None)
            }
            // A seq that an earlier gap left open is filled late; nothing held is contradicted.
            RefusalCode::Fork if receipt.seq() < stream.state.next_seq() && !is_held => {
                stream.check.fail("out-of-order", &[&at], || {
                    [
                        format!(
                            "seq {} comes after higher ones: the log admitted the issuer's receipts out of order",
                            receipt.seq()
                        ),
                        String::from("that anything is missing"),
                        String::from("ask the log's operator why it was admitted"),
                    ]
                });
                stream.follow(&at, &receipt, &mut self.issued_at_ms);
                Ok(Some((at, receipt)))
            }
            RefusalCode::Fork => {
                let pair = refusal.fork.as_ref();
                let other: Vec<ReceiptRef> = pair.and_then(|pair| stream.held_ref(pair.held_seq)).into_iter().collect();
                stream.report(&at, &other, &refusal);
                stream.trace.forks(placed(&at, receipt.issued_at()));
                if let (Some(pair), Some(held_index)) = (pair, other.first().and_then(|other| other.index))
                    && self.evidence.len() < MAX_EVIDENCE
                    && let Some(held) = read_entry(LeafIndex(held_index))?
                    && let Ok(evidence) = pair.evidence(&held)
                {
                    self.evidence.extend(serde_json::to_value(evidence).ok());
                }
                if !is_held {
                    stream.follow(&at, &receipt, &mut self.issued_at_ms);
                    stream.resume_after(&receipt);
                }
                Ok(Some((at, receipt)))
            }
            _ => {
                stream.report(&at, &[], &refusal);
                stream.follow(&at, &receipt, &mut self.issued_at_ms);
                stream.resume_after(&receipt);
                Ok(Some((at, receipt)))
            }
        }
    }

    fn count_unknown(&mut self, index: LeafIndex, receipt: &Receipt) {
        let name = receipt.issuer().as_str();
        if let Some((_, count)) = self.unknown.get_mut(name) {
            *count += 1;
        } else if self.unknown.len() < MAX_UNKNOWN {
            let name: Arc<str> = Arc::from(name);
            let at = ReceiptRef::new(index, &name, receipt.seq(), receipt.id());
            self.unknown.insert(name, (at, 1));
        } else {
            self.unknown_beyond += 1;
        }
    }

    /// Takes note of a receipt of a type that this version does not know.
    pub(crate) fn count_unknown_type(&mut self, at: &ReceiptRef, type_name: &str) {
        self.entries.notice("unknown-type", &[at], || {
            [
                format!("a receipt of type {}, which this verifier does not know", quoted(type_name)),
                String::from("anything that it says: only its place in the stream was checked"),
                String::from("audit with a newer version if there is one that knows the type"),
            ]
        });
    }

    /// Takes note of what an issuer says that it let through without receipts.
    pub(crate) fn count_dropped(&mut self, at: &ReceiptRef, dropped: &Dropped) {
        let Some(stream) = at.issuer.as_deref().and_then(|name| self.streams.get_mut(name)) else { return };
        let time =
            |time: &Option<Member<Moment>>| time.shown().and_then(instants).map(|[earliest, _]| show_time(earliest));
        stream.check.not_checked("receipts-dropped", &[at], || {
            let count = match dropped.count.shown() {
                Some(count) => amount(*count, "action", "actions"),
                None => String::from("actions, how many is only committed to,"),
            };
            let why = match dropped.why.shown() {
                Some(DroppedWhy::Full) => ": its outbox was full",
                Some(DroppedWhy::Disk) => ": its disk refused",
                None => "",
            };
            let when = match (time(&dropped.since), time(&dropped.until)) {
                (Some(since), Some(until)) => format!(" between {since} and {until}"),
                _ => String::new(),
            };
            [
                format!("the gate let {count} through without receipts{when}{why}"),
                String::from("what those actions were, and whether they were allowed by any rule"),
                String::from(
                    "look at the records of whatever was acted on in that time; if no action may go without a receipt, have the gate fail closed",
                ),
            ]
        });
    }

    /// Every key that the auditor's issuers have or had: the registered ones, and those that rotations in the log led
    /// on to.
    pub(crate) fn keys(&self) -> Vec<VerifierKey> {
        self.streams.values().flat_map(|stream| stream.state.keys().iter().map(|(_, key)| key.clone())).collect()
    }

    /// Where in the log the issuer's genuine receipt with this seq is.
    pub(crate) fn index_of(&self, issuer: &str, seq: SeqNo) -> Option<LeafIndex> {
        self.streams.get(issuer)?.held.get(seq).map(|(_, index)| LeafIndex(index))
    }

    /// Whether entries were read, and the log is one of something else than receipts by them.
    pub(crate) fn are_of_something_else(&self) -> bool {
        self.no_receipts.is_something_else()
    }

    /// Whether the log, as far as it was read, holds receipts of issuers that the auditor did not name.
    pub(crate) fn has_unlisted(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Earliest and latest `issued_at`.
    pub(crate) fn issued_at_ms(&self) -> Option<[u64; 2]> {
        self.issued_at_ms
    }

    /// What there is to say, now that the log has been read.
    pub(crate) fn finish(
        mut self,
        end: &LogEnd<'_>,
        bundle: &dyn BundleSource,
        read_entry: ReadEntry<'_>,
    ) -> Result<IssuersJudged, ReadError> {
        for kept in end.kept {
            if let Some(receipt) = kept.read(bundle)? {
                self.judge_kept(kept, &receipt, end, read_entry)?;
            }
        }
        if self.no_receipts.is_something_else() {
            self.breaches = Breaches::default();
        }
        self.no_receipts.finish(&mut self.entries);
        for (name, (at, count)) in &self.unknown {
            self.entries.not_checked("unknown-issuer", &[at], || {
                [
                    format!(
                        "{} in the log by {}, which the issuers file does not list",
                        amount(*count, "receipt is", "receipts are"),
                        quoted(name)
                    ),
                    String::from("that these receipts are its: their signatures were not checked"),
                    String::from(
                        "add the issuer's vkey to the issuers file, from the issuer itself and not from the log",
                    ),
                ]
            });
        }
        let known: u64 = self.streams.values().map(|stream| stream.receipts).sum();
        let unknown = self.unknown.values().map(|(_, count)| count).sum::<u64>() + self.unknown_beyond;
        let mut checks = vec![self.entries.finish(format!(
            "{}: {} of issuers in the issuers file, {unknown} of others",
            amount(self.entry_count, "entry", "entries"),
            amount(known, "genuine receipt", "genuine receipts")
        ))];
        let issued = self.issued_at_ms.map(|[from_ms, to_ms]| SpanMs { from_ms, to_ms });
        let mut lanes = Vec::new();
        for name in &self.order {
            if let Some(stream) = self.streams.remove(name) {
                let (check, lane) = stream.finish(end, issued);
                checks.push(check);
                lanes.push(lane);
            }
        }
        Ok(IssuersJudged { checks, lanes, evidence: self.evidence, breaches: self.breaches })
    }

    /// A receipt that somebody kept with its proof, against the stream in the log.
    fn judge_kept(
        &mut self,
        kept: &KeptReceipt,
        receipt: &Receipt,
        end: &LogEnd<'_>,
        read_entry: ReadEntry<'_>,
    ) -> Result<(), ReadError> {
        let Some(stream) = self.streams.get_mut(receipt.issuer().as_str()) else { return Ok(()) };
        let path = kept.path.as_str();
        let at = ReceiptRef {
            index: None,
            issuer: Some(Arc::clone(&stream.name)),
            seq: Some(receipt.seq().0),
            id: receipt.id().0,
        };
        let checked = check_signature(receipt, &stream.state, &Strict);
        let judged =
            checked.and_then(|checked| place(&stream.state, checked, &|seq| Some(stream.held.get(seq)?.0), None));
        let is_signed = !matches!(&judged, Err(refusal) if refusal.code == RefusalCode::BadSignature);
        if is_signed && (kept.place == Place::Other || kept.place == Place::Beyond && end.complete) {
            stream.trace.unhonoured(quoted(path));
        }
        match judged {
            Err(refusal) if refusal.code == RefusalCode::Duplicate => {}
            Err(refusal) if refusal.code == RefusalCode::BadSignature => {
                stream.check.not_checked("kept-receipt-unsigned", &[&at], || {
                    [
                        format!(
                            "the entry kept beside {} is not signed by the issuer: {}",
                            quoted(path),
                            plain(&refusal.detail)
                        ),
                        String::from("anything about the issuer's stream"),
                        String::from("ask whoever kept it where it comes from"),
                    ]
                })
            }
            Err(refusal) if refusal.code == RefusalCode::Fork && stream.held.get(receipt.seq()).is_some() => {
                let other: Vec<ReceiptRef> = stream.held_ref(receipt.seq()).into_iter().collect();
                stream.report(&at, &other, &refusal);
                stream.trace.forks(Placed { index: kept.index.0, ..placed(&at, receipt.issued_at()) });
                if let (Some(pair), Some(held_index)) = (&refusal.fork, other.first().and_then(|other| other.index))
                    && self.evidence.len() < MAX_EVIDENCE
                    && let Some(held) = read_entry(LeafIndex(held_index))?
                    && let Ok(evidence) = pair.evidence(&held)
                {
                    self.evidence.extend(serde_json::to_value(evidence).ok());
                }
            }
            _ if !end.complete => stream.check.not_checked("tail-unread", &[&at], || {
                [
                    format!(
                        "{} proves a receipt with seq {}, and the entries in the bundle end before it",
                        quoted(path),
                        receipt.seq()
                    ),
                    String::from("whether the log holds it"),
                    String::from("fetch the bundle again"),
                ]
            }),
            _ => {
                stream.trace.beyond(receipt.seq().0, quoted(path));
                stream.check.fail("tail-short", &[&at], || [
                    format!(
                        "{} proves that the log held seq {} of this issuer; in the log presented its stream ends before seq {}",
                        quoted(path),
                        receipt.seq(),
                        stream.state.next_seq()
                    ),
                    String::from("who cut it: the log, or whoever made the bundle"),
                    String::from("fetch the log again from its own address; if the receipt is missing there, publish the proof"),
                ]);
            }
        }
        Ok(())
    }
}

/// What a broken rule of admission leaves open, and what to do about it.
pub(crate) fn meaning(code: RefusalCode) -> (&'static str, &'static str) {
    match code {
        RefusalCode::BadSignature => (
            "who made this entry, or what it said before it was changed",
            "ask the log's operator why it was admitted; the issuer is not to blame for it",
        ),
        RefusalCode::Duplicate => {
            ("that anything is missing or false", "ask the log's operator why the same receipt stands there twice")
        }
        RefusalCode::Fork => (
            "which of the two histories is the true one",
            "publish the evidence; trust nothing of this issuer until it is explained",
        ),
        RefusalCode::Gap => (
            "what the missing receipts said, or who left them out",
            "ask the gate's operator for the missing receipts; their outbox keeps them",
        ),
        RefusalCode::TimeReversed => ("when either receipt was really issued", "check the gate's clock"),
        RefusalCode::FutureDated => ("when the receipt was really issued", "check the gate's clock"),
        RefusalCode::Closed => (
            "that the issuer's operator wrote it: the key may have been taken",
            "find out who used the key after the close",
        ),
        RefusalCode::BadOpen => {
            ("that the later receipts are wrong", "compare the vkey in the issuers file with the issuer's own")
        }
        RefusalCode::BadRotation => {
            ("which key is the issuer's now", "ask the issuer for its key, and do not take it from the log")
        }
        RefusalCode::Malformed | RefusalCode::UnknownIssuer => {
            ("anything about the issuer", "ask the log's operator why it was admitted")
        }
    }
}
