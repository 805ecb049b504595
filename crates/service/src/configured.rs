//! Options of a command line that can stand in a TOML file too: what the file says becomes the default of the option,
//! so that clap itself lets environment and flags go first, and reads every value in the one way it has.
//!
//! The other way to configure, [`crate::config`], is for programs with settings that are no options.

use crate::config::{ConfigError, ENVIRONMENT_PREFIX, read_file};
use crate::known_keys::nearest;
use clap::{Arg, Command, ValueHint};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The option that names the file.
const CONFIG: &str = "config";

/// `command` with what the file says, if `arguments` or the environment name one, as defaults.
///
/// # Errors
/// [`ConfigError`]: no such file, no TOML, a key that no option has, a value that is a list or a table.
pub(crate) fn command(mut command: Command, arguments: &[OsString]) -> Result<Command, ConfigError> {
    // Whatever else is wrong with the arguments is told when they are parsed in earnest.
    let glance = command.clone().ignore_errors(true).try_get_matches_from(arguments);
    let Some(path) = glance.ok().and_then(|found| {
        let below = found.subcommand().and_then(|(_, below)| below.try_get_one::<PathBuf>(CONFIG).ok().flatten());
        below.or(found.try_get_one::<PathBuf>(CONFIG).ok().flatten()).cloned()
    }) else {
        return Ok(command);
    };
    let table = read_file(&path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let known: Vec<String> =
        arguments_of(&command).filter(|argument| argument.get_id() != CONFIG).filter_map(key_of).collect();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    for (key, value) in &table {
        if !names.contains(&key.as_str()) {
            return Err(ConfigError::UnknownKey {
                layer: format!("the file {}", path.display()),
                key: key.clone(),
                nearest: nearest(key, &names).map(|(name, _)| name.to_owned()),
            });
        }
        let value = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(truth) => truth.to_string(),
            _ => {
                let reason = format!("`{key}` in {} is no text, whole number or truth value", path.display());
                return Err(ConfigError::Value(reason));
            }
        };
        let set = |argument: Arg| {
            if key_of(&argument).as_deref() == Some(key) { with_default(argument, &value, base) } else { argument }
        };
        command = command.mut_args(set).mut_subcommands(|below| below.mut_args(set));
    }
    Ok(command)
}

fn arguments_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().chain(command.get_subcommands().flat_map(Command::get_arguments))
}

/// The key of an option: the name of its variable without the prefix.
fn key_of(argument: &Arg) -> Option<String> {
    argument.get_env()?.to_str()?.strip_prefix(ENVIRONMENT_PREFIX).map(str::to_lowercase)
}

fn with_default(argument: Arg, value: &str, base: &Path) -> Arg {
    let is_path = matches!(argument.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath);
    let value = if is_path { base.join(value).into_os_string() } else { value.into() };
    argument.default_value(value).required(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long, global = true, env = "COUNTERFOIL_CONFIG")]
        config: Option<PathBuf>,
        #[arg(long, global = true, env = "COUNTERFOIL_TEST_LEVEL", default_value = "info")]
        level: String,
        #[command(subcommand)]
        command: Call,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Call {
        Judge {
            #[arg(long, env = "COUNTERFOIL_TEST_POLICY", value_hint = ValueHint::FilePath)]
            policy: PathBuf,
            #[arg(long, env = "COUNTERFOIL_TEST_THREADS")]
            threads: Option<usize>,
        },
        Other {
            #[arg(long, env = "COUNTERFOIL_TEST_OUT", value_hint = ValueHint::FilePath)]
            out: PathBuf,
        },
    }

    /// What `words` come to beside this file; `FILE` stands for its path.
    fn parsed(text: &str, words: &[&str]) -> Result<(Arguments, PathBuf), String> {
        use clap::{CommandFactory, FromArgMatches};
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("verify.toml");
        std::fs::write(&file, text).unwrap();
        let words = std::iter::once("program").chain(words.iter().copied());
        let words: Vec<OsString> =
            words.map(|word| OsString::from(word.replace("FILE", &file.display().to_string()))).collect();
        let command = command(Arguments::command(), &words).map_err(|error| error.to_string())?;
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        Ok((Arguments::from_arg_matches(&matches).unwrap(), dir.path().to_owned()))
    }

    const BOTH: &str = "test_policy = \"p/policy\"\ntest_threads = 3\ntest_level = \"debug\"\ntest_out = \"o\"";

    #[test]
    fn what_stands_in_the_file_need_not_stand_on_the_command_line() {
        for words in
            [["--config", "FILE", "judge"], ["judge", "--config", "FILE"], ["judge", "--config=FILE", "--threads=3"]]
        {
            let (arguments, dir) = parsed(BOTH, &words).unwrap();
            assert_eq!(arguments.level, "debug");
            let Call::Judge { policy, threads } = arguments.command else { panic!("{words:?}") };
            assert_eq!((policy, threads), (dir.join("p/policy"), Some(3)), "{words:?}");
        }
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let (arguments, _) = parsed(BOTH, &["--config", "FILE", "--level", "warn", "judge", "--policy", "q"]).unwrap();
        assert_eq!(arguments.level, "warn");
        let Call::Judge { policy, threads } = arguments.command else { panic!() };
        assert_eq!((policy, threads), ("q".into(), Some(3)));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_and_a_list_is_refused() {
        let error = parsed("test_polcy = \"p\"", &["--config", "FILE", "judge"]).unwrap_err();
        assert!(error.contains("`test_polcy`") && error.contains("did you mean `test_policy`?"), "{error}");
        let error = parsed("test_threads = [1]", &["--config", "FILE", "judge"]).unwrap_err();
        assert!(error.contains("`test_threads`"), "{error}");
        let error = parsed("config = \"other.toml\"", &["--config", "FILE", "judge"]).unwrap_err();
        assert!(error.contains("`config`"), "a file does not name another: {error}");
    }

    #[test]
    fn a_value_of_the_file_is_read_as_strictly_as_a_flag() {
        let error = parsed("test_threads = \"many\"", &["--config", "FILE", "judge", "--policy", "p"]).unwrap_err();
        assert!(error.contains("--threads"), "{error}");
    }

    #[test]
    fn without_a_file_nothing_changes() {
        assert!(parsed("", &["judge"]).unwrap_err().contains("--policy"));
        let (arguments, _) = parsed("", &["other", "--out", "x"]).unwrap();
        assert!(matches!(arguments.command, Call::Other { out } if out == Path::new("x")));
    }
}
