//! The tasks of a consumer, which take one message after the other.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::{Broker, Watched, WatchedDelivery};
use idempotent_queue::memory::{MemoryDeliveries, MemoryDelivery};
use idempotent_queue::{ConsumerState, Deliveries, Delivery, Message, QueueError, Reason};
use idempotent_runtime::Error;
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;
use support::until;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// The order in which a consumer drops its source and its deliveries.
type Dropped = Arc<Mutex<Vec<&'static str>>>;

struct Noted(&'static str, Dropped);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

struct NotedSource {
    inner: MemoryDeliveries,
    noted: Noted,
}

impl Deliveries for NotedSource {
    type Delivery = NotedDelivery;

    async fn next(&mut self) -> Result<Option<NotedDelivery>, QueueError> {
        let next = self.inner.next().await?;
        let noted = || Noted("delivery", Arc::clone(&self.noted.1));
        Ok(next.map(|inner| NotedDelivery { inner, _noted: noted() }))
    }
}

struct NotedDelivery {
    inner: MemoryDelivery,
    _noted: Noted,
}

impl Delivery for NotedDelivery {
    fn message(&self) -> &Message {
        self.inner.message()
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.inner.ack().await
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        self.inner.again(after).await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        self.inner.dead_letter(reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.inner.park(reason).await
    }
}

/// A message that goes back is delivered at once: not to a source that nobody asks any more.
#[tokio::test]
async fn a_consumer_that_is_dropped_closes_its_source_before_its_messages_go_back() {
    let bench = Bench::new();
    for key in ["a", "b"] {
        bench.queue.send(message(key, Body::Waits));
    }
    let dropped = Dropped::default();
    let (inner, noted) = (bench.queue.deliveries(), Noted("source", Arc::clone(&dropped)));
    let consumes = tokio::spawn(bench.consumer().run(NotedSource { inner, noted }, handle));
    until(|| bench.idem.in_flight() == 2).await;
    dropped.lock().unwrap().clear();
    consumes.abort();
    assert!(consumes.await.unwrap_err().is_cancelled());
    until(|| dropped.lock().unwrap().len() >= 3).await;
    assert_eq!(dropped.lock().unwrap()[..3], ["source", "delivery", "delivery"]);
}

#[tokio::test]
async fn a_source_that_panics_ends_its_consumer_with_the_panic() {
    struct Panics(Watched, bool);
    impl Deliveries for Panics {
        type Delivery = WatchedDelivery;

        async fn next(&mut self) -> Result<Option<WatchedDelivery>, QueueError> {
            assert!(!std::mem::replace(&mut self.1, true), "the source panics");
            self.0.next().await
        }
    }
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let source = Panics(Watched::new(&bench.queue), false);
    let consumes = tokio::spawn(bench.consumer().run(source, handle));
    let panic = in_time(consumes).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"the source panics"));
    // The message in hand goes back.
    let mut again = bench.queue.deliveries();
    assert_eq!(in_time(again.next()).await.unwrap().unwrap().message().deliveries(), Some(2));
}

#[tokio::test]
async fn the_next_message_is_taken_after_the_client_of_the_broker_panicked() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Succeeds));
    let source = Watched::new(&bench.queue);
    *source.broker.lock().unwrap() = Broker::Panics;
    let consumer = bench.consumer().concurrency(1);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    // It was handled, and comes again because its settlement is not known.
    until(|| health.settled().acknowledged == 1).await;
    bench.queue.send(message("b", Body::Succeeds));
    bench.queue.close();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!(bench.counts(), [2, 0, 0, 0]);
}

/// One hand takes all of them, each without a wait.
#[tokio::test]
async fn a_consumer_of_one_message_at_a_time_takes_them_in_their_order() {
    let bench = Bench::new();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let order = Arc::clone(&taken);
    let notes = move |key: u32| {
        order.lock().unwrap().push(key);
        ready(Ok::<_, Error>(()))
    };
    for key in 0..100 {
        bench.queue.send(Message::new(key.to_string()));
    }
    bench.queue.close();
    let consumer = bench.consumer().concurrency(1);
    in_time(consumer.run(bench.queue.deliveries(), notes)).await.unwrap();
    assert_eq!(*taken.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

/// Gives so many deliveries, and ends while they are in hand.
struct Ends(MemoryDeliveries, usize);

impl Deliveries for Ends {
    type Delivery = MemoryDelivery;

    async fn next(&mut self) -> Result<Option<MemoryDelivery>, QueueError> {
        if self.1 == 0 {
            return Ok(None);
        }
        self.1 -= 1;
        self.0.next().await
    }
}

#[tokio::test]
async fn a_source_that_has_ended_is_not_asked_in_circles() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Waits));
    let mut run = Box::pin(bench.consumer().run(Ends(bench.queue.deliveries(), 1), handle));
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let consumes = tokio::spawn(poll_fn(move |context| {
        count.fetch_add(1, SeqCst);
        run.as_mut().poll(context)
    }));
    until(|| bench.idem.in_flight() == 1).await;
    for _ in 0..1_000 {
        yield_now().await;
    }
    consumes.abort();
    let polls = polls.load(SeqCst);
    assert!(polls < 50, "{polls} polls of a consumer that has nothing to do");
}

