//! What both daemons and the command-line programs share at their edges.
//!
//! * [`listener`]: [`socket`]s to router, with a limit and a deadline on everything a peer can make us hold; [`tls`] if wanted.
//! * [`observed`]: every request counted, timed, logged, and named by its [`request_id`].
//! * [`body`]: reading a request body under its own limit.
//! * [`budget`]: bytes that all peers together may make a daemon hold.
//! * [`compression`]: answers in fewer bytes for those who accept them.
//! * [`problem`]: refusals as RFC 9457 problem documents.
//! * [`config`]: configuration from file, environment and flags.
//! * [`keys`]: private key files.
//! * [`replaced`]: a new text in the place of a file.
//! * [`logs`], [`metrics`], [`shutdown`]: what an operator watches and signals.
//! * [`arguments`], [`output`], [`ascii_json`], [`progress`], [`wrap`]: what a person at a terminal meets.
//!
//! Nothing here knows what a receipt, a tree or a cosignature is.

pub mod arguments;
pub mod ascii_json;
pub mod body;
pub mod budget;
pub mod compression;
pub mod config;
mod configured;
mod connection;
mod descriptors;
pub mod keys;
mod known_keys;
pub mod limits;
pub mod listener;
pub mod logs;
pub mod metrics;
pub mod observed;
pub mod output;
mod places;
pub mod problem;
pub mod progress;
pub mod replaced;
pub mod request_id;
pub mod shutdown;
pub mod socket;
pub mod tls;
mod withheld;
pub mod wrap;

pub use limits::Limits;
pub use listener::serve;
pub use output::ExitStatus;
pub use problem::Problem;
