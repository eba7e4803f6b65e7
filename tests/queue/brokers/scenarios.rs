//! The promises that a consumer keeps on any broker. `refusals` has those of calls that do not run.

mod refusals;

pub(crate) use refusals::*;

use crate::bench::{Body, handle, in_time, message};
use idempotent_queue::{Consumer, ConsumerError, Deliveries, Message};
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::{FaultStore, Verb};
use idempotent_runtime::{Abandon, Error, Idempotency, Mode};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{until, until_async};
use tokio::task::JoinHandle;

/// A queue of a broker that a test has for itself.
pub(crate) trait Broker: Send + Sync + Sized + 'static {
    type Deliveries: Deliveries;

    /// The number of consumers that restart while the store is down. Ten deliveries are taken for one attempt.
    const RESTARTS: usize = 60;

    /// A new queue, with places for dead letters and for what is parked.
    fn open() -> impl Future<Output = Self> + Send;

    /// Sends a message, and waits until the broker has it.
    fn send(&self, message: Message) -> impl Future<Output = ()> + Send;

    /// A consumer's source of deliveries. Each call is another consumer of the same queue, as in another
    /// process.
    fn deliveries(&self) -> impl Future<Output = Self::Deliveries> + Send;

    /// The dead letters, which stay where they are.
    fn dead_letters(&self) -> impl Future<Output = Vec<Message>> + Send;

    /// The messages that are parked, which stay where they are.
    fn parked(&self) -> impl Future<Output = Vec<Message>> + Send;

    /// The number of messages that are neither acknowledged, nor dead letters, nor parked: waiting, in
    /// hand, or to come again.
    fn pending(&self) -> impl Future<Output = usize> + Send;
}

/// A consumer of a queue, with its own instance on a store with faults.
struct Site<B> {
    broker: B,
    idem: Idempotency,
    store: FaultStore,
}

impl<B: Broker> Site<B> {
    async fn open() -> Self {
        let store = FaultStore::new(MemoryStore::new());
        let idem = Idempotency::builder().store(store.clone()).build().unwrap();
        Self { broker: B::open().await, idem, store }
    }

    fn consumer(&self) -> Consumer {
        let (first, longest) = (Duration::from_millis(5), Duration::from_millis(50));
        Consumer::new(&self.idem, "orders").backoff(first, longest)
    }

    async fn send(&self, messages: impl IntoIterator<Item = Message>) {
        for message in messages {
            self.broker.send(message).await;
        }
    }

    /// Starts a consumer with the handler of the bench.
    async fn start(&self, consumer: Consumer) -> Running {
        Running(tokio::spawn(consumer.run(self.broker.deliveries().await, handle)))
    }

    /// Starts a consumer with another handler.
    async fn start_with<F, T, E>(
        &self,
        consumer: Consumer,
        handler: impl Fn(Body) -> F + Send + Sync + 'static,
    ) -> Running
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        Running(tokio::spawn(consumer.run(self.broker.deliveries().await, handler)))
    }

    /// Waits until every message is settled, and returns the numbers of dead letters and of those parked.
    async fn settled(&self, of: &Running) -> (usize, usize) {
        self.until_pending(of, 0).await;
        self.put_aside().await
    }

    async fn until_pending(&self, of: &Running, count: usize) {
        let settles = until_async(async || {
            assert!(!of.0.is_finished(), "the consumer has ended");
            self.broker.pending().await == count
        });
        in_time(settles).await;
    }

    async fn put_aside(&self) -> (usize, usize) {
        (self.broker.dead_letters().await.len(), self.broker.parked().await.len())
    }

    /// The codes of dead letters and of what is parked.
    async fn codes(&self) -> Vec<String> {
        let letters = [self.broker.dead_letters().await, self.broker.parked().await].concat();
        let code = |letter: &Message| letter.header("idempotent-reason").unwrap_or("").to_owned();
        letters.iter().map(code).collect()
    }
}

/// A consumer that runs until the end of the test.
struct Running(JoinHandle<Result<(), ConsumerError>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A counter of the bodies that were started.
fn counted(count: &Arc<AtomicUsize>) -> usize {
    count.fetch_add(1, SeqCst)
}

pub(crate) async fn a_message_is_acknowledged_and_so_is_each_repeat<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds), message("a", Body::Succeeds)]).await;
    let consumes = site.start(site.consumer()).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(site.idem.store().usage().unwrap().entries, 1);
}

