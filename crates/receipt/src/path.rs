//! Where in a JSON document something is, written as a JSON pointer (RFC 6901).
//!
//! Paths stand in refusals, and refusals travel: to submitters, into logs, onto terminals. So a path
//! is one line whatever the member names hold, and bounded however long they are.

use std::fmt;

/// Longest member name shown in full, in characters. Names in receipts are identifiers; a longer one
/// is cut, since a path is there to be found by a reader, not to carry the document.
const MAX_SHOWN_NAME: usize = 64;

/// Most steps shown: the nesting limit of section 2, and one for the member inside the innermost object.
const MAX_SHOWN_STEPS: usize = crate::ijson::MAX_DEPTH + 1;

/// The place of one value in a JSON document. Displays as a JSON pointer, for example
/// `/facts/0/source`; the document itself displays as `(the whole object)`.
///
/// Member names are cut after 64 characters and control characters in them are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPath {
    /// Innermost step first: paths are put together while an error travels outwards.
    steps: Vec<String>,
}

impl MemberPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// The path one level further out: what was at `self` is at `self` inside member `name`.
    pub(crate) fn within_member(mut self, name: &str) -> Self {
        if self.steps.len() < MAX_SHOWN_STEPS {
            self.steps.push(shown_name(name));
        }
        self
    }

    /// As [`Self::within_member`], for the element at `index` of an array.
    pub(crate) fn within_element(mut self, index: usize) -> Self {
        if self.steps.len() < MAX_SHOWN_STEPS {
            self.steps.push(index.to_string());
        }
        self
    }

    /// The path of one member of the document.
    pub(crate) fn member(name: &str) -> Self {
        Self::root().within_member(name)
    }
}

impl fmt::Display for MemberPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return formatter.write_str("(the whole object)");
        }
        for step in self.steps.iter().rev() {
            write!(formatter, "/{step}")?;
        }
        Ok(())
    }
}

fn shown_name(name: &str) -> String {
    let mut shown = String::with_capacity(name.len().min(MAX_SHOWN_NAME));
    for (position, character) in name.chars().enumerate() {
        if position == MAX_SHOWN_NAME {
            shown.push('…');
            break;
        }
        match character {
            '~' => shown.push_str("~0"),
            '/' => shown.push_str("~1"),
            control if control.is_control() => shown.extend(control.escape_default()),
            plain => shown.push(plain),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_displays_as_a_json_pointer_outermost_step_first() {
        let path = MemberPath::member("a/b~c").within_element(3).within_member("facts");
        assert_eq!(path.to_string(), "/facts/3/a~1b~0c");
        assert_eq!(MemberPath::root().to_string(), "(the whole object)");
    }

    #[test]
    fn a_path_is_one_bounded_line_whatever_the_names_hold() {
        let mut path = MemberPath::root();
        for _ in 0..1000 {
            path = path.within_member(&format!("{}\n\u{7}", "x".repeat(5000)));
        }
        let shown = path.to_string();
        assert!(!shown.contains('\n'));
        assert!(shown.len() < MAX_SHOWN_STEPS * (MAX_SHOWN_NAME + 8));
        assert_eq!(MemberPath::member("a\nb").to_string(), "/a\\nb");
    }
}
