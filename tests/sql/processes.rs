//! Processes that charge the same keys in transactions, and are killed.

use std::path::Path;
use std::time::Duration;
use support::size;
use support::worker::Worker;

const WORKER: &str = env!("CARGO_BIN_EXE_charging-worker");

/// Starts a process that charges these keys until each has an answer.
pub(crate) fn start(url: &str, keys: &[String]) -> Worker {
    let orders = serde_json::to_string(&(url, keys)).unwrap();
    let (worker, up) = Worker::start_talking(Path::new(WORKER), &orders, 0);
    assert_eq!(up, "up\n");
    worker
}

pub(crate) fn keys(group: usize) -> Vec<String> {
    (0..40).map(|key| format!("{group}-{key}")).collect()
}

/// A moment at which a process is at work.
pub(crate) async fn a_moment() {
    tokio::time::sleep(Duration::from_micros(rand::random_range(0..60_000))).await;
}

/// Kills processes that work on the same keys, and returns how many keys have an answer in the end.
pub(crate) async fn kill_processes(url: &str) -> usize {
    let (kills, mut killed, mut groups) = (size(30, 1_000), 0, 0);
    while killed < kills {
        let keys = keys(groups);
        groups += 1;
        let mut workers = [start(url, &keys), start(url, &keys)];
        for round in 0..8 {
            let worker = &mut workers[round % 2];
            a_moment().await;
            if worker.has_ended() {
                // The group is finished.
                break;
            }
            // Dropped, the one before is killed.
            *worker = start(url, &keys);
            killed += 1;
        }
        for worker in &mut workers {
            assert!(worker.ended().await.success());
        }
    }
    groups * keys(0).len()
}
