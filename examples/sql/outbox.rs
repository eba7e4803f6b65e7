//! How does a message get sent exactly if a transaction commits?
//!
//! ```text
//! cargo run -p idempotent-sql-examples --example outbox
//! ```
//!
//! Orders are written together with messages about them. One transaction is rolled back, and sends
//! nothing. Two relays send what the others have committed, to a broker that loses its connection
//! once and its confirmation once; the receiver drops repeats by the id of the message, and sees the
//! events of every order in their order.
#![allow(clippy::print_stdout)]

use idempotent_sql::outbox::{Message, Outbox, Outgoing, PublishError, Publisher, Receipt, Relay};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const OUTBOX: Outbox = Outbox::new("idempotent_outbox");

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A broker with one receiver.
#[derive(Default)]
struct Broker {
    deliveries: usize,
    ids: HashSet<String>,
    events: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Default)]
struct BrokerClient(Arc<Mutex<Broker>>);

impl Publisher for BrokerClient {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let mut broker =
            self.0.lock().map_err(|_| PublishError::permanent("a receiver panicked"))?;
        broker.deliveries += 1;
        let delivery = broker.deliveries;
        if delivery == 2 {
            return Err(PublishError::unavailable("connection refused"));
        }
        let first = broker.ids.insert(message.id().to_owned());
        println!(
            "{} of {}{}",
            message.kind(),
            message.key().unwrap_or_default(),
            if first { "" } else { " again: dropped" }
        );
        if first {
            let events =
                broker.events.entry(message.key().unwrap_or_default().to_owned()).or_default();
            events.push(message.kind().to_owned());
        }
        match delivery {
            3 => Err(PublishError::retryable("the confirmation was lost")),
            _ => Ok(Receipt::new()),
        }
    }
}

/// Writes an event of an order, and the message about it, in one transaction.
async fn order(pool: &SqlitePool, id: &str, event: &str, declined: bool) -> Result<(), Failure> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO events (order_id, event) VALUES (?, ?)")
        .bind(id)
        .bind(event)
        .execute(&mut *tx)
        .await?;
    OUTBOX.send(&mut tx, Message::new("orders", id, "{}").kind(event)).await?;
    if declined {
        tx.rollback().await?;
    } else {
        tx.commit().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let file = std::env::temp_dir().join(format!("outbox-{}.sqlite", std::process::id()));
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
    sqlx::query("CREATE TABLE events (order_id TEXT, event TEXT)").execute(&pool).await?;
    OUTBOX.migrate(&mut pool.acquire().await?).await?;

    for id in ["order-1", "order-2", "order-3"] {
        order(&pool, id, "Created", false).await?;
        order(&pool, id, "Paid", id == "order-2").await?;
    }

    let broker = BrokerClient::default();
    let relays = [(); 2].map(|()| {
        Relay::new(OUTBOX, pool.clone(), broker.clone()).poll(Duration::from_millis(50)).start()
    });
    while OUTBOX.backlog(&mut pool.acquire().await?).await?.waiting > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for relay in relays {
        relay.shutdown(Duration::from_secs(5)).await;
    }

    pool.close().await;
    let broker = broker.0.lock().map_err(|_| "a receiver panicked")?;
    println!("{:?}, in {} deliveries", broker.events, broker.deliveries);
    assert_eq!(broker.events["order-1"], ["Created", "Paid"]);
    assert_eq!(broker.events["order-2"], ["Created"], "its payment was rolled back");
    assert_eq!(broker.events["order-3"], ["Created", "Paid"]);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    Ok(())
}
