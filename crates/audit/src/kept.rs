//! Proofs that gates or their clients kept: `proofs/*.tlog-proof`, each with the entry it is about beside it.
//!
//! A kept proof whose head the log signed shows that the log held an entry at an index. One that does not verify
//! shows nothing against anybody.

use crate::bundle::{BundleSource, MAX_ENTRY_BYTES, ReadError, read_part};
use crate::heads::{Heads, KnownHead};
use crate::quote::{plain, quoted};
use crate::verdict::{Check, CheckBuilder, Family, ReceiptRef};
use crate::witnesses::Cosignatures;
use merkle::{Hash, LeafIndex};
use note::{MAX_PROOF_LEN, Policy, TlogProof, VerifierKey};
use receipt::Receipt;
use std::collections::BTreeMap;

/// Most kept proofs that are looked at: each takes memory until the log has been read.
const MAX_KEPT: usize = 100_000;

const PROOF_ENDING: &str = ".tlog-proof";
const ENTRY_ENDING: &str = ".entry";

/// An entry that the log once held, as a kept proof shows; read again where it is looked at, for a receipt takes many
/// times the memory of its bytes.
#[derive(Debug)]
pub(crate) struct KeptReceipt {
    /// Where the proof is.
    pub(crate) path: String,
    leaf: Hash,
}

/// Whether a file is a kept proof or a kept entry.
pub(crate) fn is_kept(path: &str) -> bool {
    path.starts_with("proofs/") && (path.ends_with(PROOF_ENDING) || path.ends_with(ENTRY_ENDING))
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
    /// Proven entries by index in the log: where the proof is, and what the entry's hash must be.
    proven: BTreeMap<u64, Vec<(String, Hash)>>,
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
        let is_proof = |path: &&String| path.starts_with("proofs/") && path.ends_with(PROOF_ENDING);
        for path in paths.iter().filter(is_proof) {
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
        heads.learn(KnownHead { checkpoint: verified.checkpoint, found_in });
        self.proven.entry(proof.index.0).or_default().push((path.to_owned(), leaf));
        self.receipts.push(KeptReceipt { path: path.to_owned(), leaf });
        Ok(Ok(()))
    }

    /// Compares an entry of the log with what was proven to be at its index.
    pub(crate) fn compare(&mut self, index: LeafIndex, leaf: &Hash) {
        for (path, proven) in self.proven.remove(&index.0).unwrap_or_default() {
            if proven != *leaf {
                let at = ReceiptRef::entry(index, *leaf);
                self.check.fail("omitted-receipt", &[&at], || {
                    [
                        format!("{} proves another entry at this index than the log presented holds", quoted(&path)),
                        String::from("who changed it: the log, or whoever made the bundle"),
                        String::from("fetch the log again from its own address; if it differs there too, the log signed two histories"),
                    ]
                });
            }
        }
    }

    /// The check, once the log was read up to `entries`; and the receipts that were proven.
    pub(crate) fn finish(mut self, entries: u64) -> (Check, Vec<KeptReceipt>) {
        for (path, _) in std::mem::take(&mut self.proven).into_values().flatten() {
            self.check.not_checked("proof-beyond", &[], || {
                [
                    format!(
                        "{} proves an entry at an index beyond the {entries} entries that the bundle holds",
                        quoted(&path)
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
