//! A function that tells its callers whether they got a replay.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example replayed
//! ```
//!
//! The page about it is `docs/recipes/replayed.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::{Error, Idempotency, Outcome, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
}

#[idempotent(key = id, fingerprint = item, mode = "strong", expire = "10m")]
async fn create_order(id: u64, item: &str) -> Result<Outcome<Order>, Error> {
    Ok(Order { id, item: item.to_owned() }.into())
}

/// The status of an HTTP response: created for the first caller, and no news for the others.
async fn respond(id: u64, item: &str) -> Result<(u16, Order), Error> {
    let order = create_order(id, item).await?;
    let status = if order.replayed { 200 } else { 201 };
    Ok((status, order.value))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Idempotency::in_memory()?.install()?;
    let (status, first) = respond(42, "lamp").await?;
    println!("{status} {first:?}");
    assert_eq!(status, 201);

    let (status, again) = respond(42, "lamp").await?;
    println!("{status} {again:?}");
    assert_eq!((status, &again), (200, &first));

    // Of callers at the same time one runs, and the others wait for its answer.
    let at_once = tokio::join!(respond(43, "chair"), respond(43, "chair"), respond(43, "chair"));
    let mut statuses = [at_once.0?.0, at_once.1?.0, at_once.2?.0];
    statuses.sort_unstable();
    println!("three at once: {statuses:?}");
    assert_eq!(statuses, [200, 200, 201]);
    Ok(())
}
