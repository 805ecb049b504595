//! A number and what is counted, in words that agree.

/// `1 tile`, `2 tiles`, `0 tiles`.
pub fn amount(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// `2 witnesses`, or `2 witnesses with 3 keys` where one has several.
pub fn witnesses(count: usize, keys: usize) -> String {
    let witnesses = amount(count as u64, "witness", "witnesses");
    match keys > count {
        true => format!("{witnesses} with {}", amount(keys as u64, "key", "keys")),
        false => witnesses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_else_plural() {
        assert_eq!([0, 1, 2].map(|count| amount(count, "tile", "tiles")), ["0 tiles", "1 tile", "2 tiles"]);
    }

    #[test]
    fn keys_are_told_where_they_are_more_than_the_witnesses() {
        assert_eq!(witnesses(3, 3), "3 witnesses");
        assert_eq!([witnesses(1, 2), witnesses(2, 3)], ["1 witness with 2 keys", "2 witnesses with 3 keys"]);
    }
}
