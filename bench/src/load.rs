//! The load: requests that were made beforehand, sent over kept connections by one thread, and what came back.
//!
//! While the clock runs an answer is only looked at as far as its status and its indices; one in [`SAMPLE`] is kept
//! whole, and its proofs are checked when the clock has stopped.

use crate::failure::Failure;
use crate::http::{Connection, request};
use crate::process::{Shares, Usage};
use memchr::memmem;
use merkle::leaf_hash;
use note::{Policy, TlogProof};
use receipt::Receipt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// One answer in so many is kept, and every proof in it checked.
pub(crate) const SAMPLE: usize = 64;

/// A request with receipts in it.
#[derive(Clone)]
pub(crate) struct Submission {
    request: Vec<u8>,
    /// Where in the request its body begins.
    body: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Single,
    Batch(usize),
}

impl Kind {
    fn receipts(self) -> usize {
        match self {
            Kind::Single => 1,
            Kind::Batch(receipts) => receipts,
        }
    }
}

impl Submission {
    /// One receipt, answered once a durable signed head covers it.
    pub(crate) fn single(receipt: &Receipt) -> Submission {
        Submission::of("/v1/receipts", "", receipt.bytes(), Kind::Single)
    }

    /// One receipt, answered once the quorum has cosigned.
    pub(crate) fn cosigned(receipt: &Receipt) -> Submission {
        Submission::of("/v1/receipts", "prefer: wait=cosigned\r\n", receipt.bytes(), Kind::Single)
    }

    /// Many receipts in one request.
    pub(crate) fn batch(receipts: &[Receipt]) -> Result<Submission, Failure> {
        let mut bundle = Vec::new();
        for receipt in receipts {
            merkle::encode_entry(&mut bundle, receipt.bytes()).map_err(Failure::unexpected)?;
        }
        let headers = "content-type: application/octet-stream\r\naccept: application/x-ndjson\r\n";
        Ok(Submission::of("/v1/receipts/batch", headers, &bundle, Kind::Batch(receipts.len())))
    }

    fn of(path: &str, headers: &str, body: &[u8], kind: Kind) -> Submission {
        let request = request("POST", path, headers, body);
        Submission { body: request.len() - body.len(), request, kind }
    }

    fn body(&self) -> &[u8] {
        &self.request[self.body..]
    }

    /// Bytes of its receipts, without what frames them.
    pub(crate) fn entry_bytes(&self) -> usize {
        match self.kind {
            Kind::Single => self.body().len(),
            Kind::Batch(receipts) => self.body().len() - 2 * receipts,
        }
    }
}

/// What became of a load.
#[derive(Default)]
pub(crate) struct Load {
    /// From the first request to the last answer.
    pub(crate) wall: Duration,
    /// What each request took, ascending; in an open load from the moment it was due.
    pub(crate) took: Vec<Duration>,
    /// Where the receipts went, ascending.
    pub(crate) indices: Vec<u64>,
    /// Who used the processors meanwhile.
    pub(crate) used: Shares,
    /// Proofs that were checked afterwards.
    pub(crate) proofs_checked: usize,
    kept: Vec<(Submission, Vec<u8>)>,
}

impl Load {
    /// Receipts a second.
    pub(crate) fn rate(&self) -> f64 {
        self.indices.len() as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds a receipt.
    pub(crate) fn us_a_receipt(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.indices.len() as f64
    }

    /// The time within which this share of the requests was answered, in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let place = (self.took.len().saturating_sub(1) as f64 * share).round() as usize;
        self.took.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
    }

