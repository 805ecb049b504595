//! Chains of another system's receipts: each continues the one before it, by number and by link.
//!
//! Receipts are judged in the order of the log, whichever gate carried them, so that two gates that hold two versions of
//! one chain are found out. What is proven to be by a pinned key and what is not are followed apart: a receipt that
//! anybody could have written takes no place in a chain that somebody signed.
//!
//! What nothing can show is said: where a chain has no closing receipt, its end may be cut off.

use super::signed::{Closing, Signed};
use crate::amount::amount;
use crate::key::Key;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, ReceiptRef, Severity};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A receipt that is to take its place.
pub(super) struct Standing<'record> {
    pub(super) at: &'record ReceiptRef,
    pub(super) signed: &'record Signed,
    /// It is proven to be by a pinned key.
    pub(super) verified: bool,
}

/// One format's chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Chains {
    check: CheckBuilder,
    chains: HashMap<Key, Chain>,
    /// By link.
    nodes: HashMap<Key, Node>,
    /// The latest chain of a signer, where chains have no names.
    latest: HashMap<Key, Key>,
    /// By what was signed.
    known: HashMap<Key, Copy>,
    receipts: u64,
    links: u64,
}

/// The first copy of a receipt.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Copy {
    at: ReceiptRef,
    /// What it says beside what its signature covers.
    unsigned: Key,
    /// Its link, which covers spelling too; `None` where it was not carried as it was spelt.
    spelt: Option<Key>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Chain {
    /// Quoted.
    name: String,
    head: ReceiptRef,
    number: Option<u64>,
    /// Link of the head.
    link: Key,
    /// Whether that may be another one than the next receipt continues.
    respelt: bool,
    links: u64,
    closed: bool,
    /// Number and place of the receipt after which nothing may come.
    ended: Option<(Option<u64>, ReceiptRef)>,
}

/// A link: the receipt that has it, and the one that continues it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Node {
    seen: Option<Seen>,
    continued_by: Option<(ReceiptRef, bool)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seen {
    chain: Key,
    signer: Key,
    number: Option<u64>,
    verified: bool,
}

impl Chains {
    pub(super) fn new(check: CheckBuilder) -> Chains {
        Chains {
            check,
            chains: HashMap::new(),
            nodes: HashMap::new(),
            latest: HashMap::new(),
            known: HashMap::new(),
            receipts: 0,
            links: 0,
        }
    }

    pub(super) fn add(&mut self, format: &str, standing: &Standing<'_>) {
        self.receipts += 1;
        if self.is_repeated(standing) {
            return;
        }
        let Standing { at, signed, verified } = standing;
        let place = &signed.place;
        let trust = if *verified { "verified" } else { "unproven" };
        let signer = Key::new(&[trust, format, &signed.issuer, &signed.kid]);
        let link = Key::new(&[format, &place.link]);
        let before = place.previous.as_ref().map(|previous| Key::new(&[format, previous]));
        let before_seen = before.and_then(|before| self.nodes.get(&before)?.seen.clone());
        let own = match (&place.chain, &before_seen) {
            (Some(name), _) => Key::new(&[trust, format, &signed.issuer, name]),
            (None, Some(seen)) if seen.verified == *verified => seen.chain,
            (None, _) if before.is_none() => Key::new(&[trust, format, &place.link]),
            (None, _) => self.latest.get(&signer).copied().unwrap_or(signer),
        };
        match before {
            None => self.check_first(standing, own, signer),
            Some(before) => {
                self.links += 1;
                self.check_link(standing, own, signer, before, before_seen.as_ref());
            }
        }
        self.check_end(standing, own, before);
        if !verified && (before.is_some() || place.number.is_some()) {
            self.check.not_checked("chain-unproven", &[at], || {
                [
                    String::from("the receipt takes a place in a chain, and is not proven to be by a pinned key"),
                    String::from("that the chain is the other system's: whoever can write one receipt can write them all, links included"),
                    String::from("see to the finding about its signature first"),
                ]
            });
        }
        self.check.checked();
        self.latest.insert(signer, own);
        let seen = Seen { chain: own, signer, number: place.number, verified: *verified };
        let node = self.nodes.entry(link).or_default();
        if node.seen.as_ref().is_none_or(|held| *verified && !held.verified) {
            node.seen = Some(seen);
        }
        self.grow(standing, own, link, before.is_some());
    }

