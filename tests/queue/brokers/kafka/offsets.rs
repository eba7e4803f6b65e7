//! Offsets: what is committed, and what comes again.

use super::cluster::{Cluster, Kafka};
use crate::bench::in_time;
use idempotent_queue::kafka::{KafkaDeliveries, KafkaDelivery};
use idempotent_queue::{Consumer, Deliveries as _, Delivery as _};
use idempotent_runtime::Idempotency;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{poll_at_most, until_async};

pub(super) async fn next(source: &mut KafkaDeliveries) -> KafkaDelivery {
    in_time(source.next()).await.unwrap().unwrap()
}

/// The next deliveries, in the order of their messages.
pub(super) async fn take(source: &mut KafkaDeliveries, count: usize) -> Vec<KafkaDelivery> {
    let mut taken = vec![];
    for _ in 0..count {
        taken.push(next(source).await);
    }
    taken.sort_by_key(number);
    taken
}

pub(super) fn number(delivery: &KafkaDelivery) -> u64 {
    std::str::from_utf8(delivery.message().payload()).unwrap().parse().unwrap()
}

async fn until_committed(kafka: &Kafka, offset: i64) {
    until_async(async || kafka.committed(&kafka.topic)[&0] == offset).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_contiguous_prefix_of_settled_messages_is_committed() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..4).await;
    let mut source = kafka.source();
    let mut taken = take(&mut source, 4).await;
    taken.remove(2).ack().await.unwrap();
    taken.remove(1).ack().await.unwrap();
    // The end commits all that may be.
    drop(source);
    assert_eq!(kafka.committed(&kafka.topic)[&0], 0, "the first one is not settled");

    let mut source = kafka.source();
    let mut taken = take(&mut source, 4).await;
    assert_eq!(taken.iter().map(number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for at in [2, 1, 0] {
        taken.remove(at).ack().await.unwrap();
    }
    // Without an end: commits are sent while the source is used.
    until_committed(&kafka, 3).await;
    drop(taken);
    let last = next(&mut source).await;
    assert_eq!((number(&last), last.message().deliveries()), (3, Some(2)), "it was dropped");
    last.ack().await.unwrap();
    until_committed(&kafka, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_broker_refuses_is_sent_again() {
    let cluster = Cluster::start();
    let kafka = Kafka::with_partitions(&cluster, 1);
    kafka.send_numbers(0, 0..1).await;
    let mut source = kafka.source();
    let delivery = next(&mut source).await;
    cluster.order(|it| {
        use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
        it.request_errors(RDKafkaApiKey::OffsetCommit, &[refused]);
    });
    delivery.ack().await.unwrap();
    until_committed(&kafka, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_again_in_place_holds_back_what_is_committed() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..3).await;
    let mut source = kafka.source().retry_in_place();
    let mut taken = take(&mut source, 3).await;
    let (third, second, first) = (taken.pop().unwrap(), taken.pop().unwrap(), taken.pop().unwrap());
    first.again(Duration::from_millis(50)).await.unwrap();
    second.again(Duration::from_secs(3_600)).await.unwrap();
    third.ack().await.unwrap();
    let first = next(&mut source).await;
    assert_eq!((number(&first), first.message().deliveries()), (0, Some(2)));
    assert_eq!(first.message().id().unwrap(), format!("{}:0:0", kafka.topic));
    first.ack().await.unwrap();
    until_committed(&kafka, 1).await;
    drop(source);
    assert_eq!(kafka.committed(&kafka.topic)[&0], 1, "the second one is not settled");
    assert_eq!(kafka.messages(".retry").len(), 0);
    let mut source = kafka.source().retry_in_place();
    let again = take(&mut source, 2).await;
    assert_eq!(again.iter().map(number).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_order_a_message_that_fails_is_not_overtaken() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..5).await;
    let idem = Idempotency::in_memory().unwrap();
    let started = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&started);
    let handler = move |number: u64| {
        seen.lock().unwrap().push(number);
        let times = seen.lock().unwrap().iter().filter(|seen| **seen == number).count();
        async move { if number % 2 == 1 && times < 3 { Err("not yet") } else { Ok(()) } }
    };
    let millisecond = Duration::from_millis(1);
    let consumer =
        Consumer::new(&idem, "orders").concurrency(8).backoff(millisecond, millisecond * 9);
    let consumes = tokio::spawn(consumer.run(kafka.source().in_order(), handler));
    until_committed(&kafka, 5).await;
    assert_eq!(*started.lock().unwrap(), [0, 1, 1, 1, 2, 3, 3, 3, 4]);
    consumes.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_messages_are_taken_than_a_consumer_asks_for() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 2);
    for partition in [0, 1] {
        kafka.send_numbers(partition, 0..4).await;
    }
    let mut source = kafka.prepared(kafka.source(), 3).await;
    let mut taken = take(&mut source, 3).await;
    // The thread has time to fetch another one, and must not.
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(poll_at_most(1, source.next()).await.is_none());
    }
    taken.remove(0).ack().await.unwrap();
    taken.push(next(&mut source).await);
    assert_eq!(taken.len(), 3);
}

/// The next one is asked for when a handler is free, and that may take longer than `max.poll.interval.ms`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_takes_long_does_not_cost_the_membership() {
    let mut kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.config.set("max.poll.interval.ms", "3000");
    kafka.send_numbers(0, 0..2).await;
    let mut source = kafka.source();
    let first = next(&mut source).await;
    // The client itself takes the time, so it cannot be moved.
    tokio::time::sleep(Duration::from_secs(6)).await;
    first.ack().await.unwrap();
    until_committed(&kafka, 1).await;
    let second = next(&mut source).await;
    assert_eq!((number(&second), second.message().deliveries()), (1, Some(1)));
}
