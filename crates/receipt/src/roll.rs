//! The issuers of one log, each with where its stream ends, for whoever reads a log from its beginning.
//!
//! Receipts are placed in the log's order with their signatures taken for good, which tells the key in force at each;
//! whether they are good under it is computed behind that, on any core ([`crate::relay`]). Which issuers exist, the reader
//! says, or else the log's own `open` receipts do.

use crate::admit::{Refusal, RefusalCode, check_signature, is_issued_under, place, presume_signature};
use crate::body::{Body, Shown as _};
use crate::heading::Heading;
use crate::id::{IssuerName, ReceiptId, UnixMillis};
use crate::issuer::IssuerState;
use crate::receipt::Receipt;
use merkle::LeafIndex;
use note::{KeyKind, SignatureCheck, Strict, VerifierKey};
use std::collections::HashMap;

/// The issuers of a log, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    states: HashMap<IssuerName, IssuerState>,
    /// Who exists; without it, whoever opens a stream.
    registered: Option<HashMap<IssuerName, VerifierKey>>,
}

/// A receipt that was placed, and whose signature is still to be computed.
#[derive(Clone, Debug)]
pub struct Unsigned {
    /// Where it stands in the log.
    pub index: LeafIndex,
    /// The receipt.
    pub receipt: Receipt,
    /// The key in force at its seq.
    pub key: VerifierKey,
}

impl Unsigned {
    /// Whether the signature is good under that key.
    pub fn is_good(&self, by: &impl SignatureCheck) -> bool {
        is_issued_under(&self.receipt, &self.key, by)
    }

    /// Why not, where it is not.
    pub fn refusal(&self) -> Refusal {
        Refusal::not_issued_under(&self.receipt, &self.key)
    }
}

impl Roll {
    /// Before the first entry of a log whose issuers are those with these keys, and nobody else.
    pub fn of_registered(keys: impl IntoIterator<Item = VerifierKey>) -> Roll {
        let registered = keys.into_iter().map(|key| (IssuerName(key.name().clone()), key)).collect();
        Roll { states: HashMap::new(), registered: Some(registered) }
    }

    /// Before the first entry of a log where an issuer is who opens a stream, under the key that its `open` names.
    pub fn of_openers() -> Roll {
        Roll::default()
    }

    /// Goes on from these states, one an issuer, instead of those it has. Answers false, and changes nothing, where one of
    /// them is of an issuer that does not exist or was registered with another key.
    pub fn resume(&mut self, states: impl IntoIterator<Item = IssuerState>) -> bool {
        let states: HashMap<_, _> = states.into_iter().map(|state| (state.name().clone(), state)).collect();
        let exists = |state: &IssuerState| match &self.registered {
            Some(registered) => registered.get(state.name()) == Some(state.registered_key()),
            None => true,
        };
        let fits = states.values().all(exists);
        if fits {
            self.states = states;
        }
        fits
    }

    /// The state of each issuer that has receipts.
    pub fn states(&self) -> &HashMap<IssuerName, IssuerState> {
        &self.states
    }

    /// The same, for who is done.
    pub fn into_states(self) -> HashMap<IssuerName, IssuerState> {
        self.states
    }

    /// Moves an issuer on by a receipt of which no more than this was read, if it follows ([`IssuerState::follow`]).
    pub fn follow(&mut self, heading: &Heading, id: ReceiptId) -> bool {
        self.states.get_mut(&heading.issuer).is_some_and(|state| state.follow(heading, id))
    }

    /// Places the next receipt of the log, if it may stand there but for its signature, which is left to be computed.
    /// `now` is the reader's clock, where it has one.
    ///
    /// # Errors
    /// [`Refusal`], and nothing has changed. Its code takes the signature for good, and a receipt below the issuer's next
    /// seq for another than the one that is held: [`Roll::refusal`] tells more.
    pub fn place(&mut self, index: LeafIndex, receipt: Receipt, now: Option<UnixMillis>) -> Result<Unsigned, Refusal> {
        let newcomer;
        let state = match self.states.get(receipt.issuer()) {
            Some(state) => state,
            None => {
                newcomer = self.newcomer(&receipt)?;
                &newcomer
            }
        };
        let key = state.keys().in_force_at(receipt.seq()).clone();
        let presumed = presume_signature(&receipt, state)?;
        // What stands in the log already is below next_seq, and nothing below next_seq is admitted: no look-up.
        let admitted = place(state, presumed, &|_| None, now)?;
        match self.states.get_mut(receipt.issuer()) {
            Some(held) => *held = admitted.state,
            None => drop(self.states.insert(receipt.issuer().clone(), admitted.state)),
        }
        Ok(Unsigned { index, receipt, key })
    }

    /// What a log has to answer that is offered this receipt now, signature included; `None` if it is admitted. `held` is
    /// the receipt of this issuer that stands at this seq, if one does.
    pub fn refusal(&self, receipt: &Receipt, held: Option<ReceiptId>, now: Option<UnixMillis>) -> Option<Refusal> {
        let newcomer;
        let state = match self.states.get(receipt.issuer()) {
            Some(state) => state,
            None => match self.newcomer(receipt) {
                Ok(state) => {
                    newcomer = state;
                    &newcomer
                }
                Err(refusal) => return Some(refusal),
            },
        };
        let placed = check_signature(receipt, state, &Strict).and_then(|checked| place(state, checked, &|_| held, now));
        placed.err()
    }

