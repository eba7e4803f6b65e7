//! Several processes on one file: one body per key, kills that lose nothing, and fair turns.
//!
//! Executions are counted in a journal outside the file, and every journal is checked as a whole.

use crate::orders::SqliteOrders;
use crate::subject::TempFile;
use idempotent_runtime::Abandon;
use rand::RngExt as _;
use rusqlite::Connection;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use support::calls::Terms;
use support::history::History;
use support::journal::{Event, Journal, Reader, What};
use support::plan::Mix;
use support::worker::{Orders, Reach, Work, Worker};

const WORKER: &str = env!("CARGO_BIN_EXE_sqlite-worker");

/// A file, a journal, and the processes that were started on them.
struct Scene {
    file: TempFile,
    abandon: Abandon,
    /// Of the test itself, which is process 0.
    journal: Journal,
    processes: AtomicU32,
    seen: Mutex<Seen>,
}

/// The part of the journal that was read.
struct Seen {
    reader: Reader,
    events: Vec<Event>,
    /// Processes that have made a call.
    called: HashSet<u32>,
}

impl Scene {
    fn new(abandon: Abandon) -> Self {
        let file = TempFile::new();
        let path = file.folder().join("journal");
        let journal = Journal::open(&path, 0);
        let seen = Seen { reader: Reader::open(&path), events: Vec::new(), called: HashSet::new() };
        Self { file, abandon, journal, processes: AtomicU32::new(0), seen: Mutex::new(seen) }
    }

    fn go(&self) -> PathBuf {
        self.file.folder().join("go")
    }

    fn terms(&self) -> Terms {
        Terms::new("worker.call", self.abandon)
    }

    /// Orders to get answers for these keys with some tasks.
    fn orders(&self, keys: &[String], tasks: usize, mix: Mix) -> Orders {
        Orders {
            reach: Reach::Url(self.file.path().display().to_string()),
            journal: self.file.folder().join("journal"),
            process: self.processes.fetch_add(1, Relaxed) + 1,
            terms: self.terms(),
            tasks,
            work: Work::Answers { keys: keys.to_vec() },
            mix,
            begin_when: None,
            end_when: None,
            grace: 60_000,
            seed: rand::random(),
        }
    }

    fn start(&self, orders: Orders) -> Worker {
        let process = orders.process;
        let orders = SqliteOrders::Calls(Box::new(orders));
        let orders = serde_json::to_string(&orders).unwrap();
        Worker::start_told(Path::new(WORKER), &orders, process)
    }

    /// Looks at all events so far.
    fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap();
        let events = seen.reader.read();
        for event in &events {
            if matches!(event.what, What::Of { .. }) {
                seen.called.insert(event.process);
            }
        }
        seen.events.extend(events);
        look(&seen)
    }

    fn is_up(&self, worker: &Worker) -> bool {
        let is_up = |it: &Event| it.process == worker.process() && it.what == What::Up;
        self.look(|seen| seen.events.iter().any(is_up))
    }

    fn history(&self) -> History {
        let mut history = History::new(&self.terms());
        history.add(self.look(|seen| seen.events.clone()));
        history
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_calls_in_three_processes_one_runs_and_all_get_its_bytes() {
    const PROCESSES: usize = 3;
    const TASKS: usize = 20;
    let scene = Scene::new(Abandon::Retry);
    let keys: Vec<String> = (0..5).map(|key| format!("k{key}")).collect();
    let orders = || Orders {
        begin_when: Some(scene.go()),
        terms: Terms { wait: 60_000, lease: 10_000, ..scene.terms() },
        ..scene.orders(&keys, TASKS, Mix { long: 1_000, long_millis: 50, ..Mix::default() })
    };
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| scene.start(orders())).collect();
    support::until(|| workers.iter().all(|worker| scene.is_up(worker))).await;
    std::fs::write(scene.go(), "").unwrap();
    for worker in &mut workers {
        assert!(worker.ended().await.success());
    }
    let history = scene.history();
    for key in &keys {
        let one = history.check(key);
        assert!(one.violations.is_empty(), "{:?}", one.violations);
        let counts = one.counts;
        assert_eq!((counts.calls, counts.starts, counts.succeeded), (PROCESSES * TASKS, 1, 1));
    }
}

