//! Periods: stretches of time of one length, numbered since 1970.

use idempotent_runtime::KeyPart;
use idempotent_runtime::key::KeyWriter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A period of a job. As a key it is its number.
///
/// ```
/// use idempotent_queue::schedule::Period;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let hour = Duration::from_secs(3_600);
/// let period = Period::at(hour, UNIX_EPOCH + hour * 7 + Duration::from_secs(9));
/// assert_eq!((period.number(), period.start()), (7, UNIX_EPOCH + hour * 7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Period {
    number: u64,
    length: Millis,
    offset: Millis,
}

/// A length in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Millis(u64);

impl Millis {
    fn of(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Period {
    /// The period of a time, if one begins every so often, counted from 1970 in UTC.
    pub fn at(every: Duration, time: SystemTime) -> Self {
        Self::with_offset(every, Duration::ZERO, time)
    }

    /// The same, with periods that begin later by `offset`.
    pub fn with_offset(every: Duration, offset: Duration, time: SystemTime) -> Self {
        let length = Millis(Millis::of(every).0.max(1));
        let offset = Millis::of(offset);
        let since = Millis::of(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        Self { number: since.0.saturating_sub(offset.0) / length.0, length, offset }
    }

    /// The number of the period: that of earlier ones since 1970.
    pub fn number(self) -> u64 {
        self.number
    }

    /// The time at which it begins.
    pub fn start(self) -> SystemTime {
        let since = self.number.saturating_mul(self.length.0).saturating_add(self.offset.0);
        UNIX_EPOCH.checked_add(Duration::from_millis(since)).unwrap_or(UNIX_EPOCH)
    }

    /// The time at which the next one begins.
    pub fn end(self) -> SystemTime {
        self.numbered(self.number.saturating_add(1)).start()
    }

    /// The period of the same job with this number.
    pub(super) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }
}

impl KeyPart for Period {
    fn encode(&self, key: &mut KeyWriter) {
        self.number.encode(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idempotent_runtime::key::Encoded;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_period_ends_where_the_next_begins() {
        for offset in [Duration::ZERO, HOUR / 4] {
            let start = UNIX_EPOCH + HOUR * 7 + offset;
            let at = |time| Period::with_offset(HOUR, offset, time);
            let period = at(start);
            assert_eq!((period.number(), period.start(), period.end()), (7, start, start + HOUR));
            assert_eq!(at(period.end() - Duration::from_millis(1)), period);
            assert_eq!(at(period.end()).number(), 8);
        }
    }

    #[test]
    fn every_time_has_a_period() {
        let extremes = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        for every in extremes {
            for offset in extremes {
                let day = UNIX_EPOCH + HOUR * 24;
                let period = Period::with_offset(every, offset, day);
                assert!(period.start() <= period.end() || every == Duration::MAX, "{period:?}");
            }
        }
        assert_eq!(Period::at(HOUR, UNIX_EPOCH - HOUR).number(), 0);
    }

    #[test]
    fn the_key_is_the_number() {
        assert_eq!(Encoded::of(&Period::at(HOUR, UNIX_EPOCH + HOUR * 7)), Encoded::of(&7));
    }
}
