//! A sender in a process of its own. The tests start it, and kill it between its steps.
#![allow(missing_docs)]

mod orders;
#[path = "../place.rs"]
mod place;

use idempotent_queue::producer::{Destination, Producer, RedisStream};
use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::testing::{FaultStore, Verb};
use idempotent_runtime::{Config, Idempotency};
use orders::{Broker, Orders, Point, STREAM, Work};
use place::Place;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use support::worker::end_with_whoever_started_this;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    end_with_whoever_started_this();
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let store = RedisStore::connect(&orders.redis).await.unwrap();
    match orders.work {
        Work::StopsAt(point, place) => stop_at(point, place, store).await,
        Work::SendsAll(messages) => send_all(messages, store).await,
    }
}

#[expect(clippy::print_stdout, reason = "whoever started this waits for the line")]
async fn stop_at(point: Point, place: Place, store: RedisStore) {
    let store = FaultStore::new(store);
    let config = Config::new().with_lease(Duration::from_millis(500));
    let idem = Idempotency::builder().store(store.clone()).config(config).build().unwrap();
    let (told, mut stopped) = unbounded_channel();
    let (broker, destination) = Broker::at(place).await;
    let publisher = Stopping { broker, point, told };
    let gate = (point == Point::BeforeTheRecord).then(|| store.hold(Verb::Complete));
    let sends = tokio::spawn(async move {
        let producer = Producer::new(&idem, Destination::new(publisher, destination));
        producer.send(42, "lamp").await
    });
    match &gate {
        Some(gate) => gate.arrived(1).await,
        None => stopped.recv().await.unwrap(),
    }
    println!("stopped");
    drop(sends.await);
    pending().await
}

async fn send_all(messages: u64, store: RedisStore) {
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    let producer = Arc::new(Producer::new(&idem, RedisStream::new(&store, STREAM)));
    let mut sends = JoinSet::new();
    for business_id in 0..messages {
        if sends.len() == 8 {
            sends.join_next().await;
        }
        let producer = Arc::clone(&producer);
        sends.spawn(async move { producer.send(business_id, "lamp").await.unwrap() });
    }
    sends.join_all().await;
}

/// A publisher that tells that it has got to a point, and stays there.
#[derive(Debug)]
struct Stopping {
    broker: Broker,
    point: Point,
    told: UnboundedSender<()>,
}

impl Stopping {
    async fn reached(&self, point: Point) {
        if self.point == point {
            self.told.send(()).unwrap();
            pending().await
        }
    }
}

impl Publisher for Stopping {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        self.reached(Point::AtTheBroker).await;
        let receipt = self.broker.publish(message).await?;
        self.reached(Point::WithoutConfirmation).await;
        Ok(receipt)
    }
}
