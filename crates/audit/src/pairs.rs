//! Which outcome and which approval belong to which decision: by the issuer and the request id, or by the decision's
//! receipt id, and by nothing else. Order and time pair nothing.
//!
//! Holds the table and what it answers. Says nothing about what is right: the families do ([`crate::calls`]).
//!
//! A request takes 56 bytes for as long as the audit lasts, since a second outcome may come at any time; what its
//! outcome will be compared with takes about as much again, and is given back when the outcome has come.

use crate::key::Key;
use crate::verdict::ReceiptRef;
use receipt::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most requests that are remembered. With the room that a hash table keeps free, about 700 MB.
pub(crate) const MAX_REQUESTS: usize = 8_000_000;

/// Most outcomes that wait for a decision, and most approvals that wait for a decision or an outcome: some two hundred
/// bytes and fifty. An honest gate writes no outcome before its decision, and has few approvals open at a time.
pub(crate) const MAX_ORPHANS: usize = 100_000;
/// See [`MAX_ORPHANS`].
pub(crate) const MAX_APPROVALS: usize = 1_000_000;

/// Most decisions of one request that are told apart.
const MAX_SEVERAL: usize = 16;

/// No agent, no capability.
pub(crate) const NONE: u32 = u32::MAX;

/// An allowed call whose outcome has not come: what the outcome will be compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) issued_at: UnixMillis,
    /// The action digest of what was decided, where it can be told.
    pub(crate) digest: Option<Key>,
    pub(crate) performer: Performer,
    /// The agent that the verified capability is bound to, by number.
    pub(crate) bound_agent: u32,
    /// A bound agent is there, and only committed to.
    pub(crate) agent_hidden: bool,
    /// Number of the capability whose budget the call takes from.
    pub(crate) capability: u32,
    pub(crate) approval: Asked,
}

/// Who performs an allowed action, by its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Performer {
    Gate,
    Caller,
    Nobody,
    /// The decision only commits to it.
    Hidden,
}

/// Whether the call still needs an approval receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asked {
    /// No rule asks for one, or the decision itself carries one.
    No,
    /// This rule of the auditor's file does.
    By(u16),
    /// Whether one does, or whether it is there, is only committed to.
    Hidden,
}

/// An approval receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Approval {
    /// Its place in the log.
    pub(crate) index: u64,
    pub(crate) answer: Answer,
    pub(crate) digest: Option<Key>,
}

/// What a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Approved,
    Declined,
    /// Only committed to, not said, or two answers that differ.
    Unknown,
    /// Another issuer says that somebody answered.
    Elsewhere,
}

/// Whether an action took place, by its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ran {
    Yes,
    No,
    /// The gate does not know: it stopped, or was stopped, before it could tell.
    Unknown,
}

impl Ran {
    /// What is known of an action with two outcomes: that it ran, if one of them says so.
    fn and(self, other: Ran) -> Ran {
        match (self, other) {
            (Ran::Yes, _) | (_, Ran::Yes) => Ran::Yes,
            (Ran::Unknown, _) | (_, Ran::Unknown) => Ran::Unknown,
            (Ran::No, Ran::No) => Ran::No,
        }
    }
}

/// An outcome that came before any decision it could belong to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Orphan {
    pub(crate) at: ReceiptRef,
    pub(crate) ran: Ran,
    /// The decision that it names.
    pub(crate) names: Option<Key>,
    /// Number of its issuer.
    pub(crate) issuer: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Request {
    /// First half of the decision's receipt id.
    id: Key,
    /// The decision's place in the log.
    index: u64,
    /// The outcome's place in the log once it is settled; before, the slot of what is open.
    other: u64,
    issuer: u32,
    state: State,
    /// Of a settled one: whether the action took place, and whether a rule asked for an approval.
    ran: Ran,
    asked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Open,
    Settled,
    Denied,
    /// Whether it was allowed is only committed to.
    Hidden,
    /// Contradicts itself, in its decisions or by what an outcome names.
    Ambiguous,
}

