//! A receipt at a glance: its first five lines, without its body and its signature.
//!
//! For whoever reads a log again and knows by the signed root that its entries are those that were admitted: most
//! receipts move their issuer's state on by nothing but what stands here, and reading their bodies costs ten times as
//! much. A glance never refuses anything: where it does not say yes, the rule itself ([`crate::admit()`]) is asked.

use crate::id::{IssuerName, ReceiptId, SeqNo, UnixMillis};
use crate::receipt::MAGIC;
use merkle::Hash;
use merkle::decimal::parse_u64;

/// The types whose receipts change more than the position, and the character that could spell them in another way.
const NOT_PLAIN: [&str; 4] = ["\"open\"", "\"rotate\"", "\"close\"", "\\"];

/// Lines 2 to 5 of a receipt whose body is none of those that the rule looks into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Line 2.
    pub issuer: IssuerName,
    /// Line 3.
    pub seq: SeqNo,
    /// Line 4.
    pub prev: ReceiptId,
    /// Line 5.
    pub issued_at: UnixMillis,
}

impl Heading {
    /// Reads an entry; `None` for one that has to be read whole: an `open`, a `rotate`, a `close`, what might be one,
    /// one that carries more than one signature line, and what is no receipt at a glance.
    pub fn of(entry: &[u8]) -> Option<Heading> {
        let entry = std::str::from_utf8(entry).ok()?;
        let mut lines = entry.splitn(8, '\n');
        let mut next = || lines.next();
        let (magic, issuer, seq, prev, issued_at, body) = (next()?, next()?, next()?, next()?, next()?, next()?);
        let (blank, signature) = (next()?, next()?);
        let signature = signature.strip_suffix('\n')?;
        let is_plain = magic == MAGIC
            && body.starts_with("{\"type\":\"")
            && body.ends_with('}')
            && blank.is_empty()
            && signature.starts_with("— ")
            && !signature.contains('\n')
            && !NOT_PLAIN.iter().any(|word| body.contains(word));
        if !is_plain {
            return None;
        }
        Some(Heading {
            issuer: IssuerName::new(issuer).ok()?,
            seq: SeqNo(parse_u64(seq)?),
            prev: ReceiptId(Hash::from_base64(prev)?),
            issued_at: UnixMillis(parse_u64(issued_at)?),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::sample::{Held, key, rotate_body};
    use crate::{Receipt, place, presume_signature};
    use proptest::prelude::*;

    #[test]
    fn a_glance_sees_what_reading_sees_and_leaves_the_rest_to_it() {
        let mut held = Held::receipts(3);
        held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
        held.add_next(r#"{"type":"heartbeat"}"#, &[&key(1)]);
        held.add_next(r#"{"type":"note","text":"\u0063lose"}"#, &[&key(1)]);
        held.add_next(r#"{"type":"close"}"#, &[&key(1)]);
        let glances: Vec<bool> = held.receipts.iter().map(|receipt| Heading::of(receipt.bytes()).is_some()).collect();
        assert_eq!(glances, [false, true, true, false, true, false, false]);
        for receipt in &held.receipts {
            if let Some(heading) = Heading::of(receipt.bytes()) {
                let read = (receipt.issuer().clone(), receipt.seq(), receipt.prev(), receipt.issued_at());
                assert_eq!((heading.issuer, heading.seq, heading.prev, heading.issued_at), read);
            }
        }
    }

    proptest! {
        #[test]
        fn a_state_follows_a_glance_exactly_where_the_rule_places_the_receipt(
            drops in prop::collection::vec(0usize..8, 0..3), swap in any::<bool>(),
        ) {
            let mut held = Held::receipts(4);
            held.add_next(&rotate_body(1), &[&key(0), &key(1)]);
            for _ in 0..2 {
                held.add_next(r#"{"type":"heartbeat"}"#, &[&key(1)]);
            }
            held.add_next(r#"{"type":"close"}"#, &[&key(1)]);
            let mut receipts: Vec<Receipt> = held.receipts.clone();
            drops.into_iter().for_each(|place| if place < receipts.len() { receipts.remove(place); });
            if swap && receipts.len() > 3 {
                receipts.swap(2, 3);
            }
            let mut state = crate::sample::registered();
            for receipt in receipts {
                let presumed = presume_signature(&receipt, &state).unwrap();
                let placed = place(&state, presumed, &|_| None, None).ok().map(|placed| placed.state);
                if let Some(heading) = Heading::of(receipt.bytes()) {
                    let mut followed = state.clone();
                    prop_assert_eq!(followed.follow(&heading, receipt.id()), placed.is_some());
                    prop_assert_eq!(&followed, placed.as_ref().unwrap_or(&state));
                }
                if let Some(placed) = placed {
                    state = placed;
                }
            }
        }
    }
}
