//! Times and durations as the auditor writes them, RFC 3339 in UTC and whole numbers with one unit, and as findings and
//! reports show them. No clock.

use receipt::UnixMillis;
use receipt::body::Moment;

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

/// Earliest and latest instant, in milliseconds, that a time inside a body can mean: text to the second may stand for
/// any instant of that second. `None` for text that is no time (RFC 3339) since 1970.
pub(crate) fn instants(moment: &Moment) -> Option<[UnixMillis; 2]> {
    let text = match moment {
        Moment::Millis(millis) => return Some([*millis; 2]),
        Moment::Text(text) => text,
    };
    let time: jiff::Timestamp = text.parse().ok()?;
    let earliest = u64::try_from(time.as_millisecond()).ok()?;
    let digits = text.split_once('.').map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    let width = [1000, 100, 10].get(digits).copied().unwrap_or(1);
    Some([UnixMillis(earliest), UnixMillis(earliest.saturating_add(width - 1))])
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

/// Units of a duration for people.
const UNITS: [(u64, &str); 5] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];

/// A duration for people, exactly: `1 h`, `2 min 4.5 s`, `500 ms`.
pub fn show_duration(millis: u64) -> String {
    if millis < 1000 {
        return show_length(millis);
    }
    let mut rest = millis;
    let mut parts: Vec<String> = Vec::new();
    for (unit_ms, unit) in &UNITS[..3] {
        if rest >= *unit_ms {
            parts.push(format!("{} {unit}", rest / unit_ms));
        }
        rest %= unit_ms;
    }
    let fraction = match rest % 1000 {
        0 => String::new(),
        millis => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    };
    if rest > 0 {
        parts.push(format!("{}{fraction} s", rest / 1000));
    }
    parts.join(" ")
}

/// About how long something was, for people: its two largest units.
pub fn show_length(millis: u64) -> String {
    let Some(largest) = UNITS.iter().position(|(unit, _)| millis >= *unit) else { return String::from("0 s") };
    let (unit, name) = UNITS[largest];
    let whole = format!("{} {name}", millis / unit);
    match UNITS.get(largest + 1) {
        // Milliseconds matter beside nothing.
        Some((below, name)) if *below > 1 && millis % unit / below > 0 => {
            format!("{whole} {} {name}", millis % unit / below)
        }
        _ => whole,
    }
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
    fn a_time_in_a_body_may_mean_any_instant_that_it_does_not_tell_apart() {
        let read = |text: &str| instants(&Moment::Text(text.to_owned())).map(|both| both.map(|time| time.0));
        assert_eq!(read("1970-01-01T00:00:02Z"), Some([2000, 2999]));
        assert_eq!(read("1970-01-01T00:00:02.5Z"), Some([2500, 2599]));
        assert_eq!(read("1970-01-01T01:00:02.25+01:00"), Some([2250, 2259]));
        assert_eq!([read("1970-01-01T00:00:02.250Z"), read("1970-01-01T00:00:02.250999Z")], [Some([2250, 2250]); 2]);
        assert_eq!([read("soon"), read("1969-12-31T23:59:59Z"), read("")], [None; 3]);
        assert_eq!(instants(&Moment::Millis(UnixMillis(7))), Some([UnixMillis(7); 2]));
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
    }

    #[test]
    fn a_duration_is_told_exactly_and_a_length_in_its_two_largest_units() {
        let told = [0, 12, 500, 1500, 60_000, 90_000, 124_561, 124_500, 3_600_000, 90_061_000];
        let exactly = [
            "0 s",
            "12 ms",
            "500 ms",
            "1.5 s",
            "1 min",
            "1 min 30 s",
            "2 min 4.561 s",
            "2 min 4.5 s",
            "1 h",
            "1 d 1 h 1 min 1 s",
        ];
        assert_eq!(told.map(show_duration), exactly);
        assert_eq!([61_010, 3_600_500, 86_400_001].map(show_duration), ["1 min 1.01 s", "1 h 0.5 s", "1 d 0.001 s"]);
        let told = [0, 12, 1_999, 60_000, 61_000, 3_600_000, 90_061_000].map(show_length);
        assert_eq!(told, ["0 s", "12 ms", "1 s", "1 min", "1 min 1 s", "1 h", "1 d 1 h"]);
    }
}
