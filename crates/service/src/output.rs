//! Results on stdout, for people or as JSON, and the exit codes that scripts rely on.
//!
//! Much of what is printed was said by somebody else: a log's refusal, a witness's status, a name. What a terminal would
//! obey, or an eye would miss, is escaped here, so that nobody who prints has to remember to.

use crate::ascii_json;
use crate::withheld::without_private_keys;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// Characters of a complaint that are shown. Ours have a few hundred; a refusal that a server wrote can have 100,000.
const MAX_COMPLAINT: usize = 4000;

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
            writeln!(to, "{}", ascii_json::to_string(value).map_err(io::Error::other)?)?;
        } else {
            let mut text = Vec::new();
            words(&mut text)?;
            to.write_all(plain(&String::from_utf8_lossy(&text)).as_bytes())?;
        }
        to.flush()
    }
}

/// Says on stderr why `program` stops. `reason` is a sentence that says what to do next. Further lines of it, which somebody
/// else may have put there, are set off from the first, and most of a very long one is left out.
pub fn complain(program: &str, reason: impl std::fmt::Display) {
    let _nobody_listens = writeln!(anstream::stderr().lock(), "{program}: {}", complaint(&reason.to_string()));
}

fn complaint(reason: &str) -> String {
    let reason = without_private_keys(reason);
    let end = reason.char_indices().nth(MAX_COMPLAINT).map_or(reason.len(), |(end, _)| end);
    let (shown, rest) = reason.split_at(end);
    let shown = plain(shown.trim_end()).replace('\n', "\n  ");
    if rest.is_empty() { shown } else { format!("{shown} ... ({} bytes)", reason.len()) }
}

/// `text` with every character escaped that a terminal could obey or an eye could miss, but for line ends.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || !is_treacherous(character) {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}

/// Control characters (C0, DEL, C1), marks that turn the direction of writing, and what has no width.
fn is_treacherous(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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

    #[test]
    fn what_a_terminal_would_obey_is_escaped_in_every_form() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}\r\u{7f}é\u{e0041}";
        let value = serde_json::json!({ "text": hostile });
        let mut json = Vec::new();
        Output::new(true).print_to(&mut json, &value, |_| Ok(())).unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), value);
        let mut words = Vec::new();
        Output::new(false).print_to(&mut words, &value, |to| writeln!(to, "{hostile}")).unwrap();
        let words = String::from_utf8(words).unwrap();
        assert!(words.contains('é'), "{words:?}");
        for text in [String::from_utf8(json).unwrap(), words] {
            assert!(text.ends_with('\n'), "{text:?}");
            assert!(!text.trim_end_matches('\n').chars().any(is_treacherous), "{text:?}");
        }
    }

    #[test]
    fn a_complaint_cannot_be_made_to_look_like_two_and_is_not_endless() {
        assert_eq!(complaint("no\ncounterfoil: all is well\u{1b}[2J\n"), "no\n  counterfoil: all is well\\u{1b}[2J");
        let long = complaint(&"é".repeat(100_000));
        assert!(long.ends_with("(200000 bytes)") && long.len() < 3 * MAX_COMPLAINT, "{}", long.len());
    }
}
