//! The log's configuration: what may stand in `config.toml`, and how it is checked.
//!
//! ```toml
//! listen = "127.0.0.1:8080"
//! head_interval_ms = 200
//!
//! [[witness]]
//! vkey = "witness.example+…"
//! mldsa_vkey = "witness.example+…"
//! url = "http://127.0.0.1:7380"
//! protocol = "counterfoil"
//! ```

use crate::issuer_rates::IssuerRates;
use crate::quorum::{Quorum, QuorumError};
use client::{AddressError, BaseUrl};
use note::{KeyKind, KeyName, Policy, PolicyError, VerifierKey};
use serde::{Deserialize, Serialize};
use service::Limits;
use service::config::{ConfigError, Flags, Loaded};
use service::limits::LimitError;
use service::logs::LogFormat;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most keys of the witnesses of one log: a note takes 64 signature lines, and one is the log's own.
pub const MAX_WITNESS_KEYS: usize = 63;

/// Every key of the configuration file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogConfig {
    /// Address to listen on.
    pub listen: String,
    /// The log's private key.
    #[serde(default = "default_key")]
    pub key: PathBuf,
    /// The store's directory.
    #[serde(default = "default_store")]
    pub store: PathBuf,
    /// The list of issuers.
    #[serde(default = "default_issuers")]
    pub issuers: PathBuf,
    /// When a head counts as cosigned (C2SP tlog-policy). Without it: when every configured witness cosigned it.
    pub policy: Option<PathBuf>,
    /// The longest that one head stays on offer while newer ones are signed.
    #[serde(default = "default_head_interval_ms")]
    pub head_interval_ms: u64,
    /// How long `wait=cosigned` waits before it answers 504 with the integrated proof.
    #[serde(default = "default_cosigned_wait_ms")]
    pub cosigned_wait_ms: u64,
    /// How often a quiet log asks its witnesses for fresh cosignatures of the unchanged head.
    #[serde(default = "default_witness_poll_ms")]
    pub witness_poll_ms: u64,
    /// How long one request to a witness may take.
    #[serde(default = "default_witness_deadline_ms")]
    pub witness_deadline_ms: u64,
    /// How long the committer waits for more receipts while it is under load, before it syncs.
    #[serde(default = "default_linger_ms")]
    pub linger_ms: u64,
    /// Submissions that may wait for the committer. A further one is answered 503.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// Mebibytes that must be free on the store's disk; with less, no receipts are taken.
    #[serde(default = "default_min_free_mib")]
    pub min_free_mib: u64,
    /// Receipts that one issuer may have committed in a second, on the long run. Without it: as many as the log can take.
    pub issuer_receipts_per_s: Option<u32>,
    /// Receipts that an issuer may have committed at once after a pause. Without it: those of one second.
    pub issuer_burst: Option<u32>,
    /// How long `/readyz` says 503 after SIGTERM while everything else goes on, so that a load balancer can look elsewhere.
    #[serde(default)]
    pub drain_notice_ms: u64,
    /// The file with the token for `/v1/admin`. Without it there is no `/v1/admin`.
    pub admin_token_file: Option<PathBuf>,
    /// The certificate and its key. Without them the log speaks plain HTTP.
    #[serde(default)]
    pub tls: TlsFiles,
    /// How log lines look.
    #[serde(default)]
    pub log_format: LogFormat,
    /// Which log lines are written.
    #[serde(default = "default_log_level")]
    pub log_level: String,
    /// Limits of the listener.
    #[serde(default)]
    pub limits: Limits,
    /// The witnesses to nudge, or to push to, and to ask for cosignatures.
    #[serde(default)]
    pub witness: Vec<WitnessConfig>,
}

/// One witness.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WitnessConfig {
    /// Its key.
    pub vkey: String,
    /// Its key of type `0x06`, where it cosigns with one beside the other: both lines are asked for, served and counted.
    pub mldsa_vkey: Option<String>,
    /// Its address; for a `tlog-witness` its submission prefix.
    pub url: String,
    /// How it gets to see heads.
    #[serde(default)]
    pub protocol: Protocol,
}

/// How a witness gets to see heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum Protocol {
    /// It is nudged and fetches by itself, as `counterfoil-witness` does.
    #[default]
    Counterfoil,
    /// Each head is pushed to it, with the proof from the one it holds (C2SP tlog-witness, `add-checkpoint`).
    TlogWitness,
}

