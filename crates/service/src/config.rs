//! Configuration in three layers: a TOML file, then `COUNTERFOIL_<KEY>` in the environment, then flags.
//!
//! ```text
//! head_interval_ms = 200          COUNTERFOIL_HEAD_INTERVAL_MS=100        --head-interval-ms 50
//! [limits]
//! connections = 64                COUNTERFOIL_LIMITS__CONNECTIONS=128
//! [[witness]]
//! url = "http://…"                COUNTERFOIL_WITNESS='[{url = "http://…", vkey = "…"}]'
//! ```
//!
//! A key that nothing reads is an error and the message names the nearest key that exists: a setting with
//! a typing error in it must not quietly be the default. All programs share the prefix, so an environment
//! variable that resembles no key of this program is another program's, and only logged.

use crate::known_keys::{known_keys, nearest};
use serde::de::DeserializeOwned;
use serde_ignored::Path as IgnoredPath;
use std::path::{Path, PathBuf};

/// What every environment variable of ours begins with.
pub const ENVIRONMENT_PREFIX: &str = "COUNTERFOIL_";

/// Bytes of a configuration file: thousands of witnesses or logs, and far from anything that hurts.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Edits within which an unknown environment variable is taken for a misspelt key of this program.
const MISSPELT_WITHIN_EDITS: usize = 2;

/// Why there is no configuration. Each says which layer, which key, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}; name the right one with --config")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is above the size limit.
    #[error("{path} is larger than {MAX_FILE_BYTES} bytes, which no configuration file of ours is; check the path")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("line {line} of {path} is not TOML: {reason}")]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Nothing reads this key.
    #[error("{layer} sets `{key}`, which is no known key{}", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default())]
    UnknownKey {
        /// "the file …", "the environment" or "a flag".
        layer: String,
        /// The key, with dots.
        key: String,
        /// The known key with the fewest edits.
        nearest: Option<String>,
    },
    /// A value is missing or of the wrong kind.
    #[error("the configuration cannot be used: {0}")]
    Value(String),
}

/// The flags given on the command line, by configuration key.
#[derive(Clone, Debug, Default)]
pub struct Flags(toml::Table);

impl Flags {
    /// No flags.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key` (dots for nesting) if the flag was given.
    #[must_use]
    pub fn set(mut self, key: &str, value: Option<impl Into<toml::Value>>) -> Self {
        if let Some(value) = value {
            insert(&mut self.0, key.split('.'), value.into());
        }
        self
    }

    /// Takes over `KEY=VALUE` as a `--set` flag gives it: dots for nesting, lists and tables written as in TOML.
    ///
    /// # Errors
    /// A sentence, where there is no `=` or no key.
    pub fn assign(mut self, assignment: &str) -> Result<Self, String> {
        match assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key, value)) if !key.is_empty() => {
                insert(&mut self.0, key.split('.'), text_value(value.to_owned()));
                Ok(self)
            }
            _ => Err(format!("{assignment:?} sets nothing; write KEY=VALUE, for example limits.connections=64")),
        }
    }

    /// The same for a path, which on a command line is relative to the working directory.
    #[must_use]
    pub fn set_path(self, key: &str, value: Option<&Path>) -> Self {
        let absolute = value
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned());
        self.set(key, absolute)
    }
}

/// A configuration, and where its relative paths begin.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The values.
    pub values: T,
    base: PathBuf,
}

impl<T> Loaded<T> {
    /// A path of the configuration, relative to the directory of its file (or to the working directory
    /// where there is no file), so that a configuration works from wherever it is started.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.base.join(path)
    }
}

/// Loads `T` from `file` (if any), the environment and `flags`.
///
/// # Errors
/// [`ConfigError`]; all of them are for [`crate::ExitStatus::Usage`].
pub fn load<T: DeserializeOwned>(file: Option<&Path>, flags: Flags) -> Result<Loaded<T>, ConfigError> {
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    load_with_environment(file, environment, flags)
}

