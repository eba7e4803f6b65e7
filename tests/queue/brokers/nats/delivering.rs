//! Deliveries, one by one.

use super::*;
use crate::bench::{Body, handle, in_time, message};
use idempotent_queue::{Consumer, Delivery as _};
use idempotent_runtime::Idempotency;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;
use support::until;

/// A time in which a message comes that nothing holds back.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_message_says_where_it_is_and_how_often_it_was_delivered() {
    let nats = Nats::open().await;
    nats.send(Message::new("1")).await;
    let mut source = nats.prepared(2).await;
    for deliveries in 1..4 {
        let delivery = in_time(source.next()).await.unwrap().unwrap();
        assert_eq!(delivery.message().id(), Some(&*format!("{}:1", nats.stream)));
        assert_eq!(delivery.message().deliveries(), Some(deliveries));
        delivery.again(Duration::ZERO).await.unwrap();
    }
}

#[tokio::test]
async fn a_delivery_that_is_dropped_comes_again_at_once() {
    let nats = Nats::open().await;
    nats.send(Message::new("1")).await;
    let mut source = nats.prepared(1).await;
    drop(source.next().await.unwrap().unwrap());
    let dropped = Instant::now();
    let again = in_time(source.next()).await.unwrap().unwrap();
    assert!(dropped.elapsed() < SOON, "not only after {ACK_WAIT:?}");
    assert_eq!(again.message().deliveries(), Some(2));
    again.ack().await.unwrap();
    assert_eq!(nats.pending().await, 0);
}

#[tokio::test]
async fn an_acknowledgement_that_is_dropped_loses_nothing() {
    let nats = Nats::open().await;
    nats.send(Message::new("1")).await;
    let mut source = nats.prepared(1).await;
    let delivery = source.next().await.unwrap().unwrap();
    // Sent, and not confirmed. What follows it says that the message is to come again.
    assert!(support::poll_at_most(1, delivery.ack()).await.is_none());
    until_async(async || nats.pending().await == 0).await;
    nats.send(Message::new("2")).await;
    assert_eq!(in_time(source.next()).await.unwrap().unwrap().message().payload(), b"2");
}

#[tokio::test]
async fn messages_that_nobody_has_taken_go_back_with_their_source() {
    let nats = Nats::open().await;
    let mut source = nats.prepared(4).await;
    nats.until_asked(&mut source).await;
    let received = nats.jetstream.client().statistics();
    let before = received.in_messages.load(SeqCst);
    let sender = nats.through(connect(shared_nats()).await);
    for payload in ["1", "2", "3", "4"] {
        sender.send(Message::new(payload)).await;
    }
    until(|| received.in_messages.load(SeqCst) == before + 4).await;
    let first = source.next().await.unwrap().unwrap();
    drop((first, source));
    let dropped = Instant::now();
    let mut next = nats.prepared(4).await;
    for _ in 0..4 {
        let delivery = in_time(next.next()).await.unwrap().unwrap();
        assert!(dropped.elapsed() < SOON, "not only after {ACK_WAIT:?}");
        assert_eq!(delivery.message().deliveries(), Some(2));
        delivery.ack().await.unwrap();
    }
    assert_eq!(nats.pending().await, 0);
}

#[tokio::test]
async fn no_more_messages_are_fetched_than_there_is_room_for() {
    let nats = Nats::open().await;
    for payload in 0..10 {
        nats.send(Message::new(payload.to_string())).await;
    }
    let mut source = nats.prepared(3).await;
    let mut in_hand = vec![];
    for _ in 0..3 {
        in_hand.push(source.next().await.unwrap().unwrap());
    }
    for _ in 0..100 {
        assert!(support::poll_at_most(2, source.next()).await.is_none());
        assert_eq!(nats.consumer_info().await.num_ack_pending, 3);
    }
    in_hand.pop().unwrap().ack().await.unwrap();
    in_hand.push(in_time(source.next()).await.unwrap().unwrap());
    assert_eq!(nats.consumer_info().await.num_ack_pending, 3);
    // Another consumer gets the others.
    let mut other = nats.prepared(1).await;
    assert_eq!(other.next().await.unwrap().unwrap().message().payload(), b"4");
}

#[tokio::test]
async fn a_request_keeps_to_the_limits_of_the_consumer() {
    let limits = pull::Config { max_batch: 2, max_expires: Duration::from_secs(1), ..config() };
    let nats = Nats::open_with(limits).await;
    for payload in 0..5 {
        nats.send(Message::new(payload.to_string())).await;
    }
    let mut source = nats.prepared(16).await;
    for _ in 0..5 {
        source.next().await.unwrap().unwrap().ack().await.unwrap();
    }
    // Longer than a request is kept.
    let waited = Instant::now();
    let mut next = pin!(source.next());
    while waited.elapsed() < Duration::from_millis(2_500) {
        let silent = tokio::time::timeout(Duration::from_millis(100), &mut next).await;
        assert!(silent.is_err(), "{silent:?}");
    }
    nats.send(Message::new("late")).await;
    assert_eq!(in_time(next).await.unwrap().unwrap().message().payload(), b"late");
}