    /// Whether the same was signed before. Files that overlap, and gates that carry one history, bring it again as it was: that
    /// says nothing against anybody. Two copies that differ do, in what the signature does not cover.
    fn is_repeated(&mut self, standing: &Standing<'_>) -> bool {
        let Standing { at, signed, verified } = standing;
        let message = hex::encode(Sha256::digest(&signed.message));
        // A bad copy does not stand in the way of a good one.
        let trust = if *verified { "verified" } else { "unproven" };
        let unsigned = Key::new(&[&hex::encode(signed.signature), &signed.beside]);
        let spelt = (!signed.place.respelt).then(|| Key::new(&[&signed.place.link]));
        let first = match self.known.entry(Key::new(&[trust, &signed.issuer, &signed.kid, &message])) {
            Entry::Occupied(first) => first.into_mut(),
            Entry::Vacant(place) => {
                place.insert(Copy { at: (*at).clone(), unsigned, spelt });
                return false;
            }
        };
        // How one was carried is its carrier's choice, and hides no difference.
        let differs = first.unsigned != unsigned || first.spelt.zip(spelt).is_some_and(|(first, spelt)| first != spelt);
        first.spelt = first.spelt.or(spelt);
        let (severity, words) = match differs {
            true => (
                // Whatever anybody could have written accuses nobody.
                if *verified { Severity::Fail } else { Severity::NotChecked },
                [
                    "two copies of one receipt are in the log, and they differ in what its signature does not cover",
                    "which of the two is as the other system wrote it, or who changed the other",
                    "ask the other system's operator for the original; count it once",
                ],
            ),
            false => (
                Severity::Notice,
                [
                    "the receipt is in the log already: files that overlap were imported, or two gates carry one history",
                    "that the action was done twice",
                    "count it once",
                ],
            ),
        };
        self.check.find("receipt-repeated", severity, &[&first.at, at], || words.map(String::from));
        true
    }

    fn check_first(&mut self, standing: &Standing<'_>, own: Key, signer: Key) {
        let Standing { at, signed, verified } = standing;
        if let Some(chain) = self.chains.get(&own) {
            let severity = if *verified { Severity::Fail } else { Severity::NotChecked };
            let first = chain.head.clone();
            self.check.find("chain-fork", severity, &[&first, at], || {
                [
                    format!("the chain {} begins a second time, with another first receipt", chain.name),
                    who_forked(*verified),
                    String::from(
                        "ask the other system's operator which of the two is the history, and where the other went",
                    ),
                ]
            });
        } else if signed.place.number.is_some() && self.latest.contains_key(&signer) {
            self.check.notice("chain-restarted", &[at], || {
                [
                    format!("the key {} begins another chain, and chains of this format have no names", quoted(&signed.kid)),
                    String::from("whether it is another run of that system, or a history begun anew; what the earlier chain said after its last receipt here"),
                    String::from("ask the operator how many runs there were"),
                ]
            });
        }
    }

