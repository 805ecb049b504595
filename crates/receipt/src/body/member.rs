//! How typed members are read out of a body: clear or committed, required or not, with the place of
//! whatever does not fit.
//!
//! Types in, types out; what the members mean is said where each body is defined.

use crate::commit::digest_committed_to;
use crate::id::{ReceiptId, UnixMillis};
use crate::ijson::{Json, MAX_INTEGER, Members};
use crate::jcs::Digest;
use crate::path::MemberPath;
use serde_json::{Map, Value};

/// A member's value: shown, or committed to (section 3.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member<T> {
    /// The receipt shows the value.
    Clear(T),
    /// The receipt holds only its salted digest.
    Committed(Digest),
}

impl<T> Member<T> {
    /// The value, where the receipt shows it.
    pub fn clear(&self) -> Option<&T> {
        match self {
            Self::Clear(value) => Some(value),
            Self::Committed(_) => None,
        }
    }

    /// The commitment, where the receipt holds only that.
    pub fn committed(&self) -> Option<&Digest> {
        match self {
            Self::Clear(_) => None,
            Self::Committed(digest) => Some(digest),
        }
    }
}

/// What a reader who does not care why a value is not there asks of a member, required or optional.
pub trait Shown {
    /// The type of the member's value.
    type Value;

    /// The value, where the member is there and in the clear.
    fn shown(&self) -> Option<&Self::Value>;

    /// Whether the member is there, but only as a commitment: its absence proves nothing.
    fn is_committed(&self) -> bool;
}

impl<T> Shown for Member<T> {
    type Value = T;

    fn shown(&self) -> Option<&T> {
        self.clear()
    }

    fn is_committed(&self) -> bool {
        self.committed().is_some()
    }
}

impl<T> Shown for Option<Member<T>> {
    type Value = T;

    fn shown(&self) -> Option<&T> {
        self.as_ref().and_then(Member::clear)
    }

    fn is_committed(&self) -> bool {
        self.as_ref().is_some_and(|member| member.committed().is_some())
    }
}

/// Why a body does not have the shape its type asks for. The gate is to blame. Never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A required member is not there.
    #[error("{path} is missing; expected {expected}")]
    Missing {
        /// Where it should stand.
        path: MemberPath,
        /// What should stand there.
        expected: &'static str,
    },
    /// A member is there with another type, or with a word that its type does not know.
    #[error("{path} is of the wrong type; expected {expected}")]
    WrongType {
        /// Where it stands.
        path: MemberPath,
        /// What should stand there.
        expected: &'static str,
    },
}

impl BodyError {
    /// The error in one word that stays the same from version to version, for programs; `vectors/` has it for
    /// each input.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "member-missing",
            Self::WrongType { .. } => "member-type",
        }
    }

    fn moved(self, outwards: impl FnOnce(MemberPath) -> MemberPath) -> Self {
        match self {
            Self::Missing { path, expected } => Self::Missing { path: outwards(path), expected },
            Self::WrongType { path, expected } => Self::WrongType { path: outwards(path), expected },
        }
    }
}

/// A type that a member's value can have.
pub(crate) trait FromMember: Sized {
    /// Completes "expected …".
    const EXPECTED: &'static str;

    /// Takes the value; the path in an error starts at `value`.
    fn from_member(value: Json<'_>) -> Result<Self, BodyError>;

    /// The value has another type altogether.
    fn wrong_type() -> BodyError {
        BodyError::WrongType { path: MemberPath::root(), expected: Self::EXPECTED }
    }
}

/// Takes the members of one object by name; what nobody asked for is left.
pub(crate) struct Fields<'text>(Members<'text>);

impl<'text> Fields<'text> {
    pub(crate) fn of(members: Members<'text>) -> Self {
        Self(members)
    }

    /// Those of an object that is a member itself.
    pub(crate) fn of_member<T: FromMember>(value: Json<'text>) -> Result<Self, BodyError> {
        match value {
            Json::Object(members) => Ok(Self(members)),
            _ => Err(T::wrong_type()),
        }
    }

    /// A member that must be there, in the clear or committed.
    pub(crate) fn required<T: FromMember>(&mut self, name: &'static str) -> Result<Member<T>, BodyError> {
        self.optional(name)?.ok_or_else(|| BodyError::Missing { path: MemberPath::member(name), expected: T::EXPECTED })
    }

