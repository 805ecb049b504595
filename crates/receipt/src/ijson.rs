//! Strict JSON (RFC 7493, I-JSON): the one door through which JSON enters a decision.
//!
//! Two programs that read the same bytes must see the same value, or one of them can be shown a
//! harmless receipt and the other a harmful one. So everything on which JSON parsers differ is refused
//! here: a member named twice (at any depth, escapes decoded), numbers that not every parser can hold,
//! lone surrogates, noncharacters, deep nesting. What this module does not do: look for line breaks
//! between tokens (the receipt's parser does), or canonicalise ([`crate::jcs`] does).

mod borrowed;

pub use borrowed::{Json, Members};

use crate::path::MemberPath;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Deepest nesting of objects and arrays, the outermost one counted: the protocol's own limit.
pub const MAX_DEPTH: usize = 32;

/// Largest magnitude of a number, 2^53 − 1: above it a double no longer tells neighbours apart
/// (RFC 7493, section 2.2).
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Longest document, in bytes. The largest one any of our programs reads is an evidence document: two
/// signed notes of up to 1 MiB, of which every byte may become two in a JSON string.
pub const MAX_JSON_LEN: usize = 4 << 20;

/// Why a text is not I-JSON. Whoever wrote the text is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Longer than [`MAX_JSON_LEN`].
    #[error("the document is {length} bytes long; send at most {MAX_JSON_LEN}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Not JSON: also a lone surrogate, or a number too large for a double.
    #[error("not JSON at line {line}, column {column}; check it with any JSON tool")]
    Syntax {
        /// Line of the first byte that does not fit, from 1.
        line: usize,
        /// Column in that line, in bytes, from 1.
        column: usize,
    },
    /// JSON, but the outermost value is no object.
    #[error("expected a JSON object")]
    NotAnObject,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("{path} is nested deeper than {MAX_DEPTH} levels; flatten it or carry it as a string")]
    TooDeep {
        /// The value that is one level too deep.
        path: MemberPath,
    },
    /// An object names one member twice.
    #[error("{path} stands twice in its object; keep one")]
    DuplicateMember {
        /// The member.
        path: MemberPath,
    },
    /// A number of a magnitude above [`MAX_INTEGER`], however it is written.
    #[error("{path} is a number beyond ±(2^53−1); write it as a string")]
    NumberOutOfRange {
        /// The number.
        path: MemberPath,
    },
    /// A string or a member name holds a Unicode noncharacter, which RFC 7493 section 2.1 forbids.
    #[error("{path} holds a Unicode noncharacter; remove it")]
    Noncharacter {
        /// The string, or the object in which the name stands.
        path: MemberPath,
    },
}

/// Parses one JSON object. White space around and between tokens is allowed.
///
/// # Errors
/// [`JsonError`]: not I-JSON, or not an object.
pub fn parse_object(text: &str) -> Result<Map<String, Value>, JsonError> {
    parse_members(text).map(Map::from)
}

/// As [`parse_object`], for who looks at the members where they lie.
///
/// # Errors
/// As [`parse_object`].
pub fn parse_members(text: &str) -> Result<Members<'_>, JsonError> {
    match parse_json(text)? {
        Json::Object(members) => Ok(members),
        _ => Err(JsonError::NotAnObject),
    }
}

/// Parses one JSON value of any type. White space around and between tokens is allowed.
///
/// # Errors
/// [`JsonError`]: not I-JSON.
pub fn parse_value(text: &str) -> Result<Value, JsonError> {
    parse_json(text).map(Value::from)
}

/// As [`parse_value`], for who looks at the value where it lies.
///
/// # Errors
/// As [`parse_value`].
pub fn parse_json(text: &str) -> Result<Json<'_>, JsonError> {
    if text.len() > MAX_JSON_LEN {
        return Err(JsonError::TooLong { length: text.len() });
    }
    let mut fault = Fault::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let strict = Strict { depth: 0, fault: &mut fault };
    let parsed = strict.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|syntax| {
        let path = fault.path;
        match fault.kind {
            Some(FaultKind::TooDeep) => JsonError::TooDeep { path },
            Some(FaultKind::DuplicateMember) => JsonError::DuplicateMember { path },
            Some(FaultKind::NumberOutOfRange) => JsonError::NumberOutOfRange { path },
            Some(FaultKind::Noncharacter) => JsonError::Noncharacter { path },
            None => JsonError::Syntax { line: syntax.line(), column: syntax.column() },
        }
    })
}

