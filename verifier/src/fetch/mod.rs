//! `fetch`: log and witnesses, from the addresses in the policy, into a bundle.
//!
//! ```text
//! log/checkpoint ─ witnesses' checkpoints ─ (again, until a quorum vouches) ─ journals ─ the log's heads
//!   ─ entries and tiles up to the newest head ─ evidence ─ log/checkpoint is written last
//! ```
//!
//! The heads come after the witnesses: whatever head a witness had seen, an honest log lists by then. Everything is
//! verified as it arrives, and everything that arrives is written, verified or not: what a log really served is what
//! an auditor wants to keep. A page or tile that is held is never replaced by other bytes: they may never change.
//! Killed at any point and run again, it goes on; full pages and tiles are not fetched twice.

mod bundle_dir;
mod heads;
mod signed;
mod tiled;

use crate::arguments::Fetch;
use crate::documents::print;
use crate::failure::{Failure, failed, read_policy, usage};
use crate::wrap::hanging;
use audit::amount::amount;
use audit::quote::{plain, quoted};
use audit::witness_dir;
use bundle_dir::BundleDir;
use client::{BaseUrl, BoundedClient, FetchError, LogClient, Timeouts, WitnessClient};
use note::{Policy, PolicyLog};
use serde_json::json;
use service::ExitStatus;
use signed::{Signed, fetch_signed};
use tiled::{Mirror, Mirrored};

/// Most evidence documents kept of a log. One is enough to convict it.
const MAX_EVIDENCE: usize = 10_000;

/// Most lines of a witness's journal that are mirrored: a line a second for four months. A witness whose journal is
/// longer must not be able to fill the auditor's disk.
const MAX_JOURNAL_LINES: u64 = 10_000_000;

/// What went into the bundle, and what is wrong with it.
#[derive(Default)]
struct Report {
    /// What the log or a witness served and should not have.
    faults: Vec<String>,
    /// What could not be had.
    missing: Vec<String>,
}

pub(crate) fn run(arguments: &Fetch) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let log = choose_log(&policy)?;
    let dir = BundleDir::open(&arguments.out)?;
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    runtime.block_on(fetch(arguments, &policy, log, &dir))
}

/// The one log of the policy that is to be mirrored: it has an address, and is no journal of one of the witnesses.
fn choose_log(policy: &Policy) -> Result<&PolicyLog, Failure> {
    let is_journal = |log: &&PolicyLog| {
        policy.witnesses().iter().any(|witness| format!("{}/journal", witness.vkey.name()) == log.vkey.name().as_str())
    };
    let logs: Vec<&PolicyLog> = policy.logs().iter().filter(|log| !is_journal(log)).collect();
    match logs.as_slice() {
        [] => Err(usage("the policy names no log; add a line: log <vkey> <url>")),
        [log] if log.url.is_none() => {
            Err(usage("the policy says no address for its log; write it behind the log's vkey"))
        }
        [log] => Ok(log),
        several => {
            let with_address: Vec<&&PolicyLog> = several.iter().filter(|log| log.url.is_some()).collect();
            match with_address.as_slice() {
                [log] => Ok(log),
                _ => Err(usage(
                    "the policy lists several logs; a bundle is about one: leave the address of the others out",
                )),
            }
        }
    }
}

async fn fetch(arguments: &Fetch, policy: &Policy, log: &PolicyLog, dir: &BundleDir) -> Result<ExitStatus, Failure> {
    let mut report = Report::default();
    let http = BoundedClient::new(Timeouts::default()).map_err(failed)?;
    let base: BaseUrl = log.url.as_deref().unwrap_or_default().parse().map_err(usage)?;
    let client = LogClient::new(base, http.clone());
    let witnesses = witness_clients(policy, &http, &mut report)?;
    let cannot = |error: FetchError| failed(format!("the log cannot be mirrored: {}", plain(&error.to_string())));

    let signed = fetch_signed(policy, log, &client, &witnesses, arguments.wait.0).await.map_err(cannot)?;
    signed.report(&mut report);
    for (place, bytes) in &signed.witness_checkpoints {
        dir.write(&format!("{}/checkpoint", witness_dir(policy.witnesses()[*place].vkey.name())), bytes)?;
    }
    for (place, witness) in &witnesses {
        let name = policy.witnesses()[*place].vkey.name();
        let mirror = Mirror {
            client: &witness.journal(),
            dir,
            prefix: format!("{}/journal/", witness_dir(name)),
            what: "journal lines",
        };
        match mirror_journal(&mirror).await? {
            Ok(faults) => report.faults.extend(
                faults.into_iter().map(|fault| format!("journal of witness {}: {fault}", quoted(name.as_str()))),
            ),
            Err(error) => report.missing.push(format!(
                "journal of witness {}: {}",
                quoted(name.as_str()),
                plain(&error.to_string())
            )),
        }
    }
    let heads = heads::mirror(&client, dir, &log.vkey).await.map_err(cannot)?;
    let heads = heads?;
    report.faults.extend(heads.faults.iter().cloned());
    let size = signed.size().max(heads.newest.map_or(0, |(size, _)| size));
    let mirror = Mirror { client: &client, dir, prefix: String::from("log/"), what: "entries" };
    let mirrored = mirror.run(size).await?.map_err(cannot)?;
    report.faults.extend(mirrored.faults.iter().cloned());
    compare_heads(&mirrored, &signed, &heads, &mut report);
    fetch_evidence(&client, dir, &mut report).await?;
    dir.write("log/checkpoint", &signed.log_checkpoint)?;
    show(arguments, log, size, heads.count, &signed, policy, &report)
}

