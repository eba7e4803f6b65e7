//! How are messages of a Redis stream handled once each?
//!
//! ```text
//! cargo run -p idempotent-queue-examples --example redis_stream_orders
//! ```
//!
//! Needs a Redis at `REDIS_URL`, or at `redis://127.0.0.1/`. Orders are sent, one of them twice, as a producer
//! does that got no confirmation. The consumer handles each once, and sets one aside that cannot be handled.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use idempotent_queue::redis_streams::{StreamDeliveries, StreamPublisher};
use idempotent_queue::{Consumer, Outgoing, PublishErrorKind, Publisher as _};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::Deserialize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

const STREAM: &str = "example:orders";

#[derive(Deserialize)]
struct Order {
    id: u64,
    cents: u64,
}

/// Orders that were handled, and the signal that all of them were.
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static ALL_HANDLED: Notify = Notify::const_new();

// Without a `key`, the message's own `idempotency-key` is the key.
#[idempotent(mode = "strong", expire = "7d")]
async fn charge(order: Order) -> Result<u64, Error> {
    println!("order {}: {} cents are charged", order.id, order.cents);
    Ok(order.cents)
}

#[tokio::main]
async fn main() -> ExitCode {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    match run(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let store = RedisStore::connect(url).await.map_err(|error| {
        format!(
            "{error}\n\nThis example needs a Redis or Valkey server, 6.2 or later:\n\
             \x20   apt-get install redis-server && redis-server\n\
             \x20   docker run --rm -p 6379:6379 valkey/valkey\n\
             Or name another one: REDIS_URL=redis://user:password@host:6379/0"
        )
    })?;
    let idem = Idempotency::builder().store(store).build()?;

    // Another run has other orders.
    let run = std::process::id();
    let publisher = StreamPublisher::new(url)?;
    for (order, payload) in [
        (1, r#"{"id":1,"cents":1200}"#),
        (2, r#"{"id":2,"cents":700}"#),
        // Sent again, as after a confirmation that was lost.
        (1, r#"{"id":1,"cents":1200}"#),
        (3, "this is no order"),
        (4, r#"{"id":4,"cents":50}"#),
    ] {
        let message = Outgoing::new(STREAM, format!("order-{run}-{order}"), payload);
        match publisher.publish(&message).await {
            Ok(receipt) => {
                println!("sent: order {order}, entry {}", receipt.position().unwrap_or("?"));
            }
            Err(error) if error.kind() == PublishErrorKind::Permanent => return Err(error.into()),
            Err(error) => return Err(format!("not sent, and may be sent again: {error}").into()),
        }
    }

    let orders = StreamDeliveries::new(url, STREAM, "shop")?.delete_settled();
    let consumer = Consumer::new(&idem, "charges")
        .max_attempts(5)
        .shutdown_on(async { ALL_HANDLED.notified().await });
    let handler = |order: Order| async move {
        let id = order.id;
        let charged = charge(order).await;
        // Four of the five can be read. One of them is a repeat, whose answer is that of the first.
        println!("order {id}: answered {charged:?}");
        if charged.is_ok() && HANDLED.fetch_add(1, SeqCst) + 1 == 4 {
            ALL_HANDLED.notify_one();
        }
        charged
    };
    consumer.run(orders, handler).await?;
    println!("what could not be handled is in the stream {STREAM}:dead");
    Ok(())
}
