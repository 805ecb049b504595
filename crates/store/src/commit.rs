//! The order of a commit, as a machine: what happened -> what to do next. No IO; [`crate::LogStore`] does the steps.
//!
//! ```text
//! Batch ─> Append ─> Sync ─> ReadBack ─> Sign ─> Record ─> Publish ─> Answer
//!             └───────┴─────────┴─────────┴────────┘ any failure ─> Stop
//! ```
//!
//! A crash can happen on every arrow; [`Commit::after_a_crash`] says what the next start finds there. A failure before
//! `Record` is done leaves it unknown whether the bytes are on disk, so nothing is tried again: the process stops.

/// What the shell has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Write entries and hashes behind what is there.
    Append,
    /// Make them durable.
    Sync,
    /// Read them back from disk and recompute the root from what was read.
    ReadBack,
    /// Sign the root, into a seal.
    Sign,
    /// Write the signed head and make it durable: the commit point.
    Record,
    /// Show it to readers, and bring the indexes up to it.
    Publish,
    /// Answer the submitters.
    Answer,
    /// Do nothing more: recovery, at the next start, finds out what is durable.
    Stop,
}

/// What the shell reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// There is something to commit.
    Batch,
    /// The step asked for is done.
    Done,
    /// The step asked for failed.
    Failed,
}

/// What the next start makes of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aftermath {
    /// Nothing of the batch, or an unsigned tail that is cut off. Nobody was answered.
    Dropped,
    /// The head is in `heads`, or it is torn and cut off: the next start tells. Nobody was answered.
    Either,
    /// The batch is in the log; indexes are brought up to it.
    Committed,
}

/// One commit under way, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Commit {
    asked: Option<Step>,
}

impl Commit {
    /// No commit under way.
    pub fn new() -> Commit {
        Commit::default()
    }

    /// The step that follows. An event that does not fit (a second batch while one is under way) stops.
    pub fn on(&mut self, event: Event) -> Step {
        let next = match (self.asked, event) {
            (None | Some(Step::Answer), Event::Batch) => Step::Append,
            (Some(Step::Append), Event::Done) => Step::Sync,
            (Some(Step::Sync), Event::Done) => Step::ReadBack,
            (Some(Step::ReadBack), Event::Done) => Step::Sign,
            (Some(Step::Sign), Event::Done) => Step::Record,
            (Some(Step::Record), Event::Done) => Step::Publish,
            (Some(Step::Publish), Event::Done) => Step::Answer,
            _ => Step::Stop,
        };
        self.asked = Some(next);
        next
    }

    /// Whether something failed, so that nothing is done any more.
    pub fn is_stopped(self) -> bool {
        self.asked == Some(Step::Stop)
    }

    /// What the next start finds if the process dies while it does the step asked for.
    pub fn after_a_crash(self) -> Aftermath {
        match self.asked {
            None | Some(Step::Append | Step::Sync | Step::ReadBack | Step::Sign) => Aftermath::Dropped,
            Some(Step::Record | Step::Stop) => Aftermath::Either,
            Some(Step::Publish | Step::Answer) => Aftermath::Committed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_commit_goes_through_every_step_in_order() {
        let mut commit = Commit::new();
        let steps = [Step::Append, Step::Sync, Step::ReadBack, Step::Sign, Step::Record, Step::Publish, Step::Answer];
        for batch in 0..2 {
            for (place, step) in steps.iter().enumerate() {
                let event = if place == 0 { Event::Batch } else { Event::Done };
                assert_eq!(commit.on(event), *step, "batch {batch}");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_reported_nobody_is_answered_before_the_head_is_recorded(
            events in prop::collection::vec(prop::sample::select(vec![Event::Batch, Event::Done, Event::Done, Event::Done, Event::Failed]), 0..40),
        ) {
            let mut commit = Commit::new();
            let mut recorded = false;
            let mut stopped = false;
            for event in events {
                let before = commit;
                let step = commit.on(event);
                match step {
                    Step::Append => recorded = false,
                    Step::Publish => recorded = before == Commit { asked: Some(Step::Record) } && event == Event::Done,
                    Step::Answer => prop_assert!(recorded),
                    Step::Stop => stopped = true,
                    _ => {}
                }
                prop_assert!(!stopped || step == Step::Stop, "after a stop nothing more is done");
                prop_assert_eq!(commit.after_a_crash() == Aftermath::Committed, matches!(step, Step::Publish | Step::Answer));
            }
        }
    }
}
