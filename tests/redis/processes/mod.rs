//! Many processes on one server: killed, paused, ended, and all at once.
//!
//! Executions are counted in a journal outside the server, and every journal is checked as a whole.

mod ended;
mod killed;
mod many;
mod paused;

use idempotent_runtime::Abandon;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use support::calls::Terms;
use support::history::{History, Report};
use support::journal::{Event, Journal, Reader, Step, What};
use support::plan::Mix;
use support::redis::{RedisServer, TempDirectory};
use support::worker::{Orders, Reach, Work, Worker};

/// A server, a journal, and the processes that were started on them.
struct Scene {
    server: RedisServer,
    directory: TempDirectory,
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
        let server = RedisServer::start();
        let directory = TempDirectory::new();
        let path = directory.path().join("journal");
        let journal = Journal::open(&path, 0);
        let reader = Reader::open(&path);
        let seen = Seen { reader, events: Vec::new(), called: HashSet::new() };
        let processes = AtomicU32::new(0);
        Self { server, directory, abandon, journal, processes, seen: Mutex::new(seen) }
    }

    /// A file in the directory of the scene.
    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn terms(&self) -> Terms {
        Terms::new("worker.call", self.abandon)
    }

    /// Orders to get answers for these keys with one task.
    fn orders(&self, keys: &[&str]) -> Orders {
        Orders {
            reach: Reach::Url(self.server.url()),
            journal: self.file("journal"),
            process: self.processes.fetch_add(1, Relaxed) + 1,
            terms: self.terms(),
            tasks: 1,
            work: Work::Answers { keys: keys.iter().map(ToString::to_string).collect() },
            mix: Mix::default(),
            begin_when: None,
            end_when: None,
            grace: 60_000,
            seed: rand::random(),
        }
    }

    fn start(&self, orders: &Orders) -> Worker {
        Worker::start(Path::new(env!("CARGO_BIN_EXE_redis-worker")), orders)
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

    async fn until(&self, mut condition: impl FnMut(&Seen) -> bool) {
        support::until(|| self.look(&mut condition)).await;
    }

    fn history(&self) -> History {
        let mut history = History::new(&self.terms());
        history.add(self.look(|seen| seen.events.clone()));
        history
    }

    /// What happened, of which all was as promised.
    fn report(&self) -> Report {
        let report = self.history().check_all();
        report.assert_kept();
        report
    }
}

impl Seen {
    fn is_up(&self, worker: &Worker) -> bool {
        self.told(worker, &What::Up)
    }

    fn told(&self, worker: &Worker, what: &What) -> bool {
        self.events.iter().any(|event| event.process == worker.process() && event.what == *what)
    }

    /// The steps of a worker's calls, in their order.
    fn steps(&self, worker: &Worker) -> Vec<Step> {
        let own = self.events.iter().filter(|event| event.process == worker.process());
        let steps = own.filter_map(|event| match &event.what {
            What::Of { step, .. } => Some(step.clone()),
            _ => None,
        });
        steps.collect()
    }

    fn starts(&self, worker: &Worker) -> usize {
        self.steps(worker).iter().filter(|step| matches!(step, Step::Start { .. })).count()
    }
}
