//! The loop of a schedule, and the run of one period.

use super::catch_up::Known;
use super::{Period, ScheduleError, Settings};
use crate::unpanicked::{text, unpanicked};
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::{Abandon, Error, ErrorKind, Mode, OnUnrecorded, Operation};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// The longest sleep between two looks at the wall clock, which may be set meanwhile.
const GLANCE: Duration = Duration::from_secs(10);
/// The time for which the first period of a job is remembered: ten years.
const FIRST_KEPT: Duration = Duration::from_secs(3_650 * 24 * 3_600);

pub(super) async fn run<J, F, T, E>(
    settings: Settings,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    job: J,
) -> Result<(), ScheduleError>
where
    J: Fn(Period) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    let (stop, stopping) = watch::channel(false);
    let settings = Arc::new(settings);
    // Dropped, it ends its tasks, and their periods are free for other processes.
    let tasks = JoinSet::new();
    let rounds = Rounds { settings: Arc::clone(&settings), stopping: Stopping(stopping), tasks };
    let mut rounds = pin!(rounds.run(Arc::new(job)));
    tokio::select! {
        biased;
        ended = &mut rounds => return ended,
        () = shutdown => {}
    }
    let _ = stop.send(true);
    timeout(settings.drain, rounds).await.unwrap_or_else(|_| {
        let schedule: &str = &settings.name;
        tracing::warn!(target: "idempotent", schedule, "runs are dropped: they did not end in time");
        Ok(())
    })
}

/// The signal to end.
#[derive(Clone)]
struct Stopping(watch::Receiver<bool>);

impl Stopping {
    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for `future`, but not longer than until the signal comes: `None`.
    async fn or<F: Future>(&mut self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            _ = self.0.wait_for(|stop| *stop) => None,
            output = future => Some(output),
        }
    }
}

/// The end of a run, as its schedule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    /// The period is done, or has failed for good.
    Done,
    /// The time for it was over first.
    NotDone,
    /// The schedule, or the instance, ends.
    Stopped,
}

type Ended = Result<(u64, Ran), ScheduleError>;

struct Rounds {
    settings: Arc<Settings>,
    stopping: Stopping,
    tasks: JoinSet<Ended>,
}

