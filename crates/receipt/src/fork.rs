//! Evidence that an issuer signed two histories (section 7, `issuer-fork`).
//!
//! ```text
//! {"kind":"issuer-fork","issuer":"<vkey>","first":"<receipt>","second":"<receipt>"}
//! ```
//!
//! Two receipts that one key signed and that cannot both be true: two at one seq, or one and a successor
//! whose `prev` denies it. Anybody can check it with nothing but the vkey in it. In one case that is not
//! enough: where the receipt that is denied is the rotation that brought the key in, a key before it signed
//! too. The document then names that key as `issuer_before`, and counts only for those who know it.
//!
//! What makes it evidence is what *the named key* signed, never bytes that a third party can change:
//! signature lines of a `rotate` can be stripped, swapped or garbled by anyone who has read it, and an
//! innocent issuer would be accused by its own receipt. So two receipts at one seq count only if the named
//! key's text or signature differs, and a denied receipt only if every one of its lines is accounted for.

use crate::admit::{is_signed_by, new_key_of};
use crate::id::{ReceiptId, SeqNo};
use crate::issuer::IssuerState;
use crate::receipt::{Malformed, Receipt};
use note::{KeyKind, NoteSignature, Strict, VerifierKey};
use serde::{Deserialize, Serialize};

/// The two receipts of a fork as admission knows them: one by its bytes, one by its id.
#[derive(Clone, Debug)]
pub struct ForkPair {
    /// Where the held receipt stands.
    pub held_seq: SeqNo,
    /// Its id: by it the judge finds its bytes.
    pub held_id: ReceiptId,
    /// The receipt that was refused.
    pub offered: Receipt,
    /// The key in force at the held receipt's seq.
    held_key: VerifierKey,
    /// The key in force at the offered receipt's seq.
    key: VerifierKey,
}

impl ForkPair {
    /// The pair behind a fork: at a held seq the receipt held there, else the head.
    pub(crate) fn of(offered: &Receipt, state: &IssuerState, held_at_seq: Option<ReceiptId>) -> Option<Self> {
        let (held_seq, held_id) = if offered.seq() < state.next_seq() {
            (offered.seq(), held_at_seq?)
        } else {
            (SeqNo(state.next_seq().0.checked_sub(1)?), state.head())
        };
        let key = state.keys().in_force_at(offered.seq()).clone();
        let held_key = state.keys().in_force_at(held_seq).clone();
        Some(Self { held_seq, held_id, offered: offered.clone(), held_key, key })
    }

    /// The evidence, once the judge has found the bytes of the held receipt.
    ///
    /// # Errors
    /// [`EvidenceError`]: `held` is not the receipt of [`ForkPair::held_id`]; anything else means that the
    /// held receipt should never have been admitted.
    pub fn evidence(&self, held: &[u8]) -> Result<IssuerForkEvidence, EvidenceError> {
        if ReceiptId::of(held) != self.held_id {
            return Err(EvidenceError::NotHeld);
        }
        let offered = self.offered.bytes();
        let by_key_in_force = IssuerForkEvidence::make(&self.key, held, offered);
        match (by_key_in_force, new_key_of(&self.offered)) {
            // The denied receipt is the very rotation that put the key in force: the key before it signed it too.
            (Err(EvidenceError::OtherSigner), _) => {
                IssuerForkEvidence::make_across_rotation(&self.key, &self.held_key, held, offered)
            }
            // One rotate, signed twice by the new key only.
            (Err(EvidenceError::NotAFork), Some(new_key)) => IssuerForkEvidence::make(&new_key, held, offered),
            (made, _) => made,
        }
    }
}

/// Two receipts that show an issuer's key to have signed two histories. Serialises as section 7's document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerForkEvidence {
    kind: Kind,
    /// The key that is shown to have lied.
    issuer: VerifierKey,
    /// Where `first` is the rotation that brought `issuer` in: the key that signed it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issuer_before: Option<VerifierKey>,
    /// The receipt with the lower seq.
    first: String,
    /// The other one.
    second: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "issuer-fork")]
    IssuerFork,
}