pub(crate) async fn an_error_comes_again_and_its_attempts_are_limited<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Fails).with_header("tenant", "acme")]).await;
    let consumes = site.start(site.consumer().max_attempts(3)).await;
    assert_eq!(site.settled(&consumes).await, (1, 0));
    assert_eq!(site.codes().await, ["failed-before"]);
    // Three attempts that started the body, and one that did not, whose end may be recorded a moment later.
    in_time(site.store.answered(Verb::Fail, 4)).await;
    assert_eq!(site.store.answers(Verb::Fail), 4);
    let letter = &site.broker.dead_letters().await[0];
    assert_eq!(letter.payload(), br#""Fails""#);
    assert_eq!(letter.header("idempotency-key"), Some("a"), "headers are kept");
    assert_eq!(letter.header("tenant"), Some("acme"));
    assert!(!letter.header("idempotent-error").unwrap().is_empty());
}

pub(crate) async fn a_pause_is_kept<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Fails)]).await;
    let pause = Duration::from_millis(400);
    let (starts, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(vec![])));
    let (count, times) = (Arc::clone(&starts), Arc::clone(&seen));
    let consumer = site.consumer().backoff(pause, pause);
    let handler = move |_: Body| {
        times.lock().unwrap().push(tokio::time::Instant::now());
        let call = counted(&count);
        async move { if call == 0 { Err("not yet") } else { Ok(()) } }
    };
    let consumes = site.start_with(consumer, handler).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    let times = seen.lock().unwrap().clone();
    assert_eq!(times.len(), 2);
    assert!(times[1] - times[0] >= pause, "{times:?}");
}

pub(crate) async fn a_panic_comes_again_and_counts<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Panics)]).await;
    let consumes = site.start(site.consumer().max_attempts(2)).await;
    assert_eq!(site.settled(&consumes).await, (1, 0));
    assert_eq!(site.codes().await, ["failed-before"]);
}

pub(crate) async fn a_final_error_is_a_dead_letter_and_so_is_each_repeat<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Declines), message("a", Body::Declines)]).await;
    let consumes = site.start(site.consumer()).await;
    assert_eq!(site.settled(&consumes).await, (2, 0));
    assert_eq!(site.codes().await, ["final-error", "final-error"]);
    let letter = &site.broker.dead_letters().await[0];
    assert_eq!(letter.header("idempotent-error"), Some("declined"));
}

pub(crate) async fn a_message_that_no_retry_helps_is_a_dead_letter<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([
        Message::new(r#""Succeeds""#),
        message("", Body::Succeeds),
        Message::new("{").with_header("idempotency-key", "a"),
        message("b", Body::Succeeds),
    ])
    .await;
    let consumes = site.start(site.consumer().concurrency(1)).await;
    assert_eq!(site.settled(&consumes).await, (3, 0));
    let mut codes = site.codes().await;
    codes.sort();
    assert_eq!(codes, ["invalid-key", "missing-key", "undecodable"]);
}

pub(crate) async fn a_message_that_another_process_handles_comes_again<B: Broker>() {
    let site = Site::<B>::open().await;
    let elsewhere = Idempotency::builder().store(site.store.clone()).build().unwrap();
    let gate = site.store.hold(Verb::Complete);
    let first = tokio::spawn(async move {
        let token = Ambient::new().token("a").scope("orders");
        elsewhere.scope(ambient::scope(token, handle(Body::Succeeds))).await
    });
    gate.arrived(1).await;
    site.send([message("a", Body::Fails)]).await;
    let consumes = site.start(site.consumer().max_attempts(1)).await;
    until(|| site.store.calls(Verb::Begin) > 3).await;
    assert_eq!((site.broker.pending().await, site.put_aside().await), (1, (0, 0)));
    gate.open();
    first.await.unwrap().unwrap();
    assert_eq!(site.settled(&consumes).await, (0, 0), "a replay");
}

