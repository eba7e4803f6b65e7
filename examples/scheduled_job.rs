//! How does a scheduled job run once per tick when several instances of a service are up?
//!
//! Two workers share a store, as two machines share a Redis. Both wake for every tick and both call
//! the same functions.
//!
//! ```text
//! cargo run --example scheduled_job
//! ```
#![allow(clippy::print_stdout)]

use idempotent_runtime::store::{MemoryStore, Store};
use idempotent_runtime::{Error, ErrorKind, Idempotency, idempotent};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const TICK: Duration = Duration::from_millis(400);
const TICKS: u32 = 5;

#[derive(Clone)]
struct Worker {
    name: &'static str,
    idem: Idempotency,
    log: Arc<Mutex<Log>>,
}

/// What was done, and by whom. It stands for the world outside the store.
#[derive(Default)]
struct Log {
    reports: Vec<(u32, &'static str)>,
    sweeps: u32,
}

#[derive(Debug)]
enum JobError {
    MailServerDown,
    Refused(Error),
}

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Once per slot. The key is the time the job was scheduled for, never the time it runs: the
/// workers' clocks differ. In strong mode the other worker waits, and takes over if this one fails.
#[idempotent(
    name = "report.send",
    key = "slot:{slot}",
    expire = "24h",
    mode = "strong",
    wait = "5s",
    with = worker.idem
)]
async fn send_report(worker: &Worker, slot: u32) -> Result<String, JobError> {
    sleep(Duration::from_millis(60)).await;
    if slot == 3 && worker.name == "berlin" {
        return Err(JobError::MailServerDown);
    }
    worker.log.lock().unwrap().reports.push((slot, worker.name));
    Ok(format!("sent by {}", worker.name))
}

/// At most once per window, by the first caller. There is no slot: a failure is not made up for.
#[idempotent(
    name = "cache.sweep",
    key = const "sweep",
    mode = "window",
    expire = "1s",
    with = worker.idem
)]
async fn sweep_cache(worker: &Worker) -> Result<(), JobError> {
    worker.log.lock().unwrap().sweeps += 1;
    Ok(())
}

/// Wakes for every tick. `late` is how far this worker's timer is behind.
async fn work(worker: Worker, start: Instant, late: Duration) {
    for slot in 1..=TICKS {
        sleep_until(start + TICK * slot + late).await;
        let report = send_report(&worker, slot).await;
        let sweep = sweep_cache(&worker).await;
        let report = match report {
            Ok(answer) => answer,
            Err(JobError::MailServerDown) => "the mail server is down".to_owned(),
            Err(JobError::Refused(error)) => format!("refused: {}", error.message()),
        };
        let sweep = match sweep {
            Ok(()) => "swept",
            Err(JobError::Refused(error)) if error.kind() == ErrorKind::Duplicate => "not due",
            Err(_) => "failed",
        };
        println!("{slot:>4}  {:<7} {report:<24} {sweep}", worker.name);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = Arc::new(Mutex::new(Log::default()));
    let worker = |name| -> Result<Worker, Box<dyn std::error::Error>> {
        let idem = Idempotency::builder().shared_store(Arc::clone(&store)).build()?;
        Ok(Worker { name, idem, log: Arc::clone(&log) })
    };

    println!("slot  worker  report                   cache");
    let start = Instant::now();
    let berlin = tokio::spawn(work(worker("berlin")?, start, Duration::ZERO));
    let tokyo = tokio::spawn(work(worker("tokyo")?, start, Duration::from_millis(20)));
    berlin.await?;
    tokyo.await?;

    let log = log.lock().unwrap();
    println!("\nreports sent  {:?}", log.reports);
    let elapsed = start.elapsed();
    println!("cache sweeps  {} in {:.1} s", log.sweeps, elapsed.as_secs_f32());
    let mut slots: Vec<u32> = log.reports.iter().map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [1, 2, 3, 4, 5], "every slot once");
    assert!(log.reports.contains(&(3, "tokyo")), "tokyo took slot 3 over");
    assert!(log.sweeps >= 1 && u64::from(log.sweeps) <= elapsed.as_secs() + 1, "one per window");
    Ok(())
}
