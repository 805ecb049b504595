//! The canonical form under a pipelock signature: JSON as Go's encoder writes a struct. Members stand in a fixed order,
//! without spaces; optional ones are left out where they are zero; `<`, `>`, `&` and the two Unicode line separators are
//! escaped in strings.
//!
//! This is not RFC 8785, which sorts members and escapes none of these. Used for nothing else.

use serde_json::{Map, Value};
use std::fmt::Write;

/// One member of a struct.
pub(super) struct Field {
    name: &'static str,
    /// Left out where its value is zero ([`is_zero`]).
    optional: bool,
    shape: Shape,
}

/// How a member's value is written.
pub(super) enum Shape {
    /// As any value; names of an object are sorted by their bytes.
    Plain,
    /// A pointer to a struct.
    Struct(&'static [Field]),
    /// An array of structs.
    Structs(&'static [Field]),
    /// A map.
    Map,
}

/// A member that always stands there.
pub(super) const fn always(name: &'static str) -> Field {
    Field { name, optional: false, shape: Shape::Plain }
}

/// A member that is left out where it is zero.
pub(super) const fn unless_zero(name: &'static str) -> Field {
    Field { name, optional: true, shape: Shape::Plain }
}

/// The same, for structs and maps.
pub(super) const fn shaped(name: &'static str, shape: Shape) -> Field {
    Field { name, optional: true, shape }
}

/// The text of a struct. Absent members are left out.
///
/// # Errors
/// A member that the struct does not have, which no signature would cover, or a number that is not whole: the error
/// completes "not a receipt: …".
pub(super) fn struct_text(members: &Map<String, Value>, fields: &[Field]) -> Result<String, &'static str> {
    let mut out = String::new();
    write_struct(members, fields, &mut out)?;
    Ok(out)
}

/// A string as Go writes it.
pub(super) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escape(character, out),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// JSON text as Go writes it out of a value that it kept as text: without white space between tokens, with the escapes
/// above, and every other escape as it stands.
pub(super) fn compacted(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for character in text.chars() {
        if !in_string && matches!(character, ' ' | '\t' | '\r' | '\n') {
            continue;
        }
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escape(character, &mut out),
            other => out.push(other),
        }
        in_string ^= character == '"' && !escaped;
        escaped = in_string && character == '\\' && !escaped;
    }
    out
}

fn escape(character: char, out: &mut String) {
    write!(out, "\\u{:04x}", u32::from(character)).expect("a String takes every write");
}

fn write_struct(members: &Map<String, Value>, fields: &[Field], out: &mut String) -> Result<(), &'static str> {
    if members.keys().any(|name| !fields.iter().any(|field| field.name == name)) {
        return Err("it holds a member that the format does not have, and that no signature covers");
    }
    out.push('{');
    let start = out.len();
    for field in fields {
        let Some(value) = members.get(field.name) else { continue };
        if field.optional && is_zero(&field.shape, value) {
            continue;
        }
        if out.len() > start {
            out.push(',');
        }
        write_string(field.name, out);
        out.push(':');
        match (&field.shape, value) {
            (Shape::Struct(fields), Value::Object(members)) => write_struct(members, fields, out)?,
            (Shape::Structs(fields), Value::Array(elements)) => write_elements(elements, out, |element, out| {
                let members =
                    element.as_object().ok_or("it holds something else than an object where one must stand")?;
                write_struct(members, fields, out)
            })?,
            (Shape::Plain, value) | (Shape::Map, value @ Value::Object(_)) => write_value(value, out)?,
            _ => return Err("one of its structured members has another type"),
        }
    }
    out.push('}');
    Ok(())
}

fn write_elements(
    elements: &[Value],
    out: &mut String,
    mut write_one: impl FnMut(&Value, &mut String) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    out.push('[');
    for (place, element) in elements.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_one(element, out)?;
    }
    out.push(']');
    Ok(())
}

