//! Times and durations as the auditor writes them and as findings show them: RFC 3339 in UTC, and whole numbers with
//! one unit. No clock.

use receipt::UnixMillis;

/// Reads a time: RFC 3339 in UTC, exactly as [`show_time`] writes it (`2026-11-29T12:55:36Z`).
pub fn parse_time(text: &str) -> Option<UnixMillis> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let millis = UnixMillis(u64::try_from(time.as_millisecond()).ok()?);
    (show_time(millis) == text).then_some(millis)
}

/// A time as RFC 3339 in UTC, milliseconds only where there are any. Times beyond the year 9999 are shown as the
/// number they are.
pub fn show_time(time: UnixMillis) -> String {
    match i64::try_from(time.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok()) {
        Some(time) => time.to_string(),
        None => format!("{} ms after 1970", time.0),
    }
}

/// A time in whole seconds, shown like [`show_time`].
pub fn show_time_s(seconds: u64) -> String {
    show_time(UnixMillis(seconds.saturating_mul(1000)))
}

/// Reads a duration: a whole number and one of `ms`, `s`, `m`, `h`, `d` (`60s`, `1500ms`). Returns milliseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    merkle::decimal::parse_u64(number)?.checked_mul(unit_ms)
}

/// A duration in its largest whole unit: `90s`, `2m`, `1500ms`.
pub fn show_duration(millis: u64) -> String {
    for (unit_ms, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if millis != 0 && millis.is_multiple_of(unit_ms) {
            return format!("{}{unit}", millis / unit_ms);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_as_written_and_no_other_way() {
        for text in
            ["2026-11-29T12:55:36Z", "1970-01-01T00:00:00Z", "2026-11-29T12:55:36.5Z", "2026-11-29T12:55:36.125Z"]
        {
            assert_eq!(parse_time(text).map(show_time).as_deref(), Some(text));
        }
        for text in [
            "2026-11-29",
            "2026-11-29T12:55:36",
            "2026-11-29T12:55:36+00:00",
            "2026-11-29t12:55:36z",
            "1969-12-31T23:59:59Z",
            "2026-11-29T12:55:36.1234Z",
            " 2026-11-29T12:55:36Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
        assert_eq!(show_time(UnixMillis(u64::MAX)), "18446744073709551615 ms after 1970");
    }

    #[test]
    fn a_duration_is_one_number_and_one_unit() {
        assert_eq!(parse_duration("60s"), Some(60_000));
        assert_eq!(parse_duration("1500ms"), Some(1500));
        assert_eq!(parse_duration("2d"), Some(172_800_000));
        for text in
            ["", "60", "s", "060s", "+1s", "1.5s", "1s ", "1h30m", "99999999999999999999s", "18446744073709551615d"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!([0, 1500, 90_000, 120_000].map(show_duration), ["0ms", "1500ms", "90s", "2m"]);
    }
}