/// One of several decisions of one request: its id, its place, whether it denies.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OneOf {
    id: Key,
    index: u64,
    denied: bool,
}

/// Decisions, by what outcomes and approvals name them by.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pairs {
    requests: HashMap<Key, Request>,
    slots: Vec<Option<Open>>,
    free: Vec<u32>,
    /// Requests by decision id. Made when the first receipt comes that needs it: most name the request.
    by_id: Option<HashMap<Key, Key>>,
    several: HashMap<Key, Vec<OneOf>>,
    approvals: HashMap<Key, Approval>,
    orphans: HashMap<Key, Orphan>,
    /// More was logged than is remembered.
    pub(crate) full: bool,
}

/// What a new decision says.
pub(crate) enum New {
    Allowed(Open),
    Denied,
    Hidden,
}

/// What a new decision is to its request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    First,
    /// The request was decided before, at this place in the log.
    Again(u64),
    /// It is not remembered.
    Full,
}

/// What an outcome or an approval names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This request of its own issuer.
    Request(Key),
    /// A request and a decision that do not belong together, where they are known.
    Contradiction([Option<Key>; 2]),
    /// A decision of another issuer.
    Elsewhere(Key),
    Nothing,
}

/// What an outcome is to its request. Numbers are places in the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The first outcome of an allowed call.
    Paired {
        decision: u64,
        open: Open,
        approval: Option<Approval>,
    },
    Second {
        decision: u64,
        outcome: u64,
        ran: Ran,
    },
    AfterDeny(u64),
    /// Whether it was allowed is not known.
    Unjudged,
}

/// What an approval is to its request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Approved {
    /// The outcome has not come; `before` is what another approval said.
    Open { decision: u64, open: Open, before: Option<Approval> },
    /// The outcome has come.
    Late { outcome: u64, executed: bool, asked: bool },
    /// Nothing follows from it.
    Ignored,
    /// It is not remembered.
    Full,
}

