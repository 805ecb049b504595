//! No test is left out: where the tests of a crate are one program (`tests/all.rs`), every file beside it is one of its
//! modules. Cargo would find a file by itself; a module that nobody names is silently not there.

use std::fs;
use std::path::{Path, PathBuf};

/// Every `tests/all.rs` of the workspace.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let others = ["log-server", "witness", "verifier"].map(|name| root.join(name));
    crates.chain(others).map(|member| member.join("tests/all.rs")).filter(|program| program.exists()).collect()
}

#[test]
fn every_file_of_tests_is_a_module_of_its_program() {
    let programs = programs();
    assert!(programs.len() > 3, "{programs:?}");
    for program in programs {
        let text = fs::read_to_string(&program).unwrap();
        for entry in fs::read_dir(program.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            let is_code = path.extension().is_some_and(|ending| ending == "rs") || path.join("mod.rs").exists();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if is_code && path != program {
                let line = format!("mod {name};");
                assert!(text.lines().any(|other| other == line), "{} lacks `{line}`", program.display());
            }
        }
    }
}
