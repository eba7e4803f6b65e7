//! State machines, locks and versions in SQLite.

use crate::scenarios::{import, lost_update, machine, prepare, promises, sqlx_area, stock};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::time::Duration;
use support::redis::TempDirectory;

sqlx_area!(SqliteArea, Sqlite);

/// A file of the test's own.
struct File {
    area: SqliteArea,
    _directory: TempDirectory,
}

async fn file(begin: &'static str) -> File {
    let directory = TempDirectory::new();
    let options = SqliteConnectOptions::new()
        .filename(directory.path().join("test.sqlite"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // No test here is about power cuts.
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new()
        .max_connections(70)
        .acquire_timeout(Duration::from_secs(60))
        .connect_with(options)
        .await
        .unwrap();
    let area = SqliteArea { pool, begin };
    prepare(&area).await;
    File { area, _directory: directory }
}

/// Runs a promise in transactions that take the write lock at once, and in those that do not.
macro_rules! promise {
    ($name:ident in $levels:ident, $($promise:ident)::+ $(, $argument:expr)*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for begin in ["BEGIN IMMEDIATE", "BEGIN"] {
                let file = file(begin).await;
                $($promise)::+(file.area.clone() $(, $argument)*).await;
            }
        }
    };
}

promises!("BLOB");
promise!(statements_need_a_transaction in every, machine::several_statements_need_a_transaction);
