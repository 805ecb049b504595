//! The one thread that writes: it takes all that waits, over all logs, and commits it at once.
//!
//! A commit costs the same flushes, head and signature for one cosignature and for a hundred, so under load whoever comes
//! while the disk is busy shares the next commit. Where a crowd did so, the next commit waits a millisecond for more: they
//! come, and on a fast disk most of what a cosignature costs the journal was the commit. A few logs are never made to wait for
//! company.

use crate::broken::Broken;
use crate::instruments::COMMIT_RECORDS;
use crate::journal::book::{Journal, Record};
use crate::journal::memory::Remembered;
use std::time::Duration;
use store::Cosigned;
use tokio::sync::{mpsc, oneshot};

/// Records that wait at most: as many as there can be connections and logs, each with one.
const QUEUE: usize = 4096;

/// Records in one commit: more would make the first of them wait for the last.
const GROUP: usize = 512;

/// Records in a commit after which the next one waits for company.
const CROWD: usize = 8;

/// How long.
const HELD_OPEN: Duration = Duration::from_millis(1);

#[derive(Debug)]
enum Work {
    Write(Box<Record>, oneshot::Sender<Option<Cosigned>>),
    Recall(String, oneshot::Sender<Option<Remembered>>),
    Finish,
    Abandon,
}

/// The way to the thread. Cheap to clone; the thread ends when all are gone.
#[derive(Debug, Clone)]
pub struct Committer {
    jobs: mpsc::Sender<Work>,
}

impl Committer {
    /// Starts the thread. The second value tells when, and why, it ended.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(journal: Journal) -> std::io::Result<(Committer, oneshot::Receiver<Result<(), Broken>>)> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (tell, ended) = oneshot::channel();
        std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
            write(journal, queue, tell);
        })?;
        Ok((Committer { jobs }, ended))
    }

    /// Writes `record`, and answers with what may leave, once everything is durable.
    ///
    /// # Errors
    /// [`Broken::Ended`]: the thread has ended, and says why to whoever started it.
    pub async fn commit(&self, record: Record) -> Result<Option<Cosigned>, Broken> {
        let (done, answer) = oneshot::channel();
        self.jobs.send(Work::Write(Box::new(record), done)).await.map_err(|_| Broken::Ended)?;
        answer.await.map_err(|_| Broken::Ended)
    }

    /// What the journal tells of the log with this origin, whether or not it is watched.
    ///
    /// # Errors
    /// [`Broken::Ended`].
    pub async fn recall(&self, origin: &str) -> Result<Option<Remembered>, Broken> {
        let (done, answer) = oneshot::channel();
        self.jobs.send(Work::Recall(origin.to_owned(), done)).await.map_err(|_| Broken::Ended)?;
        answer.await.map_err(|_| Broken::Ended)
    }

    /// Ends the thread when the guard is dropped, without another word.
    pub fn abandoned_on_drop(&self) -> impl Drop + use<> {
        Abandoned(self.clone())
    }

    /// Ends the thread, once all that was handed to it before is written.
    pub async fn finish(&self) {
        // It may have ended by itself; then it has said why.
        let _ = self.jobs.send(Work::Finish).await;
    }
}

struct Abandoned(Committer);

impl Drop for Abandoned {
    fn drop(&mut self) {
        // Full or closed: then it is busy, or gone.
        let _ = self.0.jobs.try_send(Work::Abandon);
    }
}

/// Says why it ended before anybody who waits for a record hears that it did. Where nobody listens any more, the process is
/// ending anyway.
fn write(mut journal: Journal, mut queue: mpsc::Receiver<Work>, tell: oneshot::Sender<Result<(), Broken>>) {
    let (mut work, mut finished, mut crowded) = (Vec::new(), false, false);
    while !finished && queue.blocking_recv_many(&mut work, GROUP) > 0 {
        if crowded {
            std::thread::sleep(HELD_OPEN);
            work.extend(std::iter::from_fn(|| queue.try_recv().ok()).take(GROUP.saturating_sub(work.len())));
        }
        let (mut records, mut waiting) = (Vec::with_capacity(work.len()), Vec::with_capacity(work.len()));
        let mut recalls = Vec::new();
        for work in work.drain(..) {
            match work {
                Work::Write(record, done) => {
                    records.push(*record);
                    waiting.push(done);
                }
                Work::Recall(origin, done) => recalls.push((origin, done)),
                Work::Finish => finished = true,
                Work::Abandon => {
                    drop(journal);
                    let _ = tell.send(Ok(()));
                    return;
                }
            }
        }
        crowded = waiting.len() >= CROWD;
        metrics::histogram!(COMMIT_RECORDS).record(waiting.len() as f64);
        match journal.commit(records) {
            Ok(released) => {
                for (done, cosigned) in waiting.into_iter().zip(released) {
                    // Whoever asked may have gone away; it is durable all the same.
                    let _ = done.send(cosigned);
                }
            }
            Err(broken) => {
                drop(journal);
                let _ = tell.send(Err(broken));
                return;
            }
        }
        for (origin, done) in recalls {
            let _ = done.send(journal.memory().held(&origin).cloned());
        }
    }
    let ended = journal.finish();
    drop(journal);
    let _ = tell.send(ended);
}
