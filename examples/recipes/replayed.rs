//! A function that tells its callers whether they got a replay.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example replayed
//! ```
//!
//! The page about it is `docs/recipes/replayed.md`.
#![allow(clippy::print_stdout)]

use idempotent_runtime::{Error, Fingerprint, Idempotency, Mode, Outcome};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
}

async fn create_order(idem: &Idempotency, id: u64, item: &str) -> Result<Outcome<Order>, Error> {
    idem.operation("orders.create")
        .key(id)
        .fingerprint(Fingerprint::of(item))
        .mode(Mode::Strong)
        .expire(Duration::from_secs(600))
        .run_detailed(async { Ok(Order { id, item: item.to_owned() }) })
        .await
}

/// The status of an HTTP response: created for the first caller, and no news for the others.
async fn respond(idem: &Idempotency, id: u64, item: &str) -> Result<(u16, Order), Error> {
    let order = create_order(idem, id, item).await?;
    let status = if order.replayed { 200 } else { 201 };
    Ok((status, order.value))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    let (status, first) = respond(&idem, 42, "lamp").await?;
    println!("{status} {first:?}");
    assert_eq!(status, 201);

    let (status, again) = respond(&idem, 42, "lamp").await?;
    println!("{status} {again:?}");
    assert_eq!((status, &again), (200, &first));

    // Of callers at the same time one runs, and the others wait for its answer.
    let at_once = tokio::join!(
        respond(&idem, 43, "chair"),
        respond(&idem, 43, "chair"),
        respond(&idem, 43, "chair")
    );
    let mut statuses = [at_once.0?.0, at_once.1?.0, at_once.2?.0];
    statuses.sort_unstable();
    println!("three at once: {statuses:?}");
    assert_eq!(statuses, [200, 200, 201]);
    Ok(())
}
