//! Publishers: confirmed, routable, in time.

use super::Queue;
use futures_util::future::join_all;
use idempotent_queue::rabbitmq::RabbitMq;
use idempotent_queue::{Outgoing, PublishErrorKind, Publisher};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions};
use lapin::types::{AMQPValue, FieldTable};
use std::time::Duration;
use support::rabbitmq::shared_rabbitmq;
use support::valve::{Flow, Valve};

#[tokio::test]
async fn a_published_message_is_persistent_and_has_its_id() {
    let queue = Queue::open().await;
    let message = Outgoing::new(&*queue.name, "order-42", r#"{"id":42}"#)
        .with_kind("OrderCreated")
        .with_header("tenant", "acme");
    queue.rabbit.publisher().publish(&message).await.unwrap();
    let got = queue.take_next(&queue.name).await;
    assert_eq!(got.data, br#"{"id":42}"#);
    assert_eq!(got.properties.delivery_mode(), &Some(2));
    assert_eq!(got.properties.message_id().as_ref().unwrap().as_str(), "order-42");
    assert_eq!(got.properties.kind().as_ref().unwrap().as_str(), "OrderCreated");
    let headers = got.properties.headers().clone().unwrap();
    let header = |name: &str| match headers.inner().get(name) {
        Some(AMQPValue::LongString(value)) => value.to_string(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(header("idempotency-key"), "order-42");
    assert_eq!((header("type"), header("tenant")), ("OrderCreated".into(), "acme".into()));
}

#[tokio::test]
async fn a_message_that_no_queue_takes_is_a_permanent_error() {
    let queue = Queue::missing_on(shared_rabbitmq(), shared_rabbitmq()).await;
    let publisher = queue.rabbit.publisher();
    let error = publisher.publish(&Outgoing::new(&*queue.name, "1", "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Permanent);
    assert!(error.to_string().contains(&queue.name), "{error}");
    let publisher = publisher.exchange("no-such-exchange");
    let error = publisher.publish(&Outgoing::new(&*queue.name, "1", "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Permanent);
    assert!(error.to_string().contains("no-such-exchange"), "{error}");
    let error =
        publisher.publish(&Outgoing::new(&*queue.name, "1".repeat(256), "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Permanent, "{error}");
}

#[tokio::test]
async fn an_exchange_routes_by_the_destination() {
    let queue = Queue::open().await;
    let exchange = format!("{}-events", queue.name);
    let (options, none) = (ExchangeDeclareOptions::default(), FieldTable::default());
    let declared = queue.channel.exchange_declare(
        exchange.as_str().into(),
        ExchangeKind::Topic,
        options,
        none,
    );
    declared.await.unwrap();
    let (options, none) = (QueueBindOptions::default(), FieldTable::default());
    let (to, from) = (queue.name.as_str().into(), exchange.as_str().into());
    queue.channel.queue_bind(to, from, "orders.*".into(), options, none).await.unwrap();
    let publisher = queue.rabbit.publisher().exchange(exchange);
    publisher.publish(&Outgoing::new("orders.created", "1", "taken")).await.unwrap();
    let error = publisher.publish(&Outgoing::new("carts.created", "2", "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Permanent, "{error}");
    assert_eq!(queue.take_next(&queue.name).await.data, b"taken");
}

/// Each message gets its own answer, also while others get another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_messages_get_their_own_answers() {
    let queue = Queue::open().await;
    let publisher = queue.rabbit.publisher();
    let publishes = (0..600).map(|number| {
        let (publisher, name) = (publisher.clone(), queue.name.clone());
        tokio::spawn(async move {
            let to = if number % 3 == 0 { format!("{name}-missing") } else { name };
            (number, publisher.publish(&Outgoing::new(to, number.to_string(), "")).await)
        })
    });
    for published in join_all(publishes).await {
        let (number, published) = published.unwrap();
        match published {
            Ok(_) => assert!(number % 3 != 0, "{number} passed for confirmed"),
            Err(error) => assert!(number % 3 == 0, "{number}: {error}"),
        }
    }
    assert_eq!(queue.ready(&queue.name).await, Some(400));
}

#[tokio::test]
async fn a_confirmation_that_does_not_come_is_unavailable_and_the_next_message_passes() {
    let address = shared_rabbitmq().rsplit(['@', '/']).next().unwrap().to_owned();
    let valve = Valve::open(address).await;
    let queue = Queue::open().await;
    let url = format!("amqp://guest:guest@127.0.0.1:{}", valve.port());
    let builder = RabbitMq::builder(&url).unwrap();
    let rabbit = builder.timeout(Duration::from_secs(2)).connect().await.unwrap();
    let publisher = rabbit.publisher();
    publisher.publish(&Outgoing::new(&*queue.name, "1", "1")).await.unwrap();
    valve.set(Flow::Requests);
    let error = publisher.publish(&Outgoing::new(&*queue.name, "2", "2")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
    valve.set(Flow::Everything);
    publisher.publish(&Outgoing::new(&*queue.name, "3", "3")).await.unwrap();
    let mut taken = vec![];
    for _ in 0..3 {
        taken.push(queue.take_next(&queue.name).await.data);
    }
    assert_eq!(taken, [b"1", b"2", b"3"], "it was there, and only its confirmation was not");
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_unavailable() {
    let url = format!("amqp://localhost:{}", support::redis::free_port());
    let error = RabbitMq::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    let publisher = RabbitMq::builder(&url).unwrap().build().publisher();
    let error = publisher.publish(&Outgoing::new("orders", "1", "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_wrong_password_says_nothing_of_the_message() {
    let url = shared_rabbitmq().replace("guest:guest", "guest:wrong");
    let publisher = RabbitMq::builder(&url).unwrap().build().publisher();
    let error = publisher.publish(&Outgoing::new("orders", "1", "")).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_password_is_not_sent_in_the_clear_where_tls_is_asked_for() {
    let url = shared_rabbitmq().replace("amqp://", "amqps://");
    let error = RabbitMq::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("the URL asks for TLS"), "{error}");
}
