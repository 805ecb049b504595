//! Proofs that gates or their clients kept: `proofs/*.tlog-proof`, each with the entry it is about beside it.
//!
//! A kept proof whose head the log signed shows that the log held an entry at an index. One that does not verify
//! shows nothing against anybody.

use crate::amount::amount;
use crate::bundle::{BundleSource, MAX_ENTRY_BYTES, ReadError, read_part};
use crate::head::HeadFacts;
use crate::heads::{Heads, KnownHead, Source};
use crate::issuer::ReadEntry;
use crate::quote::{plain, quoted};
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use crate::witnesses::Cosignatures;
use merkle::{Hash, HashSource, LeafIndex, RootHash};
use note::{MAX_PROOF_LEN, Policy, TlogProof, VerifierKey};
use receipt::{OmittedReceipt, Receipt};
use std::collections::BTreeMap;

/// Most kept proofs that are looked at: each takes memory until the log has been read.
const MAX_KEPT: usize = 100_000;

/// Most documents about omitted receipts. One that convicts says all; each may be a few times an entry in length.
const MAX_EVIDENCE: usize = 10;

const PROOF_ENDING: &str = ".tlog-proof";
const ENTRY_ENDING: &str = ".entry";

/// An entry that the log once held, as a kept proof shows; read again where it is looked at, for a receipt takes many
/// times the memory of its bytes.
#[derive(Debug)]
pub(crate) struct KeptReceipt {
    /// Where the proof is.
    pub(crate) path: String,
    /// Where in the log it proves the entry to be.
    pub(crate) index: LeafIndex,
    /// What the log presented holds there.
    pub(crate) place: Place,
    leaf: Hash,
    /// Size and root of the head that it is proven under.
    head: (u64, RootHash),
}

/// What stands in the log presented where a kept proof proves an entry to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The entry.
    Same,
    /// Another one.
    Other,
    /// Nothing: the entries end before it.
    Beyond,
}

/// Documents about entries that were proven and that the log presented does not hold there (`omitted-receipt`). One with
/// another entry in its place, under a head that vouches for it, convicts the log. `complete`: all entries under the
/// newest head presented were there to read; where they were not, that one is not there says nothing.
pub(crate) fn documents(
    facts: &HeadFacts<'_>,
    authenticated: u64,
    kept: &[KeptReceipt],
    complete: bool,
) -> Result<Vec<serde_json::Value>, ReadError> {
    let mut made = Vec::new();
    let is_omitted = |kept: &&KeptReceipt| match kept.place {
        Place::Same => false,
        Place::Other => true,
        Place::Beyond => complete,
    };
    for kept in kept.iter().filter(is_omitted).take(MAX_EVIDENCE) {
        let bytes = read_part(facts.bundle, &kept.path, MAX_PROOF_LEN as u64)?.unwrap_or_default();
        let entry = read_part(facts.bundle, &entry_path(&kept.path), MAX_ENTRY_BYTES)?.unwrap_or_default();
        let Ok(proof) = TlogProof::parse(&bytes) else { continue };
        let head = match kept.index.0 < authenticated {
            true => facts.anchor(authenticated, authenticated)?,
            false => None,
        };
        let presented = match &head {
            Some(head) => Some(facts.inclusion_tiles([kept.index].into_iter(), head.checkpoint().size)?),
            None => None,
        };
        let presented = head.as_ref().zip(presented.as_ref()).map(|(head, tiles)| (head, tiles as &dyn HashSource));
        // Where the tiles do not show the other entry, the kept proof still says what must be there.
        let document = OmittedReceipt::make(facts.log, &proof, &entry, presented)
            .or_else(|_| OmittedReceipt::make(facts.log, &proof, &entry, None));
        made.extend(document.ok().and_then(|document| serde_json::to_value(document).ok()));
    }
    Ok(made)
}

