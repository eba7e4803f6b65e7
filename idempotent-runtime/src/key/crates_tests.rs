//! Texts of foreign types, which stores hold and which must not change.

use crate::key::{Encoded, KeyPart};

#[allow(dead_code)]
fn encode(part: &impl KeyPart) -> String {
    Encoded::of(part).as_str().to_owned()
}

/// 2024-02-29 12:30:00.5 UTC.
#[allow(dead_code)]
const SECONDS: i64 = 1_709_209_800;
#[allow(dead_code)]
const INSTANT: &str = r#""2024-02-29T12:30:00.5Z""#;

#[cfg(feature = "uuid")]
#[test]
fn uuids_are_frozen() {
    let id = uuid::Uuid::from_u128(0x0190_1b3c_0f00_7000_8000_0000_0000_002a);
    assert_eq!(encode(&id), r#""01901b3c-0f00-7000-8000-00000000002a""#);
}

#[cfg(feature = "bytes")]
#[test]
fn bytes_are_frozen_and_equal_to_slices() {
    let bytes = bytes::Bytes::from_static(b"a\0\xff");
    assert_eq!(encode(&bytes), "[97,0,255]");
    assert_eq!(encode(&bytes::BytesMut::from(&bytes[..])), "[97,0,255]");
    assert_eq!(encode(&bytes.to_vec()), "[97,0,255]");
}

#[cfg(feature = "rust_decimal")]
#[test]
fn decimals_are_frozen_and_equal_by_value() {
    use rust_decimal::Decimal;
    assert_eq!(encode(&Decimal::new(1250, 2)), "12.5");
    assert_eq!(encode(&Decimal::new(-5, 3)), "-0.005");
    assert_eq!(encode(&Decimal::new(100, 2)), encode(&Decimal::new(10, 1)));
    assert_eq!(encode(&Decimal::new(100, 2)), encode(&1));
    assert_eq!(encode(&-Decimal::ZERO), "0");
    assert_eq!(encode(&Decimal::MAX), "79228162514264337593543950335");
    assert_eq!(encode(&Decimal::new(1, 28)), "0.0000000000000000000000000001");
}

#[cfg(feature = "chrono")]
#[test]
fn times_of_chrono_are_frozen() {
    use chrono::{DateTime, FixedOffset, NaiveDate, TimeDelta, Timelike as _};
    let utc = DateTime::from_timestamp(SECONDS, 500_000_000).unwrap();
    assert_eq!(encode(&utc), INSTANT);
    assert_eq!(encode(&utc.with_timezone(&FixedOffset::east_opt(5 * 3600).unwrap())), INSTANT);
    assert_eq!(encode(&DateTime::from_timestamp(-1, 0).unwrap()), r#""1969-12-31T23:59:59Z""#);
    assert_eq!(encode(&utc.naive_utc()), r#""2024-02-29T12:30:00.5""#);
    assert_eq!(encode(&utc.date_naive()), r#""2024-02-29""#);
    assert_eq!(encode(&utc.time()), r#""12:30:00.5""#);
    assert_eq!(encode(&TimeDelta::milliseconds(-1500)), r#""-PT1.5S""#);
    let leap = NaiveDate::from_ymd_opt(2016, 12, 31).unwrap();
    let leap = leap.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
    assert_eq!(encode(&leap.and_utc()), r#""2016-12-31T23:59:60.5Z""#);
    assert_ne!(encode(&leap), encode(&leap.with_nanosecond(500_000_000).unwrap()));
}

#[cfg(feature = "time")]
#[test]
fn times_of_time_are_frozen() {
    use time::{Duration, OffsetDateTime, UtcDateTime, UtcOffset};
    let utc = OffsetDateTime::from_unix_timestamp_nanos(i128::from(SECONDS) * 1_000_000_000);
    let utc = utc.unwrap() + Duration::milliseconds(500);
    assert_eq!(encode(&utc), INSTANT);
    assert_eq!(encode(&utc.to_offset(UtcOffset::from_hms(-5, -30, 0).unwrap())), INSTANT);
    assert_eq!(encode(&UtcDateTime::from_unix_timestamp(-1).unwrap()), r#""1969-12-31T23:59:59Z""#);
    let civil = time::PrimitiveDateTime::new(utc.date(), utc.time());
    assert_eq!(encode(&civil), r#""2024-02-29T12:30:00.5""#);
    assert_eq!(encode(&utc.date()), r#""2024-02-29""#);
    assert_eq!(encode(&utc.time()), r#""12:30:00.5""#);
    assert_eq!(encode(&Duration::milliseconds(-1500)), r#""-PT1.5S""#);
}

#[cfg(feature = "jiff")]
#[test]
fn times_of_jiff_are_frozen() {
    use jiff::tz::{Offset, TimeZone};
    use jiff::{SignedDuration, Timestamp};
    let utc = Timestamp::new(SECONDS, 500_000_000).unwrap();
    assert_eq!(encode(&utc), INSTANT);
    let zoned = utc.to_zoned(TimeZone::fixed(Offset::constant(5)));
    assert_eq!(encode(&zoned), INSTANT);
    assert_eq!(encode(&zoned.datetime()), r#""2024-02-29T17:30:00.5""#);
    assert_eq!(encode(&zoned.date()), r#""2024-02-29""#);
    assert_eq!(encode(&zoned.time()), r#""17:30:00.5""#);
    let before = Timestamp::new(0, -1).unwrap();
    assert_eq!(encode(&before), r#""1969-12-31T23:59:59.999999999Z""#);
    assert_eq!(encode(&SignedDuration::from_millis(-1500)), r#""-PT1.5S""#);
}
