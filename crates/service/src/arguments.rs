//! Command lines: what clap parsed, or the code to exit with. Wrong usage exits 64 (clap's own 2 means
//! "not everything was checked" here); `--help` and `--version` exit 0.

use crate::configured;
use crate::output::{ExitStatus, complain};
use crate::withheld::without_private_keys;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write;

/// Parses `arguments`, the program's name first. What clap has to say is printed.
///
/// # Errors
/// The status to exit with at once: [`ExitStatus::Ok`] after help or version, else [`ExitStatus::Usage`].
pub fn parse<P: clap::Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<P, ExitStatus> {
    P::try_parse_from(arguments).map_err(|error| said(&error))
}

/// The same for a program whose options can all stand in a TOML file, named by its option `config`. An option goes
/// before its environment variable, and that before the file; the key of an option is its variable's name, without the
/// prefix, in small letters. Paths in the file begin at its directory. A key that no option has is an error.
///
/// # Errors
/// As [`parse`].
pub fn parse_configured<P: clap::Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    program: &str,
) -> Result<P, ExitStatus> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = configured::command(P::command(), &arguments).map_err(|error| {
        complain(program, error);
        ExitStatus::Usage
    })?;
    let matches = command.try_get_matches_from(arguments).map_err(|error| said(&error))?;
    P::from_arg_matches(&matches).map_err(|error| said(&error))
}

/// Prints what clap has to say; the status to exit with.
fn said(error: &clap::Error) -> ExitStatus {
    // clap quotes the argument it does not understand.
    let said = error.render().to_string();
    let _nobody_reads = match without_private_keys(&said) {
        same if same == said => error.print(),
        withheld => std::io::stderr().write_all(withheld.as_bytes()),
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitStatus::Ok,
        _ => ExitStatus::Usage,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[derive(Debug, clap::Parser)]
    #[command(version = "1.2.3")]
    struct Arguments {
        #[arg(long)]
        size: u64,
    }

    fn parse_words(words: &[&str]) -> Result<Arguments, ExitStatus> {
        parse(std::iter::once("program").chain(words.iter().copied()).map(OsString::from))
    }

    #[test]
    fn good_usage_is_parsed() {
        assert_eq!(parse_words(&["--size", "7"]).unwrap().size, 7);
    }

    #[test]
    fn wrong_usage_exits_64() {
        for words in [&["--size"][..], &["--sise", "7"], &["--size", "seven"], &[], &["surplus"]] {
            assert_eq!(parse_words(words).unwrap_err(), ExitStatus::Usage, "{words:?}");
        }
    }

    #[test]
    fn help_and_version_exit_0() {
        assert_eq!(parse_words(&["--help"]).unwrap_err(), ExitStatus::Ok);
        assert_eq!(parse_words(&["--version"]).unwrap_err(), ExitStatus::Ok);
    }
}
