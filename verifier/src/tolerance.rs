//! What a policy tolerates, in words: for `policy` and for the coverage of an audit.
//!
//! Holds sentences. Does not hold the arithmetic (`note`, quorum).

use audit::ToleranceReport;
use audit::amount::{amount, witnesses};

/// What is wrong with numbers that are not exact, and what to do about it.
pub(crate) const NOT_EXACT: &str = "these numbers may be too small, never too large: too many witnesses have keys in several groups to try all they could do; give the keys of each witness a group of their own";

/// Who must agree.
pub(crate) fn agree(tolerance: &ToleranceReport) -> String {
    let witnesses = amount(tolerance.min_quorum as u64, "witness", "witnesses");
    match tolerance.min_keys > tolerance.min_quorum {
        true => format!("at least {witnesses} must cosign, with at least {} keys", tolerance.min_keys),
        false => format!("at least {witnesses} must cosign"),
    }
}

/// Who must lie for two histories to pass.
pub(crate) fn split_view(tolerance: &ToleranceReport) -> String {
    match (tolerance.liars_for_split_view, tolerance.exact) {
        (0, true) => String::from(
            "a split view needs no liar: a log can show two histories, each with a quorum, while every witness is honest",
        ),
        (0, false) => String::from(
            "it is not known that a split view needs a liar: take it that a log can show two histories, each with a quorum",
        ),
        (liars, exact) => format!(
            "a log can show two histories, each with a quorum, only if {}{}",
            if exact { "" } else { "at least " },
            amount(liars as u64, "witness lies", "witnesses lie")
        ),
    }
}

/// Who may be silent.
pub(crate) fn silent(tolerance: &ToleranceReport) -> String {
    match tolerance.max_silent {
        0 => String::from("one witness that is silent can block the quorum"),
        silent => format!("any {silent} of them may be silent without blocking the quorum"),
    }
}

/// All of it in one line.
pub(crate) fn in_short(tolerance: &ToleranceReport) -> String {
    if tolerance.min_quorum == 0 {
        return String::from("no witness is asked; a split view needs no liar");
    }
    let liars = amount(tolerance.liars_for_split_view as u64, "dishonest witness", "dishonest witnesses");
    let liars = match (tolerance.liars_for_split_view, tolerance.exact) {
        (0, true) => String::from("no liar"),
        (0, false) => String::from("perhaps no liar"),
        (_, true) => liars,
        (_, false) => format!("at least {liars}"),
    };
    format!(
        "{} can count; {}; a split view needs {liars}; {}",
        witnesses(tolerance.witnesses, tolerance.keys),
        agree(tolerance),
        silent(tolerance)
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn numbers(liars_for_split_view: usize, exact: bool) -> ToleranceReport {
        let (witnesses, keys, min_quorum, min_keys, max_silent) = (3, 6, 2, 4, 1);
        ToleranceReport { witnesses, keys, min_quorum, min_keys, liars_for_split_view, max_silent, exact }
    }

    #[test]
    fn witnesses_and_their_keys_are_told_apart() {
        assert_eq!(
            in_short(&numbers(1, true)),
            "3 witnesses with 6 keys can count; at least 2 witnesses must cosign, with at least 4 keys; \
             a split view needs 1 dishonest witness; any 1 of them may be silent without blocking the quorum"
        );
    }

    #[test]
    fn a_split_view_for_nothing_is_bad_news_and_a_bound_is_called_one() {
        assert!(split_view(&numbers(0, true)).starts_with("a split view needs no liar: "));
        assert!(in_short(&numbers(0, true)).contains("a split view needs no liar;"));
        assert!(split_view(&numbers(2, true)).ends_with("only if 2 witnesses lie"));
        assert!(split_view(&numbers(0, false)).starts_with("it is not known that a split view needs a liar"));
        assert!(split_view(&numbers(2, false)).ends_with("only if at least 2 witnesses lie"));
        assert!(in_short(&numbers(2, false)).contains("needs at least 2 dishonest witnesses;"));
        assert!(in_short(&numbers(0, false)).contains("a split view needs perhaps no liar;"));
    }
}
