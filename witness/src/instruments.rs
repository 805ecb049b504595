//! What the witness measures about itself, by name: each metric is described here, and those that are read off rather than
//! counted are set here, when somebody asks for `/metrics`.

use crate::evidence::Evidence;
use crate::journal::book::JournalReader;
use crate::journal::line::Outcome;
use crate::posts::Posts;
use metrics::{Counter, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use note::KeyName;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Records that one commit of the journal made durable.
pub const COMMIT_RECORDS: &str = "counterfoil_witness_commit_records";
const JUDGED: &str = "counterfoil_witness_judged_total";
const FORKED: &str = "counterfoil_witness_forked";
/// Entries that were checked, at level full.
pub const ENTRIES_CHECKED: &str = "counterfoil_witness_entries_checked";
const HELD: &str = "counterfoil_witness_held_size";
const COSIGNED_AT: &str = "counterfoil_witness_cosigned_at_seconds";
const LOGS: &str = "counterfoil_witness_logs";
const TROUBLED: &str = "counterfoil_witness_logs_not_cosigned";
const JOURNALS_ACCUSED: &str = "counterfoil_witness_peer_journals_accused";
const EVIDENCE: &str = "counterfoil_witness_evidence_documents";
const JOURNAL: &str = "counterfoil_witness_journal_lines";
const FREE: &str = "counterfoil_witness_disk_free_bytes";

/// Describes every metric of the witness. To be called after the recorder is installed.
pub fn describe() {
    describe_counter!(JUDGED, "What came of fetches and pushes, by log and outcome");
    describe_gauge!(
        FORKED,
        "1 while evidence stands against the log (or a peer's journal) and nothing of it is cosigned, and while it shows again what was acknowledged; else 0; by log"
    );
    describe_gauge!(HELD, "Entries under the head held, by log; NaN once the log is no longer watched");
    describe_gauge!(
        ENTRIES_CHECKED,
        "Level full: entries that were put to the rule of admission, by log; NaN as above"
    );
    describe_gauge!(COSIGNED_AT, Unit::Seconds, "Unix time of the latest cosignature, by log; NaN as above");
    describe_gauge!(LOGS, "Logs that are watched");
    describe_gauge!(TROUBLED, "Logs whose last fetch or push was not cosigned");
    describe_gauge!(JOURNALS_ACCUSED, "Journals of peers that evidence stands against; they are not among the logs");
    describe_gauge!(EVIDENCE, "Documents of evidence kept, against any log, acknowledged or not");
    describe_gauge!(JOURNAL, "Lines in the journal");
    describe_gauge!(FREE, Unit::Bytes, "Free bytes on the disk of the state directory");
    describe_histogram!(COMMIT_RECORDS, Unit::Count, "Records that shared one commit of the journal");
}

/// Counts what comes of the fetches and pushes of one log. Finding a counter by its labels costs more than counting: it is done
/// once for each outcome.
#[derive(Debug, Default)]
pub struct Judged(Mutex<Vec<(Outcome, Counter)>>);

impl Judged {
    /// Counts one of the log of this name.
    pub fn count(&self, log: &KeyName, outcome: Outcome) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == outcome) {
            return counter.increment(1);
        }
        let counter = counter!(JUDGED, "log" => log.to_string(), "outcome" => outcome.as_str());
        counter.increment(1);
        known.push((outcome, counter));
    }
}

/// Takes a log that is no longer watched out of the figures: an alarm compares, and nothing compares with NaN.
pub fn no_more(log: &KeyName) {
    for name in [FORKED, HELD, COSIGNED_AT, ENTRIES_CHECKED] {
        gauge!(name, "log" => log.to_string()).set(f64::NAN);
    }
}

/// What is read off when somebody asks.
#[derive(Debug, Clone)]
pub struct Dials {
    /// The logs.
    pub posts: Posts,
    /// The journal.
    pub journal: JournalReader,
    /// The evidence.
    pub evidence: Arc<Evidence>,
    /// The state directory.
    pub state: PathBuf,
}

impl Dials {
    /// Sets the gauges.
    pub fn read_off(&self) {
        let statuses: Vec<_> = self.posts.all().iter().map(|post| post.view().status()).collect();
        // Peers' journals are watched too, and are no logs of the configuration's.
        let logs = || statuses.iter().filter(|log| log.journal_of.is_none());
        for status in &statuses {
            gauge!(FORKED, "log" => status.origin.clone()).set(u8::from(status.forked.is_some()));
            if let (Some(size), Some(cosigned_at)) = (status.size, status.cosigned_at) {
                gauge!(HELD, "log" => status.origin.clone()).set(size as f64);
                gauge!(COSIGNED_AT, "log" => status.origin.clone()).set(cosigned_at as f64);
            }
        }
        gauge!(LOGS).set(logs().count() as f64);
        gauge!(TROUBLED).set(logs().filter(|log| log.is_in_trouble()).count() as f64);
        let accused = statuses.iter().filter(|log| log.journal_of.is_some() && log.forked.is_some());
        gauge!(JOURNALS_ACCUSED).set(accused.count() as f64);
        gauge!(EVIDENCE).set(self.evidence.count() as f64);
        gauge!(JOURNAL).set(self.journal.size() as f64);
        // A disk that cannot be asked is told by whoever writes to it.
        if let Ok(disk) = rustix::fs::statvfs(&self.state) {
            gauge!(FREE).set(disk.f_bavail.saturating_mul(disk.f_frsize) as f64);
        }
    }
}