impl Pairs {
    /// Takes in a decision.
    pub(crate) fn decide(&mut self, key: Key, issuer: u32, at: &ReceiptRef, new: New) -> Decided {
        let (id, index) = (Key::of_digest(&at.id.0), at.index.unwrap_or(u64::MAX));
        let denied = matches!(new, New::Denied);
        if self.requests.contains_key(&key) {
            return self.decide_again(key, OneOf { id, index, denied });
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.full = true;
            return Decided::Full;
        }
        let (state, other, asked) = match new {
            New::Allowed(open) => {
                let asked = matches!(open.approval, Asked::By(_));
                (State::Open, u64::from(self.keep(open)), asked)
            }
            New::Denied => (State::Denied, 0, false),
            New::Hidden => (State::Hidden, 0, false),
        };
        if state != State::Open && !self.approvals.is_empty() {
            self.approvals.remove(&key);
        }
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(id, key);
        }
        self.requests.insert(key, Request { id, index, other, issuer, state, ran: Ran::No, asked });
        Decided::First
    }

    fn decide_again(&mut self, key: Key, new: OneOf) -> Decided {
        let Some(request) = self.requests.get(&key) else { return Decided::Full };
        let (first, denied) = (request.index, request.state == State::Denied);
        let of_first = OneOf { id: request.id, index: first, denied };
        let one_of = self.several.entry(key).or_insert_with(|| vec![of_first]);
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(new.id, key);
        }
        if one_of.len() < MAX_SEVERAL {
            one_of.push(new);
        }
        self.confuse(key);
        Decided::Again(first)
    }

    /// Gives a request up as ambiguous.
    pub(crate) fn confuse(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(&key) else { return };
        let slot = (request.state == State::Open).then_some(request.other);
        request.state = State::Ambiguous;
        self.approvals.remove(&key);
        if let Some(slot) = slot {
            self.release(slot);
        }
    }

    /// The decision of a request: its place in the log, and whether it denies.
    pub(crate) fn decision(&self, key: Key) -> Option<(u64, bool)> {
        self.requests.get(&key).map(|request| (request.index, request.state == State::Denied))
    }

    /// What an outcome or an approval of this issuer names by its two members.
    pub(crate) fn find(&mut self, issuer: u32, request: Option<Key>, decision: Option<Key>) -> Found {
        if let Some((key, known)) = request.and_then(|key| Some((key, self.requests.get(&key)?))) {
            let among = |id: &Key| self.several.get(&key).is_some_and(|all| all.iter().any(|one| one.id == *id));
            return match decision {
                // Another issuer's decision is not this one's to speak of, and stays as it is.
                Some(id) if id != known.id && !among(&id) => {
                    let named =
                        self.by_id(&id).filter(|named| self.requests.get(named).is_some_and(|it| it.issuer == issuer));
                    Found::Contradiction([Some(key), named])
                }
                _ => Found::Request(key),
            };
        }
        let Some(named) = decision.and_then(|id| self.by_id(&id)) else { return Found::Nothing };
        match self.requests.get(&named) {
            Some(known) if known.issuer != issuer => Found::Elsewhere(named),
            Some(_) if request.is_none() => Found::Request(named),
            _ => Found::Contradiction([None, Some(named)]),
        }
    }

    fn by_id(&mut self, id: &Key) -> Option<Key> {
        let by_id = self.by_id.get_or_insert_with(|| {
            let several = self.several.iter().flat_map(|(key, all)| all.iter().map(|one| (one.id, *key)));
            self.requests.iter().map(|(key, request)| (request.id, *key)).chain(several).collect()
        });
        by_id.get(id).copied()
    }

    /// Takes in the outcome of a request that [`Pairs::find`] found; `decision` is the id that it names.
    pub(crate) fn settle(&mut self, key: Key, decision: Option<Key>, outcome: u64, ran: Ran) -> Settled {
        let Some(request) = self.requests.get_mut(&key) else { return Settled::Unjudged };
        match request.state {
            State::Open => {
                let slot = request.other;
                let decision = request.index;
                (request.state, request.other, request.ran) = (State::Settled, outcome, ran);
                let approval = if self.approvals.is_empty() { None } else { self.approvals.remove(&key) };
                // A second approval, after the action, takes nothing from the first.
                request.asked &= approval.is_none();
                match self.release(slot) {
                    Some(open) => Settled::Paired { decision, open, approval },
                    None => Settled::Unjudged,
                }
            }
            State::Settled => {
                let second = Settled::Second { decision: request.index, outcome: request.other, ran: request.ran };
                request.ran = request.ran.and(ran);
                second
            }
            State::Denied => Settled::AfterDeny(request.index),
            State::Hidden => Settled::Unjudged,
            State::Ambiguous => {
                let several = self.several.get(&key).map(Vec::as_slice).unwrap_or_default();
                match several.iter().find(|one| Some(one.id) == decision && one.denied) {
                    Some(denied) => Settled::AfterDeny(denied.index),
                    None => Settled::Unjudged,
                }
            }
        }
    }

    /// Keeps an outcome until its decision comes.
    pub(crate) fn wait(&mut self, key: Key, orphan: Orphan) -> Result<(), Orphan> {
        if self.orphans.contains_key(&key) || self.orphans.len() >= MAX_ORPHANS {
            return Err(orphan);
        }
        self.orphans.insert(key, orphan);
        Ok(())
    }

    /// The outcome that came before this decision of this issuer, and whether it names no other one. Another issuer's goes
    /// on waiting: it is not this one's.
    pub(crate) fn orphan(&mut self, key: Key, issuer: u32, at: &ReceiptRef) -> Option<(Orphan, bool)> {
        if self.orphans.is_empty() {
            return None;
        }
        let id = Key::of_digest(&at.id.0);
        let is_own = |key: &Key| self.orphans.get(key).is_some_and(|orphan| orphan.issuer == issuer);
        let place = [key, id].into_iter().find(is_own)?;
        let orphan = self.orphans.remove(&place)?;
        let agrees = orphan.names.is_none_or(|named| named == id);
        Some((orphan, agrees))
    }

    /// Marks a request whose outcome came before its decision as settled.
    pub(crate) fn settle_early(&mut self, key: Key, orphan: &Orphan) {
        let Some(request) = self.requests.get_mut(&key).filter(|request| request.state == State::Open) else { return };
        let slot = request.other;
        request.state = State::Settled;
        (request.other, request.ran) = (orphan.at.index.unwrap_or(u64::MAX), orphan.ran);
        self.approvals.remove(&key);
        self.release(slot);
    }

    /// What a person has said of this request so far.
    pub(crate) fn approval(&self, key: &Key) -> Option<&Approval> {
        if self.approvals.is_empty() { None } else { self.approvals.get(key) }
    }

    /// Takes in an approval of a request; of one that is not decided yet, too.
    pub(crate) fn approve(&mut self, key: Key, approval: Approval) -> Approved {
        let (decision, open) = match self.requests.get(&key) {
            None => (None, None),
            Some(request) => match request.state {
                State::Open => (Some(request.index), self.open(request.other)),
                State::Settled => {
                    let Request { other, ran, asked, .. } = *request;
                    return Approved::Late { outcome: other, executed: ran == Ran::Yes, asked };
                }
                State::Denied | State::Hidden | State::Ambiguous => return Approved::Ignored,
            },
        };
        if self.approvals.len() >= MAX_APPROVALS && !self.approvals.contains_key(&key) {
            return Approved::Full;
        }
        let before = self.approvals.get(&key).cloned();
        let is_elsewhere = |approval: &Approval| approval.answer == Answer::Elsewhere;
        let kept = match &before {
            // What another issuer says counts only where this one says nothing.
            Some(before) if is_elsewhere(&approval) => before.clone(),
            Some(before) if is_elsewhere(before) => approval,
            Some(before) if before.answer != approval.answer || before.digest != approval.digest => {
                Approval { answer: Answer::Unknown, ..approval }
            }
            _ => approval,
        };
        self.approvals.insert(key, kept);
        match (decision, open) {
            (Some(decision), Some(open)) => {
                Approved::Open { decision, open, before: before.filter(|before| !is_elsewhere(before)) }
            }
            // Told when the decision comes.
            _ => Approved::Ignored,
        }
    }

    /// Allowed calls without outcome, in the order of the log: the place of each one's decision, and its key.
    pub(crate) fn unanswered(&self) -> Vec<(u64, Key)> {
        let open = self.requests.iter().filter(|(_, request)| request.state == State::Open);
        let mut all: Vec<(u64, Key)> = open.map(|(key, request)| (request.index, *key)).collect();
        all.sort_unstable();
        all
    }

    /// One of them: its issuer, what it says, what a person said.
    pub(crate) fn unanswered_call(&self, key: &Key) -> Option<(u32, &Open, Option<Answer>)> {
        let request = self.requests.get(key)?;
        let open = self.slots.get(usize::try_from(request.other).ok()?)?.as_ref()?;
        Some((request.issuer, open, self.approval(key).map(|approval| approval.answer)))
    }

    /// The decision of another issuer that an outcome without one of its own names: its place in the log, and whether it
    /// denies.
    pub(crate) fn elsewhere(&mut self, orphan: &Orphan) -> Option<(u64, bool)> {
        let named = self.by_id(&orphan.names?)?;
        let request = self.requests.get(&named).filter(|request| request.issuer != orphan.issuer)?;
        Some((request.index, request.state == State::Denied))
    }

    /// Outcomes that never found a decision, in the order of the log.
    pub(crate) fn orphans(&mut self) -> Vec<Orphan> {
        let mut orphans: Vec<Orphan> = std::mem::take(&mut self.orphans).into_values().collect();
        orphans.sort_unstable_by_key(|orphan| orphan.at.index);
        orphans
    }

    fn open(&self, slot: u64) -> Option<Open> {
        self.slots.get(usize::try_from(slot).ok()?)?.clone()
    }

    fn keep(&mut self, open: Open) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(open);
                slot
            }
            None => {
                self.slots.push(Some(open));
                // At most MAX_REQUESTS.
                self.slots.len() as u32 - 1
            }
        }
    }

    fn release(&mut self, slot: u64) -> Option<Open> {
        let slot = u32::try_from(slot).ok()?;
        let open = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use merkle::{Hash, LeafIndex};
    use receipt::{ReceiptId, SeqNo};
    use std::sync::Arc;

    fn at(number: u64) -> ReceiptRef {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        ReceiptRef::new(LeafIndex(number), &Arc::from("gate"), SeqNo(number), ReceiptId(Hash(id)))
    }

    fn id(number: u64) -> Key {
        Key::of_digest(&at(number).id.0)
    }

    fn open() -> Open {
        Open {
            issued_at: UnixMillis(0),
            digest: None,
            performer: Performer::Gate,
            bound_agent: NONE,
            agent_hidden: false,
            capability: NONE,
            approval: Asked::No,
        }
    }

    fn request(number: u64) -> Key {
        Key::within(0, &number.to_string())
    }

    #[test]
    fn what_is_settled_gives_its_room_back() {
        let mut pairs = Pairs::default();
        for number in 0..1000 {
            let new = New::Allowed(open());
            assert_eq!(pairs.decide(request(number), 0, &at(number), new), Decided::First);
            let settled = pairs.settle(request(number), None, number + 1, Ran::Yes);
            assert_eq!(settled, Settled::Paired { decision: number, open: open(), approval: None });
        }
        assert_eq!((pairs.slots.len(), pairs.unanswered().len()), (1, 0));
    }

    #[test]
    fn decisions_are_found_by_id_whether_they_came_before_or_after_the_first_that_asks() {
        let mut pairs = Pairs::default();
        pairs.decide(request(1), 0, &at(1), New::Denied);
        pairs.decide(request(1), 0, &at(2), New::Denied);
        assert_eq!(pairs.find(0, None, Some(id(1))), Found::Request(request(1)));
        pairs.decide(request(3), 0, &at(3), New::Denied);
        pairs.decide(request(3), 0, &at(4), New::Denied);
        for (number, of) in [(2, 1), (3, 3), (4, 3)] {
            assert_eq!(pairs.find(0, None, Some(id(number))), Found::Request(request(of)));
            assert_eq!(pairs.find(0, Some(request(of)), Some(id(number))), Found::Request(request(of)));
            assert_eq!(pairs.find(1, None, Some(id(number))), Found::Elsewhere(request(of)));
        }
        assert_eq!(
            pairs.find(0, Some(request(1)), Some(id(3))),
            Found::Contradiction([Some(request(1)), Some(request(3))])
        );
        assert_eq!(pairs.find(0, Some(request(9)), Some(id(3))), Found::Contradiction([None, Some(request(3))]));
        assert_eq!(pairs.find(0, None, Some(id(9))), Found::Nothing);
        assert_eq!(pairs.find(0, Some(request(9)), None), Found::Nothing);
    }

    #[test]
    fn outcomes_and_approvals_that_wait_are_bounded() {
        let mut pairs = Pairs::default();
        let orphan = Orphan { at: at(0), ran: Ran::Yes, names: None, issuer: 0 };
        for number in 0..MAX_ORPHANS as u64 {
            assert!(pairs.wait(id(number), orphan.clone()).is_ok());
        }
        assert_eq!(pairs.wait(id(u64::MAX), orphan.clone()), Err(orphan));
        let approval = Approval { index: 0, answer: Answer::Approved, digest: None };
        for number in 0..MAX_APPROVALS as u64 {
            assert_eq!(pairs.approve(id(number), approval.clone()), Approved::Ignored);
        }
        assert_eq!(pairs.approve(id(u64::MAX), approval.clone()), Approved::Full);
        assert_eq!(pairs.approve(id(0), approval), Approved::Ignored);
    }

    #[test]
    fn a_request_takes_as_little_as_is_said() {
        assert!(size_of::<(Key, Request)>() <= 64, "{}", size_of::<(Key, Request)>());
        assert!(size_of::<Option<Open>>() <= 56, "{}", size_of::<Option<Open>>());
    }
}