pub(crate) async fn an_unknown_outcome_is_parked<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Panics).with_header("tenant", "acme")]).await;
    let idem = site.idem.clone();
    let blocking = move |_: Body| {
        let idem = idem.clone();
        async move {
            let op = idem.operation("blocking").key(1).abandon(Abandon::Block);
            op.run(async { panic!("the body panics") as Result<u8, Error> }).await
        }
    };
    let consumes = site.start_with(site.consumer(), blocking).await;
    assert_eq!(site.settled(&consumes).await, (0, 1));
    assert_eq!(site.codes().await, ["outcome-unknown"]);
    let parked = &site.broker.parked().await[0];
    assert_eq!((parked.payload(), parked.header("tenant")), (&br#""Panics""#[..], Some("acme")));
}

pub(crate) async fn a_store_that_does_not_answer_loses_no_message<B: Broker>() {
    let site = Site::<B>::open().await;
    site.store.all_down();
    site.send((0..10).map(|key| message(&key.to_string(), Body::Succeeds))).await;
    let consumes = site.start(site.consumer().max_attempts(1).concurrency(4)).await;
    until(|| site.store.calls(Verb::Begin) > 20).await;
    assert_eq!((site.broker.pending().await, site.put_aside().await), (10, (0, 0)));
    site.store.all_up();
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(site.idem.store().usage().unwrap().entries, 10);
}

pub(crate) async fn a_window_ends_the_consumer_and_keeps_its_messages<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds), message("b", Body::Succeeds)]).await;
    let idem = site.idem.clone();
    let window = move |_: Body| {
        let idem = idem.clone();
        async move {
            let op = idem.operation("window").key(1).mode(Mode::Window);
            op.run(async { Ok::<_, Error>(1) }).await
        }
    };
    let mut consumes = site.start_with(site.consumer().concurrency(1), window).await;
    let error = in_time(&mut consumes.0).await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("the consumer `orders` has stopped"), "{error}");
    assert_eq!((site.broker.pending().await, site.put_aside().await), (2, (0, 0)));
}

pub(crate) async fn a_consumer_that_is_dropped_leaves_its_message_to_the_next_one<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Waits)]).await;
    let consumes = site.start(site.consumer()).await;
    until(|| site.idem.in_flight() == 1).await;
    drop(consumes);
    until(|| site.idem.in_flight() == 0).await;
    let starts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&starts);
    let handler = move |_: Body| {
        counted(&count);
        async { Ok::<_, Error>(()) }
    };
    let consumes = site.start_with(site.consumer(), handler).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(starts.load(SeqCst), 1);
}

pub(crate) async fn two_consumers_share_a_queue<B: Broker>() {
    let site = Site::<B>::open().await;
    let neighbour = Idempotency::builder().store(site.store.clone()).build().unwrap();
    let started = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut consumers = vec![];
    for (idem, count) in [&site.idem, &neighbour].into_iter().zip(&started) {
        let consumer = Consumer::new(idem, "orders").concurrency(2);
        let count = Arc::clone(count);
        let handler = move |body: Body| {
            counted(&count);
            handle(body)
        };
        consumers.push(site.start_with(consumer, handler).await);
    }
    site.send((0..40).map(|key| message(&key.to_string(), Body::Succeeds))).await;
    assert_eq!(site.settled(&consumers[0]).await, (0, 0));
    assert_eq!(site.idem.store().usage().unwrap().entries, 40);
    let started = started.map(|count| count.load(SeqCst));
    assert!(started.iter().sum::<usize>() >= 40, "{started:?}");
}

/// The tests of a broker, one for each scenario, or their names.
macro_rules! scenarios {
    (@each $broker:ty: $($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::scenarios::$name::<$broker>().await;
            }
        )*
    };
    (@names: $($name:ident)*) => {
        &[$(stringify!($name)),*]
    };
    (names) => {
        $crate::scenarios::scenarios!(@of @names)
    };
    ($broker:ty) => {
        $crate::scenarios::scenarios!(@of @each $broker);
    };
    (@of $($for:tt)*) => {
        $crate::scenarios::scenarios! { $($for)*:
            a_message_is_acknowledged_and_so_is_each_repeat
            a_duplicate_is_acknowledged
            a_repeat_whose_value_was_not_kept_is_acknowledged
            an_error_comes_again_and_its_attempts_are_limited
            a_pause_is_kept
            a_panic_comes_again_and_counts
            a_call_inside_its_own_body_comes_again
            a_final_error_is_a_dead_letter_and_so_is_each_repeat
            a_message_that_no_retry_helps_is_a_dead_letter
            a_payload_that_differs_is_a_dead_letter
            a_message_that_another_process_handles_comes_again
            a_message_whose_attempt_was_taken_over_comes_again
            a_value_that_is_not_recorded_comes_again
            an_unknown_outcome_is_parked
            a_record_that_cannot_be_read_is_parked
            a_store_that_does_not_answer_loses_no_message
            a_store_that_is_full_keeps_the_message
            a_store_without_its_replicas_keeps_the_message
            consumers_that_restart_while_the_store_is_down_use_up_no_attempt
            an_instance_that_shuts_down_leaves_its_message_to_the_next_one
            a_window_ends_the_consumer_and_keeps_its_messages
            a_function_that_is_set_up_wrongly_ends_the_consumer_and_keeps_its_messages
            a_consumer_that_is_dropped_leaves_its_message_to_the_next_one
            two_consumers_share_a_queue
        }
    };
}
pub(crate) use scenarios;
