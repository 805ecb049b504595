//! The canonical form under a `chain_sha256` of sequence-attack-repro: JSON with members sorted by code point, no
//! spaces, and everything outside printable ASCII as `\uXXXX`, numbers as that suite's language writes them.
//!
//! This is not RFC 8785 (that sorts by UTF-16 units and leaves non-ASCII as it is). Used for nothing else.

use serde_json::{Map, Number, Value};
use std::fmt::Write;

/// The canonical text of an object without the members named in `without`.
pub(crate) fn sorted_without(members: &Map<String, Value>, without: &[&str]) -> String {
    let mut out = String::new();
    write_object(members.iter().filter(|(name, _)| !without.contains(&name.as_str())), &mut out);
    out
}

fn write_object<'value>(members: impl Iterator<Item = (&'value String, &'value Value)>, out: &mut String) {
    let mut members: Vec<_> = members.collect();
    // Rust compares strings by UTF-8 bytes, which is the order of code points.
    members.sort_unstable_by_key(|(name, _)| *name);
    out.push('{');
    for (place, (name, value)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// Depth is bounded by the parser that made the value.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(element, out);
            }
            out.push(']');
        }
        Value::Object(members) => write_object(members.iter(), out),
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(b'"') => out.push_str("\\\""),
            Ok(b'\\') => out.push_str("\\\\"),
            Ok(b'\n') => out.push_str("\\n"),
            Ok(b'\r') => out.push_str("\\r"),
            Ok(b'\t') => out.push_str("\\t"),
            Ok(0x08) => out.push_str("\\b"),
            Ok(0x0c) => out.push_str("\\f"),
            Ok(printable @ b' '..=b'~') => out.push(char::from(printable)),
            _ => write!(out, "\\u{unit:04x}").expect("a String takes every write"),
        }
    }
    out.push('"');
}

/// Whole numbers as they are; others as the shortest decimal that reads back, the nearest of these, and of two equally
/// near the even one; with a point where it is below 10^16 and not smaller than 10^-4, else with an exponent of at
/// least two digits.
fn write_number(number: &Number, out: &mut String) {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        out.push_str(&number.to_string());
        return;
    };
    let scientific = shortest(float);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float == 0.0 || (-4..16).contains(&exponent) {
        let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
        let digits = digits.replace('.', "");
        out.push_str(sign);
        match usize::try_from(exponent) {
            Ok(point) => {
                let whole = digits.get(..=point).unwrap_or(&digits);
                let after = digits.get(point + 1..).filter(|after| !after.is_empty()).unwrap_or("0");
                write!(out, "{whole:0<width$}.{after}", width = point + 1).expect("a String takes every write");
            }
            Err(_) => {
                let zeros = exponent.unsigned_abs() as usize - 1;
                write!(out, "0.{:0<zeros$}{digits}", "").expect("a String takes every write");
            }
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs()).expect("a String takes every write");
    }
}

/// The shortest digits that read back, as `d.ddde-9`. Rust's own shortest form rounds a tie up; its form of a given
/// length rounds it to even.
fn shortest(float: f64) -> String {
    let scientific = format!("{float:e}");
    let digits = scientific.split('e').next().unwrap_or_default();
    let after_point = digits.split_once('.').map_or(0, |(_, after)| after.len());
    let nearest = format!("{float:.after_point$e}");
    if nearest.parse() == Ok(float) { nearest } else { scientific }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn canonical(text: &str) -> String {
        sorted_without(&receipt::ijson::parse_object(text).unwrap(), &["gone"])
    }

    #[test]
    fn members_are_sorted_and_named_ones_left_out() {
        assert_eq!(
            canonical(r#"{"b": [1, {"d": null, "c": true}], "gone": 1, "a": {}}"#),
            r#"{"a":{},"b":[1,{"c":true,"d":null}]}"#
        );
    }

    #[test]
    fn names_are_sorted_by_code_point_not_by_utf_16() {
        // U+FB33 sorts before U+1F600 here, and after it where UTF-16 units are compared.
        assert_eq!(canonical("{\"\u{1f600}\":1,\"\u{fb33}\":2}"), "{\"\\ufb33\":2,\"\\ud83d\\ude00\":1}");
    }

    #[test]
    fn everything_outside_printable_ascii_is_escaped() {
        let text = r#"{"a":"\"\\\/\b\f\n\r\t\u0000\u001f\u007fé—😀"}"#;
        assert_eq!(
            canonical(text),
            "{\"a\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\\u007f\\u00e9\\u2014\\ud83d\\ude00\"}"
        );
    }

    #[test]
    fn numbers_are_written_as_the_suite_writes_them() {
        let text = r#"{"a":[0,-7,9007199254740991,1.0,-0.0,0.1,1e2,0.0001,0.00001,1.5e-7,123456789.125,5e-324]}"#;
        assert_eq!(
            canonical(text),
            r#"{"a":[0,-7,9007199254740991,1.0,-0.0,0.1,100.0,0.0001,1e-05,1.5e-07,123456789.125,5e-324]}"#
        );
    }

    #[test]
    fn of_two_equally_near_shortest_forms_the_even_one_is_written() {
        // Each lies in the middle between two decimals of its length that both read back.
        let text = "[2153656602300395.2,-956591356476467.2,13411284283956.812,-163451991925498.62,9007199254740990.0]";
        assert_eq!(canonical(&format!("{{\"a\":{text}}}")), format!("{{\"a\":{text}}}"));
    }
}
