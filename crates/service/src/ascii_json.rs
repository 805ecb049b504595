//! JSON in ASCII: what a terminal might obey, and what a reader's eye might miss, is escaped like everything else
//! outside ASCII. Any JSON parser reads the same values.

use serde::Serialize;
use std::fmt::Write;

/// `value` as one line of ASCII JSON.
///
/// # Errors
/// What serialising `value` fails with.
pub fn to_string(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        // Outside strings JSON is printable ASCII already; within them every character may be written like this.
        if matches!(character, ' '..='~') {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("a String takes every write");
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn everything_outside_ascii_is_escaped_and_reads_back() {
        let value = serde_json::json!({"é\u{202e}": "\u{1b}[31m \u{9b} \u{7f} 😀 \"\\"});
        let text = to_string(&value).unwrap();
        assert!(text.chars().all(|character| matches!(character, ' '..='~')), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
