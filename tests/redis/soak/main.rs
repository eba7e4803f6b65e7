//! Two processes with many tasks each, for a long time: errors, panics, cancellations, lost leases,
//! kills of the processes, and restarts of a server that keeps what it acknowledged.
//!
//! ```text
//! SOAK_SECONDS=600 scripts/test-long soak
//! ```
//!
//! What happened is checked all the time. It ends with figures, and with a failure if a promise was
//! broken or nothing succeeded for a while.
#![allow(clippy::print_stdout)]

use idempotent_runtime::Abandon;
use rand::RngExt as _;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::calls::Terms;
use support::history::{History, Report};
use support::journal::{Event, Journal, Reader, Source, Step, What, now};
use support::plan::Mix;
use support::redis::{RedisServer, TempDirectory, installed};
use support::worker::{Orders, Reach, Work, Worker};

const WORKERS: usize = 2;
const TASKS: usize = 64;
/// Keys are others after this long; after [`SETTLED`] generations nobody calls them any more.
const GENERATION: Duration = Duration::from_secs(5);
const SETTLED: u128 = 12;
/// In each part of the run of this length something has to succeed.
const STRETCH: Duration = Duration::from_secs(10);
const KILL_PAUSE: Duration = Duration::from_millis(2_500);
const RESTART_PAUSE: Duration = Duration::from_secs(20);
/// How long after a restart calls may still be refused because of it.
const RECOVERY: Duration = Duration::from_millis(500);

struct Soak {
    server: RedisServer,
    /// Removed at the end.
    _directory: TempDirectory,
    path: PathBuf,
    journal: Journal,
    reader: Reader,
    history: History,
    report: Report,
    /// The stretches, counted from the beginning of time, in which a body's value was recorded.
    succeeded_in: BTreeSet<u64>,
    processes: u32,
    /// When the server did not answer.
    outages: Vec<Range<u64>>,
    /// How many calls were refused for want of an answer while the server was up.
    refused_while_up: usize,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = std::env::var("SOAK_SECONDS").unwrap_or_else(|_| "600".to_owned());
    let seconds: u64 = seconds.parse().expect("SOAK_SECONDS is a number of seconds");
    let mut soak = Soak::start();
    let from = now();
    soak.run(Duration::from_secs(seconds)).await;
    let to = now();
    soak.finish().await;
    soak.show(seconds);
    soak.report.assert_kept();
    let stretch = STRETCH.as_nanos() as u64;
    for whole in from / stretch + 1..to / stretch {
        assert!(soak.succeeded_in.contains(&whole), "nothing succeeded for {STRETCH:?}");
    }
}

impl Soak {
    fn start() -> Self {
        let aof = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = RedisServer::start_with(&installed(), &aof);
        let directory = TempDirectory::new();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 0);
        Self {
            server,
            _directory: directory,
            reader: Reader::open(&path),
            path,
            journal,
            history: History::new(&terms()),
            report: Report::default(),
            succeeded_in: BTreeSet::new(),
            processes: 0,
            outages: Vec::new(),
            refused_while_up: 0,
        }
    }

    fn orders(&mut self, work: Work) -> Orders {
        self.processes += 1;
        Orders {
            reach: Reach::Url(self.server.url()),
            journal: self.path.clone(),
            process: self.processes,
            terms: terms(),
            tasks: TASKS,
            work,
            mix: Mix {
                errors: 100,
                panics: 30,
                cancels: 100,
                some: 400,
                some_millis: 30,
                long: 10,
                long_millis: 1_500,
            },
            begin_when: None,
            end_when: None,
            grace: 60_000,
            seed: rand::random(),
        }
    }

    fn endless(&mut self) -> Worker {
        let generation = GENERATION.as_millis() as u64;
        Worker::start_beside(&self.orders(Work::Endless { ranks: 2_000, generation }))
    }

    async fn run(&mut self, length: Duration) {
        let end = Instant::now() + length;
        let mut workers: Vec<Worker> = (0..WORKERS).map(|_| self.endless()).collect();
        let mut kill_at = after(KILL_PAUSE);
        let mut restart_at = after(RESTART_PAUSE);
        let mut check_at = after(GENERATION);
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
            for worker in &mut workers {
                assert!(!worker.has_ended(), "worker {} ended by itself", worker.process());
            }
            if Instant::now() >= kill_at {
                kill_at = after(KILL_PAUSE);
                let index = rand::rng().random_range(0..workers.len());
                workers.swap_remove(index).kill(&self.journal);
                workers.push(self.endless());
            }
            if Instant::now() >= restart_at {
                restart_at = after(RESTART_PAUSE);
                self.journal.note(What::ServerRestarted);
                let from = now();
                self.server.restart();
                self.outages.push(from..now() + RECOVERY.as_nanos() as u64);
            }
            if Instant::now() >= check_at {
                check_at = after(GENERATION);
                self.read();
                self.check_settled();
            }
        }
        for worker in &workers {
            worker.terminate();
        }
        for worker in &mut workers {
            assert!(worker.ended().await.success());
        }
    }

    /// What has no answer gets one in the end.
    async fn finish(&mut self) {
        self.read();
        let has_none = |key: &&str| self.history.check(key).value.is_none();
        let keys = self.history.keys().filter(has_none).map(str::to_owned).collect();
        let orders = self.orders(Work::Answers { keys });
        let mut last = Worker::start_beside(&Orders { tasks: 4, mix: Mix::default(), ..orders });
        assert!(last.ended().await.success());
        self.read();
        for key in self.history.keys() {
            assert!(self.history.check(key).value.is_some(), "{key} did not succeed");
        }
        self.report.merge(self.history.check_and_forget(|_| true));
    }

    fn read(&mut self) {
        let events = self.reader.read();
        for Event { at, what, .. } in &events {
            let What::Of { step, .. } = what else { continue };
            match step {
                Step::Value { from: Source::Ran, .. } => {
                    self.succeeded_in.insert(at / STRETCH.as_nanos() as u64);
                }
                Step::Refused { kind, .. } if kind == "StoreUnavailable" => {
                    let down = self.outages.iter().any(|outage| outage.contains(at));
                    self.refused_while_up += usize::from(!down);
                }
                _ => {}
            }
        }
        self.history.add(events);
    }

    fn check_settled(&mut self) {
        let current = u128::from(now()) / GENERATION.as_nanos();
        let generation = |key: &str| key.split('-').next().and_then(|text| text.parse().ok());
        let settled = |key: &str| generation(key).is_some_and(|it: u128| it + SETTLED < current);
        self.report.merge(self.history.check_and_forget(settled));
    }

    fn show(&self, seconds: u64) {
        let history = &self.history;
        println!("soak of {seconds} s, {WORKERS} workers with {TASKS} tasks each");
        print!("{}", self.report.counts);
        println!("refused while up {} StoreUnavailable", self.refused_while_up);
        println!("kills            {} ({} at work)", history.kills(), history.kills_at_work());
        println!("server restarts  {}", history.restarts);
        println!("violations       {}", self.report.violations.len());
    }
}

/// Leases are not renewed for long, so that long bodies lose them.
fn terms() -> Terms {
    let terms = Terms::new("soak", Abandon::Retry);
    Terms { lease: 500, max_run: 500, wait: 1_000, expire: 300_000, ..terms }
}

/// A moment about that far away.
fn after(pause: Duration) -> Instant {
    Instant::now() + pause.mul_f64(rand::rng().random_range(0.2..1.8))
}
