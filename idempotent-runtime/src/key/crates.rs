//! `KeyPart` for types of other crates, each with the feature of its name.

#[cfg(feature = "uuid")]
mod uuid {
    use crate::key::{KeyPart, KeyWriter};

    #[diagnostic::do_not_recommend]
    impl KeyPart for uuid::Uuid {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(self);
        }
    }
}

#[cfg(feature = "bytes")]
mod bytes {
    use crate::key::{KeyPart, KeyWriter};

    #[diagnostic::do_not_recommend]
    impl KeyPart for bytes::Bytes {
        fn encode(&self, key: &mut KeyWriter) {
            self[..].encode(key);
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for bytes::BytesMut {
        fn encode(&self, key: &mut KeyWriter) {
            self[..].encode(key);
        }
    }
}

#[cfg(feature = "rust_decimal")]
mod rust_decimal {
    use crate::key::{KeyPart, KeyWriter, number};

    #[diagnostic::do_not_recommend]
    impl KeyPart for rust_decimal::Decimal {
        fn encode(&self, key: &mut KeyWriter) {
            number::write(&self.to_string(), key);
        }
    }
}

#[cfg(feature = "chrono")]
mod chrono {
    use crate::key::time::{Date, Instant, Length, Time};
    use crate::key::{KeyPart, KeyWriter};
    use chrono::{
        DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone,
        Timelike as _,
    };

    #[diagnostic::do_not_recommend]
    impl<Z: TimeZone> KeyPart for DateTime<Z> {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&Instant::new(self.timestamp(), self.timestamp_subsec_nanos()));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for NaiveDateTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&format_args!("{}T{}", date(self.date()), time(self.time())));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for NaiveDate {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&date(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for NaiveTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&time(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for TimeDelta {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&Length::signed(self.num_seconds(), self.subsec_nanos()));
        }
    }

    fn date(date: NaiveDate) -> Date {
        Date { year: date.year().into(), month: date.month(), day: date.day() }
    }

    fn time(time: NaiveTime) -> Time {
        let nanos = time.nanosecond();
        Time { hour: time.hour(), minute: time.minute(), second: time.second(), nanos }
    }
}

#[cfg(feature = "time")]
mod time {
    use crate::key::time as texts;
    use crate::key::{KeyPart, KeyWriter};
    use time::{Date, Duration, OffsetDateTime, PrimitiveDateTime, Time, UtcDateTime};

    #[diagnostic::do_not_recommend]
    impl KeyPart for OffsetDateTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&texts::Instant::new(self.unix_timestamp(), self.nanosecond()));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for UtcDateTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&texts::Instant::new(self.unix_timestamp(), self.nanosecond()));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for PrimitiveDateTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&format_args!("{}T{}", date(self.date()), time(self.time())));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Date {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&date(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Time {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&time(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Duration {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&texts::Length::signed(self.whole_seconds(), self.subsec_nanoseconds()));
        }
    }

    fn date(date: Date) -> texts::Date {
        let (year, month, day) = date.to_calendar_date();
        texts::Date { year: year.into(), month: u8::from(month).into(), day: day.into() }
    }

    fn time(time: Time) -> texts::Time {
        let (hour, minute, second, nanos) = time.as_hms_nano();
        texts::Time { hour: hour.into(), minute: minute.into(), second: second.into(), nanos }
    }
}

#[cfg(feature = "jiff")]
mod jiff {
    use crate::key::time as texts;
    use crate::key::{KeyPart, KeyWriter};
    use jiff::civil::{Date, DateTime, Time};
    use jiff::{SignedDuration, Timestamp, Zoned};

    #[diagnostic::do_not_recommend]
    impl KeyPart for Timestamp {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&texts::Instant::signed(self.as_second(), self.subsec_nanosecond()));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Zoned {
        fn encode(&self, key: &mut KeyWriter) {
            self.timestamp().encode(key);
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for DateTime {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&format_args!("{}T{}", date(self.date()), time(self.time())));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Date {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&date(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for Time {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&time(*self));
        }
    }

    #[diagnostic::do_not_recommend]
    impl KeyPart for SignedDuration {
        fn encode(&self, key: &mut KeyWriter) {
            key.display(&texts::Length::signed(self.as_secs(), self.subsec_nanos()));
        }
    }

    fn date(date: Date) -> texts::Date {
        let part = |part: i8| u32::from(part.unsigned_abs());
        texts::Date { year: date.year().into(), month: part(date.month()), day: part(date.day()) }
    }

    fn time(time: Time) -> texts::Time {
        let part = |part: i8| u32::from(part.unsigned_abs());
        texts::Time {
            hour: part(time.hour()),
            minute: part(time.minute()),
            second: part(time.second()),
            nanos: time.subsec_nanosecond().unsigned_abs(),
        }
    }
}

#[cfg(test)]
#[path = "crates_tests.rs"]
mod tests;
