//! Producers on Redis, message and record in one step. `killed` has two steps, on every broker, and processes that are
//! killed between them.

pub(crate) mod killed;

#[path = "../producer_worker/orders.rs"]
mod orders;

use idempotent_queue::format::Raw;
use idempotent_queue::producer::{Fate, Producer, RedisStream, SendErrorKind, SentBy};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{ErrorKind, Idempotency};
pub(crate) use orders::Point;
use orders::{Orders, STREAM, Work};
use redis::AsyncCommands as _;
use redis::streams::StreamRangeReply;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use support::redis::RedisServer;
use support::until_async;
use support::worker::Worker;
use tokio::task::JoinSet;

async fn instance(server: &RedisServer) -> (RedisStore, Idempotency) {
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    (store, idem)
}

async fn producer(server: &RedisServer) -> Producer<RedisStream> {
    let (store, idem) = instance(server).await;
    Producer::new(&idem, RedisStream::new(&store, STREAM))
}

/// The fields of all entries.
async fn entries(server: &RedisServer) -> Vec<HashMap<String, Vec<u8>>> {
    let mut connection = server.connection().await;
    let reply: StreamRangeReply = connection.xrange_all(STREAM).await.unwrap();
    let fields = |entry: redis::streams::StreamId| {
        let fields = entry.map.into_iter();
        fields.map(|(name, value)| (name, redis::from_redis_value(value).unwrap())).collect()
    };
    reply.ids.into_iter().map(fields).collect()
}

/// The ids of the messages in the stream.
async fn ids(server: &RedisServer) -> Vec<String> {
    let id = |fields: &HashMap<String, Vec<u8>>| {
        String::from_utf8(fields["header:idempotency-key"].clone()).unwrap()
    };
    entries(server).await.iter().map(id).collect()
}

fn start(server: &RedisServer, work: Work) -> String {
    serde_json::to_string(&Orders { redis: server.url(), work }).unwrap()
}

fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_producer-worker"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_two_instances_adds_one_entry_per_business_id() {
    let server = RedisServer::start();
    let mut sends = JoinSet::new();
    for instance in 0..2 {
        let producer = Arc::new(producer(&server).await);
        for caller in 0..500 {
            let producer = Arc::clone(&producer);
            sends.spawn(async move {
                let business_id = (caller + instance) % 100;
                let sent = producer.send(business_id, "lamp").await.unwrap();
                assert_eq!(sent.id(), producer.id_of(business_id));
                sent.sent_by()
            });
        }
    }
    let sent_by = sends.join_all().await;
    assert_eq!(sent_by.len(), 1_000);
    assert_eq!(sent_by.iter().filter(|by| **by == SentBy::ThisCall).count(), 100);
    let ids = ids(&server).await;
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (100, 100));
}

#[tokio::test]
async fn an_entry_has_payload_and_headers_and_its_position_is_the_receipt() {
    let server = RedisServer::start();
    let producer = producer(&server).await.encode_with(Raw);
    let draft = producer.message(42).kind("OrderCreated").header("tenant", "acme");
    let sent = draft.send(b"\0\xff\r\n").await.unwrap();
    let mut connection = server.connection().await;
    let reply: StreamRangeReply = connection.xrange_all(STREAM).await.unwrap();
    assert_eq!(sent.receipt().position(), Some(&*reply.ids[0].id));
    let expected = [
        ("header:idempotency-key", sent.id().as_bytes()),
        ("header:type", b"OrderCreated"),
        ("header:tenant", b"acme"),
        ("payload", b"\0\xff\r\n"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_vec()));
    assert_eq!(entries(&server).await, [HashMap::from(expected)]);

    let again = producer.send(42, b"\0\xff\r\n").await.unwrap();
    assert_eq!((again.id(), again.receipt()), (sent.id(), sent.receipt()));
    assert_eq!(again.sent_by(), SentBy::EarlierCall);
    let other = producer.send(42, b"other").await.unwrap_err();
    assert_eq!(other.kind(), SendErrorKind::Refused(ErrorKind::Mismatch));
    assert_eq!(entries(&server).await.len(), 1);
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_not_sent_to_and_blocks_nothing() {
    let server = RedisServer::start();
    let producer = producer(&server).await;
    let mut connection = server.connection().await;
    let _: () = connection.set(STREAM, "text").await.unwrap();
    let error = producer.send(42, "lamp").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Permanent, Fate::NotSent));
    assert!(error.to_string().contains("holds a string"), "{error}");
    let _: () = connection.del(STREAM).await.unwrap();
    producer.send(42, "lamp").await.unwrap();
    assert_eq!(entries(&server).await.len(), 1);
}

#[tokio::test]
async fn an_entry_that_cannot_be_added_is_not_sent_and_blocks_nothing() {
    let server = RedisServer::start();
    let producer = producer(&server).await;
    let mut connection = server.connection().await;
    let last = format!("{0}-{0}", u64::MAX);
    let _: () = connection.xadd(STREAM, last, &[("the", "last")]).await.unwrap();
    let error = producer.send(42, "lamp").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Permanent, Fate::NotSent));
    let _: () = connection.del(STREAM).await.unwrap();

    let mut crowded = producer.message(42);
    for number in 0..5_000 {
        crowded = crowded.header(number.to_string(), "");
    }
    let error = crowded.send("lamp").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Permanent, Fate::NotSent));

    // Nobody has got it, so it may be put right.
    producer.send(42, "chair").await.unwrap();
    assert_eq!(entries(&server).await.len(), 1);
}

#[tokio::test]
async fn the_stream_of_another_store_is_refused() {
    let server = RedisServer::start();
    let ((store, _), (_, idem)) = (instance(&server).await, instance(&server).await);
    let producer = Producer::new(&idem, RedisStream::new(&store, STREAM));
    let error = producer.send(42, "lamp").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::Misconfigured));
    assert_eq!(error.fate(), Fate::NotSent);
}

#[tokio::test]
async fn a_server_that_is_down_leaves_the_outcome_to_a_repeat() {
    let mut server = RedisServer::start();
    let producer = producer(&server).await;
    producer.send(1, "lamp").await.unwrap();
    server.kill();
    let error = producer.send(42, "lamp").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    server.restart();
    let sent = producer.send(42, "lamp").await.unwrap();
    assert_eq!(ids(&server).await, [sent.id()]);
}

#[tokio::test]
async fn killed_senders_lose_nothing_and_send_nothing_twice() {
    const MESSAGES: u64 = 2_000;
    let server = RedisServer::start();
    let mut connection = server.connection().await;
    let orders = start(&server, Work::SendsAll(MESSAGES));
    for kill in 1..=5 {
        let sender = Worker::start_told(worker(), &orders, kill);
        let enough = u64::from(kill) * MESSAGES / 10;
        until_async(|| {
            let mut connection = connection.clone();
            async move { connection.xlen::<_, u64>(STREAM).await.unwrap() >= enough }
        })
        .await;
        drop(sender);
    }
    let added: u64 = connection.xlen(STREAM).await.unwrap();
    assert!(added < MESSAGES, "the senders were killed before they were done");
    let producer = producer(&server).await;
    for business_id in 0..MESSAGES {
        producer.send(business_id, "lamp").await.unwrap();
    }
    let ids: HashSet<_> = ids(&server).await.into_iter().collect();
    let expected: HashSet<_> = (0..MESSAGES).map(|id| producer.id_of(id)).collect();
    assert_eq!(ids, expected);
    assert_eq!(connection.xlen::<_, u64>(STREAM).await.unwrap(), MESSAGES, "each is there once");
}
