//! Servers that are killed, connections that are cut, answers that are lost.

use super::*;
use crate::bench::{Body, handle, in_time, message};
use idempotent_queue::{Consumer, ConsumerError, Delivery as _};
use idempotent_runtime::testing::Ledger;
use idempotent_runtime::{Error, Idempotency, Mode};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Instant;
use support::until;
use support::valve::{Flow, Valve};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A consumer whose bodies are counted outside, and wait for a permit before they end.
struct Counted {
    ledger: Ledger,
    /// Calls of the handler, replays included.
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    running: JoinHandle<Result<(), ConsumerError>>,
}

impl Counted {
    async fn start(nats: &Nats) -> Self {
        let idem = Idempotency::in_memory().unwrap();
        let (ledger, calls, gate) =
            (Ledger::new(), Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let shared = (idem.clone(), ledger.clone(), Arc::clone(&calls), Arc::clone(&gate));
        let handler = move |order: u32| {
            let (idem, ledger, calls, gate) = shared.clone();
            async move {
                calls.fetch_add(1, SeqCst);
                let body = async {
                    ledger.record(order.to_string());
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, Error>(order)
                };
                let op = idem.operation("count").key(order).mode(Mode::Strong);
                op.wait(Duration::ZERO).run(body).await
            }
        };
        let consumer = consumer(&idem).concurrency(4);
        let running = tokio::spawn(consumer.run(nats.prepared(4).await, handler));
        Self { ledger, calls, gate, running }
    }

    fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    fn bodies(&self, orders: Range<u32>) -> Vec<usize> {
        orders.map(|order| self.ledger.ran(&order.to_string())).collect()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn consumer(idem: &Idempotency) -> Consumer {
    let pause = Duration::from_millis(20);
    Consumer::new(idem, "orders").backoff(pause, pause).heartbeat(pause)
}

async fn send(nats: &Nats, orders: Range<u32>) {
    for order in orders {
        nats.send(Message::new(order.to_string())).await;
    }
}

/// A test's streams as a client behind a valve sees them, and as one beside it does.
async fn behind_a_valve() -> (Valve, Nats, Nats) {
    // A message that was on its way when the connection was cut comes again after that.
    let ack_wait = Duration::from_secs(1);
    let direct = Nats::open_with(pull::Config { ack_wait, ..config() }).await;
    let address = shared_nats().rsplit('/').next().unwrap().to_owned();
    let valve = Valve::open(address).await;
    let url = format!("nats://127.0.0.1:{}", valve.port());
    let through = direct.through(impatient(&url).await);
    (valve, through, direct)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_with_messages_in_hand_gets_them_settled_once_it_is_back() {
    let mut server = NatsServer::start();
    let ack_wait = Duration::from_secs(1);
    let nats =
        Nats::on(impatient(&server.url()).await, pull::Config { ack_wait, ..config() }).await;
    send(&nats, 0..10).await;
    let consumer = Counted::start(&nats).await;
    until(|| consumer.calls() == 4).await;
    server.kill();
    consumer.gate.add_permits(10);
    // The bodies end while nothing can be acknowledged.
    until(|| consumer.gate.available_permits() == 6).await;
    server.restart();
    let direct = nats.through(connect(&server.url()).await);
    until_async(async || direct.pending().await == 0).await;
    assert_eq!(consumer.bodies(0..10), [1; 10]);
    // It goes on.
    consumer.gate.add_permits(1);
    send(&direct, 10..11).await;
    until_async(async || direct.pending().await == 0).await;
    assert_eq!(consumer.bodies(0..11), [1; 11]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_is_made_again_and_brings_messages_at_once() {
    let (valve, nats, direct) = behind_a_valve().await;
    let consumer = Counted::start(&nats).await;
    consumer.gate.add_permits(100);
    for order in 0..3 {
        until_async(async || direct.consumer_info().await.num_waiting > 0).await;
        valve.cut();
        until(|| {
            nats.jetstream.client().statistics().connects.load(SeqCst) == u64::from(order) + 2
        })
        .await;
        let back = Instant::now();
        send(&direct, order..order + 1).await;
        until_async(async || direct.pending().await == 0).await;
        // Before two heartbeats could be missed.
        assert!(back.elapsed() < Duration::from_secs(8), "{:?}", back.elapsed());
    }
    assert_eq!(consumer.bodies(0..3), [1; 3]);
}

#[tokio::test]
async fn a_server_that_was_restarted_is_asked_for_messages_at_once() {
    let mut server = NatsServer::start();
    let nats = Nats::on(impatient(&server.url()).await, config()).await;
    let mut source = nats.prepared(1).await;
    nats.until_asked(&mut source).await;
    // It has forgotten the request.
    server.restart();
    nats.through(connect(&server.url()).await).send(Message::new("1")).await;
    // Without a look at the connection, it is an error after two heartbeats that did not come.
    in_time(source.next()).await.unwrap().unwrap().ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_that_is_lost_leads_to_a_replay() {
    let (valve, nats, direct) = behind_a_valve().await;
    send(&direct, 0..1).await;
    let consumer = Counted::start(&nats).await;
    until(|| consumer.calls() == 1).await;
    // Nothing gets to the server any more, and is lost.
    valve.set(Flow::Replies);
    consumer.gate.add_permits(1);
    until(|| valve.held() > 0).await;
    valve.cut();
    assert_eq!(direct.pending().await, 1);
    valve.set(Flow::Everything);
    until_async(async || direct.pending().await == 0).await;
    assert_eq!(consumer.bodies(0..1), [1]);
    assert!(consumer.calls() > 1, "a replay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_that_is_lost_brings_nothing_back() {
    let (valve, nats, direct) = behind_a_valve().await;
    send(&direct, 0..1).await;
    let consumer = Counted::start(&nats).await;
    until(|| consumer.calls() == 1).await;
    // Nothing comes from the server any more.
    valve.set(Flow::Requests);
    consumer.gate.add_permits(2);
    until_async(async || direct.pending().await == 0).await;
    until(|| valve.held() > 0).await;
    valve.cut();
    valve.set(Flow::Everything);
    send(&direct, 1..2).await;
    until_async(async || direct.pending().await == 0).await;
    assert_eq!((consumer.bodies(0..2), consumer.calls()), (vec![1, 1], 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_whose_confirmation_is_lost_is_there_once() {
    let (valve, nats, direct) = behind_a_valve().await;
    direct.send(message("a", Body::Declines)).await;
    let valve = Arc::new(valve);
    let idem = Idempotency::in_memory().unwrap();
    let (calls, shut) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&valve));
    let count = Arc::clone(&calls);
    let handler = move |body: Body| {
        if count.fetch_add(1, SeqCst) == 0 {
            shut.set(Flow::Requests);
        }
        handle(body)
    };
    let consumes = tokio::spawn(consumer(&idem).run(nats.prepared(1).await, handler));
    until_async(async || direct.dead_letters().await.len() == 1).await;
    // The copy is there, the confirmation is not, so the original has to stay until it comes again.
    until_async(async || direct.consumer_info().await.num_pending == 0).await;
    assert_eq!(direct.pending().await, 1);
    until(|| valve.held() > 0).await;
    valve.cut();
    valve.set(Flow::Everything);
    until_async(async || direct.pending().await == 0).await;
    assert!(calls.load(SeqCst) > 1, "it came again");
    assert_eq!(direct.dead_letters().await.len(), 1);
    consumes.abort();
}

/// Without it the message would be lost, since its copy was not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_no_stream_takes_stays_where_it_is() {
    let nats = Nats::open().await;
    nats.send(message("a", Body::Succeeds)).await;
    let idem = Idempotency::in_memory().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let handler = move |body: Body| {
        count.fetch_add(1, SeqCst);
        handle(body)
    };
    let consumes = tokio::spawn(consumer(&idem).run(nats.prepared(1).await, handler));
    until_async(async || nats.pending().await == 0).await;
    // After the start, which would be refused.
    nats.jetstream.delete_stream(nats.aside()).await.unwrap();
    nats.send(message("b", Body::Declines)).await;
    until(|| calls.load(SeqCst) > 3).await;
    assert_eq!(nats.pending().await, 1);
    nats.add_stream(&nats.aside(), &[&nats.dead(), &nats.parking()]).await;
    until_async(async || nats.pending().await == 0).await;
    assert_eq!(nats.dead_letters().await.len(), 1);
    consumes.abort();
}

#[tokio::test]
async fn a_server_that_is_silent_is_an_error_and_is_asked_again() {
    let server = NatsServer::start();
    // The heartbeats of a request follow its time.
    let max_expires = Duration::from_secs(1);
    let limits = pull::Config { max_expires, ..config() };
    let nats = Nats::on(impatient(&server.url()).await, limits).await;
    let mut source = nats.prepared(1).await;
    nats.until_asked(&mut source).await;
    let paused = server.pause();
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("sends no heartbeat"), "{error}");
    drop(paused);
    nats.send(Message::new("1")).await;
    let delivery = in_time(async {
        loop {
            if let Ok(delivery) = source.next().await {
                return delivery.unwrap();
            }
        }
    })
    .await;
    delivery.ack().await.unwrap();
}

#[tokio::test]
async fn a_consumer_that_is_deleted_is_an_error_until_it_is_there_again() {
    let nats = Nats::open().await;
    let mut source = nats.prepared(1).await;
    nats.until_asked(&mut source).await;
    let stream = nats.jetstream.get_stream(&nats.stream).await.unwrap();
    stream.delete_consumer(CONSUMER).await.unwrap();
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("Consumer Deleted"), "{error}");
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("does not exist any more; help: "), "{error}");
    stream.create_consumer(config()).await.unwrap();
    nats.send(Message::new("1")).await;
    in_time(source.next()).await.unwrap().unwrap().ack().await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_not_connected_is_an_error() {
    let mut server = NatsServer::start();
    let nats = Nats::on(impatient(&server.url()).await, config()).await;
    let mut source = nats.prepared(1).await;
    nats.until_asked(&mut source).await;
    server.kill();
    let error = in_time(source.next()).await.unwrap_err();
    assert!(error.to_string().contains("is not connected"), "{error}");
}
