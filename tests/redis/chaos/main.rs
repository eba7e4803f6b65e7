//! Processes that make calls of every kind, and what may happen to them and to their server: kills,
//! pauses, stalls longer than a lease, restarts, planned failovers, and errors of the server.
//!
//! The errors are those of the table in `docs/redis.md` that one server can be made to answer while
//! it runs: OOM, NOREPLICAS, MISCONF, READONLY, MASTERDOWN, NOPERM, NOAUTH, NOSCRIPT, BUSY, LOADING,
//! WRONGTYPE and too many clients. There is no cluster here, so nobody is told of MOVED, ASK,
//! TRYAGAIN, CROSSSLOT or CLUSTERDOWN; `cluster` in the tests has those that a cluster answers with,
//! and `faults::refusals` has every row of the table.
//!
//! A WRONGTYPE comes of a value that is put under a name before its key is called for the first
//! time. In the place of a record it would lose the record.
//!
//! ```text
//! CHAOS_SECONDS=120 CHAOS_SEED=7 scripts/test-long chaos
//! ```
//!
//! Bodies and callers write a ledger outside the store. In the end every key is called once more
//! and to the end, and the ledger is checked. A seed repeats the faults and what is drawn in each
//! process, not the moments at which they meet.
#![allow(clippy::print_stdout)]

mod faults;
mod foreign;
mod loading;
mod scene;

use self::faults::{Fault, Servers};
use self::scene::Scene;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::time::{Duration, Instant};
use support::history::Report;
use support::redis::{RedisServer, installed};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = number("CHAOS_SECONDS").unwrap_or(120);
    let seed = number("CHAOS_SEED").unwrap_or_else(rand::random);
    println!("CHAOS_SECONDS={seconds} CHAOS_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    // A failover takes several seconds, and most of the faults need one server only.
    let on_one = Duration::from_secs(seconds) * 2 / 3;
    let one = Servers::One(one_server());
    let first = run("one server", one, &Fault::on_one(), on_one, &mut rng).await;
    let replicated = Servers::replicated().await;
    let rest = Duration::from_secs(seconds) - on_one;
    let second = run("sentinels", replicated, &Fault::on_sentinels(), rest, &mut rng).await;
    for report in [first, second] {
        assert!(report.counts.succeeded > 0, "nothing succeeded");
        report.assert_kept();
    }
}

/// A server that keeps what it acknowledged, and that cannot write a snapshot.
fn one_server() -> RedisServer {
    let aof = ["--appendonly", "yes", "--appendfsync", "always", "--busy-reply-threshold", "50"];
    let server = RedisServer::start_with(&installed(), &aof);
    std::fs::create_dir(server.directory().join("dump.rdb")).unwrap();
    server
}

/// Lets processes work for so long, while one fault follows the other. Each kind of fault comes
/// before any of them comes again.
async fn run(
    title: &str,
    mut servers: Servers,
    faults: &[Fault],
    length: Duration,
    rng: &mut StdRng,
) -> Report {
    let mut scene = Scene::start(servers.reach(), rng.random());
    let end = Instant::now() + length;
    let mut next: Vec<Fault> = Vec::new();
    scene.until_busy().await;
    while Instant::now() < end {
        if next.is_empty() {
            next = faults.to_vec();
            next.shuffle(rng);
        }
        let Some(fault) = next.pop() else { break };
        fault.strike(&mut scene, &mut servers, rng).await;
        let calm = Duration::from_millis(rng.random_range(100..600));
        tokio::time::sleep(calm).await;
        scene.assert_working();
    }
    let report = scene.finish().await;
    let records = servers.records().await;
    scene.show(title, &report, records);
    assert!(records <= scene.keys(), "the server keeps {records} records of {}", scene.keys());
    report
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
