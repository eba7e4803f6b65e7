//! How does an axum service handle each request once?
//!
//! ```text
//! cargo run --example axum_orders -- --port 3000
//! ```
//!
//! Three routes, three places for the key: a header, a parameter of the query, and a field of the
//! body. The service prints lines to try. With `RedisStore::connect(url)` in the place of the memory
//! store, any number of servers handle each request once between them.
#![allow(clippy::print_stdout)]

use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use http::header::{HeaderName, LOCATION};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;

/// Number of times that something was done.
static DONE: AtomicU32 = AtomicU32::new(0);

fn next_number() -> u32 {
    DONE.fetch_add(1, Relaxed) + 1
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Serialize)]
struct Order {
    number: u32,
    item: String,
}

/// The layer guards the whole exchange: this knows nothing of keys.
async fn create_order(
    Json(new): Json<NewOrder>,
) -> (StatusCode, [(HeaderName, String); 1], Json<Order>) {
    let number = next_number();
    let location = (LOCATION, format!("/orders/{number}"));
    (StatusCode::CREATED, [location], Json(Order { number, item: new.item }))
}

#[derive(Deserialize)]
struct NewPayment {
    cents: u64,
}

#[derive(Serialize)]
struct Payment {
    number: u32,
    cents: u64,
}

async fn pay(Json(new): Json<NewPayment>) -> Json<Payment> {
    Json(Payment { number: next_number(), cents: new.cents })
}

#[derive(Deserialize)]
struct Ship {
    order_id: u64,
    address: String,
}

#[derive(Serialize, Deserialize)]
struct Shipment {
    number: u32,
    address: String,
}

/// One shipment for each order, whichever client asks for it. A refusal becomes a response by itself.
#[idempotent(key = req.order_id, fingerprint = req.address, expire = "1h", mode = "strong")]
async fn ship_order(req: Ship) -> Result<Shipment, Error> {
    Ok(Shipment { number: next_number(), address: req.address })
}

async fn ship(Json(req): Json<Ship>) -> Result<Json<Shipment>, Error> {
    ship_order(req).await.map(Json)
}

fn service(idem: &Idempotency) -> Router {
    let layer = IdempotencyLayer::new(idem, "shop").require_key();
    let by_query = layer.clone().query_parameter("token");
    Router::new()
        .route("/orders", post(create_order).layer::<_, Infallible>(layer))
        .route("/payments", post(pay).layer::<_, Infallible>(by_query))
        .route("/shipments", post(ship))
}

fn print_lines_to_try(address: &str) {
    let json = "-H 'content-type: application/json'";
    let order = format!("curl -i http://{address}/orders {json}");
    let key = r#"-H 'Idempotency-Key: "order-1"'"#;
    println!("the key in a header; the second answer is a replay, the others are refused:");
    println!(r#"  {order} {key} -d '{{"item":"lamp"}}'"#);
    println!(r#"  {order} {key} -d '{{"item":"lamp"}}'"#);
    println!(r#"  {order} {key} -d '{{"item":"chair"}}'"#);
    println!(r#"  {order} -d '{{"item":"lamp"}}'"#);
    println!("the key in the query:");
    println!(r#"  curl -i 'http://{address}/payments?token=p-1' {json} -d '{{"cents":500}}'"#);
    println!(r#"  curl -i 'http://{address}/payments?token=p-1' {json} -d '{{"cents":500}}'"#);
    println!("the key in a field; the last one is refused:");
    let shipment = format!("curl -i http://{address}/shipments {json}");
    println!(r#"  {shipment} -d '{{"order_id":42,"address":"Rome"}}'"#);
    println!(r#"  {shipment} -d '{{"order_id":42,"address":"Rome"}}'"#);
    println!(r#"  {shipment} -d '{{"order_id":42,"address":"Oslo"}}'"#);
    println!("Ctrl-C ends it");
}

/// What follows `--port`; 3000 if nothing does.
fn port() -> Result<u16, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => Ok(3000),
        [flag, port] if flag == "--port" => {
            port.parse().map_err(|_| format!("`{port}` is not a port"))
        }
        _ => Err("help: axum_orders --port 3000".to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::builder().store(MemoryStore::new()).build()?;
    idem.install()?;
    let listener = TcpListener::bind(("127.0.0.1", port()?)).await?;
    print_lines_to_try(&listener.local_addr()?.to_string());

    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, service(&idem)).with_graceful_shutdown(interrupted).await?;
    // Handlers whose clients have gone are waited for as well.
    let drained = idem.shutdown(Duration::from_secs(10)).await;
    println!("{drained:?}: {} things were done", DONE.load(Relaxed));
    Ok(())
}
