//! Rows of the table: keys, dates, locks, expiry.

use super::subject::{MySqlSubject, connect};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, Begun, IfGone, StoreExt as _};
use idempotent_runtime::store::{
    Claim, Head, Next, Seen, State, Store as _, StoreErrorKind, Swap, Swapped, Token, Value, Verb,
    WhenFull,
};
use idempotent_runtime::{Abandon, Fingerprint};
use idempotent_sql::MySqlStore;
use sqlx::MySqlConnection;
use std::time::{Duration, Instant};
use support::until_async;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn asking() -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: LEASE, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

/// A swap that writes a record with a value where there is none.
pub(crate) fn put(value: Vec<u8>, ttl: Duration, when_full: WhenFull) -> Swap {
    let head = Head { attempt: asking().first_attempt(), state: State::Succeeded };
    let next = Next::Put { head, value: Some(Value::from(value)), ttl, when_full };
    Swap { seen: Seen::Nothing, next, verb: Verb::Begin }
}

async fn execute(connection: &mut MySqlConnection, text: &'static str) {
    sqlx::raw_sql(text).execute(connection).await.unwrap();
}

#[tokio::test]
async fn keys_that_collations_take_for_one_are_different() {
    let subject = MySqlSubject::start().await;
    let long = "x".repeat(1_000);
    let keys = ["a", "A", "a ", "ä", "a\0", "a\0b", "\0", "", " ", "'; --", "?", long.as_str()];
    for (at, key) in keys.iter().enumerate() {
        let put = put(vec![at as u8], LEASE, WhenFull::Refuse);
        assert_eq!(subject.store.swap(&RecordKey::from(*key), put).await.unwrap(), Swapped::Done);
    }
    for (at, key) in keys.iter().enumerate() {
        let found = subject.store.load(&RecordKey::from(*key)).await.unwrap().unwrap();
        assert_eq!(found.value.unwrap().as_bytes(), [at as u8], "{key:?}");
    }
}

#[tokio::test]
async fn a_life_may_be_as_long_as_can_be_written() {
    let subject = MySqlSubject::start().await;
    let key = RecordKey::from("forever");
    let put = put(vec![1], Duration::MAX, WhenFull::Refuse);
    assert_eq!(subject.store.swap(&key, put).await.unwrap(), Swapped::Done);
    let year = Duration::from_secs(365 * 24 * 3_600);
    let found = subject.store.load(&key).await.unwrap().unwrap();
    assert!(found.ttl > year * 6_999 && found.ttl <= year * 7_000, "{:?}", found.ttl);
    // And it can be compared with as long a life, and extended by it.
    let seen = Seen::This { head: found.head, at_most: Some(Duration::MAX) };
    let extend = Swap { seen, next: Next::Extend { ttl: Duration::MAX }, verb: Verb::Renew };
    assert_eq!(subject.store.swap(&key, extend).await.unwrap(), Swapped::Done);
}

