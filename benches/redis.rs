//! Cost of an attributed call on Redis, as a ratio to plain commands of the same run.
//!
//! `cargo bench -p idempotent-tests --bench redis`. Needs redis-server; `REDIS_SERVERS_UNDER_TEST` names more. Floor and call
//! alternate in short rounds on one connection each, so that both see the same machine; ratios are
//! medians over the rounds. The floor of a first execution is `SET NX PX` and `SET` with the value, as
//! JSON; that of a replay is `GET` and JSON.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::redis::{RedisServer, binaries};

const ROUNDS: usize = 9;
const TASKS: u64 = 256;
const CALLS: u64 = 40;
const SEQUENTIAL: u64 = 400;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
    cents: u64,
}

fn order(id: u64) -> Order {
    Order { id, item: "a lamp of 64 bytes".to_owned(), cents: 1299 }
}

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "orders.create", with = idem)]
async fn create(idem: &Idempotency, id: u64) -> Result<Order, Error> {
    Ok(order(id))
}

async fn floor_execute(mut connection: MultiplexedConnection, id: u64) {
    let key = format!("floor|orders.create|{id}");
    let mut begin = redis::cmd("SET");
    begin.arg(&key).arg(&[7_u8; 48][..]).arg("NX").arg("PX").arg(3_630_000);
    let () = begin.query_async(&mut connection).await.unwrap();
    let value = serde_json::to_vec(&order(id)).unwrap();
    let mut complete = redis::cmd("SET");
    complete.arg(&key).arg(value).arg("PX").arg(3_600_000);
    let () = complete.query_async(&mut connection).await.unwrap();
}

async fn floor_replay(mut connection: MultiplexedConnection, id: u64) -> Order {
    let key = format!("floor|orders.create|{id}");
    let value: Vec<u8> = redis::cmd("GET").arg(key).query_async(&mut connection).await.unwrap();
    serde_json::from_slice(&value).unwrap()
}

/// Runs `call` for `count` ids from `first` on, in many tasks, and says how long it took.
async fn crowd<F>(first: u64, call: impl Fn(u64) -> F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let calls: Vec<F> =
                (0..CALLS).map(|index| call(first + task * CALLS + index)).collect();
            tokio::spawn(async move {
                for call in calls {
                    call.await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    started.elapsed()
}

/// The median time of calls one after the other.
async fn one_by_one<F: Future<Output = ()>>(first: u64, call: impl Fn(u64) -> F) -> Duration {
    let mut times = Vec::new();
    for id in first..first + SEQUENTIAL {
        let started = Instant::now();
        call(id).await;
        times.push(started.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

fn report(name: &str, mut pairs: Vec<(Duration, Duration)>, per: u64) {
    let ratio = |(floor, call): &(Duration, Duration)| call.as_secs_f64() / floor.as_secs_f64();
    pairs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let middle = pairs[pairs.len() / 2];
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / per as f64;
    println!(
        "  {name:<34} floor {:>6.1} us   call {:>6.1} us   ratio {:>4.2}",
        micros(middle.0),
        micros(middle.1),
        ratio(&middle)
    );
}

async fn measure(binary: &Path) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let server = RedisServer::start_with(binary, &[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    println!("{}", store.server_version());
    let idem = Idempotency::builder().store(store).build().unwrap();
    let connection = server.connection().await;
    let execute = |id| {
        let idem = idem.clone();
        async move { drop(black_box(create(&idem, id).await.unwrap())) }
    };
    let floor = |id| floor_execute(connection.clone(), id);
    let get = |id| {
        let connection = connection.clone();
        async move { drop(black_box(floor_replay(connection, id).await)) }
    };
    let [mut first, mut replay, mut first_alone, mut replay_alone] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let ids = NEXT.fetch_add(TASKS * CALLS + SEQUENTIAL, Ordering::Relaxed);
        first.push((crowd(ids, floor).await, crowd(ids, execute).await));
        replay.push((crowd(ids, get).await, crowd(ids, execute).await));
        let alone = ids + TASKS * CALLS;
        first_alone.push((one_by_one(alone, floor).await, one_by_one(alone, execute).await));
        replay_alone.push((one_by_one(alone, get).await, one_by_one(alone, execute).await));
    }
    report("first execution, 256 tasks", first, TASKS * CALLS);
    report("replay, 256 tasks", replay, TASKS * CALLS);
    report("first execution, one by one, p50", first_alone, 1);
    report("replay, one by one, p50", replay_alone, 1);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for binary in binaries() {
        runtime.block_on(measure(&binary));
    }
}
