//! The journal: what this witness saw, in a log of its own.

pub mod book;
pub mod fold;
pub mod line;
