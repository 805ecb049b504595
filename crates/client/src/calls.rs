//! The write side of a log and its look-ups (protocol 5.2), typed: what parses here fits the question that was asked.
//!
//! Signatures are checked by whoever knows the key: every proof comes as an [`OfferedProof`].

use crate::amount::{amount, receipts};
use crate::http::{FetchError, Refusal, Request};
use crate::log::LogClient;
use crate::proof::OfferedProof;
use crate::wire;
use bytes::Bytes;
use merkle::{LeafIndex, MAX_ENTRY_LEN};
use note::{MAX_COSIGNATURE_LINE_LEN, MAX_SIGNATURES};
use receipt::{IssuerName, Receipt, ReceiptId, SeqNo};
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderName};
use serde::de::DeserializeOwned;

/// Most bytes of one proof inside a JSON string: as many of the longest cosignature lines as a checkpoint has, 224 kB, and
/// 63 hashes of 45 bytes, the checkpoint's text and one more byte for each of 140 line ends in the rest.
pub(crate) const MAX_PROOF_JSON: u64 = (MAX_SIGNATURES * MAX_COSIGNATURE_LINE_LEN + 8 * 1024) as u64;
/// Most bytes of one answer about one receipt beside its proof and entry: a name of 255 bytes, an id, numbers, a sentence.
pub(crate) const MAX_MEMBERS_JSON: u64 = 4 * 1024;
/// Most bytes of the verdicts on one batch. A batch of the shortest receipts has 40,000; with proofs of 6 kB, which is the
/// length with both lines of one witness, they take this much. Where there are more witnesses, smaller batches do.
const MAX_VERDICTS_JSON: u64 = 256 * 1024 * 1024;
/// Most bytes of one entry inside a JSON string: quotes, backslashes and line ends become two, anything else stays.
const MAX_ENTRY_JSON: u64 = 2 * MAX_ENTRY_LEN as u64;
/// Most bytes of the list of all issuers: a hundred thousand of 700 bytes each.
const MAX_ISSUERS_JSON: u64 = 64 * 1024 * 1024;
/// Most bytes of a page of evidence: 256 documents with two receipts each, entries and members as above.
const MAX_EVIDENCE_JSON: u64 = wire::EVIDENCE_PAGE as u64 * (2 * MAX_ENTRY_JSON + MAX_MEMBERS_JSON);

/// What a submitter waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// A durable signed head that covers the entry.
    #[default]
    Integrated,
    /// An offered head that covers the entry and has the log's own quorum of cosignatures.
    Cosigned,
}

/// Where an entry is, as the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inclusion {
    /// Leaf index; the proof's own.
    pub index: LeafIndex,
    /// The issuer.
    pub issuer: IssuerName,
    /// The receipt's seq.
    pub seq: SeqNo,
    /// The receipt's id.
    pub id: ReceiptId,
    /// The proof, unverified.
    pub proof: OfferedProof,
}

/// What became of one entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Appended now.
    Appended(Inclusion),
    /// The log held it already.
    Held(Inclusion),
    /// Refused.
    Refused(wire::Refused),
    /// Not looked at, because an earlier one of the same issuer was refused.
    Skipped(wire::Skipped),
}

/// The answer to a look-up: an entry with the id, or with the issuer and seq, that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The receipt. Its signature is unverified.
    pub receipt: Receipt,
    /// Where the log says it is.
    pub inclusion: Inclusion,
}

impl LogClient {
    /// Submits one entry.
    ///
    /// # Errors
    /// [`FetchError`]; a refusal carries the problem document. With [`Wait::Cosigned`], a 504 whose
    /// [`Refusal::inclusion`] is there says that the entry is in the log and the quorum was not met in time.
    pub async fn submit(&self, entry: &[u8], wait: Wait) -> Result<Inclusion, FetchError> {
        let url = self.base.join("v1/receipts");
        let prefer = match wait {
            Wait::Integrated => wire::WAIT_INTEGRATED,
            Wait::Cosigned => wire::WAIT_COSIGNED,
        };
        let request =
            Request::post(url.clone(), wire::TEXT, Bytes::copy_from_slice(entry), MAX_PROOF_JSON + MAX_MEMBERS_JSON)
                .header(ACCEPT, wire::JSON)
                .header(HeaderName::from_static(wire::PREFER), prefer);
        let answer = self.http.send(request).await?;
        let inclusion = inclusion(json(&url, &answer)?).map_err(|reason| FetchError::bad_body(&url, reason))?;
        if inclusion.id != ReceiptId::of(entry) {
            return Err(FetchError::bad_body(&url, "it speaks of another receipt than the one submitted"));
        }
        Ok(inclusion)
    }

