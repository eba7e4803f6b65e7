//! Transactions of sqlx whose keys are expected to be new: `BEGIN`, the lock and a look that fails are
//! one message.

use super::shop::{Charged, Shop, Tx};
use crate::exactly_once::unique;
use crate::proxy::Fault;
use idempotent_runtime::{AnswerPolicy, Config, ErrorKind, Idempotency, Mode};
use idempotent_sql::{PostgresStore, TransactExt as _};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{Patience, until, until_async};
use tokio::sync::Notify;

/// More new keys in a row than it takes to expect one more.
const MANY: usize = 40;
/// The start of the message, which no other has.
const LOCK_OR_FAIL: &str = "SELECT (CASE WHEN pg_try_advisory_xact_lock(";
const SHORT: Duration = Duration::from_millis(300);

fn is_fast(text: &str) -> bool {
    text.starts_with(LOCK_OR_FAIL)
}

impl Shop {
    /// Meets nothing but new keys for a while.
    async fn expects_new_keys(&self) {
        self.meets_new_keys(&self.idem).await;
    }

    async fn meets_new_keys(&self, idem: &Idempotency) {
        for _ in 0..MANY {
            let key = unique("new");
            self.charge_as(idem.operation("charge").key(&*key), &key).await.unwrap();
        }
        self.data.take_messages();
    }