impl Rounds {
    async fn run<J, F, T, E>(mut self, job: Arc<J>) -> Result<(), ScheduleError>
    where
        J: Fn(Period) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let mut known = Known::default();
        if self.settings.catch_up.reach() > 0 {
            match first(&self.settings, &mut self.stopping).await? {
                Some(first) => known.first = first,
                None => return Ok(()),
            }
        }
        while !self.stopping.is_set() {
            // The period is that of the moment in which a run can begin.
            self.until_room(&mut known).await?;
            let current = self.settings.current();
            for number in self.settings.catch_up.due(&known, current.number()) {
                self.until_room(&mut known).await?;
                if self.stopping.is_set() {
                    break;
                }
                known.not_done.remove(&number);
                let (settings, stopping) = (Arc::clone(&self.settings), self.stopping.clone());
                let (job, period) = (Arc::clone(&job), current.numbered(number));
                self.tasks.spawn(async move {
                    let ran = run_period(&settings, stopping, &*job, period).await?;
                    Ok((number, ran))
                });
            }
            known.looked_at = Some(current.number());
            self.until_next(current, &mut known).await?;
        }
        while let Some(ended) = self.tasks.join_next().await {
            note(ended, &self.settings, &mut known)?;
        }
        Ok(())
    }

    /// Waits until another run may begin, or the schedule ends.
    async fn until_room(&mut self, known: &mut Known) -> Result<(), ScheduleError> {
        while self.tasks.len() >= self.settings.concurrency {
            match self.stopping.or(self.tasks.join_next()).await {
                Some(Some(ended)) => note(ended, &self.settings, known)?,
                Some(None) | None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits until the next period begins, or the clock is set back, or the schedule ends.
    async fn until_next(
        &mut self,
        current: Period,
        known: &mut Known,
    ) -> Result<(), ScheduleError> {
        let jitter = self.settings.jitter.min(self.settings.every / 2);
        let due = current.end() + jitter.mul_f64(rand::random_range(0.0..=1.0));
        loop {
            let now = (self.settings.wall_clock)();
            // Not the time itself: those before the first period are part of it.
            if self.settings.period_at(now) < current {
                return Ok(());
            }
            let Ok(left) = due.duration_since(now) else { return Ok(()) };
            if left.is_zero() {
                return Ok(());
            }
            let sleep = self.settings.idem.sleep(left.min(GLANCE));
            let tasks = &mut self.tasks;
            let ended = self.stopping.or(async {
                tokio::select! {
                    Some(ended) = tasks.join_next() => Some(ended),
                    () = sleep => None,
                }
            });
            match ended.await {
                Some(Some(ended)) => note(ended, &self.settings, known)?,
                Some(None) => {}
                None => return Ok(()),
            }
        }
    }
}

/// Learns from the end of a run. An error ends the schedule.
fn note(
    ended: Result<Ended, JoinError>,
    settings: &Settings,
    known: &mut Known,
) -> Result<(), ScheduleError> {
    match ended {
        Ok(Ok((number, Ran::NotDone))) => {
            known.not_done.insert(number);
            // Not more of them than can become due.
            let reach = usize::try_from(settings.catch_up.reach()).unwrap_or(usize::MAX);
            while known.not_done.len() > reach {
                known.not_done.pop_first();
            }
        }
        Ok(Ok((_, Ran::Done | Ran::Stopped))) => {}
        Ok(Err(error)) => return Err(error),
        Err(error) => {
            let schedule: &str = &settings.name;
            tracing::error!(target: "idempotent", schedule, %error, "run dropped");
        }
    }
    Ok(())
}

/// The period in which the job was first scheduled, by any process. `None` if the schedule ends.
async fn first(settings: &Settings, stopping: &mut Stopping) -> Result<Option<u64>, ScheduleError> {
    let mut failures = 0;
    loop {
        let operation = settings
            .idem
            .operation(format!("{}:first", settings.name))
            .key((whole_millis(settings.every), whole_millis(settings.offset)))
            .mode(Mode::Strong)
            .abandon(Abandon::Retry)
            .expire(FIRST_KEPT);
        let current = settings.current().number();
        let asked =
            ambient::scope(Ambient::new(), operation.run(async { Ok::<_, Error>(current) }));
        let error = match stopping.or(asked).await {
            None => return Ok(None),
            Some(Ok(first)) => return Ok(Some(first)),
            Some(Err(error)) => error,
        };
        match error.kind() {
            ErrorKind::ShuttingDown => return Ok(None),
            _ if !error.is_retryable() => return Err(misconfigured(settings, &error)),
            _ => failures += 1,
        }
        let schedule: &str = &settings.name;
        tracing::warn!(target: "idempotent", schedule, %error, "schedule not started");
        let pause = settings.idem.sleep(settings.pauses.after(failures));
        if stopping.or(pause).await.is_none() {
            return Ok(None);
        }
    }
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn misconfigured(settings: &Settings, error: &Error) -> ScheduleError {
    ScheduleError::Misconfigured { schedule: settings.name.clone(), error: error.to_string() }
}

/// The error of a call that did not end with a value.
enum Failure {
    Job(String),
    Refused(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Runs a period until it is done by this process or by another one, for as long as the present period
/// lasts.
async fn run_period<J, F, T, E>(
    settings: &Settings,
    mut stopping: Stopping,
    job: &J,
    period: Period,
) -> Result<Ran, ScheduleError>
where
    J: Fn(Period) -> F,
    F: Future<Output = Result<T, E>>,
    E: fmt::Display,
{
    let (schedule, number): (&str, u64) = (&settings.name, period.number());
    // A period that is caught up has the time of the present one.
    let deadline = period.end().max(settings.current().end());
    let mut failures = 0;
    while !stopping.is_set() {
        let body = async {
            match unpanicked(async { job(period).await }).await {
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(Failure::Job(text(&error))),
                None => Err(Failure::Job("the job panicked".to_owned())),
            }
        };
        let ambient = Ambient::new().max_attempts(settings.max_attempts);
        let call = operation(settings, period).run_detailed::<(), Failure, _>(body);
        let answer = settings.idem.scope(ambient::scope(ambient, call)).await;
        failures += 1;
        let mut pause = settings.pauses.after(failures);
        match answer {
            Ok(outcome) => {
                let ran = !outcome.replayed;
                tracing::debug!(target: "idempotent", schedule, number, ran, "period done");
                return Ok(Ran::Done);
            }
            Err(Failure::Job(error)) => {
                tracing::warn!(target: "idempotent", schedule, number, error, "job failed");
            }
            Err(Failure::Refused(error)) => match error.kind() {
                ErrorKind::ShuttingDown => return Ok(Ran::Stopped),
                // Another process is at work. It may die, so it is asked again.
                ErrorKind::InProgress | ErrorKind::Superseded | ErrorKind::Unrecorded => {
                    pause = error.retry_after().unwrap_or_default().max(settings.pauses.after(1));
                }
                ErrorKind::Duplicate | ErrorKind::ResultUnavailable => return Ok(Ran::Done),
                ErrorKind::FailedBefore | ErrorKind::Indeterminate | ErrorKind::Undecodable => {
                    tracing::error!(target: "idempotent", schedule, number, %error, "period not run");
                    return Ok(Ran::Done);
                }
                _ if error.is_retryable() => {
                    tracing::warn!(target: "idempotent", schedule, number, %error, "period not run yet");
                }
                _ => return Err(misconfigured(settings, &error)),
            },
        }
        let Ok(left) = deadline.duration_since((settings.wall_clock)()) else { break };
        if left <= pause {
            // There is no time for another look.
            break;
        }
        if stopping.or(settings.idem.sleep(pause)).await.is_none() {
            return Ok(Ran::Stopped);
        }
    }
    if stopping.is_set() {
        return Ok(Ran::Stopped);
    }
    tracing::warn!(target: "idempotent", schedule, number, "period not done in its time");
    Ok(Ran::NotDone)
}

/// The operation of a period. Its key is the number.
fn operation(settings: &Settings, period: Period) -> Operation<'_> {
    let operation = settings
        .idem
        .operation(settings.name.clone())
        .key(period)
        .mode(Mode::Strong)
        .wait(Duration::ZERO)
        .abandon(Abandon::Retry)
        .on_unrecorded(OnUnrecorded::Value)
        .expire(settings.retention());
    match settings.max_run {
        None => operation,
        Some(max_run) => operation.max_run(max_run),
    }
}
