//! Connections that break, and a broker that is killed.

use super::Queue;
use super::cut::Cut;
use crate::bench::{Body, handle, in_time, message};
use idempotent_queue::{
    Consumer, Deliveries as _, Delivery as _, Outgoing, PublishErrorKind, Publisher,
};
use idempotent_runtime::Idempotency;
use lapin::BasicProperties;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::rabbitmq::{RabbitMqServer, queue_name, shared_rabbitmq};
use support::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_delivers_messages_in_hand_again() {
    let cut = Cut::before(shared_rabbitmq()).await;
    let queue = Queue::open_on(shared_rabbitmq(), &cut.url()).await;
    let mut deliveries = queue.deliveries();
    for round in 0..3 {
        queue.send(b"1", BasicProperties::default()).await;
        let in_hand = in_time(deliveries.next()).await.unwrap().unwrap();
        cut.all();
        // Either of them may find it out first.
        let error = in_time(async {
            loop {
                if let Err(error) = deliveries.next().await {
                    break error;
                }
            }
        });
        let error = error.await;
        assert!(error.to_string().contains("connection"), "{round}: {error}");
        in_hand.ack().await.unwrap_err();
        let comes_again = async {
            loop {
                if let Ok(again) = deliveries.next().await {
                    break again.unwrap();
                }
            }
        };
        let again = in_time(comes_again).await;
        assert_eq!(again.message().deliveries(), Some(2));
        again.ack().await.unwrap();
    }
}

/// A broken connection to publish on does not lose the message that comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_goes_on_through_broken_connections() {
    const MESSAGES: usize = 200;
    let cut = Cut::before(shared_rabbitmq()).await;
    let queue = Queue::open_on(shared_rabbitmq(), &cut.url()).await;
    let idem = Idempotency::in_memory().unwrap();
    let pause = Duration::from_millis(20);
    let consumer = Consumer::new(&idem, "orders").concurrency(8).backoff(pause, pause);
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let done = Arc::new(Mutex::new(HashSet::new()));
    let (noted, finished) = (Arc::clone(&seen), Arc::clone(&done));
    // Each message fails at first, and so takes the way through the wait queue.
    let handler = move |number: usize| {
        let is_new = noted.lock().unwrap().insert(number);
        let finished = Arc::clone(&finished);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if is_new {
                return Err("not yet");
            }
            finished.lock().unwrap().insert(number);
            Ok(())
        }
    };
    let consumes = tokio::spawn(consumer.run(queue.deliveries(), handler));
    for number in 0..MESSAGES {
        queue.send(number.to_string().as_bytes(), BasicProperties::default()).await;
    }
    for part in 1..=4 {
        until(|| done.lock().unwrap().len() >= MESSAGES * part / 5).await;
        cut.all();
    }
    until(|| done.lock().unwrap().len() == MESSAGES).await;
    assert!(!consumes.is_finished());
    consumes.abort();
}

/// A message that is in hand for longer than the broker allows comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_broker_closes_is_opened_again() {
    let settings = [("consumer_timeout", 1_000), ("channel_tick_interval", 1_000)];
    let starts = tokio::task::spawn_blocking(move || RabbitMqServer::start_with(&settings));
    let server = starts.await.unwrap();
    let queue = Queue::open_on(&server.url(), &server.url()).await;
    let mut deliveries = queue.deliveries();
    queue.send(b"1", BasicProperties::default()).await;
    let in_hand = in_time(deliveries.next()).await.unwrap().unwrap();
    let error = in_time(deliveries.next()).await.unwrap_err();
    assert!(error.to_string().contains("timed out"), "{error}");
    in_hand.ack().await.unwrap_err();
    let again = in_time(deliveries.next()).await.unwrap().unwrap();
    assert_eq!(again.message().deliveries(), Some(2));
    again.ack().await.unwrap();
}

#[tokio::test]
async fn connections_that_were_closed_are_made_again() {
    let queue = Queue::open().await;
    let publisher = queue.rabbit.publisher();
    for number in 0..3_u8 {
        publisher
            .publish(&Outgoing::new(&*queue.name, number.to_string(), [number]))
            .await
            .unwrap();
        let mut deliveries = queue.deliveries();
        let delivery = in_time(deliveries.next()).await.unwrap().unwrap();
        assert_eq!(delivery.message().payload(), [number]);
        delivery.ack().await.unwrap();
        queue.rabbit.close().await.unwrap();
        assert_eq!(queue.ready(&queue.name).await, Some(0), "it was acknowledged before");
    }
}

/// The channel of a source that is dropped ends in the background, about when the connection of the publishers is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_close_while_channels_do() {
    let queue = Queue::open().await;
    let publisher = queue.rabbit.publisher();
    for number in 0..50_u8 {
        let sent = Outgoing::new(&*queue.name, number.to_string(), [number]);
        publisher.publish(&sent).await.unwrap();
        let mut deliveries = queue.deliveries();
        in_time(deliveries.next()).await.unwrap().unwrap().ack().await.unwrap();
        drop(deliveries);
        queue.rabbit.close().await.unwrap();
    }
    assert_eq!(queue.ready(&queue.name).await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_loses_nothing_and_is_found_again() {
    const MESSAGES: usize = 40;
    let mut server = tokio::task::spawn_blocking(RabbitMqServer::start).await.unwrap();
    let queue = Queue::missing_on(&server.url(), &server.url()).await;
    let (rabbit, name) = (queue.rabbit.clone(), queue_name());
    let idem = Idempotency::in_memory().unwrap();
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(200));
    let consumer = Consumer::new(&idem, "orders").concurrency(4).backoff(first, longest);
    let handler = |body: Body| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        handle(body).await
    };
    let consumes = tokio::spawn(consumer.run(rabbit.deliveries(&*name).declare(), handler));
    let publisher = rabbit.publisher();
    let publish = async |key: usize| {
        let message = message(&key.to_string(), Body::Succeeds);
        let outgoing = Outgoing::new(&*name, key.to_string(), message.payload());
        loop {
            match publisher.publish(&outgoing).await {
                Ok(_) => break,
                // Until the consumer has declared it.
                Err(error) if error.kind() == PublishErrorKind::Permanent && key == 0 => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                // Neither an outage nor a queue that is being recovered is the fault of the message.
                Err(error) => assert_ne!(error.kind(), PublishErrorKind::Permanent, "{error}"),
            }
        }
    };
    let records = || usize::try_from(idem.store().usage().unwrap().entries).unwrap();
    for key in 0..MESSAGES / 2 {
        publish(key).await;
    }
    until(|| records() >= 5).await;
    let server = tokio::task::spawn_blocking(move || {
        server.kill();
        server.restart();
        server
    });
    // Begun while the broker is down.
    for key in MESSAGES / 2..MESSAGES {
        publish(key).await;
    }
    let server = server.await.unwrap();
    until(|| records() == MESSAGES).await;
    assert!(!consumes.is_finished());
    // Each acknowledged, once the last ones are too.
    let queue = Queue::missing_on(&server.url(), &server.url()).await;
    support::until_async(async || {
        let left = [queue.ready(&name).await, queue.ready(&format!("{name}.dead")).await];
        left == [Some(0), Some(0)]
    })
    .await;
    consumes.abort();
}