/// [`load`] with an environment that is handed in.
///
/// # Errors
/// As [`load`].
pub fn load_with_environment<T: DeserializeOwned>(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Flags,
) -> Result<Loaded<T>, ConfigError> {
    let in_file = file.map(read_file).transpose()?.unwrap_or_default();
    let in_environment = environment_layer(environment);
    let file_name = file.map(|path| path.display().to_string());
    let layer_name = |key: &str| match &file_name {
        _ if contains(&flags.0, key) => "a flag".to_owned(),
        Some(name) if !contains(&in_environment, key) => format!("the file {name}"),
        _ => "the environment".to_owned(),
    };

    let mut layered = ::config::Config::builder();
    for layer in [&in_file, &in_environment, &flags.0] {
        let text = toml::to_string(layer).map_err(|error| ConfigError::Value(error.to_string()))?;
        layered = layered.add_source(::config::File::from_str(&text, ::config::FileFormat::Toml));
    }
    let layered = layered.build().map_err(|error| ConfigError::Value(error.to_string()))?;

    let mut unknown = Vec::new();
    let values = serde_ignored::deserialize(layered, |path| unknown.push(segments(&path)));
    for path in unknown {
        let Some((key, parents)) = path.split_last() else { continue };
        let known = nearest(key, known_keys::<T>(parents));
        let dotted = path.join(".");
        let only_in_environment =
            contains(&in_environment, &dotted) && ![&in_file, &flags.0].iter().any(|layer| contains(layer, &dotted));
        if only_in_environment && known.is_none_or(|(_, edits)| edits > MISSPELT_WITHIN_EDITS) {
            tracing::info!(key = %dotted, "the environment sets a key that this program does not have");
            continue;
        }
        let nearest =
            known.map(|(name, _)| parents.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("."));
        return Err(ConfigError::UnknownKey { layer: layer_name(&dotted), key: dotted, nearest });
    }
    let values = values.map_err(|error| {
        ConfigError::Value(match &file_name {
            Some(name) => format!("{error} (in {name}, the environment or a flag)"),
            None => format!("{error} (in the environment or a flag; no --config was given)"),
        })
    })?;
    let base = file.and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
    Ok(Loaded { values, base })
}

/// The TOML of a configuration file.
///
/// # Errors
/// [`ConfigError`]: it cannot be read, is too large or no TOML.
pub(crate) fn read_file(path: &Path) -> Result<toml::Table, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge { path: path.to_owned() });
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    text.parse().map_err(|error: toml::de::Error| ConfigError::NotToml {
        path: path.to_owned(),
        line: 1 + text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default().matches('\n').count(),
        reason: error.message().to_owned(),
    })
}

fn environment_layer(environment: impl Iterator<Item = (String, String)>) -> toml::Table {
    let mut layer = toml::Table::new();
    for (name, value) in environment {
        if let Some(key) = name.strip_prefix(ENVIRONMENT_PREFIX) {
            let key = key.to_lowercase();
            insert(&mut layer, key.split("__"), text_value(value));
        }
    }
    layer
}

/// Lists and tables are written as in TOML; everything else is text, which `config` reads as the number or
/// truth value that the key wants.
fn text_value(value: String) -> toml::Value {
    let structured = value.starts_with('[') || value.starts_with('{');
    let parsed = structured.then(|| format!("value = {value}").parse::<toml::Table>().ok()).flatten();
    parsed.and_then(|mut table| table.remove("value")).unwrap_or(toml::Value::String(value))
}

fn insert<'k>(table: &mut toml::Table, mut keys: impl Iterator<Item = &'k str>, value: toml::Value) {
    let Some(first) = keys.next() else { return };
    let rest: Vec<&str> = keys.collect();
    if rest.is_empty() {
        table.insert(first.to_owned(), value);
        return;
    }
    let inner = table.entry(first).or_insert_with(|| toml::Table::new().into());
    if !inner.is_table() {
        *inner = toml::Table::new().into();
    }
    if let toml::Value::Table(inner) = inner {
        insert(inner, rest.into_iter(), value);
    }
}

