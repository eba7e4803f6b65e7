//! The interface between a consumer and a broker.

use crate::{Message, QueueError};
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// A source of deliveries: a queue, a stream or a topic of a broker.
///
/// # Implementing
///
/// An implementation
///
/// * MUST be safe to drop while it waits in [`next`](Self::next), or before that: no delivery is lost
///   by it;
/// * MUST connect again by itself: after an error it is asked again, after a pause that grows;
/// * SHOULD NOT fetch far ahead of what it is asked for: a delivery that waits here waits for nobody
///   else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of deliveries",
    label = "not an `idempotent_queue::Deliveries`",
    note = "`MemoryQueue::deliveries` returns one; adapters of brokers implement the trait"
)]
pub trait Deliveries: Send + 'static {
    /// The deliveries of this source.
    type Delivery: Delivery;

    /// Waits for the next delivery. `None` if there will be no other one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Delivery>, QueueError>> + Send;
}

/// A message that the broker waits to be told about.
///
/// A delivery is settled by value, so that it is settled once. One that is dropped is not settled.
///
/// # Implementing
///
/// An implementation
///
/// * MUST leave a delivery that is dropped to the broker, which delivers it again;
/// * MUST NOT acknowledge a message before its copy, as a dead letter, parked or to come again, is
///   confirmed by the broker: a message may be there twice, and must not be lost;
/// * MUST keep the headers of a message that comes again.
pub trait Delivery: Send + 'static {
    /// The message.
    fn message(&self) -> &Message;

    /// The message is done.
    fn ack(self) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The message is to be delivered again, after a pause.
    fn again(self, after: Duration) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The message cannot be handled.
    fn dead_letter(self, reason: &Reason) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The message waits for a person, in a place of its own.
    fn park(self, reason: &Reason) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// The message is still being handled: the broker is not to deliver it again. The future is dropped
    /// when the message is settled.
    fn in_progress(&mut self) -> impl Future<Output = Result<(), QueueError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// The reason for which a message is not handled, for those who look at it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    code: &'static str,
    text: String,
}

impl Reason {
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A short name: `final-error`, `undecodable`, `outcome-unknown` and so on.
    pub fn code(&self) -> &str {
        self.code
    }

    /// The error.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.text)
    }
}
