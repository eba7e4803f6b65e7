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
/// * MUST be safe to drop while it waits in [`next`](Self::next) or [`prepare`](Self::prepare), or before
///   that: no delivery is lost by it. A consumer waits for a `next` that it has begun until it is told to
///   end; then it drops the wait, finishes its messages, and drops the source;
/// * MUST connect again by itself: after an error it is asked again, after a pause that grows;
/// * SHOULD NOT fetch far ahead of what it is asked for: a delivery that waits here is not
///   offered to other consumers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of deliveries",
    label = "not an `idempotent_queue::Deliveries`",
    note = "`MemoryQueue::deliveries` returns one; adapters of brokers implement the trait"
)]
pub trait Deliveries: Send + 'static {
    /// The deliveries of this source.
    type Delivery: Delivery;

    /// Prepares for a consumer with these terms. Called before the first delivery, and not again once it
    /// has succeeded.
    ///
    /// An implementation SHOULD look at the limits that the broker has for the queue, and MUST refuse
    /// ([`PrepareError::Refused`]) those under which the broker drops a message, or takes it away, before
    /// this consumer is done with it. It is called again, after a pause, if the broker cannot be reached.
    fn prepare(
        &mut self,
        terms: &Terms,
    ) -> impl Future<Output = Result<Prepared, PrepareError>> + Send {
        let _ = terms;
        std::future::ready(Ok(Prepared::default()))
    }

    /// Waits for the next delivery. `None` if there will be no other one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Self::Delivery>, QueueError>> + Send;
}

/// The terms on which a consumer takes deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The name of the consumer.
    pub consumer: String,
    /// The largest number of deliveries that are not settled.
    pub prefetch: usize,
    /// The number of times that the body may start for one key.
    pub max_attempts: Option<u32>,
    /// The time between two calls of [`Delivery::in_progress`].
    pub heartbeat: Duration,
}

impl Terms {
    /// The terms of a consumer of this name that has no settings, for tests of a source.
    pub fn new(consumer: impl Into<String>) -> Self {
        Self {
            consumer: consumer.into(),
            prefetch: 16,
            max_attempts: None,
            heartbeat: Duration::from_secs(10),
        }
    }

    /// The smallest number of deliveries at which a broker may take a message away by itself, since the
    /// consumer counts attempts: ten times as many, where it limits them.
    pub fn least_delivery_limit(&self) -> Option<u64> {
        self.max_attempts.map(|attempts| u64::from(attempts) * DELIVERIES_PER_ATTEMPT)
    }
}

/// Deliveries that are taken for one attempt, before tries are counted: those that find another consumer at
/// work, or the store down, are deliveries too.
pub(crate) const DELIVERIES_PER_ATTEMPT: u64 = 10;

/// A source that is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prepared {
    /// The longest time for which the broker keeps a message, and may deliver it again, if that is known.
    pub redelivered_for: Option<Duration>,
}

impl Prepared {
    /// Sets the longest time for which the broker may deliver a message again.
    #[must_use]
    pub fn redelivered_for(mut self, longest: Duration) -> Self {
        self.redelivered_for = Some(longest);
        self
    }
}

/// A source that is not ready.
#[derive(Debug)]
#[non_exhaustive]
pub enum PrepareError {
    /// The broker cannot be reached. The source is asked again.
    Unavailable(QueueError),
    /// The queue does not suit the consumer, which ends. The text says what to change.
    Refused(QueueError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) | Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for PrepareError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable(error) | Self::Refused(error) => error.source(),
        }
    }
}

/// A message whose settlement the broker waits for.
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

    /// The message is still in hand: the broker is not to deliver it again. The future is dropped when the
    /// consumer goes on with the message, before it is settled at the latest.
    fn in_progress(&mut self) -> impl Future<Output = Result<(), QueueError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// The reason why a message is not handled, for those who examine it later.
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

    /// Headers for a message that is put aside for this reason: `idempotent-reason` with the code, and
    /// `idempotent-error` with the text, on one line and shortened.
    pub fn headers(&self) -> [(&'static str, String); 2] {
        let mut text: String =
            self.text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
        let end = (0..=text.len().min(LONGEST_TEXT)).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        [(REASON_HEADER, self.code.to_owned()), (ERROR_HEADER, text)]
    }
}

/// The header with the code of a [`Reason`].
pub const REASON_HEADER: &str = "idempotent-reason";
/// The header with the text of a [`Reason`].
pub const ERROR_HEADER: &str = "idempotent-error";

/// The longest text of a reason in a header, in bytes.
const LONGEST_TEXT: usize = 1_000;

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.text)
    }
}
