//! Can a payment be reported twice without an order being paid twice?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example order_states
//! ```
//!
//! A payment provider repeats its messages, and sometimes two customers' browsers pay the same
//! order. The states of an order and the events between them are declared once; each event is
//! applied once per id, in the transaction that has its effects.
#![allow(clippy::print_stdout)]

use idempotent_sql::transitions::{StateMachine, TransitionOutcome, Transitions};
use sqlx::{Connection as _, Sqlite, SqliteConnection, Transaction};

#[derive(Debug, Transitions)]
#[transitions(
    pay: Pending => Paid,
    ship: Paid => Shipped,
    cancel: Pending | Paid => Cancelled,
)]
enum OrderStatus {
    Pending,
    Paid,
    Shipped,
    Cancelled,
}

const ORDERS: StateMachine<OrderStatus> = StateMachine::new("orders", "id", "status");

type Failure = Box<dyn std::error::Error>;

/// Books a payment, once per payment.
async fn pay(
    tx: &mut Transaction<'_, Sqlite>,
    order: i64,
    payment: &str,
) -> Result<String, Failure> {
    Ok(match ORDERS.apply(tx, order, OrderStatus::pay(), payment).await? {
        TransitionOutcome::Applied { from, to } => {
            sqlx::query("INSERT INTO ledger (order_id, payment) VALUES (?, ?)")
                .bind(order)
                .bind(payment)
                .execute(&mut **tx)
                .await?;
            format!("{from:?} -> {to:?}")
        }
        TransitionOutcome::Again => "done before".to_owned(),
        TransitionOutcome::Conflict { by } => format!("refund it: already paid by {by}"),
        TransitionOutcome::NotAllowed { from } => format!("refund it: the order is {from:?}"),
        TransitionOutcome::NotFound => "no such order".to_owned(),
    })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
    sqlx::raw_sql(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL);
         CREATE TABLE ledger (order_id INTEGER NOT NULL, payment TEXT NOT NULL);
         INSERT INTO orders VALUES (1, 'pending'), (2, 'pending');",
    )
    .execute(&mut connection)
    .await?;
    ORDERS.migrate(&mut connection).await?;

    println!("{}", OrderStatus::MERMAID);
    for (order, payment) in [(1, "card-7"), (1, "card-7"), (1, "transfer-3"), (9, "card-8")] {
        let mut tx = connection.begin().await?;
        println!("order {order}, payment {payment}: {}", pay(&mut tx, order, payment).await?);
        tx.commit().await?;
    }

    for (order, event, id) in [
        (1, OrderStatus::ship(), "parcel-1"),
        (1, OrderStatus::cancel(), "click-1"),
        (2, OrderStatus::cancel(), "click-2"),
    ] {
        let mut tx = connection.begin().await?;
        let outcome = ORDERS.apply(&mut tx, order, event, id).await?;
        tx.commit().await?;
        println!("order {order}, {}: {outcome:?}", event.event());
    }

    // The message about the first payment arrives once more, after the parcel has gone.
    let mut tx = connection.begin().await?;
    println!("order 1, payment card-7: {}", pay(&mut tx, 1, "card-7").await?);
    tx.commit().await?;

    println!("\nthe log of order 1:");
    for entry in ORDERS.history(&mut connection, 1).await? {
        println!("  {} by {}: {} -> {}", entry.event, entry.id, entry.from, entry.to);
    }
    let booked: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(&mut connection).await?;
    assert_eq!(booked, 1);
    println!("{booked} payment booked");
    Ok(())
}