    fn check_link(&mut self, standing: &Standing<'_>, own: Key, signer: Key, before: Key, seen: Option<&Seen>) {
        let Standing { at, signed, verified } = standing;
        let place = &signed.place;
        let node = self.nodes.entry(before).or_default();
        let other = node.continued_by.clone();
        if other.as_ref().is_none_or(|(_, other_verified)| *verified && !other_verified) {
            node.continued_by = Some(((*at).clone(), *verified));
        }
        if let Some((other, other_verified)) = other {
            let both = *verified && other_verified;
            let severity = if both { Severity::Fail } else { Severity::NotChecked };
            self.check.find("chain-fork", severity, &[&other, at], || {
                [
                    String::from("two different receipts continue the same one"),
                    who_forked(both),
                    String::from("keep both; ask the other system's operator which of them is the history"),
                ]
            });
            // One that anybody could have written does not spare a proven one the rest.
            if both || !verified {
                return;
            }
        }
        match seen {
            Some(seen) => self.check_known_link(standing, own, signer, seen),
            None => {
                let chain = self.chains.get(&own);
                let is_next = |chain: &Chain| chain.number.and_then(|head| head.checked_add(1)) == place.number;
                if let Some(chain) = chain.filter(|chain| chain.respelt && is_next(chain)) {
                    let last = chain.head.clone();
                    self.check.not_checked("link-respelt", &[&last, at], || {
                        [
                            String::from("the receipt before is carried as a JSON value, and the link to it is over its own spelling"),
                            String::from("whether this receipt continues that one; its number does"),
                            String::from("have the carrying gate import such receipts, which keeps their bytes (receipt_b64)"),
                        ]
                    });
                    return;
                }
                let head = chain.map(|chain| (chain.name.clone(), chain.number, chain.head.clone()));
                match (head, place.number) {
                    (Some((name, Some(head), last)), Some(number)) if number > head.saturating_add(1) => {
                        self.report_gap(
                            at,
                            Some(&last),
                            format!("in the chain {name} number {head} is followed by {number}"),
                        );
                    }
                    (Some((name, Some(head), last)), Some(number)) if number <= head => {
                        self.report_order(at, &last, &name, number, head);
                    }
                    (None, Some(number)) => {
                        self.report_gap(
                            at,
                            None,
                            format!(
                                "the first receipt of the chain {} in the log is number {number}",
                                chain_name(signed)
                            ),
                        );
                    }
                    _ => self.check.fail("link-broken", &[at], || {
                        [
                            format!(
                                "the receipt continues {}, and no receipt before it in the log has that link",
                                shown_link(signed)
                            ),
                            String::from("whether a receipt was left out, changed or put in"),
                            String::from("ask the other system's operator for the receipts between"),
                        ]
                    }),
                }
            }
        }
    }

    /// The receipt before is in the log.
    fn check_known_link(&mut self, standing: &Standing<'_>, own: Key, signer: Key, seen: &Seen) {
        let Standing { at, signed, verified } = standing;
        let place = &signed.place;
        if !verified && seen.verified && signer != seen.signer {
            self.check.fail("signer-changed", &[at], || {
                [
                    format!("the receipt continues a chain that a pinned key signed, and is not proven to be by a pinned key itself; it names {}", quoted(&signed.kid)),
                    String::from("who added it: a key that comes with a receipt proves nothing"),
                    String::from("if the other system changed its key, get the new one from its operator and pin it"),
                ]
            });
            return;
        }
        if *verified && seen.chain != own && seen.verified {
            self.check.fail("link-broken", &[at], || {
                [
                    format!(
                        "the receipt says it is of the chain {}, and continues a receipt of another chain",
                        chain_name(signed)
                    ),
                    String::from("which of the two chains it belongs to"),
                    String::from("ask the other system's operator for both chains"),
                ]
            });
            return;
        }
        let (Some(before), Some(number)) = (seen.number, place.number) else { return };
        if number != before.saturating_add(1) {
            self.report_gap(
                at,
                None,
                format!("number {number} continues number {before} of the chain {}", chain_name(signed)),
            );
            return;
        }
        let late = self.chains.get(&own).and_then(|chain| {
            let head = chain.number.filter(|head| number <= *head)?;
            Some((chain.head.clone(), chain.name.clone(), head))
        });
        if let Some((last, name, head)) = late {
            self.report_order(at, &last, &name, number, head);
        }
    }

    fn check_end(&mut self, standing: &Standing<'_>, own: Key, before: Option<Key>) {
        let Standing { at, signed, .. } = standing;
        let Some(chain) = self.chains.get(&own) else { return };
        let Some((number, end)) = &chain.ended else { return };
        let is_after = match (*number, signed.place.number) {
            (Some(last), Some(number)) => number > last,
            _ => before == Some(chain.link),
        };
        if is_after {
            let (name, end) = (chain.name.clone(), end.clone());
            self.check.fail("after-terminal", &[&end, at], || {
                [
                    format!("the chain {name} was said to be at its end, and this receipt comes after"),
                    String::from("whether the end or what follows it was put in"),
                    String::from("ask the other system's operator why the chain went on"),
                ]
            });
        }
    }