/// What two contradicting receipts leave open.
const NOT_SHOWN: &str =
    "which of the two is true, whether anybody else had the key, and whether any log admitted either";

/// Who is shown to have lied, and what is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// The key that signed both.
    pub key: VerifierKey,
    /// What it is shown to have done.
    pub sentence: String,
    /// What this evidence leaves open.
    pub not_shown: String,
}

/// Why a document is no evidence. Whoever presents it is to blame, never the issuer it names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// One of the two is no receipt.
    #[error("the {which} receipt is none: {malformed}")]
    Malformed {
        /// `first` or `second`.
        which: &'static str,
        /// What is wrong with it.
        malformed: Malformed,
    },
    /// The named key is not the issuer's by name, or signs no notes.
    #[error("the {which} receipt's issuer is not the one the key names")]
    OtherIssuer {
        /// `first` or `second`.
        which: &'static str,
    },
    /// The named key did not sign one of them.
    #[error("the {which} receipt is not signed by the named key; it proves nothing against it")]
    NotSigned {
        /// `first` or `second`.
        which: &'static str,
    },
    /// The denied receipt carries a signature line that the named keys cannot account for, so that its id
    /// may be anybody's making.
    #[error(
        "a signature line of the first receipt is not by the named key, so anybody may have changed its id; name the key before it"
    )]
    OtherSigner,
    /// The evidence hangs on another key having been the issuer's before, which the reader has not confirmed.
    #[error("this counts only if {key} was the issuer's key before; check with the issuer keys that you know")]
    UnknownKeyBefore {
        /// The key named as the one before.
        key: Box<VerifierKey>,
    },
    /// The two agree.
    #[error("the two receipts do not contradict each other")]
    NotAFork,
    /// The bytes are not those of the held receipt.
    #[error("these bytes are not the receipt that was held; look it up by its id")]
    NotHeld,
}

impl IssuerForkEvidence {
    /// Makes evidence of two receipts that `key` signed, in any order, and checks it.
    ///
    /// # Errors
    /// [`EvidenceError`]: they show nothing against `key`.
    pub fn make(key: &VerifierKey, one: &[u8], other: &[u8]) -> Result<Self, EvidenceError> {
        Self::made(key, None, one, other)
    }

    /// As [`Self::make`], where `rotation` is the receipt that handed over from `before` to `key`, and
    /// `successor` the receipt after it that denies it.
    ///
    /// # Errors
    /// [`EvidenceError`]: they show nothing against `key`.
    pub fn make_across_rotation(
        key: &VerifierKey,
        before: &VerifierKey,
        rotation: &[u8],
        successor: &[u8],
    ) -> Result<Self, EvidenceError> {
        Self::made(key, Some(before), rotation, successor)
    }

    fn made(key: &VerifierKey, before: Option<&VerifierKey>, one: &[u8], other: &[u8]) -> Result<Self, EvidenceError> {
        let one = Receipt::parse(one).map_err(|malformed| EvidenceError::Malformed { which: "first", malformed })?;
        let other =
            Receipt::parse(other).map_err(|malformed| EvidenceError::Malformed { which: "second", malformed })?;
        let (first, second) = if one.seq() <= other.seq() { (one, other) } else { (other, one) };
        let evidence = Self {
            kind: Kind::IssuerFork,
            issuer: key.clone(),
            issuer_before: before.cloned(),
            first: first.to_string(),
            second: second.to_string(),
        };
        // Whoever makes evidence knows the key before; whoever reads it must confirm it.
        evidence.check_knowing(evidence.issuer_before.as_slice())?;
        Ok(evidence)
    }

    /// The key that is accused. Not checked: [`Self::check`] does that.
    pub fn issuer(&self) -> &VerifierKey {
        &self.issuer
    }

    /// The key that has to be known as the issuer's earlier one, where the evidence hangs on it.
    pub fn issuer_before(&self) -> Option<&VerifierKey> {
        self.issuer_before.as_ref()
    }

    /// The receipt with the lower seq, if it is one.
    pub fn first(&self) -> Option<Receipt> {
        Receipt::parse(self.first.as_bytes()).ok()
    }

