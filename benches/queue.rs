//! Cost of consuming messages, as a ratio to a consumer of the same broker that is written by hand.
//!
//! `cargo bench -p idempotent-queue-tests --features broker-tests --bench queue`. Needs NATS, RabbitMQ and Redis; the
//! servers are started by the benchmark. All consumers handle 64 messages at a time and acknowledge each of them in the
//! same way: confirmed on NATS. The one by hand sends the same two commands to Redis for each message as a call does: `SET
//! NX GET PX` before its body, and after it a script that compares and sets, on one connection; the bare one sends none, and
//! the calling one calls the idempotent function, so that the rest is what a [`Consumer`] adds. These three handle all
//! messages in one task. The spawning one is that by hand with a task for each message, so that, as with a [`Consumer`], a
//! handler that blocks does not hold up the others, and all processors are used.
//!
//! All of it is measured twice: with as many worker threads as there are processors, which the servers share, and with one
//! less, so that they have one to themselves.
//!
//! They take turns in short rounds, so that all see the same machine; a figure is the median over the rounds, with the
//! lowest and the highest behind it. A ratio is that of throughput: 1.00 is as fast.
#![allow(missing_docs, clippy::print_stdout)]

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt as _;
use idempotent_queue::rabbitmq::RabbitMq;
use idempotent_queue::redis_streams::{self, StreamDeliveries};
use idempotent_queue::{Consumer, Deliveries, Outgoing, Publisher, nats};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands as _, Client, Script};
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use support::nats::shared_nats;
use support::rabbitmq::shared_rabbitmq;
use support::redis::shared_redis;
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};

const ROUNDS: usize = 7;
const MESSAGES: usize = 10_000;
const CONCURRENCY: usize = 64;
const HOUR: u64 = 3_600_000;

/// Completes only what the same attempt began, as a call has to.
static COMPLETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
         redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1",
    )
});

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A queue that is filled for each round.
trait Queue: Sync {
    const NAME: &'static str;
    /// The time that the last read of a consumer takes, which may still take messages.
    const LAST_READ: Duration = Duration::from_millis(100);

    fn publisher(&self) -> impl Publisher;
    fn destination(&self) -> String;
    fn source(&self) -> impl Deliveries;

    /// Consumes so many messages, and calls `body` with the key of each before it is acknowledged.
    fn by_hand<F>(
        &self,
        tasks: Tasks,
        body: impl Fn(String) -> F + Send + Sync,
    ) -> impl Future<Output = ()>
    where
        F: Future<Output = ()> + Send + 'static;
}

/// The tasks in which messages are handled.
#[derive(Clone, Copy)]
enum Tasks {
    One,
    OneEach,
}

impl Tasks {
    async fn run(self, handles: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::One => handles.await,
            Self::OneEach => tokio::spawn(handles).await.unwrap(),
        }
    }
}

/// The messages of a round.
async fn fill(queue: &impl Queue) {
    let (publisher, destination) = (Arc::new(queue.publisher()), queue.destination());
    let slots = Arc::new(Semaphore::new(256));
    for _ in 0..MESSAGES {
        let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
        let (publisher, key) = (Arc::clone(&publisher), NEXT.fetch_add(1, SeqCst).to_string());
        let message = Outgoing::new(&destination, &*key, serde_json::to_vec(&key).unwrap());
        tokio::spawn(async move {
            publisher.publish(&message).await.unwrap();
            drop(slot);
        });
    }
    let _all = slots.acquire_many(256).await.unwrap();
}

#[idempotent(name = "bench.handle", key = "key", mode = "strong", expire = "1h")]
async fn handle(key: &str) -> Result<usize, Error> {
    Ok(key.len())
}

