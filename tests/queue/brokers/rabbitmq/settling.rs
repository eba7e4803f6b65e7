//! Deliveries: what they say of their messages, and what becomes of those.

use super::counted::{Counted, Counts};
use super::{Queue, headers, text};
use crate::bench::in_time;
use idempotent_queue::rabbitmq::RabbitMqDelivery;
use idempotent_queue::{Consumer, Deliveries, Delivery as _, Outgoing, Publisher as _};
use idempotent_runtime::Idempotency;
use lapin::BasicProperties;
use lapin::options::QueueDeleteOptions;
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::rabbitmq::shared_rabbitmq;
use support::{poll_at_most, until, until_async};

async fn next(deliveries: &mut impl Deliveries<Delivery = RabbitMqDelivery>) -> RabbitMqDelivery {
    in_time(deliveries.next()).await.unwrap().unwrap()
}

/// Properties of every kind that a copy keeps, and those that it must not have.
fn properties() -> BasicProperties {
    let mut table = headers([("idempotency-key", "k"), ("tenant", "acme")]);
    table.insert("number".into(), AMQPValue::LongInt(-7));
    table.insert("truth".into(), AMQPValue::Boolean(true));
    let nested = FieldArray::from(vec![text("a"), AMQPValue::LongLongInt(1)]);
    table.insert("array".into(), AMQPValue::FieldArray(nested));
    BasicProperties::default()
        .with_headers(table)
        .with_message_id("id-1".into())
        .with_content_type("application/json".into())
        .with_content_encoding("identity".into())
        .with_correlation_id("c-1".into())
        .with_reply_to("replies".into())
        .with_priority(3)
        .with_timestamp(1_700_000_000)
        .with_type("OrderCreated".into())
        .with_app_id("shop".into())
        .with_user_id("guest".into())
        .with_expiration("600000".into())
}

