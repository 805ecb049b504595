//! A number and what is counted, in words that agree.

/// `1 receipt`, `2 receipts`.
pub(crate) fn amount(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// That many receipts.
pub(crate) fn receipts(count: u64) -> String {
    amount(count, "receipt", "receipts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        assert_eq!([0, 1, 2].map(receipts), ["0 receipts", "1 receipt", "2 receipts"]);
    }
}
