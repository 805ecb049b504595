//! Results on stdout, for people or as JSON, and the exit codes that scripts rely on.

use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// How a program ended, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Everything asked for was done, and every required check is ok.
    Ok,
    /// It could not be done, or at least one check failed.
    Failed,
    /// Nothing failed, but something required was not checked.
    NotChecked,
    /// The command line or the configuration is wrong.
    Usage,
    /// The input cannot be read.
    Unreadable,
}

impl ExitStatus {
    /// 0, 1, 2, 64 or 65.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::NotChecked => 2,
            Self::Usage => 64,
            Self::Unreadable => 65,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// Where results go: as JSON with `--json`, else in words.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// `json` is the program's `--json` flag.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether results are printed as JSON.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Prints one result: `value` as one line of JSON, or whatever `words` writes.
    ///
    /// A reader that has gone away (`| head`) is not an error: what it wanted it has.
    pub fn print(self, value: &impl Serialize, words: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let mut stdout = anstream::stdout().lock();
        let _reader_gone = self.print_to(&mut stdout, value, words);
    }

    fn print_to(
        self,
        to: &mut dyn Write,
        value: &impl Serialize,
        words: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            let line = serde_json::to_string(value).map_err(io::Error::other)?;
            writeln!(to, "{line}")?;
        } else {
            words(to)?;
        }
        to.flush()
    }
}

/// Says on stderr, in one line, why `program` stops. `reason` is a sentence that says what to do next.
pub fn complain(program: &str, reason: impl std::fmt::Display) {
    let _nobody_listens = writeln!(anstream::stderr().lock(), "{program}: {reason}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn exit_codes_are_the_ones_that_scripts_rely_on() {
        let all =
            [ExitStatus::Ok, ExitStatus::Failed, ExitStatus::NotChecked, ExitStatus::Usage, ExitStatus::Unreadable];
        assert_eq!(all.map(ExitStatus::code), [0, 1, 2, 64, 65]);
    }

    #[test]
    fn a_result_is_one_json_line_or_words_never_both() {
        let value = serde_json::json!({"size": 3});
        let mut json = Vec::new();
        Output::new(true).print_to(&mut json, &value, |to| writeln!(to, "three")).unwrap();
        assert_eq!(json, b"{\"size\":3}\n");
        let mut words = Vec::new();
        Output::new(false).print_to(&mut words, &value, |to| writeln!(to, "three")).unwrap();
        assert_eq!(words, b"three\n");
    }
}
