//! Cost of a replay from the cache of a process, as a ratio to a lookup in a concurrent map of the same run.
//!
//! `cargo bench -p idempotent-tests --bench replay_cache`. Needs redis-server, which is asked nothing while it is measured. The
//! floor finds, clones and decodes the same bytes by the same key. Floor and call alternate in short rounds, so that both see
//! the same machine; the ratio is the median over the rounds, with quartiles.
#![allow(missing_docs, clippy::print_stdout)]

use dashmap::DashMap;
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Error, Idempotency, ReplayCache, idempotent};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::redis::{RedisServer, binaries};
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 41;
const CALLS: u64 = 20_000;
const KEYS: u64 = 1_000;
/// Throughput of the call, in parts of that of the floor.
const TARGET: f64 = 0.5;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
    cents: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Invoice {
    id: u64,
    lines: Vec<Order>,
}

fn order(id: u64) -> Order {
    Order { id, item: "a lamp of 64 bytes".to_owned(), cents: 1299 }
}

fn invoice(id: u64) -> Invoice {
    Invoice { id, lines: (0..16).map(order).collect() }
}

/// Bodies that ran: none does while a replay is measured.
static RUNS: AtomicUsize = AtomicUsize::new(0);

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "orders.create", with = idem)]
async fn create(idem: &Idempotency, id: u64) -> Result<Order, Error> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(order(id))
}

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "invoices.create", with = idem)]
async fn bill(idem: &Idempotency, id: u64) -> Result<Invoice, Error> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(invoice(id))
}

/// The key and the bytes of an answer, as a cache that does nothing else would keep them.
type Floor = DashMap<String, Arc<[u8]>>;

fn floor_replay<T: for<'de> Deserialize<'de>>(map: &Floor, operation: &str, id: u64) -> T {
    let key = format!("idempotent:token:|{operation}|{id}");
    let bytes = Arc::clone(&*map.get(&key).unwrap());
    serde_json::from_slice(&bytes).unwrap()
}

fn fill<T: Serialize>(operation: &str, value: impl Fn(u64) -> T) -> Floor {
    let entry = |id| {
        let key = format!("idempotent:token:|{operation}|{id}");
        (key, serde_json::to_vec(&value(id)).unwrap().into())
    };
    (0..KEYS).map(entry).collect()
}

/// Alternates both, and prints the throughput of the call in parts of that of the floor.
fn compare(name: &str, mut floor: impl FnMut(), mut call: impl FnMut()) {
    let time = |work: &mut dyn FnMut()| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    let mut rounds: Vec<(Duration, Duration)> =
        (0..ROUNDS).map(|_| (time(&mut floor), time(&mut call))).collect();
    let part = |(floor, call): (Duration, Duration)| floor.as_secs_f64() / call.as_secs_f64();
    rounds.sort_by(|a, b| part(*a).total_cmp(&part(*b)));
    let at = |quarter: usize| rounds[ROUNDS * quarter / 4];
    let each = |time: Duration| time.as_nanos() as f64 / CALLS as f64;
    let (floor, call) = at(2);
    println!(
        "{name:<28} floor {:>5.0} ns   call {:>5.0} ns   part {:.2} ({:.2} to {:.2})   (at least {TARGET})",
        each(floor),
        each(call),
        part(at(2)),
        part(at(1)),
        part(at(3)),
    );
}

fn at(index: u64) -> u64 {
    (index * 2_654_435_761) % KEYS
}

async fn instance(binary: &Path) -> (Idempotency, RedisServer) {
    let server = RedisServer::start_with(binary, &[]);
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let cache = ReplayCache::new().max_age(Duration::from_secs(3600));
    let idem = Idempotency::builder().store(store).replay_cache(cache).build().unwrap();
    // The subscription begins with the first call.
    create(&idem, u64::MAX).await.unwrap();
    while !idem.replay_cache().unwrap().is_listening {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for id in 0..KEYS {
        create(&idem, id).await.unwrap();
        bill(&idem, id).await.unwrap();
    }
    (idem, server)
}

fn measure(runtime: &Runtime, idem: &Idempotency) {
    let runs = RUNS.load(Ordering::Relaxed);
    let orders = fill("orders.create", order);
    compare(
        "replay, 53 bytes",
        || {
            for index in 0..CALLS {
                black_box(floor_replay::<Order>(&orders, "orders.create", at(index)));
            }
        },
        || {
            runtime.block_on(async {
                for index in 0..CALLS {
                    black_box(create(idem, at(index)).await.unwrap());
                }
            });
        },
    );
    let invoices = fill("invoices.create", invoice);
    compare(
        "replay, 900 bytes",
        || {
            for index in 0..CALLS {
                black_box(floor_replay::<Invoice>(&invoices, "invoices.create", at(index)));
            }
        },
        || {
            runtime.block_on(async {
                for index in 0..CALLS {
                    black_box(bill(idem, at(index)).await.unwrap());
                }
            });
        },
    );
    assert_eq!(RUNS.load(Ordering::Relaxed), runs, "a body ran");
}

fn main() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let binary = binaries().into_iter().next().unwrap();
    let (idem, _server) = runtime.block_on(instance(&binary));
    measure(&runtime, &idem);
}
