//! Which members of a bundle are looked at, by their paths; the others are told, so that nothing in a bundle is there
//! unsaid. Memory does not grow with how many there are.

use crate::bundle::{BundleSource, witness_dir};
use crate::kept::{is_proof, proof_of_entry};
use crate::quote::one_line;
use merkle::ResourcePath;
use note::Policy;
use std::collections::{BTreeSet, HashSet};

/// Most members that are named.
const MAX_NAMED: usize = 100;

/// What nothing was concluded from: copies of the auditor's own files, witnesses that the policy does not list, older
/// heads of journals, kept entries without their proof, files that belong nowhere, links and the like. The first by name;
/// the last line says how many more.
pub(crate) fn ignored(bundle: &dyn BundleSource, paths: &[String], policy: &Policy) -> Vec<String> {
    let witnesses: BTreeSet<String> =
        policy.witnesses().iter().map(|witness| format!("{}/", witness_dir(witness.vkey.name()))).collect();
    let left_out = bundle.left_out();
    let mut count = left_out.count;
    let mut named: BTreeSet<String> = left_out.named.iter().map(|name| one_line(name)).collect();
    let proofs: HashSet<&str> = paths.iter().map(String::as_str).filter(|path| is_proof(path)).collect();
    for path in paths.iter().filter(|path| !is_read(path, &witnesses, &proofs)) {
        count += 1;
        named.insert(one_line(path));
        if named.len() > MAX_NAMED {
            named.pop_last();
        }
    }
    let more = count - named.len() as u64;
    named.into_iter().chain((more > 0).then(|| format!("... and {more} more"))).collect()
}

/// Whether a file lies at one of the places of a bundle (protocol 8) at which something is looked at.
/// A kept entry is looked at beside its proof.
fn is_read(path: &str, witnesses: &BTreeSet<String>, proofs: &HashSet<&str>) -> bool {
    if let Some(rest) = path.strip_prefix("log/") {
        return ResourcePath::parse(rest).is_some();
    }
    let is_beside_proof = || proof_of_entry(path).is_some_and(|proof| proofs.contains(proof.as_str()));
    if is_proof(path) || is_evidence(path) || is_beside_proof() {
        return true;
    }
    // `witness/<one part>/`: whose directory that is, the policy says.
    let Some((place, _)) = path.match_indices('/').nth(1) else { return false };
    let (dir, rest) = path.split_at(place + 1);
    witnesses.contains(dir)
        && match rest.strip_prefix("journal/").map(ResourcePath::parse) {
            None => rest == "checkpoint",
            Some(resource) => resource.is_some_and(|resource| !matches!(resource, ResourcePath::Heads(_))),
        }
}

/// Whether this is the path of an evidence document.
pub(crate) fn is_evidence(path: &str) -> bool {
    path.starts_with("evidence/") && path.ends_with(".json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::bundle::{LeftOut, MemoryBundle, ReadError};
    use note::{KeyKind, KeyName, SigningKey};

    struct WithLinks(MemoryBundle, u64);

    impl BundleSource for WithLinks {
        fn read(&self, path: &str, max: u64) -> Result<Option<Vec<u8>>, ReadError> {
            self.0.read(path, max)
        }
        fn list(&self) -> Vec<String> {
            self.0.list()
        }
        fn left_out(&self) -> LeftOut {
            let mut left_out = LeftOut::default();
            (0..self.1).for_each(|number| left_out.add(|| format!("a symbolic link: log/{number}\u{1b}[2J")));
            left_out
        }
    }

    fn policy() -> Policy {
        let key = SigningKey::from_seed(KeyName::new("w.example/1").unwrap(), KeyKind::CosignatureV1, [1; 32]);
        Policy::parse(format!("witness w {}\nquorum w\n", key.verifier()).as_bytes()).unwrap()
    }

    fn ignored_of(paths: &[&str], links: u64) -> Vec<String> {
        let mut bundle = MemoryBundle::new();
        paths.iter().for_each(|path| bundle.insert(*path, *b"x"));
        let bundle = WithLinks(bundle, links);
        ignored(&bundle, &bundle.list(), &policy())
    }

    #[test]
    fn what_lies_at_a_known_place_is_not_ignored() {
        let known = [
            "log/checkpoint",
            "log/tile/0/000",
            "log/tile/entries/x001/000.p/3",
            "log/heads/000.p/1",
            "witness/w.example%2F1/checkpoint",
            "witness/w.example%2F1/journal/checkpoint",
            "witness/w.example%2F1/journal/tile/entries/000.p/9",
            "proofs/a.tlog-proof",
            "proofs/a.entry",
            "evidence/log-000000.json",
        ];
        assert_eq!(ignored_of(&known, 0), Vec::<String>::new());
    }

    #[test]
    fn everything_else_is_told_by_an_escaped_name() {
        let strange = [
            "evidence/head-3.checkpoint",
            "issuers",
            "log/checkpoint.bak",
            "log/heads/000.p/0",
            "log/tile/0/000.p/256",
            "proofs/alone.entry",
            "witness/other/checkpoint",
            "witness/w.example%2F1/journal/heads/000.p/1",
            "witness/w.example%2F1/journal/x",
            "witness/w.example%2F1/notes",
        ];
        assert_eq!(ignored_of(&strange, 0), strange);
        assert_eq!(ignored_of(&["log/a\nb\u{202e}"], 1), ["a symbolic link: log/0\\u{1b}[2J", "log/a\\u{a}b\\u{202e}"]);
    }

    #[test]
    fn the_first_hundred_are_named_and_all_are_counted() {
        let names: Vec<String> = (0..250).map(|number| format!("x/{number:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (links, last) in [(0, "... and 150 more"), (3, "... and 153 more"), (1000, "... and 1150 more")] {
            let ignored = ignored_of(&names, links);
            assert_eq!((ignored.len(), ignored.last().map(String::as_str)), (101, Some(last)));
        }
    }
}
