//! A consumer in a process of its own. The tests start it, stop it at a point, and kill it.
#![allow(missing_docs)]

#[allow(dead_code, reason = "the tests read the ledger")]
mod orders;
#[path = "../place.rs"]
mod place;

use idempotent_queue::rabbitmq::RabbitMq;
use idempotent_queue::redis_streams::StreamDeliveries;
use idempotent_queue::{
    Consumer, Deliveries, Delivery, Message, PrepareError, Prepared, QueueError, Reason, Terms,
    kafka, nats,
};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Config, Error, Idempotency, idempotent};
use orders::{Ledger, Orders, POISON, Point, UNTRACED};
use place::Place;
use std::future::pending;
use std::sync::OnceLock;
use std::time::Duration;
use support::worker::end_with_whoever_started_this;

/// The things that a body needs.
struct Process {
    stop: Option<Point>,
    ledger: Ledger,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

fn process() -> &'static Process {
    PROCESS.get().expect("it is set before the consumer runs")
}

/// Stays here for ever, if that was ordered.
#[expect(clippy::print_stdout, reason = "whoever started this waits for the line")]
async fn reached(point: Point) {
    if process().stop == Some(point) {
        println!("stopped");
        pending().await
    }
}

#[idempotent(name = "orders.handle", key = "key", mode = "strong", wait = "0s", expire = "1h")]
async fn handle(key: &str) -> Result<(), Error> {
    process().ledger.note("start", key);
    if key.starts_with(POISON) {
        std::process::abort();
    }
    reached(Point::InTheBody).await;
    tokio::task::yield_now().await;
    process().ledger.note("end", key);
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let orders = std::env::args().nth(1).expect("the orders are the only argument");
    end_with_whoever_started_this();
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let process = Process { stop: orders.stop, ledger: Ledger::open(&orders.ledger) };
    assert!(PROCESS.set(process).is_ok());
    match orders.place.clone() {
        Place::Kafka { config, topic } => {
            let config = config.into_iter().collect();
            run(&orders, kafka::deliveries(&config, [&*topic])).await;
        }
        Place::Nats { url, stream, consumer, .. } => {
            // The server may be restarting.
            let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
            let client = options.connect(url).await.unwrap();
            let jetstream = async_nats::jetstream::new(client);
            run(&orders, nats::deliveries(&jetstream, stream, consumer)).await;
        }
        Place::RabbitMq { url, queue } => {
            run(&orders, RabbitMq::builder(&url).unwrap().build().deliveries(queue)).await;
        }
        Place::RedisStream { url, stream, group, claim_after_ms } => {
            let source = StreamDeliveries::new(&url, &*stream, &*group).unwrap();
            run(&orders, source.claim_after(Duration::from_millis(claim_after_ms))).await;
        }
    }
}

async fn run(orders: &Orders, source: impl Deliveries) {
    let config = Config::new().with_lease(Duration::from_millis(orders.lease_ms));
    let store = connect(&orders.redis).await;
    let idem = Idempotency::builder().store(store).config(config).build().unwrap();
    let handler = |key: String| async move {
        if key.starts_with(UNTRACED) {
            process().ledger.note("start", &key);
            std::process::abort();
        }
        reached(Point::BeforeTheBody).await;
        let handled = handle(&key).await;
        reached(Point::AfterTheBody).await;
        handled
    };
    Consumer::new(&idem, "orders")
        .concurrency(orders.concurrency)
        .max_attempts(orders.max_attempts)
        .heartbeat(Duration::from_millis(orders.heartbeat_ms))
        .backoff(Duration::from_millis(20), Duration::from_millis(200))
        .shutdown_on(terminated())
        .run(Stopping(source), handler)
        .await
        .unwrap();
}

/// Resolves when this process is asked to end.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate()).unwrap().recv().await;
}

/// Connects to a server that may be restarting.
async fn connect(url: &str) -> RedisStore {
    loop {
        if let Ok(store) = RedisStore::connect(url).await {
            return store;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Deliveries that stop around their acknowledgement.
struct Stopping<S>(S);

impl<S: Deliveries> Deliveries for Stopping<S> {
    type Delivery = StoppingDelivery<S::Delivery>;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        self.0.prepare(terms).await
    }

    async fn next(&mut self) -> Result<Option<Self::Delivery>, QueueError> {
        Ok(self.0.next().await?.map(StoppingDelivery))
    }
}

struct StoppingDelivery<D>(D);

impl<D: Delivery> Delivery for StoppingDelivery<D> {
    fn message(&self) -> &Message {
        self.0.message()
    }

    async fn ack(self) -> Result<(), QueueError> {
        reached(Point::BeforeTheAck).await;
        self.0.ack().await?;
        reached(Point::AfterTheAck).await;
        Ok(())
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        self.0.again(after).await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        self.0.dead_letter(reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.0.park(reason).await
    }

    async fn in_progress(&mut self) -> Result<(), QueueError> {
        self.0.in_progress().await
    }
}
