//! Consumers in processes of their own that are killed, paused, or lose their store: every message ends, and a
//! ledger outside says how often its body ran.

#[path = "../worker/orders.rs"]
#[allow(dead_code, reason = "shared with the process")]
mod orders;

use crate::place::Place;
use crate::scenarios::Broker;
use idempotent_queue::Message;
use orders::{Ledger, Orders, POISON, Point, UNTRACED};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::patience::Patience;
use support::redis::{RedisServer, TempDirectory, shared_redis};
use support::worker::Worker;
use support::{size, until_async};

/// A queue that consumers in other processes reach.
pub(crate) trait InProcesses: Broker {
    /// A server of the test's own, if the broker has one that can be restarted.
    type Server: Send;

    /// Starts a server, and makes a queue on it.
    fn open_on_own_server() -> impl Future<Output = (Self, Self::Server)> + Send;

    /// A new queue whose messages come again soon after their consumer has died.
    fn open_for_processes() -> impl Future<Output = Self> + Send;

    /// Kills the server and starts it again, with what it has on disk. `false` if it cannot be done.
    fn restart(server: &mut Self::Server) -> bool;

    fn place(&self) -> impl Future<Output = Place> + Send;
}

const LEASE: Duration = Duration::from_secs(1);
/// Several of them fit into the time after which brokers deliver a message of a dead consumer again.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(300);
/// That time.
pub(crate) const REDELIVERED_AFTER: Duration = Duration::from_secs(2);
const CONCURRENCY: usize = 16;
const MAX_ATTEMPTS: u32 = 3;

/// A queue, and a ledger of the bodies of its messages.
struct Site<B> {
    broker: B,
    redis: String,
    ledger: PathBuf,
    _directory: TempDirectory,
}

impl<B: InProcesses> Site<B> {
    async fn open() -> Self {
        Self::of(B::open_for_processes().await, shared_redis().to_owned())
    }

    fn of(broker: B, redis: String) -> Self {
        let directory = TempDirectory::new();
        let ledger = directory.path().join("ledger");
        Self { broker, redis, ledger, _directory: directory }
    }

    async fn orders(&self, stop: Option<Point>, max_attempts: u32) -> String {
        let orders = Orders {
            place: self.broker.place().await,
            redis: self.redis.clone(),
            ledger: self.ledger.clone(),
            stop,
            lease_ms: LEASE.as_millis() as u64,
            heartbeat_ms: HEARTBEAT.as_millis() as u64,
            concurrency: CONCURRENCY,
            max_attempts,
        };
        serde_json::to_string(&orders).unwrap()
    }

    /// A consumer whose attempts are not limited.
    async fn start(&self) -> Worker {
        Worker::start_told(worker(), &self.orders(None, u32::MAX).await, 1)
    }

    /// A consumer that has got to a point, and stays there.
    async fn stopped_at(&self, point: Point) -> Worker {
        let orders = self.orders(Some(point), u32::MAX).await;
        let started =
            tokio::task::spawn_blocking(move || Worker::start_talking(worker(), &orders, 1));
        let (worker, line) = in_time(started).await.unwrap();
        assert_eq!(line, "stopped\n");
        worker
    }

    async fn send(&self, key: &str) {
        self.broker.send(message(key)).await;
    }

    /// Consumes until nothing is left, not even in the hands of a consumer: one that is asked to end settles what it has.
    async fn until_settled(&self, mut worker: Worker) {
        in_time(async {
            loop {
                until_async(async || self.broker.pending().await == 0).await;
                worker.terminate();
                let status = worker.ended().await;
                // It may have been asked before it listened.
                assert!(status.success() || status.signal() == Some(15), "{status}");
                if self.broker.pending().await == 0 {
                    return;
                }
                worker = self.start().await;
            }
        })
        .await;
    }

    fn starts(&self) -> BTreeMap<String, usize> {
        Ledger::counts(&self.ledger, "start")
    }

    fn ends(&self) -> BTreeMap<String, usize> {
        Ledger::counts(&self.ledger, "end")
    }

