//! What entries of one log show by themselves: that the last of them should not have been admitted (section 4).
//!
//! Whoever reads a whole log knows the rule's answer from the issuer's state. A third party has a few entries and the
//! log's word that they stand where they stand; this module holds what follows from that alone. Of two entries that
//! contradict each other it may be the earlier one that should not be there: the log admitted both, and that is what is
//! said. Nothing here accuses a log that kept to section 4, whatever is picked from it.
//!
//! | code | shown by |
//! |---|---|
//! | `malformed`, `bad-open` | the entry alone |
//! | `bad-signature` | the entry alone: a line too many or foreign, an `open` not signed by the key it names; else with the issuer's receipt at the seq before, which another key signed or hands over from |
//! | `duplicate`, `fork` | with the receipt at the same seq, or (`fork`) at the seq before |
//! | `time-reversed`, `closed` | with the receipt at the seq before |
//! | `bad-rotation` | the entry alone; with the earlier receipt that names the same key |
//! | `gap` | with every entry since the issuer's receipt before it, or since the log's first |
//!
//! `unknown-issuer` is relative to a list and `future-dated` to a clock, as is a `bad-open` that names a sound key:
//! nobody can be shown these. A key reused that no receipt names (a registered one) is not either.

use crate::admit::{Refusal, RefusalCode, has_fitting_lines, is_issued_under, new_key_of};
use crate::body::{Body, Shown as _};
use crate::id::{IssuerName, SeqNo};
use crate::receipt::Receipt;
use crate::roll::opened_key;
use merkle::LeafIndex;
use note::{KeyKind, Strict, VerifierKey};

/// An entry of a log, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhibit<'a> {
    /// Its place.
    pub index: LeafIndex,
    /// Its bytes.
    pub entry: &'a [u8],
}

/// The entries show nothing of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotShown {
    /// They are not in the order of the log, or none.
    #[error("the entries are not in the order of the log, or none")]
    Order,
    /// Another number of entries is needed.
    #[error("this many entries show no {0}")]
    Count(RefusalCode),
    /// The entries do not contradict section 4 in this way.
    #[error("the entries show no {0}")]
    Code(RefusalCode),
    /// Nothing can show it to a third party.
    #[error("a {0} is relative to a list or a clock, and cannot be shown to anybody else")]
    Relative(RefusalCode),
    /// One of the entries before the last is no receipt.
    #[error("an entry that another is held against is no receipt")]
    Earlier,
}

/// How a breach may be shown: which entries it takes besides the one that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// None.
    Alone(RefusalCode),
    /// The nearest one before it that is this.
    With(RefusalCode, Earlier),
    /// All from the issuer's nearest one before it on: a `gap`.
    Run,
}

/// Which earlier entry is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// The issuer's receipt at this seq.
    At(SeqNo),
    /// The issuer's receipt that names this public key: its `open`, or a `rotate`.
    Names(Vec<u8>),
}

/// How it may be shown that `entry`, which a reader of the log refused so, should not be in the log; the best first, none
/// where it cannot be.
pub fn plans(entry: &[u8], refusal: &Refusal) -> Vec<Plan> {
    let Ok(receipt) = Receipt::parse(entry) else { return vec![Plan::Alone(RefusalCode::Malformed)] };
    let code = refusal.code;
    let at = |seq: SeqNo| Plan::With(code, Earlier::At(seq));
    let before = receipt.seq().0.checked_sub(1).map(SeqNo);
    let mut plans = vec![Plan::Alone(code)];
    match code {
        RefusalCode::Duplicate => plans.push(at(receipt.seq())),
        RefusalCode::Fork if refusal.expected_seq != Some(receipt.seq()) => plans.push(at(receipt.seq())),
        RefusalCode::BadSignature | RefusalCode::Fork | RefusalCode::TimeReversed | RefusalCode::Closed => {
            plans.extend(before.map(at));
        }
        RefusalCode::BadRotation => {
            let key = new_key_of(&receipt).map(|key| Earlier::Names(key.public_key_bytes().to_vec()));
            plans.extend(key.map(|key| Plan::With(code, key)));
        }
        RefusalCode::Malformed
        | RefusalCode::UnknownIssuer
        | RefusalCode::Gap
        | RefusalCode::FutureDated
        | RefusalCode::BadOpen => {}
    }
    plans.push(Plan::Run);
    plans.extend(RefusalCode::ALL.into_iter().filter(|other| *other != code).map(Plan::Alone));
    plans.retain(|plan| match plan {
        // At which place it stands matters for a gap alone.
        Plan::Alone(code) => {
            *code != RefusalCode::Gap && breaks(*code, &[Exhibit { index: LeafIndex(0), entry }], None).is_ok()
        }
        Plan::Run => {
            before.is_some()
                && matches!(code, RefusalCode::Gap | RefusalCode::UnknownIssuer | RefusalCode::BadSignature)
        }
        Plan::With(..) => true,
    });
    plans
}

