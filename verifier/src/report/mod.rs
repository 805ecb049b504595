//! Reports: one verdict on a screen, as JSON for machines, as a page that can be mailed.
//!
//! * [`text`], [`json`], [`html`]: the three forms, each a pure function of the verdict
//! * `words`: what they say alike: the verdict in a sentence, names of marks, what is known of an issuer or a witness
//! * [`named`]: the receipts that findings name, read from the bundle again for the page
//! * `selection`: which findings and receipts a page has room for
//! * `write`: files, put in their places whole
//!
//! Text that comes from receipts was quoted where the finding was made; every form escapes again whatever is no plain
//! letter or sign, because a name or a path that slipped through would be obeyed by a terminal or a browser.

pub mod html;
pub mod json;
pub mod named;
mod selection;
pub mod text;
mod words;
mod write;

pub use words::MAX_SENTENCE;
pub(crate) use write::{ReportFile, write_file, write_private};
