//! `proof`: one receipt, by a proof that somebody kept.

use crate::arguments;
use crate::documents::print;
use crate::failure::{Failure, failed, read_file, read_issuers, read_policy, unreadable};
use crate::wrap::hanging;
use audit::AuditedIssuer;
use audit::amount::amount;
use audit::quote::{plain, quoted};
use audit::time::{show_time, show_time_s};
use note::{MAX_PROOF_LEN, Policy, ProofRefusal, Strict, TlogProof, VerifiedProof};
use receipt::{IssuerState, MAX_ENTRY, Receipt, check_signature};
use serde_json::json;
use service::ExitStatus;

pub(crate) fn run(arguments: &arguments::Proof) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let issuers = arguments.issuers.as_deref().map(read_issuers).transpose()?;
    let proof = TlogProof::parse(&read_file(&arguments.proof, MAX_PROOF_LEN as u64)?)
        .map_err(|error| unreadable(format!("{}: {error}", arguments.proof.display())))?;
    let entry = read_file(&arguments.entry, MAX_ENTRY as u64)?;
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
    let head = verified.checkpoint.checkpoint();
    let cosigners: Vec<String> =
        verified.cosigned_by.iter().map(|place| policy.witnesses()[*place].vkey.name().to_string()).collect();
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
    lines.extend(hanging("witnesses  ", &show_witnesses(&policy, &verified, &cosigners)));
    lines.extend(hanging("not shown  ", "that nothing came before or after it, or that what it says is true"));
    print(arguments.json, &value, &lines)?;
    Ok(issuer_status)
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
