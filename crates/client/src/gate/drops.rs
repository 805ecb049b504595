//! What a gate let run without a receipt: what of it the log was not told of, and what of it is not on disk yet.

use super::bodies;
use crate::outbox::{DropLine, DropReason, Outbox, OutboxError};

/// Drops kept line by line while the disk refuses: some 10 MB. Of further ones the request ids are lost; the count is not.
const MAX_UNWRITTEN_DROPS: usize = 65_536;

#[derive(Default)]
pub(super) struct DropState {
    /// All of them.
    pub(super) count: u64,
    /// Those that a `dropped` receipt has recorded.
    pub(super) told: u64,
    /// What no `dropped` receipt says yet, by reason.
    pub(super) untold: Vec<Untold>,
    /// Lines that are not in the file `drops`.
    unwritten: Vec<DropLine>,
    /// So many more, from and to when, and why the last of them.
    beyond: Option<(u64, DropLine)>,
}

#[derive(Clone)]
pub(super) struct Untold {
    why: DropReason,
    pub(super) count: u64,
    since: u64,
    until: u64,
}

impl DropState {
    pub(super) fn of(outbox: &Outbox) -> Result<Self, OutboxError> {
        let mut state = Self::default();
        state.reread(outbox)?;
        Ok(state)
    }

    /// Takes what the disk says, and adds what it was not told.
    pub(super) fn reread(&mut self, outbox: &Outbox) -> Result<(), OutboxError> {
        let drops = outbox.drops()?;
        (self.count, self.told) = (drops.count, drops.told);
        self.untold.clear();
        for line in &drops.untold {
            self.tell(line, 1);
        }
        let (unwritten, beyond) = (self.unwritten.clone(), self.beyond.clone());
        for line in &unwritten {
            self.count += 1;
            self.tell(line, 1);
        }
        if let Some((count, line)) = beyond {
            self.count += count;
            self.tell(&line, count);
        }
        Ok(())
    }

    pub(super) fn add(&mut self, line: DropLine) {
        self.count += 1;
        self.tell(&line, 1);
        if self.unwritten.len() < MAX_UNWRITTEN_DROPS {
            self.unwritten.push(line);
        } else {
            let count = self.beyond.as_ref().map_or(0, |(count, _)| *count);
            self.beyond = Some((count + 1, DropLine { request_id: String::new(), ..line }));
        }
    }

    fn tell(&mut self, line: &DropLine, count: u64) {
        match self.untold.iter_mut().find(|untold| untold.why == line.why) {
            Some(untold) => {
                untold.count += count;
                untold.since = untold.since.min(line.at);
                untold.until = untold.until.max(line.at);
            }
            None => self.untold.push(Untold { why: line.why, count, since: line.at, until: line.at }),
        }
    }

    /// Writes the lines that are not on disk. They have to be there before the log is told, or a start would take
    /// later drops for told ones.
    pub(super) fn write(&mut self, outbox: &Outbox) -> Result<(), OutboxError> {
        if !self.unwritten.is_empty() {
            outbox.note_drops(&self.unwritten)?;
            self.unwritten.clear();
        }
        while let Some((count, line)) = self.beyond.take() {
            let now = count.min(MAX_UNWRITTEN_DROPS as u64);
            if let Err(error) = outbox.note_drops(&vec![line.clone(); now as usize]) {
                self.beyond = Some((count, line));
                return Err(error);
            }
            self.beyond = (count > now).then_some((count - now, line));
        }
        Ok(())
    }
}

impl Untold {
    pub(super) fn text(&self) -> String {
        bodies::dropped(self.count, self.since, self.until, self.why.as_str())
    }
}
