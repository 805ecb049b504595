//! What every fuzz target asserts, one function a target: hostile bytes in, no panic, and what was accepted prints
//! as it was read.
//!
//! [`TARGETS`] lists them all, so that the seeds can be run without a fuzzer (`cargo test`) and be written again
//! when a format changes (`cargo run --example write_seeds`).

pub mod audits;
pub mod bundles;
pub mod bytes;
pub mod forks;
pub mod notes;
pub mod pushes;
pub mod receipts;
pub mod signed;
pub mod subtrees;
pub mod trees;
/// The small world of the audit's own tests: a log, three witnesses, gates, and the bundle of it all.
#[allow(clippy::new_without_default)]
#[path = "../../crates/audit/tests/world/mod.rs"]
pub mod world;

/// A fuzz target: its name, and what it does with the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by the names of the files in `fuzz_targets/`.
pub const TARGETS: [Target; 33] = [
    ("merkle_path", trees::path),
    ("merkle_entries", trees::entries),
    ("merkle_proof", trees::proof),
    ("merkle_tiles", trees::tiles),
    ("note_signed", notes::signed),
    ("note_checkpoint", notes::checkpoint),
    ("note_vkey", notes::vkey),
    ("note_private_key", notes::private_key),
    ("note_cosignature", notes::cosignature),
    ("note_proof", notes::proof),
    ("note_policy", notes::policy),
    ("receipt_entry", receipts::entry),
    ("receipt_json", receipts::json),
    ("receipt_credential", receipts::credential),
    ("receipt_disclosure", receipts::disclosure),
    ("receipt_log_admitted", receipts::log_admitted),
    ("receipt_omitted_receipt", receipts::omitted_receipt),
    ("receipt_breach", receipts::breach),
    ("cosign_log_fork", forks::log_fork),
    ("cosign_witness_fork", forks::witness_fork),
    ("cosign_omitted_head", forks::omitted_head),
    ("cosign_decide", forks::decide),
    ("cosign_push", pushes::call),
    ("cosign_subtree", subtrees::request),
    ("audit_evidence", audits::evidence),
    ("audit_rules", audits::rules),
    ("audit_issuers", audits::issuers),
    ("audit_foreign", audits::foreign),
    ("audit_acta", signed::acta),
    ("audit_obsigna", signed::obsigna),
    ("audit_pipelock", signed::pipelock),
    ("audit_judge", audits::judge),
    ("audit_bundle", bundles::damaged),
];

#[cfg(test)]
mod tests {
    use super::TARGETS;
    use std::path::Path;

    #[test]
    fn every_target_has_seeds_and_takes_them() {
        for (name, target) in TARGETS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
            let seeds: Vec<Vec<u8>> =
                folder.read_dir().unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
            assert!(!seeds.is_empty(), "{name}");
            seeds.iter().for_each(|seed| target(seed));
        }
    }
}