    /// Submits entries in order. One verdict comes back for each, in the same order.
    ///
    /// # Errors
    /// [`FetchError`] for the whole batch; also where the verdicts are not as many as the entries, or speak of
    /// other receipts. Whether anything was appended is then unknown: submitting the same entries again is safe.
    pub async fn submit_batch(&self, entries: &[impl AsRef<[u8]>]) -> Result<Vec<Verdict>, FetchError> {
        let url = self.base.join("v1/receipts/batch");
        let mut batch = Vec::new();
        for entry in entries {
            merkle::encode_entry(&mut batch, entry.as_ref()).map_err(|error| FetchError::request(&url, error))?;
        }
        if batch.len() > wire::MAX_BATCH_BYTES {
            return Err(FetchError::request(
                &url,
                format!("a batch has at most {} bytes, this one {}", wire::MAX_BATCH_BYTES, batch.len()),
            ));
        }
        let max_bytes = MAX_VERDICTS_JSON.min(entries.len() as u64 * (MAX_PROOF_JSON + MAX_MEMBERS_JSON));
        let request =
            Request::post(url.clone(), wire::OCTETS, Bytes::from(batch), max_bytes).header(ACCEPT, wire::NDJSON);
        let answer = self.http.send(request).await?;
        let bad = |reason: String| FetchError::bad_body(&url, reason);
        let lines = lines(&answer).map_err(bad)?;
        if lines.len() != entries.len() {
            return Err(bad(format!(
                "{} came for {}",
                amount(lines.len() as u64, "verdict", "verdicts"),
                receipts(entries.len() as u64)
            )));
        }
        lines
            .into_iter()
            .zip(entries)
            .map(|(line, entry)| verdict(json(&url, line.as_bytes())?, entry.as_ref()).map_err(bad))
            .collect()
    }

    /// What the log knows of an issuer; `None` where it says that it does not know it.
    ///
    /// # Errors
    /// [`FetchError`]; also a 404 that does not carry the code of a log ([`wire::CODE_UNKNOWN_ISSUER`]): a server of
    /// another kind has nothing there either.
    pub async fn issuer(&self, name: &IssuerName) -> Result<Option<wire::Issuer>, FetchError> {
        let Some(url) = self.base.segments(&["v1", "issuers", name.as_str()]) else { return Ok(None) };
        let answer = match self.http.send(Request::get(url.clone(), MAX_MEMBERS_JSON)).await {
            Err(error) if error.is_missing() && error.has_code(wire::CODE_UNKNOWN_ISSUER) => return Ok(None),
            answer => answer?,
        };
        let issuer: wire::Issuer = json(&url, &answer)?;
        if issuer.name != name.as_str() {
            return Err(FetchError::bad_body(&url, "it speaks of another issuer than the one asked for"));
        }
        Ok(Some(issuer))
    }

