//! TLS for a listener: a certificate chain and its key from two PEM files, which can be read again while connections are up.
//!
//! TLS 1.3 and 1.2 as rustls offers them, HTTP/1.1 by ALPN, no client certificates. Whoever calls needs no token but what the
//! routes ask for: TLS here keeps what is sent from being read or changed on the way, and says whom one talks to.

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// Most bytes of either file: a chain has a handful of certificates of 2 KiB.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Permission bits of those who are neither owner nor group. (A group of its own for certificates is common.)
const WORLD: u32 = 0o007;

/// Why there is no TLS. Nothing of the files' content is in it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system refused.
    #[error("cannot read {path}: {source}")]
    System {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Far larger than what is expected there.
    #[error("{path} is larger than {MAX_FILE_BYTES} bytes; check the path")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Everybody can read the key.
    #[error("everybody can read the private key {path} (mode {mode:04o}); run: chmod o= {path}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// No certificate in the file.
    #[error("{path} holds no certificate in PEM; give the full chain, the server's own certificate first")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// No key in the file.
    #[error("{path} holds no private key in PEM (PKCS#8, PKCS#1 or SEC1, without a passphrase)")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The two do not go together, or are of a kind that is not supported.
    #[error("the certificate {certificate} and the key {key} cannot be used together: {reason}")]
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// What rustls says.
        reason: rustls::Error,
    },
}

/// A certificate in use, and where it came from.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(configuration(&certificate, &key)?));
        Ok(Self { certificate, key, current })
    }

    /// Reads both files again. Connections from now on get what they hold; those that are up keep what they have.
    ///
    /// # Errors
    /// [`TlsError`]: what was in use stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(configuration(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

fn configuration(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(certificate, 0)?)
        .collect::<Result<_, pem::Error>>()
        .ok()
        .filter(|chain: &Vec<_>| !chain.is_empty())
        .ok_or_else(|| TlsError::NoCertificate { path: certificate.to_owned() })?;
    let private = PrivateKeyDer::from_pem_slice(&read(key, WORLD)?);
    let private = private.map_err(|_| TlsError::NoKey { path: key.to_owned() })?;
    let unusable = |reason| TlsError::Unusable { certificate: certificate.to_owned(), key: key.to_owned(), reason };
    let mut configuration = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(configuration)
}

fn read(path: &Path, forbidden: u32) -> Result<Vec<u8>, TlsError> {
    let system = |source| TlsError::System { path: path.to_owned(), source };
    let file = File::open(path).map_err(system)?;
    let metadata = file.metadata().map_err(system)?;
    if metadata.mode() & forbidden != 0 {
        return Err(TlsError::Exposed { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
    }
    let mut octets = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut octets).map_err(system)?;
    if octets.len() as u64 > MAX_FILE_BYTES {
        return Err(TlsError::TooLarge { path: path.to_owned() });
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn put(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["log.example".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_and_its_key_are_taken_and_everything_else_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let ((certificate, key), (_, other)) = (made(), made());
        let good = put(dir, "chain", &certificate, 0o644);
        let private = put(dir, "key", &key, 0o640);
        Tls::load(good.clone(), private.clone()).unwrap();
        let load = |certificate: &PathBuf, key: &PathBuf| Tls::load(certificate.clone(), key.clone()).unwrap_err();
        assert!(matches!(load(&private, &private), TlsError::NoCertificate { .. }));
        assert!(matches!(load(&good, &good.with_file_name("chain")), TlsError::Exposed { .. }));
        let no_key = put(dir, "no-key", &certificate, 0o600);
        assert!(matches!(load(&good, &no_key), TlsError::NoKey { .. }));
        let other = put(dir, "other", &other, 0o600);
        assert!(matches!(load(&good, &other), TlsError::Unusable { .. }));
        assert!(matches!(load(&good, &dir.join("absent")), TlsError::System { .. }));
        let exposed = put(dir, "exposed", &key, 0o644);
        let error = load(&good, &exposed).to_string();
        assert!(error.contains("chmod o=") && !error.contains("BEGIN"), "{error}");
    }

    #[test]
    fn a_reload_that_fails_leaves_what_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = made();
        let (chain, private) = (put(dir.path(), "chain", &certificate, 0o644), put(dir.path(), "key", &key, 0o600));
        let tls = Tls::load(chain.clone(), private).unwrap();
        let before = Arc::clone(&tls.current.read().unwrap());
        std::fs::write(&chain, "rubbish").unwrap();
        assert!(tls.reload().is_err());
        assert!(Arc::ptr_eq(&before, &tls.current.read().unwrap()));
        std::fs::write(&chain, certificate).unwrap();
        tls.reload().unwrap();
        assert!(!Arc::ptr_eq(&before, &tls.current.read().unwrap()));
    }
}
