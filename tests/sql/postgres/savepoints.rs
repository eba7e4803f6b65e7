//! Savepoints of calls in transactions of their callers: none is left open, and none costs a message.

use super::site::{PATIENT, Site};
use super::subject::connect;
use super::tokio_transact::pay;
use super::transact::bench;
use super::within::charge;
use crate::exactly_once::{Failed, unique};
use idempotent_runtime::idempotent;
use idempotent_runtime::testing::scoped;
use idempotent_sql::{PostgresTransaction, TransactExt as _};
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use support::until_async;

/// The open subtransactions that have written something, and the transaction itself: each of them has
/// its number locked.
const OPEN: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' \
                    AND pid = pg_backend_pid() AND granted";

async fn open(tx: &mut Transaction<'_, Postgres>) -> i64 {
    sqlx::query_scalar(OPEN).fetch_one(&mut **tx).await.unwrap()
}

/// Calls another function in the same transaction, before and after a row of its own.
#[idempotent(name = "around", key = "key", mode = "strong", transaction = "tx")]
async fn around(tx: &mut Transaction<'_, Postgres>, key: &str) -> Result<i64, Failed> {
    let first = charge(tx, &format!("{key}/first"), false).await?;
    let insert = "INSERT INTO ledger (entry) VALUES ($1)";
    sqlx::query(insert).bind(key).execute(&mut **tx).await?;
    let failed = charge(tx, &format!("{key}/failed"), true).await;
    assert!(matches!(failed, Err(Failed::Busy)), "{failed:?}");
    charge(tx, &format!("{key}/last"), false).await?;
    Ok(first)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_one_transaction_leave_no_savepoint_open() {
    let (bench, key) = (bench(5).await, unique("many"));
    let mut tx = bench.pool.begin().await.unwrap();
    for number in 0..100 {
        let (key, fails) = (format!("{key}/{number}"), number % 10 == 9);
        let charged = scoped(bench.idem.clone(), charge(&mut tx, &key, fails)).await;
        assert_eq!(charged.is_err(), fails, "{charged:?}");
    }
    assert_eq!(open(&mut tx).await, 1);
    // A repeat call in the same transaction.
    scoped(bench.idem.clone(), charge(&mut tx, &format!("{key}/0"), false)).await.unwrap();
    assert_eq!(open(&mut tx).await, 1);
    tx.commit().await.unwrap();
    assert_eq!(bench.rows(&format!("{key}/0")).await, 1);
    assert_eq!(bench.rows(&format!("{key}/9")).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_inside_a_call_leave_no_savepoint_open() {
    let (bench, key) = (bench(5).await, unique("around"));
    let mut tx = bench.pool.begin().await.unwrap();
    scoped(bench.idem.clone(), around(&mut tx, &key)).await.unwrap();
    assert_eq!(open(&mut tx).await, 1);
    tx.commit().await.unwrap();
    for (name, rows) in [("", 1), ("/first", 1), ("/failed", 0), ("/last", 1)] {
        assert_eq!(bench.rows(&format!("{key}{name}")).await, rows, "{name}");
    }
}

/// It asks, waits, and asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_waited_for_its_key_leaves_no_savepoint_open() {
    let (bench, key) = (bench(5).await, unique("waited"));
    let mut first = bench.pool.begin().await.unwrap();
    scoped(bench.idem.clone(), charge(&mut first, &key, false)).await.unwrap();
    let mut second = bench.pool.begin().await.unwrap();
    let waits = scoped(bench.idem.clone(), charge(&mut second, &key, false));
    let rolls_back = async {
        until_async(|| async {
            let asks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            sqlx::query_scalar::<_, i64>(asks).fetch_one(&bench.pool).await.unwrap() == 1
        })
        .await;
        first.rollback().await.unwrap();
    };
    let (charged, ()) = tokio::join!(waits, rolls_back);
    charged.unwrap();
    assert_eq!(open(&mut second).await, 1);
    second.commit().await.unwrap();
    assert_eq!(bench.rows(&key).await, 1);
}

const ANSWER: &str = "INSERT INTO idempotent_records (key, operation, business_key, state, policy, \
                      attempt, fence, lease_ms, linger_ms, token, expires_at) VALUES ($1, '', '', \
                      'succeeded', 'retry', 1, 1, 1, 1, decode(repeat('00', 16), 'hex'), \
                      now() + interval '1 hour')";

/// Its key is given an answer by hand while it runs, past the lock.
#[idempotent(name = "overtaken", key = "key", mode = "strong", transaction = "tx")]
async fn overtaken(
    tx: &mut Transaction<'_, Postgres>,
    key: &str,
    record: &str,
    other: &sqlx::PgPool,
) -> Result<i64, Failed> {
    let insert = "INSERT INTO ledger (entry) VALUES ($1) RETURNING number";
    let id = sqlx::query_scalar(insert).bind(key).fetch_one(&mut **tx).await?;
    sqlx::query(ANSWER).bind(record.as_bytes()).execute(other).await?;
    Ok(id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_that_cannot_be_recorded_undoes_the_body_and_leaves_the_transaction_usable() {
    let (bench, key, before) = (bench(5).await, unique("overtaken"), unique("before"));
    let mut tx = bench.pool.begin().await.unwrap();
    let insert = "INSERT INTO ledger (entry) VALUES ($1)";
    sqlx::query(insert).bind(&before).execute(&mut *tx).await.unwrap();
    let record = bench.idem.operation("overtaken").key(&*key).record_key().unwrap();
    let call = overtaken(&mut tx, &key, record.as_str(), &bench.pool);
    let refused = scoped(bench.idem.clone(), call).await;
    assert!(refused.as_ref().unwrap_err().is_refused("Superseded"), "{refused:?}");
    assert_eq!(open(&mut tx).await, 1);
    tx.commit().await.unwrap();
    assert_eq!((bench.rows(&key).await, bench.rows(&before).await), (0, 1));
}

const LEDGER: &str = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_takes_two_messages_beside_its_body_and_a_replay_two() {
    let site = Site::start().await;
    site.direct.batch_execute(LEDGER).await.unwrap();
    let process = site.process_with(PATIENT).await;
    let url = site.database.url_through(process.proxy.port);
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    // The statement of the body is prepared.
    scoped(process.idem.clone(), charge(&mut tx, "warm", false)).await.unwrap();
    process.proxy.take_messages();
    for (fails, expected) in [(false, 3), (false, 2), (true, 4)] {
        let key = if fails { "failed" } else { "k" };
        let charged = scoped(process.idem.clone(), charge(&mut tx, key, fails)).await;
        assert_eq!(charged.is_err(), fails);
        let messages = process.proxy.take_messages();
        assert_eq!(messages.len(), expected, "{messages:#?}");
    }
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_tokio_postgres_leave_no_savepoint_open() {
    let site = Site::start().await;
    site.direct.batch_execute(LEDGER).await.unwrap();
    let process = site.process_with(PATIENT).await;
    let mut client = connect(&site.database.url()).await;
    let mut tx = client.transaction().await.unwrap();
    for number in 0..20 {
        let (key, fails) = (format!("{number}"), number % 10 == 9);
        let paid = scoped(process.idem.clone(), pay(&mut tx, &key, fails)).await;
        assert_eq!(paid.is_err(), fails, "{paid:?}");
    }
    assert_eq!(tx.query_one(OPEN, &[]).await.unwrap().get::<_, i64>(0), 1);
    tx.commit().await.unwrap();
    assert_eq!(site.number("SELECT count(*) FROM ledger").await, 18);
}

#[idempotent(name = "overtaken_client", key = "key", mode = "strong", transaction = "tx")]
async fn overtaken_client(
    tx: &mut tokio_postgres::Transaction<'_>,
    key: &str,
    record: &str,
    other: &tokio_postgres::Client,
) -> Result<u64, idempotent_runtime::Error> {
    let written = tx.execute("INSERT INTO ledger (entry) VALUES ($1)", &[&key]).await.unwrap();
    other.execute(ANSWER, &[&record.as_bytes()]).await.unwrap();
    Ok(written)
}

/// The write of the end and the release are sent without waiting in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_that_cannot_be_recorded_undoes_the_body_on_tokio_postgres() {
    let site = Site::start().await;
    site.direct.batch_execute(LEDGER).await.unwrap();
    let process = site.process_with(PATIENT).await;
    let mut client = connect(&site.database.url()).await;
    let mut tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO ledger (entry) VALUES ('before')", &[]).await.unwrap();
    for number in 0..20 {
        let key = number.to_string();
        let record = process.idem.operation("overtaken_client").key(&*key).record_key().unwrap();
        let call = overtaken_client(&mut tx, &key, record.as_str(), &site.direct);
        let refused = scoped(process.idem.clone(), call).await.unwrap_err();
        assert_eq!(refused.kind(), idempotent_runtime::ErrorKind::Superseded, "{refused}");
    }
    assert_eq!(tx.query_one(OPEN, &[]).await.unwrap().get::<_, i64>(0), 1);
    tx.commit().await.unwrap();
    assert_eq!(site.number("SELECT count(*) FROM ledger").await, 1);
}

#[idempotent(name = "lend", key = "key", mode = "strong", transaction = "tx")]
async fn lend(tx: &mut PostgresTransaction, key: &str) -> Result<u64, idempotent_runtime::Error> {
    Ok(tx.execute("INSERT INTO ledger (entry) VALUES ($1)", &[&key]).await.unwrap())
}

/// Each key has a savepoint of its own name, which is not worth keeping for the next use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_are_not_prepared() {
    let site = Site::start().await;
    site.direct.batch_execute(LEDGER).await.unwrap();
    let process = site.process_with(PATIENT).await;
    let (store, key) = (process.store.clone(), unique("lent"));
    let operation = process.op(&key);
    let left = operation.transact(&store, async |mut tx| {
        for number in 0..20 {
            let key = format!("{key}/{number}");
            scoped(process.idem.clone(), lend(&mut tx, &key)).await?;
        }
        assert_eq!(tx.query_one(OPEN, &[]).await.unwrap().get::<_, i64>(0), 1);
        let prepared =
            "SELECT count(*) FROM pg_prepared_statements WHERE statement ~ '^(SAVEPOINT|ROLLBACK|RELEASE)'";
        Ok::<_, idempotent_runtime::Error>(
            tx.query_one(prepared, &[]).await.unwrap().get::<_, i64>(0),
        )
    });
    assert_eq!(left.await.unwrap(), 0);
    assert_eq!(site.number("SELECT count(*) FROM ledger").await, 20);
}
