//! Consumers as a whole: concurrency, heartbeats, shutdown, errors of the broker.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::{Broker, Watched};
use idempotent_queue::memory::MemoryDelivery;
use idempotent_queue::{Deliveries, Message, QueueError};
use idempotent_runtime::testing::Verb;
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::until;
use tokio::sync::oneshot;

#[tokio::test]
async fn no_more_messages_are_in_hand_than_may_be() {
    let bench = Bench::new();
    for key in 0..10 {
        bench.queue.send(message(&key.to_string(), Body::Waits));
    }
    let consumer = bench.consumer().concurrency(3);
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    until(|| bench.idem.in_flight() == 3).await;
    // Nothing else is fetched, however often the loop runs.
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert_eq!(bench.idem.in_flight(), 3);
    }
    consumes.abort();
}

#[tokio::test]
async fn a_shutdown_finishes_what_is_in_hand_and_fetches_nothing_more() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let gate = bench.store.hold(Verb::Complete);
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().shutdown_on(async { drop(stopped.await) });
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    gate.arrived(1).await;
    stop.send(()).unwrap();
    bench.queue.send(message("b", Body::Succeeds));
    gate.open();
    consumes.await.unwrap().unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 1]);
}

#[tokio::test]
async fn a_shutdown_gives_back_what_does_not_end_in_time() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().shutdown_on(async { drop(stopped.await) });
    let consumer = consumer.drain(Duration::from_millis(20));
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    until(|| bench.idem.in_flight() == 1).await;
    stop.send(()).unwrap();
    consumes.await.unwrap().unwrap();
    until(|| bench.counts() == [0, 0, 0, 1] && bench.idem.in_flight() == 0).await;
}

/// Otherwise an outage of the store would pass all messages through the consumer, again and again.
#[tokio::test]
async fn nothing_is_fetched_while_the_store_does_not_answer() {
    let bench = Bench::new();
    bench.store.all_down();
    for key in 0..20 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    let hour = Duration::from_secs(3_600);
    let consumer = bench.consumer().backoff(hour, hour).concurrency(4);
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    // Each of the four sends its `begin` three times.
    until(|| bench.store.answers(Verb::Begin) >= 12).await;
    // A fifth message would be fetched at once.
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(bench.store.calls(Verb::Begin), 12);
    }
    assert_eq!(bench.counts(), [0, 0, 0, 20]);
    consumes.abort();
}

#[tokio::test]
async fn a_consumer_needs_a_name() {
    let bench = Bench::new();
    let nameless = idempotent_queue::Consumer::new(&bench.idem, "");
    let error = nameless.run(bench.queue.deliveries(), handle).await.unwrap_err();
    assert!(error.to_string().contains("its name is empty"), "{error}");
}

/// A source that takes a message when it is asked, and not when it is polled.
struct Eager(Vec<MemoryDelivery>);

impl Deliveries for Eager {
    type Delivery = MemoryDelivery;

    fn next(&mut self) -> impl Future<Output = Result<Option<MemoryDelivery>, QueueError>> + Send {
        ready(Ok(self.0.pop()))
    }
}

#[tokio::test]
async fn no_message_is_taken_that_is_not_handled() {
    let bench = Bench::new();
    let (mut source, mut taken) = (bench.queue.deliveries(), Vec::new());
    for key in 0..10 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
        taken.extend(source.next().await.unwrap());
    }
    in_time(bench.consumer().concurrency(1).run(Eager(taken), handle)).await.unwrap();
    assert_eq!(bench.counts(), [10, 0, 0, 0]);
}

struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[tokio::test]
async fn panics_around_the_handler_lose_and_repeat_nothing() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let decode = |_: &Message| -> Result<Body, fmt::Error> { panic!("the decoder panics") };
    in_time(bench.consumer().decoder(decode).run(bench.queue.deliveries(), handle)).await.unwrap();
    assert_eq!(bench.codes(), ["undecodable"]);

    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let fails = move |_: Body| {
        count.fetch_add(1, SeqCst);
        ready(Err::<(), _>(Unreadable))
    };
    let hour = Duration::from_secs(3_600);
    let consumer = bench.consumer().backoff(hour, hour).heartbeat(Duration::MAX);
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), fails));
    until(|| calls.load(SeqCst) == 1).await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(calls.load(SeqCst), 1, "it comes again after its pause");
    }
    consumes.abort();
}

#[tokio::test]
async fn a_broker_that_does_not_answer_holds_up_no_handler_and_is_not_flooded() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let slow = move |body: Body| {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let answer = handle(body).await;
            count.fetch_add(1, SeqCst);
            answer
        }
    };
    let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
    let consumer = bench.consumer().backoff(hour, hour).heartbeat(millisecond);
    let source = Watched::new(&bench.queue);
    let (seen, broker) = (Arc::clone(&source.seen), Arc::clone(&source.broker));
    *broker.lock().unwrap() = Broker::IsSilent;
    let consumes = tokio::spawn(consumer.run(source, slow));
    until(|| seen.signals() == 1).await;
    *broker.lock().unwrap() = Broker::Refuses;
    until(|| calls.load(SeqCst) == 1).await;
    for _ in 0..50 {
        tokio::time::sleep(millisecond).await;
        assert_eq!(calls.load(SeqCst), 1, "nothing is fetched while nothing can be settled");
    }
    assert_eq!(bench.counts(), [0, 0, 0, 1]);
    consumes.abort();
}

#[tokio::test]
async fn the_broker_hears_of_a_message_that_takes_long() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1));
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| seen.signals() > 3).await;
    consumes.abort();
}

#[tokio::test]
async fn a_broker_that_was_away_is_asked_again() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    bench.queue.close();
    let mut source = Watched::new(&bench.queue);
    source.errors = 3;
    bench.consumer().run(source, handle).await.unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}
