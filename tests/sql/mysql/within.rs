//! Functions in transactions of their callers, which are `REPEATABLE READ` by default.

use super::transact::bench;
use crate::exactly_once::{Failed, unique};
use idempotent_runtime::idempotent;
use idempotent_runtime::testing::scoped;
use sqlx::{MySql, Transaction};
use std::time::Duration;

#[idempotent(key = "key", mode = "strong", transaction = "tx")]
async fn charge(tx: &mut Transaction<'_, MySql>, key: &str) -> Result<u64, Failed> {
    let insert = sqlx::query("INSERT INTO ledger (entry) VALUES (?)").bind(key);
    Ok(insert.execute(&mut **tx).await?.last_insert_id())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_of_different_keys_do_not_wait_for_each_other() {
    let bench = bench(5).await;
    let common = unique("neighbour");
    let mut open = Vec::new();
    for number in 0..4 {
        let key = format!("{common}-{number}");
        let mut tx = bench.pool.begin().await.unwrap();
        let charged = scoped(bench.idem.clone(), charge(&mut tx, &key));
        let charged = tokio::time::timeout(Duration::from_secs(10), charged).await;
        charged.expect("it waits for another key").unwrap();
        open.push((key, tx));
    }
    for (key, tx) in open {
        tx.commit().await.unwrap();
        assert_eq!(bench.rows(&key).await, 1, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_is_committed_with_the_rows_or_rolled_back_with_them() {
    let bench = bench(5).await;
    let key = unique("within");
    let call = async || {
        let mut tx = bench.pool.begin().await.unwrap();
        let number = scoped(bench.idem.clone(), charge(&mut tx, &key)).await.unwrap();
        (tx, number)
    };
    let (tx, _) = call().await;
    tx.rollback().await.unwrap();
    assert_eq!(bench.rows(&key).await, 0);
    let (tx, number) = call().await;
    tx.commit().await.unwrap();
    let (tx, again) = call().await;
    tx.commit().await.unwrap();
    assert_eq!((again, bench.rows(&key).await), (number, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_one_transaction_leave_no_savepoint_open() {
    let (bench, key) = (bench(5).await, unique("many"));
    let mut tx = bench.pool.begin().await.unwrap();
    for number in 0..20 {
        let key = format!("{key}/{number}");
        scoped(bench.idem.clone(), charge(&mut tx, &key)).await.unwrap();
    }
    // A repeat call in the same transaction.
    scoped(bench.idem.clone(), charge(&mut tx, &format!("{key}/0"))).await.unwrap();
    let mut counts = Vec::new();
    for counter in ["Com_savepoint", "Com_release_savepoint"] {
        let text = format!("SHOW SESSION STATUS LIKE '{counter}'");
        let text = sqlx::query_as::<_, (String, String)>(sqlx::AssertSqlSafe(text));
        counts.push(text.fetch_one(&mut *tx).await.unwrap().1);
    }
    assert_eq!(counts[0], counts[1]);
    tx.commit().await.unwrap();
    assert_eq!(bench.rows(&format!("{key}/0")).await, 1);
}

/// The record that holds its key is changed by its own transaction.
#[idempotent(name = "overtaken_row", key = "key", mode = "strong", transaction = "tx")]
async fn overtaken(tx: &mut Transaction<'_, MySql>, key: &str) -> Result<u64, Failed> {
    let insert = sqlx::query("INSERT INTO ledger (entry) VALUES (?)").bind(key);
    let number = insert.execute(&mut **tx).await?.last_insert_id();
    let change = "UPDATE idempotent_records SET fence = fence + 1";
    sqlx::query(change).execute(&mut **tx).await?;
    Ok(number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_that_cannot_be_recorded_undoes_the_body_and_leaves_the_transaction_usable() {
    let (bench, key, after) = (bench(5).await, unique("overtaken"), unique("after"));
    let mut tx = bench.pool.begin().await.unwrap();
    let refused = scoped(bench.idem.clone(), overtaken(&mut tx, &key)).await;
    assert!(refused.as_ref().unwrap_err().is_refused("Superseded"), "{refused:?}");
    scoped(bench.idem.clone(), charge(&mut tx, &after)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((bench.rows(&key).await, bench.rows(&after).await), (0, 1));
}
