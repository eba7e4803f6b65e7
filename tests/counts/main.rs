//! Counts of a call that do not depend on the speed of the machine: what it allocates, and what it sends and receives.
//! They are compared with those in `counts/limits.txt`.
//!
//! Calls run on one thread, and the commands of a step travel together, whether or not the server is fast: each run
//! counts the same. The process does nothing else meanwhile, so there is one test.
#![allow(missing_docs, clippy::print_stdout)]

use idempotent_runtime::store::RedisStore;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};
use std::alloc::System;
use std::path::Path;
use support::counted::{FIRST_ID, Orders};
use support::proxy::{Lockstep, Traffic};
use support::recorded::{Recorded, Table, Tolerance};
use support::redis::RedisServer;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Calls of a round. A multiple of the number of tasks and of the keys of a batch.
const CALLS: u64 = 1_600;

/// Rounds of which the least counts are taken: threads of the runtime add to some of them.
const ROUNDS: u64 = 3;

/// Rounds of first executions before all others, in memory. The tables of the 64 shards grow at 224 and at 448 records, and
/// the number of records in a shard differs from run to run: with so many, none grows in a round that counts.
const FILLED: u64 = 12;

const TASKS: u64 = 64;
const KEYS: u64 = 100;

/// One allocation more is above it in every case.
const TOLERANCE: Tolerance = Tolerance { above: 0.02, below: 0.1 };

const COMMENT: &str = "\
Counts of one call, or of one key of a batch, with all features, in a debug and in a release build: allocations, bytes
that are allocated, commands, bytes that are sent and received. The test `counts` compares its own with these, and writes
them again with

    COUNTS_UPDATE=1 cargo test --workspace --all-features --test counts

Redis is a server that swaps by a script: Redis 7.0 to 8.0.";

/// Servers that are sent the commands that were counted.
const SERVERS: [&str; 2] = ["redis 7.", "redis 8.0"];

/// The way in which the calls of a round are made.
#[derive(Clone, Copy, Debug)]
enum Way {
    OneTask,
    Tasks,
    Batches,
}

impl Way {
    /// Commands that are under way together.
    fn step(self) -> u64 {
        match self {
            Self::OneTask => 1,
            Self::Tasks => TASKS,
            Self::Batches => KEYS,
        }
    }

    /// Calls each of [`CALLS`] ids once.
    async fn call(self, orders: &Orders, first: u64) {
        let ids = first..first + CALLS;
        match self {
            Self::OneTask => {
                for id in ids {
                    orders.call(id).await;
                }
            }
            Self::Tasks => {
                let task = |task| {
                    let (orders, ids) = (orders.clone(), ids.clone());
                    tokio::spawn(async move {
                        for id in ids.skip(task).step_by(TASKS as usize) {
                            orders.call(id).await;
                        }
                    })
                };
                let tasks: Vec<_> = (0..TASKS as usize).map(task).collect();
                for task in tasks {
                    task.await.unwrap();
                }
            }
            Self::Batches => {
                for first in ids.step_by(KEYS as usize) {
                    orders.batch(first..first + KEYS).await;
                }
            }
        }
    }
}

/// Counts of the rounds of one case.
#[derive(Default)]
struct Counts {
    allocated: Vec<Stats>,
    traffic: Vec<Traffic>,
}

impl Counts {
    /// The least of each count, per call.
    fn figures(&self) -> Vec<Option<f64>> {
        fn least<T>(of: &[T], count: impl Fn(&T) -> u64) -> Option<f64> {
            Some(of.iter().map(count).min()? as f64 / CALLS as f64)
        }
        vec![
            least(&self.allocated, |it| (it.allocations + it.reallocations) as u64),
            least(&self.allocated, |it| it.bytes_allocated as u64),
            least(&self.traffic, |it| it.commands),
            least(&self.traffic, |it| it.sent),
            least(&self.traffic, |it| it.received),
        ]
    }
}

/// Measures first executions and replays, and adds a row for each.
async fn measure(
    table: &mut Table,
    case: &str,
    way: Way,
    orders: &Orders,
    proxy: Option<&Lockstep>,
) {
    let [mut first, mut replay] = <[Counts; 2]>::default();
    if let Some(proxy) = proxy {
        // The first call sends the text of a script.
        orders.call(FIRST_ID - 1).await;
        proxy.step(way.step() as usize);
    }
    let filled = if proxy.is_none() { FILLED } else { 0 };
    let ids = |round| FIRST_ID + round * CALLS;
    for round in 0..filled {
        way.call(orders, ids(round)).await;
    }
    // The first of them does not count.
    for round in filled..=filled + ROUNDS {
        for counts in [&mut first, &mut replay] {
            let before = (ALLOCATOR.stats(), proxy.map(Lockstep::traffic));
            way.call(orders, ids(round)).await;
            let after = (ALLOCATOR.stats(), proxy.map(Lockstep::traffic));
            if round > filled {
                counts.allocated.push(after.0 - before.0);
                counts.traffic.extend(after.1.zip(before.1).map(|(after, before)| after - before));
            }
        }
    }
    table.push(&format!("{case}, first"), first.figures());
    table.push(&format!("{case}, replay"), replay.figures());
}

async fn measure_memory(table: &mut Table) {
    for (case, way) in [("memory", Way::OneTask), ("memory, batch of 100", Way::Batches)] {
        measure(table, case, way, &Orders::in_memory_at_one_time(), None).await;
    }
}

async fn measure_redis(table: &mut Table, server: &RedisServer) {
    for (case, way) in [
        ("redis, 1 task", Way::OneTask),
        ("redis, 64 tasks", Way::Tasks),
        ("redis, batch of 100", Way::Batches),
    ] {
        let () = redis::cmd("FLUSHALL").exec_async(&mut server.connection().await).await.unwrap();
        let proxy = Lockstep::start(&server.address());
        let orders = Orders::on_redis(&proxy.url()).await;
        measure(table, case, way, &orders, Some(&proxy)).await;
    }
}

/// Returns `true` if the server is sent the commands that were counted.
async fn is_comparable(server: &RedisServer) -> bool {
    let store = RedisStore::connect(&server.url()).await.unwrap();
    let version = store.server_version();
    let is_comparable = SERVERS.iter().any(|it| version.starts_with(it));
    if !is_comparable {
        println!("{version} is sent other commands, which are not counted; help: {SERVERS:?}");
    }
    is_comparable
}

#[test]
fn a_call_costs_no_more_than_recorded() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut table = Table::new(&["allocations", "bytes", "commands", "sent", "received"]);
    let is_comparable = runtime.block_on(async {
        measure_memory(&mut table).await;
        let is_comparable = is_comparable(&server).await;
        if is_comparable {
            measure_redis(&mut table, &server).await;
        }
        is_comparable
    });
    println!("{table}");
    let recorded = Recorded {
        path: Path::new(env!("CARGO_MANIFEST_DIR")).join("counts/limits.txt"),
        comment: COMMENT.to_owned(),
        command: "cargo test --workspace --all-features --test counts",
        variable: "COUNTS_UPDATE",
        tolerance: TOLERANCE,
        left_out: (!is_comparable).then_some("redis"),
    };
    if let Err(differences) = recorded.settle(&table) {
        panic!("{differences}");
    }
}
