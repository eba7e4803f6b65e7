//! One try to handle a message: decoded, handled, and judged.

use super::heartbeat::Heartbeat;
use super::work::Work;
use crate::settlement::{Ended, settlement};
use crate::{Decode, Delivery, Message, Settlement, observe};
use idempotent_runtime::ambient::{self, CallReport};
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
}

impl Answer {
    fn new(settlement: Settlement, error: impl Into<String>) -> Self {
        let error = error.into();
        Self { settlement, error, store_answered: false, is_shutting_down: false }
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
    if let Some(answer) = work.too_many(deliveries) {
        return answer;
    }
    let started = Instant::now();
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        work.decoder.decode(message).map_err(|error| text(&error))
    }));
    let argument = match decoded {
        Err(_) => return Answer::dead("undecodable", "the decoder panicked"),
        Ok(Err(error)) => return Answer::dead("undecodable", error),
        Ok(Ok(argument)) => argument,
    };
    let Some(ambient) = work.settings.ambient(message) else {
        return Answer::dead("scope-missing", "the header of the scope is missing");
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
        return Answer::new(settlement, "the handler panicked");
    };
    work.look_at(report.as_ref());
    let ended = if result.is_ok() { Ended::Ok } else { Ended::Err };
    let settlement = settlement(ended, report.as_ref(), deliveries, pauses);
    let mut answer = Answer::new(settlement, result.err().unwrap_or_default());
    if let Some(report) = report {
        answer.store_answered = store_answered(&report);
        answer.is_shutting_down = report.refusal == Some(ErrorKind::ShuttingDown);
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
