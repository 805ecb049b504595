//! What a post does when somebody is shown to have lied: the evidence durable first, then the journal's line, and from then on
//! nothing of the log is cosigned. Does not hold what counts as evidence (`cosign`, `receipt`) nor how it is kept (`evidence`).

use super::Post;
use crate::broken::Broken;
use crate::evidence::{Crime, Evidence, Standing};
use crate::full::Breaks;
use crate::journal::fold::Sighting;
use crate::journal::line::Outcome;
use crate::keeper::{Keeper, sighting};
use cosign::{LogFork, WitnessFork};
use note::{SignedCheckpoint, Verified, VerifierKey};
use std::sync::Arc;
use store::EVIDENCE_PAGE;

impl Post {
    /// The number of the first evidence that the log signed two histories, acknowledged or not.
    pub fn first_fork(&self, log: &VerifierKey) -> Option<u64> {
        self.shared.evidence.first_fork(log)
    }

    /// Keeps evidence against a peer that vouched for two histories of the log. Durable when this returns.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn accuse_peer(&self, fork: WitnessFork) -> Result<u64, Broken> {
        let (evidence, peer) = (Arc::clone(&self.shared.evidence), fork.witness().name().clone());
        // Documents are never taken away: a number from here on is a new one's.
        let held = evidence.count();
        let recorded = tokio::task::spawn_blocking(move || evidence.record(&fork)).await;
        let number = recorded.unwrap_or(Err(Broken::Interrupted))?;
        if number >= held {
            let log = self.name.as_str();
            tracing::error!(peer = peer.as_str(), log, evidence = number, "FORK: the peer vouched for two histories");
        }
        Ok(number)
    }

    /// Keeps evidence of a fork that was found at `time_ms` by looking at what `peer` holds, and refuses the log from now
    /// on. Answers with the evidence's number; durable when it does.
    ///
    /// # Errors
    /// [`Broken`].
    pub async fn accuse(
        self: &Arc<Post>,
        time_ms: u64,
        peer: Option<String>,
        head: SignedCheckpoint<Verified>,
        fork: LogFork,
    ) -> Result<u64, Broken> {
        let post = Arc::clone(self);
        let step = async move {
            let mut guarded = post.begin().await?;
            let (number, _) = post.record_fork(&mut guarded.keeper, time_ms, peer, &head, fork).await?;
            post.end(&mut guarded);
            Ok(number)
        };
        self.run_whole(step).await
    }

    /// Keeps the evidence, and from now on cosigns nothing of this log until an operator acts. Evidence that an operator
    /// has acknowledged already refuses the head alone.
    pub(super) async fn record_fork(
        &self,
        keeper: &mut Keeper,
        time_ms: u64,
        peer: Option<String>,
        head: &SignedCheckpoint<Verified>,
        fork: LogFork,
    ) -> Result<(u64, String), Broken> {
        let number = self.at_the_evidence(move |evidence| evidence.record(&fork)).await?;
        let standing = Standing { number, crime: Crime::LogFork };
        if keeper.is_news(standing) {
            tracing::error!(log = self.name.as_str(), evidence = number, "FORK: the log signed two histories");
        }
        let seen = sighting(Outcome::Fork, Some(head), None, None);
        let sentence = self.stand(keeper, time_ms, standing, Sighting { peer, ..seen }, "forked").await?;
        Ok((number, sentence))
    }

    /// The same for a log that admitted what it must refuse. An operator who acknowledges that goes on with the log, but not
    /// with this head: at level full there is nothing to cosign.
    pub(super) async fn record_breaks(
        &self,
        keeper: &mut Keeper,
        time_ms: u64,
        head: &SignedCheckpoint<Verified>,
        breaks: Breaks,
    ) -> Result<String, Broken> {
        let code = breaks.admitted.code().as_str();
        let number = self.at_the_evidence(move |evidence| evidence.record_breaks(&breaks)).await?;
        let standing = Standing { number, crime: Crime::LogAdmitted };
        if keeper.is_news(standing) {
            tracing::error!(
                log = self.name.as_str(),
                evidence = number,
                code,
                "the log admitted a receipt that it must refuse"
            );
        }
        let seen = sighting(Outcome::Inadmissible, Some(head), None, None);
        self.stand(keeper, time_ms, standing, seen, code).await
    }

    async fn at_the_evidence(
        &self,
        record: impl FnOnce(&Evidence) -> Result<u64, Broken> + Send + 'static,
    ) -> Result<u64, Broken> {
        let evidence = Arc::clone(&self.shared.evidence);
        tokio::task::spawn_blocking(move || record(&evidence)).await.unwrap_or(Err(Broken::Interrupted))
    }

    /// Evidence that is kept stands from now on, and the journal says so. Answers with a sentence about it.
    async fn stand(
        &self,
        keeper: &mut Keeper,
        time_ms: u64,
        standing: Standing,
        seen: Sighting,
        code: &'static str,
    ) -> Result<String, Broken> {
        let Standing { number, crime } = standing;
        let sentence = format!(
            "the log {}, which is evidence {number} of this witness; see /evidence/{}",
            crime.told(),
            number / EVIDENCE_PAGE as u64
        );
        let trouble = Some((code, sentence.clone()));
        let lines = keeper.note(time_ms, Sighting { evidence: Some(number), trouble, ..seen });
        keeper.accused(standing);
        self.journal(lines).await?;
        Ok(sentence)
    }
}
