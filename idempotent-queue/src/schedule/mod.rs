//! Scheduled jobs: once per period, whatever the number of processes.
//!
//! Every process of a service runs the same [`Schedule`]. Time is cut into periods of one length, which are
//! numbered since 1970, and the number is the key of a run: the process that comes first runs the job, the
//! others find its record. If that process dies, another one takes over when its lease ends; if the job
//! fails, it is tried again within its period.
//!
//! # Clocks
//!
//! The period is that of the wall clock. Clocks that differ, or that are set back, lead to a period that a
//! record is found for, and never to a second run while that record is kept: for ten periods, those that
//! [`catch_up`](Schedule::catch_up) looks back at, and a day.
//!
//! # Missed periods
//!
//! The records of runs are all that is known of them: no other place could disagree with them. To catch up,
//! a process that starts, or that finds that periods have passed, asks for the records of the last few
//! periods, as many as the [policy](CatchUp) says. One more record, which is kept for ten years, has the
//! period in which the job was first scheduled: a job has missed nothing before that.

mod catch_up;
mod period;
mod run;

pub use catch_up::CatchUp;
pub use period::Period;

use crate::settlement::Pauses;
use idempotent_runtime::Idempotency;
use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The number of periods for which a record is kept at least, besides those that are caught up.
const KEPT_PERIODS: u32 = 10;
/// The longest difference between two clocks that is reckoned with.
const LONGEST_SKEW: Duration = Duration::from_secs(24 * 3_600);
/// The longest retention, and period: a hundred years.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 3_600);

/// A job that runs once per period.
///
/// ```
/// use idempotent_queue::schedule::{CatchUp, Period, Schedule};
/// use idempotent_runtime::Idempotency;
/// use std::time::Duration;
///
/// async fn send_report(period: Period) -> Result<(), std::io::Error> {
///     println!("the report of period {}", period.number());
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (idem, stop) = (Idempotency::in_memory()?, std::future::ready(()));
/// Schedule::every(&idem, "reports.send", Duration::from_secs(300))
///     .catch_up(CatchUp::Latest)
///     .max_attempts(5)
///     .shutdown_on(stop)
///     .run(send_report)
///     .await?;
/// # Ok(()) }
/// ```
///
/// # Starts
/// A period is due when it has begun and no process has run it: a process that starts in the middle of one
/// runs it at once.
///
/// # Failures
/// An error and a panic are failures. The job is tried again after a pause, for as long as its period lasts,
/// and by any of the processes; [`max_attempts`](Self::max_attempts) counts for all of them together. After
/// the last attempt the period has failed, and is not run again.
///
/// # Overlaps
/// A run that outlasts its period holds up the next one on its own process, unless
/// [`concurrency`](Self::concurrency) is above one. Another process runs that one meanwhile. A run is
/// protected for as long as its lease is renewed, up to `max_run`: set [`max_run`](Self::max_run) above the
/// longest run.
pub struct Schedule {
    settings: Settings,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The settings of a schedule, which its tasks share.
struct Settings {
    idem: Idempotency,
    name: String,
    every: Duration,
    offset: Duration,
    catch_up: CatchUp,
    jitter: Duration,
    concurrency: usize,
    max_attempts: u32,
    pauses: Pauses,
    max_run: Option<Duration>,
    retention: Option<Duration>,
    drain: Duration,
    wall_clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Schedule {
    /// A job of this name that runs once in each period of this length, by all processes whose instances
    /// share a store. Periods of a day begin at midnight in UTC.
    pub fn every(idem: &Idempotency, name: impl Into<String>, every: Duration) -> Self {
        let second = Duration::from_secs(1);
        let settings = Settings {
            idem: idem.clone(),
            name: name.into(),
            every,
            offset: Duration::ZERO,
            catch_up: CatchUp::default(),
            jitter: Duration::ZERO,
            concurrency: 1,
            max_attempts: 3,
            pauses: Pauses { first: second, longest: 60 * second },
            max_run: None,
            retention: None,
            drain: 30 * second,
            wall_clock: Arc::new(SystemTime::now),
        };
        Self { settings, shutdown: Box::pin(pending()) }
    }

    /// Lets periods begin later by so much: those of a day at two in the morning, for example.
    #[must_use]
    pub fn offset(mut self, offset: Duration) -> Self {
        self.settings.offset = offset;
        self
    }

    /// Sets the treatment of periods that no process has run. Default: they are skipped.
    #[must_use]
    pub fn catch_up(mut self, policy: CatchUp) -> Self {
        self.settings.catch_up = policy;
        self
    }

    /// Waits for a random time up to this one after the beginning of a period, at most half of it, so that
    /// processes and jobs do not start all at once. Default: none.
    #[must_use]
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.settings.jitter = longest;
        self
    }

    /// Sets the number of runs that may be at work at the same time in this process, of different periods,
    /// at least one. Default: one.
    #[must_use]
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.settings.concurrency = runs.max(1);
        self
    }

