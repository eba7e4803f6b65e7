//! Three routes, and three places for idempotency: around the handler, and in the function behind it
//! with the client's key or with a key of its own.
//!
//! ```text
//! cargo run -p idempotent-recipe-examples --example http_handler
//! ```
//!
//! The page about it is `docs/recipes/http-handler.md`.
#![allow(clippy::print_stdout)]

use axum::routing::post;
use axum::{Json, Router};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Order {
    id: u64,
    address: String,
}

#[derive(Serialize, Deserialize)]
struct Done {
    number: u32,
}

/// Guarded by the layer, and knows nothing of keys.
async fn create_order(Json(order): Json<Order>) -> Json<Done> {
    Json(Done { number: work(&order.address) })
}

/// The key is the client's: without `key`, the function takes the one that the layer has read.
#[idempotent(mode = "strong", expire = "24h", fingerprint = "(order.id, order.address)")]
async fn write_invoice(order: Order) -> Result<Done, Error> {
    Ok(Done { number: work(&order.address) })
}

async fn create_invoice(Json(order): Json<Order>) -> Result<Json<Done>, Error> {
    write_invoice(order).await.map(Json)
}

/// The key is the order's: one shipment, for every client and every repeat.
#[idempotent(key = order.id, mode = "strong", expire = "24h", fingerprint = order.address)]
async fn ship_order(order: Order) -> Result<Done, Error> {
    Ok(Done { number: work(&order.address) })
}

async fn create_shipment(Json(order): Json<Order>) -> Result<Json<Done>, Error> {
    ship_order(order).await.map(Json)
}

fn service(idem: &Idempotency) -> Router {
    let layer = IdempotencyLayer::new(idem, "shop").require_key();
    let key_only = layer.clone().ambient_only();
    Router::new()
        .route("/orders", post(create_order).layer::<_, Infallible>(layer))
        .route("/invoices", post(create_invoice).layer::<_, Infallible>(key_only))
        .route("/shipments", post(create_shipment))
}

static DONE: AtomicU32 = AtomicU32::new(0);

/// Something that must not be done twice.
fn work(_address: &str) -> u32 {
    DONE.fetch_add(1, Relaxed) + 1
}

/// A client of the service.
struct Client {
    http: reqwest::Client,
    base: String,
}

impl Client {
    /// Sends order 42, and returns the status and the number in the answer.
    async fn post(
        &self,
        path: &str,
        key: Option<&str>,
        address: &str,
    ) -> Result<(u16, Option<u32>), Box<dyn std::error::Error>> {
        let mut request = self
            .http
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .body(format!(r#"{{"id":42,"address":"{address}"}}"#));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let problem = header("idempotency-problem").unwrap_or_default().to_owned();
        let mark = header("idempotent-replayed").map_or("", |_| ", marked as a replay");
        let number =
            serde_json::from_str(&response.text().await?).ok().map(|done: Done| done.number);
        let answer = number.map_or(problem, |number| format!("number {number}{mark}"));
        println!("{path:<11} {:<8} {address}: {status} {answer}", key.unwrap_or("no key"));
        Ok((status, number))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::in_memory()?;
    idem.install()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, service(&idem)).into_future());
    let client = Client { http: reqwest::Client::new(), base };

    for path in ["/orders", "/invoices"] {
        let first = client.post(path, Some("key-1"), "Rome").await?;
        assert_eq!(first, client.post(path, Some("key-1"), "Rome").await?, "a replay");
        let other = client.post(path, Some("key-2"), "Rome").await?;
        assert_ne!(first, other, "another key is another request");
        assert_eq!(client.post(path, Some("key-1"), "Oslo").await?.0, 422, "another payload");
        assert_eq!(client.post(path, None, "Rome").await?.0, 400, "no key");
    }
    let first = client.post("/shipments", None, "Rome").await?;
    assert_eq!(first, client.post("/shipments", Some("key-2"), "Rome").await?, "the same order");
    assert_eq!(client.post("/shipments", None, "Oslo").await?.0, 422, "another address");
    assert_eq!(DONE.load(Relaxed), 5);
    Ok(())
}
