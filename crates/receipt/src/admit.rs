//! The one rule that admits receipts (section 4). The log asks it at admission, a full witness before it
//! cosigns, the verifier offline, and all three get the same answer.
//!
//! ```text
//! entry ── Receipt::parse ── check_signature ── place ──> new state, or one refusal
//!            malformed        expensive, in       cheap, in order: the rest of the table
//!                             any order
//! ```
//!
//! [`admit`] is the three in a row. A log takes them apart, to check the signatures of a batch on all cores
//! and then place the receipts one by one; and keep what speeds up the checks of an issuer ([`SignatureCheck`]).
//! The rule itself is the table in [`place`]. It knows nothing of
//! where states are kept, and of the clock only what it is told.

use crate::body::{Body, Shown as _};
use crate::fork::ForkPair;
use crate::id::{ReceiptId, SeqNo, UnixMillis};
use crate::issuer::IssuerState;
use crate::receipt::{Malformed, Receipt};
use note::{KeyKind, NoteSignature, SignatureCheck, Strict, VerifierKey};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far ahead of the judge's clock a receipt may be dated: the five minutes of section 4.
pub const MAX_AHEAD_MS: u64 = 5 * 60 * 1000;

/// A receipt that was admitted, and the issuer's state after it.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// What the issuer's state is now.
    pub state: IssuerState,
    /// The receipt.
    pub receipt: Receipt,
}

/// The codes of section 4, in the order in which they are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// Not a receipt as in section 2.
    Malformed,
    /// No such issuer.
    UnknownIssuer,
    /// Strict verification fails, or there is a second or foreign signature line.
    BadSignature,
    /// Byte-identical to the receipt held at that seq.
    Duplicate,
    /// The issuer signed two histories.
    Fork,
    /// A seq beyond the next one.
    Gap,
    /// Issued before the previous one.
    TimeReversed,
    /// Issued too far ahead of the judge's clock.
    FutureDated,
    /// After `close`.
    Closed,
    /// The first receipt is no `open`, or another one is, or it names another key than the registered one.
    BadOpen,
    /// A `rotate` that does not hand over to a new, sound key that signed it too.
    BadRotation,
}

impl RefusalCode {
    /// Every code, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Malformed,
        Self::UnknownIssuer,
        Self::BadSignature,
        Self::Duplicate,
        Self::Fork,
        Self::Gap,
        Self::TimeReversed,
        Self::FutureDated,
        Self::Closed,
        Self::BadOpen,
        Self::BadRotation,
    ];

    /// The code with this spelling, if there is one.
    pub fn parse(spelling: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == spelling)
    }

    /// The code as it stands in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownIssuer => "unknown-issuer",
            Self::BadSignature => "bad-signature",
            Self::Duplicate => "duplicate",
            Self::Fork => "fork",
            Self::Gap => "gap",
            Self::TimeReversed => "time-reversed",
            Self::FutureDated => "future-dated",
            Self::Closed => "closed",
            Self::BadOpen => "bad-open",
            Self::BadRotation => "bad-rotation",
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why a receipt was not admitted. Nothing has changed; a fork is evidence.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Refusal {
    /// Which rule it breaks.
    pub code: RefusalCode,
    /// A sentence for the submitter. Never holds a value of the body.
    pub detail: String,
    /// The seq that would be admitted next, where that helps.
    pub expected_seq: Option<SeqNo>,
    /// The `prev` that would be admitted next, where that helps.
    pub expected_prev: Option<ReceiptId>,
    /// With [`RefusalCode::Fork`]: the two receipts. Absent only where `held` could not name the one that
    /// is held, which is a fault of the judge's own index and no evidence against anyone.
    pub fork: Option<Box<ForkPair>>,
}

