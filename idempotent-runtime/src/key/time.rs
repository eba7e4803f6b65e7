//! Text forms of instants, dates, times and lengths of time, and `KeyPart` for those of the standard
//! library.
//!
//! Instants are written in UTC with all their digits, so that one instant is one key, whatever its
//! type, its offset or its zone.

use super::{KeyPart, KeyWriter};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS: u32 = 1_000_000_000;
const SECONDS_A_DAY: i64 = 24 * 60 * 60;

/// An instant: `2024-02-29T12:30:00.5Z`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instant {
    /// Seconds since 1970, of which none is a leap second.
    seconds: i64,
    /// Nanoseconds after that. A thousand million or more are in the leap second that follows.
    nanos: u32,
}

impl Instant {
    pub(super) fn new(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos }
    }

    /// The instant so long after 1970, or before if both are negative.
    pub(super) fn signed(seconds: i64, nanos: i32) -> Self {
        match u32::try_from(nanos) {
            Ok(nanos) => Self::new(seconds, nanos),
            Err(_) => Self::new(seconds.saturating_sub(1), NANOS - nanos.unsigned_abs()),
        }
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = Date::of_days(self.seconds.div_euclid(SECONDS_A_DAY));
        let second = self.seconds.rem_euclid(SECONDS_A_DAY) as u32;
        let (hour, minute) = (second / 3600, second / 60 % 60);
        let time = Time { hour, minute, second: second % 60, nanos: self.nanos };
        write!(formatter, "{date}T{time}Z")
    }
}

/// A date of the Gregorian calendar: `2024-02-29`. Years that have no four digits have a sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
}

impl Date {
    /// The date so many days after 1970-01-01.
    fn of_days(days: i64) -> Self {
        // Years that begin in March have their leap day at the end; an era is 400 of them.
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Self { year: era * 400 + year + next, month: month as u32, day: day as u32 }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day } = self;
        match year {
            0..=9999 => write!(formatter, "{year:04}-{month:02}-{day:02}"),
            _ => write!(formatter, "{year:+05}-{month:02}-{day:02}"),
        }
    }
}

/// A time of day: `12:30:00.5`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    /// A thousand million or more are in the leap second that follows.
    pub(super) nanos: u32,
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hour, minute, second, nanos } = *self;
        let (second, nanos) = match (second, nanos.checked_sub(NANOS)) {
            (_, None) => (second, nanos),
            (59, Some(nanos)) => (60, nanos),
            // No clock shows it. The tenth digit tells it from every other time.
            (_, Some(_)) => {
                return write!(formatter, "{hour:02}:{minute:02}:{second:02}.{nanos:010}");
            }
        };
        write!(formatter, "{hour:02}:{minute:02}:{second:02}{}", Fraction(nanos))
    }
}

/// A length of time: `PT90.5S`, `-PT0.000000001S`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    is_negative: bool,
    seconds: u64,
    nanos: u32,
}

impl Length {
    pub(super) fn new(seconds: u64, nanos: u32) -> Self {
        Self { is_negative: false, seconds, nanos }
    }

    /// A length whose parts have the same sign.
    #[cfg(any(test, feature = "chrono", feature = "jiff", feature = "time"))]
    pub(super) fn signed(seconds: i64, nanos: i32) -> Self {
        Self {
            is_negative: seconds < 0 || nanos < 0,
            seconds: seconds.unsigned_abs(),
            nanos: nanos.unsigned_abs(),
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative { "-" } else { "" };
        write!(formatter, "{sign}PT{}{}S", self.seconds, Fraction(self.nanos))
    }
}

/// Nanoseconds as the fraction of a second, without zeros at its end.
struct Fraction(u32);

impl fmt::Display for Fraction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.0);
        match digits.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(formatter, ".{digits}"),
        }
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for Duration {
    fn encode(&self, key: &mut KeyWriter) {
        key.display(&Length::new(self.as_secs(), self.subsec_nanos()));
    }
}

#[diagnostic::do_not_recommend]
impl KeyPart for SystemTime {
    fn encode(&self, key: &mut KeyWriter) {
        let seconds = |length: Duration| i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
        key.display(&match self.duration_since(UNIX_EPOCH) {
            Ok(after) => Instant::new(seconds(after), after.subsec_nanos()),
            Err(error) => {
                let before = error.duration();
                Instant::signed(-seconds(before), -(before.subsec_nanos() as i32))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Encoded;

    fn encode(part: &impl KeyPart) -> String {
        Encoded::of(part).as_str().to_owned()
    }

    fn at(nanos: i128) -> String {
        let length = |nanos: i128| {
            Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
        };
        encode(&match nanos < 0 {
            true => UNIX_EPOCH - length(-nanos),
            false => UNIX_EPOCH + length(nanos),
        })
    }

    #[test]
    fn lengths_are_frozen() {
        assert_eq!(encode(&Duration::ZERO), r#""PT0S""#);
        assert_eq!(encode(&Duration::from_millis(90_500)), r#""PT90.5S""#);
        assert_eq!(encode(&Duration::from_nanos(1)), r#""PT0.000000001S""#);
        assert_eq!(encode(&Duration::MAX), r#""PT18446744073709551615.999999999S""#);
        assert_eq!(Length::signed(-1, -500_000_000).to_string(), "-PT1.5S");
        assert_eq!(Length::signed(0, -1).to_string(), "-PT0.000000001S");
    }

    #[test]
    fn instants_are_frozen() {
        assert_eq!(at(0), r#""1970-01-01T00:00:00Z""#);
        assert_eq!(at(-1), r#""1969-12-31T23:59:59.999999999Z""#);
        assert_eq!(at(-1_000_000_000), r#""1969-12-31T23:59:59Z""#);
        assert_eq!(at(1_709_209_800_500_000_000), r#""2024-02-29T12:30:00.5Z""#);
        assert_eq!(at(951_782_400_000_000_000), r#""2000-02-29T00:00:00Z""#);
        assert_eq!(at(4_107_542_400_000_000_001), r#""2100-03-01T00:00:00.000000001Z""#);
    }

    #[test]
    fn far_years_have_a_sign() {
        let year = |seconds| Instant::new(seconds, 0).to_string();
        assert_eq!(year(253_402_300_799), "9999-12-31T23:59:59Z");
        assert_eq!(year(253_402_300_800), "+10000-01-01T00:00:00Z");
        assert_eq!(year(-62_167_219_200), "0000-01-01T00:00:00Z");
        assert_eq!(year(-62_167_219_201), "-0001-12-31T23:59:59Z");
    }

    #[test]
    fn dates_agree_with_a_count_of_days() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for days in -135_140..200_000 {
            assert_eq!(Date::of_days(days).to_string(), format!("{year}-{month:02}-{day:02}"));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let longest = match month {
                2 => 28 + i32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > longest {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn leap_seconds_are_seconds_of_their_own() {
        let time = |second, nanos| Time { hour: 23, minute: 59, second, nanos }.to_string();
        assert_eq!(time(59, 1_500_000_000), "23:59:60.5");
        assert_eq!(time(59, 500_000_000), "23:59:59.5");
        assert_eq!(time(7, 1_500_000_000), "23:59:07.1500000000");
        assert_eq!(time(7, 150_000_000), "23:59:07.15");
    }
}
