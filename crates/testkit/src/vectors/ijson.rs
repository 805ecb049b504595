//! `ijson.json`: which texts are JSON that everybody reads alike.

use super::{VectorFile, b64};
use receipt::ijson::{MAX_DEPTH, MAX_INTEGER, parse_object};
use serde_json::{Value, json};

pub(super) fn ijson() -> VectorFile {
    VectorFile {
        name: "ijson.json",
        about: "Parse text_b64 as one I-JSON object, white space around it allowed. code is null where it is one, and else why it is none.",
        cases: inputs().into_iter().map(|(name, text)| case(&name, &text)).collect(),
    }
}

fn case(name: &str, text: &[u8]) -> Value {
    json!({"name": name, "text_b64": b64(text), "code": code(text)})
}

/// What becomes of a text. That it is UTF-8 is asked before anything else.
pub(super) fn code(text: &[u8]) -> Option<&'static str> {
    match std::str::from_utf8(text) {
        Err(_) => Some("not-utf8"),
        Ok(text) => parse_object(text).err().map(|error| error.code()),
    }
}

fn inputs() -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<(String, Vec<u8>)> = TEXTS.iter().map(|(name, text)| owned(name, text.as_bytes())).collect();
    inputs.extend(BYTES.iter().map(|(name, text)| owned(name, text)));
    let arrays = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    inputs.extend([
        owned("arrays to the greatest depth", arrays(MAX_DEPTH).as_bytes()),
        owned("arrays one deeper", arrays(MAX_DEPTH + 1).as_bytes()),
        owned("objects to the greatest depth", objects(MAX_DEPTH).as_bytes()),
        owned("objects one deeper", objects(MAX_DEPTH + 1).as_bytes()),
        owned("arrays of a depth that overflows stacks", arrays(5_000).as_bytes()),
        owned("a deep array that is never closed", format!("{{\"a\":{}", "[".repeat(5_000)).as_bytes()),
        owned("the greatest number", format!("{{\"a\":{MAX_INTEGER}}}").as_bytes()),
        owned("the least number", format!("{{\"a\":-{MAX_INTEGER}}}").as_bytes()),
        owned("a number one greater", format!("{{\"a\":{}}}", MAX_INTEGER + 1).as_bytes()),
        owned("a number one less", format!("{{\"a\":-{}}}", MAX_INTEGER + 1).as_bytes()),
        owned("a number with four hundred digits", format!("{{\"a\":{}}}", "9".repeat(400)).as_bytes()),
        owned("a fraction with four hundred digits", format!("{{\"a\":0.{}}}", "3".repeat(400)).as_bytes()),
    ]);
    inputs
}

fn owned(name: &str, text: &[u8]) -> (String, Vec<u8>) {
    (name.to_owned(), text.to_vec())
}