#[tokio::test]
async fn a_message_that_takes_long_is_not_delivered_again_while_its_consumer_lives() {
    let ack_wait = Duration::from_millis(900);
    let nats = Nats::open_with(pull::Config { ack_wait, ..config() }).await;
    nats.send(message("a", Body::Waits)).await;
    let idem = Idempotency::in_memory().unwrap();
    let consumer = Consumer::new(&idem, "orders").heartbeat(ack_wait / 6);
    let consumes = tokio::spawn(consumer.run(nats.source(), handle));
    until(|| idem.in_flight() == 1).await;
    let started = Instant::now();
    until_async(async || {
        assert_eq!(nats.consumer_info().await.num_redelivered, 0);
        started.elapsed() > ack_wait * 3
    })
    .await;
    consumes.abort();
}

#[tokio::test]
async fn a_message_is_not_acknowledged_if_the_consumer_is_gone() {
    let nats = Nats::open().await;
    nats.send(Message::new("1")).await;
    let delivery = nats.prepared(1).await.next().await.unwrap().unwrap();
    let stream = nats.jetstream.get_stream(&nats.stream).await.unwrap();
    stream.delete_consumer(CONSUMER).await.unwrap();
    let error = delivery.ack().await.unwrap_err();
    assert!(error.to_string().contains("does not confirm an acknowledgement"), "{error}");
}

#[tokio::test]
async fn orders_to_the_server_are_not_part_of_a_dead_letter() {
    let nats = Nats::open().await;
    let name = nats.stream.clone();
    let sent = message("a", Body::Declines)
        // A stream of another name would not take it.
        .with_header("Nats-Expected-Stream", name)
        .with_header("Nats-Msg-Id", "a")
        .with_header("tag", "1")
        .with_header("tag", "2")
        .with_header("idempotent-reason", "of an earlier time");
    nats.send(sent).await;
    let idem = Idempotency::in_memory().unwrap();
    let consumes = tokio::spawn(Consumer::new(&idem, "orders").run(nats.source(), handle));
    until_async(async || nats.pending().await == 0).await;
    let letters = nats.dead_letters().await;
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    let all = |wanted: &str| -> Vec<String> {
        let found = letter.headers().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.to_owned()).collect()
    };
    assert_eq!(all("tag"), ["1", "2"]);
    assert_eq!(all("idempotent-reason"), ["final-error"]);
    assert_eq!(all(nats::SUBJECT_HEADER), [nats.subject()]);
    assert_eq!(all(nats::ORIGIN_HEADER), [format!("{}:1", nats.stream)]);
    assert!(all("Nats-Expected-Stream").is_empty());
    assert!(all("Nats-Msg-Id")[0].starts_with(&nats.dead()), "an id of its own");
    consumes.abort();
}

/// The window of the stream with the dead letters knows ids only.
#[tokio::test]
async fn dead_letters_of_different_messages_are_all_kept() {
    let nats = Nats::open().await;
    let idem = Idempotency::in_memory().unwrap();
    for round in 1..3 {
        // The same sequence in a stream of the same name.
        nats.send(message(&round.to_string(), Body::Declines)).await;
        let consumes = tokio::spawn(Consumer::new(&idem, "orders").run(nats.source(), handle));
        until_async(async || nats.pending().await == 0).await;
        assert_eq!(nats.dead_letters().await.len(), round);
        consumes.abort();
        nats.jetstream.delete_stream(&nats.stream).await.unwrap();
        let stream = nats.add_stream(&nats.stream, &[&nats.subject()]).await;
        stream.create_consumer(config()).await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_no_message() {
    let nats = Nats::open().await;
    let mut source = nats.prepared(2).await;
    let mut seen = vec![];
    for sequence in 1..=30_u32 {
        nats.send(Message::new(sequence.to_string())).await;
        // As the loop of a consumer does, which looks at other things too.
        let delivery = in_time(async {
            loop {
                let polled = support::poll_at_most(1, source.next()).await;
                if let Some(delivery) = polled {
                    return delivery.unwrap().unwrap();
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        seen.push(String::from_utf8(delivery.message().payload().to_vec()).unwrap());
        assert_eq!(delivery.message().deliveries(), Some(1));
        delivery.ack().await.unwrap();
    }
    assert_eq!(seen, (1..=30_u32).map(|sequence| sequence.to_string()).collect::<Vec<_>>());
}
