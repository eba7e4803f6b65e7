//! Messages of a call, counted by a proxy; and what they cost the server.

use super::site::{Site, record_key};
use idempotent_runtime::store::Store as _;
use sqlx::MySqlConnection;
use std::time::{Duration, Instant};
use support::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_execution_takes_two_messages_and_a_replay_one() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(5)).await;
    process.run("warm").await.unwrap();
    until(|| process.idem.in_flight() == 0).await;
    process.proxy.take_messages();

    assert_eq!(process.run("k").await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    let messages = process.proxy.take_messages();
    assert_eq!(messages.len(), 2, "{messages:#?}");

    assert_eq!(process.run("k").await.unwrap(), 1);
    let messages = process.proxy.take_messages();
    assert_eq!(messages.len(), 1, "{messages:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_reads_only_and_waits_for_no_lock() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(5)).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    let mut other = site.direct().await;
    let revision = revision(&mut other).await;
    sqlx::raw_sql("START TRANSACTION; SELECT * FROM idempotent_records FOR UPDATE")
        .execute(&mut other)
        .await
        .unwrap();
    let started = Instant::now();
    for _ in 0..10 {
        assert_eq!(process.run("k").await.unwrap(), 1);
    }
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let open = "SELECT COUNT(*) FROM information_schema.INNODB_TRX JOIN \
                information_schema.PROCESSLIST ON ID = trx_mysql_thread_id WHERE DB = DATABASE()";
    assert_eq!(number(&mut other, open).await, 0, "transactions are left open");
    assert_eq!(self::revision(&mut other).await, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_has_expired_costs_one_message_more() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(5)).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    until(|| process.idem.in_flight() == 0).await;
    let mut other = site.direct().await;
    let text = "UPDATE idempotent_records SET expires_at = UTC_TIMESTAMP(6)";
    sqlx::raw_sql(text).execute(&mut other).await.unwrap();
    assert!(process.store.load(&record_key("k")).await.unwrap().is_none());
    process.proxy.take_messages();
    assert_eq!(process.run("k").await.unwrap(), 2);
    until(|| process.idem.in_flight() == 0).await;
    let messages = process.proxy.take_messages();
    assert_eq!(messages.len(), 3, "{messages:#?}");
}

async fn revision(connection: &mut MySqlConnection) -> i64 {
    number(connection, "SELECT SUM(revision) DIV 1 FROM idempotent_records").await
}

async fn number(connection: &mut MySqlConnection, text: &'static str) -> i64 {
    let text = sqlx::query_scalar::<_, i64>(text);
    text.fetch_one(connection).await.unwrap()
}
