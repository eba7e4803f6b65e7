//! Ambient token and scope, which an adapter (HTTP, queue) sets for the functions that it calls.
//!
//! A function without a `key` argument takes its key from here. Calling one operation twice under
//! one ambient token is, by definition, a duplicate.
//!
//! An adapter that has to act on the outcome, such as one that settles messages, learns it by
//! [`reported`]: the function's own error type does not tell a refusal from a failure.

use crate::config::Mode;
use crate::engine::{call_refused, enclosing};
use crate::error::{Disposition, Error, ErrorKind};
use crate::key::{Encoded, KeyPart};
use crate::observe::Ending;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

tokio::task_local! {
    static AMBIENT: Ambient;
    static REPORT: ReportSlot;
}

/// The place for the ends of calls. It goes along when a call moves to another task.
pub(crate) type ReportSlot = Arc<Mutex<Reports>>;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    last: Option<CallReport>,
    /// The rules of the call that was prepared last, without those in the bodies of others.
    rules: Option<Rules>,
    /// The number of calls that have begun and not ended: one, and those in its body.
    open: u32,
    /// The number of calls that have begun, without those in the bodies of others.
    made: u32,
}

/// The rules of a call that adapters look at.
#[derive(Clone, Copy, Debug)]
struct Rules {
    mode: Mode,
    retention: Duration,
}

/// Token and scope of the request that is being handled.
///
/// `Debug` shows of token and scope only whether they are set.
///
/// ```
/// use idempotent_runtime::ambient::{self, Ambient};
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(mode = "strong")] // no `key`: the ambient token
/// async fn create_order(item: &str) -> Result<String, Error> {
///     Ok(format!("ordered {item}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let request = Ambient::new().token("7f3a").scope("acme");
/// let first = ambient::scope(request.clone(), create_order("lamp")).await?;
/// assert_eq!(ambient::scope(request, create_order("lamp")).await?, first);
/// # Ok(()) }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ambient {
    /// The caller's idempotency token.
    pub token: Option<String>,
    /// Tenant or principal, encoded. A function's own scope is added to it.
    pub scope: Option<Encoded>,
    /// The number of times that a body may start under one record.
    pub max_attempts: Option<u32>,
}

impl Ambient {
    /// Creates a value without token and scope.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the tenant or principal.
    #[must_use]
    pub fn scope(mut self, scope: impl KeyPart) -> Self {
        self.scope = Some(Encoded::of(&scope));
        self
    }

    /// Limits the number of times that a body may start under one record.
    ///
    /// A call that would start it once more does not run: its record becomes that of a final failure,
    /// and the call is refused with [`FailedBefore`](ErrorKind::FailedBefore). Starts are counted by
    /// the record, in all processes; one of a process that died counts, and an attempt that was
    /// granted and never started does not. A body in a database transaction that panics, or whose
    /// process dies, is rolled back with its count. Calls inside a body are not limited by this.
    #[must_use]
    pub fn max_attempts(mut self, starts: u32) -> Self {
        self.max_attempts = Some(starts);
        self
    }
}

/// The end of a call, for adapters that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallReport {
    /// The outcome, as metrics count it.
    pub ending: Ending,
    /// The kind of the error, if the call was refused.
    pub refusal: Option<ErrorKind>,
    /// The time after which a retry makes sense, if the call was refused and it is known.
    pub retry_after: Option<Duration>,
    /// The operation has failed for good: its error is kept, or it is not tried again.
    pub is_final: bool,
    /// The number of the attempt that ran the body, if it ran under a record.
    pub attempt: Option<u32>,
    /// The body ran for this call.
    pub body_ran: bool,
    /// The answer is not in the store yet: it is being recorded in the background.
    pub is_unrecorded: bool,
    /// The mode of the call, if its options were valid.
    pub mode: Option<Mode>,
    /// The time for which its answer is kept, if its options were valid: `expire`, or for a body that ran
    /// the choice of `expire_with`.
    pub retention: Option<Duration>,
    /// The number of calls that were made, without those in the bodies of others. If it is above one, the
    /// report tells of the last of them.
    pub calls: u32,
}

impl CallReport {
    /// The report of a call that was not refused, and has not failed for good.
    pub fn new(ending: Ending) -> Self {
        Self {
            ending,
            refusal: None,
            retry_after: None,
            is_final: false,
            attempt: None,
            body_ran: false,
            is_unrecorded: false,
            mode: None,
            retention: None,
            calls: 1,
        }
    }

    pub(crate) fn refused(error: &Error) -> Self {
        Self {
            refusal: Some(error.kind()),
            retry_after: error.retry_after(),
            body_ran: error.body_ran(),
            is_final: error.kind() == ErrorKind::FailedBefore,
            ..Self::new(error.kind().into())
        }
    }
}

impl fmt::Debug for Ambient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ambient")
            .field("token", &self.token.as_ref().map(|_| format_args!("..")))
            .field("scope", &self.scope.as_ref().map(|_| format_args!("..")))
            .field("max_attempts", &self.max_attempts)
            .finish()
    }
}

/// Runs `future` with `ambient` as the ambient token and scope. It replaces an outer one and does
/// not inherit from it.
///
/// ```
/// use idempotent_runtime::ambient::{self, Ambient};
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(mode = "strong")]
/// async fn greet(name: String) -> Result<String, Error> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let request = Ambient::new().token("7f3a").scope("tenant-1");
/// let greeting = ambient::scope(request, greet("Ada".into())).await?;
/// assert_eq!(greeting, "hello Ada");
/// # Ok(()) }
/// ```
pub fn scope<F: Future>(ambient: Ambient, future: F) -> impl Future<Output = F::Output> {
    // Not an async function, which would hold the future twice.
    AMBIENT.scope(ambient, future)
}

