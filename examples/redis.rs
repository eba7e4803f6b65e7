//! Do two processes share one execution?
//!
//! ```text
//! cargo run --example redis
//! REDIS_URL=redis://127.0.0.1/ cargo run --example redis
//! ```
//!
//! This process starts two more of itself. Both call the same function with the same key, at the
//! same time, on the same Redis. The body runs in one of them; the other waits and gets the answer.
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::Duration;
use support::redis::RedisServer;

#[derive(Debug, Serialize, Deserialize)]
struct Payment {
    order: u64,
    charged_by: u32,
}

#[idempotent(key = "order", expire = "10m", mode = "strong", wait = "10s")]
async fn charge(order: u64) -> Result<Payment, Error> {
    let charged_by = std::process::id();
    println!("  process {charged_by}: the body runs");
    // Long enough for the other process to ask meanwhile.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(Payment { order, charged_by })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let Some(url) = arguments.next() {
        let order = arguments.next().unwrap_or_default().parse()?;
        return child(&url, order).await;
    }
    let (_server, url) = server();
    let order: u64 = rand::random();
    println!("two processes charge order {order} at once");
    let this = std::env::current_exe()?;
    let start = || Command::new(&this).arg(&url).arg(order.to_string()).spawn();
    for mut child in [start()?, start()?] {
        if !child.wait()?.success() {
            return Err("a process failed".into());
        }
    }
    println!("one execution, two answers");
    Ok(())
}

async fn child(url: &str, order: u64) -> Result<(), Box<dyn std::error::Error>> {
    let store = RedisStore::connect(url).await?;
    Idempotency::builder().store(store).build()?.install()?;
    let payment = charge(order).await?;
    println!("  process {}: charged by {}", std::process::id(), payment.charged_by);
    Ok(())
}

/// The server that `REDIS_URL` names, or one that ends with this process.
fn server() -> (Option<RedisServer>, String) {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return (None, url);
    }
    let server = RedisServer::start();
    let url = server.url();
    (Some(server), url)
}
