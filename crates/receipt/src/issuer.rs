//! What is known of one issuer: its keys, and where its stream ends.
//!
//! Made from a registered vkey and then only by [`crate::admit()`], one receipt at a time; kept by stores as
//! JSON, and checked when it is read back:
//!
//! ```text
//! {"keys":[[0,"<vkey>"],[42,"<vkey>"]],"next_seq":57,"head":"<hex id>","last_issued_at":1790000000123,"closed":false}
//! ```

use crate::body::Body;
use crate::heading::Heading;
use crate::id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use crate::receipt::Receipt;
use note::{KeyKind, VerifierKey};
use serde::{Deserialize, Serialize};

/// Every key an issuer has had, each with the first seq it signs.
///
/// Never empty: the first is the registered key, from seq 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHistory {
    registered: VerifierKey,
    later: Vec<(SeqNo, VerifierKey)>,
}

impl KeyHistory {
    /// The key the operator (or the auditor) registered.
    pub fn registered(&self) -> &VerifierKey {
        &self.registered
    }

    /// The newest key.
    pub fn current(&self) -> &VerifierKey {
        self.later.last().map_or(&self.registered, |(_, key)| key)
    }

    /// The key that signs the receipt at `seq`. For a seq that is not reached yet, the newest: a later
    /// rotation cannot be known.
    pub fn in_force_at(&self, seq: SeqNo) -> &VerifierKey {
        let newest_first = self.later.iter().rev();
        newest_first.clone().find(|(from, _)| *from <= seq).map_or(&self.registered, |(_, key)| key)
    }

    /// All keys, each with the first seq it signs, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNo, &VerifierKey)> {
        let later = self.later.iter().map(|(from, key)| (*from, key));
        std::iter::once((SeqNo(0), &self.registered)).chain(later)
    }

    /// Whether the issuer may hand over to `key`: its own name, a key for notes, and never used before.
    pub(crate) fn may_hand_over_to(&self, key: &VerifierKey) -> bool {
        key.name() == self.registered.name()
            && key.kind() == KeyKind::Ed25519
            && self.iter().all(|(_, used)| used.public_key_bytes() != key.public_key_bytes())
    }
}

/// What is known of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StateRecord", into = "StateRecord")]
pub struct IssuerState {
    name: IssuerName,
    keys: KeyHistory,
    next_seq: SeqNo,
    head: ReceiptId,
    last_issued_at: UnixMillis,
    closed: bool,
}

impl IssuerState {
    /// An issuer that has been registered and has no receipts. Its name is its key's.
    pub fn registered(key: VerifierKey) -> Self {
        Self {
            name: IssuerName(key.name().clone()),
            keys: KeyHistory { registered: key, later: Vec::new() },
            next_seq: SeqNo(0),
            head: ReceiptId::NONE,
            last_issued_at: UnixMillis(0),
            closed: false,
        }
    }

    /// The issuer's name.
    pub fn name(&self) -> &IssuerName {
        &self.name
    }

    /// The key that was registered, which may have been rotated since.
    pub fn registered_key(&self) -> &VerifierKey {
        self.keys.registered()
    }

    /// All its keys.
    pub fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    /// How many receipts it has, which is the number of the next one.
    pub fn next_seq(&self) -> SeqNo {
        self.next_seq
    }

    /// The id of its last receipt; [`ReceiptId::NONE`] before the first.
    pub fn head(&self) -> ReceiptId {
        self.head
    }

    /// The time of its last receipt, by its own clock; 0 before the first.
    pub fn last_issued_at(&self) -> UnixMillis {
        self.last_issued_at
    }

    /// Whether its last receipt is a `close`, or no number is left for another one.
    pub fn is_closed(&self) -> bool {
        self.closed || self.next_seq.next().is_none()
    }

    /// Moves on by a receipt that has this heading and this id, if it follows; else answers false, and is as it was. The
    /// same as placing the receipt ([`crate::place`]) but for its signature and its body.
    pub fn follow(&mut self, heading: &Heading, id: ReceiptId) -> bool {
        let follows = heading.issuer == self.name
            && heading.seq == self.next_seq
            && heading.prev == self.head
            && heading.issued_at >= self.last_issued_at
            && !self.is_closed()
            && heading.seq != SeqNo(0);
        if follows {
            (self.next_seq, self.head) = (SeqNo(self.next_seq.0.saturating_add(1)), id);
            self.last_issued_at = heading.issued_at;
        }
        follows
    }

    /// The state after `receipt`, which [`crate::admit()`] found to stand at `next_seq`. `successor` is the
    /// key it hands over to.
    pub(crate) fn after(&self, receipt: &Receipt, successor: Option<&VerifierKey>) -> Self {
        let next_seq = SeqNo(self.next_seq.0.saturating_add(1));
        let mut keys = self.keys.clone();
        keys.later.extend(successor.map(|key| (next_seq, key.clone())));
        Self {
            name: self.name.clone(),
            keys,
            next_seq,
            head: receipt.id(),
            last_issued_at: receipt.issued_at(),
            closed: matches!(receipt.body(), Body::Close(_)),
        }
    }
}

/// [`IssuerState`] as it is kept. The name is left out, being the keys' own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateRecord {
    keys: Vec<(SeqNo, VerifierKey)>,
    next_seq: SeqNo,
    head: ReceiptId,
    last_issued_at: UnixMillis,
    closed: bool,
}