/// Runs `future` as [`scope`] does, and returns with its output the end of the last call that it made.
/// `None` if it made none.
///
/// ```
/// use idempotent_runtime::ambient::{self, Ambient};
/// use idempotent_runtime::observe::Ending;
/// use idempotent_runtime::{Error, idempotent};
///
/// #[idempotent(mode = "strong")]
/// async fn greet(name: &str) -> Result<String, Error> {
///     Ok(format!("hello {name}"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Ambient::new().token("7f3b");
/// for expected in [Ending::Executed, Ending::Replayed] {
///     let (_, report) = ambient::reported(request.clone(), greet("Ada")).await;
///     assert_eq!(report.map(|report| report.ending), Some(expected));
/// }
/// # }
/// ```
///
/// A call inside the body of another one ends before it, so that the outer one is reported. A call in
/// another task is not reported.
pub async fn reported<F: Future>(ambient: Ambient, future: F) -> (F::Output, Option<CallReport>) {
    let slot = ReportSlot::default();
    let output = report_to(Arc::clone(&slot), scope(ambient, future)).await;
    let reports = reports(&slot);
    let (mode, retention) = reports.rules.map(|rules| (rules.mode, rules.retention)).unzip();
    let calls = reports.made;
    let report = reports.last.map(|report| CallReport { calls, mode, retention, ..report });
    drop(reports);
    (output, report)
}

/// Runs `future` so that the ends of its calls are left in `slot`.
pub(crate) fn report_to<F: Future>(slot: ReportSlot, future: F) -> impl Future<Output = F::Output> {
    REPORT.scope(slot, future)
}

/// The place in which this task leaves the ends of calls.
pub(crate) fn report_slot() -> Option<ReportSlot> {
    REPORT.try_with(Arc::clone).ok()
}

fn reports(slot: &ReportSlot) -> MutexGuard<'_, Reports> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the end of a call for [`reported`], and its refusal for the body around it.
pub(crate) fn report(report: CallReport, audience: Audience) {
    if let Some(kind) = report.refusal
        && Disposition::of(kind, report.retry_after).is_retry()
    {
        call_refused();
    }
    if audience == Audience::Adapter {
        let _ = REPORT.try_with(|slot| reports(slot).last = Some(report));
    }
}

/// A call is prepared, with a mode and a retention unless its options are invalid.
pub(crate) fn call_prepared(rules: Option<(Mode, Duration)>) {
    let _ = REPORT.try_with(|slot| {
        let mut reports = reports(slot);
        if reports.open == 0 {
            reports.rules = rules.map(|(mode, retention)| Rules { mode, retention });
        }
    });
}

/// The body has returned a value that is kept for another time than the call said.
pub(crate) fn report_retention(chosen: Duration) {
    let _ = REPORT.try_with(|slot| {
        let mut reports = reports(slot);
        if let Reports { open: 1, rules: Some(rules), .. } = &mut *reports {
            rules.retention = chosen;
        }
    });
}

/// Listener to the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The adapter that makes the call by [`reported`].
    Adapter,
    Nobody,
}

/// A call begins. Returns who is to be told of its end.
pub(crate) fn call_begins() -> Audience {
    let told = REPORT.try_with(|slot| {
        let mut reports = reports(slot);
        // One beside another, such as in a `join!`, is in the body of none.
        let is_outermost = reports.open == 0 || enclosing().is_none();
        reports.made += u32::from(is_outermost);
        reports.open += 1;
    });
    if told.is_ok() { Audience::Adapter } else { Audience::Nobody }
}

/// A call has ended.
pub(crate) fn call_ended() {
    let _ = REPORT.try_with(|slot| {
        let mut reports = reports(slot);
        reports.open = reports.open.saturating_sub(1);
    });
}

/// Adds the number of the attempt that ran the body, and whether its answer is in the store, to the report
/// that was left last.
pub(crate) fn report_attempt(number: u32, is_unrecorded: bool) {
    let _ = REPORT.try_with(|slot| {
        if let Some(report) = &mut reports(slot).last {
            report.attempt = Some(number);
            report.body_ran = true;
            report.is_unrecorded = is_unrecorded;
        }
    });
}

/// Calls `read` with `ambient` as the ambient token and scope, as [`scope`] does for a future.
pub fn sync_scope<R>(ambient: Ambient, read: impl FnOnce() -> R) -> R {
    AMBIENT.sync_scope(ambient, read)
}

/// Returns the ambient token and scope of this task, which [`scope`] can carry into another task.
///
/// ```
/// use idempotent_runtime::ambient::{self, Ambient};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let token = ambient::scope(Ambient::new().token("7f3a"), async {
///     let ambient = ambient::current().unwrap_or_default();
///     tokio::spawn(ambient::scope(ambient, async { ambient::current()?.token })).await
/// });
/// assert_eq!(token.await?.as_deref(), Some("7f3a"));
/// # Ok(()) }
/// ```
pub fn current() -> Option<Ambient> {
    AMBIENT.try_with(Ambient::clone).ok()
}

/// Calls `read` with the ambient values, without cloning them.
pub(crate) fn with<R>(read: impl Fn(Option<&Ambient>) -> R) -> R {
    AMBIENT.try_with(|ambient| read(Some(ambient))).unwrap_or_else(|_| read(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_place_is_not_shown() {
        let ambient = Ambient::new().token("7f3a").scope("tenant-1");
        let shown = "Ambient { token: Some(..), scope: Some(..), max_attempts: None }";
        assert_eq!(format!("{ambient:?}"), shown);
        let shown = "Ambient { token: None, scope: None, max_attempts: None }";
        assert_eq!(format!("{:?}", Ambient::new()), shown);
    }
}
