//! Processes that share a store, a clock and a job.

use idempotent_queue::schedule::{Period, Schedule, ScheduleError};
use idempotent_runtime::Idempotency;
use idempotent_runtime::store::{MemoryOptions, MemoryStore};
use idempotent_runtime::testing::{FaultStore, ManualClock, Verb};
use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::until;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// The period in which every test begins: an hour after 1970.
pub(super) const FIRST: u64 = 60;

/// A store, and a clock for everybody.
pub(super) struct Cluster {
    pub(super) clock: ManualClock,
    pub(super) store: FaultStore,
    pub(super) job: Job,
}

/// A job that does as it is told, and notes its starts. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Job(pub(super) Arc<Notes>);

#[derive(Default)]
pub(super) struct Notes {
    pub(super) starts: Mutex<Vec<u64>>,
    pub(super) ends: Mutex<Vec<u64>>,
    pub(super) script: Mutex<VecDeque<Run>>,
    pub(super) go_on: Notify,
}

/// The course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Succeeds,
    Fails,
    Panics,
    /// Until the test lets it go on.
    Waits,
    Hangs,
}

impl Job {
    pub(super) fn told(runs: impl IntoIterator<Item = Run>) -> Self {
        let job = Self::default();
        job.0.script.lock().unwrap().extend(runs);
        job
    }

    /// The numbers of the periods in which it was started.
    pub(super) fn starts(&self) -> Vec<u64> {
        self.0.starts.lock().unwrap().clone()
    }

    pub(super) fn ends(&self) -> Vec<u64> {
        self.0.ends.lock().unwrap().clone()
    }

    pub(super) async fn run(self, period: Period) -> Result<(), String> {
        self.0.starts.lock().unwrap().push(period.number());
        let run = self.0.script.lock().unwrap().pop_front().unwrap_or(Run::Succeeds);
        match run {
            Run::Succeeds => {}
            Run::Fails => return Err("it failed".to_owned()),
            Run::Panics => panic!("the job panics"),
            Run::Waits => self.0.go_on.notified().await,
            Run::Hangs => pending().await,
        }
        self.0.ends.lock().unwrap().push(period.number());
        Ok(())
    }
}

impl Cluster {
    pub(super) fn new(job: Job) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
        Self { clock, store: FaultStore::new(store), job }
    }

    /// A process, and its own view of the store.
    pub(super) fn process(&self) -> Process {
        let store = FaultStore::around(Arc::new(self.store.clone()));
        let builder = Idempotency::builder().store(store.clone()).clock(self.clock.clock());
        let idem = builder.build().unwrap();
        Process { idem, store, job: self.job.clone(), ahead: Arc::default() }
    }

    /// Waits until the job was started in these periods, in this order.
    pub(super) async fn started(&self, periods: impl IntoIterator<Item = u64>) {
        let periods: Vec<_> = periods.into_iter().collect();
        until(|| self.job.starts().len() >= periods.len()).await;
        assert_eq!(self.job.starts(), periods);
    }

    pub(super) fn pass(&self, periods: u32) {
        self.clock.advance(MINUTE * periods);
    }
}

pub(super) struct Process {
    pub(super) idem: Idempotency,
    pub(super) store: FaultStore,
    pub(super) job: Job,
    /// The seconds by which its wall clock is ahead.
    pub(super) ahead: Arc<AtomicI64>,
}

impl Process {
    pub(super) fn schedule(&self) -> Schedule {
        let (idem, ahead) = (self.idem.clone(), Arc::clone(&self.ahead));
        let now = move || -> SystemTime {
            let ahead = ahead.load(SeqCst);
            let time = UNIX_EPOCH + idem.elapsed();
            let by = Duration::from_secs(ahead.unsigned_abs());
            if ahead < 0 { time - by } else { time + by }
        };
        let second = Duration::from_secs(1);
        Schedule::every(&self.idem, "job", MINUTE).backoff(second, second).wall_clock(now)
    }

    pub(super) fn start(&self) -> Running {
        self.start_as(self.schedule())
    }

    pub(super) fn start_as(&self, schedule: Schedule) -> Running {
        let job = self.job.clone();
        Running::new(schedule, move |period| job.clone().run(period))
    }

    /// The number of times that it has asked for a period.
    pub(super) fn asked(&self) -> usize {
        self.store.answers(Verb::Begin)
    }
}

/// A schedule that runs.
pub(super) struct Running {
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<Result<(), ScheduleError>>,
}

impl Running {
    pub(super) fn new<F>(
        schedule: Schedule,
        job: impl Fn(Period) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let schedule = schedule.shutdown_on(async { drop(stopped.await) });
        Self { stop: Some(stop), task: tokio::spawn(schedule.run(job)) }
    }

    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(super) async fn end(mut self) {
        self.stop();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until runs are recorded: one that is under way while a lease passes may be taken over.
pub(super) async fn at_rest(processes: &[Process]) {
    until(|| processes.iter().all(|process| process.idem.in_flight() == 0)).await;
}