/// Judges one entry of an issuer.
///
/// `state` is the issuer's, if it is known; `held` names the receipt held at a seq below `next_seq`, and
/// is asked for no other; `now` is the judge's clock, where the judge has one.
///
/// # Errors
/// [`Refusal`]: exactly one code.
pub fn admit(
    state: Option<&IssuerState>,
    entry: &[u8],
    held: &dyn Fn(SeqNo) -> Option<ReceiptId>,
    now: Option<UnixMillis>,
) -> Result<Admitted, Refusal> {
    let receipt = Receipt::parse(entry)?;
    let state = state.ok_or_else(|| Refusal::unknown_issuer(&receipt))?;
    let checked = check_signature(&receipt, state, &Strict)?;
    place(state, checked, held, now)
}

/// A receipt whose signatures have been computed, good or bad: what is expensive about a receipt is done.
///
/// Remembers the key that was tried. It may be made before receipts that come earlier have been placed,
/// on any thread; [`place`] tries another key if it turns out to be the one in force.
#[derive(Clone, Debug)]
pub struct Checked {
    receipt: Receipt,
    tried: VerifierKey,
    good: bool,
    successor: Successor,
}

/// The second signature, which only a `rotate` has.
#[derive(Clone, Debug)]
enum Successor {
    NotARotation,
    /// The key that the `rotate` names, and that signed it.
    Signed(Box<VerifierKey>),
    /// The `rotate` names no sound key, or that key did not sign it.
    Unsigned,
}

/// Computes the signatures of a receipt, under the key that is in force at its seq as far as `state` tells. `by` does
/// the arithmetic for that key: [`Strict`], or `note::KeyTables` where an issuer's receipts are many.
///
/// `Ok` does not mean that they are good: that is settled by [`place`], which knows every rotation before
/// this receipt.
///
/// # Errors
/// [`Refusal`] with [`RefusalCode::UnknownIssuer`] if `state` is another issuer's, and with
/// [`RefusalCode::BadSignature`] for what no key could mend: a second (in a `rotate`: third) signature
/// line, or one under another name.
pub fn check_signature(receipt: &Receipt, state: &IssuerState, by: &impl SignatureCheck) -> Result<Checked, Refusal> {
    let presumed = presume_signature(receipt, state)?;
    Ok(Checked { good: is_issued_under(receipt, &presumed.tried, by), ..presumed })
}

/// As [`check_signature`], for who computes the receipt's signature later, with [`is_issued_under`], under the key in
/// force at its seq in the state that it is placed in: until then it is taken to be good. The second signature of a
/// `rotate`, on which the next state depends, is computed here.
///
/// For a reader of a log, who places many receipts in order and computes their signatures on other cores meanwhile.
/// Whoever decides what comes into a log wants [`check_signature`].
///
/// # Errors
/// As [`check_signature`].
pub fn presume_signature(receipt: &Receipt, state: &IssuerState) -> Result<Checked, Refusal> {
    if receipt.issuer() != state.name() {
        return Err(Refusal::unknown_issuer(receipt));
    }
    if !has_fitting_lines(receipt) {
        return Err(Refusal::new(
            RefusalCode::BadSignature,
            format!("a receipt carries one signature line, a rotate two, all under the name {}", receipt.issuer()),
        ));
    }
    let tried = state.keys().in_force_at(receipt.seq()).clone();
    Ok(Checked { good: true, successor: successor_of(receipt), receipt: receipt.clone(), tried })
}

/// Whether there is no signature line too many, and none under another name than the issuer's.
pub(crate) fn has_fitting_lines(receipt: &Receipt) -> bool {
    let allowed = if receipt.is_rotation() { 2 } else { 1 };
    receipt.signatures().len() <= allowed && receipt.signatures().iter().all(|line| line.name == receipt.issuer().0)
}

/// Whether the first signature line of `receipt` is `key`'s, and good. What [`presume_signature`] leaves to be computed.
pub fn is_issued_under(receipt: &Receipt, key: &VerifierKey, by: &impl SignatureCheck) -> bool {
    receipt.signatures().first().is_some_and(|line| is_signed_by(receipt, line, key, by))
}

