//! The journal: what the witness saw, for ever, for everybody; and its own memory.

pub mod book;
pub mod committer;
pub mod fold;
pub mod line;
pub mod memory;
