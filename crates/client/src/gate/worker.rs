//! The gate's own thread: sends for ever, keeps the gate's promise not to be silent, writes what a disk owes, and looks whether the
//! log still honours its proofs.
//!
//! Nothing in here ends without leaving word in [`Sending`]: what may pass is tried again, with pauses that grow to the
//! longest; what will not, stops the sender and says so.

use super::core::{Core, Sending};
use crate::http::FetchError;
use crate::sender::{Honour, Patience, SendError, Sender, Waiting};
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// How often the log is asked whether it honours the newest proof: as often as a witness looks.
const HONOUR_EVERY: Duration = Duration::from_secs(60);
/// How often a disk that refused is tried again without anybody asking.
const MEND_EVERY: Duration = Duration::from_secs(1);
/// What is left of the promised silence when a heartbeat is written: a fifth, at most so much.
const LONGEST_MARGIN: Duration = Duration::from_secs(10);
/// How long a file write may hold up the end.
const SHUTDOWN: Duration = Duration::from_secs(2);

pub(super) struct Worker {
    stop: watch::Sender<bool>,
    send_now: Arc<Notify>,
    thread: Mutex<Option<JoinHandle<()>>>,
    runtime: Handle,
}

impl Worker {
    pub(super) fn start(
        core: Arc<Core>,
        sender: Sender,
        honour: Honour,
        heartbeat: Option<Duration>,
        patience: Patience,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = watch::channel(false);
        let send_now = Arc::new(Notify::new());
        let work = work(core, sender, honour, heartbeat, patience, Arc::clone(&send_now), stopped);
        let thread = std::thread::Builder::new().name("counterfoil-gate".into()).spawn(move || {
            runtime.block_on(work);
            runtime.shutdown_timeout(SHUTDOWN);
        })?;
        Ok(Self { stop, send_now, thread: Mutex::new(Some(thread)), runtime: handle })
    }

    /// Does work on the gate's own thread. After [`Worker::stop`] it is dropped undone.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Ends a pause between two attempts.
    pub(super) fn send_now(&self) {
        self.send_now.notify_one();
    }

    /// Stops, and waits until it has.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the gate's thread panicked");
        }
    }
}

async fn work(
    core: Arc<Core>,
    sender: Sender,
    honour: Honour,
    heartbeat: Option<Duration>,
    patience: Patience,
    send_now: Arc<Notify>,
    mut stopped: watch::Receiver<bool>,
) {
    let halt = Arc::new(Notify::new());
    let tasks = [
        tokio::spawn(keep_sending(Arc::clone(&core), sender, patience, send_now, Arc::clone(&halt))),
        tokio::spawn(keep_looking(Arc::clone(&core), honour, halt)),
        tokio::spawn(tell_progress(Arc::clone(&core))),
        tokio::spawn(keep_mended(Arc::clone(&core))),
        tokio::spawn(keep_alive(core, heartbeat)),
    ];
    // An error says that the gate itself is gone.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    for task in tasks {
        task.abort();
    }
}

async fn keep_sending(
    core: Arc<Core>,
    mut sender: Sender,
    patience: Patience,
    send_now: Arc<Notify>,
    halt: Arc<Notify>,
) {
    let patience = Patience { give_up_after: None, ..patience };
    let mut waiting = Waiting::new(patience);
    let acknowledged = core.outbox.watch_acknowledged();
    loop {
        let before = *acknowledged.borrow();
        let attempt = AssertUnwindSafe(send(&core, &mut sender)).catch_unwind();
        let ended = tokio::select! {
            ended = attempt => ended,
            () = halt.notified() => return log_was_asked(&core).await,
        };
        if *acknowledged.borrow() > before {
            waiting = Waiting::new(patience);
        }
        let mut retry_after = None;
        match ended {
            // Only where the outbox is gone.
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                let (code, sentence) = (error.code().to_owned(), error.to_string());
                if is_final(&error) {
                    tracing::error!(%error, code, "the sender has stopped");
                    core.stop_sending(code, sentence);
                    return log_was_asked(&core).await;
                }
                tracing::warn!(%error, code, "the log does not take the receipts; they are sent again");
                retry_after = error.fetch_error().and_then(FetchError::refusal).and_then(|refusal| refusal.retry_after);
                core.set_sending(Sending::Failing { code, sentence });
            }
            Err(_) => {
                tracing::error!("the sender panicked; it is started again");
                let sentence = "the sender failed inside and was started again; see the log of this program".to_owned();
                core.set_sending(Sending::Failing { code: "outbox-stopped".into(), sentence });
            }
        }
        log_was_asked(&core).await;
        let pause = waiting.next(retry_after).unwrap_or(patience.longest_pause);
        tokio::select! {
            () = sleep(pause) => {}
            () = send_now.notified() => {}
            () = halt.notified() => return,
        }
    }
}

async fn send(core: &Arc<Core>, sender: &mut Sender) -> Result<(), SendError> {
    sender.compare().await?;
    log_was_asked(core).await;
    if core.outbox.backlog()? == 0 {
        core.set_sending(Sending::Working);
    }
    sender.run(std::future::pending()).await
}

/// Lets the gate write what waited for it.
async fn log_was_asked(core: &Arc<Core>) {
    let core = Arc::clone(core);
    if tokio::task::spawn_blocking(move || core.log_was_asked()).await.is_err() {
        tracing::error!("a write of what an earlier process owes panicked; it is tried again");
    }
}

/// Whether trying again is of no use, or would do harm.
fn is_final(error: &SendError) -> bool {
    match error {
        SendError::StreamsDiffer { .. } | SendError::OutboxBehind { .. } | SendError::OutboxNew { .. } => true,
        SendError::Outbox(error) => !error.is_of_the_disk(),
        other => other.is_alarm(),
    }
}

async fn keep_looking(core: Arc<Core>, mut honour: Honour, halt: Arc<Notify>) {
    loop {
        match AssertUnwindSafe(honour.check()).catch_unwind().await {
            Ok(Ok(shown)) => tracing::debug!(?shown, "the log was asked whether it honours its proofs"),
            Ok(Err(error)) if error.is_alarm() => {
                tracing::error!(%error, "the log signed two histories");
                core.stop_sending(error.code().to_owned(), error.to_string());
                halt.notify_one();
                return;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the log could not be asked whether it honours its proofs"),
            Err(_) => tracing::error!("the check of the log's proofs panicked; it is made again"),
        }
        sleep(HONOUR_EVERY).await;
    }
}

async fn tell_progress(core: Arc<Core>) {
    let mut acknowledged = core.outbox.watch_acknowledged();
    while acknowledged.changed().await.is_ok() {
        core.note_progress();
    }
}

async fn keep_mended(core: Arc<Core>) {
    loop {
        sleep(MEND_EVERY).await;
        let core = Arc::clone(&core);
        if tokio::task::spawn_blocking(move || core.catch_up()).await.is_err() {
            tracing::error!("a write of what is owed panicked; it is tried again");
        }
    }
}

async fn keep_alive(core: Arc<Core>, heartbeat: Option<Duration>) {
    let Some(heartbeat) = heartbeat else { return };
    let due = heartbeat - (heartbeat / 5).min(LONGEST_MARGIN);
    let written = core.watch_written();
    loop {
        let at = Instant::from_std(*written.borrow()) + due;
        sleep_until(at).await;
        let core = Arc::clone(&core);
        if tokio::task::spawn_blocking(move || core.heartbeat(due)).await.is_err() {
            tracing::error!("a heartbeat panicked; the next one is tried");
            sleep(due).await;
        }
    }
}
