//! The interface between those that send messages and a broker.

use crate::Message;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// A broker, as a sender of messages sees it.
///
/// A `Producer` sends through it, and so does the outbox of `idempotent-sql`.
///
/// ```
/// use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt};
///
/// struct Printer;
///
/// impl Publisher for Printer {
///     async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
///         println!("{} to {}", message.id(), message.destination());
///         Ok(Receipt::new())
///     }
/// }
/// ```
///
/// # Implementing
///
/// An implementation
///
/// * MUST NOT return a [`Receipt`] before the broker has said that it will keep the message, nor for a
///   message that no queue takes;
/// * MUST send the [id](Outgoing::id) with the message, as the header `idempotency-key` and as the
///   broker's own message id where it has one: a message can be sent more than once;
/// * MUST say [`PublishError::unavailable`] for a broker that cannot be reached, and for a confirmation
///   that does not come: any other error counts against the message;
/// * MUST be safe to drop before it is ready: the message is sent again later;
/// * MUST NOT let two messages of one [key](Outgoing::key) change places, if the second is published after
///   the first was confirmed;
/// * is called for many messages at the same time. It MAY wait for a moment to send several together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not publish messages",
    label = "not an `idempotent_queue::Publisher`",
    note = "adapters of brokers have one, such as `rabbitmq::RabbitMqPublisher`; implement the trait for a type that has a connection to another broker"
)]
pub trait Publisher: Send + Sync + 'static {
    /// Sends a message, and waits until the broker has confirmed it.
    fn publish(
        &self,
        message: &Outgoing,
    ) -> impl Future<Output = Result<Receipt, PublishError>> + Send;
}

impl<P: Publisher> Publisher for Arc<P> {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        (**self).publish(message).await
    }
}

/// A message that is sent. `Debug` shows neither payload nor key.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    id: String,
    destination: String,
    key: Option<String>,
    kind: String,
    message: Message,
}

impl Outgoing {
    /// A message to a destination: a queue, a subject, a stream or a topic, as its publisher understands
    /// it. Every copy of the message has this id.
    pub fn new(
        destination: impl Into<String>,
        id: impl Into<String>,
        payload: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            id: id.into(),
            destination: destination.into(),
            key: None,
            kind: String::new(),
            message: Message::new(payload),
        }
    }

    /// Sets the key by which the broker orders messages, or chooses a partition.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the type of the event, such as `OrderCreated`.
    #[must_use]
    pub fn with_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.message = self.message.with_header(name, value);
        self
    }

    /// The id, by which the receiver tells a repeated delivery.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The destination, as the sender gave it.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// The key that the order is kept by. Messages without one have no order.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The type of the event; may be empty.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.message.payload()
    }

    /// The headers that the sender has set, in their order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.message.headers()
    }

    /// The headers that a publisher sends: those of the sender, `idempotency-key` with the id, and
    /// `type` with the type of the event if there is one. A header of the sender's stands in place of
    /// one of these.
    pub fn wire_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = [(crate::KEY_HEADER, &*self.id), (crate::KIND_HEADER, &*self.kind)];
        let own = own
            .into_iter()
            .filter(|(name, value)| !value.is_empty() && self.message.header(name).is_none());
        own.chain(self.headers())
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Outgoing")
            .field("id", &self.id)
            .field("destination", &self.destination)
            .field("kind", &self.kind)
            .field("payload", &format_args!("{} bytes", self.payload().len()))
            .finish_non_exhaustive()
    }
}

/// The broker's word that it keeps a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    position: Option<String>,
}

impl Receipt {
    /// Of a broker that does not say where the message is.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the place of the message at the broker: a sequence number, the id of an entry, an offset.
    pub fn at(position: impl Into<String>) -> Self {
        Self { position: Some(position.into()) }
    }

    /// The place of the message at the broker, if that tells.
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }
}

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
    /// The broker cannot be reached, or has not confirmed: it may have the message, or not. It is sent
    /// again with the same id, and not counted as failed.
    Unavailable,
    /// The broker did not take this message, and may take it later.
    Retryable,
    /// The broker will never take this message.
    Permanent,
}

impl PublishError {
    /// The broker cannot be reached, or has not confirmed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_and_the_type_are_headers_unless_the_sender_has_set_them() {
        let message =
            Outgoing::new("orders", "17", "{}").with_kind("Created").with_header("a", "b");
        let sent: Vec<_> = message.wire_headers().collect();
        assert_eq!(sent, [("idempotency-key", "17"), ("type", "Created"), ("a", "b")]);
        let own = message.with_header("Idempotency-Key", "other");
        assert_eq!(own.wire_headers().filter(|(name, _)| name.len() == 15).count(), 1);
    }

    #[test]
    fn debug_shows_no_payload_and_no_key() {
        let text = format!("{:?}", Outgoing::new("orders", "17", "secret").with_key("secret"));
        assert!(!text.contains("secret"), "{text}");
    }
}