/// Works on one group of keys, with workers that are killed. Returns how many were.
async fn kill_in_group(scene: &Scene, keys: &[String]) -> usize {
    let mix = || Mix { some: 600, some_millis: 10, ..Mix::default() };
    let start = || scene.start(scene.orders(keys, 4, mix()));
    let mut workers: Vec<_> = (0..2).map(|_| start()).collect();
    let mut killed = 0;
    while killed < 8 {
        let index = rand::rng().random_range(0..workers.len());
        let process = workers[index].process();
        support::until(|| scene.look(|seen| seen.called.contains(&process))).await;
        let moment = Duration::from_micros(rand::rng().random_range(0..25_000));
        tokio::time::sleep(moment).await;
        let mut worker = workers.swap_remove(index);
        if worker.has_ended() {
            // The group is finished.
            break;
        }
        worker.kill(&scene.journal);
        killed += 1;
        workers.push(start());
    }
    for mut worker in workers {
        assert!(worker.ended().await.success());
    }
    // Whoever was killed last is asked about too.
    assert!(start().ended().await.success());
    killed
}

/// Kills so many workers in the middle of their work.
async fn kill(scene: &Scene, kills: usize) {
    let killed = AtomicUsize::new(0);
    let lane = |lane: usize| {
        let killed = &killed;
        async move {
            for group in 0.. {
                if killed.load(Relaxed) >= kills {
                    return;
                }
                let keys: Vec<_> = (0..24).map(|key| format!("{lane}-{group}-{key}")).collect();
                killed.fetch_add(kill_in_group(scene, &keys).await, Relaxed);
            }
        }
    };
    tokio::join!(lane(0), lane(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_nothing_that_was_acknowledged() {
    let scene = Scene::new(Abandon::Retry);
    kill(&scene, support::size(36, 1_000)).await;
    let history = scene.history();
    let report = history.check_all();
    report.assert_kept();
    println!(
        "{} kills, {} at work\n{:#?}",
        history.kills(),
        history.kills_at_work(),
        report.counts
    );
    for key in history.keys() {
        let one = history.check(key);
        assert!(one.value.is_some(), "{key} did not succeed");
        let cut = one.counts.cut.in_body + one.counts.cut.after_body;
        let excused = cut + one.counts.lost + one.counts.unrecorded;
        assert!(one.counts.starts <= 1 + excused, "{key}: {:?}", one.counts);
    }
    assert!(report.counts.cut.all() > 0, "no call was hit");
    let sound: String =
        scene.file.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_key_that_was_killed_does_not_start_again() {
    let scene = Scene::new(Abandon::Block);
    kill(&scene, support::size(16, 300)).await;
    let history = scene.history();
    history.check_all().assert_kept();
    for key in history.keys() {
        let one = history.check(key);
        assert!(one.counts.starts <= 1, "{key}: {:?}", one.counts);
    }
}

/// The number of keys that each process has begun.
fn begun(connection: &Connection, names: &[&str]) -> Vec<u32> {
    let count = |name: &&str| {
        let text = "SELECT count(*) FROM idempotent_records WHERE operation = ?1";
        connection.query_row(text, [name], |row| row.get(0)).unwrap()
    };
    names.iter().map(count).collect()
}

/// Processes that write without a break get turns alike.
async fn fair(callers: usize, keys: u32) {
    let file = TempFile::new();
    let names = ["one", "two"];
    let mut workers = Vec::new();
    for (process, name) in names.into_iter().enumerate() {
        let orders = SqliteOrders::Begin { path: file.path(), name: name.to_owned(), callers };
        let orders = serde_json::to_string(&orders).unwrap();
        let (worker, up) = Worker::start_talking(Path::new(WORKER), &orders, process as u32);
        assert_eq!(up, "up\n");
        workers.push(worker);
    }
    let look = file.connection();
    // From the moment on at which both have begun.
    let mut first = Vec::new();
    support::until(|| {
        first = begun(&look, &names);
        first.iter().all(|count| *count > 0)
    })
    .await;
    let mut counts = Vec::new();
    support::until(|| {
        let now = begun(&look, &names);
        counts = now.iter().zip(&first).map(|(now, first)| now - first).collect();
        counts.iter().sum::<u32>() >= keys
    })
    .await;
    println!("{callers} callers each: {counts:?}");
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(least * 2 >= *most, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_one_caller_each_get_turns_alike() {
    fair(1, 800).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_many_callers_each_get_turns_alike() {
    fair(16, 8_000).await;
}