    /// The state of an issuer that has no receipts yet, and of which this is the first.
    fn newcomer(&self, receipt: &Receipt) -> Result<IssuerState, Refusal> {
        match (&self.registered, receipt.body()) {
            (Some(registered), _) => registered.get(receipt.issuer()).cloned(),
            (None, Body::Open(_)) => {
                return match opened_key(receipt) {
                    Some(key) => Ok(IssuerState::registered(key)),
                    None => Err(Refusal::new(
                        RefusalCode::BadOpen,
                        format!("the open of {} names no key of type 0x01 under its own name", receipt.issuer()),
                    )),
                };
            }
            (None, _) => {
                return Err(Refusal::new(
                    RefusalCode::UnknownIssuer,
                    format!("{} never opened a stream before it", receipt.issuer()),
                ));
            }
        }
        .map(IssuerState::registered)
        .ok_or_else(|| Refusal::unknown_issuer(receipt))
    }
}

/// The key that an `open` names, if an issuer of its name can be registered with it.
pub(crate) fn opened_key(receipt: &Receipt) -> Option<VerifierKey> {
    let Body::Open(open) = receipt.body() else { return None };
    let key: VerifierKey = open.vkey.shown()?.parse().ok()?;
    (*key.name() == receipt.issuer().0 && key.kind() == KeyKind::Ed25519).then_some(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::sample::{Held, NAME, START, decision_body, key, named_key, rotate_body, signed};
    use serde_json::json;

    fn read(roll: &mut Roll, receipts: &[Receipt]) -> Result<Vec<Unsigned>, (usize, RefusalCode)> {
        let mut placed = Vec::new();
        for (index, receipt) in receipts.iter().enumerate() {
            let one = roll.place(LeafIndex(index as u64), receipt.clone(), None);
            placed.push(one.map_err(|refusal| (index, refusal.code))?);
        }
        Ok(placed)
    }

    fn stream() -> Held {
        let mut held = Held::receipts(4);
        held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
        held.add_next(&decision_body(5), &[&key(1)]);
        held
    }

    #[test]
    fn reading_a_log_ends_in_the_states_that_admission_made() {
        let held = stream();
        for mut roll in [Roll::of_openers(), Roll::of_registered([key(0).verifier()])] {
            let placed = read(&mut roll, &held.receipts).unwrap();
            assert!(placed.iter().all(|one| one.is_good(&Strict)));
            assert_eq!(roll.states().values().collect::<Vec<_>>(), [&held.state]);
        }
    }

    #[test]
    fn who_exists_is_the_readers_word_or_else_the_opens() {
        let stranger = [named_key("gate.example/other", 3).verifier()];
        let receipts = stream().receipts;
        assert_eq!(read(&mut Roll::of_registered(stranger), &receipts).unwrap_err(), (0, RefusalCode::UnknownIssuer));
        let other_key = Roll::of_registered([key(1).verifier()]);
        assert_eq!(read(&mut other_key.clone(), &receipts).unwrap_err(), (0, RefusalCode::BadOpen));
        // ... which a true judge says by the signature, that comes first.
        assert_eq!(other_key.refusal(&receipts[0], None, None).unwrap().code, RefusalCode::BadSignature);
        assert_eq!(read(&mut Roll::of_openers(), &receipts[1..]).unwrap_err(), (0, RefusalCode::UnknownIssuer));
    }

    #[test]
    fn an_open_that_names_no_key_of_its_own_name_opens_nothing() {
        let strange = named_key("gate.example/other", 3).verifier().to_string();
        let committed = json!({"#": format!("sha256:{}", "0".repeat(64))});
        for vkey in [json!(strange), json!("key"), committed] {
            let open =
                signed(0, ReceiptId::NONE, START, &json!({"type": "open", "vkey": vkey}).to_string(), &[&key(0)]);
            let mut roll = Roll::of_openers();
            assert_eq!(read(&mut roll, &[open]).unwrap_err(), (0, RefusalCode::BadOpen), "{vkey}");
            assert!(roll.states().is_empty());
        }
    }

    #[test]
    fn the_code_of_a_refusal_is_admissions_once_it_is_known_what_is_held() {
        let held = stream();
        let mut roll = Roll::of_openers();
        read(&mut roll, &held.receipts).unwrap();
        let again = &held.receipts[2];
        let other = signed(2, held.receipts[1].id(), START + 2, &decision_body(99), &[&key(0)]);
        let unsigned = signed(6, held.state.head(), START + 6, &decision_body(6), &[&key(0)]);
        for (receipt, code) in
            [(again, RefusalCode::Duplicate), (&other, RefusalCode::Fork), (&unsigned, RefusalCode::BadSignature)]
        {
            assert_eq!(roll.refusal(receipt, Some(again.id()), None).unwrap().code, code);
            assert_eq!(held.judge(receipt.bytes(), None).unwrap_err().code, code);
        }
        let presumed = roll.place(LeafIndex(6), unsigned, None).unwrap();
        assert!(!presumed.is_good(&Strict));
        assert_eq!(presumed.refusal().code, RefusalCode::BadSignature);
    }

    #[test]
    fn states_of_others_than_those_who_exist_are_not_gone_on_from() {
        let state = stream().state;
        let mut registered = Roll::of_registered([key(0).verifier()]);
        assert!(registered.resume([state.clone()]));
        assert_eq!(registered.states().len(), 1);
        for keys in [vec![], vec![key(1).verifier()]] {
            let mut other = Roll::of_registered(keys);
            assert!(!other.resume([state.clone()]));
            assert!(other.states().is_empty());
        }
        assert!(Roll::of_openers().resume([state]));
        assert_eq!(IssuerName::new(NAME).unwrap(), *registered.states().keys().next().unwrap());
    }
}
