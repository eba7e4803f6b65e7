//! Callers that wait for a body in another process: the time from its end to the answer of the last one.

use crate::servers::Server;
use crate::statistics::Summary;
use crate::table::Table;
use crate::workload::{Body, Order, VALUE_BYTES, check, fresh_ids, from_json, json};
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Config, Error, Idempotency, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};

/// Callers that wait.
pub const WAITERS: u64 = 10_000;

/// Time for callers to settle down, after each of them has started.
const SETTLE: Duration = Duration::from_millis(300);

/// Times to the last answer.
#[derive(Clone, Copy, Debug)]
pub struct Waiters {
    /// Milliseconds of a subscription with a local broadcast.
    pub floor: Summary,
    /// Milliseconds of the product.
    pub product: Summary,
    /// The time of the product over that of the floor.
    pub ratio: Summary,
}

impl Waiters {
    /// What is measured, the floor, the product, and their ratio, for a table.
    pub fn row(&self) -> Vec<String> {
        vec![
            "last of 10,000 waiters against a subscription with a local broadcast, ms; ratio of times"
                .to_owned(),
            format!("{:.1}", self.floor.median),
            format!("{:.1}", self.product.median),
            self.ratio.to_string(),
        ]
    }
}

/// Measures, and returns what is to be printed.
///
/// # Panics
/// The server does not answer, or a caller is not answered.
pub async fn run(server: &Server, rounds: usize) -> String {
    let mut table = Table::new(&["", "floor", "product", "ratio"]);
    table.row(measure(server, rounds).await.row());
    format!(
        "{}, {rounds} rounds; medians, quartiles in brackets\n\n{}",
        server.label(),
        table.markdown()
    )
}

/// Measures in alternating rounds.
///
/// # Panics
/// The server does not answer, or a caller is not answered.
pub async fn measure(server: &Server, rounds: usize) -> Waiters {
    let (mut floors, mut products) = (Vec::new(), Vec::new());
    let body = Body::of_size(VALUE_BYTES);
    let (owner, others) = (instance(server).await, instance(server).await);
    for round in 0..=rounds {
        server.flush().await;
        let floor = bare(server, &body).await;
        server.flush().await;
        let product = attributed(&owner, &others, &body).await;
        if round > 0 {
            floors.push(floor.as_secs_f64() * 1e3);
            products.push(product.as_secs_f64() * 1e3);
        }
    }
    Waiters {
        ratio: Summary::of_ratios(&products, &floors),
        floor: Summary::of(floors),
        product: Summary::of(products),
    }
}

/// An instance stands for a process: it has a connection and a subscription of its own.
async fn instance(server: &Server) -> Idempotency {
    let store = RedisStore::connect(&server.url()).await.expect("the server is up");
    let config = Config::new().with_mode(Mode::Strong).with_wait(Duration::from_secs(60));
    Idempotency::builder().store(store).config(config).build().expect("valid settings")
}

async fn attributed(owner: &Idempotency, others: &Idempotency, body: &Body) -> Duration {
    let id = fresh_ids(1);
    let (end, ended) = oneshot::channel::<()>();
    let (begun, begins) = oneshot::channel::<()>();
    let owning = {
        let (owner, body) = (owner.clone(), body.clone());
        tokio::spawn(async move {
            let call = async {
                begun.send(()).expect("the start is waited for");
                ended.await.expect("the end is told");
                Ok::<Order, Error>(body.run(id))
            };
            owner.operation("orders.create").key(id).run(call).await.expect("the body is recorded");
        })
    };
    begins.await.expect("the body starts");
    let others = others.clone();
    let elapsed = crowd(
        move || {
            let others = others.clone();
            async move {
                let never = async { panic!("a second body runs") };
                let answer = others.operation("orders.create").key(id).run(never).await;
                let answer: Result<Order, Error> = answer;
                check(&answer.expect("the caller is answered"), id);
            }
        },
        async { end.send(()).expect("the body waits") },
    )
    .await;
    owning.await.expect("the owner is answered");
    elapsed
}

/// One subscription, one `GET`, and a channel that all callers wait on.
async fn bare(server: &Server, body: &Body) -> Duration {
    let id = fresh_ids(1);
    let mut stream = subscribe(server.port()).await;
    let (broadcast, answers) = watch::channel(None::<Arc<[u8]>>);
    let mut reader = server.connect().await;
    tokio::spawn(async move {
        message(&mut stream).await;
        let value: Vec<u8> =
            redis::cmd("GET").arg("floor").query_async(&mut reader).await.expect("GET");
        broadcast.send_replace(Some(value.into()));
    });
    let mut writer = server.connect().await;
    let body = body.clone();
    crowd(
        move || {
            let mut answers = answers.clone();
            async move {
                let answer = answers.wait_for(Option::is_some).await.expect("the value comes");
                let bytes = Option::clone(&answer).expect("there is a value");
                drop(answer);
                check(&from_json(&bytes), id);
            }
        },
        async move {
            let mut pipeline = redis::pipe();
            pipeline.cmd("SET").arg("floor").arg(json(&body.run(id)));
            pipeline.cmd("PUBLISH").arg("ended").arg("floor");
            let () = pipeline.exec_async(&mut writer).await.expect("SET and PUBLISH");
        },
    )
    .await
}

/// Starts waiters, ends what they wait for, and returns the time to the last answer.
async fn crowd<F: Future<Output = ()> + Send + 'static>(
    waiter: impl Fn() -> F,
    end: impl Future<Output = ()>,
) -> Duration {
    let started = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (started, waits) = (Arc::clone(&started), waiter());
            tokio::spawn(async move {
                started.fetch_add(1, Relaxed);
                waits.await;
                Instant::now()
            })
        })
        .collect();
    while started.load(Relaxed) < WAITERS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(SETTLE).await;
    let ended = Instant::now();
    end.await;
    let mut last = ended;
    for task in tasks {
        last = last.max(task.await.expect("the caller is answered"));
    }
    last - ended
}

async fn subscribe(port: u16) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server is up");
    let mut stream = BufReader::new(stream);
    stream.write_all(b"SUBSCRIBE ended\r\n").await.expect("the server reads");
    message(&mut stream).await;
    stream
}

/// Reads an array of three elements: a confirmation or a message.
async fn message(stream: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("the server writes");
    for _ in 0..3 {
        line.clear();
        stream.read_line(&mut line).await.expect("the server writes");
        if let Some(length) = line.trim().strip_prefix('$') {
            let mut text = vec![0; length.parse::<usize>().expect("a length") + 2];
            stream.read_exact(&mut text).await.expect("the server writes");
        }
    }
}