fn witness_clients(
    policy: &Policy,
    http: &BoundedClient,
    report: &mut Report,
) -> Result<Vec<(usize, WitnessClient)>, Failure> {
    let mut clients = Vec::new();
    for (place, witness) in policy.witnesses().iter().enumerate() {
        match &witness.url {
            Some(url) => clients.push((place, WitnessClient::new(url.parse().map_err(usage)?, http.clone()))),
            None => report
                .missing
                .push(format!("witness {}: the policy says no address for it", quoted(witness.vkey.name().as_str()))),
        }
    }
    Ok(clients)
}

/// Mirrors a journal up to the head it shows now. The inner error is the witness's.
async fn mirror_journal(mirror: &Mirror<'_>) -> Result<Result<Vec<String>, FetchError>, Failure> {
    let bytes = match mirror.client.checkpoint().await {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let Ok(head) = note::SignedCheckpoint::parse(&bytes) else {
        mirror.dir.write(&format!("{}checkpoint", mirror.prefix), &bytes)?;
        return Ok(Ok(vec![String::from("what it serves as its checkpoint is none")]));
    };
    let size = head.claimed().size.0;
    if size > MAX_JOURNAL_LINES {
        return Ok(Ok(vec![format!("it has {size} lines, more than the {MAX_JOURNAL_LINES} that are mirrored")]));
    }
    let mirrored = match mirror.run(size).await? {
        Ok(mirrored) => mirrored,
        Err(error) => return Ok(Err(error)),
    };
    mirror.dir.write(&format!("{}checkpoint", mirror.prefix), &bytes)?;
    let mut faults = mirrored.faults.clone();
    if mirrored.root(size) != Some(head.claimed().root) {
        faults.push(String::from("its lines are not those its checkpoint was made over"));
    }
    Ok(Ok(faults))
}

/// Every head that was seen must lie on the tree that was mirrored.
fn compare_heads(mirrored: &Mirrored, signed: &Signed, heads: &heads::MirroredHeads, report: &mut Report) {
    // One of each kind says it all; the audit names the rest.
    let seen = || heads.all.iter().chain(&signed.heads);
    if let Some((size, _)) =
        seen().find(|(size, root)| mirrored.root(*size).is_some_and(|recomputed| recomputed != *root))
    {
        report
            .faults
            .push(format!("the entries that the log serves are not those its head of size {size} was signed over"));
    }
    if let Some((size, _)) = seen().find(|(size, _)| mirrored.root(*size).is_none()) {
        report.faults.push(format!("a witness holds a head of size {size}, and the log's own list does not reach it"));
    }
}

async fn fetch_evidence(client: &LogClient, dir: &BundleDir, report: &mut Report) -> Result<(), Failure> {
    let mut count = 0;
    for page in 0.. {
        let documents = match client.evidence_page(page).await {
            Ok(documents) => documents,
            // A mirror or a static export has no evidence to serve.
            Err(error) if error.is_missing() => break,
            Err(error) => {
                report.missing.push(format!("the log's evidence: {}", plain(&error.to_string())));
                break;
            }
        };
        if documents.is_empty() || count >= MAX_EVIDENCE {
            break;
        }
        for document in documents {
            dir.write(&format!("evidence/log-{count:06}.json"), document.as_bytes())?;
            count += 1;
        }
    }
    Ok(())
}

fn show(
    arguments: &Fetch,
    log: &PolicyLog,
    size: u64,
    heads: u64,
    signed: &Signed,
    policy: &Policy,
    report: &Report,
) -> Result<ExitStatus, Failure> {
    let quorum = signed.quorum_met(policy);
    let status = match (report.faults.is_empty(), report.missing.is_empty()) {
        (false, _) => ExitStatus::Failed,
        (true, false) => ExitStatus::NotChecked,
        (true, true) => ExitStatus::Ok,
    };
    let name = log.vkey.name().as_str();
    let value = json!({
        "log": name,
        "bundle": arguments.out.display().to_string(),
        "entries": size,
        "heads": heads,
        "offered_size": signed.size(),
        "quorum_met": quorum,
        "witnesses": signed.witness_checkpoints.len(),
        "faults": report.faults,
        "missing": report.missing,
        "exit_code": status.code(),
    });
    let mut lines = hanging(
        "",
        &plain(&format!(
            "{name}: {}, {}, {} of {}, in {}",
            amount(size, "entry", "entries"),
            amount(heads, "head", "heads"),
            signed.witness_checkpoints.len(),
            amount(policy.witnesses().len() as u64, "witness", "witnesses"),
            arguments.out.display()
        )),
    );
    if !quorum {
        lines.extend(hanging(
            "note     ",
            "no quorum vouches for the newest offered head yet; fetch again when it has been cosigned",
        ));
    }
    for fault in &report.faults {
        lines.extend(hanging("FAULT    ", fault));
    }
    for missing in &report.missing {
        lines.extend(hanging("missing  ", missing));
    }
    print(arguments.json, &value, &lines)?;
    Ok(status)
}
