//! Strict verification: every party must agree on every signature, however oddly key and signature are encoded.

use counterfoil_note::{KeyError, KeyKind, KeyName, KeyTables, SignatureCheck, VerifierKey};
use std::io::Write as _;
use std::path::PathBuf;

/// One row of the test vectors: does a signature hold?
struct Row {
    number: u64,
    key: [u8; 32],
    signature: [u8; 64],
    message: Vec<u8>,
    flags: Vec<String>,
}

impl Row {
    fn accepted(&self) -> bool {
        let name = KeyName::new("cctv.example").unwrap();
        match VerifierKey::new(name, KeyKind::Ed25519, &self.key) {
            Ok(key) => {
                let (plainly, tables) = (key.verify(&self.message, &self.signature), KeyTables::new(1));
                tables.prepare(&key);
                assert_eq!(tables.verify(&key, &self.message, &self.signature), plainly, "row {}", self.number);
                assert_eq!(tables.checks_by_table(), 1);
                plainly
            }
            Err(KeyError::Weak | KeyError::NotAPoint) => false,
            Err(other) => panic!("row {}: {other}", self.number),
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    /// Canonical encodings, no small-order point, and the equation holds without the cofactor.
    fn should_be_accepted(&self) -> bool {
        !["low_order_A", "low_order_R", "non_canonical_A", "non_canonical_R", "low_order_residue"]
            .iter()
            .any(|flag| self.has(flag))
    }
}

#[test]
fn each_combination_of_edge_cases_is_judged_strictly() {
    let mut rows = 0;
    let mut accepted = 0;
    for line in include_str!("cctv_sample.txt").lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(';').collect();
        let row = Row {
            number: parts[0].parse().unwrap(),
            key: hex::decode(parts[1]).unwrap().try_into().unwrap(),
            signature: hex::decode(parts[2]).unwrap().try_into().unwrap(),
            message: parts[3].as_bytes().to_vec(),
            flags: parts[4].split(',').map(str::to_owned).collect(),
        };
        assert_eq!(row.accepted(), row.should_be_accepted(), "row {}", row.number);
        rows += 1;
        accepted += usize::from(row.accepted());
    }
    assert_eq!((rows, accepted), (72, 9));
}

#[test]
fn exactly_43_of_the_914_edge_cases_are_accepted() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/ed25519/cctv.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        // Not eprintln!: the harness keeps that to itself, and a skipped check has to be seen.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED: {} is absent, only the sample of 72 rows was checked", path.display()).unwrap();
        return;
    };
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(rows.len(), 914);
    let mut accepted = 0;
    for row in rows {
        let row = Row {
            number: row["number"].as_u64().unwrap(),
            key: hex::decode(row["key"].as_str().unwrap()).unwrap().try_into().unwrap(),
            signature: hex::decode(row["sig"].as_str().unwrap()).unwrap().try_into().unwrap(),
            message: row["msg"].as_str().unwrap().as_bytes().to_vec(),
            flags: row["flags"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect(),
        };
        assert_eq!(row.accepted(), row.should_be_accepted(), "row {}", row.number);
        accepted += usize::from(row.accepted());
    }
    assert_eq!(accepted, 43);
}

#[test]
fn small_order_keys_are_refused_at_parse_in_every_encoding() {
    // The eight points of small order in canonical encoding: orders 1, 2, 4, 4, 8, 8, 8, 8.
    let canonical = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    ];
    for key in canonical {
        assert_eq!(parse(key), Err(KeyError::Weak), "{key}");
    }
    // Field elements at and beyond the prime, and the identity and the point of order 2 with x = -0.
    let other_encodings = [
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ];
    for key in other_encodings {
        assert_eq!(parse(key), Err(KeyError::NotAPoint), "{key}");
    }
}

#[test]
fn bytes_that_encode_no_point_are_refused() {
    // y = 2 has no x on the curve.
    let key = "0200000000000000000000000000000000000000000000000000000000000000";
    assert_eq!(parse(key), Err(KeyError::NotAPoint));
}

fn parse(key: &str) -> Result<VerifierKey, KeyError> {
    VerifierKey::new(KeyName::new("weak.example").unwrap(), KeyKind::Ed25519, &hex::decode(key).unwrap())
}