/// Checks a value that was built by a program instead of parsed: whether its text would parse again.
///
/// # Errors
/// [`JsonError`]: the first rule it breaks.
pub fn check_value(value: &Value) -> Result<(), JsonError> {
    check_at_depth(value, 0)
}

fn check_at_depth(value: &Value, depth: usize) -> Result<(), JsonError> {
    let path = MemberPath::root();
    match value {
        Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => Err(JsonError::TooDeep { path }),
        Value::Number(number) if !is_in_range(number) => Err(JsonError::NumberOutOfRange { path }),
        Value::String(string) if has_noncharacter(string) => Err(JsonError::Noncharacter { path }),
        Value::Array(elements) => elements.iter().enumerate().try_for_each(|(index, element)| {
            check_at_depth(element, depth + 1).map_err(|error| error.moved(|path| path.within_element(index)))
        }),
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            if has_noncharacter(name) {
                return Err(JsonError::Noncharacter { path: MemberPath::root() });
            }
            check_at_depth(member, depth + 1).map_err(|error| error.moved(|path| path.within_member(name)))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

impl JsonError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "json-too-long",
            Self::Syntax { .. } => "json-syntax",
            Self::NotAnObject => "not-an-object",
            Self::TooDeep { .. } => "too-deep",
            Self::DuplicateMember { .. } => "duplicate-member",
            Self::NumberOutOfRange { .. } => "number-out-of-range",
            Self::Noncharacter { .. } => "noncharacter",
        }
    }

    fn moved(self, outwards: impl FnOnce(MemberPath) -> MemberPath) -> Self {
        match self {
            Self::TooDeep { path } => Self::TooDeep { path: outwards(path) },
            Self::DuplicateMember { path } => Self::DuplicateMember { path: outwards(path) },
            Self::NumberOutOfRange { path } => Self::NumberOutOfRange { path: outwards(path) },
            Self::Noncharacter { path } => Self::Noncharacter { path: outwards(path) },
            unplaced @ (Self::TooLong { .. } | Self::Syntax { .. } | Self::NotAnObject) => unplaced,
        }
    }
}

/// Every double above 2^53 is an integer, so the rule for integers bounds all numbers alike.
fn is_in_range(number: &Number) -> bool {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(natural), _, _) => natural <= MAX_INTEGER,
        (None, Some(integer), _) => integer.unsigned_abs() <= MAX_INTEGER,
        (None, None, Some(double)) => double.abs() <= MAX_INTEGER as f64,
        (None, None, None) => false,
    }
}

