//! One try to handle a message: counted if it was delivered too often, decoded, handled, and judged.

use super::heartbeat::HeldDelivery;
use super::tally::{self, Tally};
use super::work::Work;
use crate::settlement::{Ended, settlement};
use crate::unpanicked::{text, unpanicked};
use crate::{Decode, Delivery, Message, Settlement, observe};
use idempotent_runtime::ambient::{self, Ambient, CallReport};
use idempotent_runtime::{ErrorKind, Mode};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

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
    work: &Work<C, H>,
    delivery: &mut HeldDelivery<'_, D>,
    retries: u64,
) -> Answer
where
    D: Delivery,
    C: Decode<M>,
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
        return call(work, delivery, ambient, deliveries).await;
    };
    let counted = match delivery.during(tally.begin()).await {
        Ok(counted) => counted,
        Err(answer) => return answer,
    };
    let answer = call(work, delivery, ambient, deliveries).await;
    delivery.during(tally::end(counted, &answer)).await;
    answer
}

/// Decodes a message, and calls its handler.
async fn call<D, C, M, H, F, T, E>(
    work: &Work<C, H>,
    delivery: &mut HeldDelivery<'_, D>,
    ambient: Ambient,
    deliveries: Option<u64>,
) -> Answer
where
    D: Delivery,
    C: Decode<M>,
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
    // In a box: each function that takes a future by value holds it twice, and all of that would be moved to the task.
    let handled = Box::pin(async {
        let result = (work.handler)(argument).await;
        result.map(drop).map_err(|error| text(&error))
    });
    let call = work.settings.idem.scope(ambient::reported(ambient, handled));
    // A panic is an answer: the broker would not deliver a message again whose connection lives on.
    let end = delivery.during(unpanicked(call)).await;
    observe::handled(&work.settings.name, started);
    judge(work, deliveries, end)
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
