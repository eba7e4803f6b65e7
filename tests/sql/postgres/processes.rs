//! Processes that charge the same keys in transactions, and are killed; and a server that is.

use super::subject::connect;
use crate::processes::{a_moment, keys, kill_processes, start};
use idempotent_sql::PostgresStore;
use support::postgres::{PostgresServer, shared_postgres};
use support::{size, until};
use tokio_postgres::Client;

const LEDGER: &str = "CREATE TABLE ledger (number bigserial PRIMARY KEY, entry text); \
                      CREATE TABLE account (id bigint PRIMARY KEY, amount bigint); \
                      INSERT INTO account SELECT n, 0 FROM generate_series(0, 7) AS n";

async fn prepare(url: &str) -> Client {
    PostgresStore::connect(url).await.unwrap().migrate().await.unwrap();
    let direct = connect(url).await;
    direct.batch_execute(LEDGER).await.unwrap();
    direct
}

/// Every key has one row, and the rows and what was written with them agree.
async fn check(direct: &Client, keys: usize) {
    let number = async |text: &str| direct.query_one(text, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(number("SELECT count(*) FROM ledger").await, keys as i64);
    assert_eq!(number("SELECT count(DISTINCT entry) FROM ledger").await, keys as i64);
    assert_eq!(number("SELECT sum(amount)::bigint FROM account").await, keys as i64);
    let succeeded = "SELECT count(*) FROM idempotent_records WHERE state = 'succeeded'";
    assert_eq!(number(succeeded).await, keys as i64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_leave_one_row_a_key() {
    let database = shared_postgres().database();
    let direct = prepare(&database.url()).await;
    let keys = kill_processes(&database.url()).await;
    check(&direct, keys).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_leaves_one_row_a_key() {
    let mut server = PostgresServer::start();
    let url = server.create_database();
    drop(prepare(&url).await);
    let rounds = size(3, 30);
    for round in 0..rounds {
        let keys = keys(round);
        let mut workers = [start(&url, &keys), start(&url, &keys)];
        a_moment().await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.restart();
        });
        // And one of the processes, which has lost its server before.
        workers[0] = start(&url, &keys);
        for worker in &mut workers {
            assert!(worker.ended().await.success());
        }
    }
    until(|| server.log().contains("ready to accept connections")).await;
    check(&connect(&url).await, rounds * keys(0).len()).await;
}
