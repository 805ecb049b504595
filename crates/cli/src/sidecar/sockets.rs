//! Where the sidecar listens: at a loopback address, in a socket's file that is its owner's alone, or both.

use super::guard::Token;
use crate::failure::Failure;
use service::socket::Listening;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Where to listen.
#[derive(Debug)]
pub(crate) struct Where {
    /// At this address, to whoever shows the token.
    pub(crate) address: Option<(SocketAddr, Token)>,
    /// In this file.
    pub(crate) socket: Option<PathBuf>,
}

/// What is said of a socket at the start.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) is_address: bool,
}

/// An address of this machine that no other machine gets to.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, Failure> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    match numeric.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => Err(Failure::usage(format!(
            "{text} can be reached from other machines, and whoever reaches the sidecar can write receipts; listen on 127.0.0.1 \
             or [::1], or in a socket's file by --socket"
        ))),
        Err(_) => Err(Failure::usage(format!("{text:?} is no address and port; write for example 127.0.0.1:7390"))),
    }
}

pub(super) async fn bind(where_to: &Where) -> Result<Vec<(Listening, Said, Option<Token>)>, Failure> {
    let mut bound = Vec::new();
    if let Some((address, token)) = &where_to.address {
        let listener = service::listener::bind(*address).await;
        let listener = listener.map_err(|error| Failure::failed(format!("cannot listen on {address}: {error}")))?;
        let address = listener.local_addr().map_err(Failure::failed)?;
        let said = Said { text: format!("http://{address}"), is_address: true };
        bound.push((Listening::from(listener), said, Some(token.clone())));
    }
    if let Some(path) = &where_to.socket {
        let listener = bind_file(path).await?;
        let said = Said { text: format!("unix:{}", path.display()), is_address: false };
        bound.push((Listening::from(listener), said, None));
    }
    Ok(bound)
}

/// Made in a directory that only the owner can enter, and moved into place once its mode is 0600: there is no moment at which
/// others could connect.
async fn bind_file(path: &Path) -> Result<UnixListener, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot listen in {}: {error}", path.display()));
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(Failure::usage(format!("{} is there and no socket; name another path", path.display())));
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            return Err(Failure::failed(format!("another process listens in {}; stop it first", path.display())));
        }
        _ => {}
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = tempfile::Builder::new().prefix(".s").rand_bytes(6).tempdir_in(above).map_err(failed)?;
    let made = private.path().join("s");
    let listener = UnixListener::bind(&made).map_err(failed)?;
    fs::set_permissions(&made, Permissions::from_mode(0o600)).map_err(failed)?;
    fs::rename(&made, path).map_err(failed)?;
    Ok(listener)
}

/// Takes the file away again.
pub(super) fn remove(where_to: &Where) {
    if let Some(path) = &where_to.socket
        && let Err(error) = fs::remove_file(path)
    {
        tracing::debug!(%error, path = %path.display(), "the socket's file was not there any more");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_listened_on() {
        for good in ["127.0.0.1:7390", "127.3.2.1:0", "[::1]:7390", "localhost:7390"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for bad in
            ["0.0.0.0:7390", "[::]:7390", "10.0.0.1:1", "gate.example:7390", "127.0.0.1", "", "[::ffff:10.0.0.1]:1"]
        {
            assert!(loopback(bad).is_err(), "{bad}");
        }
    }
}
