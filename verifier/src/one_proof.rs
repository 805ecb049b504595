//! `proof`: one receipt, by a proof that somebody kept.

use crate::arguments;
use crate::documents::print;
use crate::failure::{Failure, failed, read_file, read_issuers, read_policy, unreadable};
use audit::AuditedIssuer;
use audit::amount::amount;
use audit::quote::{plain, quoted};
use audit::time::{show_time, show_time_s};
use merkle::Hash;
use note::{KeyKind, MAX_PROOF_LEN, Policy, ProofRefusal, Strict, TlogProof, VerifiedProof, VerifierKey};
use receipt::{IssuerState, MAX_ENTRY, Malformed, Receipt, check_signature};
use serde_json::json;
use service::ExitStatus;
use service::wrap::hanging;
use std::collections::BTreeSet;
use std::path::Path;

/// What one proof and its entry came to: the log signed the head, the entry is under it, and the quorum is met.
pub(crate) struct Checked {
    pub(crate) policy: Policy,
    pub(crate) proof: TlogProof,
    pub(crate) verified: VerifiedProof,
    pub(crate) entry: Vec<u8>,
    /// The entry's leaf hash, which is the receipt's id.
    pub(crate) leaf: Hash,
    pub(crate) receipt: Result<Receipt, Malformed>,
    /// Whether the receipt is its issuer's, and in words.
    pub(crate) issuer_status: ExitStatus,
    pub(crate) issuer_words: String,
}

/// Reads and checks a proof with the entry it is about.
pub(crate) fn check(
    policy: &Path,
    issuers: Option<&Path>,
    proof_file: &Path,
    entry_file: &Path,
) -> Result<Checked, Failure> {
    let policy = read_policy(policy)?;
    let issuers = issuers.map(read_issuers).transpose()?;
    let proof = TlogProof::parse(&read_file(proof_file, MAX_PROOF_LEN as u64)?).map_err(|error| {
        unreadable(format!("{}: {error}; give the proof first, then its entry", proof_file.display()))
    })?;
    let entry = read_file(entry_file, MAX_ENTRY as u64)?;
    let leaf = merkle::leaf_hash(&entry);
    let verified = proof.verify(&leaf, &policy).map_err(|refusal| match refusal {
        ProofRefusal::NoListedLog { .. } => Failure { status: ExitStatus::NotChecked, reason: refusal.to_string() },
        _ => failed(refusal),
    })?;
    let receipt = Receipt::parse(&entry);
    let (issuer_status, issuer_words) = match (&receipt, &issuers) {
        (Err(malformed), _) => (ExitStatus::Failed, format!("the entry is no receipt: {malformed}")),
        (Ok(_), None) => (ExitStatus::Ok, String::from("not checked: no --issuers was given")),
        (Ok(receipt), Some(issuers)) => judge_issuer(receipt, issuers),
    };
    Ok(Checked { policy, proof, verified, entry, leaf, receipt, issuer_status, issuer_words })
}

pub(crate) fn run(arguments: &arguments::Proof) -> Result<ExitStatus, Failure> {
    let checked = check(&arguments.policy, arguments.issuers.as_deref(), &arguments.proof, &arguments.entry)?;
    let Checked { policy, proof, verified, leaf, receipt, issuer_status, issuer_words, .. } = checked;
    let head = verified.checkpoint.checkpoint();
    let keys = || verified.cosigned_by.iter().map(|place| &policy.witnesses()[*place].vkey);
    // One witness with two keys is one name here.
    let cosigners: BTreeSet<&str> = keys().map(|key| key.name().as_str()).collect();
    let value = json!({
        "log": head.origin.as_str(),
        "index": proof.index.0,
        "size": head.size.0,
        "id": leaf.to_hex(),
        "issuer": receipt.as_ref().ok().map(|receipt| receipt.issuer().as_str()),
        "seq": receipt.as_ref().ok().map(|receipt| receipt.seq().0),
        "issued_at_ms": receipt.as_ref().ok().map(|receipt| receipt.issued_at().0),
        "cosigned_by": cosigners,
        "cosigned_at_s": verified.cosignatures.iter().map(|(_, cosignature)| cosignature.timestamp_s).max(),
        "issuer_signature": issuer_words,
    });
    let mut lines = hanging(
        "",
        &format!(
            "The log {} held this entry at index {} when it had {}.",
            plain(head.origin.as_str()),
            proof.index,
            amount(head.size.0, "entry", "entries")
        ),
    );
    lines.extend(hanging("receipt    ", &leaf.to_hex()));
    if let Ok(receipt) = &receipt {
        let said = format!(
            "seq {} of {}, issued at {} by its own clock",
            receipt.seq(),
            plain(receipt.issuer().as_str()),
            show_time(receipt.issued_at())
        );
        lines.extend(hanging("issuer     ", &said));
    }
    lines.extend(hanging("signature  ", &plain(&issuer_words)));
    lines.extend(hanging("witnesses  ", &show_witnesses(&policy, &verified, &keys().map(shown).collect::<Vec<_>>())));
    lines.extend(hanging("not shown  ", "that nothing came before or after it, or that what it says is true"));
    print(arguments.json, &value, &lines)?;
    Ok(issuer_status)
}

/// Of the two keys that one witness may have, the second says what it is.
fn shown(key: &VerifierKey) -> String {
    match key.kind() {
        KeyKind::MlDsa44 => format!("{} (ML-DSA-44)", key.name()),
        _ => key.name().to_string(),
    }
}

fn show_witnesses(policy: &Policy, verified: &VerifiedProof, cosigners: &[String]) -> String {
    let latest = verified.cosignatures.iter().map(|(_, cosignature)| cosignature.timestamp_s).max();
    match (policy.quorum(), latest) {
        (None, _) => String::from("the policy asks for none"),
        (Some(_), None) => String::from("none, and the quorum needs none"),
        (Some(_), Some(latest)) => {
            format!("quorum met by {}, the last at {}", plain(&cosigners.join(", ")), show_time_s(latest))
        }
    }
}

/// Whether the receipt is signed by its issuer's registered key. A key that came later by rotation cannot be known
/// from one receipt.
fn judge_issuer(receipt: &Receipt, issuers: &[AuditedIssuer]) -> (ExitStatus, String) {
    let Some(issuer) = issuers.iter().find(|issuer| *issuer.vkey.name() == receipt.issuer().0) else {
        return (
            ExitStatus::NotChecked,
            format!("not checked: the issuers file does not list {}", quoted(receipt.issuer().as_str())),
        );
    };
    if let Err(refusal) = check_signature(receipt, &IssuerState::registered(issuer.vkey.clone()), &Strict) {
        return (ExitStatus::Failed, format!("bad: {}", refusal.detail));
    }
    let line = receipt.signatures().first().filter(|line| line.claims(&issuer.vkey));
    match line.map(|line| <&[u8; 64]>::try_from(line.blob.as_slice())) {
        Some(Ok(signature)) if issuer.vkey.verify(receipt.text().as_bytes(), signature) => {
            (ExitStatus::Ok, String::from("good, by the key in the issuers file"))
        }
        None if receipt.seq().0 > 0 => {
            let words = "not checked: it is by another key of the issuer's name, which only the rotations in the log can vouch for; audit the log";
            (ExitStatus::NotChecked, String::from(words))
        }
        _ => (ExitStatus::Failed, String::from("bad: the key in the issuers file did not sign this")),
    }
}
