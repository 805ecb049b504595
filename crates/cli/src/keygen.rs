//! `counterfoil keygen`: a private key in a file, its vkey on stdout.

use crate::arguments::{KeyPurpose, Keygen};
use crate::failure::Failure;
use note::{KeyKind, KeyName};
use serde::Serialize;
use service::ExitStatus;
use service::keys::{new_signing_key, write_new_signing_key};
use service::output::Output;
use std::path::PathBuf;

#[derive(Serialize)]
struct Made {
    vkey: String,
    file: PathBuf,
}

pub(crate) fn run(arguments: &Keygen) -> Result<ExitStatus, Failure> {
    let name = KeyName::new(&arguments.name).map_err(Failure::usage)?;
    let kind = match arguments.kind {
        KeyPurpose::Issuer | KeyPurpose::Log => KeyKind::Ed25519,
        KeyPurpose::Witness => KeyKind::CosignatureV1,
        KeyPurpose::WitnessMldsa => KeyKind::MlDsa44,
    };
    let key = new_signing_key(name, kind)?;
    write_new_signing_key(&arguments.out, &key)?;
    let made = Made { vkey: key.verifier().to_string(), file: arguments.out.clone() };
    Output::new(arguments.json).print(&made, |out| writeln!(out, "{}", made.vkey));
    Ok(ExitStatus::Ok)
}
