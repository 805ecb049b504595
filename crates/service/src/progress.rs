//! A progress bar, on a terminal only. Elsewhere it draws nothing and costs nothing.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

/// Work that is shown while it runs. Dropping it clears the line.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Starts at 0 of `total` units of `what` (plural: `entries`). Shows the rate and the time left.
    pub fn new(total: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self::drawn(Some(total), "{bar:30} {human_pos}/{human_len} {msg}  {rate}  {eta} left", what.into())
    }

    /// The same where nobody knows how many there are: counts them, and shows the rate.
    pub fn counting(what: impl Into<Cow<'static, str>>) -> Self {
        Self::drawn(None, "{human_pos} {msg}  {rate}", what.into())
    }

    fn drawn(total: Option<u64>, template: &str, what: Cow<'static, str>) -> Self {
        let target =
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target).with_message(what);
        // Fractions of an entry tell nobody anything.
        let rate = |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("rate", rate));
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
        let counting = Progress::counting("heads");
        counting.advance(2);
        assert_eq!(counting.done(), 2);
    }
}
