//! What the signed formats have in common: a receipt in its own canonical bytes, believed only under a key that the
//! auditor pinned, in a chain of its own.
//!
//! A format's file turns carried bytes into a [`Signed`]; this file asks the pinned keys and hands the receipt on to its
//! chain ([`super::chains`]). A key that stands in the receipt itself is compared, never believed.

use super::chains::{Chains, Standing};
use super::pinned::{PinnedKeys, Trust};
use crate::amount::amount;
use crate::quote::quoted;
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use receipt::ijson::{self, JsonError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Another system's receipt, read by its own format's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    /// Who it says issued it; empty where the format names only keys.
    pub(super) issuer: String,
    /// The key that it says signed it, as the format names keys.
    pub(super) kid: String,
    /// What the signature is over.
    pub(super) message: Vec<u8>,
    pub(super) signature: [u8; 64],
    /// What else the receipt says that its message does not cover, in canonical form; empty if there is nothing.
    pub(super) beside: String,
    /// Its place among others.
    pub(super) place: Place,
    /// Members that no signature covers, in words; `None` if there are none.
    pub(super) uncovered: Option<&'static str>,
}

/// Where a receipt says it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The chain's own name, where the format gives it one.
    pub(super) chain: Option<String>,
    /// Its number, where the format counts.
    pub(super) number: Option<u64>,
    /// The link that it continues; `None` for a first one.
    pub(super) previous: Option<String>,
    /// The link by which the next one continues it.
    pub(super) link: String,
    /// The link is over text that was not carried as it was spelt: it may be another one than the next receipt continues.
    pub(super) respelt: bool,
    /// It says that nothing comes after it.
    pub(super) closes: Closing,
}

/// What a receipt says of what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// Its chain is at rest; the format does not forbid more.
    Rests,
    /// Nothing may follow.
    Ends,
}

/// Why a carried text is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The fault of whoever wrote it: it completes "not a receipt: …".
    Malformed(String),
    /// Beyond what is read here, though other programs may read it.
    Beyond(String),
}

impl From<&'static str> for Unread {
    fn from(why: &'static str) -> Unread {
        Unread::Malformed(String::from(why))
    }
}

/// Strict JSON: what two programs could read in two ways is malformed, what is merely large is beyond us.
pub(super) fn strict_json(text: &str) -> Result<Value, Unread> {
    ijson::parse_value(text).map_err(|error| match error {
        JsonError::Syntax { .. } | JsonError::DuplicateMember { .. } | JsonError::NotAnObject => {
            Unread::Malformed(error.to_string())
        }
        JsonError::TooLong { .. }
        | JsonError::TooDeep { .. }
        | JsonError::NumberOutOfRange { .. }
        | JsonError::Noncharacter { .. } => Unread::Beyond(error.to_string()),
    })
}

/// 64 bytes of signature in lowercase hex: one spelling, so that one receipt has one link.
pub(super) fn signature_of_hex(digits: &str) -> Option<[u8; 64]> {
    let mut bytes = [0; 64];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    (hex::encode(bytes) == digits).then_some(bytes)
}

/// A signed format's checks over all its receipts in a log, in the order of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SignedChecks {
    format: String,
    records: CheckBuilder,
    signatures: CheckBuilder,
    chains: Chains,
    /// Carried texts of any kind.
    carried: u64,
    receipts: u64,
    verified: u64,
}

impl SignedChecks {
    pub(super) fn new(format: &str) -> SignedChecks {
        let check = |name: &str| CheckBuilder::new(Family::Foreign, format!("{format}/{name}"));
        SignedChecks {
            format: format.to_owned(),
            records: check("record"),
            signatures: check("signature"),
            chains: Chains::new(check("chain")),
            carried: 0,
            receipts: 0,
            verified: 0,
        }
    }

    /// Another record than a receipt, which was well formed.
    pub(super) fn other_record(&mut self) {
        self.carried += 1;
        self.records.checked();
    }

    /// A carried text that is none.
    pub(super) fn unread(&mut self, at: &ReceiptRef, why: &Unread) {
        self.carried += 1;
        match why {
            Unread::Malformed(why) => self.records.fail("record-malformed", &[at], || {
                [
                    format!("what the issuer carried here as {} is not one of its records: {why}", self.format),
                    String::from("what it was before somebody changed it, or who did"),
                    String::from("ask the other system's operator for the original record"),
                ]
            }),
            Unread::Beyond(why) => self.records.not_checked("carried-unreadable", &[at], || {
                [
                    format!("a record of {} is carried that is not read here: {why}", self.format),
                    String::from("anything about it"),
                    String::from("check it with that format's own tool"),
                ]
            }),
        }
    }

