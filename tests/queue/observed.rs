//! Spans, metrics, warnings and health of consumers.

use crate::bench::{Bench, Body, handle, in_time, message};
use crate::watched::{Broker, Watched};
use idempotent_queue::observe::names;
use idempotent_queue::{ConsumerState, Message, Prepared};
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Config, Error};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{events, until};
use tokio::sync::oneshot;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Span, Subscriber};

/// The spans of this thread, and those that are entered.
#[derive(Clone, Default)]
struct Spans(Arc<Seen>);

#[derive(Default)]
struct Seen {
    last: AtomicU64,
    /// Name and fields, by their id.
    spans: Mutex<BTreeMap<u64, BTreeMap<&'static str, String>>>,
    entered: Mutex<Vec<u64>>,
}

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.last.fetch_add(1, SeqCst) + 1;
        let mut fields =
            Fields(BTreeMap::from([("name", attributes.metadata().name().to_owned())]));
        attributes.record(&mut fields);
        self.0.spans.lock().unwrap().insert(id, fields.0);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.0.entered.lock().unwrap().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        self.0.entered.lock().unwrap().retain(|entered| *entered != id.into_u64());
    }
}

impl Spans {
    /// The outermost span that is entered, of those of a message.
    fn current(&self) -> BTreeMap<&'static str, String> {
        let (entered, spans) = (self.0.entered.lock().unwrap(), self.0.spans.lock().unwrap());
        entered.first().map(|id| spans[id].clone()).unwrap_or_default()
    }
}

async fn span_of(
    message: Message,
    set: impl FnOnce(idempotent_queue::Consumer) -> idempotent_queue::Consumer,
) -> BTreeMap<&'static str, String> {
    let bench = Bench::new();
    bench.queue.send(message);
    bench.queue.close();
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let inside = Arc::new(Mutex::new(BTreeMap::new()));
    let note = Arc::clone(&inside);
    let handler = move |_: Body| {
        let (spans, note) = (spans.clone(), Arc::clone(&note));
        async move {
            tokio::task::yield_now().await;
            *note.lock().unwrap() = spans.current();
            Ok::<_, Error>(())
        }
    };
    in_time(set(bench.consumer()).run(bench.queue.deliveries(), handler)).await.unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
    let inside = inside.lock().unwrap();
    inside.clone()
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced() -> Message {
    message("a", Body::Succeeds).with_id("m-1").with_header("Traceparent", PARENT)
}

#[tokio::test]
async fn a_message_is_handled_in_a_span_with_its_trace_context() {
    let expected = [
        ("name", "consume"),
        ("consumer", "orders"),
        ("message_id", "m-1"),
        ("deliveries", "1"),
        ("traceparent", PARENT),
    ];
    let expected = expected.map(|(name, value)| (name, value.to_owned())).into();
    assert_eq!(span_of(traced(), |consumer| consumer).await, expected);
}

#[tokio::test]
async fn a_program_can_make_the_span_itself() {
    let own =
        |message: &Message| tracing::info_span!("own", parent = message.header("traceparent"));
    let span = span_of(traced(), |consumer| consumer.span(own)).await;
    assert_eq!((&*span["name"], &*span["parent"]), ("own", PARENT));
    let panics = |_: &Message| -> Span { panic!("no span") };
    let span = span_of(traced(), |consumer| consumer.span(panics)).await;
    assert_eq!(span, BTreeMap::new(), "handled all the same");
}

type Counts = BTreeMap<(String, String), u64>;

/// The counters of this name, by consumer and settlement.
fn counters(snapshotter: &Snapshotter, name: &str) -> Counts {
    let mut counts = Counts::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        if key.name() != name {
            continue;
        }
        let label = |name: &str| {
            let label = key.labels().find(|label| label.key() == name);
            label.map(|label| label.value().to_owned()).unwrap_or_default()
        };
        let value = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Gauge(value) => value.0 as u64,
            DebugValue::Histogram(values) => values.len() as u64,
        };
        counts.insert((label(names::CONSUMER), label(names::SETTLEMENT)), value);
    }
    counts
}

fn of_orders<const N: usize>(counts: [(&str, u64); N]) -> Counts {
    counts.map(|(settlement, count)| (("orders".to_owned(), settlement.to_owned()), count)).into()
}

/// Runs a consumer under a recorder, which holds for one thread.
fn measured<F: Future<Output = ()>>(run: impl FnOnce(Snapshotter) -> F) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(run(snapshotter)));
}

#[test]
fn settlements_are_counted_by_consumer_and_kind() {
    measured(|snapshotter| async move {
        let bench = Bench::new();
        let messages = [
            message("a", Body::Succeeds),
            message("b", Body::Succeeds),
            message("c", Body::Declines),
            message("d", Body::Fails),
        ];
        bench.consume_with(bench.consumer().max_attempts(1), messages).await.unwrap();
        let settled = [("ack", 2), ("again", 1), ("dead_letter", 2)];
        assert_eq!(counters(&snapshotter, names::SETTLED), of_orders(settled));
    });
    measured(|snapshotter| async move {
        let bench = Bench::new();
        bench.consume([message("a", Body::Succeeds)]).await;
        assert_eq!(counters(&snapshotter, names::HANDLING_SECONDS), of_orders([("", 1)]));
    });
}

