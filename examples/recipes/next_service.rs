//! A function that calls another service with a key derived from its own.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example next_service
//! ```
//!
//! The other service runs in this process, on a port of its own. The page about it is
//! `docs/recipes/next-service.md`.
#![allow(clippy::print_stdout)]

use axum::Router;
use axum::routing::post;
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::{Error, Idempotency, current, idempotent};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use tokio::net::TcpListener;

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("the database is down")]
    DatabaseDown,
    #[error("the payment service: {0}")]
    Payment(#[from] reqwest::Error),
    #[error(transparent)]
    Refused(#[from] Error),
}

#[idempotent(
    name = "orders.create",
    key = "order",
    fingerprint = "cents",
    mode = "strong",
    expire = "24h"
)]
async fn create_order(shop: &Shop, order: u64, cents: u64) -> Result<String, OrderError> {
    let mut request = shop.http.post(&shop.charges).body(format!(r#"{{"cents":{cents}}}"#));
    if let Some(attempt) = current() {
        request = request.header("idempotency-key", attempt.derived_key("stripe.charge"));
    }
    let charge = request.send().await?.error_for_status()?.text().await?;
    shop.save(order, &charge)?;
    Ok(charge)
}

/// The payment service: each key is charged once.
fn payments(idem: &Idempotency, charged: Arc<AtomicU32>) -> Router {
    let charge = async move || format!("charge {}", charged.fetch_add(1, Relaxed) + 1);
    let layer = IdempotencyLayer::new(idem, "payments").require_key();
    Router::new().route("/charges", post(charge).layer::<_, Infallible>(layer))
}

struct Shop {
    http: reqwest::Client,
    charges: String,
    database_is_up: AtomicBool,
}

impl Shop {
    fn save(&self, _order: u64, _charge: &str) -> Result<(), OrderError> {
        if self.database_is_up.load(Relaxed) { Ok(()) } else { Err(OrderError::DatabaseDown) }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let charged = Arc::new(AtomicU32::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let charges = format!("http://{}/charges", listener.local_addr()?);
    // Another service has a store of its own.
    let theirs = payments(&Idempotency::in_memory()?, Arc::clone(&charged));
    tokio::spawn(axum::serve(listener, theirs).into_future());

    Idempotency::in_memory()?.install()?;
    let http = reqwest::Client::new();
    let shop = Shop { http, charges, database_is_up: AtomicBool::new(false) };

    let error = create_order(&shop, 42, 2_000).await.unwrap_err();
    println!("order 42: {error}");
    assert!(matches!(error, OrderError::DatabaseDown));
    assert_eq!(charged.load(Relaxed), 1, "the money has moved");

    shop.database_is_up.store(true, Relaxed);
    let charge = create_order(&shop, 42, 2_000).await?;
    println!("order 42, again: {charge}");
    assert_eq!((charge.as_str(), charged.load(Relaxed)), ("charge 1", 1), "and not once more");

    let charge = create_order(&shop, 43, 2_000).await?;
    println!("order 43: {charge}");
    assert_eq!(charge, "charge 2", "another order is another charge");
    Ok(())
}
