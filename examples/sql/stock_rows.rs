//! Can many callers take from the same stock without selling more than there is?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example stock_rows
//! ```
//!
//! Sixteen callers each take one of ten lamps. Reading, subtracting and writing back sells the same
//! lamp several times. With a lock the callers take turns; with a version, a caller whose lamp was
//! taken in between is told so, and tries again.
#![allow(clippy::print_stdout)]

use idempotent_sql::entity::{Lock, Save, Versioned, VersionedTable, lock};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

const CALLERS: usize = 16;
const STOCK: VersionedTable = VersionedTable::new("stock", "item", "version");

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Wrong: another caller may read the same count before this one writes.
async fn take_naively(pool: SqlitePool, all_have_read: Arc<Barrier>) -> Result<bool, Failure> {
    let left: i64 =
        sqlx::query_scalar("SELECT count FROM stock WHERE item = 'lamp'").fetch_one(&pool).await?;
    all_have_read.wait().await;
    if left == 0 {
        return Ok(false);
    }
    sqlx::query("UPDATE stock SET count = ? WHERE item = 'lamp'")
        .bind(left - 1)
        .execute(&pool)
        .await?;
    Ok(true)
}

/// One caller at a time.
async fn take_with_lock(pool: SqlitePool) -> Result<bool, Failure> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    if lock(&mut tx, "stock", "item", "lamp").await? == Lock::NotFound {
        return Ok(false);
    }
    let left: i64 = sqlx::query_scalar("SELECT count FROM stock WHERE item = 'lamp'")
        .fetch_one(&mut *tx)
        .await?;
    if left == 0 {
        return Ok(false);
    }
    sqlx::query("UPDATE stock SET count = ?, version = version + 1 WHERE item = 'lamp'")
        .bind(left - 1)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(true)
}

/// No caller waits, and the second one reads again.
async fn take_by_version(pool: SqlitePool) -> Result<bool, Failure> {
    let mut connection = pool.acquire().await?;
    loop {
        let (left, version): (i64, i64) =
            sqlx::query_as("SELECT count, version FROM stock WHERE item = 'lamp'")
                .fetch_one(&mut *connection)
                .await?;
        if left == 0 {
            return Ok(false);
        }
        let mut stock = Versioned::new(left, version);
        *stock -= 1;
        let saved = stock
            .save(&mut connection, &STOCK, "lamp", |left| vec![("count", (*left).into())])
            .await?;
        if let Save::Saved(_) = saved {
            return Ok(true);
        }
    }
}

/// Lets all callers take at the same time, and returns how many have got a lamp.
async fn sell<F>(pool: &SqlitePool, take: impl Fn(SqlitePool) -> F) -> Result<(usize, i64), Failure>
where
    F: Future<Output = Result<bool, Failure>> + Send + 'static,
{
    sqlx::query("UPDATE stock SET count = 10").execute(pool).await?;
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(take(pool.clone()))).collect();
    let mut sold = 0;
    for caller in callers {
        sold += usize::from(caller.await??);
    }
    let left = sqlx::query_scalar("SELECT count FROM stock").fetch_one(pool).await?;
    Ok((sold, left))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let file = std::env::temp_dir().join(format!("stock-{}.sqlite", std::process::id()));
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(30));
    let pool =
        SqlitePoolOptions::new().max_connections(CALLERS as u32).connect_with(options).await?;
    sqlx::raw_sql(
        "CREATE TABLE stock (
           item TEXT PRIMARY KEY, count INTEGER NOT NULL, version INTEGER NOT NULL);
         INSERT INTO stock VALUES ('lamp', 10, 1);",
    )
    .execute(&pool)
    .await?;

    println!("10 lamps, {CALLERS} callers");
    let barrier = Arc::new(Barrier::new(CALLERS));
    let (sold, left) = sell(&pool, |pool| take_naively(pool, barrier.clone())).await?;
    println!("naive:        {sold} sold, {left} left");
    assert_eq!((sold, left), (16, 9));

    let (sold, left) = sell(&pool, take_with_lock).await?;
    println!("with a lock:  {sold} sold, {left} left");
    assert_eq!((sold, left), (10, 0));

    let (sold, left) = sell(&pool, take_by_version).await?;
    println!("by version:   {sold} sold, {left} left");
    assert_eq!((sold, left), (10, 0));

    pool.close().await;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    Ok(())
}
