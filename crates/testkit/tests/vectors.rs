//! The committed vectors are what the generator makes.

use counterfoil_testkit::vectors::vector_files;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Files whose makers live with the client, which tests them in the same way.
const MADE_ELSEWHERE: [&str; 2] = ["outbox.json", "history.json"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

#[test]
fn the_committed_vectors_are_what_the_generator_makes() {
    for file in vector_files() {
        let committed = std::fs::read_to_string(folder().join(file.name)).unwrap_or_default();
        let differs = committed.lines().zip(file.text().lines()).position(|(old, new)| old != new);
        assert!(
            committed == file.text(),
            "{} is not what the generator makes, first in line {:?}: run cargo run -p counterfoil-testkit --bin vectors -- vectors",
            file.name,
            differs.map(|line| line + 1),
        );
    }
}

#[test]
fn there_is_no_file_of_vectors_that_nobody_makes() {
    let made: BTreeSet<&str> = vector_files().iter().map(|file| file.name).chain(MADE_ELSEWHERE).collect();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || made.contains(name.as_str()), "{name}");
    }
}

#[test]
fn no_two_cases_of_a_file_have_one_name() {
    for file in vector_files() {
        let names: BTreeSet<&str> = file.cases.iter().map(|case| case["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), file.cases.len(), "{}", file.name);
    }
}