#[tokio::test]
async fn a_consumer_that_is_told_to_end_starts_no_more_handlers() {
    for concurrency in [1, 4, 16] {
        let bench = Bench::new();
        for key in 0..1_000 {
            bench.queue.send(Message::new(key.to_string()));
        }
        let (told, handled) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (tell, count) = (Arc::clone(&told), Arc::clone(&handled));
        let tells = move |_: u32| {
            count.fetch_add(1, SeqCst);
            tell.notify_one();
            ready(Ok::<_, Error>(()))
        };
        let consumer = bench.consumer().concurrency(concurrency);
        let consumer = consumer.shutdown_on(async move { told.notified().await });
        in_time(consumer.run(bench.queue.deliveries(), tells)).await.unwrap();
        let handled = handled.load(SeqCst);
        assert!(handled <= concurrency + 1, "{handled} handlers, {concurrency} at a time");
    }
}

/// It comes as the consumer is told to end, before a hand has heard of that.
#[tokio::test]
async fn nothing_is_fetched_after_a_consumer_was_told_to_end() {
    let bench = Bench::new();
    let (told, queue) = (Arc::new(Notify::new()), bench.queue.clone());
    let tell = Arc::clone(&told);
    let consumer = bench.consumer().shutdown_on(async move {
        told.notified().await;
        queue.send(message("late", Body::Succeeds));
    });
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    for _ in 0..10 {
        yield_now().await;
    }
    tell.notify_one();
    in_time(consumes).await.unwrap().unwrap();
    let mut next = bench.queue.deliveries();
    let delivery = in_time(next.next()).await.unwrap().unwrap();
    assert_eq!(delivery.message().deliveries(), Some(1));
}

#[tokio::test]
async fn most_hands_end_that_have_nothing_to_do() {
    let bench = Bench::new();
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    for key in 0..1_000 {
        bench.queue.send(Message::new(key.to_string()));
    }
    let waits = move |_: u32| {
        let opens = Arc::clone(&opens);
        async move {
            opens.acquire().await.unwrap().forget();
            Ok::<_, Error>(())
        }
    };
    let consumer = bench.consumer().concurrency(1_000);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), waits));
    until(|| health.in_hand() == 1_000).await;
    gate.add_permits(1_000);
    until(|| health.settled().acknowledged == 1_000).await;
    until(|| Handle::current().metrics().num_alive_tasks() < 100).await;
    // Those that are left take the next ones, and call for others.
    for key in 0..1_000 {
        bench.queue.send(Message::new(key.to_string()));
    }
    until(|| health.in_hand() == 1_000).await;
    consumes.abort();
}

/// A thread waits for a consumer whose tasks are gone.
#[test]
fn a_consumer_ends_with_its_runtime() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let runs_on = runtime.handle().clone();
    let (starts, started) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    std::thread::spawn(move || {
        runs_on.block_on(async {
            let bench = Bench::new();
            let consumer = bench.consumer();
            let health = consumer.health();
            let run = consumer.run(bench.queue.deliveries(), handle);
            let told = async {
                until(|| health.state() == ConsumerState::Running).await;
                starts.send(()).unwrap();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = run => ends.send(ended.is_ok()).unwrap(),
                () = told => {}
            }
        });
    });
    started.recv().unwrap();
    runtime.shutdown_timeout(Duration::from_secs(30));
    assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hands_lose_nothing_and_hold_no_more_than_they_may() {
    for (concurrency, prefetch) in [(1, 1), (1, 3), (2, 5), (8, 8), (3, 64)].repeat(4) {
        let bench = Bench::new();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (running, highest) = (Arc::clone(&now), Arc::clone(&most));
        let handler = move |key: usize| {
            let (now, most) = (Arc::clone(&running), Arc::clone(&highest));
            async move {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                match key % 5 {
                    0 => yield_now().await,
                    1 => tokio::time::sleep(Duration::from_millis(1)).await,
                    2 => std::thread::sleep(Duration::from_micros(200)),
                    _ => {}
                }
                now.fetch_sub(1, SeqCst);
                assert!(!key.is_multiple_of(7), "the handler panics");
                Ok::<_, Error>(())
            }
        };
        let consumer = bench.consumer().concurrency(concurrency).prefetch(prefetch);
        let health = consumer.health();
        let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handler));
        for key in 1..=60 {
            bench.queue.send(Message::new(key.to_string()));
            assert!(health.in_hand() <= prefetch);
        }
        // 8 of them panic each time.
        until(|| health.settled().acknowledged == 52).await;
        assert!(most.load(SeqCst) <= concurrency);
        consumes.abort();
    }
}

