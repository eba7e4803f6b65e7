//! The order of messages that have one key.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::{Broker, Watched};
use idempotent_queue::{Consumer, Message};
use std::collections::HashMap;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::until;
use tokio::sync::oneshot;

/// The payloads that a handler was called with, in their order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u32>>>);

impl Log {
    fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }

    /// A handler that fails the first `failures` times for each of `messages`.
    fn failing(
        &self,
        messages: &'static [u32],
        failures: u32,
    ) -> impl Fn(u32) -> std::future::Ready<Result<(), &'static str>> + Send + Sync + use<> {
        let (log, failed) = (self.clone(), Mutex::new(HashMap::<u32, u32>::new()));
        move |number| {
            log.0.lock().unwrap().push(number);
            let mut failed = failed.lock().unwrap();
            let count = failed.entry(number).or_default();
            *count += 1;
            ready(if messages.contains(&number) && *count <= failures {
                Err("busy")
            } else {
                Ok(())
            })
        }
    }
}

/// A message of a customer.
fn of(customer: &str, number: u32) -> Message {
    Message::new(number.to_string()).with_header("customer", customer)
}

fn ordered(consumer: Consumer) -> Consumer {
    consumer.ordered_by(|message| message.header("customer").map(str::to_owned))
}

/// A handler that never ends for `held`, and else does as `handler`.
fn holding<F>(
    held: u32,
    handler: impl Fn(u32) -> F + Send + Sync + 'static,
) -> impl Fn(u32) -> std::pin::Pin<Box<dyn Future<Output = Result<(), &'static str>> + Send>>
+ Send
+ Sync
+ 'static
where
    F: Future<Output = Result<(), &'static str>> + Send + 'static,
{
    move |number| {
        let answer = handler(number);
        match number == held {
            true => Box::pin(std::future::pending()),
            false => Box::pin(answer),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_of_one_key_are_handled_one_after_the_other_in_their_order() {
    let bench = Bench::new();
    let log = Log::default();
    for number in 0..60 {
        bench.queue.send(of(&(number % 3).to_string(), number));
    }
    bench.queue.close();
    let consumer = ordered(bench.consumer()).prefetch(30);
    let running = Arc::new(Mutex::new(HashMap::<u32, u32>::new()));
    let notes = log.failing(&[6, 7, 30], 2);
    let handler = move |number: u32| {
        let (running, answer) = (Arc::clone(&running), notes(number));
        async move {
            let enters = |by: i64| {
                let mut running = running.lock().unwrap();
                let count = running.entry(number % 3).or_default();
                *count = u32::try_from(i64::from(*count) + by).unwrap();
                assert!(*count <= 1, "two of one key at the same time");
            };
            enters(1);
            tokio::task::yield_now().await;
            enters(-1);
            answer.await
        }
    };
    in_time(consumer.run(bench.queue.deliveries(), handler)).await.unwrap();
    for key in 0..3 {
        let mut of_key: Vec<_> = log.all().into_iter().filter(|number| number % 3 == key).collect();
        of_key.dedup();
        let in_order: Vec<_> = (0..60).filter(|number| number % 3 == key).collect();
        assert_eq!(of_key, in_order, "each follows the last try of the one before");
    }
    assert_eq!(log.all().len(), 60 + 3 * 2);
    let acknowledged = bench.queue.acknowledged();
    assert_eq!(acknowledged.len(), 60);
    assert!(acknowledged.iter().all(|message| message.deliveries() == Some(1)), "none went back");
}

#[tokio::test]
async fn a_message_that_has_to_come_again_holds_up_its_key_alone_and_no_handler() {
    let bench = Bench::new();
    let log = Log::default();
    for (customer, number) in [("a", 1), ("a", 2), ("b", 3), ("b", 4)] {
        bench.queue.send(of(customer, number));
    }
    bench.queue.send(Message::new("5"));
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let hour = Duration::from_secs(3_600);
    let consumer = ordered(bench.consumer()).backoff(hour, hour).concurrency(1).prefetch(5);
    let consumer = consumer.heartbeat(Duration::from_millis(1));
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, log.failing(&[1], 1)));
    until(|| bench.counts()[0] == 3).await;
    let mut handled = log.all();
    handled.sort_unstable();
    assert_eq!((handled, health.in_hand()), (vec![1, 3, 4, 5], 2));
    let signals = seen.signals();
    until(|| seen.signals() > signals + 3).await;
    consumes.abort();
}

#[tokio::test]
async fn a_shutdown_gives_back_a_message_and_those_behind_it_in_their_order() {
    let bench = Bench::new();
    let log = Log::default();
    for number in [1, 2, 3] {
        bench.queue.send(of("a", number));
    }
    let source = Watched::new(&bench.queue);
    let (hour, seen) = (Duration::from_secs(3_600), Arc::clone(&source.seen));
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = ordered(bench.consumer()).backoff(Duration::from_millis(1), hour);
    let consumer = consumer.shutdown_on(async { drop(stopped.await) });
    let consumes = tokio::spawn(consumer.run(source, holding(1, log.failing(&[], 0))));
    until(|| log.all() == [1] && seen.asked() == 4).await;
    stop.send(()).unwrap();
    until(|| seen.again() == 2).await;
    // The first one still runs, and is waited for.
    assert!(!consumes.is_finished());
    consumes.abort();
    until(|| seen.dropped.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    assert_eq!((log.all(), bench.counts()), (vec![1], [0, 0, 0, 3]));

    // One that waits for its next try takes those behind it along.
    let bench = Bench::new();
    let log = Log::default();
    for number in [1, 2, 3] {
        bench.queue.send(of("a", number));
    }
    let source = Watched::new(&bench.queue);
    let seen = Arc::clone(&source.seen);
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = ordered(bench.consumer()).backoff(hour, hour);
    let consumer = consumer.shutdown_on(async { drop(stopped.await) });
    let consumes = tokio::spawn(consumer.run(source, log.failing(&[1], 1)));
    until(|| log.all() == [1] && seen.asked() == 4).await;
    stop.send(()).unwrap();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!((log.all(), seen.again()), (vec![1], 3));
    assert_eq!(bench.counts(), [0, 0, 0, 3]);
}

#[tokio::test]
async fn a_message_that_is_put_aside_holds_up_none() {
    let bench = Bench::new();
    let keyed = |key: &str, body| message(key, body).with_header("customer", "a");
    for (key, body) in [("1", Body::Declines), ("2", Body::Fails), ("3", Body::Succeeds)] {
        bench.queue.send(keyed(key, body));
    }
    bench.queue.close();
    let consumer = ordered(bench.consumer()).max_attempts(3);
    in_time(consumer.run(bench.queue.deliveries(), handle)).await.unwrap();
    assert_eq!(bench.codes(), ["final-error", "failed-before"]);
    assert_eq!(bench.counts(), [1, 2, 0, 0]);
}

/// A function without a record has no count of attempts. Ten tries in hand are taken for one, and another one is
/// counted.
#[tokio::test]
async fn tries_in_hand_count_as_deliveries() {
    let bench = Bench::new();
    let log = Log::default();
    bench.queue.send(of("a", 1));
    bench.queue.close();
    let consumer = ordered(bench.consumer()).max_attempts(1);
    let handler = log.failing(&[1], u32::MAX);
    in_time(consumer.run(bench.queue.deliveries(), handler)).await.unwrap();
    assert_eq!((log.all().len(), bench.codes()), (11, vec!["too-many-deliveries".to_owned()]));
}

#[tokio::test]
async fn a_message_whose_key_cannot_be_told_is_a_dead_letter() {
    let bench = Bench::new();
    let log = Log::default();
    for number in [1, 2] {
        bench.queue.send(of("a", number));
    }
    bench.queue.close();
    let consumer = bench.consumer().ordered_by(|message| match message.payload() {
        b"1" => panic!("no key"),
        _ => None,
    });
    in_time(consumer.run(bench.queue.deliveries(), log.failing(&[], 0))).await.unwrap();
    assert_eq!((log.all(), bench.codes()), (vec![2], vec!["order-unknown".to_owned()]));
}

/// The broker delivers it again, so that those behind it would overtake it.
#[tokio::test]
async fn those_behind_a_delivery_that_was_dropped_go_back() {
    let bench = Bench::new();
    let log = Log::default();
    for number in [1, 2] {
        bench.queue.send(of("a", number));
    }
    let source = Watched::new(&bench.queue);
    let (seen, broker) = (Arc::clone(&source.seen), Arc::clone(&source.broker));
    *broker.lock().unwrap() = Broker::Panics;
    let (go, gone) = oneshot::channel::<()>();
    let (notes, gone) = (log.failing(&[], 0), Mutex::new(Some(gone)));
    let handler = move |number: u32| {
        let (answer, gone) = (notes(number), gone.lock().unwrap().take());
        async move {
            if let Some(gone) = gone {
                gone.await.unwrap();
            }
            answer.await
        }
    };
    let consumes = tokio::spawn(ordered(bench.consumer()).run(source, handler));
    until(|| seen.asked() == 3).await;
    go.send(()).unwrap();
    // The acknowledgement of the first one panics.
    until(|| bench.counts() == [2, 0, 0, 0]).await;
    let acknowledged = bench.queue.acknowledged();
    let second = acknowledged.iter().find(|message| message.payload() == b"2").unwrap();
    assert!(second.deliveries() > Some(1), "it has waited for the next delivery of the first one");
    consumes.abort();
}
