//! Decimal numbers as every format here writes them: digits only, no sign, no leading zero, fits u64.

/// Parses a decimal number, or `None` for anything that printing a `u64` would not have produced
/// (`str::parse` takes `+7` and `007`; this does not).
pub fn parse_u64(text: &str) -> Option<u64> {
    let canonical = text == "0" || (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0'));
    if canonical && !text.is_empty() { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::parse_u64;

    #[test]
    fn only_what_printing_gives_is_parsed() {
        for number in [0, 1, 9, 10, 255, 20_852_163, u64::MAX] {
            assert_eq!(parse_u64(&number.to_string()), Some(number));
        }
        for text in ["", "+7", "-1", "007", "00", " 1", "1 ", "1_000", "0x1", "٣", "18446744073709551616", "1e3", "1.0"]
        {
            assert_eq!(parse_u64(text), None, "{text:?}");
        }
    }
}
