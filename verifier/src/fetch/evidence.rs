//! What the log and its witnesses hold against anybody, fetched into the bundle, where the audit checks it.
//!
//! A log that was caught may publish nothing against itself: who caught it does. Of a witness, which watches many logs,
//! only what bears on this one is kept, and no more than a witness can be believed to need.

use super::Fetching;
use super::sources::Broken;
use super::summary::Summary;
use audit::quote::{plain, quoted};
use audit::{EvidenceError, check_evidence, witness_dir};
use client::{LogClient, WitnessClient};
use note::{KeyName, VerifierKey};

/// Most evidence documents kept of a log. One is enough to convict it.
const MAX_LOG_DOCUMENTS: usize = 10_000;

/// Most pages of a witness's evidence that are asked for: 16,384 documents, 16 for each of the most logs it watches.
const MAX_WITNESS_PAGES: u64 = 64;

/// Most documents kept of a witness, of those that bear on this log.
const MAX_WITNESS_DOCUMENTS: usize = 256;

/// Most bytes of them together: two heads of 64 KiB and the proof between them in each. A witness must not be able to fill
/// the auditor's disk.
const MAX_WITNESS_BYTES: usize = 64 * 1024 * 1024;

/// Most documents of a witness that are said to show nothing; the rest are counted.
const MAX_FAULTS: usize = 4;

impl Fetching<'_> {
    /// What the log holds.
    pub(super) async fn fetch_evidence(&self, client: &LogClient, summary: &mut Summary) -> Result<(), Broken> {
        let mut count = 0;
        for page in 0.. {
            let documents = match client.evidence_page(page).await {
                Ok(documents) => documents,
                // A log of another make has no evidence to serve, in whatever way its server says so.
                Err(error) if summary.is_foreign && error.refusal().is_some() => break,
                Err(error) => {
                    summary.missing.push(format!("the log's evidence: {}", plain(&error.to_string())));
                    break;
                }
            };
            if documents.is_empty() || count >= MAX_LOG_DOCUMENTS {
                break;
            }
            for document in documents {
                let path = format!("evidence/log-{count:06}.json");
                summary.faults.extend(self.dir.put_immutable(&path, document.as_bytes())?);
                count += 1;
            }
        }
        summary.evidence += count as u64;
        Ok(())
    }

    /// What each witness holds that bears on this log. A witness of another make serves none.
    pub(super) async fn fetch_accusations(
        &self,
        witnesses: &[(usize, WitnessClient)],
        summary: &mut Summary,
    ) -> Result<(), Broken> {
        for (place, witness) in witnesses {
            let name = self.policy.witnesses()[*place].vkey.name();
            self.fetch_of_witness(name, witness, summary).await?;
        }
        Ok(())
    }

    async fn fetch_of_witness(
        &self,
        name: &KeyName,
        witness: &WitnessClient,
        summary: &mut Summary,
    ) -> Result<(), Broken> {
        let told = |what: &str| format!("evidence of witness {}: {what}", quoted(name.as_str()));
        let dir = witness_dir(name).replacen("witness/", "evidence/", 1);
        let (mut number, mut kept, mut bytes, mut bad) = (0_u64, 0, 0, 0);
        'pages: for page in 0..=MAX_WITNESS_PAGES {
            // Beyond the last page there is none, which is how a witness without evidence answers, too.
            let documents = match witness.evidence_page(page).await {
                Ok(documents) => documents,
                Err(error) => {
                    summary.missing.push(told(&plain(&error.to_string())));
                    break;
                }
            };
            if documents.is_empty() {
                break;
            }
            if page == MAX_WITNESS_PAGES {
                summary.missing.push(told("it never ends; the rest was left there"));
                break;
            }
            for document in documents {
                number += 1;
                match self.bears(&document) {
                    Ok(false) => continue,
                    Ok(true) => {}
                    Err(why) => {
                        bad += 1;
                        if bad <= MAX_FAULTS {
                            summary.faults.push(told(&format!("document {} shows nothing: {why}", number - 1)));
                        }
                        continue;
                    }
                }
                if kept == MAX_WITNESS_DOCUMENTS || bytes + document.len() > MAX_WITNESS_BYTES {
                    summary.missing.push(told(&format!("it has more than the {kept} documents that were kept")));
                    break 'pages;
                }
                let path = format!("{dir}-{:06}.json", number - 1);
                summary.faults.extend(self.dir.put_immutable(&path, document.as_bytes())?);
                kept += 1;
                bytes += document.len();
            }
        }
        if let Some(more) = bad.checked_sub(MAX_FAULTS).filter(|more| *more > 0) {
            summary.faults.push(told(&format!("{more} more documents show nothing")));
        }
        summary.evidence += kept as u64;
        Ok(())
    }

    /// Whether a document is about the log or a witness of the policy, or about somebody of such a name; one that only the
    /// audit, which knows more, can check bears on it as well. `Err`: it shows nothing.
    fn bears(&self, document: &str) -> Result<bool, String> {
        let is_named = |key: &VerifierKey| {
            key.name() == self.log.vkey.name()
                || self.policy.witnesses().iter().any(|witness| witness.vkey.name() == key.name())
        };
        match check_evidence(document, &[]) {
            Ok(shown) => Ok(is_named(&shown.key)),
            Err(EvidenceError::NeedsKey { .. } | EvidenceError::UnknownKind(_)) => Ok(true),
            Err(error) => Err(plain(&error.to_string())),
        }
    }
}