/// Settles whether a checked receipt stands where it may stand.
///
/// Arguments as for [`admit`].
///
/// # Errors
/// [`Refusal`]: exactly one code.
pub fn place(
    state: &IssuerState,
    checked: Checked,
    held: &dyn Fn(SeqNo) -> Option<ReceiptId>,
    now: Option<UnixMillis>,
) -> Result<Admitted, Refusal> {
    let receipt = &checked.receipt;
    let (seq, next) = (receipt.seq(), state.next_seq());
    let is_signed = checked.is_signed_for(state);
    let is_held = is_signed && seq < next;
    let held_id = if is_held { held(seq) } else { None };
    // Anybody can take the second signature off a rotate: what is left is no fork, and nobody's but theirs.
    let is_whole = !matches!(checked.successor, Successor::Unsigned);
    let denies_held = is_held && is_whole && held_id != Some(receipt.id());
    let denies_head = seq == next && receipt.prev() != state.head();
    let latest = now.map_or(UnixMillis(u64::MAX), |now| UnixMillis(now.0.saturating_add(MAX_AHEAD_MS)));

    // Section 4, row by row: the first rule that is broken is the answer.
    let table = [
        (RefusalCode::UnknownIssuer, receipt.issuer() != state.name()),
        (RefusalCode::BadSignature, !is_signed),
        (RefusalCode::Duplicate, held_id == Some(receipt.id())),
        (RefusalCode::Fork, denies_held || denies_head),
        (RefusalCode::Gap, seq > next),
        (RefusalCode::TimeReversed, receipt.issued_at() < state.last_issued_at()),
        (RefusalCode::FutureDated, receipt.issued_at() > latest),
        (RefusalCode::Closed, state.is_closed()),
        (RefusalCode::BadOpen, is_bad_open(receipt, state)),
        (RefusalCode::BadRotation, is_bad_rotation(&checked.successor, state)),
    ];
    match table.iter().find(|(_, broken)| *broken) {
        Some((code, _)) => Err(Refusal::of_placed(*code, &checked, state, held_id)),
        None => Ok(Admitted { state: state.after(receipt, checked.successor.key()), receipt: checked.receipt }),
    }
}

impl Checked {
    /// The receipt, whatever became of its signatures.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Whether the first signature is good under the key that is in force at its seq, as far as `state` tells.
    pub fn is_signed_for(&self, state: &IssuerState) -> bool {
        self.is_good_under(state.keys().in_force_at(self.receipt.seq()))
    }

    fn is_good_under(&self, in_force: &VerifierKey) -> bool {
        if self.tried == *in_force { self.good } else { is_issued_under(&self.receipt, in_force, &Strict) }
    }
}

impl Successor {
    fn key(&self) -> Option<&VerifierKey> {
        match self {
            Self::Signed(key) => Some(key),
            Self::NotARotation | Self::Unsigned => None,
        }
    }
}

/// Whether `line` is `key`'s, and good over the text of `receipt`.
pub(crate) fn is_signed_by(
    receipt: &Receipt,
    line: &NoteSignature,
    key: &VerifierKey,
    by: &impl SignatureCheck,
) -> bool {
    let signature = <&[u8; 64]>::try_from(line.blob.as_slice());
    key.kind() == KeyKind::Ed25519
        && line.claims(key)
        && signature.is_ok_and(|signature| by.verify(key, receipt.text().as_bytes(), signature))
}

/// The key that a `rotate` names and that signed it second. A vkey that is weak or none at all does not
/// parse, and so cannot have signed. Checked plainly: anybody can name a key here, and none becomes an issuer's by it.
pub(crate) fn new_key_of(receipt: &Receipt) -> Option<VerifierKey> {
    let Body::Rotate(rotate) = receipt.body() else { return None };
    let key = rotate.vkey.shown()?.parse().ok()?;
    let line = receipt.signatures().get(1)?;
    is_signed_by(receipt, line, &key, &Strict).then_some(key)
}

fn successor_of(receipt: &Receipt) -> Successor {
    match (receipt.is_rotation(), new_key_of(receipt)) {
        (false, _) => Successor::NotARotation,
        (true, Some(key)) => Successor::Signed(Box::new(key)),
        (true, None) => Successor::Unsigned,
    }
}

