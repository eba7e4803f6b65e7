//! Functions in transactions of their callers: `transaction = "tx"`.

use super::transact::{Bench, bench};
use crate::exactly_once::{Failed, unique};
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Config, idempotent};
use sqlx::{PgConnection, Postgres, Transaction};
use std::time::Duration;

#[idempotent(key = "key", mode = "strong", transaction = "tx")]
pub(crate) async fn charge(
    tx: &mut Transaction<'_, Postgres>,
    key: &str,
    fails: bool,
) -> Result<i64, Failed> {
    let insert = "INSERT INTO ledger (entry) VALUES ($1) RETURNING number";
    let (id,): (i64,) = sqlx::query_as(insert).bind(key).fetch_one(&mut **tx).await?;
    if fails { Err(Failed::Busy) } else { Ok(id) }
}

#[idempotent(name = "by_connection", key = "key", mode = "strong", transaction = connection)]
async fn by_connection(connection: &mut PgConnection, key: String) -> Result<i64, Failed> {
    let insert = "INSERT INTO ledger (entry) VALUES ($1) RETURNING number";
    let (id,): (i64,) = sqlx::query_as(insert).bind(&key).fetch_one(&mut *connection).await?;
    Ok(id)
}

/// Writes a row, calls another function in the same transaction, and fails.
#[idempotent(name = "outer", key = "key", mode = "strong", transaction = "tx")]
async fn outer(tx: &mut Transaction<'_, Postgres>, key: &str, inner: &str) -> Result<i64, Failed> {
    let insert = "INSERT INTO ledger (entry) VALUES ($1)";
    sqlx::query(insert).bind(key).execute(&mut **tx).await?;
    charge(tx, inner, false).await?;
    Err(Failed::Busy)
}

impl Bench {
    async fn charge_in_own(&self, key: &str, fails: bool) -> Result<i64, Failed> {
        let mut tx = self.pool.begin().await?;
        let charged = scoped(self.idem.clone(), charge(&mut tx, key, fails)).await;
        tx.commit().await?;
        charged
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_is_committed_with_the_rows() {
    let bench = bench(5).await;
    let key = unique("within");
    let first = bench.charge_in_own(&key, false).await.unwrap();
    assert_eq!(bench.charge_in_own(&key, false).await.unwrap(), first);
    assert_eq!(bench.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_rolls_back_takes_the_answer_with_it() {
    let bench = bench(5).await;
    let key = unique("rolled back");
    let mut tx = bench.pool.begin().await.unwrap();
    scoped(bench.idem.clone(), charge(&mut tx, &key, false)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(bench.rows(&key).await, 0);
    bench.charge_in_own(&key, false).await.unwrap();
    assert_eq!(bench.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_undoes_the_body_and_leaves_the_transaction_usable() {
    let bench = bench(5).await;
    let (key, other) = (unique("undone"), unique("kept"));
    let mut tx = bench.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO ledger (entry) VALUES ($1)")
        .bind(&other)
        .execute(&mut *tx)
        .await
        .unwrap();
    let failed = scoped(bench.idem.clone(), charge(&mut tx, &key, true)).await;
    assert!(matches!(failed, Err(Failed::Busy)), "{failed:?}");
    tx.commit().await.unwrap();
    assert_eq!((bench.rows(&key).await, bench.rows(&other).await), (0, 1));
    bench.charge_in_own(&key, false).await.unwrap();
    assert_eq!(bench.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_while_the_first_is_open_is_told_so() {
    let bench = bench(5).await;
    let key = unique("open");
    let mut first = bench.pool.begin().await.unwrap();
    scoped(bench.idem.clone(), charge(&mut first, &key, false)).await.unwrap();
    let mut second = bench.pool.begin().await.unwrap();
    bench.idem.reconfigure(Config::new().with_wait(Duration::ZERO)).unwrap();
    let refused = scoped(bench.idem.clone(), charge(&mut second, &key, false)).await;
    assert!(refused.as_ref().unwrap_err().is_refused("InProgress"), "{refused:?}");
    first.commit().await.unwrap();
    let replayed = scoped(bench.idem.clone(), charge(&mut second, &key, false)).await.unwrap();
    assert!(replayed > 0);
    second.commit().await.unwrap();
    assert_eq!(bench.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_future_can_be_spawned() {
    let bench = std::sync::Arc::new(bench(5).await);
    let key = unique("spawned");
    let spawned = {
        let (bench, key) = (bench.clone(), key.clone());
        tokio::spawn(async move {
            let mut tx = bench.pool.begin().await?;
            let id = scoped(bench.idem.clone(), by_connection(&mut tx, key)).await?;
            tx.commit().await?;
            Ok::<_, Failed>(id)
        })
    };
    spawned.await.unwrap().unwrap();
    assert_eq!(bench.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_undoes_the_body_and_the_calls_inside_it() {
    let bench = bench(5).await;
    let (key, inner, before) = (unique("outer"), unique("inner"), unique("before"));
    let mut tx = bench.pool.begin().await.unwrap();
    let insert = "INSERT INTO ledger (entry) VALUES ($1)";
    sqlx::query(insert).bind(&before).execute(&mut *tx).await.unwrap();
    let failed = scoped(bench.idem.clone(), outer(&mut tx, &key, &inner)).await;
    assert!(matches!(failed, Err(Failed::Busy)), "{failed:?}");
    tx.commit().await.unwrap();
    let rows = (bench.rows(&key).await, bench.rows(&inner).await, bench.rows(&before).await);
    assert_eq!(rows, (0, 0, 1));
    // The call inside has left no answer either.
    bench.charge_in_own(&inner, false).await.unwrap();
    assert_eq!(bench.rows(&inner).await, 1);
}

/// Its record, that of a failed attempt, is removed while it runs.
#[idempotent(name = "swept", key = "key", mode = "strong", transaction = "tx")]
async fn swept(
    tx: &mut Transaction<'_, Postgres>,
    key: &str,
    record: &str,
    other: Option<&sqlx::PgPool>,
) -> Result<i64, Failed> {
    let insert = "INSERT INTO ledger (entry) VALUES ($1) RETURNING number";
    let (id,): (i64,) = sqlx::query_as(insert).bind(key).fetch_one(&mut **tx).await?;
    let Some(other) = other else { return Err(Failed::Busy) };
    let remove = "DELETE FROM idempotent_records WHERE key = $1 AND state = 'free'";
    let removed = sqlx::query(remove).bind(record.as_bytes()).execute(other).await?;
    assert_eq!(removed.rows_affected(), 1);
    Ok(id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_is_recorded_although_the_record_of_a_failed_attempt_is_gone() {
    let (bench, key) = (bench(5).await, unique("swept"));
    let record = bench.idem.operation("swept").key(&*key).record_key().unwrap();
    let record = record.as_str();
    let mut answers = Vec::new();
    for other in [None, Some(&bench.pool), Some(&bench.pool)] {
        let mut tx = bench.pool.begin().await.unwrap();
        answers.push(scoped(bench.idem.clone(), swept(&mut tx, &key, record, other)).await);
        tx.commit().await.unwrap();
    }
    assert!(matches!(answers[0], Err(Failed::Busy)), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap(), answers[2].as_ref().unwrap());
    assert_eq!(bench.rows(&key).await, 1);
}