async fn idempotently(queue: &impl Queue, idem: &Idempotency) {
    let (handled, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let counts = (Arc::clone(&handled), Arc::clone(&all));
    let handler = move |key: String| {
        let (handled, all) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
        async move {
            let answer = handle(&key).await;
            if handled.fetch_add(1, SeqCst) + 1 == MESSAGES {
                all.notify_one();
            }
            answer
        }
    };
    // The last messages are acknowledged before it ends.
    let consumer = Consumer::new(idem, "bench").concurrency(CONCURRENCY);
    let consumer = consumer.shutdown_on(async move { all.notified().await });
    consumer.run(queue.source(), handler).await.unwrap();
    // RabbitMQ may deliver again what the consumer by hand acknowledged as its connection closed.
    assert!(handled.load(SeqCst) >= MESSAGES);
}

async fn with_two_commands(queue: &impl Queue, tasks: Tasks, redis: &MultiplexedConnection) {
    let body = |key: String| {
        let mut redis = redis.clone();
        async move {
            let name = format!("by-hand:{key}");
            let mut begin = redis::cmd("SET");
            begin.arg(&name).arg("processing").arg("NX").arg("GET").arg("PX").arg(HOUR);
            let before: Option<String> = begin.query_async(&mut redis).await.unwrap();
            assert_eq!(before, None);
            let mut complete = COMPLETE.prepare_invoke();
            complete.key(&name).arg("processing").arg(key.len()).arg(HOUR);
            let done: usize = complete.invoke_async(&mut redis).await.unwrap();
            assert_eq!(done, 1);
        }
    };
    queue.by_hand(tasks, body).await;
}

/// A consumer by hand whose body is the idempotent function.
async fn by_calls(queue: &impl Queue, idem: &Idempotency) {
    let body = |key: String| {
        let idem = idem.clone();
        async move { assert!(idem.scope(async move { handle(&key).await }).await.is_ok()) }
    };
    queue.by_hand(Tasks::One, body).await;
}

async fn measure<Q: Queue>(queue: Q) {
    let store = RedisStore::connect(shared_redis()).await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let client = Client::open(shared_redis()).unwrap();
    let redis = client.get_multiplexed_async_connection().await.unwrap();
    let [mut to_hand, mut to_tasks, mut to_calls, mut to_bare, mut rates] =
        [const { Vec::new() }; 5];
    for round in 0..=ROUNDS {
        let mut times = [Duration::ZERO; 5];
        for (turn, time) in times.iter_mut().enumerate() {
            fill(&queue).await;
            let started = Instant::now();
            match turn {
                0 => with_two_commands(&queue, Tasks::One, &redis).await,
                1 => idempotently(&queue, &idem).await,
                2 => by_calls(&queue, &idem).await,
                3 => with_two_commands(&queue, Tasks::OneEach, &redis).await,
                _ => queue.by_hand(Tasks::One, |_| std::future::ready(())).await,
            }
            *time = started.elapsed();
            tokio::time::sleep(Q::LAST_READ).await;
        }
        // The first round opens connections.
        if round > 0 {
            let [by_hand, ours, calls, tasks, bare] = times.map(|time| time.as_secs_f64());
            to_hand.push(by_hand / ours);
            to_tasks.push(tasks / ours);
            to_calls.push(calls / ours);
            to_bare.push(bare / ours);
            rates.push(MESSAGES as f64 / ours);
        }
    }
    let figure = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0], values[values.len() - 1])
    };
    let (rate, ..) = figure(&mut rates);
    let floors = [
        ("by hand", &mut to_hand),
        ("spawning", &mut to_tasks),
        ("calling", &mut to_calls),
        ("bare", &mut to_bare),
    ];
    for (floor, ratios) in floors {
        let (median, lowest, highest) = figure(ratios);
        println!(
            "  {:<16} floor: {floor:<8} {rate:>7.0}/s   ratio {median:.2} ({lowest:.2} to {highest:.2})",
            Q::NAME
        );
    }
}

struct Nats {
    jetstream: Context,
    stream: String,
}

impl Nats {
    async fn open() -> Self {
        let jetstream = jetstream::new(async_nats::connect(shared_nats()).await.unwrap());
        let stream = format!("B{:016x}", rand::random::<u64>());
        let config = stream::Config {
            name: stream.clone(),
            subjects: vec![format!("{stream}.orders")],
            ..Default::default()
        };
        let made = jetstream.create_stream(config).await.unwrap();
        let consumer = pull::Config {
            durable_name: Some("bench".to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: Duration::from_secs(60),
            ..Default::default()
        };
        made.create_consumer(consumer).await.unwrap();
        Self { jetstream, stream }
    }
}

impl Queue for Nats {
    const NAME: &'static str = "NATS";

    fn publisher(&self) -> impl Publisher {
        nats::publisher(&self.jetstream)
    }

    fn destination(&self) -> String {
        format!("{}.orders", self.stream)
    }

    fn source(&self) -> impl Deliveries {
        nats::deliveries(&self.jetstream, &self.stream, "bench").create([self.destination()])
    }

    async fn by_hand<F>(&self, tasks: Tasks, body: impl Fn(String) -> F + Send + Sync)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stream = self.jetstream.get_stream(&self.stream).await.unwrap();
        let consumer: jetstream::consumer::PullConsumer =
            stream.get_consumer("bench").await.unwrap();
        let batch = consumer.stream().max_messages_per_batch(CONCURRENCY * 2).messages();
        let messages = batch.await.unwrap().take(MESSAGES);
        messages
            .for_each_concurrent(CONCURRENCY, |message| {
                let message = message.unwrap();
                let call = body(serde_json::from_slice(&message.payload).unwrap());
                tasks.run(async move {
                    call.await;
                    message.double_ack().await.unwrap();
                })
            })
            .await;
    }
}

