//! Entries of others, entries that are gone, and copies.

use super::{CLAIM_AFTER, GROUP, Stream, next, payload, prepared};
use crate::bench::{Body, handle};
use crate::bench::{in_time, message};
use crate::scenarios::Broker;
use idempotent_queue::redis_streams::StreamDeliveries;
use idempotent_queue::{Consumer, Deliveries, Delivery};
use idempotent_runtime::Idempotency;
use std::time::Duration;
use support::cluster::Cluster;
use support::redis::{RedisServer, binaries, installed};
use support::{events, until_async};
use tokio::task::JoinHandle;

/// Consumes with the handler of the bench, until it is aborted.
pub(super) fn consume(source: StreamDeliveries) -> JoinHandle<()> {
    tokio::spawn(async move {
        let idem = Idempotency::in_memory().unwrap();
        let pause = Duration::from_millis(5);
        let consumer = Consumer::new(&idem, "orders").backoff(pause, pause);
        consumer.heartbeat(CLAIM_AFTER / 5).run(source, handle).await.unwrap();
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_others_are_read_by_the_name_of_their_field() {
    let stream = Stream::shared().await;
    let () = stream.run("XADD KEY * tenant acme data {} header:trace 1 payload other").await;
    let mut source = prepared(stream.source().payload_field("data")).await;
    let delivery = next(&mut source).await;
    let message = delivery.message();
    assert_eq!(message.payload(), b"{}");
    let headers: Vec<_> = message.headers().collect();
    assert_eq!(headers, [("tenant", "acme"), ("trace", "1"), ("payload", "other")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_without_a_payload_is_a_dead_letter() {
    let stream = Stream::shared().await;
    let () = stream.run("XADD KEY * tenant acme").await;
    let mut odd = redis::cmd("XADD");
    odd.arg(&stream.name).arg("*").arg(b"\xff").arg(b"\xff");
    let () = odd.query_async(&mut stream.connection.clone()).await.unwrap();
    let consumes = consume(stream.source());
    in_time(until_async(|| async { stream.pending().await == 0 })).await;
    consumes.abort();
    let mut range = redis::cmd("XRANGE");
    range.arg(format!("{}:dead", stream.name)).arg("-").arg("+");
    type Fields = Vec<(Vec<u8>, Vec<u8>)>;
    let mut letters: Vec<(String, Fields)> =
        range.query_async(&mut stream.connection.clone()).await.unwrap();
    letters.sort_by_key(|(_, fields)| fields[0].0 != b"tenant");
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0].1[0], (b"tenant".to_vec(), b"acme".to_vec()));
    assert_eq!(letters[0].1[1], (b"header:idempotent-reason".to_vec(), b"undecodable".to_vec()));
    assert_eq!(letters[1].1[0], (b"\xff".to_vec(), b"\xff".to_vec()), "copied as it is");
}

#[test]
fn an_entry_that_was_trimmed_is_acknowledged_and_reported() {
    for binary in binaries() {
        let server = RedisServer::start_with(&binary, &[]);
        let events = events::collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = Stream::on(&server.url()).await;
            stream.add("1").await;
            stream.take_and_die().await;
            stream.add("2").await;
            let mut source = stream.open().await;
            // One that is pending elsewhere, and one that is in hand here.
            let delivery = next(&mut source).await;
            assert_eq!(payload(&delivery), "2");
            let () = stream.run("XTRIM KEY MAXLEN 0").await;
            delivery.again(Duration::from_millis(1)).await.unwrap();
            stream.add("3").await;
            let delivery = next(&mut source).await;
            assert_eq!(payload(&delivery), "3");
            delivery.ack().await.unwrap();
            tokio::select! {
                _ = source.next() => panic!("nothing else is there"),
                () = until_async(|| async { stream.pending_in_group().await == 0 }) => {}
            }
        });
        let text =
            "an entry that was not settled is gone from its stream: it was trimmed or deleted";
        assert_eq!(events.take(text).len(), 2, "{}", binary.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_and_its_acknowledgement_are_one() {
    for binary in binaries() {
        let server = RedisServer::start_with(&binary, &[]);
        let stream = Stream::on(&server.url()).await;
        // A consumer that has started, and so has looked at the keys.
        let consumes = consume(stream.source());
        stream.send(message("first", Body::Succeeds)).await;
        in_time(until_async(|| async { stream.run::<u64>("EXISTS KEY").await == 1 })).await;
        in_time(until_async(|| async { stream.pending().await == 0 })).await;
        let dead = format!("{}:dead", stream.name);
        let () = stream.run(&format!("SET {dead} something")).await;
        stream.send(message("a", Body::Declines)).await;
        let failed = || async {
            let pending = format!("XPENDING KEY {GROUP} - + 1");
            let all: Vec<(String, String, u64, u64)> = stream.run(&pending).await;
            all.first().is_some_and(|entry| entry.3 > 3)
        };
        // Again and again, since it cannot be put aside; and it is not lost.
        in_time(until_async(failed)).await;
        let () = stream.run(&format!("DEL {dead}")).await;
        in_time(until_async(|| async { stream.pending().await == 0 })).await;
        assert_eq!(stream.dead_letters().await.len(), 1);
        consumes.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_entries_are_deleted_if_asked_for() {
    let stream = Stream::shared().await;
    stream.send(message("a", Body::Succeeds)).await;
    stream.send(message("b", Body::Declines)).await;
    let consumes = consume(stream.source().delete_settled());
    in_time(until_async(|| async { stream.run::<u64>("XLEN KEY").await == 0 })).await;
    assert_eq!((stream.dead_letters().await.len(), stream.pending_in_group().await), (1, 0));
    consumes.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_begins_where_it_was_told_to() {
    let stream = Stream::shared().await;
    stream.add("1").await;
    let mut source = prepared(stream.source().only_new()).await;
    stream.add("2").await;
    assert_eq!(payload(&next(&mut source).await), "2");
    let url = &*stream.url;
    let mut other = StreamDeliveries::new(url, &*stream.name, "other").unwrap();
    assert_eq!(payload(&next(&mut other).await), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_lost_is_created_again() {
    let stream = Stream::shared().await;
    let mut source = stream.open().await;
    stream.add("1").await;
    next(&mut source).await.ack().await.unwrap();
    let () = stream.run(&format!("XGROUP DESTROY KEY {GROUP}")).await;
    assert_eq!(payload(&next(&mut source).await), "1", "from the first entry that is there");
    let () = stream.run("DEL KEY").await;
    let mut waits = Box::pin(next(&mut source));
    // It may wait for the stream that is gone.
    let delivery = loop {
        tokio::select! {
            delivery = &mut waits => break delivery,
            _ = stream.add("2") => tokio::task::yield_now().await,
        }
    };
    assert_eq!(payload(&delivery), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_in_a_cluster_is_consumed_and_its_dead_letters_lie_in_any_slot() {
    let node = Cluster::of_one(&installed(), &[], "secret").await;
    let url = format!("redis://:secret@127.0.0.1:{}/", node.port);
    for hash_tag in [false, true] {
        let mut stream = Stream::on(&url).await;
        if hash_tag {
            stream.name = format!("{{{}}}", stream.name);
        }
        stream.send(message("a", Body::Succeeds)).await;
        stream.send(message("b", Body::Declines)).await;
        stream.send(message("c", Body::Fails)).await;
        let source = StreamDeliveries::cluster([&url], &*stream.name, GROUP).unwrap();
        let consumes = consume(prepared(source.claim_after(CLAIM_AFTER)).await);
        let comes_again = || async {
            let pending = format!("XPENDING KEY {GROUP} - + 9");
            let all: Vec<(String, String, u64, u64)> = stream.run(&pending).await;
            all.len() == 1 && all[0].3 > 3
        };
        in_time(until_async(comes_again)).await;
        assert_eq!(stream.dead_letters().await.len(), 1);
        consumes.abort();
    }
}
