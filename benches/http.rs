//! Cost of the HTTP layer, as a ratio to the same service without it and to plain Redis commands of
//! the same run.
//!
//! `cargo bench -p idempotent-tests --bench http`. Needs redis-server. Floor and call alternate in short rounds over real
//! sockets that are kept open, so that both see the same machine; ratios are medians over the rounds.
//! Clients write prepared requests and read the answers' bytes; they share the machine with the
//! service.
#![allow(missing_docs, clippy::print_stdout)]

use axum::routing::post;
use axum::{Json, Router};
use idempotent_http::IdempotencyLayer;
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::{MemoryStore, RedisStore};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::http::Connection;
use support::redis::RedisServer;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 41;
const CONNECTIONS: u64 = 8;
/// Requests of a connection in a round.
const EACH: u64 = 500;
const SEQUENTIAL: u64 = 300;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
    cents: u64,
}

async fn create_order(Json(order): Json<Order>) -> Json<Order> {
    Json(Order { cents: order.cents + 1, ..order })
}

fn app() -> Router {
    Router::new().route("/orders", post(create_order))
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

fn request(id: u64) -> Vec<u8> {
    let body = r#"{"id":1,"item":"a lamp of 64 bytes","cents":1299}"#;
    let length = body.len();
    format!(
        "POST /orders HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: */*\r\n\
         content-type: application/json\r\nidempotency-key: \"0a1b2c3d-{id:016x}\"\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

async fn send(connection: &mut Connection, request: &[u8]) {
    let reply = black_box(connection.exchange(request).await.unwrap());
    assert_eq!(reply.status, 200, "{reply:?}");
}

async fn connect(address: SocketAddr) -> Vec<Connection> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await.unwrap());
    }
    connections
}

/// An id that no request had before.
fn ids(count: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(count, Relaxed)
}

/// Sends requests with new keys on all connections at once, and says how long it took.
async fn crowd(connections: &mut Vec<Connection>) -> Duration {
    let prepare = |mut connection: Connection| {
        let first = ids(EACH);
        let requests: Vec<_> = (first..first + EACH).map(request).collect();
        async move {
            for request in &requests {
                send(&mut connection, request).await;
            }
            connection
        }
    };
    let work: Vec<_> = connections.drain(..).map(prepare).collect();
    let started = Instant::now();
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        connections.push(task.await.unwrap());
    }
    started.elapsed()
}

fn median<T>(mut all: Vec<T>, of: impl Fn(&T) -> f64) -> T {
    all.sort_by(|a, b| of(a).total_cmp(&of(b)));
    all.swap_remove(all.len() / 2)
}

/// Throughput with the layer over throughput without it.
async fn throughput() {
    let idem = Idempotency::builder().store(MemoryStore::new()).build().unwrap();
    let mut bare = connect(serve(app()).await).await;
    let mut guarded = connect(serve(app().layer(IdempotencyLayer::new(&idem, "shop"))).await).await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push((crowd(&mut bare).await, crowd(&mut guarded).await));
    }
    let ratio = |(bare, guarded): &(Duration, Duration)| bare.as_secs_f64() / guarded.as_secs_f64();
    let middle = median(rounds, ratio);
    let rate = |time: Duration| (CONNECTIONS * EACH) as f64 / time.as_secs_f64();
    println!(
        "memory, new keys             bare {:>6.0} /s   guarded {:>6.0} /s   ratio {:>4.2}   (at \
         least 0.85)",
        rate(middle.0),
        rate(middle.1),
        ratio(&middle)
    );
}

/// The median of the time that `call` takes, one after the other.
async fn one_by_one(first: u64, mut call: impl AsyncFnMut(u64)) -> Duration {
    let mut times = Vec::new();
    for id in first..first + SEQUENTIAL {
        let started = Instant::now();
        call(id).await;
        times.push(started.elapsed());
    }
    median(times, Duration::as_secs_f64)
}

/// One plain round trip with a value of the size of a stored response.
async fn round_trip(connection: &mut MultiplexedConnection, id: u64) {
    let key = format!("floor|http|{id:016x}");
    let mut set = redis::cmd("SET");
    set.arg(key).arg(&[7_u8; 256][..]).arg("PX").arg(3_600_000);
    let () = set.query_async(connection).await.unwrap();
}

async fn look_up(connection: &mut MultiplexedConnection, id: u64) {
    let key = format!("floor|http|{id:016x}");
    let value: Vec<u8> = redis::cmd("GET").arg(key).query_async(connection).await.unwrap();
    assert_eq!(black_box(value).len(), 256);
}

/// p50 of a service and what it must at least cost: the bare service and its round trips.
struct Medians {
    bare: Duration,
    trips: Duration,
    guarded: Duration,
}

impl Medians {
    fn floor(&self) -> Duration {
        self.bare + self.trips
    }

    fn ratio(&self) -> f64 {
        self.guarded.as_secs_f64() / self.floor().as_secs_f64()
    }
}

fn report(name: &str, rounds: Vec<Medians>) {
    let middle = median(rounds, Medians::ratio);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{name:<28} bare {:>5.1} us + redis {:>5.1} us   guarded {:>5.1} us   ratio {:>4.2}   (at \
         most 1.10)",
        micros(middle.bare),
        micros(middle.trips),
        micros(middle.guarded),
        middle.ratio()
    );
}

async fn latency() {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let idem = Idempotency::builder().store(store).build().unwrap();
    let mut plain = server.connection().await;
    let bare = serve(app()).await;
    let guarded = serve(app().layer(IdempotencyLayer::new(&idem, "shop"))).await;
    let mut bare = Connection::open(bare).await.unwrap();
    let mut guarded = Connection::open(guarded).await.unwrap();
    let (mut first, mut replay) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let id = ids(SEQUENTIAL);
        let alone = one_by_one(id, async |id| send(&mut bare, &request(id)).await).await;
        let set = one_by_one(id, async |id| round_trip(&mut plain, id).await).await;
        let new = one_by_one(id, async |id| send(&mut guarded, &request(id)).await).await;
        first.push(Medians { bare: alone, trips: 2 * set, guarded: new });
        let get = one_by_one(id, async |id| look_up(&mut plain, id).await).await;
        let again = one_by_one(id, async |id| send(&mut guarded, &request(id)).await).await;
        replay.push(Medians { bare: alone, trips: get, guarded: again });
    }
    report("redis, new key, p50", first);
    report("redis, replay, p50", replay);
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

fn main() {
    runtime().block_on(throughput());
    runtime().block_on(latency());
}