/// Why a kept state cannot be one that admission made. The disk, or whoever wrote the state, is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// No keys, or keys out of order, under several names, twice, or from a seq that is not reached.
    #[error("the issuer's keys do not make a history; rebuild the state from the entries")]
    Keys,
    /// The numbers of a stream without receipts and of one with receipts are mixed.
    #[error("the issuer's head does not fit its next seq; rebuild the state from the entries")]
    Head,
}

impl From<IssuerState> for StateRecord {
    fn from(state: IssuerState) -> Self {
        Self {
            keys: state.keys.iter().map(|(from, key)| (from, key.clone())).collect(),
            next_seq: state.next_seq,
            head: state.head,
            last_issued_at: state.last_issued_at,
            closed: state.closed,
        }
    }
}

impl TryFrom<StateRecord> for IssuerState {
    type Error = StateError;

    fn try_from(record: StateRecord) -> Result<Self, StateError> {
        let mut keys = record.keys.into_iter();
        let registered = match keys.next() {
            Some((SeqNo(0), registered)) => registered,
            _ => return Err(StateError::Keys),
        };
        let mut state = Self::registered(registered);
        for (from, key) in keys {
            let last = state.keys.later.last().map_or(SeqNo(0), |(from, _)| *from);
            if from <= last || from > record.next_seq || !state.keys.may_hand_over_to(&key) {
                return Err(StateError::Keys);
            }
            state.keys.later.push((from, key));
        }
        let is_new = record.next_seq == SeqNo(0);
        if is_new != (record.head == ReceiptId::NONE)
            || is_new && (record.closed || record.last_issued_at != UnixMillis(0))
        {
            return Err(StateError::Head);
        }
        state.next_seq = record.next_seq;
        state.head = record.head;
        state.last_issued_at = record.last_issued_at;
        state.closed = record.closed;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::sample::{Held, NAME, START, key, named_key, registered, rotate_body};
    use serde_json::{Value, json};

    fn rotated() -> Held {
        let mut held = Held::receipts(3);
        held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
        held.add_next(r#"{"type":"heartbeat"}"#, &[&key(1)]);
        held
    }

    fn reread(value: &Value) -> Result<IssuerState, serde_json::Error> {
        serde_json::from_value(value.clone())
    }

    #[test]
    fn a_state_is_kept_as_one_short_line() {
        let json = serde_json::to_string(&rotated().state).unwrap();
        let (first, second) = (key(0).verifier(), key(1).verifier());
        let (head, last) = (rotated().state.head(), START + 4);
        assert_eq!(
            json,
            format!(
                r#"{{"keys":[[0,"{first}"],[4,"{second}"]],"next_seq":5,"head":"{head}","last_issued_at":{last},"closed":false}}"#
            )
        );
    }

    #[test]
    fn a_kept_state_is_read_back_as_it_was() {
        let mut closed = rotated();
        closed.add_next(r#"{"type":"close"}"#, &[&key(1)]);
        for state in [registered(), Held::receipts(1).state, rotated().state, closed.state] {
            let read: IssuerState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
            assert_eq!(read, state);
            assert_eq!(read.name().as_str(), NAME);
        }
    }

    #[test]
    fn a_state_that_admission_cannot_have_made_is_refused() {
        let good = serde_json::to_value(rotated().state).unwrap();
        let other_name = named_key("other.example", 1).verifier();
        let changed = |pointer: &str, value: Value| {
            let mut state = good.clone();
            *state.pointer_mut(pointer).unwrap() = value;
            state
        };
        for broken in [
            changed("/keys", json!([])),
            changed("/keys/0/0", json!(1)),
            changed("/keys/1/0", json!(0)),
            changed("/keys/1/0", json!(6)),
            changed("/keys/1/1", json!(key(0).verifier())),
            changed("/keys/1/1", json!(other_name)),
            changed("/keys/1/1", json!("nobody")),
            changed("/next_seq", json!(0)),
            changed("/next_seq", json!(3)),
            changed("/next_seq", json!("5")),
            changed("/head", json!(ReceiptId::NONE)),
            changed("/head", json!("")),
            changed("/closed", json!(0)),
        ] {
            assert!(reread(&broken).is_err(), "{broken}");
        }
        let mut more = good.clone();
        more["name"] = json!(NAME);
        assert!(reread(&more).is_err(), "an unknown member");
        let mut less = good;
        less.as_object_mut().unwrap().remove("closed");
        assert!(reread(&less).is_err(), "a missing member");
        let mut new = serde_json::to_value(registered()).unwrap();
        new["closed"] = json!(true);
        assert!(reread(&new).is_err(), "closed before it was opened");
    }

    #[test]
    fn a_key_is_in_force_from_the_receipt_after_the_rotation() {
        let state = rotated().state;
        let in_force: Vec<_> = (0..7).map(|seq| state.keys().in_force_at(SeqNo(seq)).clone()).collect();
        let (first, second) = (key(0).verifier(), key(1).verifier());
        assert_eq!(in_force[..4], vec![first.clone(); 4]);
        assert_eq!(in_force[4..], vec![second.clone(); 3]);
        assert_eq!(state.keys().current(), &second);
        assert_eq!(state.registered_key(), &first);
        assert_eq!(state.keys().iter().collect::<Vec<_>>(), [(SeqNo(0), &first), (SeqNo(4), &second)]);
    }
}
