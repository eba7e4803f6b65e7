//! Queues that suit a consumer, and those that do not.

use super::{Queue, text};
use idempotent_queue::rabbitmq::QueueType;
use idempotent_queue::{Deliveries as _, Delivery as _, PrepareError, Terms};
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use support::rabbitmq::shared_rabbitmq;

fn terms() -> Terms {
    let mut terms = Terms::new("orders");
    terms.max_attempts = Some(3);
    terms
}

/// The text of the refusal of a queue with these arguments.
async fn refusal(arguments: &[(&str, AMQPValue)]) -> Option<String> {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    queue.declare(&queue.name, arguments).await;
    match queue.deliveries().prepare(&terms()).await {
        Ok(_) => None,
        Err(PrepareError::Refused(error)) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_missing_queue_is_refused_with_a_way_to_declare_it() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    let error = queue.deliveries().prepare(&terms()).await.unwrap_err();
    assert!(matches!(error, PrepareError::Refused(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("does not exist; help:") && text.contains(&queue.name), "{text}");
    assert_eq!(queue.ready(&queue.name).await, None);
    let error = queue.deliveries().next().await.unwrap_err();
    assert_eq!(error.to_string(), text, "without being prepared too");
}

#[tokio::test]
async fn a_missing_queue_is_declared_if_that_is_asked_for() {
    for kind in [QueueType::Quorum, QueueType::Classic] {
        let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
        let mut deliveries = queue.deliveries().declare().queue_type(kind);
        deliveries.prepare(&terms()).await.unwrap();
        for name in [queue.name.clone(), queue.dead(), queue.parked()] {
            assert_eq!(queue.ready(&name).await, Some(0), "{name}");
        }
        queue.send(b"1", Default::default()).await;
        deliveries.next().await.unwrap().unwrap().ack().await.unwrap();
        // The queue that was declared suits the next consumer.
        queue.deliveries().prepare(&terms()).await.unwrap();
    }
}

#[tokio::test]
async fn a_producer_can_declare_the_queue_before_its_consumer() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    for _ in 0..2 {
        queue.rabbit.declare_queue(&*queue.name).await.unwrap();
    }
    assert_eq!(queue.ready(&queue.name).await, Some(0));
    assert_eq!(queue.ready(&queue.dead()).await, None);
    queue.deliveries().prepare(&terms()).await.unwrap();
}

#[tokio::test]
async fn a_low_delivery_limit_is_refused_among_other_arguments() {
    let limit = |limit| ("x-delivery-limit", AMQPValue::LongLongInt(limit));
    let dead = ("x-dead-letter-exchange", text(""));
    let more = [
        ("x-dead-letter-routing-key", text("elsewhere")),
        ("x-max-length", AMQPValue::LongInt(1_000)),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
    ];
    assert_eq!(refusal(&[]).await, None, "without a limit, before version 4");
    let text = refusal(&[limit(1_000)]).await.unwrap();
    assert!(text.contains("drops it after 1000") && text.contains("help:"), "{text}");
    let low = [&[limit(29), dead.clone()], &more[..]].concat();
    let text = refusal(&low).await.unwrap();
    assert!(text.contains("dead letter after 29"), "{text}");
    let high = [&[limit(30), dead], &more[..]].concat();
    assert_eq!(refusal(&high).await, None, "ten times three attempts");
}

#[tokio::test]
async fn a_negative_limit_is_refused_since_this_server_drops_messages_by_it() {
    let text = refusal(&[("x-delivery-limit", AMQPValue::LongLongInt(-1))]).await.unwrap();
    assert!(text.contains("before version 4"), "{text}");
}

#[tokio::test]
async fn a_limit_that_is_trusted_is_not_read() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    queue.declare(&queue.name, &[("x-delivery-limit", AMQPValue::LongLongInt(2))]).await;
    queue.deliveries().trust_delivery_limit().prepare(&terms()).await.unwrap();
}

#[tokio::test]
async fn classic_and_transient_queues_have_no_limit() {
    for options in [QueueDeclareOptions::durable(), QueueDeclareOptions::default()] {
        let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
        let (name, none) = (queue.name.as_str().into(), FieldTable::default());
        queue.channel.queue_declare(name, options, none).await.unwrap();
        queue.deliveries().prepare(&terms()).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_is_refused() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), text("stream"));
    let name = queue.name.as_str().into();
    queue.channel.queue_declare(name, QueueDeclareOptions::durable(), table).await.unwrap();
    let error = queue.deliveries().prepare(&terms()).await.unwrap_err();
    assert!(error.to_string().contains("it is a stream"), "{error}");
}

#[tokio::test]
async fn no_more_is_sent_ahead_than_the_consumer_handles() {
    let queue = Queue::open().await;
    for _ in 0..5 {
        queue.send(b"1", Default::default()).await;
    }
    let mut terms = terms();
    terms.prefetch = 2;
    let mut deliveries = queue.deliveries();
    deliveries.prepare(&terms).await.unwrap();
    let in_hand = [deliveries.next().await.unwrap(), deliveries.next().await.unwrap()];
    assert_eq!(queue.ready(&queue.name).await, Some(3));
    drop(in_hand);
}
