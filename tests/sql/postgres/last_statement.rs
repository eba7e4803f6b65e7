//! The record of a transaction on connections of the store: it is sent together with `COMMIT`.

use super::site::{LEASE, PATIENT, Process, Site, record_key};
use super::subject::connect;
use super::tokio_transact::{Failed, pay};
use crate::exactly_once::unique;
use crate::proxy::Fault;
use idempotent_runtime::testing::scoped;
use idempotent_sql::TransactExt as _;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{until, until_async};
use tokio_postgres::IsolationLevel;

const INSERT: &str = "INSERT INTO ledger (entry) VALUES ($1)";
/// A record that a call may follow, as if it had been written past all locks.
const FREE: &str = "INSERT INTO idempotent_records (key, operation, business_key, state, policy, \
                    attempt, fence, lease_ms, linger_ms, token, expires_at) VALUES ($1, '', '', \
                    'free', 'retry', 1, 1, 1, 1, decode(repeat('00', 16), 'hex'), \
                    now() + interval '1 hour')";

struct Till {
    site: Site,
    process: Process,
}

impl Till {
    /// With statements prepared on the connection that transactions use.
    async fn open() -> Self {
        let site = Site::start().await;
        let ledger = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text)";
        site.direct.batch_execute(ledger).await.unwrap();
        let process = site.process_with(PATIENT).await;
        let till = Self { site, process };
        till.charge("warm").await.unwrap();
        till.process.proxy.take_messages();
        till
    }

    async fn charge(&self, key: &str) -> Result<usize, Failed> {
        self.charge_and(key, "").await
    }

    /// Writes a row, and runs `more` statements, whose error it swallows.
    async fn charge_and(&self, key: &str, more: &str) -> Result<usize, Failed> {
        let process = &self.process;
        let call = process.op(key).transact(&process.store, async |tx| {
            let run = process.runs.record(key);
            tx.execute(INSERT, &[&key]).await?;
            let _ = tx.batch_execute(more).await;
            Ok(run)
        });
        call.await
    }

    async fn rows(&self, key: &str) -> i64 {
        let text = format!("SELECT count(*) FROM ledger WHERE entry = '{key}'");
        self.site.number(&text).await
    }

    /// The key comes to its end, with one row.
    async fn ends(&self, key: &str) {
        until_async(|| async { self.charge(key).await.is_ok() }).await;
        assert_eq!(self.rows(key).await, 1, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_and_commit_are_one_round_trip() {
    let (till, key) = (Till::open().await, unique("together"));
    let is_record = |text: &str| text.contains("INSERT INTO \"idempotent_records\"");
    till.process.proxy.strike(is_record, Fault::LoseReply);
    let charged = till.charge(&key).await;
    assert!(till.process.proxy.has_struck());
    let messages = till.process.proxy.take_messages();
    assert!(messages.iter().any(|text| text == "COMMIT"), "{messages:#?}");
    // It was committed, and that is found out.
    assert_eq!(charged.unwrap(), 1);
    assert_eq!(till.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_of_a_transaction_may_be_cut_off() {
    let till = Till::open().await;
    till.charge(&unique("counted")).await.unwrap();
    let messages = till.process.proxy.take_messages();
    assert!(messages.len() >= 5, "{messages:#?}");
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        for nth in 0..messages.len() {
            let key = unique(&format!("{fault:?} {nth}"));
            let count = AtomicUsize::new(0);
            let is_nth = move |_: &str| count.fetch_add(1, SeqCst) == nth;
            till.process.proxy.strike(is_nth, fault);
            let charged = till.charge(&key).await;
            let rows = till.rows(&key).await;
            assert_eq!(rows, i64::from(charged.is_ok()), "{key}: {charged:?}");
            till.ends(&key).await;
            assert!(till.process.proxy.has_struck(), "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_is_in_the_way_rolls_the_body_back_and_it_runs_again() {
    let (till, key) = (Till::open().await, unique("in the way"));
    let (process, record) = (&till.process, record_key(&key));
    let call = process.op(&key).transact(&process.store, async |tx| {
        let run = process.runs.record(&key);
        tx.execute(INSERT, &[&key]).await?;
        if run == 1 {
            till.site.direct.execute(FREE, &[&record.as_str().as_bytes()]).await?;
        }
        Ok::<_, Failed>(run)
    });
    assert_eq!(call.await.unwrap(), 2);
    assert_eq!(till.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_that_the_body_swallows_commits_nothing() {
    let (till, key) = (Till::open().await, unique("swallowed"));
    till.charge_and(&key, "SELECT 1 / 0").await.unwrap_err();
    assert_eq!(till.rows(&key).await, 0);
    assert_eq!(till.site.state(&key).await, "");
    till.ends(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraint_that_fails_at_the_commit_frees_the_key() {
    let (till, key) = (Till::open().await, unique("deferred"));
    let tables = "CREATE TABLE paid (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)";
    till.site.direct.batch_execute(tables).await.unwrap();
    let charged = till.charge_and(&key, "INSERT INTO paid VALUES (7), (7)").await;
    // Not taken for a lost race, which would run the body again: the code of the error is the same.
    let Err(Failed::Refused(error)) = charged else { panic!("it cannot be committed") };
    assert!(error.contains("duplicate key value"), "{error}");
    assert_eq!((till.rows(&key).await, till.process.runs.ran(&key)), (0, 1));
    till.ends(&key).await;
}

/// Its row is in the table until it is removed in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_has_expired_is_written_over() {
    let (till, key) = (Till::open().await, unique("expired"));
    assert_eq!(till.charge(&key).await.unwrap(), 1);
    let expire = "UPDATE idempotent_records SET expires_at = clock_timestamp() - $1 * interval \
                  '1 second', state = 'damaged' WHERE key = $2";
    let (age, record) = (LEASE.as_secs_f64(), record_key(&key));
    till.site.direct.execute(expire, &[&age, &record.as_str().as_bytes()]).await.unwrap();
    assert_eq!(till.charge(&key).await.unwrap(), 2);
    assert_eq!(till.charge(&key).await.unwrap(), 2);
}

/// A trigger that leaves rows out, as one that routes them to other tables.
const SKIP: &str = "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS \
                    $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER skip BEFORE INSERT ON \
                    idempotent_records FOR EACH ROW EXECUTE FUNCTION skip()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_the_table_does_not_take_rolls_the_body_back() {
    let (till, key) = (Till::open().await, unique("skipped"));
    till.site.direct.batch_execute(SKIP).await.unwrap();
    for _ in 0..2 {
        till.charge(&key).await.unwrap_err();
    }
    assert_eq!(till.rows(&key).await, 0);
    // Nor does one of the caller's own transaction.
    let mut client = connect(&till.site.database.url()).await;
    for _ in 0..2 {
        let mut tx = client.transaction().await.unwrap();
        scoped(till.process.idem.clone(), pay(&mut tx, &key, false)).await.unwrap_err();
        tx.commit().await.unwrap();
    }
    assert_eq!(till.rows(&key).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraint_of_a_trigger_is_no_lost_race() {
    let (till, key) = (Till::open().await, unique("audit"));
    let audit = "CREATE TABLE audit (operation text UNIQUE); INSERT INTO audit VALUES ('test.op'); \
                 CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN INSERT INTO audit VALUES ('test.op'); RETURN NEW; END $$; \
                 CREATE TRIGGER note AFTER INSERT ON idempotent_records \
                 FOR EACH ROW EXECUTE FUNCTION note()";
    till.site.direct.batch_execute(audit).await.unwrap();
    let Err(Failed::Refused(error)) = till.charge(&key).await else { panic!("it is refused") };
    assert!(error.contains("duplicate key value"), "{error}");
    assert_eq!((till.rows(&key).await, till.process.runs.ran(&key)), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn record_that_waits_for_longer_than_the_body_allows_is_repeated() {
    let (till, key) = (Till::open().await, unique("lock timeout"));
    let (process, direct) = (&till.process, &till.site.direct);
    let call = process.op(&key).transact(&process.store, async |tx| {
        let run = process.runs.record(&key);
        tx.execute(INSERT, &[&key]).await?;
        tx.batch_execute("SET LOCAL lock_timeout = 100").await?;
        match run {
            1 => direct.batch_execute("BEGIN; LOCK TABLE idempotent_records IN SHARE MODE").await?,
            _ => direct.batch_execute("COMMIT").await?,
        }
        Ok::<_, Failed>(run)
    });
    assert_eq!(call.await.unwrap(), 2);
    assert_eq!(till.rows(&key).await, 1);
}

/// The name of the statement is taken on the connection, as it is behind a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_is_noticed_by_the_record() {
    let site = Site::start().await;
    let ledger = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text)";
    site.direct.batch_execute(ledger).await.unwrap();
    let process = site.process_with(PATIENT).await;
    let till = Till { site, process };
    // Names are numbered in the whole process.
    let take_names = "DO $$ DECLARE last int; BEGIN \
                      SELECT coalesce(max(substr(name, 2)::int), 0) INTO last \
                      FROM pg_prepared_statements WHERE name ~ '^s[0-9]+$'; \
                      FOR i IN last..last + 3000 LOOP \
                      BEGIN EXECUTE format('PREPARE s%s AS SELECT 1', i); \
                      EXCEPTION WHEN duplicate_prepared_statement THEN NULL; END; \
                      END LOOP; END $$";
    let key = unique("pooler");
    till.charge_and(&key, take_names).await.unwrap_err();
    assert!(till.process.store.is_pooled());
    till.ends(&key).await;
}

/// It sees the database as it was before another one recorded the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_with_an_old_snapshot_is_told_to_begin_another() {
    let (till, key) = (Till::open().await, unique("snapshot"));
    let url = till.site.database.url();
    let (mut one, mut two) = (connect(&url).await, connect(&url).await);
    let old = one.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let mut old = old.start().await.unwrap();
    old.query("SELECT count(*) FROM ledger", &[]).await.unwrap();
    let mut tx = two.transaction().await.unwrap();
    scoped(till.process.idem.clone(), pay(&mut tx, &key, false)).await.unwrap();
    tx.commit().await.unwrap();
    let paid = scoped(till.process.idem.clone(), pay(&mut old, &key, false)).await;
    let Err(Failed::Refused(error)) = paid else { panic!("it cannot know the answer") };
    assert!(error.contains("in progress") && error.contains("may be retried"), "{error}");
    old.commit().await.unwrap();
    assert_eq!(till.rows(&key).await, 1);
}

/// Calls are dropped at moments all over their course.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_may_be_dropped_at_any_moment() {
    let till = Till::open().await;
    let keys: Vec<_> = (0..200_u64).map(|number| unique(&format!("dropped {number}"))).collect();
    let mut dropped = 0;
    for (moment, key) in (0_u64..).zip(&keys) {
        let limit = Duration::from_micros(moment * 37 % 6_000);
        dropped += usize::from(tokio::time::timeout(limit, till.charge(key)).await.is_err());
    }
    assert!(dropped > 20, "{dropped}");
    for key in &keys {
        till.ends(key).await;
    }
    until(|| till.process.idem.in_flight() == 0).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    until_async(|| async { till.site.number(open).await == 0 }).await;
}