    /// A member that may be absent. `null` is not absent.
    pub(crate) fn optional<T: FromMember>(&mut self, name: &'static str) -> Result<Option<Member<T>>, BodyError> {
        let Some(value) = self.0.take(name) else { return Ok(None) };
        if let Some(digest) = digest_committed_to(&value) {
            return Ok(Some(Member::Committed(digest)));
        }
        let clear = T::from_member(value).map_err(|error| error.moved(|path| path.within_member(name)))?;
        Ok(Some(Member::Clear(clear)))
    }

    /// The members nobody asked for, in any order.
    pub(crate) fn other(self) -> Map<String, Value> {
        self.0.into()
    }
}

impl FromMember for Value {
    const EXPECTED: &'static str = "any JSON value";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        Ok(value.into())
    }
}

impl FromMember for String {
    const EXPECTED: &'static str = "a string";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        match value {
            Json::String(text) => Ok(text.into_owned()),
            _ => Err(Self::wrong_type()),
        }
    }
}

impl FromMember for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        match value {
            Json::Bool(value) => Ok(value),
            _ => Err(Self::wrong_type()),
        }
    }
}

impl FromMember for u64 {
    const EXPECTED: &'static str = "a whole number from 0 to 2^53−1";

    /// However it is written: to most JSON readers `3`, `3.0` and `0.3e1` are one number.
    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let Json::Number(number) = value else { return Err(Self::wrong_type()) };
        let whole =
            number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=MAX_INTEGER as f64).contains(number));
        number.as_u64().or(whole.map(|number| number as u64)).ok_or_else(Self::wrong_type)
    }
}

impl FromMember for Digest {
    const EXPECTED: &'static str = "a digest: \"sha256:\" and 64 lowercase hex digits";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        value.as_str().and_then(Self::parse).ok_or_else(Self::wrong_type)
    }
}

impl FromMember for ReceiptId {
    const EXPECTED: &'static str = "a receipt id: 64 lowercase hex digits";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        value.as_str().and_then(Self::parse).ok_or_else(Self::wrong_type)
    }
}

impl<T: FromMember> FromMember for Vec<T> {
    const EXPECTED: &'static str = "an array";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let Json::Array(elements) = value else { return Err(Self::wrong_type()) };
        elements
            .into_iter()
            .enumerate()
            .map(|(index, element)| {
                T::from_member(element).map_err(|error| error.moved(|path| path.within_element(index)))
            })
            .collect()
    }
}

/// A time named inside a body.
///
/// The protocol gives these members no type. Whole milliseconds since the epoch are what a receipt's
/// own `issued_at` uses; text (RFC 3339) is what many gates write. Both are kept, and only the first
/// can be compared without a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Milliseconds since the Unix epoch.
    Millis(UnixMillis),
    /// The gate's own writing.
    Text(String),
}

impl FromMember for Moment {
    const EXPECTED: &'static str = "a time: whole milliseconds since the Unix epoch, or text";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        match value {
            Json::String(text) => Ok(Self::Text(text.into_owned())),
            other => match u64::from_member(other) {
                Ok(millis) => Ok(Self::Millis(UnixMillis(millis))),
                Err(_) => Err(Self::wrong_type()),
            },
        }
    }
}

/// An object whose member names are data: each name with its value, clear or committed, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T>(pub Vec<(String, Member<T>)>);

impl<T> Named<T> {
    /// The value under `name`, if there is one.
    pub fn get(&self, name: &str) -> Option<&Member<T>> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, member)| member)
    }
}

impl<T: FromMember> FromMember for Named<T> {
    const EXPECTED: &'static str = "an object";

    fn from_member(value: Json<'_>) -> Result<Self, BodyError> {
        let Json::Object(members) = value else { return Err(Self::wrong_type()) };
        let read = members.into_iter().map(|(name, value)| match digest_committed_to(&value) {
            Some(digest) => Ok((name.into_owned(), Member::Committed(digest))),
            None => match T::from_member(value) {
                Ok(clear) => Ok((name.into_owned(), Member::Clear(clear))),
                Err(error) => Err(error.moved(|path| path.within_member(&name))),
            },
        });
        read.collect::<Result<_, _>>().map(Self)
    }
}

/// Defines a closed vocabulary: an enum of words that a string member may hold.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident, $expected:literal {
            $($(#[$meaning:meta])* $word:ident = $text:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$meaning])* $word,)+
        }

        impl $name {
            /// The word as it stands in a body.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl $crate::body::member::FromMember for $name {
            const EXPECTED: &'static str = $expected;

            fn from_member(value: $crate::ijson::Json<'_>) -> Result<Self, $crate::body::BodyError> {
                match value.as_str() {
                    $(Some($text) => Ok(Self::$word),)+
                    _ => Err(Self::wrong_type()),
                }
            }
        }
    };
}
pub(crate) use words;
