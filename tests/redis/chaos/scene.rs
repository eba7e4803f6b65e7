//! The processes of a run, their journal, and its checks.

use idempotent_runtime::Abandon;
use idempotent_runtime::store::MemoryStore;
use rand::RngExt as _;
use rand::rngs::StdRng;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use support::calls::Terms;
use support::history::{History, Report};
use support::journal::{Event, Journal, Reader, What, now};
use support::plan::Mix;
use support::redis::{TempDirectory, record_name};
use support::until;
use support::worker::{Orders, Reach, Work, Worker, nth};

/// Short, so that a stall which is longer takes little time.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);
const WORKERS: usize = 3;
const TASKS: usize = 24;
/// Keys that fit into the orders of one process.
const AT_ONCE: usize = 2_000;
/// Keys are others after so many milliseconds.
const GENERATION: u64 = 5_000;
/// Memory that a process may take on while it works, in bytes.
const GROWTH: u64 = 64 << 20;

/// Processes on one server, and their ledger.
pub(crate) struct Scene {
    reach: Reach,
    /// Removed at the end.
    _directory: TempDirectory,
    path: PathBuf,
    pub(crate) journal: Journal,
    reader: Reader,
    history: History,
    /// The first one is never killed.
    workers: Vec<Worker>,
    processes: u32,
    seed: u64,
    resident: u64,
    grown: u64,
}

impl Scene {
    pub(crate) fn start(reach: Reach, seed: u64) -> Self {
        let directory = TempDirectory::new();
        let path = directory.path().join("journal");
        let mut scene = Self {
            reach,
            journal: Journal::open(&path, 0),
            reader: Reader::open(&path),
            _directory: directory,
            path,
            history: History::new(&terms()),
            workers: Vec::new(),
            processes: 0,
            seed,
            resident: 0,
            grown: 0,
        };
        scene.workers = (0..WORKERS).map(|_| scene.mixed()).collect();
        scene
    }

    fn orders(&mut self, work: Work, mix: Mix) -> Orders {
        self.processes += 1;
        Orders {
            reach: self.reach.clone(),
            journal: self.path.clone(),
            process: self.processes,
            terms: terms(),
            tasks: TASKS,
            work,
            mix,
            begin_when: None,
            end_when: None,
            grace: 60_000,
            seed: self.seed.wrapping_add(u64::from(self.processes) << 32),
        }
    }

    fn mixed(&mut self) -> Worker {
        let mix = Mix {
            errors: 100,
            panics: 30,
            cancels: 80,
            some: 500,
            some_millis: 60,
            long: 15,
            long_millis: LEASE.as_millis() as u64 * 3 / 2,
        };
        let work = Work::Mixed { ranks: 300, generation: GENERATION };
        Worker::start_beside(&self.orders(work, mix))
    }

    /// Waits until every process has made a call.
    pub(crate) async fn until_busy(&mut self) {
        let mut called = [false; WORKERS + 1];
        until(|| {
            let events = self.reader.read();
            for Event { process, what, .. } in &events {
                called[*process as usize] |= matches!(what, What::Of { .. });
            }
            self.history.add(events);
            called[1..].iter().all(|called| *called)
        })
        .await;
        self.resident = self.workers[0].resident();
    }

    pub(crate) fn assert_working(&mut self) {
        for worker in &mut self.workers {
            assert!(!worker.has_ended(), "worker {} ended by itself", worker.process());
        }
    }

    /// Kills one of the processes and starts another one in its place.
    pub(crate) fn kill_one(&mut self, rng: &mut StdRng) {
        let index = rng.random_range(1..self.workers.len());
        self.workers.swap_remove(index).kill(&self.journal);
        let next = self.mixed();
        self.workers.push(next);
    }

    /// Stops one of the processes for so long.
    pub(crate) async fn pause_one(&mut self, length: Duration, rng: &mut StdRng) {
        let worker = &self.workers[rng.random_range(0..self.workers.len())];
        let from = now();
        worker.pause();
        tokio::time::sleep(length).await;
        worker.go_on();
        let what = What::Disturbed { by: "a process paused".to_owned(), for_nanos: now() - from };
        self.journal.note_at(from, worker.process(), what);
    }

    /// Ends all processes, and has every key called to the end by a last one.
    pub(crate) async fn finish(&mut self) -> Report {
        self.grown = self.workers[0].resident().saturating_sub(self.resident);
        assert!(self.grown <= GROWTH, "a process took on {} bytes", self.grown);
        for worker in &self.workers {
            worker.terminate();
        }
        for mut worker in std::mem::take(&mut self.workers) {
            assert!(worker.ended().await.success());
        }
        self.history.add(self.reader.read());
        let keys: Vec<String> = self.history.keys().map(str::to_owned).collect();
        for keys in keys.chunks(AT_ONCE) {
            let orders = self.orders(Work::Answers { keys: keys.to_vec() }, Mix::default());
            let mut last = Worker::start_beside(&Orders { tasks: 1, ..orders });
            assert!(last.ended().await.success());
        }
        let events = self.reader.read();
        let undrained = |event: &Event| event.what == What::Drained { all: false };
        assert!(!events.iter().any(undrained), "a process left something behind");
        self.history.add(events);
        self.history.check_swept()
    }

    pub(crate) fn keys(&self) -> usize {
        self.history.keys().count()
    }

    pub(crate) fn show(&self, title: &str, report: &Report, records: usize) {
        let history = &self.history;
        println!("\n{title}: {WORKERS} workers with {TASKS} tasks each, leases of {LEASE:?}");
        print!("{}", report.counts);
        println!("kills            {} ({} at work)", history.kills(), history.kills_at_work());
        println!("server restarts  {}", history.restarts);
        for (by, count) in history.disturbances() {
            println!("disturbed        {count} times: {by}");
        }
        println!("records left     {records}");
        println!("memory taken on  {} KiB", self.grown >> 10);
        println!("violations       {} {:?}", report.violations.len(), report.violated());
        for violation in report.violations.iter().take(10) {
            println!("\n{violation}\n{}", history.story(&violation.key));
        }
    }
}

fn terms() -> Terms {
    let lease = LEASE.as_millis() as u64;
    Terms { lease, wait: 1_000, ..Terms::new("chaos", Abandon::Retry) }
}

/// The generation of the keys that are called at this time.
pub(crate) fn generation() -> u128 {
    nth(GENERATION)
}

/// The name of a key's record.
pub(crate) fn record(key: &str) -> String {
    let terms = terms();
    let idem = terms.instance(Arc::new(MemoryStore::new()));
    record_name(&idem.operation(terms.operation).key(key).record_key().unwrap())
}