    /// Another process on the same pool.
    async fn second(&self) -> Idempotency {
        let store = PostgresStore::connect(&self.site.database.url()).await.unwrap();
        let config = Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(20));
        Idempotency::builder().store(store).config(config).build().unwrap()
    }

    /// The round trips since the last time, without those that test a connection.
    fn round_trips(&self) -> Vec<String> {
        self.data.take_messages().into_iter().filter(|text| !text.is_empty()).collect()
    }

    /// No session of the pool is in a transaction, and no key is held.
    async fn until_clean(&self) {
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                        AND pid <> pg_backend_pid() AND state <> 'idle'";
        let locks = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
                     WHERE locktype = 'advisory' AND datname = current_database()";
        until_async(|| async {
            self.site.number(sessions).await == 0 && self.site.number(locks).await == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_key_takes_one_round_trip_less_after_many_new_ones() {
    let shop = Shop::with(1, Config::new()).await;
    shop.charge(&unique("prepares")).await.unwrap();
    shop.round_trips();
    shop.charge(&unique("first")).await.unwrap();
    let messages = shop.round_trips();
    assert_eq!(messages.len(), 5, "{messages:#?}");
    shop.expects_new_keys().await;
    shop.charge(&unique("next")).await.unwrap();
    let messages = shop.round_trips();
    assert_eq!(messages.len(), 4, "{messages:#?}");
    assert!(is_fast(&messages[0]) && messages[3] == "COMMIT", "{messages:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_of_another_process_is_replayed_and_its_connection_is_clean() {
    let (shop, key) = (Shop::with(1, Config::new()).await, unique("known"));
    let other = shop.second().await;
    let first = shop.charge_as(other.operation("charge").key(&*key), &key).await.unwrap();
    shop.expects_new_keys().await;
    let again = shop.charge(&key).await.unwrap();
    assert!(again.replayed, "{again:?}");
    assert_eq!((again.value, shop.bodies.ran(&key), shop.rows(&key).await), (first.value, 1, 1));
    let messages = shop.round_trips();
    assert_eq!(messages.iter().filter(|text| is_fast(text)).count(), 1, "{messages:#?}");
    shop.until_clean().await;
    // Records are looked for again.
    let key = unique("after it");
    assert_eq!(shop.charge(&key).await.unwrap().value, 1);
    let messages = shop.round_trips();
    assert!(!messages.iter().any(|text| is_fast(text)), "{messages:#?}");
    shop.ends(&key).await;
}

/// A repeat call of the same process is expected to be one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_the_process_has_seen_answered_is_looked_for() {
    let (shop, key) = (Shop::open().await, unique("seen"));
    shop.expects_new_keys().await;
    shop.charge(&key).await.unwrap();
    assert!(shop.round_trips().iter().any(|text| is_fast(text)));
    assert!(shop.charge(&key).await.unwrap().replayed);
    let messages = shop.round_trips();
    assert!(!messages.iter().any(|text| is_fast(text)), "{messages:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_one_new_key_run_its_body_once() {
    let shop = Arc::new(Shop::open().await);
    let other = shop.second().await;
    shop.expects_new_keys().await;
    shop.meets_new_keys(&other).await;
    let (key, go_on) = (unique("both"), Arc::new(Notify::new()));
    let first = tokio::spawn({
        let (shop, key, go_on) = (Arc::clone(&shop), key.clone(), Arc::clone(&go_on));
        async move {
            let body = async |mut tx: Tx| {
                let id = shop.write(&mut tx, &key).await?;
                go_on.notified().await;
                Ok::<_, Charged>(id)
            };
            shop.op(&key).transact(&shop.pool, body).detailed().await
        }
    });
    let mut fast = shop.fast_messages(0, 1).await;
    let second = tokio::spawn({
        let (shop, key) = (Arc::clone(&shop), key.clone());
        async move { shop.charge_as(other.operation("charge").key(&*key), &key).await }
    });
    fast = shop.fast_messages(fast, 2).await;
    assert_eq!(fast, 2);
    go_on.notify_one();
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert!(!first.replayed && second.replayed, "{first:?}, {second:?}");
    assert_eq!((first.value, second.value), (1, 1));
    assert_eq!((shop.bodies.ran(&key), shop.rows(&key).await), (1, 1));
    shop.until_clean().await;
}

impl Shop {
    /// Waits until so many fast messages were sent since `before` were.
    async fn fast_messages(&self, before: usize, count: usize) -> usize {
        let seen = AtomicUsize::new(before);
        until_async(|| async {
            let sent = self.round_trips().iter().filter(|text| is_fast(text)).count();
            seen.fetch_add(sent, SeqCst) + sent >= count
        })
        .await;
        seen.into_inner()
    }
}

/// The settings are those of a transaction that was begun first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_finds_the_settings_of_its_transaction() {
    let config = Config::new().with_max_run(Duration::from_millis(45_678));
    let shop = Shop::with(1, config).await;
    shop.expects_new_keys().await;
    let settings = "SELECT current_setting('transaction_isolation'), \
                    current_setting('statement_timeout'), \
                    current_setting('idle_in_transaction_session_timeout'), \
                    coalesce(current_setting('idempotent.key', true), '')";
    type Settings = (String, String, String, String);
    let inside = shop.op("settings").transact(&shop.pool, async |mut tx: Tx| {
        let found: Settings = sqlx::query_as(settings).fetch_one(&mut *tx).await?;
        Ok::<_, Charged>(found)
    });
    let inside = inside.await.unwrap();
    assert!(shop.round_trips().iter().any(|text| is_fast(text)));
    assert_eq!((&*inside.0, &*inside.1, &*inside.2), ("read committed", "45678ms", "45678ms"));
    assert!(inside.3.starts_with("charge #"), "{inside:?}");
    let after: Settings = sqlx::query_as(settings).fetch_one(&shop.pool).await.unwrap();
    assert_eq!((&*after.1, &*after.2, &*after.3), ("0", "0", ""), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn final_error_of_a_new_key_is_kept_and_its_row_is_not() {
    let (shop, key) = (Shop::open().await, unique("final"));
    shop.expects_new_keys().await;
    for run in 0..2 {
        let answers = AnswerPolicy::kept().final_errors(|error: &String| error == "declined");
        let charged = shop.op(&key).transact(&shop.pool, async |mut tx: Tx| {
            shop.write(&mut tx, &key).await.map_err(|error| format!("{error:?}"))?;
            Err::<i64, _>("declined".to_owned())
        });
        assert_eq!(charged.answers(answers).await.unwrap_err(), "declined", "run {run}");
        assert_eq!(shop.round_trips().iter().any(|text| is_fast(text)), run == 0);
    }
    assert_eq!((shop.bodies.ran(&key), shop.rows(&key).await), (1, 0));
    shop.until_clean().await;
}

/// Its look might be older than its lock: the server refuses to begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_with_a_snapshot_by_default_takes_no_part() {
    let shop = Shop::open().await;
    let options: PgConnectOptions = shop.site.database.url_through(shop.data.port).parse().unwrap();
    let options = options.options([("default_transaction_isolation", "repeatable read")]);
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let mut refused = 0;
    for number in 0..MANY {
        let key = unique("snapshot");
        let found = shop.op(&key).transact(&pool, async |mut tx: Tx| {
            shop.write(&mut tx, &key).await?;
            let isolation = "SELECT current_setting('transaction_isolation')";
            Ok::<String, Charged>(sqlx::query_scalar(isolation).fetch_one(&mut *tx).await?)
        });
        assert_eq!(found.await.unwrap(), "read committed", "{number}");
        assert_eq!(shop.rows(&key).await, 1);
        let messages = shop.round_trips();
        let fast = messages.iter().filter(|text| is_fast(text)).count();
        assert!(fast == 0 || messages.len() > 4, "{messages:#?}");
        refused += fast;
    }
    assert_eq!(refused, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_may_be_cut_off() {
    let shop = Shop::open().await;
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        for nth in 0..4 {
            shop.expects_new_keys().await;
            let key = unique(&format!("{fault:?} {nth}"));
            let count = AtomicUsize::new(0);
            let is_nth = move |text: &str| !text.is_empty() && count.fetch_add(1, SeqCst) == nth;
            shop.data.strike(is_nth, fault);
            let charged = shop.charge(&key).await;
            assert!(shop.data.has_struck(), "{key}");
            let rows = shop.rows(&key).await;
            assert_eq!(rows, i64::from(charged.is_ok()), "{key}: {charged:?}");
            shop.ends(&key).await;
            shop.until_clean().await;
        }
    }
}

/// Nothing comes back on the connection, and it stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begin_without_an_answer_is_refused_in_time() {
    let config = Config::new().with_lease(SHORT).with_max_run(Duration::from_secs(20));
    let (shop, key) = (Shop::with(8, config).await, unique("silent"));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(shop.pool.acquire().await.unwrap());
    }
    drop(held);
    shop.expects_new_keys().await;
    until(|| shop.pool.num_idle() >= 4).await;
    // It is sent three times.
    for _ in 0..3 {
        shop.data.strike(is_fast, Fault::LoseReply);
    }
    // The engine gives up by itself after a minute.
    let charged = Patience::of(Duration::from_secs(45)).wait_for(shop.charge(&key)).await;
    let error = charged.expect("a begin is given up after a lease").unwrap_err().refusal();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    assert!(!error.body_ran() && shop.data.has_struck(), "{error}");
    shop.data.cut();
    shop.until_clean().await;
    shop.ends(&key).await;
}