/// U+FDD0 to U+FDEF and the last two code points of every plane (Unicode, section 23.7).
fn has_noncharacter(text: &str) -> bool {
    !text.is_ascii()
        && text.chars().any(|character| {
            let code = u32::from(character);
            (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
        })
}

/// What went wrong and where, beside serde's own error, which holds only prose.
#[derive(Default)]
struct Fault {
    kind: Option<FaultKind>,
    path: MemberPath,
}

enum FaultKind {
    TooDeep,
    DuplicateMember,
    NumberOutOfRange,
    Noncharacter,
}

impl Fault {
    fn found<E: serde::de::Error>(&mut self, kind: FaultKind) -> E {
        self.kind = Some(kind);
        E::custom("not I-JSON")
    }

    /// Moves the path one level outwards, where a value inside turned out to be at fault.
    fn moved(&mut self, outwards: impl FnOnce(MemberPath) -> MemberPath) {
        self.path = outwards(std::mem::take(&mut self.path));
    }
}

/// Reads a value at one depth and refuses what I-JSON refuses.
struct Strict<'a> {
    /// How many objects and arrays stand around this value.
    depth: usize,
    fault: &'a mut Fault,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Json<'de>, E> {
        self.number(Number::from(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Json<'de>, E> {
        self.number(Number::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json<'de>, E> {
        match Number::from_f64(value) {
            Some(number) => self.number(number),
            None => Err(self.fault.found(FaultKind::NumberOutOfRange)),
        }
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, value: &'de str) -> Result<Json<'de>, E> {
        self.string(Cow::Borrowed(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Json<'de>, E> {
        self.string(Cow::Owned(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<Json<'de>, A::Error> {
        let depth = self.entered()?;
        let mut elements = Vec::new();
        loop {
            let inner = Strict { depth, fault: &mut *self.fault };
            match sequence.next_element_seed(inner) {
                Ok(Some(element)) => elements.push(element),
                Ok(None) => return Ok(Json::Array(elements)),
                Err(error) => {
                    self.fault.moved(|path| path.within_element(elements.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<Json<'de>, A::Error> {
        let depth = self.entered()?;
        // Room for the members of a usual body; a list that grows by itself does so three times until then.
        let mut members = if self.depth == 0 { Members::with_capacity(16) } else { Members::default() };
        let mut names = Names::default();
        while let Some(name) = object.next_key_seed(Name)? {
            if has_noncharacter(&name) {
                return Err(self.fault.found(FaultKind::Noncharacter));
            }
            if names.is_there(&name, &members) {
                self.fault.moved(|path| path.within_member(&name));
                return Err(self.fault.found(FaultKind::DuplicateMember));
            }
            let inner = Strict { depth, fault: &mut *self.fault };
            match object.next_value_seed(inner) {
                Ok(member) => members.push(name, member),
                Err(error) => {
                    self.fault.moved(|path| path.within_member(&name));
                    return Err(error);
                }
            }
        }
        Ok(Json::Object(members))
    }
}

impl Strict<'_> {
    fn number<'de, E: serde::de::Error>(self, number: Number) -> Result<Json<'de>, E> {
        if is_in_range(&number) { Ok(Json::Number(number)) } else { Err(self.fault.found(FaultKind::NumberOutOfRange)) }
    }

    fn string<'de, E: serde::de::Error>(self, text: Cow<'de, str>) -> Result<Json<'de>, E> {
        if has_noncharacter(&text) {
            return Err(self.fault.found(FaultKind::Noncharacter));
        }
        Ok(Json::String(text))
    }

    /// The depth of what stands inside this object or array, if it may stand there.
    fn entered<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault.found(FaultKind::TooDeep));
        }
        Ok(self.depth + 1)
    }
}

/// Reads the name of a member.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Members of an object that are simply looked through for a name. Beyond that a table is kept: an entry has room for
/// ten thousand names, and nobody shall make us compare each with each.
const FEW_MEMBERS: usize = 32;

/// The names in one object so far, where those are many.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// Whether `name` is among those of `members`, all of which were asked about before they were added, in turn.
    fn is_there(&mut self, name: &str, members: &Members<'_>) -> bool {
        if members.len() < FEW_MEMBERS {
            return members.get(name).is_some();
        }
        if self.0.is_empty() {
            self.0.extend(members.iter().map(|(name, _)| name.to_owned()));
        }
        !self.0.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn refusal(text: &str) -> JsonError {
        match parse_value(text) {
            Ok(_) => panic!("{text} was accepted"),
            Err(error) => error,
        }
    }

    #[test]
    fn ordinary_json_parses_to_the_value_that_serde_json_sees() {
        let text = r#" {"a":[1,-2,3.5,1e3,true,false,null,"é\n\u00e9\ud83d\ude00"],"":{}} "#;
        assert_eq!(parse_value(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse_object("{}").unwrap(), Map::new());
    }

    #[test]
    fn members_keep_the_order_in_which_they_were_written() {
        let members = parse_object(r#"{"z":1,"a":2,"m":3}"#).unwrap();
        assert_eq!(members.keys().collect::<Vec<_>>(), ["z", "a", "m"]);
    }

    #[test]
    fn a_member_named_twice_is_refused_at_any_depth_and_however_it_is_escaped() {
        for (text, place) in [
            (r#"{"a":1,"a":1}"#, "/a"),
            (r#"{"a":1,"\u0061":2}"#, "/a"),
            (r#"{"x":[{"y":{"k":1,"l":2,"k":3}}]}"#, "/x/0/y/k"),
            (r#"[{"":1,"":2}]"#, "/0/"),
        ] {
            match refusal(text) {
                JsonError::DuplicateMember { path } => assert_eq!(path.to_string(), place),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(parse_value(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn a_member_named_twice_is_refused_among_few_and_among_many() {
        for count in [1, FEW_MEMBERS - 1, FEW_MEMBERS, FEW_MEMBERS + 1, 5 * FEW_MEMBERS] {
            let members: Vec<String> = (0..count).map(|number| format!(r#""m{number}":{number}"#)).collect();
            let members = members.join(",");
            assert_eq!(parse_object(&format!("{{{members}}}")).unwrap().len(), count);
            for twice in [0, count / 2, count - 1] {
                for name in [format!("m{twice}"), format!("\\u006d{twice}")] {
                    match refusal(&format!(r#"{{{members},"{name}":1,"x":1e99}}"#)) {
                        JsonError::DuplicateMember { path } => assert_eq!(path.to_string(), format!("/m{twice}")),
                        other => panic!("{twice} of {count}: {other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_beyond_two_to_the_53_are_refused_however_they_are_written() {
        for text in [
            "9007199254740992",
            "-9007199254740992",
            "9007199254740992.0",
            "9.007199254740992e15",
            "1e16",
            "18446744073709551615",
            "18446744073709551616",
            "-1e300",
            "90071992547409920e-1",
            "9007199254740991.9",
        ] {
            assert!(matches!(refusal(text), JsonError::NumberOutOfRange { .. }), "{text}");
        }
        for text in ["9007199254740991", "-9007199254740991", "9007199254740991.0", "0.1", "1e-400", "-0", "5e-324"] {
            assert!(parse_value(text).is_ok(), "{text}");
        }
        assert!(matches!(refusal("1e400"), JsonError::Syntax { .. } | JsonError::NumberOutOfRange { .. }));
        assert_eq!(
            refusal(r#"{"a":[0,{"b":1e99}]}"#).to_string(),
            "/a/1/b is a number beyond ±(2^53−1); write it as a string"
        );
    }

    #[test]
    fn strings_without_a_unicode_meaning_are_refused() {
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud83dx""#,
            r#"{"\udfff":1}"#,
            "\"\u{1}\"",
            "\"a\nb\"",
            "\"\t\"",
        ] {
            assert!(matches!(refusal(text), JsonError::Syntax { .. }), "{text}");
        }
        for text in [r#""\uffff""#, r#""\ufdd0""#, "\"\u{1fffe}\"", r#"{"\ufffe":1}"#, "\"\u{10ffff}\""] {
            assert!(matches!(refusal(text), JsonError::Noncharacter { .. }), "{text}");
        }
        assert!(parse_value(r#""\ufffd \u0000 \n""#).is_ok());
    }

    #[test]
    fn thirty_two_levels_are_accepted_and_thirty_three_are_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_value(&nested(32)).is_ok());
        assert!(matches!(refusal(&nested(33)), JsonError::TooDeep { .. }));
        assert!(matches!(refusal(&nested(100_000)), JsonError::TooDeep { .. }));
        let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        assert!(parse_object(&objects(32)).is_ok());
        assert!(matches!(refusal(&objects(33)), JsonError::TooDeep { .. }));
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for text in [
            "",
            " ",
            "{",
            "{}x",
            "{} {}",
            "{'a':1}",
            "{a:1}",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "+1",
            ".5",
            "1.",
            "NaN",
            "Infinity",
            "\u{feff}{}",
            "tru",
            "/*c*/1",
            "\"\\x\"",
            "\"",
        ] {
            assert!(matches!(refusal(text), JsonError::Syntax { .. }), "{text}");
        }
        assert_eq!(refusal("{\n \"a\": !}"), JsonError::Syntax { line: 2, column: 7 });
        for text in ["[]", "1", "null", "\"{}\""] {
            assert_eq!(parse_object(text), Err(JsonError::NotAnObject));
        }
        let long = format!("\"{}\"", "x".repeat(MAX_JSON_LEN));
        assert_eq!(refusal(&long), JsonError::TooLong { length: MAX_JSON_LEN + 2 });
    }

    #[test]
    fn a_built_value_is_held_to_the_same_rules_as_a_parsed_one() {
        assert_eq!(check_value(&json!({"a": [1, {"b": "c"}]})), Ok(()));
        let beyond = check_value(&json!({"a": [1, {"b": MAX_INTEGER + 1}]})).unwrap_err();
        assert_eq!(
            beyond,
            JsonError::NumberOutOfRange { path: MemberPath::member("b").within_element(1).within_member("a") }
        );
        let mut deep = json!(1);
        for _ in 0..33 {
            deep = json!([deep]);
        }
        assert!(matches!(check_value(&deep), Err(JsonError::TooDeep { .. })));
        assert!(matches!(check_value(&json!({"\u{ffff}": 1})), Err(JsonError::Noncharacter { .. })));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parsing_accepts_exactly_the_values_that_checking_accepts(value in any_value()) {
            let text = value.to_string();
            let parsed = parse_value(&text);
            prop_assert_eq!(parsed.is_ok(), check_value(&value).is_ok());
            if let Ok(parsed) = parsed {
                prop_assert_eq!(&parsed, &value);
                prop_assert_eq!(parse_json(&text).unwrap(), Json::from(&value));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            let _ = parse_value(&text);
        }
    }
}