/// Waits for a permit, as a handler.
async fn pass(gate: Arc<Semaphore>) -> Result<(), Error> {
    gate.acquire().await.unwrap().forget();
    Ok(())
}

/// Polls a consumer once, and lets its tasks have their turn.
async fn poll_once(run: &mut (impl Future + Unpin)) {
    poll_fn(|context| {
        let _ = Pin::new(&mut *run).poll(context);
        Poll::Ready(())
    })
    .await;
    yield_now().await;
}

/// The messages come before the consumer has heard that hands have ended.
#[tokio::test]
async fn hands_that_have_ended_are_not_counted_on() {
    const MOST: usize = 66;
    let bench = Bench::new();
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let waits = move |_: u32| pass(Arc::clone(&opens));
    let send = || (0..MOST).for_each(|key| bench.queue.send(Message::new(key.to_string())));
    let consumer = bench.consumer().concurrency(MOST);
    let health = consumer.health();
    let mut run = consumer.run(bench.queue.deliveries(), waits);
    send();
    while health.in_hand() < MOST {
        poll_once(&mut run).await;
    }
    gate.add_permits(MOST);
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!((health.settled().acknowledged, health.in_hand()), (MOST as u64, 0));
    // One waits for the source and 64 for their turn to do so; one has ended.
    send();
    for _ in 0..1_000 {
        yield_now().await;
    }
    assert_eq!(health.in_hand(), 65);
    for _ in 0..1_000 {
        poll_once(&mut run).await;
    }
    assert_eq!(health.in_hand(), MOST, "nobody waits for the source");
}

/// Bursts of messages that come while hands end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_are_taken_by_as_many_hands_as_there_may_be() {
    const MOST: usize = 80;
    let bench = Bench::new();
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let waits = move |_: u32| pass(Arc::clone(&opens));
    let send = || (0..MOST).for_each(|key| bench.queue.send(Message::new(key.to_string())));
    let consumer = bench.consumer().concurrency(MOST);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), waits));
    for round in 1..=200_u64 {
        send();
        until(|| health.in_hand() == MOST).await;
        gate.add_permits(MOST);
        until(|| health.settled().acknowledged == round * MOST as u64).await;
    }
    consumes.abort();
}

#[idempotent_runtime::idempotent(
    name = "queue.window",
    mode = "window",
    expire = "1h",
    key = "key"
)]
async fn window(key: u32) -> Result<u32, Error> {
    Ok(key)
}

/// As for one that is told to end, however seldom it is polled.
#[tokio::test]
async fn no_message_is_taken_after_one_that_ends_the_consumer() {
    let bench = Bench::new();
    let gates = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let (opens, handled) = (gates.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&handled);
    let handler = move |key: u32| {
        let (opens, count) = (opens.clone(), Arc::clone(&count));
        async move {
            if let Some(gate) = opens.get(key as usize) {
                gate.acquire().await.unwrap().forget();
            }
            if key == 0 {
                window(key).await?;
            }
            count.fetch_add(1, SeqCst);
            Ok::<_, Error>(())
        }
    };
    for key in 0..100_u32 {
        bench.queue.send(Message::new(key.to_string()));
    }
    let consumer = bench.consumer().concurrency(2);
    let health = consumer.health();
    let mut run = consumer.run(bench.queue.deliveries(), handler);
    while health.in_hand() < 2 {
        poll_once(&mut run).await;
    }
    gates[0].add_permits(1_000);
    until(|| health.settled().again == 1).await;
    gates[1].add_permits(1_000);
    for _ in 0..1_000 {
        yield_now().await;
    }
    let handled = handled.load(SeqCst);
    assert!(in_time(run).await.is_err());
    assert!(handled < 5, "{handled} messages were handled by a consumer that has to end");
}
