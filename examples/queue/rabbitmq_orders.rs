//! How does a consumer of RabbitMQ handle a message once that is sent twice?
//!
//! ```text
//! cargo run -p idempotent-queue-examples --example rabbitmq_orders
//! ```
//!
//! Three orders are sent, one of them twice, and one fails at first. The broker is the one that `AMQP_URL`
//! names, or that of this machine. The queues begin with `idempotent-example-orders`, and stay.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use idempotent_queue::rabbitmq::RabbitMq;
use idempotent_queue::{Consumer, Outgoing, Publisher};
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;

const QUEUE: &str = "idempotent-example-orders";
const ORDERS: [u64; 4] = [1, 2, 2, 3];

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum OrderError {
    PaymentIsDown,
    Refused(String),
}

impl From<Error> for OrderError {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PaymentIsDown => formatter.write_str("the payment service is down"),
            Self::Refused(text) => formatter.write_str(text),
        }
    }
}

static PAYMENTS: AtomicU32 = AtomicU32::new(0);

/// Without a `key`, the message's own `idempotency-key` is the key.
#[idempotent(mode = "strong", expire = "7d")]
async fn on_order(order: Order) -> Result<u32, OrderError> {
    static CALLS_FOR_3: AtomicU32 = AtomicU32::new(0);
    if order.id == 3 && CALLS_FOR_3.fetch_add(1, Relaxed) == 0 {
        return Err(OrderError::PaymentIsDown);
    }
    Ok(PAYMENTS.fetch_add(1, Relaxed) + 1)
}

#[tokio::main]
async fn main() -> ExitCode {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "amqp://localhost".to_owned());
    let rabbit = match RabbitMq::connect(&url).await {
        Ok(rabbit) => rabbit,
        Err(error) => {
            eprintln!("{error}");
            eprintln!(
                "help: start RabbitMQ, or name one by AMQP_URL=amqp://user:password@host:5672"
            );
            eprintln!("    apt-get install rabbitmq-server");
            eprintln!("    docker run --rm -p 5672:5672 rabbitmq:4");
            return ExitCode::FAILURE;
        }
    };
    match run(&rabbit).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(rabbit: &RabbitMq) -> Result<(), Box<dyn std::error::Error>> {
    rabbit.declare_queue(QUEUE).await?;
    let publisher = rabbit.publisher();
    // Of this run: the records are in memory, and so are those of an earlier one not here.
    let run = std::process::id();
    for id in ORDERS {
        let message =
            Outgoing::new(QUEUE, format!("{run}-{id}"), serde_json::to_vec(&Order { id })?);
        publisher.publish(&message).await?;
        println!("sent      order {id}");
    }

    let idem = Idempotency::in_memory()?;
    let (done, mut handled) = mpsc::unbounded_channel();
    let all_handled = async move {
        for _ in ORDERS {
            handled.recv().await;
        }
    };
    let handler = move |order: Order| {
        let done = done.clone();
        async move {
            let id = order.id;
            let answer = on_order(order).await;
            match &answer {
                Ok(payment) => {
                    println!("handled   order {id}: payment {payment}");
                    let _ = done.send(());
                }
                Err(error) => println!("comes again   order {id}: {error}"),
            }
            answer
        }
    };
    // The last messages are settled before it ends.
    Consumer::new(&idem, "orders")
        .max_attempts(5)
        .backoff(Duration::from_millis(200), Duration::from_secs(5))
        .shutdown_on(all_handled)
        .run(rabbit.deliveries(QUEUE), handler)
        .await?;
    println!("{} messages, {} payments", ORDERS.len(), PAYMENTS.load(Relaxed));
    rabbit.close().await?;
    Ok(())
}
