//! A check that may take hours, beside a loop that goes on: heads are fetched and nudges answered meanwhile.

use super::checker::{CatchUp, Checker, EntriesCheck};
use client::LogClient;
use note::{SignedCheckpoint, Verified, VerifierKey};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// How long a fetch waits for its entries to be checked. What is new since the last one is checked well within that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes a checker that knows what is on disk.
type Make = Box<dyn Fn() -> Checker + Send + Sync>;

/// The checks of one log, of which at most one is under way.
pub struct Checks {
    make: Make,
    idle: Option<Checker>,
    under_way: Option<AbortOnDropHandle<(Checker, EntriesCheck)>>,
    /// What came of the last one, while nobody has asked.
    answer: Option<EntriesCheck>,
    catch_up: Arc<CatchUp>,
}

impl Checks {
    /// Checks by the checkers that `make` makes: one to begin with, and another if that one is lost.
    pub fn new(make: impl Fn() -> Checker + Send + Sync + 'static) -> Checks {
        Checks { make: Box::new(make), idle: None, under_way: None, answer: None, catch_up: Arc::default() }
    }

    /// What is known of the entries under the head in `checkpoint`, if it is one that `log` signed. Begins to check them if
    /// nobody does.
    pub async fn look(
        &mut self,
        client: &LogClient,
        log: &VerifierKey,
        checkpoint: &[u8],
        now_ms: u64,
    ) -> EntriesCheck {
        let Ok(head) = SignedCheckpoint::parse(checkpoint).and_then(|head| head.verify(log)) else {
            return EntriesCheck::NotAsked;
        };
        if now_ms == 0 {
            // The clock is not set, and nothing is cosigned before it is.
            return EntriesCheck::NotAsked;
        }
        let wanted = (head.checkpoint().size, head.checkpoint().root);
        // Behind a long check of an earlier head there may be little that is new: then it is checked at once.
        for _ in 0..2 {
            if self.under_way.is_none() && self.answer.is_none() {
                self.begin(client, &head, now_ms);
            }
            if tokio::time::timeout(PATIENCE, self.end()).await.is_err() {
                break;
            }
            match self.answer.take() {
                Some(EntriesCheck::Admitted { size, root }) if (size, root) != wanted => {}
                Some(answer) => return answer,
                None => {}
            }
        }
        let (done, total) = self.catch_up.now().unwrap_or((0, wanted.0.0));
        EntriesCheck::UnderWay { done, total }
    }

    /// Ends when the check that is under way does; never, if none is. May be dropped at any time.
    pub async fn finished(&mut self) {
        match self.under_way {
            Some(_) => self.end().await,
            None => std::future::pending().await,
        }
    }

    fn begin(&mut self, client: &LogClient, head: &SignedCheckpoint<Verified>, now_ms: u64) {
        let mut checker = self.idle.take().unwrap_or_else(&self.make);
        self.catch_up = checker.catch_up();
        let (client, head) = (client.clone(), head.clone());
        self.under_way = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let check = checker.advance(&client, &head, now_ms).await;
            (checker, check)
        })));
    }

    async fn end(&mut self) {
        let Some(work) = &mut self.under_way else { return };
        // If it panicked it has said why, and the next one begins with what is on disk.
        (self.idle, self.answer) = work.await.ok().unzip();
        self.under_way = None;
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checks({:?})", self.catch_up)
    }
}