/// Whether a file is a kept proof.
pub(crate) fn is_proof(path: &str) -> bool {
    path.starts_with("proofs/") && path.ends_with(PROOF_ENDING)
}

/// The proof that a file under `proofs/` is the entry of, if by its name it is one.
pub(crate) fn proof_of_entry(path: &str) -> Option<String> {
    let start = path.strip_suffix(ENTRY_ENDING).filter(|start| start.starts_with("proofs/"))?;
    Some(format!("{start}{PROOF_ENDING}"))
}

impl KeptReceipt {
    /// The receipt, if the entry is one.
    pub(crate) fn read(&self, bundle: &dyn BundleSource) -> Result<Option<Receipt>, ReadError> {
        let entry = read_part(bundle, &entry_path(&self.path), MAX_ENTRY_BYTES)?.unwrap_or_default();
        Ok(Receipt::parse(&entry).ok().filter(|receipt| receipt.id().0 == self.leaf))
    }
}

fn entry_path(proof_path: &str) -> String {
    format!("{}{ENTRY_ENDING}", proof_path.strip_suffix(PROOF_ENDING).unwrap_or(proof_path))
}

/// The kept proofs of one bundle.
#[derive(Debug)]
pub(crate) struct KeptProofs {
    check: CheckBuilder,
    /// Which of `receipts` are proven to be at an index that has not been compared yet.
    proven: BTreeMap<u64, Vec<usize>>,
    receipts: Vec<KeptReceipt>,
    files: usize,
    verified: usize,
}

impl KeptProofs {
    /// Reads and verifies all of them; their heads go to the others.
    pub(crate) fn read(
        bundle: &dyn BundleSource,
        paths: &[String],
        policy: &Policy,
        log: &VerifierKey,
        heads: &mut Heads,
        cosignatures: &mut Cosignatures,
        lines: &mut CheckBuilder,
    ) -> Result<KeptProofs, ReadError> {
        let mut kept = KeptProofs {
            check: CheckBuilder::new(Family::Head, "kept-proofs"),
            proven: BTreeMap::new(),
            receipts: Vec::new(),
            files: 0,
            verified: 0,
        };
        for path in paths.iter().filter(|path| is_proof(path)) {
            kept.files += 1;
            if kept.files > MAX_KEPT {
                kept.check.not_checked("proofs-too-many", &[], || {
                    [
                        format!("the bundle holds more than {MAX_KEPT} kept proofs"),
                        String::from("anything about the rest"),
                        String::from("split the bundle"),
                    ]
                });
                break;
            }
            if let Err(why) = kept.read_one(bundle, path, policy, log, heads, cosignatures, lines)? {
                kept.check.not_checked("proof-unverified", &[], || {
                    [
                        format!("{} proves nothing: {why}", quoted(path)),
                        String::from("anything against the log or the issuer: anybody can make a bad proof"),
                        String::from("ask whoever kept it for the original"),
                    ]
                });
            }
        }
        Ok(kept)
    }

