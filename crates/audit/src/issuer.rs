//! The issuer family: the rules of admission over every entry, per issuer, as `receipt::admit` states them; silence;
//! streams that end too early.
//!
//! The auditor's issuers file says whose keys count. A receipt of an issuer that is not in it was not checked; an
//! issuer in the file without a receipt was not either.

use crate::amount::amount;
use crate::bundle::{BundleSource, ReadError};
use crate::issuers::AuditedIssuer;
use crate::kept::KeptReceipt;
use crate::quote::{plain, quoted};
use crate::stream::Stream;
use crate::time::{show_duration, show_time};
use crate::tree::Entry;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use merkle::LeafIndex;
use note::{KeyTables, VerifierKey};
use receipt::body::Shown;
use receipt::{
    Admitted, Body, Checked, Malformed, Receipt, Refusal, RefusalCode, SeqNo, UnixMillis, check_signature, place,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most unknown issuers that are told apart.
const MAX_UNKNOWN: usize = 1000;

/// Issuers whose keys are kept prepared during one judgement: 14 MiB of tables at most.
const PREPARED_KEYS: usize = 256;

/// Most evidence documents made from one log. Each may be twice a log entry in length.
const MAX_EVIDENCE: usize = 100;

/// An entry after the work that needs no order: parsed, its signature computed.
pub(crate) enum Prepared {
    Malformed(Malformed),
    /// Of an issuer that the auditor does not know.
    Unknown(Receipt),
    /// Bad whatever the key.
    Refused(Receipt, Refusal),
    Checked(Checked),
}

/// The issuer family over one log.
pub(crate) struct IssuerChecks {
    streams: HashMap<Arc<str>, Stream>,
    tables: KeyTables,
    /// Names in the order of the auditor's file.
    order: Vec<Arc<str>>,
    entries: CheckBuilder,
    entry_count: u64,
    unknown: BTreeMap<Arc<str>, (ReceiptRef, u64)>,
    unknown_beyond: u64,
    evidence: Vec<serde_json::Value>,
    issued_at_ms: Option<[u64; 2]>,
}

/// How the log ended, for what can only be said of a whole stream.
pub(crate) struct LogEnd<'end> {
    /// The latest time the audit knows of, and who says so.
    pub(crate) as_of: Option<(UnixMillis, &'static str)>,
    /// Receipts whose proofs somebody kept.
    pub(crate) kept: &'end [KeptReceipt],
    /// Whether all entries under the newest head were there to read.
    pub(crate) complete: bool,
}

/// Reads one entry of the log again.
pub(crate) type ReadEntry<'read> = &'read dyn Fn(LeafIndex) -> Result<Option<Vec<u8>>, ReadError>;

impl IssuerChecks {
    pub(crate) fn new(issuers: &[AuditedIssuer]) -> IssuerChecks {
        let streams: Vec<Stream> = issuers.iter().map(Stream::new).collect();
        IssuerChecks {
            order: streams.iter().map(|stream| Arc::clone(&stream.name)).collect(),
            streams: streams.into_iter().map(|stream| (Arc::clone(&stream.name), stream)).collect(),
            tables: KeyTables::new(PREPARED_KEYS),
            entries: CheckBuilder::new(Family::Issuer, "entries"),
            entry_count: 0,
            unknown: BTreeMap::new(),
            unknown_beyond: 0,
            evidence: Vec::new(),
            issued_at_ms: None,
        }
    }

    /// The expensive part, for any entry on any thread.
    pub(crate) fn prepare(&self, entry: &Entry) -> Prepared {
        let receipt = match Receipt::parse(&entry.bytes) {
            Ok(receipt) => receipt,
            Err(malformed) => return Prepared::Malformed(malformed),
        };
        match self.streams.get(receipt.issuer().as_str()) {
            None => Prepared::Unknown(receipt),
            Some(stream) => match check_signature(&receipt, &stream.state, &self.tables) {
                Ok(checked) => Prepared::Checked(checked),
                Err(refusal) => Prepared::Refused(receipt, refusal),
            },
        }
    }

    /// The rest, entry by entry in the order of the log. Answers the receipt if it is genuine and new: signed by the
    /// key in force and not the repetition of another.
    pub(crate) fn place(
        &mut self,
        entry: &Entry,
        prepared: Prepared,
        read_entry: ReadEntry<'_>,
    ) -> Result<Option<(ReceiptRef, Receipt)>, ReadError> {
        self.entry_count += 1;
        self.entries.checked();
        let index = LeafIndex(entry.index);
        match prepared {
            Prepared::Malformed(malformed) => {
                let at = ReceiptRef::entry(index, entry.leaf);
                self.entries.fail("malformed", &[&at], || {
                    [
                        format!("the entry is no receipt: {}", plain(&malformed.to_string())),
                        String::from("who submitted it: the log should have refused it"),
                        String::from("ask the log's operator why it was admitted"),
                    ]
                });
                Ok(None)
            }
            Prepared::Unknown(receipt) => {
                self.count_unknown(index, &receipt);
                Ok(None)
            }
            Prepared::Refused(receipt, refusal) => {
                if let Some(stream) = self.streams.get_mut(receipt.issuer().as_str()) {
                    let at = ReceiptRef::new(index, &stream.name, receipt.seq(), receipt.id());
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
                stream.follow(&at, &receipt, &mut self.issued_at_ms);
                stream.state = state;
                return Ok(Some((at, receipt)));
            }
            Err(refusal) => refusal,
        };
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

    /// Every key that the auditor's issuers have or had: the registered ones, and those that rotations in the log led
    /// on to.
    pub(crate) fn keys(&self) -> Vec<VerifierKey> {
        self.streams.values().flat_map(|stream| stream.state.keys().iter().map(|(_, key)| key.clone())).collect()
    }

    /// Earliest and latest `issued_at`.
    pub(crate) fn issued_at_ms(&self) -> Option<[u64; 2]> {
        self.issued_at_ms
    }

    /// One check an issuer, one for all entries, and the evidence that was made.
    pub(crate) fn finish(
        mut self,
        end: &LogEnd<'_>,
        bundle: &dyn BundleSource,
        read_entry: ReadEntry<'_>,
    ) -> Result<(Vec<Check>, Vec<serde_json::Value>), ReadError> {
        for kept in end.kept {
            if let Some(receipt) = kept.read(bundle)? {
                self.judge_kept(&kept.path, &receipt, end, read_entry)?;
            }
        }
        for (name, (at, count)) in &self.unknown {
            self.entries.not_checked("unknown-issuer", &[at], || {
                [
                    format!(
                        "{count} receipts in the log are by {}, which the issuers file does not list",
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
        for name in &self.order {
            if let Some(stream) = self.streams.remove(name) {
                checks.push(stream.finish(end));
            }
        }
        Ok((checks, self.evidence))
    }

    /// A receipt that somebody kept with its proof, against the stream in the log.
    fn judge_kept(
        &mut self,
        path: &str,
        receipt: &Receipt,
        end: &LogEnd<'_>,
        read_entry: ReadEntry<'_>,
    ) -> Result<(), ReadError> {
        let Some(stream) = self.streams.get_mut(receipt.issuer().as_str()) else { return Ok(()) };
        let at = ReceiptRef {
            index: None,
            issuer: Some(Arc::clone(&stream.name)),
            seq: Some(receipt.seq().0),
            id: receipt.id().0,
        };
        let checked = check_signature(receipt, &stream.state, &self.tables);
        let placed =
            checked.and_then(|checked| place(&stream.state, checked, &|seq| Some(stream.held.get(seq)?.0), None));
        match placed {
            Err(refusal) if refusal.code == RefusalCode::Duplicate => {}
            Err(refusal) if refusal.code == RefusalCode::BadSignature => stream.check.not_checked("kept-receipt-unsigned", &[&at], || {
                [
                    format!("the entry kept beside {} is not signed by the issuer: {}", quoted(path), plain(&refusal.detail)),
                    String::from("anything about the issuer's stream"),
                    String::from("ask whoever kept it where it comes from"),
                ]
            }),
            Err(refusal) if refusal.code == RefusalCode::Fork && stream.held.get(receipt.seq()).is_some() => {
                let other: Vec<ReceiptRef> = stream.held_ref(receipt.seq()).into_iter().collect();
                stream.report(&at, &other, &refusal);
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
                    format!("{} proves a receipt with seq {}, and the entries in the bundle end before it", quoted(path), receipt.seq()),
                    String::from("whether the log holds it"),
                    String::from("fetch the bundle again"),
                ]
            }),
            _ => stream.check.fail("tail-short", &[&at], || {
                [
                    format!(
                        "{} proves that the log held seq {} of this issuer; in the log presented its stream ends before seq {}",
                        quoted(path),
                        receipt.seq(),
                        stream.state.next_seq()
                    ),
                    String::from("who cut it: the log, or whoever made the bundle"),
                    String::from("fetch the log again from its own address; if the receipt is missing there, publish the proof"),
                ]
            }),
        }
        Ok(())
    }
}

impl Stream {
    /// Takes note of a genuine receipt: where it is, when it was issued, how long the issuer had been silent.
    fn follow(&mut self, at: &ReceiptRef, receipt: &Receipt, issued_at_ms: &mut Option<[u64; 2]>) {
        let issued_at = receipt.issued_at();
        self.receipts += 1;
        self.held.add(receipt.seq(), receipt.id(), LeafIndex(at.index.unwrap_or(0)));
        let [first, last] = issued_at_ms.unwrap_or([issued_at.0, issued_at.0]);
        *issued_at_ms = Some([first.min(issued_at.0), last.max(issued_at.0)]);
        if let (Body::Open(open), SeqNo(0)) = (receipt.body(), receipt.seq()) {
            self.heartbeat_ms = self.heartbeat_ms.or(open.heartbeat_ms.shown().copied().filter(|millis| *millis > 0));
        }
        self.check_validity(at, issued_at);
        if let (Some((before, since)), Some(heartbeat_ms)) = (&self.last, self.heartbeat_ms) {
            let silent_ms = issued_at.0.saturating_sub(since.0.max(self.audited.from.map_or(0, |from| from.0)));
            if silent_ms > heartbeat_ms {
                self.check.fail("silent", &[before, at], || {
                    [
                        format!("the issuer said nothing for {} after {}; it is to say something every {}", show_duration(silent_ms), show_time(*since), show_duration(heartbeat_ms)),
                        String::from("whether the gate stood still or its receipts were held back; the times are by its own clock"),
                        String::from("ask the gate's operator what happened in that time"),
                    ]
                });
            }
        }
        self.last = Some((at.clone(), issued_at));
    }

    fn check_validity(&mut self, at: &ReceiptRef, issued_at: UnixMillis) {
        let early = self.audited.from.is_some_and(|from| issued_at < from);
        let late = self.audited.until.is_some_and(|until| issued_at >= until);
        if early || late {
            self.check.fail("outside-validity", &[at], || {
                [
                    format!(
                        "issued at {}, outside the time that the issuers file gives this issuer",
                        show_time(issued_at)
                    ),
                    String::from("that the receipt is not the issuer's: its signature is good"),
                    String::from("find out who used the key at that time; the time is by the gate's own clock"),
                ]
            });
        }
    }

    fn report(&mut self, at: &ReceiptRef, others: &[ReceiptRef], refusal: &Refusal) {
        let receipts: Vec<&ReceiptRef> = others.iter().chain([at]).collect();
        self.check.checked();
        let (not_shown, next) = meaning(refusal.code);
        self.check.fail(refusal.code.as_str(), &receipts, || {
            [plain(&refusal.detail), String::from(not_shown), String::from(next)]
        });
    }

    fn finish(mut self, end: &LogEnd<'_>) -> Check {
        if self.receipts == 0 && self.check.count("bad-signature") == 0 {
            self.check.not_checked("issuer-absent", &[], || {
                [
                    String::from("the issuers file lists this issuer, and the log holds no receipt of it"),
                    String::from("that it decided nothing: it may write to another log, or to none"),
                    String::from("ask the gate's operator where its receipts go"),
                ]
            });
        }
        self.check_silence_at_the_end(end);
        let covers = match &self.last {
            None => String::from("no receipt"),
            Some((last, issued_at)) => format!(
                "{}, the last one seq {} at index {}, issued at {}",
                amount(self.receipts, "genuine receipt", "genuine receipts"),
                last.seq.unwrap_or(0),
                last.index.unwrap_or(0),
                show_time(*issued_at)
            ),
        };
        self.check.finish(covers)
    }

    fn check_silence_at_the_end(&mut self, end: &LogEnd<'_>) {
        let (Some((last, since)), Some(heartbeat_ms)) = (self.last.clone(), self.heartbeat_ms) else { return };
        if self.state.is_closed() {
            return;
        }
        let Some((as_of, who)) = end.as_of else {
            self.check.notice("silence-not-judged", &[&last], || {
                [
                    String::from(
                        "no time is known at which the log looked like this, so a silence at its end cannot be told",
                    ),
                    String::from("whether the issuer is silent now"),
                    String::from("give the time of the audit with --at"),
                ]
            });
            return;
        };
        let until = self.audited.until.map_or(as_of, |until| until.min(as_of));
        let silent_ms = until.0.saturating_sub(since.0);
        if silent_ms > heartbeat_ms {
            self.check.fail("silent", &[&last], || {
                [
                    format!(
                        "the last receipt was issued at {}, {} before {} ({who}); the issuer is to say something every {}",
                        show_time(since),
                        show_duration(silent_ms),
                        show_time(until),
                        show_duration(heartbeat_ms)
                    ),
                    String::from("whether the gate stands still, or its newest receipts are held back"),
                    String::from("ask the gate's operator for its latest receipt and look for it in the log"),
                ]
            });
        }
    }
}

/// What a broken rule of admission leaves open, and what to do about it.
fn meaning(code: RefusalCode) -> (&'static str, &'static str) {
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
