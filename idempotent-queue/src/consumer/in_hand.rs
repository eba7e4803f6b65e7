//! A delivery, from the time it is taken to its settlement.
//!
//! A message is tried as often as it stays in hand: while the store is down, and if the order of its key is
//! kept. Each wait ends when the consumer drains, and the message goes back. A task that is dropped leaves
//! its delivery to the broker, and its attempt to the engine.

use super::conditions::Dependency;
use super::handle::{Answer, handle};
use super::heartbeat::{Heartbeats, HeldDelivery};
use super::order::Turn;
use super::status::Told;
use super::work::Work;
use crate::{Decode, Delivery, QueueError, Reason, Settlement};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

/// The time for which a broker may take a settlement. A copy of the message may be left behind after it, but
/// none is lost.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// The consequence of a message for its consumer.
pub(super) enum Consequence {
    GoesOn,
    /// No message can be settled.
    Stops(String),
    /// The instance was shut down, and the consumer ends with it.
    Ends,
}

/// The tries of a message in hand.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    /// Those that the store has not answered.
    unanswered: u32,
    /// Those after which the broker would have delivered it again.
    failed: u64,
}

/// Handles a delivery and settles it.
pub(super) async fn take<D, C, M, H, F, T, E>(
    work: &Work<C, H>,
    heartbeats: &Heartbeats<D>,
    delivery: D,
    mut turn: Turn,
) -> Consequence
where
    D: Delivery,
    C: Decode<M>,
    H: Fn(M) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    E: fmt::Display,
{
    let mut delivery = HeldDelivery::new(heartbeats, &work.settings, delivery);
    let mut tries = Tries::default();
    loop {
        let permit = match work.starts_at_once(&turn) {
            Some(permit) => Some(permit),
            None => delivery.during(work.may_start(&mut turn)).await,
        };
        let Some(permit) = permit else {
            give_back(work, delivery.into_delivery()).await;
            return Consequence::GoesOn;
        };
        let span = work.span(delivery.message());
        let tried = handle(work, &mut delivery, tries.failed);
        let answer = tried.instrument(span.clone()).await;
        drop(permit);
        learn(work, &answer);
        if let Some(until) = stays_until(work, &answer, &turn, &mut tries) {
            if !delivery.during(waits(work, until)).await {
                give_back(work, delivery.into_delivery()).await;
                return Consequence::GoesOn;
            }
            continue;
        }
        settle(work, delivery.into_delivery(), &answer).instrument(span).await;
        return match answer.settlement {
            Settlement::Stop => Consequence::Stops(answer.error),
            _ if answer.is_shutting_down => Consequence::Ends,
            _ => {
                turn.passes();
                Consequence::GoesOn
            }
        };
    }
}

/// Settles a delivery without a try.
pub(super) async fn reject<C, H>(
    work: &Work<C, H>,
    delivery: impl Delivery,
    answer: Answer,
) -> Consequence {
    let span = work.span(delivery.message());
    settle(work, delivery, &answer).instrument(span).await;
    Consequence::GoesOn
}

/// Learns whether the store answers.
fn learn<C, H>(work: &Work<C, H>, answer: &Answer) {
    match answer.settlement {
        Settlement::Pause => {
            work.status.fails(Dependency::Store, work.settings.pauses, &answer.error)
        }
        _ if answer.store_answered => work.status.answers(Dependency::Store),
        // One that did not ask the store says nothing of it.
        _ => {}
    }
}

/// The time until which a message stays in hand to be tried again. `None` if it is settled.
fn stays_until<C, H>(
    work: &Work<C, H>,
    answer: &Answer,
    turn: &Turn,
    tries: &mut Tries,
) -> Option<Instant> {
    match answer.settlement {
        Settlement::Pause if !answer.is_shutting_down => {
            tries.unanswered = tries.unanswered.saturating_add(1);
            // The store may answer others, and not this one: its own pauses grow too.
            let own = Instant::now() + work.settings.pauses.after(tries.unanswered);
            Some(work.status.conditions().store.until().map_or(own, |until| until.max(own)))
        }
        Settlement::Again { after } if turn.is_ordered() => {
            tries.failed += 1;
            Some(Instant::now() + after)
        }
        _ => None,
    }
}

/// Waits for a time. `false` if the consumer drains before that.
async fn waits<C, H>(work: &Work<C, H>, until: Instant) -> bool {
    tokio::select! {
        biased;
        () = work.status.drains() => false,
        () = sleep_until(until) => true,
    }
}

/// Returns a message that was not handled to the broker.
async fn give_back<C, H>(work: &Work<C, H>, delivery: impl Delivery) {
    let back = pin!(delivery.again(work.settings.pauses.first));
    settled(work, Told::Again, back).await;
}

async fn settle<C, H>(work: &Work<C, H>, delivery: impl Delivery, answer: &Answer) {
    let reason = |code| Reason::new(code, &*answer.error);
    match answer.settlement {
        Settlement::Ack => settled(work, Told::Ack, pin!(delivery.ack())).await,
        Settlement::Again { after } => {
            settled(work, Told::Again, pin!(delivery.again(after))).await;
        }
        Settlement::DeadLetter { code } => {
            let reason = reason(code);
            settled(work, Told::DeadLetter, pin!(delivery.dead_letter(&reason))).await;
        }
        Settlement::Park { code } => {
            let reason = reason(code);
            settled(work, Told::Park, pin!(delivery.park(&reason))).await;
        }
        Settlement::Pause | Settlement::Stop => give_back(work, delivery).await,
    }
}

/// Waits for a settlement, and learns whether the broker takes it.
async fn settled<C, H>(
    work: &Work<C, H>,
    told: Told,
    // Not by value, which would hold it twice.
    settlement: Pin<&mut impl Future<Output = Result<(), QueueError>>>,
) {
    let (consumer, outcome): (&str, _) = (&work.settings.name, told.as_str());
    let result = timeout(SETTLED_WITHIN, settlement).await.unwrap_or_else(|_| {
        Err(QueueError::new(format!("the broker has not answered within {SETTLED_WITHIN:?}")))
    });
    work.status.settles(told, result.is_ok());
    match result {
        Ok(()) => {
            work.status.answers(Dependency::Settling);
            tracing::debug!(target: "idempotent", consumer, outcome, "delivery settled");
        }
        Err(error) => {
            // The broker delivers it again, and it is answered as before.
            work.status.fails(Dependency::Settling, work.settings.pauses, &error);
            tracing::warn!(target: "idempotent", consumer, outcome, %error, "delivery not settled");
        }
    }
}