fn assert_kept(copy: &BasicProperties) {
    let original = properties();
    assert_eq!(copy.message_id(), original.message_id());
    assert_eq!(copy.content_type(), original.content_type());
    assert_eq!(copy.content_encoding(), original.content_encoding());
    assert_eq!(copy.correlation_id(), original.correlation_id());
    assert_eq!(copy.reply_to(), original.reply_to());
    assert_eq!(copy.priority(), original.priority());
    assert_eq!(copy.timestamp(), original.timestamp());
    assert_eq!(copy.kind(), original.kind());
    assert_eq!(copy.app_id(), original.app_id());
    assert_eq!((copy.user_id(), copy.expiration()), (&None, &None));
    assert_eq!(copy.delivery_mode(), &Some(2));
    let (copied, sent) = (copy.headers().clone().unwrap(), original.headers().clone().unwrap());
    for (name, value) in &sent {
        assert_eq!(copied.inner().get(name.as_str()), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_message_has_its_id_and_its_headers_as_text() {
    let queue = Queue::open().await;
    queue.send(b"{}", properties()).await;
    let mut deliveries = queue.deliveries();
    let delivery = next(&mut deliveries).await;
    let message = delivery.message();
    assert_eq!((message.payload(), message.id()), (&b"{}"[..], Some("id-1")));
    assert_eq!(message.header("Tenant"), Some("acme"));
    assert_eq!((message.header("number"), message.header("truth")), (Some("-7"), Some("true")));
    assert_eq!(message.header("array"), None);
    assert_eq!(message.deliveries(), Some(1));
}

#[tokio::test]
async fn a_count_that_a_message_was_sent_with_is_not_that_of_its_deliveries() {
    let queue = Queue::open().await;
    let mut table = FieldTable::default();
    table.insert("x-delivery-count".into(), AMQPValue::LongLongInt(99));
    queue.send(b"1", BasicProperties::default().with_headers(table)).await;
    let mut deliveries = queue.deliveries();
    let delivery = next(&mut deliveries).await;
    assert_eq!(delivery.message().deliveries(), Some(1));
    drop(delivery);
    assert_eq!(next(&mut deliveries).await.message().deliveries(), Some(2));
}

#[tokio::test]
async fn a_message_that_comes_again_is_kept_whole() {
    let queue = Queue::open().await;
    queue.send(b"{}", properties()).await;
    let mut deliveries = queue.deliveries();
    drop(next(&mut deliveries).await);
    next(&mut deliveries).await.again(Duration::from_millis(1)).await.unwrap();
    for count in 3..6 {
        let delivery = next(&mut deliveries).await;
        assert_eq!(delivery.message().deliveries(), Some(count), "the broker's begins again");
        delivery.again(Duration::from_millis(1)).await.unwrap();
    }
    drop(deliveries);
    let again = queue.take_next(&queue.name).await;
    assert_eq!(again.data, b"{}");
    assert_kept(&again.properties);
}

#[tokio::test]
async fn a_copy_goes_nowhere_else() {
    let queue = Queue::open().await;
    let elsewhere = format!("{}-elsewhere", queue.name);
    queue.declare(&elsewhere, &[]).await;
    let mut table = FieldTable::default();
    let copies = FieldArray::from(vec![text(&elsewhere)]);
    table.insert("CC".into(), AMQPValue::FieldArray(copies));
    queue.send(b"1", BasicProperties::default().with_headers(table)).await;
    queue.take_next(&elsewhere).await;
    // Long, since a copy elsewhere would expire after it too.
    next(&mut queue.deliveries()).await.again(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(queue.ready(&elsewhere).await, Some(0));
}

#[tokio::test]
async fn a_message_that_was_a_dead_letter_of_its_queue_comes_again() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    let broken = format!("{}.broken", queue.name);
    queue.declare(&broken, &[]).await;
    let letters =
        [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&broken))];
    queue.declare(&queue.name, &letters).await;
    // The broker makes it a dead letter, and a person sends it again as it is there.
    queue.send(b"1", BasicProperties::default().with_expiration("1".into())).await;
    let letter = queue.take_next(&broken).await;
    let history = letter.properties.headers().clone().unwrap();
    assert!(history.contains_key("x-death"));
    queue.send(b"1", BasicProperties::default().with_headers(history)).await;
    let mut deliveries = queue.deliveries();
    next(&mut deliveries).await.again(Duration::ZERO).await.unwrap();
    next(&mut deliveries).await.ack().await.unwrap();
    let options = QueueDeleteOptions::default();
    queue.channel.queue_delete(broken.as_str().into(), options).await.unwrap();
}

#[tokio::test]
async fn a_pause_is_that_which_was_asked_for() {
    let queue = Queue::open().await;
    let mut deliveries = queue.deliveries();
    for pause in [300, 1_100] {
        queue.send(b"1", BasicProperties::default()).await;
        let delivery = next(&mut deliveries).await;
        let (started, pause) = (Instant::now(), Duration::from_millis(pause));
        delivery.again(pause).await.unwrap();
        next(&mut deliveries).await.ack().await.unwrap();
        let waited = started.elapsed();
        // Wait queues keep up to 512 and 2048 milliseconds: it is the message's own time that counts.
        assert!(waited >= pause && waited < pause + Duration::from_millis(900), "{waited:?}");
    }
    assert_eq!(queue.ready(&format!("{}.wait.512", queue.name)).await, Some(0));
    assert_eq!(queue.ready(&format!("{}.wait.2048", queue.name)).await, Some(0));
}

#[tokio::test]
async fn a_short_pause_does_not_wait_behind_a_long_one() {
    let queue = Queue::open().await;
    queue.send(b"long", BasicProperties::default()).await;
    queue.send(b"short", BasicProperties::default()).await;
    let mut deliveries = queue.deliveries();
    next(&mut deliveries).await.again(Duration::from_secs(3_600)).await.unwrap();
    next(&mut deliveries).await.again(Duration::from_millis(10)).await.unwrap();
    let delivery = next(&mut deliveries).await;
    assert_eq!(delivery.message().payload(), b"short");
}

#[tokio::test]
async fn a_wait_queue_that_was_deleted_is_declared_again() {
    let queue = Queue::open().await;
    queue.send(b"1", BasicProperties::default()).await;
    let mut deliveries = queue.deliveries();
    next(&mut deliveries).await.again(Duration::ZERO).await.unwrap();
    let delivery = next(&mut deliveries).await;
    let wait = format!("{}.wait.128", queue.name);
    let options = QueueDeleteOptions::default();
    queue.channel.queue_delete(wait.as_str().into(), options).await.unwrap();
    delivery.again(Duration::ZERO).await.unwrap();
    next(&mut deliveries).await.ack().await.unwrap();
}

/// Consumes one message with a consumer that makes it a dead letter, since it has no key.
async fn becomes_a_dead_letter(queue: &Queue, deliveries: impl Deliveries) {
    let idem = Idempotency::in_memory().unwrap();
    let consumer = Consumer::new(&idem, "orders");
    let consumes = consumer.run(deliveries, |_: String| async { Ok::<_, String>(()) });
    let arrives = until_async(async || queue.ready(&queue.dead()).await == Some(1));
    tokio::select! {
        ended = consumes => panic!("{ended:?}"),
        () = arrives => {}
    }
}

#[tokio::test]
async fn a_dead_letter_is_kept_whole_with_its_reason() {
    let queue = Queue::open().await;
    queue.send(b"{", properties()).await;
    becomes_a_dead_letter(&queue, queue.deliveries()).await;
    let letter = queue.take_next(&queue.dead()).await;
    assert_eq!(letter.data, b"{");
    assert_kept(&letter.properties);
    let table = letter.properties.headers().clone().unwrap();
    assert_eq!(table.inner().get("idempotent-reason"), Some(&text("undecodable")));
    assert!(table.contains_key("idempotent-error"));
}

#[tokio::test]
async fn the_places_can_have_other_names() {
    let queue = Queue::open().await;
    let [dead, parked, wait] =
        ["failed", "in-question", "later"].map(|it| format!("{}-{it}", queue.name));
    queue.send(b"1", BasicProperties::default()).await;
    let mut deliveries =
        queue.deliveries().dead_letter_queue(&*dead).parking_queue(&*parked).wait_queues(&*wait);
    next(&mut deliveries).await.again(Duration::ZERO).await.unwrap();
    next(&mut deliveries).await.ack().await.unwrap();
    for name in [dead, parked, format!("{wait}.128")] {
        assert_eq!(queue.ready(&name).await, Some(0), "{name}");
    }
    for name in [queue.dead(), queue.parked(), format!("{}.wait.128", queue.name)] {
        assert_eq!(queue.ready(&name).await, None, "{name}");
    }
}

#[tokio::test]
async fn a_queue_of_dead_letters_that_was_deleted_is_declared_again() {
    let queue = Queue::open().await;
    let (idem, counts) = (Idempotency::in_memory().unwrap(), Arc::new(Counts::default()));
    let deliveries = Counted::new(queue.deliveries(), Arc::clone(&counts));
    let handler = |_: String| async { Ok::<_, String>(()) };
    let consumes = tokio::spawn(Consumer::new(&idem, "orders").run(deliveries, handler));
    // Behind this one, the consumer has declared what it declares when it starts.
    queue.send(br#""done""#, BasicProperties::default()).await;
    until(|| counts.settled() == 1).await;
    let options = QueueDeleteOptions::default();
    queue.channel.queue_delete(queue.dead().as_str().into(), options).await.unwrap();
    queue.send(b"{", BasicProperties::default()).await;
    assert_eq!(queue.take_next(&queue.dead()).await.data, b"{");
    assert!(!consumes.is_finished());
    consumes.abort();
}

#[tokio::test]
async fn a_message_whose_copy_is_not_taken_is_not_acknowledged() {
    let queue = Queue::open().await;
    // It takes no more messages once it is full.
    let full = [("x-max-length", AMQPValue::LongInt(0)), ("x-overflow", text("reject-publish"))];
    queue.declare(&queue.dead(), &full).await;
    let fill = Outgoing::new(queue.dead(), "1", "1");
    let fills = async || queue.rabbit.publisher().publish(&fill).await.is_err();
    until_async(fills).await;
    queue.send(b"{", BasicProperties::default()).await;
    let (idem, counts) = (Idempotency::in_memory().unwrap(), Arc::new(Counts::default()));
    let pause = Duration::from_millis(20);
    let consumer = Consumer::new(&idem, "orders").backoff(pause, pause);
    let deliveries = Counted::new(queue.deliveries(), Arc::clone(&counts));
    let handler = |_: String| async { Ok::<_, String>(()) };
    let consumes = tokio::spawn(consumer.run(deliveries, handler));
    until(|| counts.refused() >= 3).await;
    consumes.abort();
    until_async(async || queue.ready(&queue.name).await == Some(1)).await;
    assert_eq!(counts.settled(), 0);
}

#[tokio::test]
async fn a_dropped_delivery_comes_again_and_is_counted() {
    let queue = Queue::open().await;
    queue.send(b"1", BasicProperties::default()).await;
    let mut deliveries = queue.deliveries();
    for count in 1..4 {
        let delivery = next(&mut deliveries).await;
        assert_eq!(delivery.message().deliveries(), Some(count));
        drop(delivery);
    }
}

#[tokio::test]
async fn a_dropped_source_gives_back_what_was_sent_ahead_and_leaves_what_is_in_hand() {
    let queue = Queue::open().await;
    for _ in 0..5 {
        queue.send(b"1", BasicProperties::default()).await;
    }
    let mut deliveries = queue.deliveries();
    let in_hand = next(&mut deliveries).await;
    drop(deliveries);
    until_async(async || queue.ready(&queue.name).await == Some(4)).await;
    in_hand.ack().await.unwrap();
    for _ in 0..4 {
        queue.take_next(&queue.name).await;
    }
    assert!(queue.take(&queue.name).await.is_none());
}

/// A consumer drops the future of `next` whenever something else happens.
#[tokio::test]
async fn a_wait_that_is_dropped_loses_nothing() {
    let queue = Queue::open().await;
    let mut deliveries = queue.deliveries();
    // Polled a little at a time, before and after the subscription.
    for number in 0..50_u8 {
        queue.send(&[number], BasicProperties::default()).await;
        let comes = async {
            loop {
                match poll_at_most(1, pin!(deliveries.next())).await {
                    Some(delivery) => break delivery.unwrap().unwrap(),
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let delivery = in_time(comes).await;
        assert_eq!(delivery.message().payload(), [number]);
        delivery.ack().await.unwrap();
    }
    drop(deliveries);
    assert_eq!(queue.ready(&queue.name).await, Some(0));
}