impl Earlier {
    /// Whether `other` is what is looked for beside a receipt of `issuer`.
    pub fn is(&self, issuer: &IssuerName, other: &Receipt) -> bool {
        other.issuer() == issuer
            && match self {
                Earlier::At(seq) => other.seq() == *seq,
                Earlier::Names(key) => named_key(other).is_some_and(|named| named.public_key_bytes() == key),
            }
    }
}

/// Whether these entries of one log, in its order, show that the last of them breaks section 4 in this way, or one before
/// it that it is held against. `key` is the key that signed the receipt before, where that says which key is in force. Says
/// what they show, after "the log admitted ".
///
/// # Errors
/// [`NotShown`].
pub fn breaks(code: RefusalCode, exhibits: &[Exhibit<'_>], key: Option<&VerifierKey>) -> Result<String, NotShown> {
    if !exhibits.is_sorted_by(|one, next| one.index < next.index) {
        return Err(NotShown::Order);
    }
    let (last, earlier) = exhibits.split_last().ok_or(NotShown::Order)?;
    let receipt = match (code, Receipt::parse(last.entry)) {
        (RefusalCode::Malformed, Err(malformed)) if earlier.is_empty() && key.is_none() => {
            return Ok(format!("an entry that is no receipt: {malformed}"));
        }
        (RefusalCode::UnknownIssuer | RefusalCode::FutureDated, _) => return Err(NotShown::Relative(code)),
        (RefusalCode::Malformed, _) | (_, Err(_)) => return Err(NotShown::Code(code)),
        (_, Ok(receipt)) => receipt,
    };
    let shown = match (code, earlier) {
        (RefusalCode::Gap, run) => gap(&receipt, last.index, run)?,
        (_, []) => alone(code, &receipt),
        (_, [other]) => {
            let other = Receipt::parse(other.entry).map_err(|_| NotShown::Earlier)?;
            if other.issuer() == receipt.issuer() { beside(code, &receipt, &other, key) } else { None }
        }
        _ => return Err(NotShown::Count(code)),
    };
    // A key that plays no part could be changed without anybody noticing.
    let uses_key = code == RefusalCode::BadSignature && earlier.len() == 1;
    match shown {
        Some(shown) if key.is_none() || uses_key => {
            Ok(format!("the receipt of {} with seq {}, {shown}", receipt.issuer(), receipt.seq()))
        }
        _ => Err(NotShown::Code(code)),
    }
}

fn alone(code: RefusalCode, receipt: &Receipt) -> Option<String> {
    match code {
        RefusalCode::BadSignature => {
            let opened = opened_key(receipt).filter(|_| receipt.seq() == SeqNo(0));
            if !has_fitting_lines(receipt) {
                Some(String::from("which carries a signature line too many, or under another name"))
            } else if opened.is_some_and(|key| !is_issued_under(receipt, &key, &Strict)) {
                Some(String::from("which the key that it opens the stream with did not sign"))
            } else {
                None
            }
        }
        RefusalCode::BadOpen => match (receipt.seq(), matches!(receipt.body(), Body::Open(_))) {
            (SeqNo(0), false) => Some(String::from("which is no open")),
            (SeqNo(0), true) if opened_key(receipt).is_none() => {
                Some(String::from("an open that names no key of the issuer's, so not the registered one"))
            }
            (SeqNo(1..), true) => Some(String::from("an open that is not the issuer's first receipt")),
            _ => None,
        },
        RefusalCode::BadRotation => match new_key_of(receipt) {
            _ if !receipt.is_rotation() => None,
            None => Some(String::from("a rotate that no new key signed with the old one")),
            Some(key) if *key.name() != receipt.issuer().0 || key.kind() != KeyKind::Ed25519 => {
                Some(String::from("a rotate to a key that is not the issuer's"))
            }
            Some(_) => None,
        },
        _ => None,
    }
}

/// What `receipt` shows beside another of its issuer that stands before it.
fn beside(code: RefusalCode, receipt: &Receipt, other: &Receipt, key: Option<&VerifierKey>) -> Option<String> {
    let follows = other.seq().next() == Some(receipt.seq());
    match code {
        RefusalCode::BadSignature if follows => {
            let in_force = match (key, other.is_rotation()) {
                (None, true) => new_key_of(other)?,
                (Some(key), false) if is_issued_under(other, key, &Strict) => key.clone(),
                _ => return None,
            };
            let is_bad = !is_issued_under(receipt, &in_force, &Strict);
            is_bad.then(|| format!("which is not signed by the key in force after seq {}, {in_force}", other.seq()))
        }
        RefusalCode::Duplicate if receipt == other => Some(String::from("a second time")),
        RefusalCode::Fork if receipt.seq() == other.seq() && receipt != other => {
            Some(String::from("beside another receipt with that seq"))
        }
        RefusalCode::Fork if follows && receipt.prev() != other.id() => {
            Some(format!("which denies the receipt with seq {} before it", other.seq()))
        }
        RefusalCode::TimeReversed if follows && receipt.issued_at() < other.issued_at() => {
            Some(format!("issued at {}, before the receipt before it, {}", receipt.issued_at(), other.issued_at()))
        }
        RefusalCode::Closed if follows && matches!(other.body(), Body::Close(_)) => {
            Some(String::from("after the issuer closed its stream"))
        }
        RefusalCode::BadRotation if receipt.is_rotation() => {
            let (new, used) = (new_key_of(receipt)?, named_key(other)?);
            let is_used = new.public_key_bytes() == used.public_key_bytes();
            is_used.then(|| format!("a rotate to a key that was in use from seq {} on", other.seq()))
        }
        _ => None,
    }
}

/// Whether there is no receipt at the seq before: `run` begins with the issuer's last one, or with the log, and leaves out
/// nothing.
fn gap(receipt: &Receipt, index: LeafIndex, run: &[Exhibit<'_>]) -> Result<Option<String>, NotShown> {
    let places = run.iter().map(|one| one.index.0).chain([index.0]);
    let is_whole = places.zip(run.first().map_or(index.0, |first| first.index.0)..).all(|(is, must)| is == must);
    if !is_whole {
        return Err(NotShown::Order);
    }
    let seq_of = |one: &Exhibit<'_>| {
        let other = Receipt::parse(one.entry).ok()?;
        (other.issuer() == receipt.issuer()).then_some(other.seq())
    };
    let (first, between) = match run.split_first() {
        Some((first, between)) => (first.index.0, if seq_of(first).is_some() { between } else { run }),
        None => (index.0, run),
    };
    let before = run.first().and_then(seq_of);
    let is_least = match before {
        Some(before) => before.next().is_some_and(|next| next < receipt.seq()),
        None => first == 0 && receipt.seq() > SeqNo(0),
    };
    let is_gap = is_least && between.iter().all(|one| seq_of(one).is_none());
    Ok(is_gap.then(|| match before {
        Some(before) => format!("when the issuer's last one before it had seq {before}"),
        None => String::from("when the log had none of that issuer before it"),
    }))
}

/// The key that a receipt brings in, said by an `open` or a `rotate`.
fn named_key(receipt: &Receipt) -> Option<VerifierKey> {
    opened_key(receipt).or_else(|| {
        let Body::Rotate(rotate) = receipt.body() else { return None };
        rotate.vkey.shown()?.parse().ok()
    })
}

#[cfg(test)]
mod tests;
