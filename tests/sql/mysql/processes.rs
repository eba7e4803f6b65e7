//! Processes that charge the same keys in transactions, and are killed.

use super::subject::connect;
use crate::processes::kill_processes;
use idempotent_sql::MySqlStore;
use support::mariadb::shared_mariadb;

const LEDGER: &str = "CREATE TABLE ledger (number BIGINT AUTO_INCREMENT PRIMARY KEY, entry TEXT); \
                      CREATE TABLE account (id BIGINT PRIMARY KEY, amount BIGINT); \
                      INSERT INTO account VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), \
                      (6, 0), (7, 0)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_leave_one_row_a_key() {
    let database = shared_mariadb().database();
    MySqlStore::connect(&database.url()).await.unwrap().migrate().await.unwrap();
    let mut direct = connect(&database.url()).await;
    sqlx::raw_sql(LEDGER).execute(&mut direct).await.unwrap();
    let keys = kill_processes(&database.url()).await as i64;
    for count in [
        "SELECT count(*) FROM ledger",
        "SELECT count(DISTINCT entry) FROM ledger",
        "SELECT CAST(sum(amount) AS SIGNED) FROM account",
        "SELECT count(*) FROM idempotent_records WHERE state = 'succeeded'",
    ] {
        let number: i64 = sqlx::query_scalar(count).fetch_one(&mut direct).await.unwrap();
        assert_eq!(number, keys, "{count}");
    }
}
