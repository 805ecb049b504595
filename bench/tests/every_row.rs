//! Every row at a thousandth of its size: that all of it works and adds up, not how fast it is.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_counterfoil-bench")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn every_row_is_measured_or_says_why_not() {
    let output = bench(&["log", "--receipts", "1000", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for name in
        ["lone", "single", "single1024", "batch", "audit", "disk", "memory", "cost", "start", "fsck", "cosigned"]
    {
        let sections: Vec<&Value> = rows.iter().filter(|row| row["row"] == name).collect();
        assert!(!sections.is_empty(), "no {name}: {report}");
        for section in sections {
            let figures = section["figures"].as_array().unwrap();
            assert_eq!(figures.is_empty(), name == "fsck" && section["not_measured"].is_string(), "{section}");
            // A processor's time is counted in hundredths of a second, of which a small load may take none.
            let counted = |figure: &&Value| !["cpu_microseconds", "times"].contains(&figure["unit"].as_str().unwrap());
            for figure in figures.iter().filter(counted) {
                assert!(figure["value"].as_f64().unwrap() > 0.0, "{figure}");
            }
        }
    }
    // None of the bars that are for a large log is called met by a small one.
    let judged = |row: &Value| row["figures"][0]["verdict"].clone();
    for name in ["disk", "memory", "cost", "start"] {
        assert_eq!(judged(rows.iter().find(|row| row["row"] == name).unwrap()), "too_few", "{report}");
    }
}

#[test]
fn one_row_can_be_asked_for_and_its_log_kept() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let output = bench(&["log", "--receipts", "1000", "--only", "lone", "--keep", kept.to_str().unwrap()]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("one lone client, p50 to its proof"), "{table}");
    assert!(!table.contains("connections"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(kept.join("plain/log/store").is_dir());
}

#[test]
fn the_witnesses_rows_are_measured() {
    let arguments = ["--pushes", "640", "--splits", "2", "--receipts", "1000", "--idle-s", "10", "--json"];
    let output = bench(&[&["witness"][..], &arguments].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for name in ["pushes", "lone", "idle", "full", "split-view"] {
        let figures = rows.iter().find(|row| row["row"] == name).map(|row| row["figures"].as_array().unwrap());
        let figures = figures.unwrap_or_else(|| panic!("no {name}: {report}"));
        assert!(figures.iter().any(|figure| figure["value"].as_f64().unwrap() > 0.0), "{name}: {report}");
    }
}

#[test]
fn the_gates_rows_are_measured_or_say_why_not() {
    let few = ["--decisions", "20", "--drained", "300", "--outage-receipts", "40", "--json"];
    let output = bench(&[&["gate"][..], &few].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for name in ["decision", "python", "drain", "outage"] {
        let row = rows.iter().find(|row| row["row"] == name).unwrap_or_else(|| panic!("no {name}: {report}"));
        let figures = row["figures"].as_array().unwrap();
        assert_eq!(figures.is_empty(), row["not_measured"].is_string(), "{row}");
        assert!(name == "python" || !figures.is_empty(), "{row}");
        assert!(figures.iter().all(|figure| figure["value"].as_f64().unwrap() > 0.0), "{row}");
    }
}
