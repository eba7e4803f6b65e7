//! Scheduled jobs: one run per period, on a clock that the tests move.

use idempotent_queue::schedule::{CatchUp, Period, Schedule, ScheduleError};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, State};
use idempotent_runtime::testing::{FaultStore, ManualClock, Verb};
use idempotent_runtime::{Error, Idempotency, idempotent};
use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{until, while_time_passes};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const MINUTE: Duration = Duration::from_secs(60);
/// The period in which every test begins: an hour after 1970.
const FIRST: u64 = 60;

/// A store, and a clock for everybody.
struct Cluster {
    clock: ManualClock,
    store: FaultStore,
    job: Job,
}

/// A job that does as it is told, and notes its starts. Clones are the same one.
#[derive(Clone, Default)]
struct Job(Arc<Notes>);

#[derive(Default)]
struct Notes {
    starts: Mutex<Vec<u64>>,
    ends: Mutex<Vec<u64>>,
    script: Mutex<VecDeque<Run>>,
    go_on: Notify,
}

/// The course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Succeeds,
    Fails,
    Panics,
    /// Until the test lets it go on.
    Waits,
    Hangs,
}

impl Job {
    fn told(runs: impl IntoIterator<Item = Run>) -> Self {
        let job = Self::default();
        job.0.script.lock().unwrap().extend(runs);
        job
    }

    /// The numbers of the periods in which it was started.
    fn starts(&self) -> Vec<u64> {
        self.0.starts.lock().unwrap().clone()
    }

    fn ends(&self) -> Vec<u64> {
        self.0.ends.lock().unwrap().clone()
    }

    async fn run(self, period: Period) -> Result<(), String> {
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
    fn new(job: Job) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
        Self { clock, store: FaultStore::new(store), job }
    }

    /// A process, and its own view of the store.
    fn process(&self) -> Process {
        let store = FaultStore::around(Arc::new(self.store.clone()));
        let builder = Idempotency::builder().store(store.clone()).clock(self.clock.clock());
        let idem = builder.build().unwrap();
        Process { idem, store, job: self.job.clone(), ahead: Arc::default() }
    }

    /// Waits until the job was started in these periods, in this order.
    async fn started(&self, periods: impl IntoIterator<Item = u64>) {
        let periods: Vec<_> = periods.into_iter().collect();
        until(|| self.job.starts().len() >= periods.len()).await;
        assert_eq!(self.job.starts(), periods);
    }

    fn pass(&self, periods: u32) {
        self.clock.advance(MINUTE * periods);
    }
}

struct Process {
    idem: Idempotency,
    store: FaultStore,
    job: Job,
    /// The seconds by which its wall clock is ahead.
    ahead: Arc<AtomicI64>,
}

impl Process {
    fn schedule(&self) -> Schedule {
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

    fn start(&self) -> Running {
        self.start_as(self.schedule())
    }

    fn start_as(&self, schedule: Schedule) -> Running {
        let job = self.job.clone();
        Running::new(schedule, move |period| job.clone().run(period))
    }

    /// The number of times that it has asked for a period.
    fn asked(&self) -> usize {
        self.store.answers(Verb::Begin)
    }
}

/// A schedule that runs.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ScheduleError>>,
}

impl Running {
    fn new<F>(schedule: Schedule, job: impl Fn(Period) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let schedule = schedule.shutdown_on(async { drop(stopped.await) });
        Self { stop: Some(stop), task: tokio::spawn(schedule.run(job)) }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }

    async fn end(mut self) {
        self.stop();
        self.task.await.unwrap().unwrap();
    }
}

/// Waits until runs are recorded: one that is under way while a lease passes may be taken over.
async fn at_rest(processes: &[Process]) {
    until(|| processes.iter().all(|process| process.idem.in_flight() == 0)).await;
}

