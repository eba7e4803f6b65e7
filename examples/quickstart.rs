//! What does `#[idempotent]` do to an async function?
//!
//! ```text
//! cargo run --example quickstart
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::{MemoryStore, Record};
use idempotent_runtime::{ErrorKind, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Clone, Copy)]
struct CreateOrder {
    order_id: u64,
    quantity: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    receipt: u32,
}

#[derive(Debug)]
enum ShopError {
    OutOfStock,
    Refused(idempotent_runtime::Error),
}

impl From<idempotent_runtime::Error> for ShopError {
    fn from(error: idempotent_runtime::Error) -> Self {
        Self::Refused(error)
    }
}

static BODIES: AtomicU32 = AtomicU32::new(0);
static STOCK: AtomicU32 = AtomicU32::new(50);

#[idempotent(key = "req.order_id", expire = 300, mode = "strong")]
async fn create_order(req: CreateOrder) -> Result<Order, ShopError> {
    let receipt = BODIES.fetch_add(1, Relaxed) + 1;
    take_from_stock(req.quantity).await?;
    Ok(Order { id: req.order_id, receipt })
}

#[idempotent(key = order_id, mode = "reject", message = "the order is on its way already")]
async fn ship_order(order_id: u64) -> Result<(), ShopError> {
    BODIES.fetch_add(1, Relaxed);
    Ok(())
}

async fn take_from_stock(quantity: u32) -> Result<(), ShopError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let taken = STOCK.fetch_update(Relaxed, Relaxed, |stock| stock.checked_sub(quantity));
    taken.map(drop).map_err(|_| ShopError::OutOfStock)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let idem = Idempotency::builder().store(MemoryStore::new()).build()?;
    idem.install()?;

    title(1, "The first call runs the body");
    let lamp = CreateOrder { order_id: 42, quantity: 1 };
    let first = create_order(lamp).await;
    show("create_order(42)", &first);
    assert_eq!(BODIES.load(Relaxed), 1);

    title(2, "A repeat gets the stored answer");
    let again = create_order(lamp).await;
    show("create_order(42)", &again);
    assert!(matches!((first, again), (Ok(first), Ok(again)) if first == again));
    assert_eq!(BODIES.load(Relaxed), 1);

    title(3, "Ten callers at once, one execution");
    let chair = CreateOrder { order_id: 43, quantity: 1 };
    let mut callers: JoinSet<_> = (0..10).map(|_| create_order(chair)).collect();
    for caller in 1..=10 {
        let answer = callers.join_next().await.ok_or("ten callers were started")??;
        show(&format!("create_order(43), caller {caller:>2}"), &answer);
        assert!(matches!(answer, Ok(Order { receipt: 2, .. })));
    }
    assert_eq!(BODIES.load(Relaxed), 2);

    title(4, "An error frees the key");
    let shelves = CreateOrder { order_id: 44, quantity: 100 };
    let empty = create_order(shelves).await;
    show("create_order(44)", &empty);
    assert!(matches!(empty, Err(ShopError::OutOfStock)));
    STOCK.store(200, Relaxed);
    let refilled = create_order(shelves).await;
    show("create_order(44), refilled", &refilled);
    assert!(refilled.is_ok());
    assert_eq!(BODIES.load(Relaxed), 4);

    title(5, "mode = \"reject\": a duplicate is refused");
    show("ship_order(42)", &ship_order(42).await);
    let duplicate = ship_order(42).await;
    show("ship_order(42)", &duplicate);
    let Err(ShopError::Refused(error)) = duplicate else { panic!("the duplicate ran") };
    assert_eq!(error.kind(), ErrorKind::Duplicate);
    assert_eq!(BODIES.load(Relaxed), 5);
    println!("   in full: {error}");

    title(6, "What the store holds");
    for (name, key) in [("create_order", 42_u64), ("create_order", 44), ("ship_order", 42)] {
        let operation = idem.operation(format!("quickstart::{name}")).key(key);
        let record = operation.get().await?.ok_or("the record is gone")?;
        println!("   {}", operation.record_key()?.as_str());
        println!("     {}", described(&record));
    }
    Ok(())
}

fn title(number: u32, text: &str) {
    println!("\n{number}. {text}");
}

fn show<T: std::fmt::Debug>(call: &str, answer: &Result<T, ShopError>) {
    let answer = match answer {
        Ok(value) => format!("{value:?}"),
        Err(ShopError::Refused(error)) => format!("refused: {}", error.message()),
        Err(error) => format!("{error:?}"),
    };
    println!("   {call:<27}  {answer:<40}  bodies run: {}", BODIES.load(Relaxed));
}

fn described(record: &Record) -> String {
    // The first byte tells which codec wrote the rest.
    let value = match record.value.as_ref().and_then(|value| value.as_bytes().split_first()) {
        Some((_codec, json)) => String::from_utf8_lossy(json).into_owned(),
        None => "no value".to_owned(),
    };
    let (state, attempt) = (record.head.state, record.head.attempt.number);
    let ttl = record.ttl.as_secs_f32();
    format!("{state:?}, attempt {attempt}, expires in {ttl:.0} s, {value}")
}
