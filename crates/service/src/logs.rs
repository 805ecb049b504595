//! Logs: to stderr, for people by default and as JSON lines for machines.

use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line an event, in colour on a terminal.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// Starts logging. `filter` is a level (`info`) or a list of them (`info,hyper=warn`).
///
/// A second call in one process changes nothing: the first one's choice stands.
///
/// # Errors
/// A sentence that says what is wrong with `filter`.
pub fn init(format: LogFormat, filter: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!("{filter:?} is no log filter ({error}); write a level such as `info`, or `info,hyper=warn`")
    })?;
    let subscriber = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    let _already_started = match format {
        LogFormat::Human => subscriber.with_ansi(colour_wanted()).with_target(false).try_init(),
        LogFormat::Json => subscriber.json().flatten_event(true).with_current_span(false).try_init(),
    };
    Ok(())
}

/// Colour only where somebody looks at it, and not where they said they do not want it.
fn colour_wanted() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_refused_with_a_sentence() {
        let error = init(LogFormat::Human, "info,=,=").unwrap_err();
        assert!(error.contains("write a level"), "{error}");
    }
}
