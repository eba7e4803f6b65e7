//! Producers: a message is sent once per business id.
//!
//! The id of a message is a function of its destination and its business id, and is there before anything
//! is sent. The record says that the broker has confirmed the message; a repeat finds it, and sends
//! nothing. A process that dies between the confirmation and the record leaves no record, so the repeat
//! sends another copy, with the same id: receivers, and brokers that look at ids, take it for the same.

mod error;
mod message_id;
#[cfg(feature = "redis-streams")]
mod redis_stream;
mod sent;
mod target;

pub use error::{Fate, SendError, SendErrorKind};
#[cfg(feature = "redis-streams")]
pub use redis_stream::RedisStream;
pub use sent::{Sent, SentBy};
pub use target::{Destination, Sending, Target};

use crate::Outgoing;
use crate::encode::Encode;
use crate::format::Json;
use crate::settlement::Pauses;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::key::Encoded;
use idempotent_runtime::{Abandon, Fingerprint, Idempotency, KeyPart, Mode, OnUnrecorded};
use message_id::message_id;
use std::fmt;
use std::time::Duration;
use target::Tries;

/// The time for which a message that was sent is remembered: a week.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A sender of messages to one destination.
///
/// ```
/// use idempotent_queue::Producer;
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_queue::producer::{Destination, SentBy};
/// use idempotent_runtime::Idempotency;
///
/// #[derive(serde::Serialize)]
/// struct Order {
///     item: &'static str,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (idem, queue) = (Idempotency::in_memory()?, MemoryQueue::new());
/// let orders = Producer::new(&idem, Destination::new(queue.publisher(), "orders"));
///
/// let first = orders.send(42, &Order { item: "lamp" }).await?;
/// let again = orders.send(42, &Order { item: "lamp" }).await?;
/// assert_eq!(first.id(), again.id());
/// assert_eq!(again.sent_by(), SentBy::EarlierCall);
/// assert_eq!(queue.pending(), 1);
/// # Ok(()) }
/// ```
///
/// # Business ids
/// The business id names the message within its destination, for every tenant and caller: the ambient
/// scope of a request is no part of it. Send under `(tenant, id)` if ids are unique per tenant only.
/// The same business id with another payload is refused as `Mismatch`.
///
/// # Records
/// The operation is named `send:` and the destination. Two brokers with one name of a destination need
/// [names](Self::name) that differ.
///
/// # Unknown outcomes
/// A message that the broker has not confirmed is sent again with the same id, a few times. Then the call
/// fails with [`Fate::Unknown`], and the business id is free for the same payload: a repeat is safe.
pub struct Producer<T, C = Json> {
    idem: Idempotency,
    target: T,
    codec: C,
    name: String,
    retention: Duration,
    wait: Duration,
    tries: Tries,
}

impl<T: Target> Producer<T> {
    /// A producer of JSON messages to this target, with its records in this instance.
    pub fn new(idem: &Idempotency, target: T) -> Self {
        let second = Duration::from_secs(1);
        let name = format!("send:{}", target.destination());
        let pauses = Pauses { first: second / 10, longest: 2 * second };
        let tries = Tries { most: 3, pauses, confirmation: 10 * second };
        let (idem, codec) = (idem.clone(), Json);
        Self { idem, target, codec, name, retention: RETENTION, wait: 30 * second, tries }
    }
}

impl<T: Target, C> Producer<T, C> {
    /// Sets the format of payloads. Default: [`Json`].
    #[must_use]
    pub fn encode_with<D>(self, codec: D) -> Producer<T, D> {
        let Self { idem, target, name, retention, wait, tries, .. } = self;
        Producer { idem, target, codec, name, retention, wait, tries }
    }

    /// Sets the name of the operation. Default: `send:` and the destination.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the time for which a message that was sent is remembered. A repeat after that sends it again,
    /// with the same id. Default: 7 days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the number of times that a call sends a message which is not confirmed, at least one.
    /// Default: 3.
    #[must_use]
    pub fn tries(mut self, most: u32) -> Self {
        self.tries.most = most.max(1);
        self
    }

