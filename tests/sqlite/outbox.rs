//! The outbox in SQLite.

#[path = "../sql/outbox/killed.rs"]
mod killed;
#[path = "../sql/outbox/receiver.rs"]
#[allow(dead_code)]
mod receiver;
#[path = "../sql/outbox/scenarios.rs"]
#[allow(dead_code)]
mod scenarios;

use receiver::WorkerDatabase;
use scenarios::OUTBOX;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::time::Duration;
use support::redis::TempDirectory;

async fn file() -> (TempDirectory, SqlitePool) {
    let directory = TempDirectory::new();
    let options = SqliteConnectOptions::new()
        .filename(directory.path().join("test.sqlite"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // No test here is about power cuts.
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new()
        .max_connections(8)
        .acquire_timeout(Duration::from_secs(60))
        .connect_with(options)
        .await
        .unwrap();
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
    // It can be repeated.
    OUTBOX.migrate(&mut pool.acquire().await.unwrap()).await.unwrap();
    (directory, pool)
}

scenarios::promises!(file);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_relays_lose_nothing_and_keep_the_order() {
    let (directory, pool) = file().await;
    let path = directory.path().join("test.sqlite").display().to_string();
    killed::killed_relays_lose_nothing_and_keep_the_order(pool, WorkerDatabase::Sqlite(path)).await;
}
