//! One delivery, from its message to its settlement.

use super::Settings;
use crate::settlement::{Ended, settlement};
use crate::{Delivery, Message, QueueError, Reason, Settlement};
use idempotent_runtime::ambient::{self, CallReport};
use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use tokio::time::{MissedTickBehavior, interval_at};

/// A delivery that was settled, or whose settlement the broker did not take.
pub(super) struct Handled {
    pub(super) settlement: Settlement,
    /// The store has answered.
    pub(super) store_answered: bool,
    /// The broker took the settlement.
    pub(super) is_settled: bool,
    /// The error of the handler, if there was one.
    pub(super) error: String,
}

impl Handled {
    fn new(settlement: Settlement, error: String) -> Self {
        Self { settlement, store_answered: false, is_settled: false, error }
    }
}

/// Handles a delivery and settles it.
///
/// A caller that goes away leaves the delivery to the broker, and the attempt to the engine.
pub(super) async fn handle<D, M, X, F, T, E>(
    settings: &Settings,
    mut delivery: D,
    decode: impl Fn(&Message) -> Result<M, X>,
    handler: impl Fn(M) -> F,
) -> Handled
where
    D: Delivery,
    X: StdError,
    F: Future<Output = Result<T, E>>,
    E: fmt::Display,
{
    let dead = |code, error| Handled::new(Settlement::DeadLetter { code }, error);
    let ambient = settings.ambient(delivery.message());
    let decoded = catch_unwind(AssertUnwindSafe(|| decode(delivery.message())));
    let mut handled = match (decoded, ambient) {
        (Err(_), _) => dead("undecodable", "the decoder panicked".to_owned()),
        (Ok(Err(error)), _) => dead("undecodable", text(&error)),
        (Ok(Ok(_)), None) => dead("scope-missing", "the header of the scope is missing".to_owned()),
        (Ok(Ok(message)), Some(ambient)) => {
            let handler = async { handler(message).await };
            call(settings, &mut delivery, ambient::reported(ambient, handler)).await
        }
    };
    let consumer: &str = &settings.name;
    let outcome = name(handled.settlement);
    let settled = settle(settings, delivery, &handled).await;
    handled.is_settled = settled.is_ok();
    if let Err(error) = settled {
        // The broker delivers it again, and it is answered as before.
        tracing::warn!(target: "idempotent", consumer, outcome, %error, "delivery not settled");
    } else {
        tracing::debug!(target: "idempotent", consumer, outcome, "delivery settled");
    }
    handled
}

/// Calls the handler, and tells the broker now and then that it is at work.
async fn call<T, E: fmt::Display>(
    settings: &Settings,
    delivery: &mut impl Delivery,
    call: impl Future<Output = (Result<T, E>, Option<CallReport>)>,
) -> Handled {
    let mut call = pin!(settings.idem.scope(call));
    // A panic is an answer: the broker would not deliver a message again whose connection lives on.
    let mut call = pin!(poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(Some(answer)),
            Err(_) => Poll::Ready(None),
        }
    }));
    let first = tokio::time::Instant::now() + settings.heartbeat;
    let mut heartbeat = interval_at(first, settings.heartbeat);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deliveries = delivery.message().deliveries();
    // Beside the call, which a broker that does not answer must not hold up.
    let beats = async {
        loop {
            heartbeat.tick().await;
            if let Err(error) = delivery.in_progress().await {
                let consumer: &str = &settings.name;
                tracing::debug!(target: "idempotent", consumer, %error, "progress not signalled");
            }
        }
    };
    let answer = tokio::select! {
        biased;
        answer = &mut call => answer,
        () = beats => None,
    };
    let Some((result, report)) = answer else {
        let settlement = settlement(Ended::Panicked, None, deliveries, settings.pauses);
        return Handled::new(settlement, "the handler panicked".to_owned());
    };
    if report.is_none() && !settings.is_unprotected.swap(true, Relaxed) {
        let consumer: &str = &settings.name;
        tracing::warn!(
            target: "idempotent", consumer,
            "the handler calls no idempotent function: a message that is delivered again is handled again"
        );
    }
    let ended = if result.is_ok() { Ended::Ok } else { Ended::Err };
    let settlement = settlement(ended, report.as_ref(), deliveries, settings.pauses);
    let error = result.err().map(|error| text(&error)).unwrap_or_default();
    let store_answered = report.is_some_and(|report| {
        !report.is_unrecorded && (report.refusal.is_none() || report.retry_after.is_some())
    });
    Handled { store_answered, ..Handled::new(settlement, error) }
}

/// The text of an error, which a bad implementation cannot turn into a panic.
fn text(error: &impl fmt::Display) -> String {
    catch_unwind(AssertUnwindSafe(|| error.to_string()))
        .unwrap_or_else(|_| "the error cannot be displayed".to_owned())
}

async fn settle(
    settings: &Settings,
    delivery: impl Delivery,
    handled: &Handled,
) -> Result<(), QueueError> {
    match handled.settlement {
        Settlement::Ack => delivery.ack().await,
        Settlement::Again { after } => delivery.again(after).await,
        Settlement::DeadLetter { code } => {
            delivery.dead_letter(&Reason::new(code, &*handled.error)).await
        }
        Settlement::Park { code } => delivery.park(&Reason::new(code, &*handled.error)).await,
        Settlement::Pause | Settlement::Stop => delivery.again(settings.pauses.first).await,
    }
}

fn name(settlement: Settlement) -> &'static str {
    match settlement {
        Settlement::Ack => "ack",
        Settlement::Again { .. } => "again",
        Settlement::DeadLetter { .. } => "dead_letter",
        Settlement::Park { .. } => "park",
        Settlement::Pause => "pause",
        Settlement::Stop => "stop",
    }
}
