//! Operations in transactions of their own.

use crate::exactly_once::exactly_once;
use idempotent_sql::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use support::redis::TempDirectory;

exactly_once!(
    sqlx::SqlitePool,
    "INSERT INTO ledger (entry, id) VALUES (?, ?)",
    "SELECT count(*) FROM ledger WHERE entry = ?"
);

pub(crate) async fn bench(connections: u32) -> Bench {
    let folder = TempDirectory::new();
    let path = folder.path().join("shop.db");
    let idem = Idempotency::builder().store(SqliteStore::open(&path).unwrap()).build().unwrap();
    let options = SqliteConnectOptions::new().filename(&path);
    let pool = SqlitePoolOptions::new().max_connections(connections);
    let pool = pool.connect_with(options).await.unwrap();
    let ledger = "CREATE TABLE ledger (number INTEGER PRIMARY KEY, entry TEXT, id INTEGER)";
    sqlx::query(ledger).execute(&pool).await.unwrap();
    Bench { idem, pool, bodies: Ledger::new(), kept: Mutex::default(), _site: Box::new(folder) }
}
