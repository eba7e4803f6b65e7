//! Values and keys of all kinds, which are read as they were written.

use super::Subject;
use super::bench::{Bench, FREE, LEASE, LINGER, RETENTION, answered, asking, own_key, value};
use crate::protocol::{Begun, Failure, IfGone, StoreExt as _, Updated};
use crate::store::Value;

async fn kept(subject: &dyn Subject, bytes: &[u8]) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    assert_eq!(bench.complete(&attempt, bytes).await, Updated::Done);
    let stored = bench.get().await.and_then(|record| record.value);
    assert_same(stored.as_ref(), bytes);
    match bench.begin(&asking()).await {
        Begun::Succeeded { value, .. } => assert_same(value.as_ref(), bytes),
        other => panic!("{other:?}"),
    }

    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.fail(&attempt, Failure::Final(value(bytes))).await;
    match bench.begin(&asking()).await {
        Begun::FailedFinal { value, .. } => assert_same(value.as_ref(), bytes),
        other => panic!("{other:?}"),
    }
}

/// Without printing a megabyte.
fn assert_same(stored: Option<&Value>, bytes: &[u8]) {
    let same = stored.is_some_and(|stored| stored.as_bytes() == bytes);
    assert!(same, "{stored:?} is not what was written, {} bytes", bytes.len());
}

/// Values are bytes: empty ones, zeros, all others, text that looks like a record.
pub async fn values_are_kept_byte_for_byte(subject: &dyn Subject) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let hostile: [&[u8]; 8] = [
        b"",
        b"\0",
        b"null",
        b"\r\n",
        b"{\"state\":\"succeeded\"}",
        b"\xff\xfe\xfd",
        b"|\x00|:,;'\"\\",
        &every_byte,
    ];
    for bytes in hostile {
        kept(subject, bytes).await;
    }
}

/// Values of the largest size that is kept by default arrive whole.
pub async fn large_values_are_kept_byte_for_byte(subject: &dyn Subject) {
    for size in [4_095, 65_537, 1 << 20] {
        let bytes: Vec<u8> = (0..size).map(|index: u32| (index % 251) as u8).collect();
        kept(subject, &bytes).await;
    }
}

/// An answer without a value is told apart from an empty one.
pub async fn no_value_is_not_an_empty_value(subject: &dyn Subject) {
    for value in [None, value(b"")] {
        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        let complete =
            bench.store.complete(&bench.key, &attempt, value.clone(), RETENTION, IfGone::Rewrite);
        assert_eq!(answered(complete.await), Updated::Done);
        let replay = Begun::Succeeded { number: 1, value: value.clone() };
        assert_eq!(bench.begin(&asking()).await, replay);

        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        bench.fail(&attempt, Failure::Final(value.clone())).await;
        let replay = Begun::FailedFinal { number: 1, value };
        assert_eq!(bench.begin(&asking()).await, replay);
    }
}

/// Keys that a careless store would confuse are different keys.
pub async fn hostile_keys_are_kept_apart(subject: &dyn Subject) {
    let long = "x".repeat(700);
    let longer = "x".repeat(701);
    let hostile = [
        "",
        " ",
        "  ",
        "a",
        "A",
        "a ",
        "a\0",
        "a\0b",
        "a\n",
        "a\r\n",
        "a\t",
        "\"a\"",
        "'a'",
        "a\\",
        "a\\\\",
        "a|",
        "a||",
        "{a}",
        "{a}b",
        "{}",
        "}{",
        "a*",
        "a?",
        "[a]",
        "a%",
        "a_",
        "a:b",
        "a;b",
        "a,b",
        "a/b",
        "\u{e9}",
        "e\u{301}",
        "\u{df}",
        "ss",
        "\u{130}",
        "i",
        "\u{200b}",
        "\u{1f980}",
        "-1",
        "0",
        "00",
        "null",
        &long,
        &longer,
    ];
    let bench = Bench::new(subject);
    let own = own_key("");
    let benches: Vec<_> = hostile
        .iter()
        .map(|rest| bench.with_key((&*format!("{}{rest}", own.as_str())).into()))
        .collect();
    for (bench, rest) in benches.iter().zip(hostile) {
        let attempt = bench.granted(&asking()).await;
        assert_eq!(attempt.number, 1, "the key {rest:?} was in use");
        bench.complete(&attempt, rest.as_bytes()).await;
    }
    for (bench, rest) in benches.iter().zip(hostile) {
        let stored = bench.get().await.and_then(|record| record.value);
        assert_eq!(stored, value(rest.as_bytes()), "the key {rest:?}");
    }
}

/// No later attempt sees the value of an earlier record.
pub async fn value_does_not_outlive_its_record(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.complete(&attempt, b"old").await;
    bench.step(RETENTION).await;
    let next = bench.granted(&asking()).await;
    assert_eq!(bench.assert_lives(LEASE + LINGER).await.value, None);
    bench.fail(&next, FREE).await;
    assert_eq!(bench.assert_lives(RETENTION).await.value, None);
    let last = bench.granted(&asking()).await;
    let complete = bench.store.complete(&bench.key, &last, None, RETENTION, IfGone::Rewrite);
    assert_eq!(answered(complete.await), Updated::Done);
    assert_eq!(bench.begin(&asking()).await, Begun::Succeeded { number: 2, value: None });
}
