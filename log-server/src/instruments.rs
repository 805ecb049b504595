//! What the log measures about itself, by name: each metric is described here, and those that are read off rather than counted
//! are set here, when somebody asks for `/metrics`.

use crate::publication::Publication;
use crate::refusal::NotTaken;
use crate::room::Room;
use metrics::{Gauge, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use note::KeyName;
use receipt::RefusalCode;
use std::sync::{Arc, OnceLock};

/// Refused receipts, by code.
pub const REFUSALS: &str = "counterfoil_log_refusals_total";
/// Receipts of one commit.
pub const BATCH: &str = "counterfoil_log_batch_receipts";
/// Seconds of one commit, from the first look at its receipts to its head being offered.
pub const COMMIT: &str = "counterfoil_log_commit_seconds";
/// Seconds of one commit inside the store: append, sync, read back, sign, record.
pub const STORE: &str = "counterfoil_log_store_seconds";
/// Seconds until the entries of one commit were on disk.
pub const FSYNC: &str = "counterfoil_log_fsync_seconds";
const QUEUE: &str = "counterfoil_log_queue_submissions";
const QUEUE_CAPACITY: &str = "counterfoil_log_queue_capacity";
const SIZE: &str = "counterfoil_log_tree_size";
const SIGNED_AGE: &str = "counterfoil_log_signed_head_age_seconds";
const OFFERED_AGE: &str = "counterfoil_log_offered_head_age_seconds";
const BEHIND: &str = "counterfoil_log_offer_lag_seconds";
const WITNESS_AGE: &str = "counterfoil_log_witness_cosignature_age_seconds";
const WITNESS_BEHIND: &str = "counterfoil_log_witness_behind_entries";
const FREE: &str = "counterfoil_log_disk_free_bytes";
const READY: &str = "counterfoil_log_ready";

/// Describes every metric of the log. To be called after the recorder is installed.
pub fn describe() {
    describe_counter!(REFUSALS, "Receipts that were refused, by code");
    describe_histogram!(BATCH, Unit::Count, "Receipts of one commit");
    describe_histogram!(COMMIT, Unit::Seconds, "One commit, from placing its receipts to offering its head");
    describe_histogram!(STORE, Unit::Seconds, "One commit inside the store: append, sync, read back, sign, record");
    describe_histogram!(FSYNC, Unit::Seconds, "The sync of one commit's entries: the disk alone");
    describe_counter!("counterfoil_log_receipts_total", "Receipts that were committed");
    describe_counter!("counterfoil_log_forks_total", "Forks of issuers that were seen, by whether evidence was kept");
    describe_counter!("counterfoil_log_witness_failures_total", "Failed rounds with a witness");
    describe_gauge!("counterfoil_log_offered_size", "Entries under the head on offer");
    describe_gauge!("counterfoil_log_offered_cosignatures", "Cosignatures on the head on offer");
    describe_gauge!(QUEUE, "Submissions (a batch is one) that wait to be vetted and committed");
    describe_gauge!(QUEUE_CAPACITY, "Submissions that may wait before further ones are answered 503");
    describe_gauge!(SIZE, "Entries under the newest signed head");
    describe_gauge!(SIGNED_AGE, Unit::Seconds, "Since the newest head was signed, or the log was started");
    describe_gauge!(OFFERED_AGE, Unit::Seconds, "Since the head on offer was put there");
    describe_gauge!(BEHIND, Unit::Seconds, "How long a newer signed head has been waiting to be offered");
    describe_gauge!(WITNESS_AGE, Unit::Seconds, "Since the newest cosignature of a witness; absent before the first");
    describe_gauge!(WITNESS_BEHIND, "Entries of the newest signed head that a witness has not cosigned yet");
    describe_gauge!(FREE, Unit::Bytes, "Free bytes on the store's disk");
    describe_gauge!(READY, "1 while /readyz says so, else 0");
    // An alarm on an increase sees nothing of a series that begins with its first event.
    ["yes", "no"].into_iter().for_each(|kept| counter!("counterfoil_log_forks_total", "kept" => kept).increment(0));
    RefusalCode::ALL.into_iter().for_each(|code| counter!(REFUSALS, "code" => code.as_str()).increment(0));
}

/// Counts a refusal by its code, and hands it back.
pub fn refused(reason: NotTaken) -> NotTaken {
    counter!(REFUSALS, "code" => reason.code()).increment(1);
    reason
}

/// A submission that waits for its commit, counted until this is dropped.
#[derive(Debug)]
pub struct Queued(&'static Gauge);

/// Counts one more submission that waits.
pub fn queued() -> Queued {
    // Looked up once: this is done for every submission.
    static DEPTH: OnceLock<Gauge> = OnceLock::new();
    let depth = DEPTH.get_or_init(|| gauge!(QUEUE));
    depth.increment(1.0);
    Queued(depth)
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Reads off what is not counted as it happens.
#[derive(Clone, Debug)]
pub struct Gauges {
    publication: Arc<Publication>,
    room: Arc<Room>,
    witnesses: Arc<[Witnessed]>,
    queue_capacity: usize,
}

#[derive(Debug)]
struct Witnessed {
    name: String,
    behind: Gauge,
}

impl Gauges {
    /// Of one log; `witnesses` in the order of the configuration.
    pub fn new(publication: Arc<Publication>, room: Arc<Room>, witnesses: &[KeyName], queue_capacity: usize) -> Self {
        let witnessed = |name: &KeyName| {
            let name = name.to_string();
            Witnessed { behind: gauge!(WITNESS_BEHIND, "witness" => name.clone()), name }
        };
        Self { publication, room, witnesses: witnesses.iter().map(witnessed).collect(), queue_capacity }
    }

    /// Sets every gauge to what is true now; `ready` is what `/readyz` would say.
    pub fn set(&self, ready: bool) {
        let ages = self.publication.ages();
        gauge!(QUEUE_CAPACITY).set(self.queue_capacity as f64);
        gauge!(SIZE).set(ages.size as f64);
        gauge!(SIGNED_AGE).set(ages.signed.as_secs_f64());
        gauge!(OFFERED_AGE).set(ages.offered.as_secs_f64());
        gauge!(BEHIND).set(ages.offer_lag.as_secs_f64());
        gauge!(READY).set(f64::from(u8::from(ready)));
        if let Some(free) = self.room.free() {
            gauge!(FREE).set(free as f64);
        }
        for (place, witness) in self.witnesses.iter().enumerate() {
            let newest = ages.cosigned.get(&place);
            witness.behind.set(ages.size.saturating_sub(newest.map_or(0, |newest| newest.size)) as f64);
            if let Some(newest) = newest {
                gauge!(WITNESS_AGE, "witness" => witness.name.clone()).set(newest.age.as_secs_f64());
            }
        }
    }
}
