//! `counterfoil-log serve`: from a configuration file to a running log, until a signal or a failure.

use super::PROGRAM;
use crate::admin::{AdminToken, TokenError};
use crate::arguments::Serve;
use crate::clock::Clock;
use crate::config::{self, LogConfig, SetupError};
use crate::run::{self, Operation, RunError, Setup};
use note::KeyKind;
use service::output::complain;
use service::tls::{Tls, TlsError};
use service::{ExitStatus, keys, logs, shutdown};
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Key(#[from] keys::KeyFileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the system refuses what the log needs: {0}")]
    System(#[from] std::io::Error),
}

pub(crate) fn serve(arguments: &Serve) -> ExitStatus {
    match run_until_stopped(arguments) {
        Ok(()) => ExitStatus::Ok,
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                ServeError::Usage(_) | ServeError::Setup(_) => ExitStatus::Usage,
                _ => ExitStatus::Failed,
            }
        }
    }
}

fn run_until_stopped(arguments: &Serve) -> Result<(), ServeError> {
    let loaded = config::load(&arguments.config, arguments.flags().map_err(ServeError::Usage)?)?;
    let config = loaded.values.clone();
    logs::init(config.log_format, &config.log_level).map_err(ServeError::Usage)?;
    let signing_key = keys::read_signing_key(&loaded.resolve(&config.key), KeyKind::Ed25519)?;
    let key = signing_key.verifier();
    let witnesses = config.witnesses()?;
    let policy = config.policy.as_ref().map(|path| loaded.resolve(path));
    let quorum = LogConfig::quorum(policy.as_deref(), &key, &witnesses)?;
    let issuers = loaded.resolve(&config.issuers);
    let store_dir = loaded.resolve(&config.store);
    let tls = match config.tls.both()? {
        Some((certificate, key)) => Some(Tls::load(loaded.resolve(certificate), loaded.resolve(key))?),
        None => None,
    };
    let admin = match &config.admin_token_file {
        Some(path) => Some(AdminToken::read(&loaded.resolve(path))?),
        None => None,
    };
    let operation = Operation { store_dir: Some(store_dir.clone()), tls: tls.map(Arc::new), admin };

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = shutdown::requested()?;
        let mut reloads = shutdown::reloads()?;
        // Before the store: an address in use is found out without touching anything.
        let (listener, address) = run::bind(&config.listen).await?;
        let (ledger, known) = crate::stored::open(&store_dir, signing_key)?;
        let (reload, reloaded) = watch::channel(0u64);
        tokio::spawn(async move {
            while reloads.next().await.is_some() {
                reload.send_modify(|count| *count += 1);
            }
        });
        tracing::info!(origin = %key.name(), %address, "the log is starting");
        let stop = async {
            let signal = stop.await;
            tracing::info!(signal, "stopping: requests under way get to finish");
        };
        let setup = Setup { ledger, known, key, issuers, witnesses, quorum, config, clock: Clock::system() };
        run::run_operated(setup, operation, listener, stop, reloaded).await?;
        tracing::info!("the log has stopped");
        Ok(())
    })
}