/// Depth is bounded by the parser that made the value.
fn write_value(value: &Value, out: &mut String) -> Result<(), &'static str> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) if !number.is_f64() => out.push_str(&number.to_string()),
        Value::Number(_) => return Err("it holds a number that is not whole"),
        Value::String(text) => write_string(text, out),
        Value::Array(elements) => write_elements(elements, out, write_value)?,
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (place, (name, value)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write_value(value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Whether Go's `omitempty` leaves a member out. A pointer to a struct is left out where there is none, never for what is in
/// it: a struct that is there is written, however empty, and one that somebody put in changes the text. Of maps and
/// arrays it leaves out the empty ones.
fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) => true,
        (Shape::Map, Value::Object(members)) => members.is_empty(),
        (Shape::Plain | Shape::Structs(_), Value::Array(elements)) => elements.is_empty(),
        (Shape::Plain, Value::Bool(value)) => !value,
        (Shape::Plain, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Shape::Plain, Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    const INNER: [Field; 2] = [always("x"), unless_zero("y")];
    const FIELDS: [Field; 6] = [
        always("b"),
        unless_zero("a"),
        shaped("one", Shape::Struct(&INNER)),
        shaped("many", Shape::Structs(&INNER)),
        always("map"),
        shaped("counts", Shape::Map),
    ];

    fn text(json: &str) -> Result<String, &'static str> {
        struct_text(&receipt::ijson::parse_object(json).unwrap(), &FIELDS)
    }

    #[test]
    fn members_stand_in_the_order_of_the_struct_and_zeros_are_left_out() {
        assert_eq!(text(r#"{"a": 1, "b": 0}"#).unwrap(), r#"{"b":0,"a":1}"#);
        for zero in ["0", "\"\"", "[]", "false", "null"] {
            assert_eq!(text(&format!(r#"{{"a":{zero},"b":{zero}}}"#)).unwrap(), format!(r#"{{"b":{zero}}}"#));
        }
        assert_eq!(
            text(r#"{"many":[{"y":0,"x":1},{"y":2,"x":0}],"one":{"y":"","x":[]},"map":{"é":1,"b":2}}"#).unwrap(),
            r#"{"one":{"x":[]},"many":[{"x":1},{"x":0,"y":2}],"map":{"b":2,"é":1}}"#
        );
    }

    #[test]
    fn an_empty_struct_is_written_and_an_empty_map_is_not() {
        // As Go's encoder does (tried with 1.26) for a pointer to an empty struct, and for an empty map.
        assert_eq!(text(r#"{"one":{},"many":[{}],"counts":{}}"#).unwrap(), r#"{"one":{},"many":[{}]}"#);
        assert_eq!(text(r#"{"one":null,"many":[],"counts":null}"#).unwrap(), "{}");
        assert_eq!(text(r#"{"counts":{"b":1,"a":2}}"#).unwrap(), r#"{"counts":{"a":2,"b":1}}"#);
        // No Go program reads an object as a text or a number, or any other value as a struct.
        for wrong in
            [r#"{"a":{}}"#, r#"{"one":0}"#, r#"{"one":""}"#, r#"{"one":[]}"#, r#"{"many":{}}"#, r#"{"counts":[]}"#]
        {
            assert!(text(wrong).map_or(true, |text| text != "{}"), "{wrong}");
        }
    }

    #[test]
    fn a_member_that_is_not_of_the_struct_is_refused_at_any_depth() {
        for json in [
            r#"{"c":1}"#,
            r#"{"B":1}"#,
            r#"{"one":{"z":1}}"#,
            r#"{"many":[{"z":1}]}"#,
            r#"{"many":[1]}"#,
            r#"{"one":1}"#,
            r#"{"b":1.5}"#,
        ] {
            assert!(text(json).is_err(), "{json}");
        }
    }

    #[test]
    fn strings_have_gos_escapes() {
        let mut out = String::new();
        write_string("<a href=\"x\\\">&\u{2028}\u{2029}\u{8}\u{c}\n\r\t\u{1}\u{7f}é😀/", &mut out);
        assert_eq!(out, "\"\\u003ca href=\\\"x\\\\\\\"\\u003e\\u0026\\u2028\\u2029\\b\\f\\n\\r\\t\\u0001\u{7f}é😀/\"");
    }

    #[test]
    fn kept_text_loses_its_spaces_and_keeps_its_escapes() {
        assert_eq!(
            compacted("{ \"a b\" : [1 , \"\\u00e9 \\\" <\\\\\" ]\n}"),
            "{\"a b\":[1,\"\\u00e9 \\\" \\u003c\\\\\"]}"
        );
    }
}
