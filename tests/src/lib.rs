//! What the end-to-end tests (`tests/`) and the measurements (`src/bin`) are made of. They run the program in `src/bin` as
//! processes of their own.
//!
//! * [`process`]: a log that can be killed, asked to stop, and questioned about how it ended.
//! * [`gates`]: gates that submit, lose their log, and go on where it says they are.
//! * [`history`]: everything a log ever said, held against everything it says now.
//! * [`disk`]: small file systems that fill up or become read-only.
//! * [`go`]: programs in Go that know ours from their specifications only.
//! * [`sdk`]: the packages for other languages, and what runs their tests.
//! * [`hostile`]: peers that want the log to stop serving others.
//! * [`witnesses`]: witnesses that watch a liar and each other.
//!
//! All of it is test code: whatever does not go as it must is a panic that says what happened.
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod disk;
pub mod gates;
pub mod go;
pub mod history;
pub mod hostile;
#[cfg(test)]
mod listed;
pub mod process;
pub mod sdk;
pub mod witnesses;