#[tokio::test]
async fn records_can_be_read_by_people() {
    let subject = MySqlSubject::start().await;
    let key = RecordKey::from("p|orders.create|42");
    let mut request = asking();
    request.fingerprint = Some(Fingerprint::of("payload"));
    subject.store.begin(&key, &request).await.unwrap();
    let columns = "operation, business_key, state, policy, attempt, lease_ms, LENGTH(token), \
                   LENGTH(fingerprint), response IS NULL, created_at = updated_at";
    let text = format!("SELECT {columns} FROM idempotent_records");
    let row = subject.database().execute(&text);
    let expected = "orders.create\t42\tprocessing\tretry\t1\t30000\t16\t16\t1\t1";
    assert_eq!(row, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_a_transaction_has_locked_holds_up_no_renewal() {
    let subject = MySqlSubject::start().await;
    let (key, request) = (RecordKey::from("k"), asking());
    subject.store.begin(&key, &request).await.unwrap();
    let mut other = connect(&subject.database().url()).await;
    execute(&mut other, "START TRANSACTION; SELECT * FROM idempotent_records FOR UPDATE").await;
    let attempt = request.first_attempt();

    let asked = Instant::now();
    let error = subject.store.renew(&key, &attempt, LEASE * 2).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(!error.may_have_taken_effect() && asked.elapsed() < Duration::from_millis(800));

    // A completion waits for it, and is told that it had no effect.
    let value = Some(Value::from(vec![1]));
    let complete = || subject.store.complete(&key, &attempt, value.clone(), LEASE, IfGone::Rewrite);
    let error = complete().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Contended, "{error}");
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    execute(&mut other, "ROLLBACK").await;
    complete().await.unwrap();
    let found = subject.store.load(&key).await.unwrap().unwrap();
    assert_eq!(found.head.state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_used_again_only_after_its_transaction_has_ended() {
    let subject = MySqlSubject::start().await;
    let url = subject.database().url();
    let store = MySqlStore::builder(&url).max_connections(1).connect().await.unwrap();
    let (key, request) = (RecordKey::from("k"), asking());
    store.begin(&key, &request).await.unwrap();
    let mut other = connect(&url).await;
    let lock = "START TRANSACTION; SELECT * FROM idempotent_records WHERE `key` = 'k' FOR UPDATE";
    execute(&mut other, lock).await;
    // The statement that waits fails, and leaves its transaction open.
    let attempt = request.first_attempt();
    let completed = store.complete(&key, &attempt, None, LEASE, IfGone::Rewrite).await;
    assert_eq!(completed.unwrap_err().kind(), StoreErrorKind::Contended);
    let begun = store.begin(&RecordKey::from("next"), &asking()).await.unwrap();
    assert!(matches!(begun, Begun::Fresh(_)), "{begun:?}");
    let seen = subject.store.load(&RecordKey::from("next")).await.unwrap();
    assert!(seen.is_some(), "what was acknowledged is not committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_is_read_after_the_wait_for_a_lock() {
    let subject = MySqlSubject::start().await;
    let (key, request) = (RecordKey::from("k"), asking());
    subject.store.begin(&key, &request).await.unwrap();
    let mut other = connect(&subject.database().url()).await;
    // It has expired when the lock is released, although it had not when the swap was sent.
    let lock = "START TRANSACTION; UPDATE idempotent_records \
                SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 300000 MICROSECOND";
    execute(&mut other, lock).await;
    let (store, attempt) = (subject.store.clone(), request.first_attempt());
    let head = Head { attempt, state: State::Processing };
    let remove =
        Swap { seen: Seen::This { head, at_most: None }, next: Next::Nothing, verb: Verb::Release };
    let swap = tokio::spawn(async move { store.swap(&RecordKey::from("k"), remove).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    execute(&mut other, "COMMIT").await;
    assert_eq!(swap.await.unwrap().unwrap(), Swapped::Found(None));
    assert_eq!(subject.database().execute("SELECT COUNT(*) FROM idempotent_records"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_waits_for_an_insert_that_is_not_committed() {
    let subject = MySqlSubject::start().await;
    let insert = "START TRANSACTION; INSERT INTO idempotent_records (`key`, operation, \
                  business_key, state, policy, attempt, fence, lease_ms, linger_ms, token, \
                  created_at, updated_at, expires_at) SELECT 'k', '', '', 'succeeded', 'retry', 1, \
                  1, 30000, 30000, REPEAT('t', 16), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), \
                  UTC_TIMESTAMP(6) + INTERVAL 1 HOUR";
    for (end, is_fresh) in [("ROLLBACK", true), ("COMMIT", false)] {
        subject.database().execute("DELETE FROM idempotent_records");
        let mut other = connect(&subject.database().url()).await;
        execute(&mut other, insert).await;
        let store = subject.store.clone();
        let begin =
            tokio::spawn(async move { store.begin(&RecordKey::from("k"), &asking()).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!begin.is_finished(), "it did not wait");
        execute(&mut other, end).await;
        let begun = begin.await.unwrap().unwrap();
        assert_eq!(matches!(begun, Begun::Fresh(_)), is_fresh, "{end}: {begun:?}");
    }
    // And it does not wait for ever.
    subject.database().execute("DELETE FROM idempotent_records");
    let mut other = connect(&subject.database().url()).await;
    execute(&mut other, insert).await;
    let error = subject.store.begin(&RecordKey::from("k"), &asking()).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_taken_effect()), (StoreErrorKind::Contended, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_records_are_removed_in_batches_and_none_is_waited_for() {
    let subject = MySqlSubject::start().await;
    let fill = "INSERT INTO idempotent_records (`key`, operation, business_key, state, policy, \
                attempt, fence, lease_ms, linger_ms, token, created_at, updated_at, expires_at) \
                SELECT seq, '', '', 'succeeded', 'retry', 1, 1, 1, 1, REPEAT('t', 16), \
                UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), \
                UTC_TIMESTAMP(6) + INTERVAL IF(seq <= 2500, -seq, seq) MINUTE FROM seq_1_to_2600";
    subject.database().execute(fill);
    let mut other = connect(&subject.database().url()).await;
    let lock =
        "START TRANSACTION; SELECT * FROM idempotent_records WHERE `key` = '2000' FOR UPDATE";
    execute(&mut other, lock).await;
    let mut removed = Vec::new();
    loop {
        let maintenance = subject.store.maintain().await;
        removed.push(maintenance.expired);
        if !maintenance.more {
            break;
        }
    }
    assert_eq!(removed, [1_000, 1_000, 499]);
    execute(&mut other, "COMMIT").await;
    assert_eq!(subject.store.maintain().await.expired, 1);
    assert_eq!(subject.database().execute("SELECT COUNT(*) FROM idempotent_records"), "100");
    let usage = subject.store.usage().unwrap();
    assert!(usage.bytes > 0, "{usage:?}");
}

#[test]
fn a_store_outlives_the_runtimes_that_use_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let subject = first.block_on(MySqlSubject::start());
    let (store, key) = (subject.store.clone(), RecordKey::from("k"));
    let swap = || put(vec![1], LEASE, WhenFull::Refuse);
    first.block_on(async { store.swap(&key, swap()).await }).unwrap();
    for _ in 0..3 {
        // Tokio may give the number of a runtime that has ended to the next one.
        let next = runtime();
        let both = next.block_on(async { store.load(&key).await }).unwrap();
        assert!(both.is_some());
        drop(next);
    }
    drop(first);
    let last = runtime();
    assert!(last.block_on(async { store.load(&key).await }).unwrap().is_some());
    drop(subject);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_in_the_same_process_are_woken() {
    let subject = MySqlSubject::start().await;
    let (key, request) = (RecordKey::from("k"), asking());
    subject.store.begin(&key, &request).await.unwrap();
    let watch = subject.store.watch(&key).await.unwrap();
    let woken = tokio::spawn(watch);
    let attempt = request.first_attempt();
    subject.store.complete(&key, &attempt, None, LEASE, IfGone::Rewrite).await.unwrap();
    until_async(|| async { woken.is_finished() }).await;
}
