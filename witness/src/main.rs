//! `counterfoil-witness`.

use std::process::ExitCode;

fn main() -> ExitCode {
    counterfoil_witness::main_with(std::env::args_os())
}