fn contains(table: &toml::Table, dotted: &str) -> bool {
    let mut keys = dotted.split('.');
    let Some(mut here) = keys.next().and_then(|key| table.get(key)) else { return false };
    for key in keys {
        let next = match here {
            toml::Value::Table(table) => table.get(key),
            toml::Value::Array(array) => key.parse().ok().and_then(|index: usize| array.get(index)),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => return false,
        }
    }
    true
}

fn segments(path: &IgnoredPath<'_>) -> Vec<String> {
    let (parent, own) = match path {
        IgnoredPath::Root => return Vec::new(),
        IgnoredPath::Seq { parent, index } => (parent, Some(index.to_string())),
        IgnoredPath::Map { parent, key } => (parent, Some(key.clone())),
        IgnoredPath::Some { parent }
        | IgnoredPath::NewtypeStruct { parent }
        | IgnoredPath::NewtypeVariant { parent } => (parent, None),
    };
    let mut segments = segments(parent);
    segments.extend(own);
    segments
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::Limits;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Daemon {
        listen: String,
        #[serde(default = "default_interval_ms")]
        head_interval_ms: u64,
        #[serde(default)]
        limits: Limits,
        #[serde(default)]
        witness: Vec<Peer>,
        policy: Option<PathBuf>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Peer {
        vkey: String,
        url: String,
    }

    fn default_interval_ms() -> u64 {
        200
    }

    fn load_text(text: &str, environment: &[(&str, &str)], flags: Flags) -> Result<Loaded<Daemon>, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        load_with_environment(Some(&path), environment, flags)
    }

    #[test]
    fn flags_win_over_the_environment_and_the_environment_over_the_file() {
        let text = "listen = \"a:1\"\nhead_interval_ms = 1";
        let file_only = load_text(text, &[], Flags::new()).unwrap().values;
        assert_eq!((file_only.listen.as_str(), file_only.head_interval_ms), ("a:1", 1));
        let environment = [("COUNTERFOIL_HEAD_INTERVAL_MS", "2"), ("COUNTERFOIL_LISTEN", "b:2"), ("OTHER", "x")];
        let with_environment = load_text(text, &environment, Flags::new()).unwrap().values;
        assert_eq!((with_environment.listen.as_str(), with_environment.head_interval_ms), ("b:2", 2));
        let flags = Flags::new().set("head_interval_ms", Some(3)).set("listen", None::<String>);
        let with_flags = load_text(text, &environment, flags).unwrap().values;
        assert_eq!((with_flags.listen.as_str(), with_flags.head_interval_ms), ("b:2", 3));
    }

    #[test]
    fn a_nested_key_is_reached_from_the_environment_and_leaves_its_siblings() {
        let text = "listen = \"a:1\"\n[limits]\nconnections = 5\nbody_bytes = 6";
        let loaded = load_text(text, &[("COUNTERFOIL_LIMITS__CONNECTIONS", "7")], Flags::new()).unwrap().values;
        assert_eq!((loaded.limits.connections, loaded.limits.body_bytes), (7, 6));
        assert_eq!(loaded.limits.header_bytes, Limits::default().header_bytes);
    }

    #[test]
    fn a_list_in_the_environment_is_written_as_in_toml() {
        let environment =
            [("COUNTERFOIL_WITNESS", r#"[{vkey = "w+1+x", url = "http://w"}]"#), ("COUNTERFOIL_LISTEN", "[::1]:80")];
        let loaded = load_text("", &environment, Flags::new()).unwrap().values;
        assert_eq!(loaded.witness, [Peer { vkey: "w+1+x".into(), url: "http://w".into() }]);
        assert_eq!(loaded.listen, "[::1]:80");
    }

    #[test]
    fn any_key_can_be_assigned_by_a_flag() {
        let flags = Flags::new().assign("limits.connections=3").unwrap().assign("listen = b").unwrap();
        let loaded = load_text("listen = \"a\"", &[], flags).unwrap().values;
        assert_eq!((loaded.listen.as_str(), loaded.limits.connections), ("b", 3));
        assert!(Flags::new().assign("listen").is_err());
        let unknown =
            load_text("listen = \"a\"", &[], Flags::new().assign("limits.conections=3").unwrap()).unwrap_err();
        assert!(unknown.to_string().contains("a flag sets `limits.conections`"), "{unknown}");
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest_one() {
        let error = load_text("listen = \"a\"\nhead_intervall_ms = 1", &[], Flags::new()).unwrap_err().to_string();
        assert!(error.contains("`head_intervall_ms`") && error.contains("did you mean `head_interval_ms`?"), "{error}");
        assert!(error.contains("config.toml"), "{error}");
        let nested = load_text("listen = \"a\"\n[limits]\nconections = 1", &[], Flags::new()).unwrap_err().to_string();
        assert!(nested.contains("did you mean `limits.connections`?"), "{nested}");
        let listed =
            load_text("listen = \"a\"\n[[witness]]\nvkey = \"v\"\nurl = \"u\"\nulr = \"u\"", &[], Flags::new())
                .unwrap_err()
                .to_string();
        assert!(listed.contains("`witness.0.ulr`") && listed.contains("did you mean `witness.0.url`?"), "{listed}");
    }

    #[test]
    fn a_misspelt_key_is_named_even_where_it_leaves_a_required_one_missing() {
        let error = load_text("lisetn = \"a\"", &[], Flags::new()).unwrap_err().to_string();
        assert!(error.contains("did you mean `listen`?"), "{error}");
    }

    #[test]
    fn a_misspelt_environment_variable_is_an_error_and_another_programs_is_not() {
        let error = load_text("listen = \"a\"", &[("COUNTERFOIL_LISTNE", "b")], Flags::new()).unwrap_err().to_string();
        assert!(error.contains("the environment sets `listne`"), "{error}");
        assert!(load_text("listen = \"a\"", &[("COUNTERFOIL_OUTCOME_DEADLINE", "5s")], Flags::new()).is_ok());
    }

    #[test]
    fn relative_paths_begin_at_the_directory_of_the_file() {
        let loaded = load_text("listen = \"a\"\npolicy = \"p/policy\"", &[], Flags::new()).unwrap();
        let resolved = loaded.resolve(loaded.values.policy.as_ref().unwrap());
        assert!(resolved.is_absolute() && resolved.ends_with("p/policy"), "{resolved:?}");
        let flags = Flags::new().set_path("policy", Some(Path::new("here")));
        let loaded = load_text("listen = \"a\"", &[], flags).unwrap();
        assert_eq!(
            loaded.resolve(loaded.values.policy.as_ref().unwrap()),
            std::env::current_dir().unwrap().join("here")
        );
    }

    #[test]
    fn what_is_missing_wrong_or_no_toml_is_said() {
        let missing = load_text("", &[], Flags::new()).unwrap_err().to_string();
        assert!(missing.contains("listen"), "{missing}");
        let wrong =
            load_text("listen = \"a\"\nhead_interval_ms = \"soon\"", &[], Flags::new()).unwrap_err().to_string();
        assert!(wrong.contains("head_interval_ms") || wrong.contains("soon"), "{wrong}");
        let not_toml = load_text("listen = \"a\"\nlisten = \"b\"", &[], Flags::new()).unwrap_err();
        assert!(
            matches!(not_toml, ConfigError::NotToml { line: 2, .. }) && !not_toml.to_string().contains('\n'),
            "{not_toml}"
        );
        let absent =
            load_with_environment::<Daemon>(Some(Path::new("/nonexistent/c.toml")), std::iter::empty(), Flags::new());
        assert!(matches!(absent, Err(ConfigError::Unreadable { .. })));
    }
}
