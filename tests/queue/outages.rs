//! Outages of the store and ends of the instance: nothing is lost, and no delivery is used up.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::Watched;
use idempotent_queue::ConsumerState;
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::{FaultStore, Verb};
use idempotent_runtime::{Error, Idempotency, Mode};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::until;
use tokio::sync::oneshot;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn an_outage_of_the_store_uses_up_no_delivery() {
    let bench = Bench::new();
    bench.store.all_down();
    for key in 0..4 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    bench.queue.close();
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().heartbeat(Duration::from_millis(1)).max_attempts(1);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    // Far more tries than deliveries would be allowed.
    until(|| bench.store.calls(Verb::Begin) > 3 * 4 * 12).await;
    assert_eq!((seen.again(), health.in_hand()), (0, 4), "they stay in hand");
    assert_eq!(health.state(), ConsumerState::PausedByStore);
    assert!(health.last_error().is_some());
    let signals = seen.signals();
    until(|| seen.signals() > signals + 3).await;
    bench.store.all_up();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [4, 0, 0, 0]);
    let acknowledged = bench.queue.acknowledged();
    assert!(acknowledged.iter().all(|message| message.deliveries() == Some(1)));
}

#[tokio::test]
async fn the_broker_hears_of_a_message_that_waits_for_the_store() {
    let bench = Bench::new();
    bench.store.all_down();
    bench.queue.send(message("a", Body::Succeeds));
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().backoff(HOUR, HOUR).heartbeat(Duration::from_millis(1));
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| health.state() == ConsumerState::PausedByStore).await;
    let signals = seen.signals();
    until(|| seen.signals() > signals + 3).await;
    consumes.abort();
}

/// The source may have taken it already: nobody would tell the broker that it is in hand.
#[tokio::test]
async fn a_message_that_was_waited_for_when_an_outage_began_is_taken_and_not_started() {
    let bench = Bench::new();
    bench.store.all_down();
    bench.queue.send(message("a", Body::Succeeds));
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let consumer = bench.consumer().backoff(HOUR, HOUR);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| health.state() == ConsumerState::PausedByStore && seen.asked() == 2).await;
    for key in ["b", "c"] {
        bench.queue.send(message(key, Body::Succeeds));
    }
    until(|| health.in_hand() == 2).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!((seen.asked(), bench.store.calls(Verb::Begin)), (2, 3), "no other is asked for");
    }
    consumes.abort();
}

#[tokio::test]
async fn no_handler_starts_while_the_store_does_not_answer() {
    let bench = Bench::new();
    bench.store.all_down();
    for key in 0..20 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    let consumer = bench.consumer().backoff(HOUR, HOUR).concurrency(4).prefetch(20);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    // Each of the four sends its `begin` three times; sixteen wait.
    until(|| bench.store.answers(Verb::Begin) >= 12 && health.in_hand() == 20).await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(bench.store.calls(Verb::Begin), 12);
    }
    consumes.abort();
}

#[tokio::test]
async fn a_shutdown_gives_back_what_waits_for_the_store() {
    let bench = Bench::new();
    bench.store.all_down();
    for key in 0..4 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().backoff(HOUR, HOUR).concurrency(2).prefetch(4);
    let consumer = consumer.shutdown_on(async { drop(stopped.await) }).drain(HOUR);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| health.state() == ConsumerState::PausedByStore && health.in_hand() == 4).await;
    stop.send(()).unwrap();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!((bench.counts(), seen.again()), ([0, 0, 0, 4], 4));
}

/// A handler whose calls for `Fails` go to a part of the store that is down, such as one shard, and a counter
/// of these calls.
fn sharded(
    bench: &Bench,
) -> (impl Fn(Body) -> BoxFuture<Result<i32, Error>> + Send + Sync + 'static, Arc<AtomicUsize>) {
    let shard = FaultStore::new(MemoryStore::new());
    shard.all_down();
    let broken = Idempotency::builder().store(shard).build().unwrap();
    let (idem, tries) = (bench.idem.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&tries);
    let handler = move |body: Body| -> BoxFuture<_> {
        let idem = if body == Body::Fails { broken.clone() } else { idem.clone() };
        count.fetch_add(usize::from(body == Body::Fails), SeqCst);
        Box::pin(async move {
            let op = idem.operation("sharded").key(1).mode(Mode::Strong);
            op.run(async { Ok::<_, Error>(1) }).await
        })
    };
    (handler, tries)
}

#[tokio::test]
async fn a_message_that_the_store_does_not_answer_is_not_tried_whenever_another_is_answered() {
    let bench = Bench::new();
    let (handler, tries) = sharded(&bench);
    bench.queue.send(message("slow", Body::Succeeds));
    bench.queue.send(message("broken", Body::Fails));
    let gate = bench.store.hold(Verb::Complete);
    let consumer = bench.consumer().backoff(HOUR, HOUR);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handler));
    gate.arrived(1).await;
    until(|| health.state() == ConsumerState::PausedByStore).await;
    // The answer to the first one ends the pause of the consumer, and not that of the second one.
    gate.open();
    until(|| health.state() == ConsumerState::Running).await;
    for key in 0..10 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    until(|| bench.counts()[0] == 11).await;
    assert_eq!((tries.load(SeqCst), health.in_hand()), (1, 1));
    consumes.abort();
}

#[tokio::test]
async fn the_pauses_of_a_message_grow_also_if_others_are_answered() {
    let bench = Bench::new();
    let (handler, tries) = sharded(&bench);
    let consumer = bench.consumer().backoff(Duration::from_millis(4), HOUR);
    let started = Instant::now();
    bench.queue.send(message("broken", Body::Fails));
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handler));
    for answered in 1..=100 {
        bench.queue.send(message(&answered.to_string(), Body::Succeeds));
        until(|| bench.counts()[0] == answered).await;
    }
    // 4, 8, 16 milliseconds and so on, before the second, the third and the fourth try.
    let tries = u32::try_from(tries.load(SeqCst)).unwrap();
    let paused = Duration::from_millis(4) * (2_u32.pow(tries - 1) - 1);
    assert!(tries > 1 && paused <= started.elapsed(), "{tries} tries");
    consumes.abort();
}

#[tokio::test]
async fn a_consumer_ends_with_its_instance_and_gives_its_messages_back() {
    let bench = Bench::new();
    for key in 0..4 {
        bench.queue.send(message(&key.to_string(), Body::Succeeds));
    }
    bench.idem.shutdown(Duration::ZERO).await;
    let consumer = bench.consumer().concurrency(2).prefetch(4);
    let health = consumer.health();
    in_time(consumer.run(bench.queue.deliveries(), handle)).await.unwrap();
    assert_eq!((bench.counts(), health.state()), ([0, 0, 0, 4], ConsumerState::Ended));
}