const TEXTS: &[(&str, &str)] = &[
    ("the empty object", "{}"),
    ("white space of all four kinds", " \t\r\n{ \"a\" \n:\t[ 1 ,\r2 ] } \n"),
    ("every literal", r#"{"a":null,"b":true,"c":false}"#),
    ("every escape", r#"{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"}"#),
    ("text beyond ASCII as it is", "{\"prüfen ✓\":\"\u{1f600}\"}"),
    ("the empty name", r#"{"":1}"#),
    ("names that differ in case", r#"{"a":1,"A":2}"#),
    ("names that differ in normalisation", "{\"\u{e9}\":1,\"e\u{301}\":2}"),
    ("a name of the prototype", r#"{"__proto__":{"a":1},"constructor":2,"toString":3}"#),
    ("a prototype twice", r#"{"__proto__":1,"__proto__":2}"#),
    ("U+2028 and U+2029 in a string", "{\"a\":\"\u{2028}\u{2029}\"}"),
    ("U+007F in a string", "{\"a\":\"\u{7f}\"}"),
    ("an escaped zero", r#"{"a":"\u0000"}"#),
    ("minus zero", r#"{"a":-0}"#),
    ("minus zero with a fraction", r#"{"a":-0.0e0}"#),
    ("a fraction", r#"{"a":0.1}"#),
    ("a number that rounds to zero", r#"{"a":1e-400}"#),
    ("the least double", r#"{"a":5e-324}"#),
    ("a whole number with an exponent", r#"{"a":1E+2}"#),
    ("a name twice", r#"{"a":1,"a":2}"#),
    ("a name twice with one value", r#"{"a":1,"a":1}"#),
    ("a name twice, once escaped", "{\"a\":1,\"\\u0061\":2}"),
    ("a name twice, escaped in two ways", r#"{"\u002f":1,"\/":2}"#),
    ("a name twice, once as a pair of surrogates", "{\"\u{1f600}\":1,\"\\ud83d\\ude00\":2}"),
    ("a name twice with others between", r#"{"a":1,"b":2,"c":3,"a":4}"#),
    ("a name twice in an inner object", r#"{"a":[{"b":1,"b":2}]}"#),
    ("the empty name twice", r#"{"":1,"":2}"#),
    ("a name in an object and in one within it", r#"{"a":{"a":1}}"#),
    ("a number above the bound, as an exponent", r#"{"a":1e16}"#),
    ("a number above the bound, as a fraction", r#"{"a":9007199254740992.0}"#),
    ("a fraction that rounds above the bound", r#"{"a":9007199254740991.9}"#),
    ("a fraction that rounds to the bound", r#"{"a":9007199254740991.1}"#),
    ("two to the 64", r#"{"a":18446744073709551616}"#),
    ("the greatest u64", r#"{"a":18446744073709551615}"#),
    ("the least i64", r#"{"a":-9223372036854775808}"#),
    ("a number above the bound in an array", r#"{"a":[[1,9007199254740993]]}"#),
    ("a number beyond every double", r#"{"a":1e400}"#),
    ("a number beyond every double, negative", r#"{"a":-1e400}"#),
    ("the greatest double", r#"{"a":1.7976931348623157e308}"#),
    ("a lone high surrogate", r#"{"a":"\ud800"}"#),
    ("a lone low surrogate", r#"{"a":"\udc00"}"#),
    ("surrogates in the wrong order", r#"{"a":"\ude00\ud83d"}"#),
    ("a high surrogate before another character", r#"{"a":"\ud83dx"}"#),
    ("a high surrogate before another escape", r#"{"a":"\ud83d\n"}"#),
    ("two high surrogates and a low one", r#"{"a":"\ud83d\ud83d\ude00"}"#),
    ("a lone surrogate in a name", r#"{"\udfff":1}"#),
    ("the noncharacter U+FFFF", "{\"a\":\"\u{ffff}\"}"),
    ("the noncharacter U+FFFE, escaped", r#"{"a":"\ufffe"}"#),
    ("the noncharacter U+FDD0", "{\"a\":\"\u{fdd0}\"}"),
    ("U+FDCF and U+FDF0, beside the noncharacters", "{\"a\":\"\u{fdcf}\u{fdf0}\"}"),
    ("the noncharacter U+FDEF", "{\"a\":\"\u{fdef}\"}"),
    ("the noncharacter U+1FFFE", "{\"a\":\"\u{1fffe}\"}"),
    ("the noncharacter U+10FFFF, escaped", r#"{"a":"\udbff\udfff"}"#),
    ("a noncharacter in a name", "{\"\u{ffff}\":1}"),
    ("U+FFFD, the replacement character", "{\"a\":\"\u{fffd}\"}"),
    ("nothing", ""),
    ("white space", " \n"),
    ("an array", "[]"),
    ("a string", r#""a""#),
    ("a number", "1"),
    ("null", "null"),
    ("two objects", "{}{}"),
    ("an object and a brace", "{}}"),
    ("an object and a comma", "{},"),
    ("an object and a zero byte", "{}\0"),
    ("an object and a form feed", "{}\u{c}"),
    ("an object and a no-break space", "{}\u{a0}"),
    ("a byte order mark", "\u{feff}{}"),
    ("a byte order mark behind", "{}\u{feff}"),
    ("a byte order mark in a string", "{\"a\":\"\u{feff}\"}"),
    ("a trailing comma in an object", r#"{"a":1,}"#),
    ("a trailing comma in an array", r#"{"a":[1,]}"#),
    ("a leading comma", r#"{,"a":1}"#),
    ("no comma", r#"{"a":1 "b":2}"#),
    ("a name without value", r#"{"a"}"#),
    ("a colon without value", r#"{"a":}"#),
    ("a name without quotes", "{a:1}"),
    ("single quotes", "{'a':1}"),
    ("a number as name", "{1:1}"),
    ("a comment", "{/* */}"),
    ("a line comment", "{}//"),
    ("a cut object", r#"{"a":1"#),
    ("a cut string", r#"{"a":"b"#),
    ("a cut escape", r#"{"a":"\u00"}"#),
    ("an unknown escape", r#"{"a":"\x41"}"#),
    ("an escape of an upper-case letter", r#"{"a":"\U0041"}"#),
    ("an escape without hex digits", r#"{"a":"\u00g0"}"#),
    ("an escape with a sign", r#"{"a":"\u+041"}"#),
    ("NaN", r#"{"a":NaN}"#),
    ("Infinity", r#"{"a":Infinity}"#),
    ("minus Infinity", r#"{"a":-Infinity}"#),
    ("undefined", r#"{"a":undefined}"#),
    ("a literal in upper case", r#"{"a":True}"#),
    ("a literal run on", r#"{"a":nullx}"#),
    ("a leading zero", r#"{"a":01}"#),
    ("a leading zero behind minus", r#"{"a":-01}"#),
    ("a plus sign", r#"{"a":+1}"#),
    ("a minus sign alone", r#"{"a":-}"#),
    ("a dot without digits behind", r#"{"a":1.}"#),
    ("a dot without digits before", r#"{"a":.5}"#),
    ("an exponent without digits", r#"{"a":1e}"#),
    ("an exponent with a sign alone", r#"{"a":1e+}"#),
    ("a hexadecimal number", r#"{"a":0x1}"#),
    ("underscores in a number", r#"{"a":1_000}"#),
    ("digits of another script", "{\"a\":\u{661}}"),
    ("a newline in a string", "{\"a\":\"b\nc\"}"),
    ("a tab in a string", "{\"a\":\"b\tc\"}"),
    ("a zero byte in a string", "{\"a\":\"b\0c\"}"),
    ("a unit separator in a string", "{\"a\":\"\u{1f}\"}"),
    ("a newline in a name", "{\"a\nb\":1}"),
];

const BYTES: &[(&str, &[u8])] = &[
    ("a byte that no UTF-8 has", b"{\"a\":\"\xff\"}"),
    ("a continuation byte alone", b"{\"a\":\"\x80\"}"),
    ("an overlong slash", b"{\"a\":\"\xc0\xaf\"}"),
    ("an overlong slash of three bytes", b"{\"a\":\"\xe0\x80\xaf\"}"),
    ("an overlong zero", b"{\"a\":\"\xc0\x80\"}"),
    ("an overlong quotation mark", b"{\"a\":\"\xc0\xa2}"),
    ("a surrogate in UTF-8", b"{\"a\":\"\xed\xa0\x80\"}"),
    ("a pair of surrogates in UTF-8", b"{\"a\":\"\xed\xa0\xbd\xed\xb8\x80\"}"),
    ("a code point beyond Unicode", b"{\"a\":\"\xf4\x90\x80\x80\"}"),
    ("five bytes for one character", b"{\"a\":\"\xf8\x88\x80\x80\x80\"}"),
    ("a character cut short", b"{\"a\":\"\xe2\x9c\"}"),
    ("a character cut short at the end", b"{}\xe2\x9c"),
    ("Latin-1", b"{\"a\":\"\xe9\"}"),
    ("UTF-16", b"\xff\xfe{\x00}\x00"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_reader_but_the_one_for_four_mebibytes_is_shown() {
        let shown: std::collections::BTreeSet<_> = inputs().iter().filter_map(|(_, text)| code(text)).collect();
        let all = [
            "duplicate-member",
            "json-syntax",
            "noncharacter",
            "not-an-object",
            "not-utf8",
            "number-out-of-range",
            "too-deep",
        ];
        assert_eq!(shown.into_iter().collect::<Vec<_>>(), all);
    }
}
