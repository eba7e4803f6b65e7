//! Can a file be imported again after a crash without its rows counting twice?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example import_rows
//! ```
//!
//! Every row has a number that its source gave it. A table with the unique key (source, number) is
//! written in the same transaction as the effect of the row, and tells which rows were imported.
#![allow(clippy::print_stdout)]

use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};

/// A row of a bank statement.
struct Booking {
    number: i64,
    cents: i64,
}

#[derive(Debug, Default, PartialEq)]
struct Report {
    imported: usize,
    skipped: usize,
    /// Rows that were imported with another content.
    changed: Vec<i64>,
}

/// Imports the rows that were not imported before. All of them count with the commit, or none.
async fn import(
    tx: &mut Transaction<'_, Sqlite>,
    source: &str,
    bookings: &[Booking],
) -> sqlx::Result<Report> {
    let mut report = Report::default();
    for Booking { number, cents } in bookings {
        let inserted = sqlx::query(
            "INSERT INTO imported (source, number, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(source)
        .bind(number)
        .bind(cents)
        .execute(&mut **tx)
        .await?;
        if inserted.rows_affected() == 1 {
            sqlx::query("UPDATE balance SET cents = cents + ?")
                .bind(cents)
                .execute(&mut **tx)
                .await?;
            report.imported += 1;
            continue;
        }
        let before: i64 =
            sqlx::query_scalar("SELECT cents FROM imported WHERE source = ? AND number = ?")
                .bind(source)
                .bind(number)
                .fetch_one(&mut **tx)
                .await?;
        match before == *cents {
            true => report.skipped += 1,
            false => report.changed.push(*number),
        }
    }
    Ok(report)
}

#[tokio::main]
async fn main() -> sqlx::Result<()> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
    sqlx::raw_sql(
        "CREATE TABLE balance (cents INTEGER NOT NULL);
         CREATE TABLE imported (
           source TEXT NOT NULL, number INTEGER NOT NULL, cents INTEGER NOT NULL,
           PRIMARY KEY (source, number));
         INSERT INTO balance VALUES (0);",
    )
    .execute(&mut connection)
    .await?;

    let monday: Vec<_> = (1..=3).map(|number| Booking { number, cents: 100 }).collect();
    let tuesday: Vec<_> = (2..=5).map(|number| Booking { number, cents: 100 }).collect();
    let corrected = [Booking { number: 5, cents: 150 }];

    // The process ends before the commit: no row has counted.
    let mut tx = connection.begin().await?;
    import(&mut tx, "bank-a", &monday).await?;
    tx.rollback().await?;

    for (name, source, bookings) in [
        ("monday", "bank-a", &monday[..]),
        ("monday again", "bank-a", &monday[..]),
        ("tuesday, which overlaps", "bank-a", &tuesday[..]),
        ("a corrected row", "bank-a", &corrected[..]),
        ("another bank", "bank-b", &monday[..]),
    ] {
        let mut tx = connection.begin().await?;
        let report = import(&mut tx, source, bookings).await?;
        tx.commit().await?;
        println!("{name}: {report:?}");
    }
    let cents: i64 =
        sqlx::query_scalar("SELECT cents FROM balance").fetch_one(&mut connection).await?;
    assert_eq!(cents, 800);
    println!("balance: {cents}");
    Ok(())
}
