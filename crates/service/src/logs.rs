//! Logs: to stderr, for people by default and as JSON lines for machines. A line that is written while a request is served
//! carries the request's id. (Not by a span around each request: those cost their formatting even when nothing is written.)

use crate::request_id::RequestId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::IsTerminal;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Format, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

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
        LogFormat::Human => {
            subscriber.with_ansi(colour_wanted()).with_target(false).fmt_fields(NamedInWords::default()).try_init()
        }
        LogFormat::Json => {
            let lines = Format::default().json().flatten_event(true).with_current_span(false);
            subscriber.event_format(NamedInJson(lines)).fmt_fields(JsonFields::new()).try_init()
        }
    };
    Ok(())
}

/// Colour only where somebody looks at it, and not where they said they do not want it.
fn colour_wanted() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The name under which a request's id stands in a line.
const REQUEST_ID: &str = "request_id";

/// Fields for people, and the request's id behind them.
#[derive(Debug, Default)]
struct NamedInWords(DefaultFields);

impl<'writer> FormatFields<'writer> for NamedInWords {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        self.0.format_fields(writer.by_ref(), fields)?;
        match RequestId::current() {
            Some(id) => write!(writer, " {REQUEST_ID}={}", id.as_str()),
            None => Ok(()),
        }
    }
}

/// A line that is one JSON object, with the request's id as its last member.
#[derive(Debug)]
struct NamedInJson<F>(F);

impl<S, N, F> FormatEvent<S, N> for NamedInJson<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(id) = RequestId::current() else { return self.0.format_event(context, writer, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match line.trim_end().strip_suffix('}') {
            Some(open) => writeln!(writer, "{open},\"{REQUEST_ID}\":{}}}", serde_json::Value::from(id.as_str())),
            None => writer.write_str(&line),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use http::{HeaderMap, HeaderValue};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use tracing::subscriber::with_default;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    impl Kept {
        fn lines(&self) -> Vec<String> {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
        }
    }

    /// One line inside a request, one outside.
    async fn two_lines() {
        let id = HeaderMap::from_iter([(crate::request_id::X_REQUEST_ID, HeaderValue::from_static("r-\"7\""))]);
        RequestId::of(&id).scope(async { tracing::info!(size = 3, "inside") }).await;
        tracing::info!("outside");
    }

    fn run(subscriber: impl Subscriber + Send + Sync + 'static) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        with_default(subscriber, || runtime.block_on(two_lines()));
    }

    #[test]
    fn a_json_line_inside_a_request_carries_its_id_and_stays_json() {
        let kept = Kept::default();
        let lines = Format::default().json().flatten_event(true).with_current_span(false);
        let subscriber = tracing_subscriber::fmt().with_writer(kept.clone()).event_format(NamedInJson(lines));
        run(subscriber.fmt_fields(JsonFields::new()).finish());
        let lines: Vec<serde_json::Value> =
            kept.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines[0]["message"].as_str(), lines[0]["size"].as_u64()), (Some("inside"), Some(3)));
        assert_eq!(lines[0]["request_id"], "r-\"7\"");
        assert_eq!(lines[1].get("request_id"), None);
    }

    #[test]
    fn a_line_for_people_inside_a_request_carries_its_id_too() {
        let kept = Kept::default();
        let subscriber = tracing_subscriber::fmt().with_writer(kept.clone()).with_ansi(false).with_target(false);
        run(subscriber.fmt_fields(NamedInWords::default()).finish());
        let lines = kept.lines();
        assert!(lines[0].ends_with("inside size=3 request_id=r-\"7\""), "{lines:?}");
        assert!(lines[1].ends_with("outside"), "{lines:?}");
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_a_sentence() {
        let error = init(LogFormat::Human, "info,=,=").unwrap_err();
        assert!(error.contains("write a level"), "{error}");
    }
}