    async fn put_aside(&self) -> (usize, usize) {
        (self.broker.dead_letters().await.len(), self.broker.parked().await.len())
    }
}

/// Ends a test whose messages are never settled. Groups of consumers wait for members that died.
pub(crate) async fn in_time<F: Future>(settles: F) -> F::Output {
    let settled = Patience::of(Duration::from_secs(180)).wait_for(settles).await;
    settled.expect("the messages are settled")
}

fn worker() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_queue-worker"))
}

fn message(key: &str) -> Message {
    Message::new(serde_json::to_vec(key).unwrap()).with_header("idempotency-key", key)
}

/// A key that no other test has.
fn key(name: &str) -> String {
    format!("{name}-{:016x}", rand::random::<u64>())
}

/// Kills a consumer at a point, and says how often the body has run when another one has settled the message.
async fn killed_at<B: InProcesses>(point: Point) -> usize {
    let site = Site::<B>::open().await;
    let key = key("order");
    site.send(&key).await;
    drop(site.stopped_at(point).await);
    // Until the broker has noticed. Of an acknowledgement it may hear a moment later, or not at all.
    if point != Point::AfterTheAck {
        in_time(until_async(async || site.broker.pending().await == 1)).await;
    }
    site.until_settled(site.start().await).await;
    assert_eq!((site.put_aside().await, site.ends()[&key]), ((0, 0), 1));
    site.starts()[&key]
}

pub(crate) async fn killed_before_the_body<B: InProcesses>() {
    assert_eq!(killed_at::<B>(Point::BeforeTheBody).await, 1);
}

/// The only one after which the body runs again: nobody knows how far it had come.
pub(crate) async fn killed_in_the_body<B: InProcesses>() {
    assert_eq!(killed_at::<B>(Point::InTheBody).await, 2);
}

pub(crate) async fn killed_after_the_body<B: InProcesses>() {
    assert_eq!(killed_at::<B>(Point::AfterTheBody).await, 1);
}

pub(crate) async fn killed_before_the_ack<B: InProcesses>() {
    assert_eq!(killed_at::<B>(Point::BeforeTheAck).await, 1);
}

pub(crate) async fn killed_after_the_ack<B: InProcesses>() {
    assert_eq!(killed_at::<B>(Point::AfterTheAck).await, 1);
}

/// A message that ends the process of its body becomes a dead letter after as many attempts as it may have.
pub(crate) async fn a_poisonous_message_is_put_aside<B: InProcesses>() {
    poisoned::<B>(POISON, MAX_ATTEMPTS, MAX_ATTEMPTS).await;
}

/// A body in a transaction takes the count of its attempt with it when its process dies. After ten deliveries for one
/// attempt, a record of the consumer's own counts.
pub(crate) async fn a_poisonous_message_without_a_trace_is_put_aside<B: InProcesses>() {
    poisoned::<B>(UNTRACED, 1, 11).await;
}

