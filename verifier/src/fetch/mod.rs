//! `fetch`: log and witnesses, from the addresses in the policy, into a bundle.
//!
//! ```text
//! log/checkpoint ─ witnesses' checkpoints ─ (again, until a quorum vouches) ─ does the log honour what was there before?
//!   ─ journals, witnesses' evidence ─ the log's heads ─ tiles and entries under the newest head ─ the log's evidence
//!   ─ log/checkpoint is written last
//! ```
//!
//! The heads come after the witnesses: whatever head a witness had seen, an honest log lists by then. Everything is
//! verified as it arrives, and everything that arrives is written, verified or not: what a log really served is what
//! an auditor wants to keep. Killed at any point and run again, it goes on; what is held and is the head's is not asked
//! for again. Memory does not grow with the log.
//!
//! | module | subject |
//! |---|---|
//! | `signed` | the offered head and the witnesses' copies |
//! | `earlier` | an earlier bundle, and whether the log honours it |
//! | `evidence` | what log and witnesses hold against anybody |
//! | `heads` | the log's list of heads |
//! | `tiled`, `roots` | tiles and entries under a head; every other head held against them |
//! | `sources`, `bundle_dir` | where bytes come from, and where they go |
//! | `summary` | what is told in the end |

mod bundle_dir;
mod earlier;
mod evidence;
mod heads;
mod roots;
mod signed;
mod sources;
mod summary;
mod tiled;

use crate::arguments::Fetch;
use crate::failure::{Failure, failed, read_policy, usage};
use crate::rooted::{Found, Rooted};
use audit::quote::{plain, quoted};
use audit::witness_dir;
use bundle_dir::BundleDir;
use client::{BaseUrl, BoundedClient, LogClient, Timeouts, WitnessClient};
use earlier::{Earlier, Standing, grew, held_head, stand};
use merkle::{PageId, ResourcePath, RootHash};
use note::{MAX_NOTE_LEN, Policy, PolicyLog, SignedCheckpoint, Verified};
use roots::{ListedHeads, Roots};
use service::ExitStatus;
use signed::{Signed, fetch_signed};
use sources::{Broken, Sources};
use std::time::Duration;
use summary::{Summary, show};
use tiled::{Copied, Edge, Mirrored};

/// Most lines of a witness's journal that are mirrored: a line a second for four months. A witness whose journal is
/// longer must not be able to fill the auditor's disk.
const MAX_JOURNAL_LINES: u64 = 10_000_000;

pub(crate) fn run(arguments: &Fetch) -> Result<ExitStatus, Failure> {
    let policy = read_policy(&arguments.policy)?;
    let log = choose_log(&policy)?;
    // Looked at before anything is made.
    let since = arguments.since.as_ref().map(|since| Earlier::open(since, &log.vkey)).transpose()?;
    let dir = BundleDir::open(&arguments.out)?;
    let held = held_head(&dir, &arguments.out, &log.vkey)?;
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    let fetch = Fetching { arguments, policy: &policy, log, dir: &dir };
    let summary = runtime.block_on(fetch.run(since, held)).map_err(|broken| match broken {
        Broken::Disk(failure) => failure,
        Broken::Server(error) => failed(format!(
            "the log cannot be mirrored: {}; what came is kept, the same command goes on from there",
            plain(&error.to_string())
        )),
    })?;
    show(arguments, &policy, log, &summary)
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

/// A head that the log signed.
type Head = SignedCheckpoint<Verified>;

/// A fetch under way.
struct Fetching<'fetch> {
    arguments: &'fetch Fetch,
    policy: &'fetch Policy,
    log: &'fetch PolicyLog,
    dir: &'fetch BundleDir,
}

