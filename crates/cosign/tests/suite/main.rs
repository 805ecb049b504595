//! What the crate promises, checked from outside: every row of the witness's table, every refusal of a document, and
//! the properties behind both: an honest log is never accused, a forked one always is, and nobody can be accused by
//! changing a byte.

#![allow(clippy::unwrap_used, clippy::panic)]

mod comparisons;
mod documents;
mod histories;
mod properties;
mod pushes;
mod rule;
mod subtrees;
