//! Messages in hand: how many, their heartbeats, and their ends.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::{Broker, Watched, WatchedDelivery};
use idempotent_queue::{Deliveries, Delivery as _, QueueError};
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Config, Error};
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use support::until;
use tokio::sync::oneshot;

#[tokio::test]
async fn handlers_are_limited_by_the_concurrency_and_messages_by_the_prefetch() {
    let bench = Bench::new();
    for key in 0..20 {
        bench.queue.send(message(&key.to_string(), Body::Waits));
    }
    let consumer = bench.consumer().concurrency(2).prefetch(7);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    until(|| bench.idem.in_flight() == 2 && health.in_hand() == 7).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert_eq!((bench.idem.in_flight(), health.in_hand()), (2, 7));
    }
    consumes.abort();
    until(|| health.in_hand() == 0).await;
}

#[tokio::test]
async fn every_message_that_waits_for_a_handler_gets_one() {
    let bench = Bench::new();
    let messages = (0..50).map(|key| message(&key.to_string(), Body::Succeeds));
    let consumer = bench.consumer().concurrency(2).prefetch(20);
    bench.consume_with(consumer, messages).await.unwrap();
    assert_eq!(bench.counts(), [50, 0, 0, 0]);
}

#[tokio::test]
async fn the_heartbeat_follows_the_lease() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    bench.idem.reconfigure(Config::new().with_lease(Duration::from_millis(10))).unwrap();
    let consumes = tokio::spawn(bench.consumer().run(source, handle));
    until(|| seen.signals() > 3).await;
    // And it goes on doing so: the next signal is the last for a long time.
    bench.idem.reconfigure(Config::new().with_lease(Duration::from_secs(3_600))).unwrap();
    let last = seen.signals() + 1;
    until(|| seen.signals() == last).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(seen.signals(), last);
    }
    consumes.abort();
}

/// Each message has a source of its own, so that their signals are told apart.
#[tokio::test]
async fn the_broker_hears_of_a_message_that_waits_for_a_handler() {
    let bench = Bench::new();
    bench.queue.send(message("first", Body::Waits));
    let (first, second) = (Watched::new(&bench.queue), Watched::new(&bench.queue));
    let seen = Arc::clone(&second.seen);
    struct Both(Vec<Watched>);
    impl Deliveries for Both {
        type Delivery = WatchedDelivery;

        async fn next(&mut self) -> Result<Option<Self::Delivery>, QueueError> {
            match self.0.len() {
                1 => self.0[0].next().await,
                _ => self.0.remove(0).next().await,
            }
        }
    }
    let consumer = bench.consumer().concurrency(1).prefetch(2).heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(Both(vec![first, second]), handle));
    until(|| bench.idem.in_flight() == 1).await;
    bench.queue.send(message("second", Body::Waits));
    until(|| seen.signals() > 3).await;
    assert_eq!(bench.idem.in_flight(), 1);
    consumes.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_blocks_does_not_hold_up_its_heartbeat() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let blocks = move |_: Body| {
        blocked.lock().unwrap().recv().unwrap();
        ready(Ok::<_, Error>(()))
    };
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(source, blocks));
    until(|| seen.signals() > 3).await;
    release.send(()).unwrap();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_signal_that_is_not_answered_holds_up_neither_its_message_nor_others() {
    let bench = Bench::new();
    for key in ["a", "b"] {
        bench.queue.send(message(key, Body::Succeeds));
    }
    let source = Watched::new(&bench.queue);
    let (seen, broker) = (Arc::clone(&source.seen), Arc::clone(&source.broker));
    *broker.lock().unwrap() = Broker::IsSilent;
    let gate = bench.store.hold(Verb::Complete);
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(source, handle));
    gate.arrived(2).await;
    until(|| seen.signals() == 2).await;
    *broker.lock().unwrap() = Broker::Answers;
    gate.open();
    until(|| bench.counts() == [2, 0, 0, 0]).await;
    consumes.abort();
}