    /// Checks the document by itself.
    ///
    /// # Errors
    /// [`EvidenceError`]: it shows nothing against the key it names, or nothing without another key.
    pub fn check(&self) -> Result<Accusation, EvidenceError> {
        self.check_knowing(&[])
    }

    /// Checks the document, for a reader who knows `known` to be keys of the issuer (or of any issuers).
    ///
    /// # Errors
    /// [`EvidenceError`]: it shows nothing against the key it names.
    pub fn check_knowing(&self, known: &[VerifierKey]) -> Result<Accusation, EvidenceError> {
        let first = Signed::read("first", &self.first, &self.issuer)?;
        let second = Signed::read("second", &self.second, &self.issuer)?;
        let (name, seq) = (first.receipt.issuer(), first.receipt.seq());
        let sentence = if second.receipt.seq() == seq {
            if first.what_the_key_signed() == second.what_the_key_signed() {
                return Err(EvidenceError::NotAFork);
            }
            format!("the holder of {name}'s key signed two different receipts with seq {seq}")
        } else if Some(second.receipt.seq()) == seq.next() && second.receipt.prev() != first.receipt.id() {
            first.account_for_every_line(&self.issuer, self.issuer_before.as_ref(), known)?;
            format!("the holder of {name}'s key signed the receipt with seq {seq} and a successor that denies it")
        } else {
            return Err(EvidenceError::NotAFork);
        };
        Ok(Accusation { key: self.issuer.clone(), sentence, not_shown: NOT_SHOWN.to_owned() })
    }
}

/// A receipt with the line of it that the named key signed.
struct Signed {
    receipt: Receipt,
    line: NoteSignature,
}

impl Signed {
    fn read(which: &'static str, text: &str, key: &VerifierKey) -> Result<Self, EvidenceError> {
        let receipt =
            Receipt::parse(text.as_bytes()).map_err(|malformed| EvidenceError::Malformed { which, malformed })?;
        if receipt.issuer().0 != *key.name() || key.kind() != KeyKind::Ed25519 {
            return Err(EvidenceError::OtherIssuer { which });
        }
        let line = receipt.signatures().iter().find(|line| is_signed_by(&receipt, line, key, &Strict));
        match line.cloned() {
            Some(line) => Ok(Self { receipt, line }),
            None => Err(EvidenceError::NotSigned { which }),
        }
    }

    /// What nobody but the holder of the key can have made.
    fn what_the_key_signed(&self) -> (&str, &[u8]) {
        (self.receipt.text(), &self.line.blob)
    }

    /// The id hangs on every line. One line: the named key's. A rotation's two: the old key's, and that of
    /// the new key in the text. If the named key is the new one, the old one must be known from elsewhere,
    /// or anybody could sign the first line anew with a key of his own and change the id.
    fn account_for_every_line(
        &self,
        key: &VerifierKey,
        before: Option<&VerifierKey>,
        known: &[VerifierKey],
    ) -> Result<(), EvidenceError> {
        let (old, whole) = match (self.receipt.is_rotation(), self.receipt.signatures()) {
            (false, [only]) => (only, true),
            (true, [old, _]) => (old, new_key_of(&self.receipt).is_some()),
            _ => return Err(EvidenceError::OtherSigner),
        };
        match before {
            _ if !whole => Err(EvidenceError::OtherSigner),
            _ if is_signed_by(&self.receipt, old, key, &Strict) => Ok(()),
            // A key of another issuer's, known or not, hands nothing over.
            Some(before) if *before.name() != self.receipt.issuer().0 => Err(EvidenceError::OtherSigner),
            Some(before) if !is_signed_by(&self.receipt, old, before, &Strict) => Err(EvidenceError::OtherSigner),
            Some(before) if !known.contains(before) => {
                Err(EvidenceError::UnknownKeyBefore { key: Box::new(before.clone()) })
            }
            Some(_) => Ok(()),
            None => Err(EvidenceError::OtherSigner),
        }
    }
}

#[cfg(test)]
mod tests;