    #[allow(clippy::too_many_arguments)] // The same that `read` was given, and the path.
    fn read_one(
        &mut self,
        bundle: &dyn BundleSource,
        path: &str,
        policy: &Policy,
        log: &VerifierKey,
        heads: &mut Heads,
        cosignatures: &mut Cosignatures,
        lines: &mut CheckBuilder,
    ) -> Result<Result<(), String>, ReadError> {
        let Some(bytes) = read_part(bundle, path, MAX_PROOF_LEN as u64)? else {
            return Ok(Err(String::from("it cannot be found again")));
        };
        let Some(entry) = read_part(bundle, &entry_path(path), MAX_ENTRY_BYTES)? else {
            return Ok(Err(String::from("its .entry is not beside it")));
        };
        let proof = match TlogProof::parse(&bytes) {
            Ok(proof) => proof,
            Err(error) => return Ok(Err(plain(&error.to_string()))),
        };
        let leaf = merkle::leaf_hash(&entry);
        let verified = match proof.verify_inclusion(&leaf, policy) {
            Ok(verified) => verified,
            Err(error) => return Ok(Err(plain(&error.to_string()))),
        };
        if verified.checkpoint.log_key() != log {
            return Ok(Err(String::from("it is a proof of another log of the policy")));
        }
        self.verified += 1;
        self.check.checked();
        let found_in = format!("the kept proof {}", quoted(path));
        cosignatures.read(policy, log, &verified.checkpoint, &found_in, lines);
        let head = (verified.checkpoint.checkpoint().size.0, verified.checkpoint.checkpoint().root);
        heads.learn(KnownHead::new(verified.checkpoint, found_in, Source::Kept));
        self.proven.entry(proof.index.0).or_default().push(self.receipts.len());
        self.receipts.push(KeptReceipt { path: path.to_owned(), index: proof.index, place: Place::Beyond, leaf, head });
        Ok(Ok(()))
    }

    /// Compares an entry of the log with what was proven to be at its index.
    pub(crate) fn compare(&mut self, index: LeafIndex, leaf: &Hash) {
        for kept in self.proven.remove(&index.0).unwrap_or_default() {
            let kept = &mut self.receipts[kept];
            kept.place = if kept.leaf == *leaf { Place::Same } else { Place::Other };
            if kept.place == Place::Other {
                let at = ReceiptRef::entry(index, *leaf);
                self.check.fail("omitted-receipt", &[&at], || {
                    [
                        format!(
                            "{} proves another entry at this index than the log presented holds",
                            quoted(&kept.path)
                        ),
                        String::from("who changed it: the log, or whoever made the bundle"),
                        String::from("publish the evidence document, if this report holds one; else fetch the log again from its own address"),
                    ]
                });
            }
        }
    }

    /// The same for entries before `size`, which an earlier audit read: a proof under a head of the same tree proves its
    /// entry to be there still; for the others it is looked up.
    pub(crate) fn compare_before(
        &mut self,
        size: u64,
        roots: &BTreeMap<u64, RootHash>,
        read_entry: ReadEntry<'_>,
    ) -> Result<(), ReadError> {
        let before: Vec<u64> = self.proven.range(..size).map(|(index, _)| *index).collect();
        for index in before {
            let of_index = self.proven.get(&index).map(Vec::as_slice).unwrap_or_default();
            let leaf = of_index.iter().map(|kept| &self.receipts[*kept]).find_map(|kept| {
                let (size, root) = kept.head;
                (roots.get(&size) == Some(&root)).then_some(kept.leaf)
            });
            let leaf = match leaf {
                Some(leaf) => Some(leaf),
                None => read_entry(LeafIndex(index))?.map(|entry| merkle::leaf_hash(&entry)),
            };
            if let Some(leaf) = leaf {
                self.compare(LeafIndex(index), &leaf);
            }
        }
        Ok(())
    }

    /// The check, once the log was read up to `entries`; and the receipts that were proven.
    pub(crate) fn finish(mut self, entries: u64) -> (Check, Vec<KeptReceipt>) {
        for kept in std::mem::take(&mut self.proven).into_values().flatten() {
            let path = &self.receipts[kept].path;
            self.check.not_checked("proof-beyond", &[], || {
                [
                    format!(
                        "{} proves an entry at an index beyond what the bundle holds, {}",
                        quoted(path),
                        amount(entries, "entry", "entries")
                    ),
                    String::from("whether the log still holds it"),
                    String::from("fetch the bundle again"),
                ]
            });
        }
        self.check.required(self.files > 0);
        let covers = match self.files {
            0 => String::from("nothing of this kind in the bundle"),
            files => format!(
                "{} of {files} kept proofs verify, and their entries are where they were proven to be unless said otherwise",
                self.verified
            ),
        };
        (self.check.finish(covers), self.receipts)
    }
}