#[tokio::test]
async fn a_signal_that_panics_is_one_that_was_missed() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let source = Watched::new(&bench.queue);
    let (seen, broker) = (Arc::clone(&source.seen), Arc::clone(&source.broker));
    *broker.lock().unwrap() = Broker::Panics;
    let gate = bench.store.hold(Verb::Complete);
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| seen.signals() > 3).await;
    gate.open();
    until(|| bench.counts() == [1, 0, 0, 0]).await;
    consumes.abort();
}

/// The delivery is with the task that signals at that moment.
#[tokio::test]
async fn a_consumer_that_is_dropped_while_it_signals_leaves_its_message_to_the_broker() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let source = Watched::new(&bench.queue);
    let (seen, broker) = (Arc::clone(&source.seen), Arc::clone(&source.broker));
    *broker.lock().unwrap() = Broker::IsSilent;
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| seen.signals() == 1).await;
    consumes.abort();
    let mut again = bench.queue.deliveries();
    let delivery = in_time(again.next()).await.unwrap().unwrap();
    assert_eq!(delivery.message().deliveries(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_not_answered_is_given_up_and_the_message_comes_again() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let source = Watched::new(&bench.queue);
    let broker = Arc::clone(&source.broker);
    *broker.lock().unwrap() = Broker::IsSilent;
    let consumer = bench.consumer().concurrency(1);
    let health = consumer.health();
    let plain = |_: Body| ready(Ok::<_, Error>(()));
    let consumes = tokio::spawn(consumer.run(source, plain));
    until(|| health.settled().not_taken == 1).await;
    let error = health.last_error().unwrap().text;
    assert_eq!(error, "the broker has not answered within 30s");
    *broker.lock().unwrap() = Broker::Answers;
    until(|| bench.counts() == [1, 0, 0, 0]).await;
    consumes.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_question_for_the_next_message_is_kept_while_others_end() {
    let bench = Bench::new();
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let gate = bench.store.hold(Verb::Complete);
    for key in 0..5 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    let consumes = tokio::spawn(bench.consumer().run(source, handle));
    // The sixth question waits while the five end, one after the other.
    gate.arrived(5).await;
    until(|| seen.asked() == 6).await;
    for done in 1..=5 {
        gate.admit(1);
        until(|| bench.counts()[0] == done).await;
    }
    assert_eq!((seen.asked(), seen.dropped.load(SeqCst)), (6, 0));
    consumes.abort();
    until(|| seen.dropped.load(SeqCst) == 1).await;
}

#[tokio::test]
async fn a_shutdown_gives_back_messages_that_wait_for_a_handler() {
    let bench = Bench::new();
    for key in ["a", "b", "c"] {
        bench.queue.send(message(key, Body::Succeeds));
    }
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let gate = bench.store.hold(Verb::Complete);
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().concurrency(1).prefetch(3);
    let consumer = consumer.shutdown_on(async { drop(stopped.await) });
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    gate.arrived(1).await;
    until(|| health.in_hand() == 3).await;
    stop.send(()).unwrap();
    until(|| seen.again() == 2).await;
    gate.open();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 2]);
    assert_eq!((health.settled().acknowledged, health.settled().again), (1, 2));
}

/// A source with an end, such as that of a file.
#[tokio::test]
async fn messages_in_hand_are_handled_after_the_end_of_the_source() {
    struct Finite(Watched, usize);
    impl Deliveries for Finite {
        type Delivery = WatchedDelivery;

        async fn next(&mut self) -> Result<Option<Self::Delivery>, QueueError> {
            if self.1 == 0 {
                return Ok(None);
            }
            self.1 -= 1;
            self.0.next().await
        }
    }
    let bench = Bench::new();
    for key in 0..10 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    let source = Finite(Watched::new(&bench.queue), 10);
    // Not even a drain of no time cuts them off.
    let consumer = bench.consumer().concurrency(1).prefetch(10).drain(Duration::ZERO);
    in_time(consumer.run(source, handle)).await.unwrap();
    assert_eq!(bench.counts(), [10, 0, 0, 0]);
}