/// A word that names no [`Protocol`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no protocol of witnesses; write \"counterfoil\", or \"tlog-witness\" for one that heads are pushed to"
)]
pub struct UnknownProtocol(String);

impl TryFrom<String> for Protocol {
    type Error = UnknownProtocol;

    fn try_from(word: String) -> Result<Self, UnknownProtocol> {
        match word.as_str() {
            "counterfoil" => Ok(Self::Counterfoil),
            "tlog-witness" => Ok(Self::TlogWitness),
            _ => Err(UnknownProtocol(word)),
        }
    }
}

/// A certificate chain and its key, in PEM: both or none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Both files, or nothing.
    ///
    /// # Errors
    /// [`SetupError::HalfTls`] where one is missing.
    pub fn both(&self) -> Result<Option<(&Path, &Path)>, SetupError> {
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(SetupError::HalfTls { set: "certificate", missing: "key" }),
            (None, Some(_)) => Err(SetupError::HalfTls { set: "key", missing: "certificate" }),
        }
    }
}

fn default_key() -> PathBuf {
    "log.key".into()
}

fn default_store() -> PathBuf {
    "store".into()
}

fn default_issuers() -> PathBuf {
    "issuers".into()
}

fn default_head_interval_ms() -> u64 {
    200
}

fn default_cosigned_wait_ms() -> u64 {
    10_000
}

fn default_witness_poll_ms() -> u64 {
    10_000
}

fn default_witness_deadline_ms() -> u64 {
    3_000
}

fn default_linger_ms() -> u64 {
    2
}

fn default_queue() -> usize {
    4096
}

/// What the log writes in seconds of full load, several times over, and what its indexes grow by in a day.
fn default_min_free_mib() -> u64 {
    256
}

fn default_log_level() -> String {
    "info".into()
}

/// Why a configuration cannot be used. Each says what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// File, environment or flags.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A number outside what makes sense.
    #[error("{key} is {value}; it must be {wanted}")]
    Number {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        wanted: &'static str,
    },
    /// One of two keys that only make sense together.
    #[error("tls.{set} is set and tls.{missing} is not; set both for TLS, or neither for plain HTTP")]
    HalfTls {
        /// The key that is there.
        set: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A burst of a rate that is not limited.
    #[error("issuer_burst is set and issuer_receipts_per_s is not; set both, or neither for no limit")]
    BurstWithoutRate,
    /// A limit outside what makes sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A witness's key is none.
    #[error(
        "the {name} of [[witness]] number {number} cannot be used: {reason}; write the line that `counterfoil-witness init` printed"
    )]
    WitnessKey {
        /// `vkey` or `mldsa_vkey`.
        name: &'static str,
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        reason: String,
    },
    /// A witness's address is none.
    #[error("the url of [[witness]] number {number} cannot be used: {reason}")]
    WitnessUrl {
        /// Counted from 1.
        number: usize,
        /// What is wrong.
        reason: AddressError,
    },
    /// One witness twice, or too many of them.
    #[error("{0}")]
    Witnesses(String),
    /// The policy file cannot be read.
    #[error("cannot read the policy file {path}: {reason}")]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The policy file is no policy.
    #[error("the policy file {path} is no tlog-policy: {reason}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// Line and reason.
        reason: PolicyError,
    },
    /// The policy is not for this log.
    #[error("the policy file {path} cannot be used: {reason}")]
    Quorum {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: QuorumError,
    },
}

/// A witness whose key and address have been checked.
#[derive(Clone, Debug)]
pub struct Witness {
    /// Its keys, one at least. The first one's name is the witness's in log lines and metrics.
    pub keys: Vec<VerifierKey>,
    /// Its address.
    pub url: BaseUrl,
    /// How it gets to see heads.
    pub protocol: Protocol,
}

impl Witness {
    /// What it is called in log lines and metrics.
    pub fn name(&self) -> &KeyName {
        self.keys[0].name()
    }
}

/// Loads the configuration in `file` with the environment and `flags` on top.
///
/// # Errors
/// [`SetupError`].
pub fn load(file: &Path, flags: Flags) -> Result<Loaded<LogConfig>, SetupError> {
    let loaded: Loaded<LogConfig> = service::config::load(Some(file), flags)?;
    loaded.values.check()?;
    Ok(loaded)
}

