//! Which keys a configuration type takes, asked of the type itself, so that a mistyped key can be
//! answered with the nearest one that exists.
//!
//! serde tells a derived struct's field names to whatever deserializer it is handed; this one holds no
//! data, walks down the given path and stops at the struct it finds there.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// The keys that `T` takes at `path` (map keys and sequence indices from the top), or none where no
/// struct is found there.
pub(crate) fn known_keys<T: de::DeserializeOwned>(path: &[String]) -> &'static [&'static str] {
    match T::deserialize(Probe { path }) {
        Err(Stopped::At(fields)) => fields,
        Ok(_) | Err(Stopped::Lost) => &[],
    }
}

/// The one of `known` that is nearest to `key`, with the number of edits between them.
pub(crate) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<(&'a str, usize)> {
    known.iter().map(|name| (*name, strsim::damerau_levenshtein(key, name))).min_by_key(|(_, edits)| *edits)
}

#[derive(Clone, Copy)]
struct Probe<'p> {
    path: &'p [String],
}

/// Every probe ends in an "error": it carries no values to build anything from.
#[derive(Debug)]
enum Stopped {
    At(&'static [&'static str]),
    Lost,
}

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the probe holds no values")
    }
}

impl std::error::Error for Stopped {}

impl de::Error for Stopped {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Lost
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Stopped;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stopped> {
        Err(Stopped::Lost)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        match self.path.split_first() {
            None => Err(Stopped::At(fields)),
            Some((key, rest)) => visitor.visit_map(OneMember { key: Some(key), rest }),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.path.split_first() {
            None => Err(Stopped::Lost),
            Some((key, rest)) => visitor.visit_map(OneMember { key: Some(key), rest }),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        match self.path.split_first() {
            None => Err(Stopped::Lost),
            Some((_, rest)) => visitor.visit_seq(OneElement { rest }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

struct OneMember<'p> {
    key: Option<&'p String>,
    rest: &'p [String],
}

impl<'de> MapAccess<'de> for OneMember<'_> {
    type Error = Stopped;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stopped> {
        match self.key.take() {
            Some(key) => seed.deserialize(Key { key, data: PhantomData }).map(Some),
            None => Err(Stopped::Lost),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stopped> {
        seed.deserialize(Probe { path: self.rest })
    }
}

struct OneElement<'p> {
    rest: &'p [String],
}

impl<'de> SeqAccess<'de> for OneElement<'_> {
    type Error = Stopped;

    fn next_element_seed<E: DeserializeSeed<'de>>(&mut self, seed: E) -> Result<Option<E::Value>, Stopped> {
        seed.deserialize(Probe { path: self.rest }).map(Some)
    }
}

struct Key<'p> {
    key: &'p str,
    data: PhantomData<&'p ()>,
}

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = Stopped;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_str(self.key)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Top {
        listen: String,
        #[serde(default)]
        limits: Option<Inner>,
        #[serde(default, rename = "witness")]
        witnesses: Vec<Inner>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Inner {
        vkey: String,
        url: Option<String>,
    }

    fn at(path: &[&str]) -> &'static [&'static str] {
        known_keys::<Top>(&path.iter().map(|segment| (*segment).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_type_names_its_own_keys_at_any_depth() {
        assert_eq!(at(&[]), ["listen", "limits", "witness"]);
        assert_eq!(at(&["limits"]), ["vkey", "url"]);
        assert_eq!(at(&["witness", "3"]), ["vkey", "url"]);
        assert!(at(&["listen", "deeper"]).is_empty());
    }

    #[test]
    fn the_nearest_key_is_the_one_with_the_fewest_edits() {
        assert_eq!(nearest("lisetn", &["limits", "listen"]), Some(("listen", 1)));
        assert_eq!(nearest("anything", &[]), None);
    }
}