    /// Checks what was kept against `policy`, and that no two receipts were told the same place.
    pub(crate) fn check(&mut self, policy: &Policy, cosigned: bool) -> Result<(), Failure> {
        self.indices.sort_unstable();
        self.took.sort_unstable();
        if self.indices.windows(2).any(|two| two[0] == two[1]) {
            return Err(Failure::Answer("the log told two receipts the same index".to_owned()));
        }
        for (submission, answer) in std::mem::take(&mut self.kept) {
            for (entry, proof) in proofs(&submission, &answer)? {
                let proof = TlogProof::parse(proof.as_bytes()).map_err(Failure::unexpected)?;
                let leaf = leaf_hash(entry);
                let checked =
                    if cosigned { proof.verify(&leaf, policy) } else { proof.verify_inclusion(&leaf, policy) };
                checked.map_err(Failure::unexpected)?;
                self.proofs_checked += 1;
            }
        }
        Ok(())
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Every connection sends its next request when its last was answered.
    Closed,
    /// So many requests are due a second, whatever was answered; the connections take turns. One that is late sends
    /// late, and the time is counted from when it was due.
    Open(f64),
}

/// Runs a load, a list of requests for each connection, on the log at `address`, which is that process. The clock starts
/// when all are connected.
pub(crate) async fn run(
    address: SocketAddr,
    log: u32,
    work: Vec<Vec<Submission>>,
    pace: Pace,
) -> Result<Load, Failure> {
    let mut connected = Vec::with_capacity(work.len());
    for submissions in work {
        connected.push((Connection::open(address).await.map_err(Failure::Connection)?, submissions));
    }
    let every = match pace {
        Pace::Closed => None,
        Pace::Open(a_second) => Some(Duration::from_secs_f64(1.0 / a_second)),
    };
    let turns = u32::try_from(connected.len()).map_err(Failure::unexpected)?;
    let before = Usage::now(log)?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for (place, (connection, submissions)) in (0u32..).zip(connected) {
        let due = every.map(|every| (started + every * place, every * turns));
        tasks.spawn(drive(connection, submissions, due, place as usize));
    }
    let mut load = Load::default();
    while let Some(part) = tasks.join_next().await {
        let part = part.map_err(Failure::unexpected)??;
        load.took.extend(part.took);
        load.indices.extend(part.indices);
        load.kept.extend(part.kept);
    }
    load.wall = started.elapsed();
    load.used = Usage::now(log)?.since(before, load.wall);
    Ok(load)
}

async fn drive(
    mut connection: Connection,
    submissions: Vec<Submission>,
    due: Option<(Instant, Duration)>,
    number: usize,
) -> Result<Load, Failure> {
    let mut load = Load { took: Vec::with_capacity(submissions.len()), ..Load::default() };
    load.indices.reserve(submissions.iter().map(|submission| submission.kind.receipts()).sum());
    for (place, submission) in submissions.into_iter().enumerate() {
        let mut asked = Instant::now();
        if let Some((first, every)) = due {
            asked = first + every * u32::try_from(place).map_err(Failure::unexpected)?;
            tokio::time::sleep_until(asked.into()).await;
        }
        let answer = connection.exchange(&submission.request).await.map_err(Failure::Connection)?;
        load.took.push(asked.elapsed());
        if answer.status != 200 {
            return Err(Failure::refused(answer.status, answer.body));
        }
        read_indices(submission.kind, answer.body, &mut load.indices)?;
        if (number + place).is_multiple_of(SAMPLE) {
            let answer = answer.body.to_vec();
            load.kept.push((submission, answer));
        }
    }
    Ok(load)
}

/// Takes the index, or the indices, that an answer names. All receipts of a batch must have been taken.
fn read_indices(kind: Kind, answer: &[u8], indices: &mut Vec<u64>) -> Result<(), Failure> {
    let before = indices.len();
    match kind {
        Kind::Single => indices.extend(number_after(answer, b"\nindex ")),
        Kind::Batch(_) => {
            let mut from = 0;
            for end in memchr::memchr_iter(b'\n', answer) {
                let line = &answer[from..end];
                if !line.starts_with(br#"{"status":"ok""#) {
                    return Err(Failure::refused(200, line));
                }
                indices.extend(number_after(line, br#""index":"#));
                from = end + 1;
            }
        }
    }
    if indices.len() - before == kind.receipts() { Ok(()) } else { Err(Failure::refused(200, answer)) }
}

fn number_after(text: &[u8], name: &[u8]) -> Option<u64> {
    let rest = &text[memmem::find(text, name)? + name.len()..];
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// Every entry of a submission with its proof.
fn proofs<'a>(submission: &'a Submission, answer: &'a [u8]) -> Result<Vec<(&'a [u8], String)>, Failure> {
    let answer = std::str::from_utf8(answer).map_err(Failure::unexpected)?;
    match submission.kind {
        Kind::Single => Ok(vec![(submission.body(), answer.to_owned())]),
        Kind::Batch(_) => {
            let entries = merkle::decode_entries(submission.body()).map_err(Failure::unexpected)?;
            entries
                .into_iter()
                .zip(answer.lines())
                .map(|(entry, line)| {
                    let verdict: Verdict = serde_json::from_str(line).map_err(Failure::unexpected)?;
                    Ok((entry, verdict.proof))
                })
                .collect()
        }
    }
}

#[derive(serde::Deserialize)]
struct Verdict {
    proof: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn only_an_answer_that_names_a_place_for_every_receipt_counts() {
        let mut indices = Vec::new();
        read_indices(Kind::Single, b"c2sp.org/tlog-proof@v1\nindex 70\n", &mut indices).unwrap();
        let lines = "{\"status\":\"ok\",\"index\":71,\"proof\":\"\"}\n{\"status\":\"ok\",\"index\":72}\n";
        read_indices(Kind::Batch(2), lines.as_bytes(), &mut indices).unwrap();
        assert_eq!(indices, [70, 71, 72]);
        assert!(read_indices(Kind::Batch(3), lines.as_bytes(), &mut indices).is_err());
        let refused = lines.replacen("ok", "refused", 1);
        assert!(read_indices(Kind::Batch(2), refused.as_bytes(), &mut indices).is_err());
        assert!(read_indices(Kind::Single, b"no proof", &mut indices).is_err());
    }
}
