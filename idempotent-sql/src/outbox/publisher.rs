//! The interface between a relay and a message broker.

use super::OutboxMessage;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// A message broker, as a [`Relay`](super::Relay) sees it.
///
/// ```
/// use idempotent_sql::outbox::{Confirmed, OutboxMessage, PublishError, Publisher};
///
/// struct Printer;
///
/// impl Publisher for Printer {
///     async fn publish(&self, message: &OutboxMessage) -> Result<Confirmed, PublishError> {
///         println!("{} to {}", message.id(), message.destination());
///         Ok(Confirmed)
///     }
/// }
/// ```
///
/// # Implementing
///
/// An implementation
///
/// * MUST NOT return [`Confirmed`] before the broker has said that it will keep the message; the
///   message is then deleted from the outbox;
/// * MUST send the [id](OutboxMessage::id) with the message, in the place where receivers look for
///   it (a header `idempotency-key`, or the broker's own message id), since a message can be
///   delivered more than once;
/// * MUST say [`PublishError::unavailable`] for a broker that cannot be reached: any other error
///   counts against the message;
/// * MUST be safe to drop before it is ready: the relay gives up after
///   [`publish_timeout`](super::Relay::publish_timeout), and sends the message again later;
/// * is called for many keys at the same time, and for one key with one message at a time. It MAY
///   wait for a moment to send messages of several calls together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not publish messages of an outbox",
    label = "not an `idempotent_sql::outbox::Publisher`",
    note = "implement `Publisher` for a type that has a connection to the message broker"
)]
pub trait Publisher: Send + Sync + 'static {
    /// Sends a message, and waits until the broker has confirmed it.
    fn publish(
        &self,
        message: &OutboxMessage,
    ) -> impl Future<Output = Result<Confirmed, PublishError>> + Send;
}

impl<P: Publisher> Publisher for Arc<P> {
    async fn publish(&self, message: &OutboxMessage) -> Result<Confirmed, PublishError> {
        (**self).publish(message).await
    }
}

/// The broker's word that it keeps a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed;

/// A message that was not confirmed.
#[derive(Debug)]
pub struct PublishError {
    kind: PublishErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// The kind of a [`PublishError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PublishErrorKind {
    /// The broker cannot be reached. The relay pauses, and no message is counted as failed.
    Unavailable,
    /// The broker did not take this message, and may take it later. The message is sent again, up to
    /// [`max_attempts`](super::Relay::max_attempts) times.
    Retryable,
    /// The broker will never take this message. It becomes a dead letter.
    Permanent,
}

impl PublishError {
    /// The broker cannot be reached.
    pub fn unavailable(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: PublishErrorKind::Unavailable, source: error.into() }
    }

    /// The broker did not take the message, and may take it later.
    pub fn retryable(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: PublishErrorKind::Retryable, source: error.into() }
    }

    /// The broker will never take the message.
    pub fn permanent(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind: PublishErrorKind::Permanent, source: error.into() }
    }

    /// The kind of the error.
    pub fn kind(&self) -> PublishErrorKind {
        self.kind
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

impl StdError for PublishError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}
