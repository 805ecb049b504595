//! A number and what is counted, in words that agree.

/// `1 tile`, `2 tiles`, `0 tiles`.
pub fn amount(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        assert_eq!([0, 1, 2].map(|count| amount(count, "tile", "tiles")), ["0 tiles", "1 tile", "2 tiles"]);
    }
}
