//! One try to handle a message: counted if it was delivered too often, decoded, handled, and judged.

use super::heartbeat::Heartbeat;
use super::tally::{self, Tally};
use super::work::Work;
use crate::settlement::{Ended, settlement};
use crate::{Decode, Delivery, Message, Settlement, observe};
use idempotent_runtime::ambient::{self, Ambient, CallReport};
use idempotent_runtime::{ErrorKind, Mode};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::task::{JoinError, JoinHandle};
use tracing::{Instrument, Span};

/// The answer to a message.
pub(super) struct Answer {
    pub(super) settlement: Settlement,
    /// The error of the handler, if there was one.
    pub(super) error: String,
    /// The store has answered.
    pub(super) store_answered: bool,
    /// The instance takes no more calls.
    pub(super) is_shutting_down: bool,
    /// The handler panicked, or failed with an error of its own, and the message comes again.
    pub(super) has_failed: bool,
}

impl Answer {
    pub(super) fn new(settlement: Settlement, error: impl Into<String>) -> Self {
        let (error, [store_answered, is_shutting_down, has_failed]) = (error.into(), [false; 3]);
        Self { settlement, error, store_answered, is_shutting_down, has_failed }
    }

    /// Adds what the report of the call says of store and instance.
    pub(super) fn reported(mut self, report: &CallReport) -> Self {
        self.store_answered = store_answered(report);
        self.is_shutting_down = report.refusal == Some(ErrorKind::ShuttingDown);
        self
    }

    pub(super) fn dead(code: &'static str, error: impl Into<String>) -> Self {
        Self::new(Settlement::DeadLetter { code }, error)
    }
}

/// The end of a handler, with the report of the call that it made.
type End = (Result<(), String>, Option<CallReport>);

/// Handles a message once. `retries` is the number of tries before this one for which it stayed in hand.
pub(super) async fn handle<D, C, M, H, F, T, E>(
    work: &Arc<Work<C, H>>,
    delivery: &mut D,
    heartbeat: &mut Heartbeat<'_>,
    span: &Span,
    retries: u64,
) -> Answer
where
    D: Delivery,
    C: Decode<M>,
    M: Send + 'static,
    H: Fn(M) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    E: fmt::Display,
{
    let message = delivery.message();
    let deliveries = deliveries(message, retries);
    let Some(ambient) = work.settings.ambient(message) else {
        return Answer::dead("scope-missing", "the header of the scope is missing");
    };
    // Before anything else is done with the message, which may end the process.
    let Some(tally) = Tally::of(&work.settings, message, &ambient, deliveries) else {
        return call(work, delivery, heartbeat, span, ambient, deliveries).await;
    };
    let counted = match heartbeat.during(delivery, tally.begin()).await {
        Ok(counted) => counted,
        Err(answer) => return answer,
    };
    let answer = call(work, delivery, heartbeat, span, ambient, deliveries).await;
    heartbeat.during(delivery, tally::end(counted, &answer)).await;
    answer
}

/// Decodes a message, and calls its handler.
async fn call<D, C, M, H, F, T, E>(
    work: &Arc<Work<C, H>>,
    delivery: &mut D,
    heartbeat: &mut Heartbeat<'_>,
    span: &Span,
    ambient: Ambient,
    deliveries: Option<u64>,
) -> Answer
where
    D: Delivery,
    C: Decode<M>,
    M: Send + 'static,
    H: Fn(M) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    E: fmt::Display,
{
    let started = Instant::now();
    let message = delivery.message();
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        work.decoder.decode(message).map_err(|error| text(&error))
    }));
    let argument = match decoded {
        Err(_) => return Answer::dead("undecodable", "the decoder panicked"),
        Ok(Err(error)) => return Answer::dead("undecodable", error),
        Ok(Ok(argument)) => argument,
    };
    let call = {
        let work = Arc::clone(work);
        async move {
            let handled = async {
                let result = (work.handler)(argument).await;
                result.map(drop).map_err(|error| text(&error))
            };
            work.settings.idem.scope(ambient::reported(ambient, handled)).await
        }
    };
    // In a task of its own: one that blocks does not hold up its heartbeat, and a panic is an answer. The
    // broker would not deliver a message again whose connection lives on.
    let call = Call(tokio::spawn(call.instrument(span.clone())));
    let end = heartbeat.during(delivery, call).await;
    observe::handled(&work.settings.name, started);
    judge(work, deliveries, end.ok())
}

/// Decides on a message by the end of its handler. `None` if that panicked.
fn judge<C, H>(work: &Work<C, H>, deliveries: Option<u64>, end: Option<End>) -> Answer {
    let pauses = work.settings.pauses;
    let Some((result, report)) = end else {
        let settlement = settlement(Ended::Panicked, None, deliveries, pauses);
        return Answer { has_failed: true, ..Answer::new(settlement, "the handler panicked") };
    };
    work.look_at(report.as_ref());
    let ended = if result.is_ok() { Ended::Ok } else { Ended::Err };
    let settlement = settlement(ended, report.as_ref(), deliveries, pauses);
    let is_own = report.is_none_or(|report| report.refusal.is_none());
    let comes_again = matches!(settlement, Settlement::Again { .. });
    let mut answer = Answer::new(settlement, result.err().unwrap_or_default());
    answer.has_failed = ended == Ended::Err && is_own && comes_again;
    if let Some(report) = report {
        answer = answer.reported(&report);
        if settlement == Settlement::Stop && report.mode == Some(Mode::Window) {
            WINDOW.clone_into(&mut answer.error);
        }
    }
    answer
}

/// `true` if the store has answered a call. Some are refused before it is asked.
fn store_answered(report: &CallReport) -> bool {
    match report.refusal {
        None => !report.is_unrecorded,
        Some(
            ErrorKind::Duplicate
            | ErrorKind::InProgress
            | ErrorKind::Superseded
            | ErrorKind::FailedBefore
            | ErrorKind::Mismatch
            | ErrorKind::Indeterminate
            | ErrorKind::ResultUnavailable
            | ErrorKind::Undecodable,
        ) => true,
        Some(_) => false,
    }
}

const WINDOW: &str = "its function has the mode `window`, which does not tell whether the work was done\n\
                      help: choose `mode = \"strong\"` or `mode = \"reject\"`";

/// The number of deliveries, with those that the consumer has spared the broker.
fn deliveries(message: &Message, retries: u64) -> Option<u64> {
    match (message.deliveries(), retries) {
        (None, 0) => None,
        (counted, retries) => Some(counted.unwrap_or(1).saturating_add(retries)),
    }
}

/// The text of an error, which a bad implementation cannot turn into a panic.
fn text(error: &impl fmt::Display) -> String {
    catch_unwind(AssertUnwindSafe(|| error.to_string()))
        .unwrap_or_else(|_| "the error cannot be displayed".to_owned())
}

/// A handler in a task of its own, which ends with the task that waits for it.
struct Call(JoinHandle<End>);

impl Future for Call {
    type Output = Result<End, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.abort();
    }
}
