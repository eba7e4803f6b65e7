//! Cost of an attributed call on the memory store, as a ratio to a floor of the same run.
//!
//! `cargo bench -p idempotent-tests --bench memory`. Floor and call alternate in short rounds, so that both see the same
//! machine; the ratio is the median over the rounds.
#![allow(missing_docs, clippy::print_stdout)]

use dashmap::DashMap;
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const ROUNDS: usize = 41;
const CALLS: u64 = 20_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    id: u64,
    item: String,
    cents: u64,
}

fn order(id: u64) -> Order {
    Order { id, item: "a lamp of 64 bytes".to_owned(), cents: 1299 }
}

#[idempotent(key = "id", expire = 3600, mode = "strong", name = "orders.create", shared_name)]
async fn create(id: u64) -> Result<Order, Error> {
    Ok(order(id))
}

#[idempotent(
    key = "id", expire = 3600, mode = "strong", name = "orders.create", shared_name, with = idem
)]
async fn create_on(idem: &Idempotency, id: u64) -> Result<Order, Error> {
    Ok(order(id))
}

/// The same work without protection, which every service does anyway: not part of the floor.
type Floor = DashMap<String, Vec<u8>>;

fn key(id: u64) -> String {
    format!("idempotent:token:|orders.create|{id}")
}

/// Insert and update of a concurrent map with the same key, one random token, JSON of the value.
fn floor_execute(map: &Floor, id: u64) {
    let mut token = [0; 16];
    rand::rng().fill_bytes(&mut token);
    let key = key(id);
    map.insert(key.clone(), token.to_vec());
    let value = serde_json::to_vec(&order(id)).unwrap();
    if let Some(mut entry) = map.get_mut(&key) {
        *entry = value;
    }
}

/// Lookup and JSON of the value.
fn floor_replay(map: &Floor, id: u64) -> Order {
    let entry = map.get(&key(id)).unwrap();
    serde_json::from_slice(&entry).unwrap()
}

struct Ratio {
    floor: Duration,
    call: Duration,
    ratio: f64,
}

/// Alternates both, and takes the median of the ratios.
fn compare(mut floor: impl FnMut(), mut call: impl FnMut()) -> Ratio {
    let time = |work: &mut dyn FnMut()| {
        let started = Instant::now();
        work();
        started.elapsed()
    };
    let mut rounds: Vec<(Duration, Duration)> =
        (0..ROUNDS).map(|_| (time(&mut floor), time(&mut call))).collect();
    rounds.sort_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
    let (floor, call) = rounds[ROUNDS / 2];
    Ratio { floor, call, ratio: ratio((floor, call)) }
}

fn ratio((floor, call): (Duration, Duration)) -> f64 {
    call.as_secs_f64() / floor.as_secs_f64()
}

fn report(name: &str, target: f64, measured: &Ratio) {
    let each = |time: Duration| time.as_nanos() as f64 / CALLS as f64;
    println!(
        "{name:<28} floor {:>5.0} ns   call {:>5.0} ns   ratio {:>4.2}   (at most {target})",
        each(measured.floor),
        each(measured.call),
        measured.ratio
    );
}

fn main() {
    Idempotency::builder().store(MemoryStore::new()).build().unwrap().install().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let map = Floor::new();
    let (floor_id, call_id) = (AtomicU64::new(0), AtomicU64::new(0));
    let executed = compare(
        || {
            for _ in 0..CALLS {
                floor_execute(&map, floor_id.fetch_add(1, Ordering::Relaxed));
            }
        },
        || {
            runtime.block_on(async {
                for _ in 0..CALLS {
                    black_box(create(call_id.fetch_add(1, Ordering::Relaxed)).await.unwrap());
                }
            })
        },
    );
    report("first execution", 2.5, &executed);

    let known = call_id.load(Ordering::Relaxed);
    for (name, spread) in [("replay, 1,000 keys", 1_000), ("replay, all keys", known)] {
        let at = |index: u64| (index * 2_654_435_761) % spread;
        let replayed = compare(
            || (0..CALLS).for_each(|index| drop(black_box(floor_replay(&map, at(index))))),
            || {
                runtime.block_on(async {
                    for index in 0..CALLS {
                        black_box(create(at(index)).await.unwrap());
                    }
                })
            },
        );
        report(name, 2.5, &replayed);
    }
    threads();
}

/// What a second thread gains for distinct keys: calls on one store, calls on a store a thread, and
/// the floor. The second shares nothing of ours, so it is what the machine has to give.
fn threads() {
    let shared = || {
        let instance = Instance::new();
        move |ids| instance.call_each(ids)
    };
    let apart = || {
        let instances = [Instance::new(), Instance::new()];
        move |ids: Range<u64>| instances[(ids.start != 0) as usize].call_each(ids)
    };
    let floor = || {
        let map = Floor::new();
        move |ids: Range<u64>| ids.for_each(|id| floor_execute(&map, id))
    };
    let mut gains = [const { Vec::new() }; 3];
    for _ in 0..21 {
        gains[0].push(gain(shared));
        gains[1].push(gain(apart));
        gains[2].push(gain(floor));
    }
    let [shared, apart, floor] = gains.map(|mut gains| {
        gains.sort_by(f64::total_cmp);
        gains[gains.len() / 2]
    });
    println!("two threads over one         {shared:.2}   (at least 1.6)");
    println!("the same, a store a thread   {apart:.2}");
    println!("the same for the floor       {floor:.2}");
}

/// An instance whose records are dropped with it: an instance alone leaves that to its keeper's
/// thread, which would then work beside the next measurement.
struct Instance {
    idem: Option<Idempotency>,
    store: Arc<MemoryStore>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.idem = None;
        while Arc::strong_count(&self.store) > 1 {
            std::thread::yield_now();
        }
    }
}

impl Instance {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let idem = Idempotency::builder().shared_store(store.clone()).build().unwrap();
        Self { idem: Some(idem), store }
    }

    fn call_each(&self, ids: Range<u64>) {
        let idem = self.idem.as_ref().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for id in ids {
                black_box(create_on(idem, id).await.unwrap());
            }
        });
    }
}

/// Throughput of two threads over that of one, on fresh work each.
fn gain<W: Fn(Range<u64>) + Sync>(work: impl Fn() -> W) -> f64 {
    const EACH: u64 = 10 * CALLS;
    let throughput = |threads: u64| {
        let work = work();
        let started = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || work(thread * EACH..(thread + 1) * EACH));
            }
        });
        threads as f64 / started.elapsed().as_secs_f64()
    };
    let one = throughput(1);
    throughput(2) / one
}
