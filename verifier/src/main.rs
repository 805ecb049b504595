//! `counterfoil-verify`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    counterfoil_verifier::main_with(std::env::args_os())
}