impl LogConfig {
    fn check(&self) -> Result<(), SetupError> {
        self.limits.check()?;
        self.tls.both()?;
        if self.issuer_burst.is_some() && self.issuer_receipts_per_s.is_none() {
            return Err(SetupError::BurstWithoutRate);
        }
        let rows = [
            ("head_interval_ms", self.head_interval_ms, 10, 60_000, "between 10 and 60000"),
            ("cosigned_wait_ms", self.cosigned_wait_ms, 1, 300_000, "between 1 and 300000"),
            ("witness_poll_ms", self.witness_poll_ms, 100, 3_600_000, "between 100 and 3600000"),
            ("witness_deadline_ms", self.witness_deadline_ms, 10, 60_000, "between 10 and 60000"),
            ("linger_ms", self.linger_ms, 0, 100, "at most 100"),
            ("queue", self.queue as u64, 1, 1_000_000, "between 1 and 1000000"),
            // A pebibyte: more is a typing error, and no disk.
            ("min_free_mib", self.min_free_mib, 0, 1 << 30, "at most 1073741824"),
            ("drain_notice_ms", self.drain_notice_ms, 0, 300_000, "at most 300000"),
            (
                "issuer_receipts_per_s",
                self.issuer_receipts_per_s.map_or(1, u64::from),
                1,
                1_000_000,
                "between 1 and 1000000",
            ),
            ("issuer_burst", self.issuer_burst.map_or(1, u64::from), 1, 1_000_000, "between 1 and 1000000"),
        ];
        match rows.into_iter().find(|(_, value, least, most, _)| value < least || value > most) {
            Some((key, value, _, _, wanted)) => Err(SetupError::Number { key, value, wanted }),
            None => Ok(()),
        }
    }

    /// The configured witnesses.
    ///
    /// # Errors
    /// [`SetupError`]: the first one that cannot be used.
    pub fn witnesses(&self) -> Result<Vec<Witness>, SetupError> {
        let mut witnesses: Vec<Witness> = Vec::new();
        for (number, witness) in self.witness.iter().enumerate().map(|(index, witness)| (index + 1, witness)) {
            let mut keys = vec![witness_key("vkey", number, &witness.vkey, KeyKind::cosigns)?];
            if let Some(vkey) = &witness.mldsa_vkey {
                keys.push(witness_key("mldsa_vkey", number, vkey, |kind| kind == KeyKind::MlDsa44)?);
            }
            let mut earlier: Vec<&VerifierKey> = witnesses.iter().flat_map(|witness| &witness.keys).collect();
            for key in &keys {
                if earlier.iter().any(|other| other.public_key_bytes() == key.public_key_bytes()) {
                    return Err(SetupError::Witnesses(format!(
                        "[[witness]] number {number} names the key of {} again; remove one of the two",
                        key.name()
                    )));
                }
                earlier.push(key);
            }
            if earlier.len() > MAX_WITNESS_KEYS {
                return Err(SetupError::Witnesses(format!(
                    "more than {MAX_WITNESS_KEYS} keys of witnesses are configured; a checkpoint has no room for more cosignatures"
                )));
            }
            let url = witness.url.parse().map_err(|reason| SetupError::WitnessUrl { number, reason })?;
            witnesses.push(Witness { keys, url, protocol: witness.protocol });
        }
        Ok(witnesses)
    }

    /// When a head of the log with key `log` counts as cosigned; `policy` is the policy file's path, resolved.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn quorum(policy: Option<&Path>, log: &VerifierKey, witnesses: &[Witness]) -> Result<Quorum, SetupError> {
        let keys: Vec<VerifierKey> = witnesses.iter().flat_map(|witness| witness.keys.clone()).collect();
        let Some(path) = policy else { return Ok(Quorum::every(keys.len())) };
        let octets = std::fs::read(path).map_err(|reason| SetupError::PolicyFile { path: path.to_owned(), reason })?;
        let policy = Policy::parse(&octets).map_err(|reason| SetupError::Policy { path: path.to_owned(), reason })?;
        Quorum::by_policy(policy, log, &keys).map_err(|reason| SetupError::Quorum { path: path.to_owned(), reason })
    }

    /// [`LogConfig::min_free_mib`] in bytes.
    pub fn min_free_bytes(&self) -> u64 {
        self.min_free_mib.saturating_mul(1 << 20)
    }

    /// [`LogConfig::drain_notice_ms`] as a duration.
    pub fn drain_notice(&self) -> Duration {
        Duration::from_millis(self.drain_notice_ms)
    }

    /// The limit on what each issuer may have committed, if there is one.
    pub fn issuer_rates(&self) -> Option<IssuerRates> {
        let per_s = NonZeroU32::new(self.issuer_receipts_per_s?)?;
        Some(IssuerRates::new(per_s, self.issuer_burst.and_then(NonZeroU32::new).unwrap_or(per_s)))
    }

    /// [`LogConfig::head_interval_ms`] as a duration.
    pub fn head_interval(&self) -> Duration {
        Duration::from_millis(self.head_interval_ms)
    }

    /// [`LogConfig::cosigned_wait_ms`] as a duration.
    pub fn cosigned_wait(&self) -> Duration {
        Duration::from_millis(self.cosigned_wait_ms)
    }

    /// [`LogConfig::witness_poll_ms`] as a duration.
    pub fn witness_poll(&self) -> Duration {
        Duration::from_millis(self.witness_poll_ms)
    }

    /// [`LogConfig::witness_deadline_ms`] as a duration.
    pub fn witness_deadline(&self) -> Duration {
        Duration::from_millis(self.witness_deadline_ms)
    }

    /// [`LogConfig::linger_ms`] as a duration.
    pub fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }
}

