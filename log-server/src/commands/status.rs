//! `counterfoil-log status`: what a running log offers right now. Nothing is verified: it is the log's own word, for its
//! operator.

use super::PROGRAM;
use crate::arguments::Status;
use client::{AddressError, BaseUrl, BoundedClient, FetchError, LogClient, Timeouts};
use note::{CheckpointError, CosignatureLine, SignedCheckpoint};
use serde::Serialize;
use service::ExitStatus;
use service::output::{Output, complain};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, thiserror::Error)]
enum StatusError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("the log does not answer: {0}")]
    Fetch(#[from] FetchError),
    #[error("{0} answers with no checkpoint ({1}); check that the address is a log's")]
    NotALog(String, CheckpointError),
    #[error("the system refuses what is needed: {0}")]
    System(#[from] std::io::Error),
}

#[derive(Serialize)]
struct Report {
    origin: String,
    size: u64,
    root: String,
    cosignatures: Vec<Cosigner>,
    issuers: usize,
    receipts_by_issuer: Vec<Stream>,
}

#[derive(Serialize)]
struct Cosigner {
    name: String,
    timestamp_s: u64,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    next_seq: u64,
    closed: bool,
}

pub(crate) fn status(arguments: &Status) -> ExitStatus {
    match ask(arguments) {
        Ok(report) => {
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Output::new(arguments.json).print(&report, |to| {
                writeln!(to, "{}", report.origin)?;
                writeln!(to, "  size          {}", report.size)?;
                writeln!(to, "  root          {}", report.root)?;
                writeln!(to, "  cosignatures  {}", report.cosignatures.len())?;
                for cosigner in &report.cosignatures {
                    writeln!(to, "    {} {}", cosigner.name, age(cosigner.timestamp_s, now_s))?;
                }
                writeln!(to, "  issuers       {}", report.issuers)?;
                for stream in &report.receipts_by_issuer {
                    writeln!(
                        to,
                        "    {}: {} receipts{}",
                        stream.name,
                        stream.next_seq,
                        if stream.closed { ", closed" } else { "" }
                    )?;
                }
                Ok(())
            });
            ExitStatus::Ok
        }
        Err(error) => {
            complain(PROGRAM, &error);
            match error {
                StatusError::Address(_) => ExitStatus::Usage,
                _ => ExitStatus::Failed,
            }
        }
    }
}

/// How long ago by this machine's clock.
fn age(timestamp_s: u64, now_s: u64) -> String {
    match now_s.checked_sub(timestamp_s) {
        Some(seconds) => format!("{seconds} s ago"),
        None => format!("{} s from now by this machine's clock; compare the two clocks", timestamp_s - now_s),
    }
}

fn ask(arguments: &Status) -> Result<Report, StatusError> {
    let base: BaseUrl = arguments.url.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let timeouts = Timeouts { connect: Duration::from_secs(5), total: Duration::from_secs(30) };
        let log = LogClient::new(base.clone(), BoundedClient::new(timeouts)?);
        let checkpoint = log.checkpoint().await?;
        let head =
            SignedCheckpoint::parse(&checkpoint).map_err(|error| StatusError::NotALog(base.to_string(), error))?;
        let issuers = log.issuers().await?;
        let lines = head.note().signatures().iter().filter_map(|signature| CosignatureLine::try_from(signature).ok());
        Ok(Report {
            origin: head.claimed().origin.to_string(),
            size: head.claimed().size.0,
            root: head.claimed().root.to_string(),
            cosignatures: lines
                .map(|line| Cosigner { name: line.name().to_string(), timestamp_s: line.timestamp_s() })
                .collect(),
            issuers: issuers.len(),
            receipts_by_issuer: issuers
                .into_iter()
                .map(|issuer| Stream { name: issuer.name, next_seq: issuer.next_seq, closed: issuer.closed })
                .collect(),
        })
    })
}
