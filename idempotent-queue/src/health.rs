//! The health of a consumer, for probes and dashboards.

use crate::consumer::conditions::{Conditions, Phase};
use crate::consumer::status::{Status, Told};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The health of a consumer, to be asked at any time, also after its end. Clones are of one consumer.
///
/// ```
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_queue::{Consumer, ConsumerState, Message};
/// use idempotent_runtime::{Error, Idempotency, idempotent};
///
/// #[idempotent(key = "order", mode = "strong", expire = "7d")]
/// async fn on_order(order: u64) -> Result<u64, Error> {
///     Ok(order)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (idem, queue) = (Idempotency::in_memory()?, MemoryQueue::new());
/// # queue.send(Message::new("42"));
/// # queue.close();
/// let consumer = Consumer::new(&idem, "orders");
/// let health = consumer.health();
/// assert_eq!(health.state(), ConsumerState::Starting);
/// consumer.run(queue.deliveries(), on_order).await?;
/// assert_eq!(health.state(), ConsumerState::Ended);
/// assert_eq!(health.settled().acknowledged, 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ConsumerHealth(Arc<Status>);

/// The state of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConsumerState {
    /// It has not run yet, or its source is not ready.
    Starting,
    /// It takes messages.
    Running,
    /// It takes no messages: the store has not answered since a failure.
    PausedByStore,
    /// It takes no messages: the broker has failed to deliver, or to take a settlement, and is asked
    /// again after a pause.
    PausedByBroker,
    /// It was told to end, and finishes the handlers that run.
    Draining,
    /// It has ended, or was dropped.
    Ended,
}

/// The deliveries that a consumer has settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Those that are done.
    pub acknowledged: u64,
    /// Those that the broker delivers again.
    pub again: u64,
    /// Those that cannot be handled.
    pub dead_letters: u64,
    /// Those that wait for a person.
    pub parked: u64,
    /// Settlements that the broker did not take. It delivers these messages again.
    pub not_taken: u64,
}

/// An error of the broker or the store. Errors of handlers are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastError {
    /// The error.
    pub text: String,
    /// The time that has passed since.
    pub age: Duration,
}

impl ConsumerHealth {
    pub(crate) fn new(status: &Arc<Status>) -> Self {
        Self(Arc::clone(status))
    }

    /// The name of the consumer.
    pub fn consumer(&self) -> &str {
        &self.0.name
    }

    /// The state of the consumer.
    pub fn state(&self) -> ConsumerState {
        let Conditions { phase, store, source, settling } = self.0.conditions();
        match phase {
            Phase::Starting => ConsumerState::Starting,
            Phase::Running if store.is_on() => ConsumerState::PausedByStore,
            // Not until it answers: a broker without messages is silent as well.
            Phase::Running if source.until().or(settling.until()).is_some() => {
                ConsumerState::PausedByBroker
            }
            Phase::Running => ConsumerState::Running,
            Phase::Draining => ConsumerState::Draining,
            Phase::Ended => ConsumerState::Ended,
        }
    }

    /// The number of deliveries that are not settled.
    pub fn in_hand(&self) -> usize {
        self.0.in_hand()
    }

    /// The deliveries that were settled since the consumer was made.
    pub fn settled(&self) -> Settled {
        Settled {
            acknowledged: self.0.settled(Told::Ack),
            again: self.0.settled(Told::Again),
            dead_letters: self.0.settled(Told::DeadLetter),
            parked: self.0.settled(Told::Park),
            not_taken: self.0.not_settled(),
        }
    }

    /// The last error of the broker, or of the store.
    pub fn last_error(&self) -> Option<LastError> {
        let last = self.0.last_error();
        last.as_ref().map(|(at, text)| LastError { text: text.clone(), age: at.elapsed() })
    }
}

impl fmt::Debug for ConsumerHealth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConsumerHealth")
            .field("consumer", &self.consumer())
            .field("state", &self.state())
            .field("in_hand", &self.in_hand())
            .field("settled", &self.settled())
            .field("last_error", &self.last_error())
            .finish()
    }
}
