//! `counterfoil` as the end-to-end tests start it: cargo builds a package's own binaries for its tests, and no others.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main_with(std::env::args_os())
}
