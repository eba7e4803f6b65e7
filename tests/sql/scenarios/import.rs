//! Rows that carry a number of their source: imported once, by however many importers.

use super::{Area, in_transaction, number, run, together, try_run};
use idempotent_sql::client::{Database, SqlConnection};
use idempotent_sql::entity::EntityError;
use std::sync::Arc;
use tokio::sync::Barrier;

/// Rows of the file.
const ROWS: i64 = 20;

const TOTAL: &str = "SELECT value FROM counters WHERE name = 'visits'";

async fn count(tx: &mut impl SqlConnection, by: i64) -> Result<(), EntityError> {
    let text = format!("UPDATE counters SET value = value + {by} WHERE name = 'visits'");
    try_run(tx, &text, &[]).await?;
    Ok(())
}

/// Writes the row of the unique table; `true` if it was not there.
async fn is_first(tx: &mut impl SqlConnection, row: i64) -> Result<bool, EntityError> {
    let values = format!("INTO imported (source, number) VALUES ('bank', {row})");
    if tx.database() == Database::MySql {
        try_run(tx, &format!("INSERT IGNORE {values}"), &[]).await?;
        return Ok(number(tx, "SELECT ROW_COUNT()").await == 1);
    }
    let text = format!("INSERT {values} ON CONFLICT DO NOTHING RETURNING 1");
    Ok(!try_run(tx, &text, &[]).await?.is_empty())
}

/// Every importer has the whole file, in transactions of five rows; some are rolled back at first.
pub(crate) async fn every_row_counts_once(area: impl Area, callers: usize) {
    let table = "CREATE TABLE imported (source VARCHAR(32) NOT NULL, number BIGINT NOT NULL, \
                 PRIMARY KEY (source, number))";
    run(&mut area.connection().await, table).await;
    together(callers, |caller| {
        let area = area.clone();
        async move {
            for first in (1..=ROWS).step_by(5) {
                // A crash before the commit.
                if caller % 4 == 0 {
                    let mut tx = area.begin().await.unwrap();
                    if is_first(&mut tx, first).await.is_ok_and(|first| first) {
                        let _ = count(&mut tx, first).await;
                    }
                }
                in_transaction!(area, |tx| {
                    for row in first..first + 5 {
                        if is_first(&mut tx, row).await? {
                            count(&mut tx, row).await?;
                        }
                    }
                });
            }
        }
    })
    .await;
    let mut connection = area.connection().await;
    assert_eq!(number(&mut connection, TOTAL).await, ROWS * (ROWS + 1) / 2);
    assert_eq!(number(&mut connection, "SELECT count(*) FROM imported").await, ROWS);
}

/// Without the unique key, importers that look at the same moment all count the row.
pub(crate) async fn look_then_insert_counts_many_times(area: impl Area, callers: usize) {
    let table = "CREATE TABLE seen (source VARCHAR(32) NOT NULL, number BIGINT NOT NULL)";
    run(&mut area.connection().await, table).await;
    let barrier = Arc::new(Barrier::new(callers));
    together(callers, |_| {
        let (area, barrier) = (area.clone(), barrier.clone());
        async move {
            let mut connection = area.connection().await;
            let look = "SELECT count(*) FROM seen WHERE source = 'bank' AND number = 1";
            let is_new = number(&mut connection, look).await == 0;
            barrier.wait().await;
            if is_new {
                run(&mut connection, "INSERT INTO seen VALUES ('bank', 1)").await;
                count(&mut connection, 1).await.unwrap();
            }
        }
    })
    .await;
    assert_eq!(number(&mut area.connection().await, TOTAL).await, callers as i64);
}
