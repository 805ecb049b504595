//! What the end-to-end tests (`tests/`) and the measurements (`src/bin`) are made of. They run the program in `src/bin` as
//! processes of their own.
//!
//! * [`process`]: a log that can be killed, asked to stop, and questioned about how it ended.
//! * [`gates`]: gates that submit, lose their log, and go on where it says they are.
//! * [`history`]: everything a log ever said, held against everything it says now.
//! * [`disk`]: small file systems that fill up or become read-only.
//! * [`hostile`]: peers that want the log to stop serving others.
//!
//! All of it is test code: whatever does not go as it must is a panic that says what happened.
#![allow(clippy::unwrap_used, clippy::panic)]

pub mod disk;
pub mod gates;
pub mod history;
pub mod hostile;
pub mod process;
