//! Rows of the table: keys, locks, expiry, listing, and leases under load.

use super::site::{PATIENT, Site, record_key};
use super::subject::connect;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, Begun, IfGone, StoreExt as _};
use idempotent_runtime::store::{
    Claim, Filter, Head, Next, Seen, State, Store as _, StoreErrorKind, Swap, Swapped, Token,
    Value, Verb, WhenFull,
};
use idempotent_runtime::{Abandon, Begin, Config, Mode};
use idempotent_sql::PostgresStore;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use support::{until, until_async};
use tokio::task::JoinSet;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

pub(crate) fn asking() -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: LEASE, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

/// A swap that writes a record with a value where there is none.
pub(crate) fn put(value: Vec<u8>, ttl: Duration) -> Swap {
    let head = Head { attempt: asking().first_attempt(), state: State::Succeeded };
    let when_full = WhenFull::Refuse;
    let next = Next::Put { head, value: Some(Value::from(value)), ttl, when_full };
    Swap { seen: Seen::Nothing, next, verb: Verb::Begin }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_any_text_and_length_are_different() {
    let site = Site::start().await;
    let store = PostgresStore::connect(&site.database.url()).await.unwrap();
    let (long, longer) = ("x".repeat(5_000), "x".repeat(5_001));
    let keys = ["a", "A", "a ", "ä", "a\0", "a\0b", "\0", " ", "'; --", "$1", &long, &longer];
    for (at, key) in keys.iter().enumerate() {
        let put = put(vec![at as u8], LEASE);
        assert_eq!(store.swap(&RecordKey::from(*key), put).await.unwrap(), Swapped::Done);
    }
    for (at, key) in keys.iter().enumerate() {
        let found = store.load(&RecordKey::from(*key)).await.unwrap().unwrap();
        assert_eq!(found.value.unwrap().as_bytes(), [at as u8], "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_life_may_be_as_long_as_can_be_written() {
    let site = Site::start().await;
    let store = PostgresStore::connect(&site.database.url()).await.unwrap();
    let key = RecordKey::from("forever");
    assert_eq!(store.swap(&key, put(vec![1], Duration::MAX)).await.unwrap(), Swapped::Done);
    let found = store.load(&key).await.unwrap().unwrap();
    assert!(found.ttl > Duration::from_secs(1_000 * 365 * 24 * 3_600), "{:?}", found.ttl);
    let seen = Seen::This { head: found.head, at_most: Some(Duration::MAX) };
    let extend = Swap { seen, next: Next::Extend { ttl: Duration::MAX }, verb: Verb::Renew };
    assert_eq!(store.swap(&key, extend).await.unwrap(), Swapped::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_for_a_row_holds_up_no_other_key() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    let (key, request) = (record_key("k"), asking());
    process.store.begin(&key, &request).await.unwrap();
    site.direct.batch_execute("BEGIN; SELECT * FROM idempotent_records FOR UPDATE").await.unwrap();
    let attempt = request.first_attempt();

    // A renewal does not wait for it at all.
    let asked = Instant::now();
    let error = process.store.renew(&key, &attempt, LEASE * 2).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(!error.may_have_taken_effect() && asked.elapsed() < Duration::from_millis(900));

    // A completion does, for a second, and is told that it had no effect.
    let value = Some(Value::from(vec![1]));
    let complete = process.store.complete(&key, &attempt, value.clone(), LEASE, IfGone::Rewrite);
    let others = async {
        let asked = Instant::now();
        for key in 0..5 {
            process.run(&format!("other {key}")).await.unwrap();
        }
        asked.elapsed()
    };
    let (error, others) = tokio::join!(complete, others);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Contended, "{error}");
    assert!(others < Duration::from_millis(900), "held up for {others:?}");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    site.direct.batch_execute("ROLLBACK").await.unwrap();
    process.store.complete(&key, &attempt, value, LEASE, IfGone::Rewrite).await.unwrap();
    site.until_state("k", "succeeded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_waits_for_an_insert_that_is_not_committed() {
    let site = Site::start().await;
    let store = PostgresStore::connect(&site.database.url()).await.unwrap();
    let insert = "BEGIN; INSERT INTO idempotent_records (key, operation, business_key, state, \
                  policy, attempt, fence, lease_ms, linger_ms, token, expires_at) SELECT 'k', '', \
                  '', 'succeeded', 'retry', 1, 1, 30000, 30000, \
                  '0123456789abcdef', clock_timestamp() + interval '1 hour'";
    for (end, is_fresh) in [("ROLLBACK", true), ("COMMIT", false)] {
        site.direct.batch_execute("DELETE FROM idempotent_records").await.unwrap();
        site.direct.batch_execute(insert).await.unwrap();
        let begins = store.clone();
        let begin =
            tokio::spawn(async move { begins.begin(&RecordKey::from("k"), &asking()).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!begin.is_finished(), "it did not wait");
        site.direct.batch_execute(end).await.unwrap();
        let begun = begin.await.unwrap().unwrap();
        assert_eq!(matches!(begun, Begun::Fresh(_)), is_fresh, "{end}: {begun:?}");
    }
    // And it does not wait for ever.
    site.direct.batch_execute("DELETE FROM idempotent_records").await.unwrap();
    site.direct.batch_execute(insert).await.unwrap();
    let error = store.begin(&RecordKey::from("k"), &asking()).await.unwrap_err();
    assert_eq!((error.kind(), error.may_have_taken_effect()), (StoreErrorKind::Contended, false));
}

/// A process that has not seen the key answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_record_of_another_process_is_written_over() {
    let site = Site::start().await;
    let [one, other] = [site.process_with(PATIENT).await, site.process_with(PATIENT).await];
    assert_eq!(one.run("k").await.unwrap(), 1);
    until(|| one.idem.in_flight() == 0).await;
    let expire = "UPDATE idempotent_records SET expires_at = clock_timestamp()";
    site.direct.batch_execute(expire).await.unwrap();
    assert_eq!(other.run("k").await.unwrap(), 2);
    assert_eq!(other.run("k").await.unwrap(), 2);
}

/// As it is after all records have expired: connections that are opened then plan for an empty table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_reads_the_whole_table_even_if_it_was_empty_when_it_was_planned() {
    let site = Site::start().await;
    // Statistics are gathered by the test alone.
    let by_hand = "ALTER TABLE idempotent_records SET (autovacuum_enabled = off)";
    site.direct.batch_execute(by_hand).await.unwrap();
    site.direct.batch_execute("VACUUM ANALYZE idempotent_records").await.unwrap();
    let process = site.process_with(PATIENT).await;
    for key in ["a", "b", "a"] {
        process.run(key).await.unwrap();
    }
    until(|| process.idem.in_flight() == 0).await;
    process.store.maintain().await;
    let scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'idempotent_records'";
    let found = "SELECT idx_scan FROM pg_stat_user_tables WHERE relname = 'idempotent_records'";
    // A session reports what it has read when it ends, at the latest.
    let before = site.number(scans).await;
    drop(process);
    until_async(|| async { site.number(found).await > 0 }).await;
    assert_eq!(site.number(scans).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_begins_at_once_in_two_processes_one_is_granted() {
    let site = Site::start().await;
    let (one, other) = (site.process_with(PATIENT).await, site.process_with(PATIENT).await);
    for round in 0..10 {
        let mut begins = JoinSet::new();
        for caller in 0..16 {
            let store = if caller % 2 == 0 { one.store.clone() } else { other.store.clone() };
            let key = record_key(&format!("round {round}"));
            begins.spawn(async move { store.begin(&key, &asking()).await });
        }
        let begun = begins.join_all().await;
        let fresh = begun.iter().filter(|it| matches!(it, Ok(Begun::Fresh(_)))).count();
        assert_eq!(fresh, 1, "{begun:?}");
        // The others know that it is in flight, or that somebody was faster.
        let is_told = |it: &Result<Begun, idempotent_runtime::store::StoreError>| match it {
            Ok(Begun::Fresh(_) | Begun::InFlight { .. }) => true,
            Ok(_) => false,
            Err(error) => error.kind() == StoreErrorKind::Contended,
        };
        assert!(begun.iter().all(is_told), "{begun:?}");
    }
}

const FILL: &str = "INSERT INTO idempotent_records (key, operation, business_key, state, policy, \
     attempt, fence, lease_ms, linger_ms, token, expires_at) \
     SELECT convert_to('p|orders.create|' || n, 'UTF8'), 'orders.create', n::text, 'succeeded', \
     'retry', 1, 1, 1, 1, '0123456789abcdef', \
     clock_timestamp() + (CASE WHEN n <= 2500 THEN -n ELSE n END) * interval '1 minute' \
     FROM generate_series(1, 2600) AS n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_records_are_removed_in_batches_and_none_is_waited_for() {
    let site = Site::start().await;
    let store = PostgresStore::connect(&site.database.url()).await.unwrap();
    site.direct.batch_execute(FILL).await.unwrap();
    let other = connect(&site.database.url()).await;
    let lock = "BEGIN; SELECT * FROM idempotent_records WHERE business_key = '2000' FOR UPDATE";
    other.batch_execute(lock).await.unwrap();
    let mut removed = Vec::new();
    loop {
        let maintenance = store.maintain().await;
        removed.push(maintenance.expired);
        if !maintenance.more {
            break;
        }
    }
    assert_eq!(removed, [1_000, 1_000, 499]);
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.maintain().await.expired, 1);
    assert_eq!(site.number("SELECT count(*) FROM idempotent_records").await, 100);
    assert!(store.usage().unwrap().bytes > 0, "{:?}", store.usage());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_remove_expired_records_at_once_at_the_pace_of_each() {
    let site = Site::start().await;
    site.direct.batch_execute(FILL).await.unwrap();
    let paced = |rate: u32| {
        move |it: idempotent_sql::PostgresBuilder| {
            it.timeout(PATIENT).expire_batch(100).expire_rate(rate)
        }
    };
    let (one, other) = (site.process_as(paced(2_000)).await, site.process_as(paced(2_000)).await);
    let remove = async |store: &PostgresStore| {
        let mut removed = 0;
        loop {
            let maintenance = store.maintain().await;
            removed += maintenance.expired;
            if !maintenance.more {
                return removed;
            }
        }
    };
    let started = Instant::now();
    let (by_one, by_other) = tokio::join!(remove(&one.store), remove(&other.store));
    // Instances expire in the background as well.
    assert!(by_one + by_other <= 2_500 && by_one > 200 && by_other > 200, "{by_one} {by_other}");
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
    let expired = "SELECT count(*) FROM idempotent_records WHERE expires_at < clock_timestamp()";
    until_async(|| async { site.number(expired).await == 0 }).await;
    assert_eq!(site.number("SELECT count(*) FROM idempotent_records").await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_living_record_is_listed_once() {
    let site = Site::start().await;
    let store = PostgresStore::connect(&site.database.url()).await.unwrap();
    site.direct.batch_execute(FILL).await.unwrap();
    let long = record_key(&"y".repeat(4_000));
    store.swap(&long, put(vec![1], LEASE)).await.unwrap();
    let (mut after, mut listed, mut pages) = (None, BTreeSet::new(), 0);
    loop {
        let page = store.scan(&Filter::new(), after.as_ref(), 7).await.unwrap();
        pages += 1;
        assert_eq!(page.skipped, 0);
        for found in &page.records {
            assert!(listed.insert(found.key.as_str().to_owned()), "{} twice", found.key.as_str());
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(listed.len(), 101);
    assert!(pages > 10 && listed.contains(long.as_str()));
    let filter = Filter::new().operation("orders.cancel");
    assert!(store.scan(&filter, None, 1_000).await.unwrap().records.is_empty());
}

/// Bodies hold all connections of the pool for several leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_renewed_while_all_connections_of_the_pool_are_held() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    let config = Config::new().with_mode(Mode::Strong).with_lease(SHORT).with_wait(Duration::ZERO);
    process.idem.reconfigure(config).unwrap();
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(3);
    let pool = pool.connect(&site.database.url()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(pool.acquire().await.unwrap());
    }
    let mut attempts = Vec::new();
    for key in 0..8 {
        let Begin::Fresh(attempt) = process.op(&key.to_string()).begin().await.unwrap() else {
            panic!("it is free")
        };
        attempts.push(attempt);
    }
    tokio::time::sleep(SHORT * 4).await;
    for (key, attempt) in attempts.into_iter().enumerate() {
        let found = process.store.load(&record_key(&key.to_string())).await.unwrap().unwrap();
        assert_eq!(found.head.attempt.number, attempt.number());
        assert!(!found.head.lease_left(found.ttl).is_zero(), "the lease of {key} ran out");
        attempt.complete(&1_usize).await.unwrap();
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_record_keeps_no_other_lease_from_being_renewed() {
    let site = Site::start().await;
    let process = site.process_with(PATIENT).await;
    let config = Config::new().with_mode(Mode::Strong).with_lease(SHORT).with_wait(Duration::ZERO);
    process.idem.reconfigure(config).unwrap();
    let mut attempts = Vec::new();
    for key in 0..8 {
        let Begin::Fresh(attempt) = process.op(&key.to_string()).begin().await.unwrap() else {
            panic!("it is free")
        };
        attempts.push(attempt);
    }
    let key = record_key("0");
    let lock = "SELECT * FROM idempotent_records WHERE key = $1 FOR UPDATE";
    site.direct.batch_execute("BEGIN").await.unwrap();
    site.direct.query_one(lock, &[&key.as_str().as_bytes()]).await.unwrap();
    tokio::time::sleep(SHORT * 4).await;
    for (key, attempt) in attempts.into_iter().enumerate().skip(1) {
        let found = process.store.load(&record_key(&key.to_string())).await.unwrap().unwrap();
        assert!(!found.head.lease_left(found.ttl).is_zero(), "the lease of {key} ran out");
        attempt.complete(&1_usize).await.unwrap();
    }
    site.direct.batch_execute("ROLLBACK").await.unwrap();
}

#[test]
fn a_store_outlives_the_runtimes_that_use_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (site, store) = first.block_on(async {
        let site = Site::start().await;
        let store = PostgresStore::connect(&site.database.url()).await.unwrap();
        (site, store)
    });
    let key = RecordKey::from("k");
    first.block_on(async { store.swap(&key, put(vec![1], LEASE)).await }).unwrap();
    for _ in 0..3 {
        let next = runtime();
        assert!(next.block_on(async { store.load(&key).await }).unwrap().is_some());
        drop(next);
    }
    drop(first);
    let last = runtime();
    assert!(last.block_on(async { store.load(&key).await }).unwrap().is_some());
    drop(site);
}
