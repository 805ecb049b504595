//! The proof vectors of a public Merkle library, where the folder that holds them is checked out beside this one.

use counterfoil_merkle as merkle;
use merkle::{ConsistencyProof, Hash, InclusionProof, LeafIndex, RootHash, TreeSize, decode_base64};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;

#[test]
fn inclusion_proofs_of_the_public_vectors_are_judged_as_they_say() {
    for row in rows("inclusion.jsonl") {
        let verified = || {
            let proof = InclusionProof::new(proof(&row)?);
            let root = RootHash(hash(&row["root"])?);
            proof
                .verify(&hash(&row["leafHash"])?, LeafIndex(number(&row["leafIdx"])), size(&row["treeSize"]), &root)
                .ok()
        };
        assert_eq!(verified().is_none(), row["wantErr"] == true, "{row}");
    }
}

#[test]
fn consistency_proofs_of_the_public_vectors_are_judged_as_they_say() {
    for row in rows("consistency.jsonl") {
        let verified = || {
            let proof = ConsistencyProof::new(proof(&row)?);
            let (old_root, new_root) = (RootHash(hash(&row["root1"])?), RootHash(hash(&row["root2"])?));
            proof.verify(size(&row["size1"]), &old_root, size(&row["size2"]), &new_root).ok()
        };
        assert_eq!(verified().is_none(), row["wantErr"] == true, "{row}");
    }
}

fn rows(file: &str) -> Vec<Value> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors/merkle"));
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        // Not eprintln!: the harness keeps that to itself, and a skipped check has to be seen.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED: the public Merkle vectors in {file} (../shared/vectors/merkle is not here)")
            .unwrap();
        return Vec::new();
    };
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() > 80, "{file} has only {} rows", rows.len());
    assert!(rows.iter().any(|row| row["wantErr"] == false), "{file} has no proof that holds");
    rows
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn size(value: &Value) -> TreeSize {
    TreeSize(number(value))
}

/// The hash, or `None` when it is not one of 32 bytes: our types do not let such a hash as far as a verifier.
fn hash(value: &Value) -> Option<Hash> {
    let bytes = decode_base64(value.as_str().unwrap()).unwrap();
    Some(Hash(bytes.try_into().ok()?))
}

fn proof(row: &Value) -> Option<Vec<Hash>> {
    row["proof"].as_array().map_or(Some(Vec::new()), |hashes| hashes.iter().map(hash).collect())
}
