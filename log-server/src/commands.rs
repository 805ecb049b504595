//! What each subcommand does, from its arguments to its exit status.

mod export;
mod fsck;
mod init;
mod issuer;
mod place;
mod serve;
mod status;

pub(crate) use export::export;
pub(crate) use fsck::fsck;
pub(crate) use init::init;
pub(crate) use issuer::issuer;
pub(crate) use serve::serve;
pub(crate) use status::status;

/// The program's name in front of its complaints.
const PROGRAM: &str = "counterfoil-log";

/// The files of a log's directory.
mod layout {
    pub(super) const CONFIG: &str = "config.toml";
    pub(super) const KEY: &str = "log.key";
    pub(super) const ISSUERS: &str = "issuers";
    pub(super) const STORE: &str = "store";
}
