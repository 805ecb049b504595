//! Writes the vectors: `cargo run -p counterfoil-testkit --bin vectors -- vectors`, from the top of the checkout.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use counterfoil_testkit::vectors::vector_files;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: vectors <folder>");
        return ExitCode::from(2);
    };
    for file in vector_files() {
        let path = folder.join(file.name);
        if let Err(error) = std::fs::write(&path, file.text()) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        println!("{}: {} cases", path.display(), file.cases.len());
    }
    ExitCode::SUCCESS
}