#[test]
fn settlements_that_the_broker_did_not_take_are_counted() {
    measured(|snapshotter| async move {
        let bench = Bench::new();
        bench.queue.send(message("a", Body::Succeeds));
        let source = Watched::new(&bench.queue);
        *source.broker.lock().unwrap() = Broker::Refuses;
        let hour = Duration::from_secs(3_600);
        let consumer = bench.consumer().backoff(hour, hour);
        let health = consumer.health();
        let consumes = tokio::spawn(consumer.run(source, handle));
        until(|| health.settled().not_taken == 1).await;
        assert_eq!(health.state(), ConsumerState::PausedByBroker);
        assert_eq!(health.settled().acknowledged, 0);
        assert_eq!(counters(&snapshotter, names::NOT_SETTLED), of_orders([("ack", 1)]));
        consumes.abort();
    });
}

#[test]
fn messages_in_hand_are_a_gauge() {
    measured(|snapshotter| async move {
        let bench = Bench::new();
        for key in ["a", "b"] {
            bench.queue.send(message(key, Body::Waits));
        }
        let consumes = tokio::spawn(bench.consumer().run(bench.queue.deliveries(), handle));
        until(|| bench.idem.in_flight() == 2).await;
        assert_eq!(counters(&snapshotter, names::IN_HAND), of_orders([("", 2)]));
        consumes.abort();
        assert!(consumes.await.unwrap_err().is_cancelled());
        until(|| counters(&snapshotter, names::IN_HAND) == of_orders([("", 0)])).await;
    });
}

#[tokio::test]
async fn a_retention_shorter_than_the_broker_redelivers_is_warned_of_once() {
    const WARNING: &str =
        "records expire before the broker stops to deliver again: a late delivery runs the body";
    let day = Duration::from_secs(24 * 3_600);
    for (expire, warnings) in [(day * 2, 1), (day * 7, 0)] {
        let bench = Bench::new();
        bench.idem.reconfigure(Config::new().with_expire(expire)).unwrap();
        for key in ["a", "b"] {
            bench.queue.send(message(key, Body::Succeeds));
        }
        bench.queue.close();
        let mut source = Watched::new(&bench.queue);
        source.prepares.push_back(Ok(Prepared::default().redelivered_for(day * 7)));
        let events = events::collect();
        in_time(bench.consumer().run(source, handle)).await.unwrap();
        let seen = events.take(WARNING);
        assert_eq!(seen.len(), warnings, "{expire:?}");
        for event in seen {
            assert_eq!(event.fields["expire"], "172800s");
            assert_eq!(event.fields["redelivered_for"], "604800s");
            assert_eq!(event.fields["consumer"], "orders");
        }
    }
}

#[tokio::test]
async fn health_tells_the_state_of_a_consumer_from_its_start_to_its_end() {
    let bench = Bench::new();
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = bench.consumer().shutdown_on(async { drop(stopped.await) });
    let health = consumer.health();
    assert_eq!((health.consumer(), health.state()), ("orders", ConsumerState::Starting));
    let gate = bench.store.hold(Verb::Complete);
    bench.queue.send(message("a", Body::Succeeds));
    let consumes = tokio::spawn(consumer.run(bench.queue.deliveries(), handle));
    gate.arrived(1).await;
    assert_eq!((health.state(), health.in_hand()), (ConsumerState::Running, 1));
    stop.send(()).unwrap();
    until(|| health.state() == ConsumerState::Draining).await;
    gate.open();
    in_time(consumes).await.unwrap().unwrap();
    assert_eq!((health.state(), health.in_hand()), (ConsumerState::Ended, 0));
    assert_eq!((health.settled().acknowledged, health.last_error()), (1, None));
}

#[tokio::test]
async fn health_tells_of_a_broker_that_is_away_and_keeps_no_error_of_handlers() {
    let bench = Bench::new();
    bench.queue.send(message("a", Body::Declines));
    let mut source = Watched::new(&bench.queue);
    source.errors = 1;
    let second = Duration::from_millis(50);
    let consumer = bench.consumer().backoff(second, second);
    let health = consumer.health();
    let consumes = tokio::spawn(consumer.run(source, handle));
    until(|| health.state() == ConsumerState::PausedByBroker).await;
    until(|| health.state() == ConsumerState::Running && health.settled().dead_letters == 1).await;
    let error = health.last_error().unwrap();
    assert_eq!(error.text, "the broker is away");
    assert!(error.age >= second, "{error:?}");
    consumes.abort();
    until(|| health.state() == ConsumerState::Ended).await;
}

#[tokio::test]
async fn health_tells_of_a_consumer_that_was_dropped_before_it_ran() {
    let bench = Bench::new();
    let health = bench.consumer().health();
    assert_eq!(health.state(), ConsumerState::Ended);
    let plain = |_: Body| ready(Ok::<_, Error>(()));
    let unpolled = bench.consumer();
    let health = unpolled.health();
    drop(unpolled.run(bench.queue.deliveries(), plain));
    assert_eq!(health.state(), ConsumerState::Ended);
}
