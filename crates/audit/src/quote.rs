//! Foreign text in our sentences: everything that comes from a receipt, a name or a path is quoted here before it
//! goes into a finding, so that no renderer has to remember to.
//!
//! What a terminal, a browser or a reader's eye could take for something else is written as `\u{…}`: control
//! characters, terminal escapes, marks that turn the writing direction, invisible and combining characters, letters
//! of right-to-left scripts. Letters of the left-to-right alphabets up to U+058F stay readable. Letters that look
//! alike are not told apart.

use note::{KeyKind, VerifierKey};

/// Longest quotation, in characters of the original. Enough for any name that people give things; a finding with
/// all its quotations stays within a few hundred bytes.
pub const MAX_QUOTED: usize = 96;

/// First code point that is no letter of a left-to-right alphabet any more: Hebrew begins at U+0590.
const FIRST_RIGHT_TO_LEFT: char = '\u{590}';

/// `text` in double quotes, harmless on any screen, at most [`MAX_QUOTED`] characters of it.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for (place, character) in text.chars().enumerate() {
        if place == MAX_QUOTED {
            out.push_str(&format!("\"... ({} bytes)", text.len()));
            return out;
        }
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            _ if is_harmless(character) => out.push(character),
            _ => out.extend(character.escape_unicode()),
        }
    }
    out.push('"');
    out
}

/// The name of a witness's key, quoted. Of the two keys that one witness may have, the second says what it is.
pub fn witness_name(key: &VerifierKey) -> String {
    match key.kind() {
        KeyKind::MlDsa44 => format!("{} (ML-DSA-44)", quoted(key.name().as_str())),
        _ => quoted(key.name().as_str()),
    }
}

/// `text` with everything but harmless characters and line breaks escaped, at any length: for text that is already
/// a sentence, such as an error of another library.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character == '\n' || is_harmless(character) {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}

/// [`plain`] without line breaks: for a path or a name that stands by itself on a line, and may hold any character.
pub fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\u{a}")
}

fn is_harmless(character: char) -> bool {
    matches!(character, ' '..='~')
        || (character > '~' && character < FIRST_RIGHT_TO_LEFT && character.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_readable() {
        assert_eq!(quoted("customer:77"), "\"customer:77\"");
        assert_eq!(quoted("Jürgen Ωmega"), "\"Jürgen Ωmega\"");
    }

    #[test]
    fn what_a_screen_would_obey_is_escaped() {
        let hostile = "\u{1b}[31mok\u{202e}ko\u{200b}\u{7f}\u{9b}\r\n\u{5d0}e\u{301}\"\\";
        assert_eq!(quoted(hostile), r#""\u{1b}[31mok\u{202e}ko\u{200b}\u{7f}\u{9b}\u{d}\u{a}\u{5d0}e\u{301}\"\\""#);
        assert!(quoted(hostile).chars().all(is_harmless));
    }

    #[test]
    fn long_text_is_cut_and_its_length_said() {
        let long = "x".repeat(70_000);
        let shown = quoted(&long);
        assert!(shown.len() < 130 && shown.ends_with("(70000 bytes)"), "{shown}");
    }

    #[test]
    fn sentences_keep_their_line_breaks_only() {
        assert_eq!(plain("a\nb\tc\u{1b}"), "a\nb\\u{9}c\\u{1b}");
        assert_eq!(one_line("a\nb\u{1b}"), "a\\u{a}b\\u{1b}");
    }
}
