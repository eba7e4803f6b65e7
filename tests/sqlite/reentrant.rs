//! Calls inside the body of a transactional call: its transaction is the write lock of the file.

use crate::exactly_once::Failed;
use crate::transact::bench;
use idempotent_runtime::{Error, ErrorKind, Idempotency, Mode, idempotent};
use idempotent_sql::TransactExt as _;
use sqlx::SqliteConnection;

async fn plain(idem: &Idempotency, key: &str) -> Result<String, Error> {
    idem.operation("inner").key(key).mode(Mode::Strong).run(async { Ok(key.to_owned()) }).await
}

#[idempotent(key = "key", mode = "strong", transaction = "tx", with = idem)]
async fn within(
    idem: &Idempotency,
    tx: &mut SqliteConnection,
    key: &str,
) -> Result<String, Failed> {
    sqlx::query("INSERT INTO ledger (entry, id) VALUES (?, 2)").bind(key).execute(tx).await?;
    Ok(key.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_would_wait_for_the_transaction_around_it_is_refused_at_once() {
    let bench = bench(2).await;
    let (idem, pool) = (&bench.idem, &bench.pool);
    // Recorded before: refused all the same, since whether it is there is not known in advance.
    plain(idem, "recorded").await.unwrap();
    let outer = idem.operation("outer").key("k").mode(Mode::Strong);
    let answer: Result<String, Failed> = outer
        .transact(pool, async |mut tx| {
            for key in ["new", "recorded"] {
                let refused = plain(idem, key).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Reentrant, "{refused}");
                assert!(!refused.body_ran());
            }
            let begun = idem.operation("inner").key("new").begin().await;
            assert_eq!(begun.unwrap_err().kind(), ErrorKind::Reentrant);
            let nested = idem.operation("nested").key("new");
            let nested: Result<(), Failed> = nested.transact(pool, async |_| Ok(())).await;
            let nested = nested.unwrap_err();
            assert!(nested.is_refused("Reentrant"), "{nested:?}");
            // A part of the transaction waits for nothing, and nor does what it calls itself.
            within(idem, &mut tx, "part").await
        })
        .await;
    assert_eq!(answer.unwrap(), "part");
    assert_eq!(plain(idem, "new").await.unwrap(), "new");
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(pool).await.unwrap();
    assert_eq!(rows, 1);
}

#[idempotent(key = "key", mode = "strong", transaction = "tx", with = idem)]
async fn outer(idem: &Idempotency, tx: &mut SqliteConnection, key: &str) -> Result<String, Failed> {
    let refused = plain(idem, "new").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Reentrant, "{refused}");
    within(idem, tx, key).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_in_a_transaction_of_the_callers() {
    let bench = bench(2).await;
    let mut tx = bench.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(outer(&bench.idem, &mut tx, "k").await.unwrap(), "k");
    tx.commit().await.unwrap();
    assert_eq!(plain(&bench.idem, "new").await.unwrap(), "new");
}
