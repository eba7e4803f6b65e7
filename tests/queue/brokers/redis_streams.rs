//! Redis Streams.

mod claims;
mod crashes;
mod entries;
mod faults;
mod prepared;
mod publishers;

use crate::scenarios::{Broker, scenarios};
use idempotent_queue::redis_streams::{StreamDeliveries, StreamDelivery};
use idempotent_queue::{Deliveries, Delivery, Message, Terms};
use redis::Value;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamInfoGroupsReply, StreamPendingReply};
use std::future::Future;
use std::time::Duration;
use support::redis::{connection, shared_redis};

const GROUP: &str = "shop";

/// A stream that a test has for itself, seen from outside.
pub(crate) struct Stream {
    url: String,
    name: String,
    connection: MultiplexedConnection,
}

impl Stream {
    /// On the server that tests share.
    async fn shared() -> Self {
        Self::on(shared_redis()).await
    }

    async fn on(url: &str) -> Self {
        let name = format!("orders-{:016x}", rand::random::<u64>());
        Self { url: url.to_owned(), name, connection: connection(url).await }
    }

    /// A source that gives up an entry after half a second, as far as others are concerned.
    fn source(&self) -> StreamDeliveries {
        self.source_at(&self.url)
    }

    /// The same, through a proxy.
    fn source_at(&self, url: &str) -> StreamDeliveries {
        StreamDeliveries::new(url, &*self.name, GROUP).unwrap().claim_after(CLAIM_AFTER)
    }

    /// A source that is prepared.
    async fn open(&self) -> StreamDeliveries {
        prepared(self.source()).await
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split_whitespace();
        let mut cmd = redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(if word == "KEY" { &self.name } else { word });
        }
        cmd.query_async(&mut self.connection.clone()).await.unwrap()
    }

    /// Adds an entry with this payload, and with its key.
    async fn add(&self, payload: &str) -> String {
        self.run(&format!("XADD KEY * payload {payload} header:idempotency-key {payload}")).await
    }

    /// Takes an entry as a consumer that is not heard of again.
    async fn take_and_die(&self) -> String {
        self.create_group().await;
        let read = format!("XREADGROUP GROUP {GROUP} dead COUNT 1 STREAMS KEY >");
        let reply: redis::streams::StreamReadReply = self.run(&read).await;
        reply.keys[0].ids[0].id.clone()
    }

    async fn create_group(&self) {
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&self.name).arg(GROUP).arg("0").arg("MKSTREAM");
        let _ = create.query_async::<Value>(&mut self.connection.clone()).await;
    }

    /// The number of entries that are pending in the group.
    async fn pending_in_group(&self) -> usize {
        match self.run(&format!("XPENDING KEY {GROUP}")).await {
            StreamPendingReply::Empty => 0,
            StreamPendingReply::Data(data) => data.count,
            other => panic!("{other:?}"),
        }
    }

    async fn messages(&self, of: &str) -> Vec<Message> {
        let mut range = redis::cmd("XRANGE");
        range.arg(format!("{}:{of}", self.name)).arg("-").arg("+");
        let all: Vec<(String, Vec<(String, String)>)> =
            range.query_async(&mut self.connection.clone()).await.unwrap();
        let message = |(_, fields): (String, Vec<(String, String)>)| {
            let (payload, headers): (Vec<_>, Vec<_>) =
                fields.into_iter().partition(|(name, _)| name == "payload");
            let payload = payload.into_iter().next().map(|(_, value)| value).unwrap_or_default();
            headers.into_iter().fold(Message::new(payload), |message, (name, value)| {
                message.with_header(name.trim_start_matches("header:"), value)
            })
        };
        all.into_iter().map(message).collect()
    }
}

const CLAIM_AFTER: Duration = Duration::from_millis(500);

/// Terms that go with [`CLAIM_AFTER`].
fn terms() -> Terms {
    let mut terms = Terms::new("orders");
    terms.heartbeat = CLAIM_AFTER / 5;
    terms
}

async fn prepared(mut source: StreamDeliveries) -> StreamDeliveries {
    source.prepare(&terms()).await.unwrap();
    source
}

/// The next delivery, within the patience of tests.
async fn next(source: &mut StreamDeliveries) -> StreamDelivery {
    crate::bench::in_time(async {
        loop {
            // A source is asked again after an error.
            if let Ok(delivery) = source.next().await {
                return delivery.unwrap();
            }
        }
    })
    .await
}

fn payload(delivery: &StreamDelivery) -> String {
    String::from_utf8(delivery.message().payload().to_vec()).unwrap()
}

/// Runs a source on a runtime that ends at once, as with its process: nothing of it is heard again.
fn in_a_process_that_dies<F: Future>(work: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let left = runtime.block_on(work());
    runtime.shutdown_background();
    // What is dropped after its runtime can do nothing.
    drop(left);
}

impl Broker for Stream {
    type Deliveries = StreamDeliveries;

    async fn open() -> Self {
        Self::shared().await
    }

    async fn send(&self, message: Message) {
        let mut add = redis::cmd("XADD");
        add.arg(&self.name).arg("*").arg("payload").arg(message.payload());
        for (name, value) in message.headers() {
            add.arg(format!("header:{name}")).arg(value);
        }
        add.query_async::<Value>(&mut self.connection.clone()).await.unwrap();
    }

    async fn deliveries(&self) -> StreamDeliveries {
        StreamDeliveries::new(&self.url, &*self.name, GROUP).unwrap()
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.messages("dead").await
    }

    async fn parked(&self) -> Vec<Message> {
        self.messages("parked").await
    }

    async fn pending(&self) -> usize {
        self.create_group().await;
        let groups: StreamInfoGroupsReply = self.run("XINFO GROUPS KEY").await;
        let last = &groups.groups[0].last_delivered_id;
        // First what is not delivered: an entry that moves on meanwhile is counted twice, and not missed.
        let waiting: Vec<Value> = self.run(&format!("XRANGE KEY ({last} +")).await;
        waiting.len() + self.pending_in_group().await
    }
}

scenarios!(Stream);