/// A message of this kind ends so many processes, and is a dead letter then.
async fn poisoned<B: InProcesses>(kind: &str, max_attempts: u32, expected: u32) {
    let site = Site::<B>::open().await;
    let key = key(kind);
    site.send(&key).await;
    let orders = site.orders(None, max_attempts).await;
    let mut deaths = 0;
    let mut consumer = Worker::start_told(worker(), &orders, 1);
    in_time(async {
        while site.broker.dead_letters().await.is_empty() {
            if consumer.has_ended() {
                deaths += 1;
                consumer = Worker::start_told(worker(), &orders, 1);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    site.until_settled(consumer).await;
    assert_eq!(site.put_aside().await, (1, 0));
    assert_eq!(deaths, expected, "processes that died");
    assert_eq!(site.starts()[&key], deaths as usize);
}

/// The store is killed while messages are handled, and comes back with what it had acknowledged.
pub(crate) async fn a_store_that_goes_down_and_comes_back_loses_nothing<B: InProcesses>() {
    let mut redis = durable_redis();
    let site = Site::of(B::open_for_processes().await, redis.url());
    let worker = site.start().await;
    let count = 200;
    for number in 0..count {
        site.send(&format!("order-{number}")).await;
        if number == count / 2 {
            in_time(until_async(async || site.starts().len() > 10)).await;
            redis.kill();
        }
    }
    redis.restart();
    in_time(until_async(async || site.ends().len() == count)).await;
    site.until_settled(worker).await;
    assert_eq!((site.put_aside().await, site.ends().len()), ((0, 0), count));
}

fn durable_redis() -> RedisServer {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    RedisServer::start_with(&support::redis::installed(), &durable)
}

/// Faults at random, while two processes consume: every message ends, and bodies run again only for what was in
/// hand when a process was killed or paused.
#[expect(clippy::print_stdout, reason = "the figures of a long run")]
pub(crate) async fn random_faults_lose_nothing<B: InProcesses>() {
    let count = size(500, 100_000);
    let mut redis = durable_redis();
    let (broker, mut server) = B::open_on_own_server().await;
    let site = Site::of(broker, redis.url());
    let mut workers = [site.start().await, site.start().await];
    let (mut kills, mut pauses, mut outages, mut restarts) = (0, 0, 0, 0);
    let mut sent = 0;
    // Dealt like cards, so that no kind is left out by chance.
    let mut faults = Vec::new();
    loop {
        // A server that restarts takes no messages: the faults come between the batches.
        for _ in 0..(count / 20).min(count - sent) {
            site.send(&format!("order-{sent}")).await;
            sent += 1;
        }
        let victim = rand::rng().random_range(0..2);
        if faults.is_empty() {
            faults.extend(0..8);
            faults.shuffle(&mut rand::rng());
        }
        match faults.pop().unwrap_or(0) {
            0..4 => {
                workers[victim] = site.start().await;
                kills += 1;
            }
            4 | 5 => {
                // Longer than a lease, sometimes.
                workers[victim].pause();
                pauses += 1;
                let millis = rand::rng().random_range(100..2_000);
                tokio::time::sleep(Duration::from_millis(millis)).await;
                workers[victim].go_on();
            }
            6 => {
                redis.kill();
                outages += 1;
                redis.restart();
            }
            _ => restarts += usize::from(B::restart(&mut server)),
        }
        // A fault is felt while messages are handled, so some are before the next one.
        let progress = (site.ends().len() + count / 40).min(sent);
        in_time(async {
            while site.ends().len() < progress {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        if sent == count && progress == count {
            break;
        }
    }
    // Settles what is left, and is not disturbed.
    let [one, mut other] = workers;
    other.terminate();
    other.ended().await;
    site.until_settled(one).await;
    assert_eq!(site.put_aside().await, (0, 0));
    let (starts, ends) = (site.starts(), site.ends());
    assert_eq!((starts.len(), ends.len()), (count, count));
    let again: usize = starts.values().sum::<usize>() - count;
    println!(
        "{}: {count} messages, {kills} kills, {pauses} pauses, {outages} outages of the store, \
         {restarts} restarts of the broker: {again} bodies ran again",
        std::any::type_name::<B>()
    );
    // A pause may be longer than a lease, and so may an outage.
    let most = (kills + pauses + 2 * outages) * CONCURRENCY;
    assert!(again <= most, "{again} bodies ran again, at most {most} were in hand at a fault");
}

/// The tests of a broker whose consumers die. One that counts the deliveries of processes that died has one more.
macro_rules! crashes {
    ($broker:ty, counting) => {
        $crate::crashes::crashes!($broker);
        $crate::crashes::crashes!(@each $broker: a_poisonous_message_without_a_trace_is_put_aside);
    };
    ($broker:ty) => {
        $crate::crashes::crashes!(@each $broker:
            killed_before_the_body
            killed_in_the_body
            killed_after_the_body
            killed_before_the_ack
            killed_after_the_ack
            a_poisonous_message_is_put_aside
            a_store_that_goes_down_and_comes_back_loses_nothing
            random_faults_lose_nothing
        );
    };
    (@each $broker:ty: $($name:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::crashes::$name::<$broker>().await;
            }
        )*
    };
}
pub(crate) use crashes;