    /// Sets the pause after the first try, which doubles with each, and the longest. They are shortened
    /// at random, by up to a half. Default: 100 milliseconds, and 2 seconds.
    #[must_use]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.min(LONGEST_PAUSE);
        self.tries.pauses = Pauses { first, longest: longest.clamp(first, LONGEST_PAUSE) };
        self
    }

    /// Sets the time for which a call waits for a confirmation before it tries again. Default: 10
    /// seconds.
    #[must_use]
    pub fn confirmation_timeout(mut self, within: Duration) -> Self {
        self.tries.confirmation = within;
        self
    }

    /// Sets the time for which a repeat waits for a call that is sending the message. Default: 30
    /// seconds.
    #[must_use]
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest;
        self
    }

    /// The id of the message of a business id. It is the same in every process and version.
    pub fn id_of(&self, business_id: impl KeyPart) -> String {
        message_id(self.target.destination(), &Encoded::of(&business_id))
    }

    /// Sends a message, unless one of this business id was sent before.
    ///
    /// A caller that drops the future leaves it open whether the message is sent; a repeat is safe.
    ///
    /// # Errors
    /// The message is not known to be with the broker; [`SendError::fate`] tells whether it may be.
    pub async fn send<M: ?Sized>(
        &self,
        business_id: impl KeyPart,
        payload: &M,
    ) -> Result<Sent, SendError>
    where
        C: Encode<M>,
    {
        self.message(business_id).send(payload).await
    }

    /// A message with headers, a key or a type, which is sent by [`Draft::send`].
    ///
    /// ```
    /// # use idempotent_queue::memory::MemoryQueue;
    /// # use idempotent_queue::producer::{Destination, Producer};
    /// # use idempotent_runtime::Idempotency;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (idem, queue) = (Idempotency::in_memory()?, MemoryQueue::new());
    /// # let orders = Producer::new(&idem, Destination::new(queue.publisher(), "orders"));
    /// let order = orders.message(42).kind("OrderCreated").key("customer-7").header("tenant", "acme");
    /// order.send("lamp").await?;
    /// # Ok(()) }
    /// ```
    pub fn message(&self, business_id: impl KeyPart) -> Draft<'_, T, C> {
        let business_id = Encoded::of(&business_id);
        let (headers, key, kind) = (Vec::new(), None, None);
        Draft { producer: self, business_id, headers, key, kind }
    }
}

impl<T: Target, C> fmt::Debug for Producer<T, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("destination", &self.target.destination())
            .field("name", &self.name)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// A message of a [`Producer`] that is not sent yet.
#[must_use = "nothing is sent before `send` is called"]
pub struct Draft<'a, T, C> {
    producer: &'a Producer<T, C>,
    business_id: Encoded,
    headers: Vec<(String, String)>,
    key: Option<String>,
    kind: Option<String>,
}

impl<T: Target, C> Draft<'_, T, C> {
    /// Adds a header. Headers may differ from one repeat to the next; those of the first are sent.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the key by which the broker orders messages, or chooses a partition.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the type of the event, such as `OrderCreated`.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Sends the message, unless one of this business id was sent before.
    ///
    /// # Errors
    /// The message is not known to be with the broker; [`SendError::fate`] tells whether it may be.
    pub async fn send<M: ?Sized>(self, payload: &M) -> Result<Sent, SendError>
    where
        C: Encode<M>,
    {
        let destination = self.producer.target.destination();
        let encoded = self.producer.codec.encode(payload);
        let payload = encoded.map_err(|error| SendError::payload(error).to(destination))?;
        self.send_encoded(payload).await
    }

    async fn send_encoded(self, payload: Vec<u8>) -> Result<Sent, SendError> {
        let Self { producer, business_id, headers, key, kind } = self;
        let destination = producer.target.destination();
        let fingerprint = Fingerprint::of_bytes(&payload);
        let id = message_id(destination, &business_id);
        let mut message = Outgoing::new(destination, id, payload);
        for (name, value) in headers {
            message = message.with_header(name, value);
        }
        if let Some(key) = key {
            message = message.with_key(key);
        }
        if let Some(kind) = kind {
            message = message.with_kind(kind);
        }
        let operation = producer
            .idem
            .operation(producer.name.clone())
            .encoded_key(business_id)
            .fingerprint(fingerprint)
            // An unconfirmed message may be with the broker: no other one gets its id.
            .bind_payload_after_failure(true)
            .mode(Mode::Strong)
            .wait(producer.wait)
            .expire(producer.retention)
            .abandon(Abandon::Retry)
            .on_unrecorded(OnUnrecorded::Value);
        let sending = Sending { operation, message: &message, tries: producer.tries };
        // The id does not depend on the request that is being handled, and so the record must not.
        let sent = ambient::scope(Ambient::new(), producer.target.send(sending)).await;
        sent.map_err(|error| error.to(destination))
    }
}

impl<T: Target, C> fmt::Debug for Draft<'_, T, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Draft")
            .field("destination", &self.producer.target.destination())
            .field("headers", &self.headers.len())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