    fn grow(&mut self, standing: &Standing<'_>, own: Key, link: Key, continues: bool) {
        let Standing { at, signed, .. } = standing;
        let place = &signed.place;
        let chain = self.chains.entry(own).or_insert_with(|| Chain {
            name: chain_name(signed),
            head: (*at).clone(),
            number: place.number,
            link,
            respelt: place.respelt,
            links: 0,
            closed: false,
            ended: None,
        });
        chain.links += u64::from(continues);
        // Of two of one number the first stays: it is the one that was known when the other came.
        let is_behind = place.number.zip(chain.number).is_some_and(|(number, head)| number < head)
            || place.number.is_some() && place.number == chain.number && chain.link != link;
        if is_behind {
            return;
        }
        chain.head = (*at).clone();
        chain.number = place.number;
        chain.link = link;
        chain.respelt = place.respelt;
        chain.closed = place.closes != Closing::No;
        if place.closes == Closing::Ends {
            chain.ended.get_or_insert((place.number, (*at).clone()));
        }
    }

    fn report_gap(&mut self, at: &ReceiptRef, last: Option<&ReceiptRef>, shown: String) {
        let receipts: Vec<&ReceiptRef> = last.into_iter().chain([at]).collect();
        self.check.fail("sequence-gap", &receipts, || {
            [
                shown,
                String::from("what the missing receipts said"),
                String::from("ask the other system's operator for them; they may be in the log later, which is no better: see the order"),
            ]
        });
    }

    fn report_order(&mut self, at: &ReceiptRef, last: &ReceiptRef, name: &str, number: u64, head: u64) {
        self.check.fail("receipt-reordered", &[last, at], || {
            [
                format!("number {number} of the chain {name} comes into the log after number {head}"),
                String::from("when it was made: it was carried later than what followed it"),
                String::from("ask the carrying gate why it held the receipt back"),
            ]
        });
    }

    pub(super) fn finish(mut self) -> Check {
        let mut open: Vec<&Chain> = self.chains.values().filter(|chain| !chain.closed).collect();
        // Without numbers a receipt that continues nothing and is continued by nothing is no chain.
        open.retain(|chain| chain.number.is_some() || chain.links > 0);
        // In the order of the log, the same in every run.
        open.sort_by_key(|chain| chain.head.index);
        for chain in open {
            self.check.notice("tail-unseen", &[&chain.head], || {
                [
                    format!("the last receipt of the chain {} in the log does not close it", chain.name),
                    String::from(
                        "what came after it, if anything did: an end that was cut off leaves no trace in a chain",
                    ),
                    String::from("ask the other system's operator for its own newest receipt and compare"),
                ]
            });
        }
        let counted = self.chains.values().any(|chain| chain.number.is_some());
        if self.receipts > 0 && self.links == 0 && !counted {
            // The format may chain its receipts; these are not, and nothing was asked that could be missing.
            self.check.required(false).not_checked("no-chain", &[], || {
                [
                    format!(
                        "of {} none continues another: each stands by itself",
                        amount(self.receipts, "receipt", "receipts")
                    ),
                    String::from("that none was left out"),
                    String::from("rely on the carrying gate's own numbering for what was carried"),
                ]
            });
        }
        self.check.finish(format!(
            "{}, {}, {}; the end of a chain without a closing receipt is not shown",
            amount(self.receipts, "receipt", "receipts"),
            amount(self.links, "link", "links"),
            amount(self.chains.len() as u64, "chain", "chains")
        ))
    }
}

fn who_forked(verified: bool) -> String {
    match verified {
        true => String::from("which of the two is the one that the other system acted by"),
        false => String::from("that the other system wrote both: not both are proven to be by a pinned key"),
    }
}

fn chain_name(signed: &Signed) -> String {
    match (&signed.place.chain, signed.issuer.is_empty()) {
        (Some(name), _) => quoted(name),
        (None, true) => format!("of key {}", quoted(&signed.kid)),
        (None, false) => format!("of {}", quoted(&signed.issuer)),
    }
}

fn shown_link(signed: &Signed) -> String {
    signed.place.previous.as_deref().map_or_else(|| String::from("nothing"), quoted)
}