struct Rabbit {
    rabbit: RabbitMq,
    name: String,
}

impl Rabbit {
    async fn open() -> Self {
        let rabbit = RabbitMq::connect(shared_rabbitmq()).await.unwrap();
        let name = support::rabbitmq::queue_name();
        rabbit.declare_queue(&*name).await.unwrap();
        Self { rabbit, name }
    }
}

impl Queue for Rabbit {
    const NAME: &'static str = "RabbitMQ";

    fn publisher(&self) -> impl Publisher {
        self.rabbit.publisher()
    }

    fn destination(&self) -> String {
        self.name.clone()
    }

    fn source(&self) -> impl Deliveries {
        self.rabbit.deliveries(&*self.name)
    }

    async fn by_hand<F>(&self, tasks: Tasks, body: impl Fn(String) -> F + Send + Sync)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
        let properties = lapin::ConnectionProperties::default();
        let connection = lapin::Connection::connect(shared_rabbitmq(), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.basic_qos(CONCURRENCY as u16, BasicQosOptions::default()).await.unwrap();
        let (queue, options) = (self.name.as_str().into(), BasicConsumeOptions::default());
        let consumes = channel.basic_consume(queue, "".into(), options, Default::default());
        let deliveries = consumes.await.unwrap().take(MESSAGES);
        deliveries
            .for_each_concurrent(CONCURRENCY, |delivery| {
                let delivery = delivery.unwrap();
                let call = body(serde_json::from_slice(&delivery.data).unwrap());
                tasks.run(async move {
                    call.await;
                    delivery.ack(BasicAckOptions::default()).await.unwrap();
                })
            })
            .await;
        connection.close(200, "done".into()).await.unwrap();
    }
}

struct Streams {
    name: String,
}

impl Streams {
    async fn open() -> Self {
        let name = format!("bench-{:016x}", rand::random::<u64>());
        let mut redis = support::redis::connection(shared_redis()).await;
        let () = redis.xgroup_create_mkstream(&name, "bench", "0").await.unwrap();
        Self { name }
    }
}

impl Queue for Streams {
    const NAME: &'static str = "Redis Streams";
    // It waits in the server.
    const LAST_READ: Duration = Duration::from_millis(2_500);

    fn publisher(&self) -> impl Publisher {
        redis_streams::StreamPublisher::new(shared_redis()).unwrap()
    }

    fn destination(&self) -> String {
        self.name.clone()
    }

    fn source(&self) -> impl Deliveries {
        StreamDeliveries::new(shared_redis(), &*self.name, "bench").unwrap()
    }

    async fn by_hand<F>(&self, tasks: Tasks, body: impl Fn(String) -> F + Send + Sync)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let redis = support::redis::connection(shared_redis()).await;
        let reads = futures_util::stream::unfold(redis.clone(), async |mut redis| {
            let options = StreamReadOptions::default().group("bench", "by-hand").count(CONCURRENCY);
            let (streams, after) = ([&self.name], [">"]);
            let read = redis.xread_options(&streams, &after, &options);
            let reply: Option<StreamReadReply> = read.await.unwrap();
            let keys = reply.unwrap_or_default().keys.into_iter();
            Some((futures_util::stream::iter(keys.flat_map(|key| key.ids)), redis))
        });
        reads
            .flatten()
            .take(MESSAGES)
            .for_each_concurrent(CONCURRENCY, |entry| {
                let payload: Vec<u8> = entry.get("payload").unwrap();
                let call = body(serde_json::from_slice(&payload).unwrap());
                let (mut redis, name) = (redis.clone(), self.name.clone());
                tasks.run(async move {
                    call.await;
                    let done: usize = redis.xack(&name, "bench", &[entry.id]).await.unwrap();
                    assert_eq!(done, 1);
                })
            })
            .await;
    }
}

fn main() {
    println!("consumers of {MESSAGES} messages, {CONCURRENCY} at a time");
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    for workers in [processors, processors - 1].into_iter().filter(|workers| *workers > 0) {
        println!("{workers} worker threads, {processors} processors");
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        runtime.unwrap().block_on(measure_all());
    }
}

async fn measure_all() {
    // `-- Rabbit` measures those with this in their names.
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let is_meant = |name: &str| name.contains(&only);
    if is_meant(Nats::NAME) {
        measure(Nats::open().await).await;
    }
    if is_meant(Rabbit::NAME) {
        measure(Rabbit::open().await).await;
    }
    if is_meant(Streams::NAME) {
        measure(Streams::open().await).await;
    }
}
