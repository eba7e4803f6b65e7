//! Records that cannot be read, and values that cannot be kept.

use crate::site::{SHORT_LEASE, Site, name, short, strong};
use ::redis::AsyncCommands;
use idempotent_runtime::store::State;
use idempotent_runtime::{Error, ErrorKind, OnStoreError};
use serde::{Deserialize, Serialize, Serializer};
use support::redis::binaries;
use support::{OwnError, until};

/// Where the bytes of a record have their version, state, mark and flags.
const VERSION: usize = 0;
const STATE: usize = 1;
const MARK: usize = 2;
const FLAGS: usize = 3;

/// Everything that may be found in the place of a good record.
fn damaged(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let with = |at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        bytes
    };
    vec![
        ("empty", Vec::new()),
        ("cut short", good[..30].to_vec()),
        ("another version", with(VERSION, 2)),
        ("no version", with(VERSION, 0)),
        ("another state", with(STATE, b'X')),
        ("another mark", with(MARK, 7)),
        ("other flags", with(FLAGS, 0b1111_0000)),
        ("flags that contradict each other", with(FLAGS, 0b0011)),
        ("a text", b"OK".to_vec()),
        ("a long text", b"somebody else's idea of a record, which is not ours".to_vec()),
        ("zeros", vec![0; good.len()]),
    ]
}

/// A call is refused as undecodable, whatever it would do without a store; nothing is touched.
async fn is_never_run(site: &Site, process: &crate::site::Process, key: &str) {
    for choice in [OnStoreError::Refuse, OnStoreError::Run] {
        let call = process.op(key).on_store_error(choice);
        let answer: Result<usize, Error> = call.run(async { Ok(site.runs.record(key)) }).await;
        let error = answer.unwrap_err();
        let got = (error.kind(), error.body_ran(), error.is_retryable());
        assert_eq!(got, (ErrorKind::Undecodable, false, false), "{key}: {error}");
    }
    assert_eq!(site.runs.of(key), 0, "{key}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_read_is_never_run_over() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = site.process().await;
        process.run("good").await.unwrap();
        let good = site.bytes("good").await.unwrap();
        for (key, bytes) in damaged(&good) {
            let () = site.direct.clone().set(name(key), &bytes).await.unwrap();
            is_never_run(&site, &process, key).await;
            assert_eq!(site.bytes(key).await.unwrap(), bytes, "{key}");
            site.command(&["DEL", &name(key)]).await;
            assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        }
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_in_use_for_something_else_is_never_run_over() {
    for binary in binaries() {
        let site = Site::start_with(&binary, &[]).await;
        let process = site.process().await;
        let fillings = [
            ("list", &["RPUSH", "", "a", "b"][..]),
            ("hash", &["HSET", "", "a", "b"]),
            ("set", &["SADD", "", "a"]),
            ("zset", &["ZADD", "", "1", "a"]),
            ("stream", &["XADD", "", "*", "a", "b"]),
        ];
        for (key, filling) in fillings {
            let record = name(key);
            let mut filling = filling.to_vec();
            filling[1] = &record;
            site.command(&filling).await;
            is_never_run(&site, &process, key).await;
            let kind: String =
                ::redis::from_redis_value(site.command(&["TYPE", &record]).await).unwrap();
            assert_eq!(kind, key);
            site.command(&["DEL", &record]).await;
            assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        }
        process.ends_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_whose_record_was_replaced_is_told_and_its_caller_gets_its_value() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    let held = process.hold("k").await;
    site.command(&["DEL", &name("k")]).await;
    site.command(&["RPUSH", &name("k"), "not", "ours"]).await;
    held.attempt.lost().await;
    assert_eq!(held.end().await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    let length: usize = site.direct.clone().llen(name("k")).await.unwrap();
    assert_eq!(length, 2, "it is not ours to replace");
    site.command(&["DEL", &name("k")]).await;
    assert_eq!(process.run("k").await.unwrap(), 2);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_does_not_fit_is_never_replaced_by_a_run() {
    let site = Site::start().await;
    let process = site.process().await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    let answer: Result<String, Error> = process
        .op("k")
        .run(async {
            site.runs.record("k");
            Ok(String::new())
        })
        .await;
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Undecodable, false));
    let good = site.bytes("k").await.unwrap();
    // The number was one digit at the end.
    let bad = [&good[..good.len() - 1], b"{"].concat();
    let () = site.direct.clone().set(name("k"), &bad).await.unwrap();
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Undecodable, false));
    assert_eq!(site.runs.of("k"), 1);
    let () = site.direct.clone().set(name("k"), &good).await.unwrap();
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

/// Values that cannot be kept, each for another reason.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
enum Unkept {
    TooLarge,
    NotEncodable,
    PanicsWhenEncoded,
}

impl Serialize for Unkept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::TooLarge => serializer.serialize_str(&"x".repeat(10_000)),
            Self::NotEncodable => Err(serde::ser::Error::custom("no")),
            Self::PanicsWhenEncoded => panic!("while encoding"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_cannot_be_kept_is_recorded_as_done_without_it() {
    let site = Site::start().await;
    let config = strong().with_max_value_bytes(1_000);
    let process = site.process_with(crate::site::TIMEOUT, config).await;
    for value in [Unkept::TooLarge, Unkept::NotEncodable, Unkept::PanicsWhenEncoded] {
        let key = &*format!("{value:?}");
        let call = || {
            process.op(key).run(async {
                site.runs.record(key);
                Ok::<_, Error>(value)
            })
        };
        assert_eq!(call().await.unwrap(), value, "the caller keeps its value");
        site.until_state(key, State::Succeeded).await;
        let error = call().await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::ResultUnavailable, false));
        assert_eq!(site.runs.of(key), 1, "{key}");
    }
    let kept = process.op("kept").run(async { Ok::<_, OwnError>(1) }).await;
    assert_eq!(kept.unwrap(), 1);
    process.ends_clean().await;
}
