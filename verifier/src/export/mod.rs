//! `export`: one receipt, once its proof convinced, in the forms of other worlds.
//!
//! ```text
//! policy, proof, entry ── as `proof` checks them ── cose      a COSE receipt (RFC 9942), signed by --key
//!                                                └─ in_toto   a statement; with --key in a DSSE envelope
//! ```
//!
//! The log and its witnesses sign notes, and no other world reads notes. So what comes out here is worth the word of
//! whoever holds `--key`, and says so; nothing is signed before everything that `proof` checks was checked. Holds the
//! order of work and the words; `docs/exports.md` says what each form proves.

mod cose;
mod in_toto;

use crate::arguments::{Export, ExportFormat};
use crate::documents::print;
use crate::failure::{Failure, failed, unreadable, usage};
use crate::one_proof::{Checked, check};
use crate::report::write_private;
use audit::amount::amount;
use audit::quote::plain;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use note::{KeyKind, SigningKey, VerifierKey};
use receipt::Receipt;
use serde_json::json;
use service::ExitStatus;
use service::keys::read_signing_key;
use service::wrap::hanging;

/// Why a checked receipt was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// RFC 9942, section 5.2: the path has at least one hash.
    #[error(
        "the log had one entry when this proof was made, and a COSE receipt has no form for a proof without hashes; fetch the proof again once the log has more"
    )]
    OneEntry,
    /// The key cannot sign it.
    #[error(transparent)]
    Signing(#[from] note::OutsideError),
    /// The encoder refused.
    #[error("the receipt cannot be written in this form: {0}")]
    Form(String),
}

/// What is exported: all of it was checked.
pub(crate) struct Proven<'checked> {
    pub(crate) checked: &'checked Checked,
    pub(crate) receipt: &'checked Receipt,
}

/// What is written, and who signs it.
enum Form<'key> {
    Cose(&'key SigningKey),
    Envelope(&'key SigningKey),
    Statement,
}

impl Form<'_> {
    fn name(&self) -> &'static str {
        match self {
            Form::Cose(_) => "a COSE receipt (RFC 9942)",
            Form::Envelope(_) => "an in-toto statement in a DSSE envelope",
            Form::Statement => "an in-toto statement",
        }
    }

    fn signer(&self) -> Option<VerifierKey> {
        match self {
            Form::Cose(key) | Form::Envelope(key) => Some(key.verifier()),
            Form::Statement => None,
        }
    }
}

pub(crate) fn run(arguments: &Export) -> Result<ExitStatus, Failure> {
    let read = |path: &std::path::PathBuf| read_signing_key(path, KeyKind::Ed25519);
    let key = arguments.key.as_ref().map(read).transpose().map_err(unreadable)?;
    let form = match (arguments.format, &key) {
        (ExportFormat::Cose, Some(key)) => Form::Cose(key),
        (ExportFormat::Cose, None) => {
            return Err(usage(
                "a COSE receipt is somebody's signature: give --key FILE, the log's private key or one of your own",
            ));
        }
        (ExportFormat::InToto, Some(key)) => Form::Envelope(key),
        (ExportFormat::InToto, None) => Form::Statement,
    };
    let checked = check(&arguments.policy, arguments.issuers.as_deref(), &arguments.proof, &arguments.entry)?;
    let receipt = match (&checked.receipt, checked.issuer_status) {
        (Ok(receipt), ExitStatus::Ok) => receipt,
        (_, status) => {
            return Err(Failure { status, reason: format!("nothing was written: {}", checked.issuer_words) });
        }
    };
    let proven = Proven { checked: &checked, receipt };
    let bytes = match form {
        Form::Cose(key) => cose::receipt(&proven, key),
        Form::Envelope(key) => in_toto::envelope(&proven, key),
        Form::Statement => in_toto::statement(&proven),
    };
    write_private(&arguments.out, bytes.map_err(failed)?)
        .map_err(|error| failed(format!("cannot write {}: {error}", arguments.out.display())))?;
    report(arguments, &proven, &form)?;
    Ok(ExitStatus::Ok)
}

/// Says what was written and whose word it is.
fn report(arguments: &Export, proven: &Proven<'_>, form: &Form<'_>) -> Result<(), Failure> {
    let head = proven.checked.verified.checkpoint.checkpoint();
    let log = proven.checked.verified.checkpoint.log_key();
    let signer = form.signer();
    let word = match (&signer, form) {
        (None, _) => String::from(
            "nobody's: a bare statement is not signed; the log's signature and the cosignatures stand in it, as notes that counterfoil-verify and other readers of C2SP notes check",
        ),
        (Some(key), Form::Cose(_)) if key == log => {
            String::from("the log's own, without its witnesses: their cosignatures do not travel in a COSE receipt")
        }
        (Some(key), _) if key == log => {
            String::from("the log's own; the cosignatures stand in the statement, as notes")
        }
        (Some(key), _) => format!(
            "that of {}, which is not the log's key: a reader takes its holder's word that log and witnesses signed this head",
            plain(key.name().as_str())
        ),
    };
    let value = json!({
        "written": arguments.out.display().to_string(),
        "form": form.name(),
        "log": head.origin.as_str(),
        "index": proven.checked.proof.index.0,
        "size": head.size.0,
        "id": proven.checked.leaf.to_hex(),
        "signed_by": signer.as_ref().map(ToString::to_string),
        "signed_by_log": signer.as_ref() == Some(log),
        "jwk": signer.as_ref().map(jwk),
        "issuer_signature": proven.checked.issuer_words,
    });
    let what = format!(
        "{}: {}, entry {} of {} when it had {}",
        arguments.out.display(),
        form.name(),
        proven.checked.proof.index,
        head.origin.as_str(),
        amount(head.size.0, "entry", "entries")
    );
    let mut lines = hanging("written    ", &plain(&what));
    lines.extend(hanging("receipt    ", &proven.checked.leaf.to_hex()));
    lines.extend(hanging("issuer     ", &plain(&proven.checked.issuer_words)));
    if let Some(key) = &signer {
        lines.extend(hanging("signed by  ", &plain(&key.to_string())));
        lines.extend(hanging("as JWK     ", &jwk(key).to_string()));
    }
    lines.extend(hanging("the word   ", &word));
    lines.extend(hanging("not shown  ", "that nothing came before or after it, or that what it says is true"));
    print(arguments.json, &value, &lines)
}

/// The public key as other worlds' tools read it (RFC 8037).
fn jwk(key: &VerifierKey) -> serde_json::Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(key.public_key_bytes())})
}
