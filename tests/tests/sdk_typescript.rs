//! `sdk/typescript`: its own tests, against the programs built here.
//!
//! Runs where Node 20 and npm are, with what the package needs or a way to fetch it. Elsewhere it says SKIPPED on standard
//! error.
#![allow(clippy::unwrap_used, clippy::panic)]

use counterfoil_tests::sdk;
use std::path::Path;
use std::process::Command;

#[test]
fn the_typescript_package_passes_its_own_tests() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-typescript");
    if let Err(reason) = sdk::npm(&scratch) {
        return sdk::skipped("the tests of sdk/typescript were not run", &reason);
    }
    let mut tests = Command::new("npm");
    tests.arg("test").current_dir(sdk::repository().join("sdk/typescript"));
    tests.env("COUNTERFOIL_BIN", env!("CARGO_BIN_EXE_counterfoil-under-test"));
    match sdk::run(&mut tests, &scratch.join("test.log")) {
        Ok(said) => sdk::tell_left_out("tests of sdk/typescript were not run", &said),
        Err(said) => panic!("{said}"),
    }
}
