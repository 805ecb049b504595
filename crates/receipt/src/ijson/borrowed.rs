//! JSON as it lies in its text: what parsing comes to before anybody wants to keep a part of it.
//!
//! A receipt is parsed once by everybody who meets it, and most of its members end up in fields of their own or are
//! looked at and forgotten. So strings are copied only where an escape has to be decoded, and members stand in a plain
//! list: a table of a dozen names costs more to fill than to do without.

use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// A JSON value, in the text that it was parsed from.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'text> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, its escapes decoded.
    String(Cow<'text, str>),
    /// An array.
    Array(Vec<Json<'text>>),
    /// An object.
    Object(Members<'text>),
}

/// The members of an object, no two of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members<'text>(Vec<(Cow<'text, str>, Json<'text>)>);

impl Json<'_> {
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl<'text> Members<'text> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Adds a member of a name that is not there yet.
    pub(super) fn push(&mut self, name: Cow<'text, str>, value: Json<'text>) {
        self.0.push((name, value));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&Json<'text>> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// All of them; as they were parsed in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json<'text>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Takes the value under `name` out. The last member takes its place.
    pub(crate) fn take(&mut self, name: &str) -> Option<Json<'text>> {
        let place = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(place).1)
    }
}

impl<'text> IntoIterator for Members<'text> {
    type Item = (Cow<'text, str>, Json<'text>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Json<'_>> for Value {
    fn from(json: Json<'_>) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => Value::Number(number),
            Json::String(text) => Value::String(text.into_owned()),
            Json::Array(elements) => Value::Array(elements.into_iter().map(Value::from).collect()),
            Json::Object(members) => Value::Object(members.into()),
        }
    }
}

impl From<Members<'_>> for Map<String, Value> {
    fn from(members: Members<'_>) -> Map<String, Value> {
        members.into_iter().map(|(name, value)| (name.into_owned(), Value::from(value))).collect()
    }
}

impl<'value> From<&'value Value> for Json<'value> {
    fn from(value: &'value Value) -> Json<'value> {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(number.clone()),
            Value::String(text) => Json::String(Cow::Borrowed(text)),
            Value::Array(elements) => Json::Array(elements.iter().map(Json::from).collect()),
            Value::Object(members) => Json::Object(members.into()),
        }
    }
}

impl<'value> From<&'value Map<String, Value>> for Members<'value> {
    fn from(members: &'value Map<String, Value>) -> Members<'value> {
        Members(members.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), value.into())).collect())
    }
}
