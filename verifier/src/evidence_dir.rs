//! `audit --evidence DIR`: every document that the audit made, in a file of its own, as `evidence` and a bundle's
//! `evidence/` take it.

use crate::ascii_json;
use crate::failure::{Failure, failed, usage};
use crate::report::write_private;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Makes sure, before anything is judged, that documents can be put into `dir`: it is new or empty, so that nobody takes
/// those of an earlier audit for those of this one.
pub(crate) fn prepare(dir: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| failed(format!("cannot write evidence into {}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(cannot)?;
    match fs::read_dir(dir).map_err(cannot)?.next() {
        None => Ok(()),
        Some(_) => Err(usage(format!("{} is not empty; give a new directory for the evidence", dir.display()))),
    }
}

/// Writes the documents, in the order in which they were made. Each is whole or not there.
pub(crate) fn write(dir: &Path, documents: &[Value]) -> Result<(), Failure> {
    for (place, document) in (1_usize..).zip(documents) {
        // The kind is one of the audit's own words.
        let kind = document["kind"].as_str().unwrap_or("document");
        let path = dir.join(format!("{place:03}-{kind}.json"));
        let cannot = |error: &dyn std::fmt::Display| failed(format!("cannot write {}: {error}", path.display()));
        let json = ascii_json::to_string(document).map_err(|error| cannot(&error))?;
        write_private(&path, format!("{json}\n")).map_err(|error| cannot(&error))?;
    }
    Ok(())
}