fn witness_key(
    name: &'static str,
    number: usize,
    text: &str,
    wanted: impl Fn(KeyKind) -> bool,
) -> Result<VerifierKey, SetupError> {
    let refused = |reason: String| SetupError::WitnessKey { name, number, reason };
    let key: VerifierKey = text.parse().map_err(|error: note::KeyError| refused(error.to_string()))?;
    match key.kind() {
        kind if wanted(kind) => Ok(key),
        kind => Err(refused(format!("a key of type {:#04x} does not belong here", kind.byte()))),
    }
}

/// The text of a new log's `config.toml`.
pub fn initial_text(listen: &str) -> String {
    format!(
        "# Configuration of counterfoil-log. Every key can be overridden by COUNTERFOIL_<KEY> in the environment and\n\
         # by a flag of `counterfoil-log serve`; paths are relative to this file.\n\
         listen = {listen:?}\n\
         \n\
         # The longest that one head stays on offer while newer ones are signed.\n\
         # head_interval_ms = 200\n\
         # When `Prefer: wait=cosigned` is answered. Without it: once every witness below has cosigned.\n\
         # policy = \"policy\"\n\
         # Below so many free mebibytes on the store's disk no receipts are taken.\n\
         # min_free_mib = 256\n\
         # Receipts that one issuer may have committed in a second. Without it: no limit.\n\
         # issuer_receipts_per_s = 1000\n\
         # The file with the token for /v1/admin. Without it: no /v1/admin.\n\
         # admin_token_file = \"admin.token\"\n\
         \n\
         # TLS, by the log itself. SIGHUP reads both files again.\n\
         # [tls]\n\
         # certificate = \"fullchain.pem\"\n\
         # key = \"privkey.pem\"\n\
         \n\
         # One section for each witness:\n\
         # [[witness]]\n\
         # vkey = \"witness.example+…\"\n\
         # url = \"http://127.0.0.1:7380\"\n\
         # Where the witness has an ML-DSA-44 key too, both of its lines are asked for:\n\
         # mldsa_vkey = \"witness.example+…\"\n\
         # A witness of another make, that heads are pushed to (C2SP tlog-witness):\n\
         # protocol = \"tlog-witness\"\n"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use note::{KeyName, SigningKey};

    fn load_text(text: &str) -> Result<Loaded<LogConfig>, SetupError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        load(&path, Flags::new())
    }

    fn witness_section(name: &str, kind: KeyKind, url: &str) -> String {
        let key = SigningKey::from_seed(KeyName::new(name).unwrap(), kind, [9; 32]).verifier();
        format!("\n[[witness]]\nvkey = \"{key}\"\nurl = \"{url}\"\n")
    }

    #[test]
    fn a_new_logs_configuration_is_usable_as_it_is_and_takes_sections_at_its_end() {
        let text = initial_text("127.0.0.1:8080");
        let config = load_text(&text).unwrap().values;
        assert_eq!((config.listen.as_str(), config.head_interval_ms, config.witness.len()), ("127.0.0.1:8080", 200, 0));
        let text = format!("{text}{}", witness_section("w", KeyKind::CosignatureV1, "http://127.0.0.1:1"));
        assert_eq!(load_text(&text).unwrap().values.witnesses().unwrap().len(), 1);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_with_what_they_must_be() {
        let error = load_text("listen = \"a\"\nhead_interval_ms = 0").unwrap_err().to_string();
        assert_eq!(error, "head_interval_ms is 0; it must be between 10 and 60000");
    }

    #[test]
    fn what_only_makes_sense_together_is_asked_for_together() {
        for (text, wanted) in [
            ("tls = { key = \"k\" }", "tls.key is set and tls.certificate is not"),
            ("tls = { certificate = \"c\" }", "tls.certificate is set and tls.key is not"),
            ("issuer_burst = 5", "issuer_burst is set and issuer_receipts_per_s is not"),
            ("issuer_receipts_per_s = 0", "issuer_receipts_per_s is 0; it must be between"),
            ("min_free_mib = 9999999999", "min_free_mib is 9999999999"),
            ("tls = { kay = \"k\" }", "did you mean `tls.key`?"),
        ] {
            let error = load_text(&format!("listen = \"a\"\n{text}")).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let both = load_text("listen = \"a\"\ntls = { certificate = \"c\", key = \"k\" }").unwrap().values;
        assert_eq!(both.tls.both().unwrap(), Some((Path::new("c"), Path::new("k"))));
        assert!(both.issuer_rates().is_none());
    }

    #[test]
    fn a_witness_needs_a_witness_key_an_address_and_stands_once() {
        let listed = |sections: &[String]| {
            load_text(&format!("listen = \"a\"\n{}", sections.concat())).unwrap().values.witnesses()
        };
        let good = witness_section("w", KeyKind::CosignatureV1, "http://w.example");
        assert!(listed(std::slice::from_ref(&good)).is_ok());
        assert!(matches!(listed(&[good.clone(), good]), Err(SetupError::Witnesses(_))));
        assert!(matches!(
            listed(&[witness_section("w", KeyKind::Ed25519, "http://w.example")]),
            Err(SetupError::WitnessKey { number: 1, .. })
        ));
        assert!(matches!(
            listed(&[witness_section("w", KeyKind::CosignatureV1, "w.example")]),
            Err(SetupError::WitnessUrl { number: 1, .. })
        ));
    }

    #[test]
    fn a_witness_may_have_a_second_key_of_its_other_kind() {
        let mldsa = SigningKey::from_seed(KeyName::new("w").unwrap(), KeyKind::MlDsa44, [9; 32]).verifier();
        let listed = |line: String| {
            let section = witness_section("w", KeyKind::CosignatureV1, "http://w.example");
            load_text(&format!("listen = \"a\"\n{section}{line}\n")).unwrap().values.witnesses()
        };
        assert_eq!(listed(String::new()).unwrap()[0].keys.len(), 1);
        let both = listed(format!("mldsa_vkey = \"{mldsa}\"")).unwrap();
        assert_eq!(both[0].keys[1], mldsa);
        let ed25519 = SigningKey::from_seed(KeyName::new("w").unwrap(), KeyKind::CosignatureV1, [8; 32]).verifier();
        let error = listed(format!("mldsa_vkey = \"{ed25519}\"")).unwrap_err().to_string();
        assert!(error.contains("the mldsa_vkey of [[witness]] number 1 cannot be used: a key of type 0x04"), "{error}");
        let twice = format!("mldsa_vkey = \"{mldsa}\"\n[[witness]]\nvkey = \"{mldsa}\"\nurl = \"http://x.example\"");
        assert!(matches!(listed(twice), Err(SetupError::Witnesses(_))), "one key is one witness's");
        // Witnesses of other makes may have a key of this kind alone.
        let alone = format!("listen = \"a\"\n[[witness]]\nvkey = \"{mldsa}\"\nurl = \"http://w.example\"\n");
        assert!(load_text(&alone).unwrap().values.witnesses().is_ok());
    }

    #[test]
    fn a_witness_is_nudged_unless_its_section_says_that_it_is_pushed_to() {
        let section = witness_section("w", KeyKind::CosignatureV1, "http://w.example");
        let protocol = |line: &str| {
            load_text(&format!("listen = \"a\"\n{section}{line}\n")).map(|loaded| loaded.values.witness[0].protocol)
        };
        assert_eq!(protocol("").unwrap(), Protocol::Counterfoil);
        assert_eq!(protocol("protocol = \"counterfoil\"").unwrap(), Protocol::Counterfoil);
        assert_eq!(protocol("protocol = \"tlog-witness\"").unwrap(), Protocol::TlogWitness);
        let error = protocol("protocol = \"add-checkpoint\"").unwrap_err().to_string();
        assert!(error.contains("write \"counterfoil\", or \"tlog-witness\""), "{error}");
    }
}
