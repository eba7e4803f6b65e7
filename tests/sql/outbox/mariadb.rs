//! The outbox in MariaDB.

use super::receiver::WorkerDatabase;
use super::{killed, scenarios};
use scenarios::OUTBOX;
use sqlx::MySqlPool;
use sqlx::mysql::MySqlPoolOptions;
use std::time::Duration;
use support::database::Database;
use support::mariadb::shared_mariadb;

async fn database() -> (Database, MySqlPool) {
    let database = shared_mariadb().database();
    let pool = MySqlPoolOptions::new()
        .max_connections(16)
        .acquire_timeout(Duration::from_secs(60))
        .connect(&database.url())
        .await
        .unwrap();
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
    // It can be repeated.
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
    (database, pool)
}

scenarios::promises!(database, other_keys_are_sent_to_meanwhile);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_lose_nothing_and_keep_the_order() {
    let (database, pool) = database().await;
    let reach = WorkerDatabase::MariaDb(database.url());
    killed::killed_relays_lose_nothing_and_keep_the_order(pool, reach).await;
}