    /// Checks a receipt; answers whether it is proven to be by a key that the auditor pinned.
    pub(super) fn add(&mut self, at: &ReceiptRef, signed: &Signed, pins: &PinnedKeys) -> bool {
        self.carried += 1;
        self.receipts += 1;
        self.records.checked();
        if let Some(uncovered) = signed.uncovered {
            self.records.notice("member-unsigned", &[at], || {
                [
                    format!("the receipt shows {uncovered}, which its signature does not cover"),
                    String::from("who wrote that: anybody could have changed it"),
                    String::from("do not rely on it"),
                ]
            });
        }
        let verified = self.check_signature(at, signed, pins);
        self.verified += u64::from(verified);
        let standing = Standing { at, signed, verified };
        self.chains.add(&self.format, &standing);
        verified
    }

    fn check_signature(&mut self, at: &ReceiptRef, signed: &Signed, pins: &PinnedKeys) -> bool {
        match pins.of(&self.format, &signed.issuer, &signed.kid) {
            Trust::Under(keys) => {
                self.signatures.checked();
                if keys.iter().any(|key| key.verify(&signed.message, &signed.signature)) {
                    return true;
                }
                self.signatures.fail("foreign-signature-bad", &[at], || {
                    [
                        format!("the receipt{} is not signed by the key pinned as {}", by(signed), quoted(&signed.kid)),
                        String::from("which member was changed, or whether that key's holder ever saw this receipt"),
                        String::from("ask the other system's operator for the original receipt; compare the pinned key with its own"),
                    ]
                });
            }
            Trust::OtherKey => {
                self.signatures.checked();
                self.signatures.fail("foreign-key-other", &[at], || {
                    [
                        format!("the receipt{} says it is signed by {}, which is none of that issuer's pinned keys", by(signed), quoted(&signed.kid)),
                        String::from("whether the issuer has another key by now, or somebody else wrote this"),
                        String::from("ask the issuer; if the key is its own, pin it in the rules file as well"),
                    ]
                });
            }
            Trust::Unpinned => self.signatures.not_checked("foreign-key-unpinned", &[at], || {
                [
                    format!("the receipt{} says it is signed by {}, and no such key is pinned", by(signed), quoted(&signed.kid)),
                    String::from("who wrote it: a key that comes with the receipt proves nothing"),
                    format!("get the key from the other system's operator, not from the receipt, and pin it in the rules file: [[foreign_key]] with format = \"{}\"", self.format),
                ]
            }),
        }
        false
    }

    pub(super) fn finish(self) -> Vec<Check> {
        if self.carried == 0 {
            return Vec::new();
        }
        vec![
            self.records.finish(format!(
                "{} of {} by that format's own rules",
                amount(self.receipts, "receipt", "receipts"),
                self.format
            )),
            self.signatures.finish(format!(
                "{} of {} receipts are signed by keys that the auditor pinned",
                self.verified, self.receipts
            )),
            self.chains.finish(),
        ]
    }
}

fn by(signed: &Signed) -> String {
    if signed.issuer.is_empty() { String::new() } else { format!(" of {}", quoted(&signed.issuer)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::foreign::{acta, obsigna, pipelock};
    use testkit::signed_records::{chain, sorted};

    fn parse(format: &str, text: &str) -> Result<Signed, Unread> {
        match format {
            acta::FORMAT => match acta::Record::parse(text)? {
                acta::Record::Receipt { signed, .. } => Ok(*signed),
                acta::Record::State { .. } => Err(Unread::from("a state")),
            },
            obsigna::FORMAT => obsigna::parse(text),
            _ => pipelock::parse(text),
        }
    }

    /// What the signature covers, as a reader sees it.
    fn shown(format: &str, text: &str) -> String {
        let mut value: Value = serde_json::from_str(text).unwrap();
        match format {
            obsigna::FORMAT => drop(value.as_object_mut().unwrap().remove("proof")),
            pipelock::FORMAT => value = value["action_record"].clone(),
            _ => {}
        }
        sorted(&value)
    }

    #[test]
    fn no_byte_can_be_put_in_or_taken_out_so_that_another_text_has_the_same_signed_bytes() {
        for format in [acta::FORMAT, obsigna::FORMAT, pipelock::FORMAT] {
            let text = chain(format, 1, 2)[1].to_string();
            let good = parse(format, &text).unwrap();
            let mut same = 0;
            for place in 0..text.len() {
                let (before, after) = text.split_at(place);
                let put_in = "{}[],:\" 01.-\\/e\u{1}é".chars().map(|put| format!("{before}{put}{after}"));
                for changed in put_in.chain([format!("{before}{}", &after[1..])]) {
                    let Ok(signed) = parse(format, &changed) else { continue };
                    if (&signed.message, &signed.issuer) == (&good.message, &good.issuer) {
                        same += 1;
                        assert_eq!(shown(format, &changed), shown(format, &text), "{changed}");
                    }
                }
            }
            // White space between tokens at least.
            assert!(same > 50, "{format} {same}");
        }
    }
}
