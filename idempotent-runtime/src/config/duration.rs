//! Durations as text: whole numbers with their units, `"300ms"`, `"5s"`, `"5m"`, `"24h"`, `"1h30m"`.
//!
//! [`parse`] and [`display`] are inverse on whole milliseconds. The attribute reads the same texts;
//! `tests/durations.txt` lists them for both.

use std::{fmt, time::Duration};

/// The units, largest first: the first that divides a duration gives the shortest text.
const UNITS: [(&str, u64); 5] =
    [("d", 24 * 60 * 60 * 1000), ("h", 60 * 60 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

/// Examples of durations, for error messages.
pub(crate) const EXAMPLES: &str = r#"text with a unit such as "300ms", "5s", "5m", "24h" or "7d""#;

/// The reason for which a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DurationError {
    NoNumber,
    NoUnit,
    UnknownUnit,
    OutOfOrder,
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "does not start with a whole number",
            Self::NoUnit => "has no unit",
            Self::UnknownUnit => "has a unit other than ms, s, m, h or d",
            Self::OutOfOrder => "has units that are not in order, the largest first and each once",
            Self::TooLong => "is too long",
        })
    }
}

/// Reads whole numbers with their units, the largest unit first, without spaces. Underscores are
/// allowed between and after the digits, as in Rust.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text;
    let mut sum = 0_u64;
    let mut smallest = None;
    loop {
        let (number, after) = split_at(rest, |c| !c.is_ascii_digit() && c != '_');
        let (unit, after) = split_at(after, |c| c.is_ascii_digit());
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(DurationError::NoNumber);
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit);
        }
        let (_, millis) =
            *UNITS.iter().find(|(name, _)| *name == unit).ok_or(DurationError::UnknownUnit)?;
        if smallest.is_some_and(|smallest| millis >= smallest) {
            return Err(DurationError::OutOfOrder);
        }
        smallest = Some(millis);
        let number = number.replace('_', "").parse::<u64>().ok();
        sum = number
            .and_then(|number| number.checked_mul(millis))
            .and_then(|length| sum.checked_add(length))
            .ok_or(DurationError::TooLong)?;
        if after.is_empty() {
            return Ok(Duration::from_millis(sum));
        }
        rest = after;
    }
}

/// Splits before the first character that `ends` accepts.
fn split_at(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

/// Writes a duration in the largest unit that divides it.
///
/// A duration with a part below a millisecond has no text that [`parse`] reads; it is shown as
/// `Debug` shows it.
pub(crate) fn display(duration: Duration) -> String {
    if !is_whole_millis(duration) {
        return format!("{duration:?}");
    }
    let millis = duration.as_millis();
    if millis == 0 {
        return String::from("0s");
    }
    UNITS
        .iter()
        .find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)))
        .map_or_else(String::new, |(name, unit)| format!("{}{name}", millis / u128::from(*unit)))
}

/// `true` if the duration has no part below a millisecond.
pub(crate) fn is_whole_millis(duration: Duration) -> bool {
    duration.subsec_nanos().is_multiple_of(1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_texts_that_the_attribute_reads_are_read_alike() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/durations.txt");
        let list = std::fs::read_to_string(path).unwrap();
        let lines = list.lines().filter_map(|line| line.strip_prefix('"')?.rsplit_once("\" "));
        let mut read = 0;
        for (text, expected) in lines {
            let millis = parse(text).map(|duration| duration.as_millis().to_string());
            assert_eq!(millis.unwrap_or_else(|_| "refused".to_owned()), expected, "{text:?}");
            read += 1;
        }
        assert!(read > 40, "{read} lines");
    }

    #[test]
    fn what_is_not_a_duration_says_why() {
        for text in ["", "s", "-5s", " 5s", "fast", "½s", "_5s"] {
            assert_eq!(parse(text), Err(DurationError::NoNumber), "{text:?}");
        }
        assert_eq!(parse("300"), Err(DurationError::NoUnit));
        assert_eq!(parse("1h30"), Err(DurationError::NoUnit));
        assert_eq!(parse("30m1h"), Err(DurationError::OutOfOrder));
        for text in ["5 s", "1.5s", "1h 30m", "5sec", "5S", "5w", "5é"] {
            assert_eq!(parse(text), Err(DurationError::UnknownUnit), "{text:?}");
        }
        for text in ["99999999999999999999ms", "18446744073709551615d"] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text:?}");
        }
    }

    #[test]
    fn the_shortest_text_is_written() {
        for text in ["0s", "1ms", "1s", "90s", "5m", "36h", "1d", "1500ms"] {
            assert_eq!(display(parse(text).unwrap()), text);
        }
        assert_eq!(display(Duration::from_micros(1500)), "1.5ms");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in any::<u64>()) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&display(duration)), Ok(duration));
        }

        #[test]
        fn what_is_read_writes_back_to_the_same_length_of_time(
            number in 0..100_000_u64,
            unit in prop::sample::select(vec!["ms", "s", "m", "h", "d"]),
        ) {
            let duration = parse(&format!("{number}{unit}")).unwrap();
            prop_assert_eq!(parse(&display(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
