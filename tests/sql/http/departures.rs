//! Clients that go away, before and during the commit.

use super::shop::{Expect as _, Shop, request};
use idempotent_sql::Isolation;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_takes_its_rows_along_and_frees_the_key() {
    let shop = Shop::open().await;
    let mut connection = shop.connect().await;
    connection.write(&request("/first-hangs", Some("k"), "lamp")).await.unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state = 'idle in transaction'";
    let open = async || sqlx::query_scalar::<_, i64>(open).fetch_one(&shop.pool).await.unwrap();
    support::until_async(async || shop.calls() == 1 && open().await == 1).await;
    let busy = shop.post("/first-hangs", "k", "lamp").await;
    assert_eq!((busy.status, busy.problem()), (409, Some("in-progress")));

    drop(connection);
    support::until_async(async || open().await == 0).await;
    let again = shop.post("/first-hangs", "k", "lamp").await;
    assert_eq!((again.status, again.is_replay()), (200, false));
    assert_eq!((shop.rows("orders").await, shop.calls()), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_during_the_commit_finds_its_response() {
    let wait = Duration::from_secs(20);
    let shop = Shop::with(|layer| layer.wait(wait), Isolation::Default).await;
    let mut lock = shop.pool.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(42)").execute(&mut *lock).await.unwrap();
    let mut connection = shop.connect().await;
    connection.write(&request("/commits-slowly", Some("k"), "lamp")).await.unwrap();
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'advisory'";
    let waiting =
        async || sqlx::query_scalar::<_, i64>(waiting).fetch_one(&shop.pool).await.unwrap();
    support::until_async(async || waiting().await == 1).await;

    drop(connection);
    // The server notices, and drops the request.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(waiting().await, 1, "the commit goes on");
    lock.rollback().await.unwrap();
    let again = shop.post("/commits-slowly", "k", "lamp").await;
    assert_eq!((again.status, again.text(), again.is_replay()), (200, "lamp", true));
    assert_eq!((shop.rows("slow_orders").await, shop.calls()), (1, 1));
    assert_eq!(shop.idem.in_flight(), 0);
}