/// Takes and drops every message of a queue, as a process does that dies.
async fn dies(bench: &Bench) {
    let mut source = bench.queue.deliveries();
    let mut taken = vec![];
    for _ in 0..bench.queue.pending() {
        taken.extend(source.next().await.unwrap());
    }
}

/// A message that so many consumers have had in hand, and which died before they asked the store.
async fn delivered(times: u64) -> Bench {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    for _ in 0..times {
        dies(&bench).await;
    }
    bench
}

#[tokio::test]
async fn deliveries_that_did_not_reach_the_store_use_up_no_attempt() {
    let bench = delivered(10).await;
    // The tries are counted beside those bodies.
    bench.idem.reconfigure(Config::new().with_max_concurrent(1)).unwrap();
    bench.queue.close();
    let consumer = bench.consumer().max_attempts(1);
    in_time(consumer.run(bench.queue.deliveries(), handle)).await.unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    assert_eq!(bench.queue.acknowledged()[0].deliveries(), Some(11));
    let records = bench.idem.store().usage().unwrap().entries;
    assert_eq!(records, 1, "that of the body: the count is gone");
}

/// Its handler leaves no trace of an attempt, as a transaction does whose process dies.
#[tokio::test]
async fn a_message_that_was_delivered_too_often_has_as_many_tries_as_attempts() {
    let bench = delivered(20).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let start = || {
        let count = Arc::clone(&runs);
        let handler = move |_: Body| {
            count.fetch_add(1, SeqCst);
            std::future::pending::<Result<(), String>>()
        };
        let consumer = bench.consumer().max_attempts(2);
        tokio::spawn(consumer.run(bench.queue.deliveries(), handler))
    };
    for run in 1..=2 {
        let consumes = start();
        in_time(until(|| runs.load(SeqCst) == run)).await;
        consumes.abort();
        in_time(until(|| bench.idem.in_flight() == 0)).await;
    }
    let consumes = start();
    in_time(until(|| bench.counts() == [0, 1, 0, 0])).await;
    assert_eq!((bench.codes(), runs.load(SeqCst)), (vec!["too-many-deliveries".into()], 2));
    let (_, reason) = &bench.queue.dead_letters()[0];
    let text = "times, where 20 are enough for `max_attempts` of 2, and tried 2 times since then";
    assert!(reason.text().ends_with(text), "{reason}");
    consumes.abort();
}

/// Another consumer has it in hand, and has not asked the function yet.
#[tokio::test]
async fn a_message_that_is_being_tried_elsewhere_is_no_dead_letter() {
    let bench = delivered(10).await;
    let elsewhere = Bench::on(bench.store.clone());
    let copy = message("a", Body::Succeeds).with_deliveries(10);
    elsewhere.queue.send(copy);
    let (go, gone) = oneshot::channel::<()>();
    let gone = Mutex::new(Some(gone));
    let waits = move |body: Body| {
        let gone = gone.lock().unwrap().take();
        async move {
            if let Some(gone) = gone {
                gone.await.unwrap();
            }
            handle(body).await
        }
    };
    let first = tokio::spawn(bench.consumer().max_attempts(1).run(bench.queue.deliveries(), waits));
    until(|| bench.idem.in_flight() == 1).await;
    let consumer = elsewhere.consumer().max_attempts(1);
    let health = consumer.health();
    let second = tokio::spawn(consumer.run(elsewhere.queue.deliveries(), handle));
    in_time(until(|| health.settled().again > 2)).await;
    go.send(()).unwrap();
    in_time(until(|| [bench.counts(), elsewhere.counts()] == [[1, 0, 0, 0]; 2])).await;
    first.abort();
    second.abort();
}