fn is_bad_open(receipt: &Receipt, state: &IssuerState) -> bool {
    match receipt.body() {
        Body::Open(open) => receipt.seq() != SeqNo(0) || open.vkey.shown() != Some(&state.registered_key().to_string()),
        _ => receipt.seq() == SeqNo(0),
    }
}

fn is_bad_rotation(successor: &Successor, state: &IssuerState) -> bool {
    match successor {
        Successor::NotARotation => false,
        Successor::Signed(key) => !state.keys().may_hand_over_to(key),
        Successor::Unsigned => true,
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::new(RefusalCode::Malformed, malformed.to_string())
    }
}

impl Refusal {
    pub(crate) fn new(code: RefusalCode, detail: String) -> Self {
        Self { code, detail, expected_seq: None, expected_prev: None, fork: None }
    }

    /// For a receipt whose issuer the judge does not know.
    pub fn unknown_issuer(receipt: &Receipt) -> Self {
        Self::new(
            RefusalCode::UnknownIssuer,
            format!("{} is not registered here; ask the operator to add its vkey", receipt.issuer()),
        )
    }

    /// For a receipt whose signature is not good under the key in force.
    pub fn bad_signature(receipt: &Receipt, state: &IssuerState) -> Self {
        Self::not_issued_under(receipt, state.keys().in_force_at(receipt.seq()))
    }

    /// The same, where the key in force is known.
    pub(crate) fn not_issued_under(receipt: &Receipt, key: &VerifierKey) -> Self {
        let seq = receipt.seq();
        Self::new(
            RefusalCode::BadSignature,
            format!("the signature does not verify under the key in force at seq {seq}, {key}"),
        )
    }

    fn of_placed(code: RefusalCode, checked: &Checked, state: &IssuerState, held_id: Option<ReceiptId>) -> Self {
        let receipt = &checked.receipt;
        let (seq, next, head) = (receipt.seq(), state.next_seq(), state.head());
        let detail = match code {
            RefusalCode::Malformed => String::from("not a receipt"),
            RefusalCode::UnknownIssuer => return Self::unknown_issuer(receipt),
            RefusalCode::BadSignature => return Self::bad_signature(receipt, state),
            RefusalCode::Duplicate => format!("the receipt at seq {seq} is held already"),
            RefusalCode::Fork if seq < next => {
                format!("the issuer signed two histories: another receipt is held at seq {seq}")
            }
            RefusalCode::Fork => {
                format!(
                    "the issuer signed two histories: prev is not the receipt held at seq {}",
                    next.0.saturating_sub(1)
                )
            }
            RefusalCode::Gap => format!("seq {seq} leaves a gap: seq {next} must come first"),
            RefusalCode::TimeReversed => {
                format!("issued_at {} is before the previous receipt's {}", receipt.issued_at(), state.last_issued_at())
            }
            RefusalCode::FutureDated => {
                format!(
                    "issued_at {} is more than {} s ahead; set the gate's clock",
                    receipt.issued_at(),
                    MAX_AHEAD_MS / 1000
                )
            }
            RefusalCode::Closed => format!("the issuer closed its stream at seq {}", next.0.saturating_sub(1)),
            RefusalCode::BadOpen => {
                format!("seq 0 and no other is an open, with the registered vkey {}", state.registered_key())
            }
            RefusalCode::BadRotation => String::from(
                "a rotate names a sound vkey of the issuer's that it never used before, and is signed by the old and the new key",
            ),
        };
        let helps = matches!(code, RefusalCode::Fork | RefusalCode::Gap | RefusalCode::Closed | RefusalCode::BadOpen);
        let fork = (code == RefusalCode::Fork).then(|| ForkPair::of(receipt, state, held_id)).flatten();
        Self {
            code,
            detail,
            expected_seq: helps.then_some(next),
            expected_prev: helps.then_some(head),
            fork: fork.map(Box::new),
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