#[tokio::test]
async fn two_processes_run_twenty_periods_once_each() {
    let cluster = Cluster::new(Job::default());
    let processes = [cluster.process(), cluster.process()];
    let running = processes.each_ref().map(Process::start);
    for round in 0..20 {
        // Both have looked at the period before it passes.
        until(|| processes.iter().all(|process| process.asked() > round)).await;
        cluster.started(FIRST..=FIRST + round as u64).await;
        at_rest(&processes).await;
        cluster.pass(1);
    }
    for running in running {
        running.end().await;
    }
    let starts = cluster.job.starts();
    assert!(starts.len() <= 21, "one may have begun at the end: {starts:?}");
    assert!(starts.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{starts:?}");
}

#[tokio::test]
async fn missed_periods_are_run_as_the_policy_says() {
    let each = |at_most| CatchUp::Each { at_most };
    // Down from the end of the first period up to the sixth. A process that starts asks for the first period of
    // all, unless nothing is caught up, and for each that may have been missed.
    let table = [
        (CatchUp::Skip, vec![65], 1),
        (CatchUp::Latest, vec![64, 65], 3),
        (each(2), vec![63, 64, 65], 4),
        (each(50), vec![61, 62, 63, 64, 65], 7),
    ];
    for (policy, run, questions) in table {
        let cluster = Cluster::new(Job::default());
        let process = cluster.process();
        let before = process.start_as(process.schedule().catch_up(policy));
        cluster.started([FIRST]).await;
        until(|| process.store.answers(Verb::Complete) > 0).await;
        before.end().await;
        cluster.pass(5);
        let process = cluster.process();
        let after = process.start_as(process.schedule().catch_up(policy));
        let expected: Vec<_> = [FIRST].into_iter().chain(run).collect();
        cluster.started(expected.clone()).await;
        // Nothing is run again by the next one.
        after.end().await;
        let process = cluster.process();
        let again = process.start_as(process.schedule().catch_up(policy));
        until(|| process.asked() == questions).await;
        again.end().await;
        assert_eq!(cluster.job.starts(), expected, "{policy:?}");
    }
}

#[tokio::test]
async fn a_process_that_was_held_up_catches_up() {
    for (policy, run) in [(CatchUp::Skip, vec![60, 64]), (CatchUp::Latest, vec![60, 63, 64])] {
        let cluster = Cluster::new(Job::default());
        let process = cluster.process();
        let running = process.start_as(process.schedule().catch_up(policy));
        cluster.started([FIRST]).await;
        cluster.pass(4);
        cluster.started(run).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_job_has_missed_nothing_before_it_was_first_scheduled() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let each = process.schedule().catch_up(CatchUp::Each { at_most: 50 });
    let running = process.start_as(each);
    cluster.started([FIRST]).await;
    cluster.pass(1);
    cluster.started([FIRST, FIRST + 1]).await;
    running.end().await;
}

#[tokio::test]
async fn a_failed_run_is_tried_again_in_its_period_and_no_more_often_than_it_may() {
    for failure in [Run::Fails, Run::Panics] {
        let cluster = Cluster::new(Job::told([failure, Run::Succeeds]));
        let process = cluster.process();
        let running = process.start();
        cluster.started([60]).await;
        while_time_passes(|by| cluster.clock.advance(by), cluster.started([60, 60])).await;
        assert_eq!(cluster.job.ends(), [60]);
        running.end().await;

        let cluster = Cluster::new(Job::told([failure; 3]));
        let process = cluster.process();
        let running = process.start_as(process.schedule().max_attempts(3));
        while_time_passes(|by| cluster.clock.advance(by), cluster.started([60; 3])).await;
        // It has failed for good, for every process. The next period is another matter.
        let last = cluster.process();
        let other = last.start_as(last.schedule().max_attempts(3));
        let record = process.idem.operation("job").key(60);
        while_time_passes(
            |by| cluster.clock.advance(by),
            support::until_async(|| async {
                let record = record.get().await.unwrap();
                record.is_some_and(|it| it.head.state == State::FailedFinal)
            }),
        )
        .await;
        cluster.pass(1);
        cluster.started([60, 60, 60, 61]).await;
        other.end().await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_run_that_fails_until_its_period_is_over_was_missed() {
    for (policy, run) in [(CatchUp::Skip, vec![60, 61]), (CatchUp::Latest, vec![60, 60, 61])] {
        let cluster = Cluster::new(Job::told([Run::Fails]));
        let process = cluster.process();
        // The pause is longer than what is left of the period.
        let schedule = process.schedule().backoff(MINUTE, MINUTE).catch_up(policy);
        let running = process.start_as(schedule);
        cluster.started([60]).await;
        until(|| process.store.answers(Verb::Fail) > 0).await;
        cluster.pass(1);
        cluster.started(run).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_shutdown_lets_a_run_finish_and_starts_no_other() {
    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let mut running = process.start();
    cluster.started([60]).await;
    running.stop();
    cluster.clock.advance(MINUTE / 4);
    // It is waited for, however often the schedule is polled.
    let mut looks = 0;
    until(|| {
        assert!(!running.task.is_finished());
        looks += 1;
        looks == 20
    })
    .await;
    cluster.job.0.go_on.notify_one();
    running.task.await.unwrap().unwrap();
    assert_eq!((cluster.job.starts(), cluster.job.ends()), (vec![60], vec![60]));
    let record = process.idem.operation("job").key(60).get().await.unwrap().unwrap();
    assert_eq!(record.head.state, State::Succeeded);
}

#[tokio::test]
async fn a_shutdown_ends_pauses_at_once() {
    let cluster = Cluster::new(Job::told([Run::Fails]));
    let process = cluster.process();
    let running = process.start();
    cluster.started([60]).await;
    // The clock stands still: neither the next try nor the next period would ever come.
    until(|| process.store.answers(Verb::Fail) > 0).await;
    running.end().await;
    assert_eq!(cluster.job.starts(), [60]);
}

#[tokio::test]
async fn a_run_that_is_dropped_at_the_end_is_taken_over_by_another_process() {
    let cluster = Cluster::new(Job::told([Run::Hangs]));
    let first = cluster.process();
    let running = first.start_as(first.schedule().drain(Duration::from_millis(10)));
    cluster.started([60]).await;
    let second = cluster.process();
    let other = second.start();
    until(|| second.asked() > 0).await;
    running.end().await;
    while_time_passes(|by| cluster.clock.advance(by), cluster.started([60, 60])).await;
    assert_eq!(cluster.job.ends(), [60]);
    other.end().await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_runs_no_period_twice() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = process.start_as(process.schedule().catch_up(CatchUp::Latest));
    for number in 60..63 {
        cluster.started(60..=number).await;
        cluster.pass(1);
    }
    cluster.started(60..=63).await;
    let asked = process.asked();
    process.ahead.store(-180, SeqCst);
    // The time passes once more for the wall clock.
    for round in 1..=3 {
        cluster.pass(1);
        until(|| process.asked() >= asked + round).await;
        assert_eq!(cluster.job.starts(), [60, 61, 62, 63]);
    }
    cluster.pass(1);
    cluster.started(60..=64).await;

    // By more than a day, to the period before.
    let (asked, ahead) = (process.asked(), process.ahead.load(SeqCst));
    let past = 24 * 3_600 + 4 * 60;
    process.ahead.store(ahead - past - 60, SeqCst);
    cluster.clock.advance(Duration::from_secs(past.unsigned_abs()));
    until(|| process.asked() > asked).await;
    cluster.pass(1);
    until(|| process.asked() > asked + 1).await;
    assert_eq!(cluster.job.starts(), [60, 61, 62, 63, 64]);
    running.end().await;
}

#[tokio::test]
async fn a_time_before_the_first_period_is_part_of_it() {
    let cluster = Cluster::new(Job::default());
    let (before_1970, before_its_offset) = (cluster.process(), cluster.process());
    before_1970.ahead.store(-2 * 3_600, SeqCst);
    let schedule = before_its_offset.schedule().offset(MINUTE * 90);
    let running = [before_1970.start(), before_its_offset.start_as(schedule)];
    for process in [&before_1970, &before_its_offset] {
        until(|| process.asked() > 0).await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    // Not a look after the other.
    assert!([&before_1970, &before_its_offset].iter().all(|process| process.asked() < 3));
    cluster.started([0]).await;
    cluster.pass(61);
    until(|| cluster.job.starts().len() == 3).await;
    assert!([1, 31].iter().all(|number| cluster.job.starts().contains(number)));
    for running in running {
        running.end().await;
    }
}

#[tokio::test]
async fn clocks_that_differ_run_no_period_twice() {
    let cluster = Cluster::new(Job::default());
    let processes = [cluster.process(), cluster.process(), cluster.process()];
    for (process, ahead) in processes.iter().zip([0, 150, -90]) {
        process.ahead.store(ahead, SeqCst);
    }
    let running = processes.each_ref().map(Process::start);
    for round in 0..10 {
        until(|| processes.iter().all(|process| process.asked() > round)).await;
        at_rest(&processes).await;
        cluster.pass(1);
    }
    for running in running {
        running.end().await;
    }
    let mut starts = cluster.job.starts();
    let all = starts.len();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), all, "no period twice");
    assert!((60..70).all(|number| starts.contains(&number)), "{starts:?}");
}

#[tokio::test]
async fn a_run_that_outlasts_its_period_does_not_overlap_unless_asked() {
    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let running = process.start();
    cluster.started([60]).await;
    cluster.clock.advance(MINUTE / 2);
    until(|| process.store.answers(Verb::Renew) > 0).await;
    cluster.clock.advance(MINUTE / 2);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.job.starts(), [60]);
    cluster.job.0.go_on.notify_one();
    cluster.started([60, 61]).await;
    running.end().await;

    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let running = process.start_as(process.schedule().concurrency(2));
    cluster.started([60]).await;
    cluster.pass(1);
    cluster.started([60, 61]).await;
    cluster.job.0.go_on.notify_one();
    running.end().await;
}

#[tokio::test]
async fn an_outage_of_the_store_counts_as_no_attempt() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    process.store.all_down();
    let running = process.start_as(process.schedule().max_attempts(1));
    while_time_passes(|by| cluster.clock.advance(by), until(|| process.asked() > 3)).await;
    assert_eq!(cluster.job.starts(), [0; 0]);
    process.store.all_up();
    while_time_passes(|by| cluster.clock.advance(by), until(|| !cluster.job.ends().is_empty()))
        .await;
    assert_eq!(cluster.job.starts().len(), 1);
    running.end().await;
}

#[tokio::test]
async fn jitter_delays_a_run_by_at_most_half_of_its_period() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = process.start_as(process.schedule().jitter(MINUTE * 9));
    cluster.started([60]).await;
    until(|| process.store.answers(Verb::Complete) > 0).await;
    cluster.pass(1);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.job.starts(), [60], "it does not run at the first moment");
    cluster.clock.advance(MINUTE / 2);
    cluster.started([60, 61]).await;
    running.end().await;
}

#[tokio::test]
async fn a_schedule_that_cannot_work_says_so() {
    let idem = Idempotency::in_memory().unwrap();
    let job = |_: Period| async { Ok::<_, String>(()) };
    let nameless = Schedule::every(&idem, "", MINUTE).run(job).await.unwrap_err();
    assert!(nameless.to_string().contains("its name is empty"), "{nameless}");
    let never = Schedule::every(&idem, "job", Duration::ZERO).run(job).await.unwrap_err();
    assert!(never.to_string().contains("its period is shorter"), "{never}");
}

#[tokio::test]
async fn functions_of_the_job_use_the_instance_of_the_schedule() {
    #[idempotent(name = "report", key = "period", mode = "strong", expire = "1d")]
    async fn report(period: Period) -> Result<u64, Error> {
        Ok(period.number())
    }
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = Running::new(process.schedule(), |period| async move {
        report(period).await.map(|_| ()).map_err(|error| error.to_string())
    });
    support::until_async(|| async {
        process.idem.operation("report").key(60).get().await.unwrap().is_some()
    })
    .await;
    running.end().await;
}
