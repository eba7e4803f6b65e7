//! How are messages of NATS JetStream handled once, although they are sent and delivered more than once?
//!
//! ```text
//! nats-server -js
//! cargo run -p idempotent-queue-examples --example nats_orders
//! ```
//!
//! `NATS_URL` names another server. Orders are sent to a stream: one of them twice within the window in
//! which the server drops repeats, and one twice by a producer that has forgotten its first try. The
//! consumer charges each order once. One order is declined, and becomes a dead letter.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use async_nats::jetstream::{self, Context, stream};
use idempotent_queue::{Consumer, Outgoing, Publisher, nats};
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
struct Order {
    id: u64,
    amount: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum OrderError {
    Declined,
    Refused(String),
}

impl OrderError {
    fn is_final(&self) -> bool {
        matches!(self, Self::Declined)
    }
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declined => formatter.write_str("the card was declined"),
            Self::Refused(text) => formatter.write_str(text),
        }
    }
}

// Without a `key`, the message's own `idempotency-key` is the key.
#[idempotent(mode = "strong", expire = "7d", final_errors = "OrderError::is_final")]
async fn charge(order: Order) -> Result<u64, OrderError> {
    if order.amount > 1_000 {
        println!("order {}: {} is too much", order.id, order.amount);
        return Err(OrderError::Declined);
    }
    println!("order {}: charged {}", order.id, order.amount);
    Ok(order.amount)
}

#[tokio::main]
async fn main() -> ExitCode {
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://localhost:4222".to_owned());
    let client = match async_nats::connect(&url).await {
        Ok(client) => client,
        Err(error) => {
            eprintln!("no NATS server at {url}: {error}");
            eprintln!(
                "help: start one with `nats-server -js` (Debian: apt-get install nats-server)"
            );
            return ExitCode::FAILURE;
        }
    };
    match run(&jetstream::new(client)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            eprintln!("help: JetStream has to be enabled, as `nats-server -js` does");
            ExitCode::FAILURE
        }
    }
}

async fn run(jetstream: &Context) -> Result<(), Failure> {
    // A stream of this run, which is deleted at its end.
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let (name, subject) = (format!("ORDERS_{run}"), format!("orders.{run}"));
    let config = stream::Config {
        name: name.clone(),
        subjects: vec![subject.clone()],
        ..stream::Config::default()
    };
    jetstream.create_stream(config).await?;
    send_orders(jetstream, &subject).await?;

    let idem = Idempotency::in_memory()?;
    let orders = nats::deliveries(jetstream, &name, "shop").create([&subject]);
    let consumer = Consumer::new(&idem, "orders").max_attempts(5);
    consumer.shutdown_on(all_settled(jetstream.clone(), name.clone())).run(orders, charge).await?;

    let aside = format!("{name}_shop_aside");
    let letter = jetstream.get_stream(&aside).await?.get_raw_message(1).await?;
    let reason = letter.headers.get("idempotent-error").map_or("", |reason| reason.as_str());
    println!("dead letter in {}: {}, since {reason}", letter.subject, text(&letter.payload));
    for stream in [name, aside] {
        jetstream.delete_stream(stream).await?;
    }
    Ok(())
}

async fn send_orders(jetstream: &Context, subject: &str) -> Result<(), Failure> {
    let publisher = nats::publisher(jetstream);
    let first = Outgoing::new(subject, "order-1", r#"{"id":1,"amount":20}"#);
    let second = Outgoing::new(subject, "order-2", r#"{"id":2,"amount":35}"#);
    // Another id for the server, and the same key for the consumer.
    let forgotten = Outgoing::new(subject, "order-2-again", r#"{"id":2,"amount":35}"#)
        .with_header("idempotency-key", "order-2");
    let large = Outgoing::new(subject, "order-3", r#"{"id":3,"amount":5000}"#);
    for message in [&first, &first, &second, &forgotten, &large] {
        let receipt = publisher.publish(message).await?;
        println!("sent {}, which is {}", message.id(), receipt.position().unwrap_or_default());
    }
    Ok(())
}

/// Resolves when the consumer has nothing left to do.
async fn all_settled(jetstream: Context, stream: String) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(stream) = jetstream.get_stream_no_info(&stream).await else { continue };
        let Ok(info) = stream.consumer_info("shop").await else { continue };
        if info.num_pending == 0
            && info.num_ack_pending == 0
            && info.delivered.consumer_sequence > 0
        {
            return;
        }
    }
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}