impl Fetching<'_> {
    async fn run(&self, mut since: Option<Earlier>, held: Option<Head>) -> Result<Summary, Broken> {
        let mut summary = Summary::default();
        let timeouts = Timeouts { total: Duration::from_millis(self.arguments.timeout.0), ..Timeouts::default() };
        let http = BoundedClient::new(timeouts).map_err(failed)?;
        let base: BaseUrl = self.log.url.as_deref().unwrap_or_default().parse().map_err(usage)?;
        let client = LogClient::new(base, http.clone());
        let witnesses = witness_clients(self.policy, &http, &mut summary)?;

        let wait_ms = self.arguments.wait.0;
        let signed = fetch_signed(self.policy, self.log, &client, &witnesses, wait_ms).await?;
        summary.take_signed(&signed, self.policy);
        let mut keeps_head = held.is_some() && signed.offered().is_none();
        if let (Some(held), Some(now)) = (&held, signed.offered()) {
            let local = |path: &str, max| self.dir.read(path, max).ok().flatten();
            match self.standing(&client, local, (held, now, now), "the bundle holds", &mut summary).await? {
                Standing::Honoured => {}
                Standing::WentBack => keeps_head = true,
                Standing::Fork(_) | Standing::Unproven(_) => {
                    summary.faults.push(String::from(
                        "nothing else was fetched; fetch into another directory to keep what the log shows now",
                    ));
                    summary.is_stopped = true;
                    return Ok(summary);
                }
            }
        }
        if let (Some(earlier), Some(now)) = (&since, signed.offered()) {
            let local = |path: &str, max| match earlier.root.read(path, max) {
                Ok(Found::File(bytes)) => Some(bytes),
                _ => None,
            };
            let standing = self
                .standing(&client, local, (&earlier.head, now, &earlier.head), "the earlier bundle holds", &mut summary)
                .await?;
            if !matches!(standing, Standing::Honoured) {
                summary.faults.push(String::from("nothing was taken over from the earlier bundle; keep both"));
                since = None;
            }
        }
        let since = since.as_ref().map(|earlier| &earlier.root);

        let shown_before = self.keep_witnessed(&signed, &mut summary)?;
        self.mirror_journals(&witnesses, since, &mut summary).await?;
        // Before the log is mirrored: one that was caught may not let itself be.
        self.fetch_accusations(&witnesses, &mut summary).await?;
        let sources = Sources { client: &client, dir: self.dir, earlier: since, prefix: String::from("log/") };
        self.mirror_log(&sources, &signed, shown_before, &mut summary).await?;
        self.fetch_evidence(&client, &mut summary).await?;
        if !keeps_head {
            self.dir.write("log/checkpoint", &signed.log_checkpoint)?;
        }
        Ok(summary)
    }

    /// Whether the log honours a head that it signed before; what is to be told and kept if it does not. `kept` is that
    /// of the two which does not become the bundle's checkpoint.
    async fn standing(
        &self,
        client: &LogClient,
        local: impl Fn(&str, u64) -> Option<Vec<u8>>,
        (before, now, kept): (&Head, &Head, &Head),
        holder: &str,
        summary: &mut Summary,
    ) -> Result<Standing, Broken> {
        let standing = stand(client, local, before, now).await?;
        let (size_before, size_now) = (before.checkpoint().size, now.checkpoint().size);
        let (path, document, fault) = match &standing {
            Standing::Honoured => return Ok(standing),
            Standing::WentBack => (
                format!("evidence/head-{}.checkpoint", kept.checkpoint().size),
                kept.bytes().to_vec(),
                format!(
                    "the log went back: {holder} a head of size {size_before}, and it now offers one of size {size_now}; both lie in one history, so an older copy may have been put in its place"
                ),
            ),
            Standing::Fork(evidence) => (
                format!("evidence/log-fork-{size_before}-{size_now}.json"),
                serde_json::to_vec(evidence).map_err(failed)?,
                format!(
                    "the log signed two histories: {holder} a head of size {size_before}, and the one of size {size_now} that it offers now does not contain it; anybody can check that with the evidence"
                ),
            ),
            Standing::Unproven(why) => (
                format!("evidence/head-{}.checkpoint", kept.checkpoint().size),
                kept.bytes().to_vec(),
                format!(
                    "the log does not show that the head of size {size_now} that it offers now contains the one of size {size_before} that {holder}: {}",
                    plain(why)
                ),
            ),
        };
        summary.faults.push(fault);
        summary.faults.push(format!("both heads are kept, see {path}"));
        summary.faults.extend(self.dir.put_immutable(&path, &document)?);
        Ok(standing)
    }

    /// Puts what the witnesses serve in place. A head that one showed before and would rather not have shown stays.
    /// Answers the heads that were held, as far as the log signed them: they, too, must lie on the tree.
    fn keep_witnessed(&self, signed: &Signed, summary: &mut Summary) -> Result<Vec<(u64, RootHash)>, Failure> {
        let mut shown_before = Vec::new();
        for (place, bytes) in &signed.witness_checkpoints {
            let name = self.policy.witnesses()[*place].vkey.name();
            let path = format!("{}/checkpoint", witness_dir(name));
            let held = self.dir.read(&path, MAX_NOTE_LEN as u64)?;
            let held = held.and_then(|held| SignedCheckpoint::parse(&held).ok()?.verify(&self.log.vkey).ok());
            if let Some(held) = held {
                let (before, now) = ((held.checkpoint().size.0, held.checkpoint().root), claimed(bytes));
                shown_before.push(before);
                if now.is_none_or(|now| now.0 < before.0 || (now.0 == before.0 && now.1 != before.1)) {
                    let now = now.map_or_else(|| String::from("none"), |now| format!("one of size {}", now.0));
                    summary.faults.push(format!(
                        "witness {} showed a head of size {} before, and now shows {now}; what is held is kept",
                        quoted(name.as_str()),
                        before.0
                    ));
                    continue;
                }
            }
            self.dir.write(&path, bytes)?;
        }
        Ok(shown_before)
    }

    async fn mirror_journals(
        &self,
        witnesses: &[(usize, WitnessClient)],
        since: Option<&Rooted>,
        summary: &mut Summary,
    ) -> Result<(), Broken> {
        for (place, witness) in witnesses {
            let name = self.policy.witnesses()[*place].vkey.name();
            let client = witness.journal();
            let prefix = format!("{}/journal/", witness_dir(name));
            let sources = Sources { client: &client, dir: self.dir, earlier: since, prefix };
            let told = |what: &str| format!("journal of witness {}: {what}", quoted(name.as_str()));
            match mirror_journal(sources, summary).await {
                Ok(faults) => summary.faults.extend(faults.iter().map(|fault| told(fault))),
                Err(Broken::Server(error)) => summary.missing.push(told(&plain(&error.to_string()))),
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    async fn mirror_log(
        &self,
        sources: &Sources<'_>,
        signed: &Signed,
        mut seen: Vec<(u64, RootHash)>,
        summary: &mut Summary,
    ) -> Result<(), Broken> {
        seen.extend(&signed.heads);
        let offered = signed.offered().map(|head| (head.checkpoint().size.0, head.checkpoint().root));
        let first = first_page(sources, offered.map_or(0, |(size, _)| size)).await?;
        summary.is_foreign = first.as_ref().is_some_and(|(_, (bytes, _))| !holds_receipts(bytes));
        let heads = heads::mirror(sources, &self.log.vkey, !summary.is_foreign).await?;
        summary.faults.extend(heads.faults);
        summary.heads = heads.count;
        let mut targets: Vec<(u64, RootHash)> = offered.into_iter().chain(heads.newest).collect();
        targets.sort_unstable_by_key(|(size, _)| std::cmp::Reverse(*size));
        let Some((size, mut edge)) = first_edge(sources, &targets, summary).await? else { return Ok(()) };
        if heads.count == 0 && size > 0 && !summary.is_foreign {
            summary.missing.push(String::from("the list of all heads that the log ever signed: it serves none"));
        }
        edge.first = first;
        let mut roots = Roots::new(seen, Some(ListedHeads::new(self.dir, &self.log.vkey, heads.pages)));
        let mirrored = sources.mirror(&edge, "entries", &mut roots).await?;
        summary.size = size;
        summary.counts = mirrored.counts;
        summary.take_mirrored(mirrored);
        Ok(())
    }
}

/// One client a witness: the keys of one witness, which share its name, have one checkpoint and one journal in the bundle.
fn witness_clients(
    policy: &Policy,
    http: &BoundedClient,
    summary: &mut Summary,
) -> Result<Vec<(usize, WitnessClient)>, Failure> {
    let mut clients: Vec<(usize, WitnessClient)> = Vec::new();
    let name_of = |place: usize| policy.witnesses()[place].vkey.name();
    for (place, witness) in policy.witnesses().iter().enumerate() {
        let is_namesake = |other: usize| other != place && name_of(other) == name_of(place);
        if clients.iter().any(|(other, _)| is_namesake(*other)) {
            continue;
        }
        let elsewhere = |other: usize| is_namesake(other) && policy.witnesses()[other].url.is_some();
        match &witness.url {
            None if (0..policy.witnesses().len()).any(elsewhere) => {}
            Some(url) => clients.push((place, WitnessClient::new(url.parse().map_err(usage)?, http.clone()))),
            None => summary
                .missing
                .push(format!("witness {}: the policy says no address for it", quoted(witness.vkey.name().as_str()))),
        }
    }
    Ok(clients)
}

/// Mirrors a journal up to the head it shows now. What it served and should not have is returned.
async fn mirror_journal(mut sources: Sources<'_>, summary: &mut Summary) -> Result<Vec<String>, Broken> {
    let path = sources.path(ResourcePath::Checkpoint);
    let bytes = sources.client.checkpoint().await?;
    let Some(head) = claimed(&bytes) else {
        return Ok(match sources.dir.put_immutable(&path, &bytes)? {
            None => vec![String::from("what it serves as its checkpoint is none")],
            Some(_) => vec![String::from("what it serves as its checkpoint is none; the one held is kept")],
        });
    };
    if head.0 > MAX_JOURNAL_LINES {
        return Ok(vec![format!("it has {} lines, more than the {MAX_JOURNAL_LINES} that are mirrored", head.0)]);
    }
    let mut faults = Vec::new();
    if let Some(before) = sources.dir.read(&path, MAX_NOTE_LEN as u64)?.as_deref().and_then(claimed)
        && !grew(sources.client, before, head).await?
    {
        return Ok(vec![format!(
            "its {} lines do not contain the {} that it showed before; what is held is kept as it is, fetch into another directory to keep what it shows now",
            head.0, before.0
        )]);
    }
    let earlier = sources.earlier.map(|earlier| earlier.read(&path, MAX_NOTE_LEN as u64));
    if let Some(Ok(Found::File(before))) = earlier
        && let Some(before) = claimed(&before)
        && !grew(sources.client, before, head).await?
    {
        faults.push(format!("its {} lines do not contain the {} in the earlier bundle; keep both", head.0, before.0));
        sources.earlier = None;
    }
    let edge = sources.edge(head.0, head.1).await?;
    let mirrored = sources.mirror(&edge, "journal lines", &mut Roots::new(vec![head], None)).await?;
    faults.extend(mirrored.faults.iter().cloned());
    summary.take_mirrored(Mirrored { faults: Vec::new(), ..mirrored });
    sources.dir.write(&path, &bytes)?;
    Ok(faults)
}

/// Size and root that a head claims, whoever signed it.
fn claimed(head: &[u8]) -> Option<(u64, RootHash)> {
    let head = SignedCheckpoint::parse(head).ok()?;
    Some((head.claimed().size.0, head.claimed().root))
}

/// The first page of a log, if it has one.
async fn first_page(sources: &Sources<'_>, size: u64) -> Result<Option<(ResourcePath, Copied)>, Broken> {
    let Some(page) = PageId::at(0, size).map(ResourcePath::Entries) else { return Ok(None) };
    match sources.nearest(page).await {
        Ok(copy) => Ok(Some((page, copy))),
        // The mirror will say so.
        Err(Broken::Server(error)) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether there are receipts on a page. A log of something else is mirrored too; what is no part of a tiled log is not
/// looked for there.
fn holds_receipts(page: &[u8]) -> bool {
    let is_receipt =
        |entry: &&[u8]| entry.strip_prefix(receipt::MAGIC.as_bytes()).is_some_and(|rest| rest.starts_with(b"\n"));
    merkle::decode_entries(page).unwrap_or_default().iter().any(is_receipt)
}

/// The edge of the tree under the largest head that has one. A larger one is a fault: it was signed, and its tree is not
/// there.
async fn first_edge(
    sources: &Sources<'_>,
    targets: &[(u64, RootHash)],
    summary: &mut Summary,
) -> Result<Option<(u64, Edge)>, Broken> {
    for (place, (size, root)) in targets.iter().enumerate() {
        match sources.edge(*size, *root).await {
            Err(Broken::Server(error)) if error.is_missing() && place + 1 < targets.len() => {
                summary.faults.push(format!(
                    "the log signed a head of size {size} and does not serve its tree: {}",
                    plain(&error.to_string())
                ))
            }
            edge => return Ok(Some((*size, edge?))),
        }
    }
    Ok(None)
}
