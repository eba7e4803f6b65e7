//! The memory store against a concurrent map, on one thread.

use crate::product::create;
use crate::statistics::Summary;
use crate::workload::{Body, VALUE_BYTES, check, fresh_ids, from_json, json};
use dashmap::DashMap;
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::MemoryStore;
use rand::Rng as _;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Calls of a turn.
const CALLS: u64 = 20_000;

/// Times of calls on the memory store.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// First executions.
    pub first: Compared,
    /// Replays.
    pub replay: Compared,
}

/// Nanoseconds of a floor and of calls, and the ratio of the calls to the floor.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Nanoseconds of the floor.
    pub floor: Summary,
    /// Nanoseconds of a call.
    pub product: Summary,
    /// The time of a call over that of the floor.
    pub ratio: Summary,
}

/// Measures in alternating rounds. Every round starts with empty stores.
///
/// # Panics
/// A call is not answered.
pub fn measure(rounds: usize) -> Memory {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let body = Body::of_size(VALUE_BYTES);
    let mut times = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let map = DashMap::new();
        let idem =
            Idempotency::builder().store(MemoryStore::new()).build().expect("valid settings");
        let first = fresh_ids(CALLS);
        let ids = first..first + CALLS;
        let floor = |call: &dyn Fn(u64)| time(|| ids.clone().for_each(call));
        let calls = |ids: Range<u64>| {
            time(|| {
                runtime.block_on(async {
                    for id in ids {
                        check(&create(&idem, id, &body).await.expect("the call is answered"), id);
                    }
                });
            })
        };
        let turn = [
            floor(&|id| insert(&map, &body, id)),
            calls(ids.clone()),
            floor(&|id| look_up(&map, id)),
            calls(ids.clone()),
        ];
        if round > 0 {
            for (times, time) in times.iter_mut().zip(turn) {
                times.push(time.as_secs_f64() * 1e9 / CALLS as f64);
            }
        }
    }
    let [floor_first, first, floor_replay, replay] = times;
    Memory { first: compare(floor_first, first), replay: compare(floor_replay, replay) }
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn compare(floor: Vec<f64>, product: Vec<f64>) -> Compared {
    let ratio = Summary::of_ratios(&product, &floor);
    Compared { floor: Summary::of(floor), product: Summary::of(product), ratio }
}

type Floor = DashMap<String, Vec<u8>>;

fn key(id: u64) -> String {
    format!("idempotent:token:|orders.create|{id}")
}

/// An insert, a random token, the value as JSON, and an update.
fn insert(map: &Floor, body: &Body, id: u64) {
    let mut token = [0; 16];
    rand::rng().fill_bytes(&mut token);
    let key = key(id);
    map.insert(key.clone(), token.to_vec());
    let order = body.run(id);
    let value = json(&order);
    if let Some(mut entry) = map.get_mut(&key) {
        *entry = value;
    }
    check(&order, id);
}

/// A lookup, and JSON.
fn look_up(map: &Floor, id: u64) {
    let entry = map.get(&key(id)).expect("the key was inserted");
    check(&from_json(&entry), id);
}