    /// All issuers the log knows.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn issuers(&self) -> Result<Vec<wire::Issuer>, FetchError> {
        let url = self.base.join("v1/issuers");
        let answer = self.http.send(Request::get(url.clone(), MAX_ISSUERS_JSON)).await?;
        json::<wire::IssuerList>(&url, &answer).map(|list| list.issuers)
    }

    /// The receipt of `issuer` at `seq`; `None` where the log holds none there.
    ///
    /// # Errors
    /// [`FetchError`]; also where the answer is another receipt.
    pub async fn receipt_at(&self, issuer: &IssuerName, seq: SeqNo) -> Result<Option<Lookup>, FetchError> {
        let Some(url) = self.base.segments(&["v1", "issuers", issuer.as_str(), "receipts", &seq.to_string()]) else {
            return Ok(None);
        };
        self.look_up(url, |receipt| receipt.issuer() == issuer && receipt.seq() == seq).await
    }

    /// The receipt with this id; `None` where the log holds none.
    ///
    /// # Errors
    /// [`FetchError`]; also where the answer is another receipt.
    pub async fn receipt_by_id(&self, id: &ReceiptId) -> Result<Option<Lookup>, FetchError> {
        self.look_up(self.base.join(&format!("v1/receipts/{id}")), |receipt| receipt.id() == *id).await
    }

    /// Page `page` of the evidence the log holds, one JSON document each, oldest first. Empty beyond the last.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn evidence_page(&self, page: u64) -> Result<Vec<String>, FetchError> {
        let url = self.base.join(&format!("v1/evidence/{page}"));
        let Some(answer) = self.ask(url.clone(), MAX_EVIDENCE_JSON).await? else { return Ok(Vec::new()) };
        documents(&url, &answer)
    }

    async fn look_up(&self, url: Url, is_asked_for: impl Fn(&Receipt) -> bool) -> Result<Option<Lookup>, FetchError> {
        let Some(answer) = self.ask(url.clone(), MAX_ENTRY_JSON + MAX_PROOF_JSON + MAX_MEMBERS_JSON).await? else {
            return Ok(None);
        };
        let bad = |reason: String| FetchError::bad_body(&url, reason);
        let found: wire::Found = json(&url, &answer)?;
        let wire::Found { index, issuer, seq, id, proof, entry } = found;
        let receipt = Receipt::parse(entry.as_bytes()).map_err(|malformed| bad(malformed.to_string()))?;
        let inclusion = inclusion(wire::Included { index, issuer, seq, id, proof }).map_err(bad)?;
        if !is_asked_for(&receipt) || !inclusion.speaks_of(&receipt) {
            return Err(bad("it is another receipt than the one asked for".into()));
        }
        Ok(Some(Lookup { receipt, inclusion }))
    }

    async fn ask(&self, url: Url, max_bytes: u64) -> Result<Option<Bytes>, FetchError> {
        match self.http.send(Request::get(url, max_bytes)).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Inclusion {
    fn speaks_of(&self, receipt: &Receipt) -> bool {
        self.id == receipt.id() && self.seq == receipt.seq() && self.issuer == *receipt.issuer()
    }
}

impl Refusal {
    /// Where the entry is, in the refusal of a `wait=cosigned` whose quorum was not met in time.
    pub fn inclusion(&self) -> Option<Inclusion> {
        inclusion(serde_json::from_slice(&self.body).ok()?).ok()
    }
}

fn inclusion(included: wire::Included) -> Result<Inclusion, String> {
    let wire::Included { index, issuer, seq, id, proof } = included;
    let issuer = IssuerName::new(&issuer).map_err(|error| format!("its issuer: {error}"))?;
    let id = ReceiptId::parse(&id).ok_or("its id is not 64 lowercase hex digits")?;
    let proof = OfferedProof::parse(&proof).map_err(|fault| fault.to_string())?;
    let index = LeafIndex(index);
    if proof.proof().index != index {
        return Err(format!("it says index {index}, and its proof index {}", proof.proof().index));
    }
    Ok(Inclusion { index, issuer, seq: SeqNo(seq), id, proof })
}

fn verdict(verdict: wire::BatchVerdict, entry: &[u8]) -> Result<Verdict, String> {
    let of_entry = |included| {
        let inclusion = inclusion(included)?;
        if inclusion.id == ReceiptId::of(entry) {
            Ok(inclusion)
        } else {
            Err("a verdict speaks of another receipt than the one at its place".to_owned())
        }
    };
    Ok(match verdict {
        wire::BatchVerdict::Ok(included) => Verdict::Appended(of_entry(included)?),
        wire::BatchVerdict::Duplicate(included) => Verdict::Held(of_entry(included)?),
        wire::BatchVerdict::Refused(refused) => Verdict::Refused(refused),
        wire::BatchVerdict::Skipped(skipped) => Verdict::Skipped(skipped),
    })
}

fn json<T: DeserializeOwned>(url: &Url, bytes: &[u8]) -> Result<T, FetchError> {
    serde_json::from_slice(bytes).map_err(|error| FetchError::bad_body(url, error))
}

/// The documents of a page of evidence, one a line.
pub(crate) fn documents(url: &Url, answer: &[u8]) -> Result<Vec<String>, FetchError> {
    let documents = lines(answer).map_err(|reason| FetchError::bad_body(url, reason))?;
    if documents.len() > wire::EVIDENCE_PAGE {
        let reason = format!("a page holds {} documents, at most {}", documents.len(), wire::EVIDENCE_PAGE);
        return Err(FetchError::bad_body(url, reason));
    }
    Ok(documents.into_iter().map(str::to_owned).collect())
}

/// The lines of an NDJSON answer; each must end.
fn lines(answer: &[u8]) -> Result<Vec<&str>, String> {
    let text = std::str::from_utf8(answer).map_err(|_| "it is not UTF-8")?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(text.strip_suffix('\n').ok_or("its last line does not end")?.split('\n').collect())
}
