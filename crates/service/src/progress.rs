//! A progress bar, on a terminal only. Elsewhere it draws nothing and costs nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;

/// Work whose size is known, shown while it runs. Dropping it clears the line.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Starts at 0 of `total` units of `what` (plural: `entries`).
    pub fn new(total: u64, what: impl Into<Cow<'static, str>>) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} {msg}  {per_sec}  {eta} left")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// `units` more are done.
    pub fn advance(&self, units: u64) {
        self.0.inc(units);
    }

    /// The total turned out to be another one.
    pub fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Units done so far.
    pub fn done(&self) -> u64 {
        self.0.position()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_where_there_is_no_terminal_to_draw_on() {
        let progress = Progress::new(10, "entries");
        progress.advance(3);
        progress.advance(4);
        assert_eq!(progress.done(), 7);
    }
}
