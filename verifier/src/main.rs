//! `counterfoil-verify`.

use std::process::ExitCode;

fn main() -> ExitCode {
    counterfoil_verifier::main_with(std::env::args_os())
}