    /// Sets the number of times that the job is started in one period, by all processes together, at least
    /// one. Default: 3.
    #[must_use]
    pub fn max_attempts(mut self, starts: u32) -> Self {
        self.settings.max_attempts = starts.max(1);
        self
    }

    /// Sets the pause after the first failure, which doubles with each, and the longest. Default: a
    /// second, and a minute.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.pauses = Pauses::at_most(LONGEST, first, longest);
        self
    }

    /// Sets the time after which another process may take over a run that has not ended. Default: that of
    /// the instance.
    #[must_use]
    pub fn max_run(mut self, max_run: Duration) -> Self {
        self.settings.max_run = Some(max_run);
        self
    }

    /// Sets the time for which a run is remembered, if it is longer than that of the periods that are caught
    /// up and two more. Default: ten periods, those that are caught up, and a day.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.settings.retention = Some(retention);
        self
    }

    /// Ends the schedule when `signal` resolves: nothing more is started, and runs are finished within
    /// [`drain`](Self::drain).
    #[must_use]
    pub fn shutdown_on(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Box::pin(signal);
        self
    }

    /// Sets the time for which runs are waited for at the end. One that has not ended by then is dropped, and
    /// another process may run its period. Default: 30 seconds.
    #[must_use]
    pub fn drain(mut self, within: Duration) -> Self {
        self.settings.drain = within;
        self
    }

    /// Sets the wall clock, for tests. Pauses follow the clock of the instance.
    ///
    /// ```
    /// # use idempotent_queue::schedule::Schedule;
    /// # use idempotent_runtime::Idempotency;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let idem = Idempotency::in_memory().unwrap();
    /// // With `idem` on a `ManualClock`, a test moves both.
    /// let clock = { let idem = idem.clone(); move || UNIX_EPOCH + idem.elapsed() };
    /// let schedule = Schedule::every(&idem, "reports.send", Duration::from_secs(300)).wall_clock(clock);
    /// ```
    #[must_use]
    pub fn wall_clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.settings.wall_clock = Arc::new(now);
        self
    }

    /// Runs the job in each period, until the schedule is told to end.
    ///
    /// A caller that drops the future drops the runs: another process may run their periods.
    ///
    /// # Errors
    /// The schedule, or its instance, is set up so that no period can be run.
    pub async fn run<J, F, T, E>(self, job: J) -> Result<(), ScheduleError>
    where
        J: Fn(Period) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let Self { settings, shutdown } = self;
        let refused = if settings.name.is_empty() {
            "its name is empty, which is part of the key"
        } else if settings.every < Duration::from_millis(1) || settings.every > LONGEST {
            "its period is shorter than a millisecond, or longer than a hundred years"
        } else {
            return run::run(settings, shutdown, job).await;
        };
        Err(ScheduleError::Misconfigured { schedule: settings.name, error: refused.to_owned() })
    }
}

impl Settings {
    /// The present period.
    fn current(&self) -> Period {
        self.period_at((self.wall_clock)())
    }

    fn period_at(&self, time: SystemTime) -> Period {
        Period::with_offset(self.every, self.offset, time)
    }

    /// The time for which a run is remembered.
    fn retention(&self) -> Duration {
        let reach = u32::try_from(self.catch_up.reach()).unwrap_or(u32::MAX);
        let periods = |more: u32| self.every.saturating_mul(reach.saturating_add(more));
        let least = periods(2);
        let default = periods(KEPT_PERIODS).saturating_add(LONGEST_SKEW);
        self.retention.unwrap_or(default).max(least).min(LONGEST)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Schedule")
            .field("name", &self.settings.name)
            .field("every", &self.settings.every)
            .field("catch_up", &self.settings.catch_up)
            .finish_non_exhaustive()
    }
}

/// The error of a schedule that cannot go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule, or its instance, is set up so that no period can be run.
    Misconfigured {
        /// The name of the job.
        schedule: String,
        /// The reason.
        error: String,
    },
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misconfigured { schedule, error } => {
                write!(formatter, "the schedule `{schedule}` has stopped: {error}")
            }
        }
    }
}

impl StdError for ScheduleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_remembered_for_longer_than_they_are_caught_up() {
        let idem = Idempotency::in_memory().unwrap();
        let (hour, day) = (Duration::from_secs(3_600), Duration::from_secs(24 * 3_600));
        let schedule = || Schedule::every(&idem, "job", hour);
        assert_eq!(schedule().settings.retention(), 10 * hour + day);
        let each = schedule().catch_up(CatchUp::Each { at_most: 5 });
        assert_eq!(each.settings.retention(), 15 * hour + day);
        assert_eq!(each.retention(hour).settings.retention(), 7 * hour);
        assert_eq!(schedule().retention(9 * day).settings.retention(), 9 * day);
    }
}
