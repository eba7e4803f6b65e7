//! What reads stored bytes refuses damage, and misreads nothing. The same as the fuzz targets, on
//! fewer bytes.

use idempotent_runtime::testing::decoders;
use proptest::prelude::*;

/// Bytes that begin like a record, so that more than the first check is reached.
fn nearly_a_record() -> impl Strategy<Value = Vec<u8>> {
    let state = prop_oneof![4 => prop::sample::select(&b"PAFEST"[..]), 1 => any::<u8>()];
    let mark = prop_oneof![8 => 0..2_u8, 1 => any::<u8>()];
    let flags = prop_oneof![8 => 0..16_u8, 1 => any::<u8>()];
    // High bytes of times, which make the difference between long and too long.
    let time = prop_oneof![4 => Just(0_u64), 4 => 0..1_u64 << 50, 1 => any::<u64>()];
    let ids = any::<[u8; 28]>();
    let rest = prop::collection::vec(any::<u8>(), 0..40);
    (state, mark, flags, ids, [time.clone(), time], rest).prop_map(
        |(state, mark, flags, ids, times, rest)| {
            let mut bytes = vec![1, state, mark, flags];
            bytes.extend(ids);
            bytes.extend(times.into_iter().flat_map(u64::to_be_bytes));
            bytes.extend(rest);
            bytes
        },
    )
}

/// A record of each shape is read.
#[test]
fn whole_records_are_read() {
    for (state, flags) in b"PAFEST".iter().flat_map(|state| (0..16).map(move |it| (*state, it))) {
        let contradiction = flags & 3 == 3;
        let fingerprint = if flags & 4 == 0 { 0 } else { 16 };
        let value = if flags & 8 == 0 { 0 } else { 5 };
        let bytes = [vec![1, state, 0, flags], vec![0; 44 + fingerprint + value]].concat();
        assert_eq!(decoders::record(&bytes), !contradiction, "{state} {flags}");
    }
}

#[test]
fn stored_values_are_read() {
    for bytes in [
        &b"\x01null"[..],
        b"\x01{\"a\":[1,-2.5e300,\"\\u00e9\"]}",
        b"\x01[\"a\",-1,[255],{\"b\":true}]",
        b"\x02\xc0",
        b"\x02\x94\xa1a\xff\x91\x01\x81\xa1b\xc3",
    ] {
        assert!(decoders::stored_value(bytes), "{bytes:?}");
    }
    for bytes in [&b""[..], b"\x01", b"\x01nul", b"\x02\xc0\xc0", b"\x00null", b"\x7fnull"] {
        assert!(!decoders::stored_value(bytes), "{bytes:?}");
    }
}

/// Deeper than anybody nests: refused, before the stack is used up.
#[test]
fn deeply_nested_values_are_refused() {
    for (codec, open) in [(1, b'['), (2, 0x91)] {
        let bytes = [vec![codec], vec![open; 100_000]].concat();
        assert!(!decoders::stored_value(&bytes));
    }
}

proptest! {
    #[test]
    fn records_are_refused_or_written_as_they_were_read(bytes in nearly_a_record()) {
        decoders::record(&bytes);
        decoders::record(&bytes[..bytes.len() / 2]);
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decoders::record(&bytes);
        decoders::stored_value(&bytes);
    }

    #[test]
    fn values_are_refused_or_read_the_same_again(
        codec in 1..3_u8,
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "[\\[\\]{}\":,0-9a-e.+\\- ]{0,60}".prop_map(String::into_bytes),
        ],
    ) {
        decoders::stored_value(&[&[codec], &bytes[..]].concat());
    }
}
