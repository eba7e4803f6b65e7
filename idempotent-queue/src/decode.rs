//! Decoders: from the bytes of a message to the argument of its handler.

use crate::Message;
#[cfg(feature = "msgpack")]
use crate::format::MessagePack;
use crate::format::{Json, Raw};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::fmt;

/// A decoder of messages, for [`Consumer::decoder`](crate::Consumer::decoder).
///
/// [`Json`] is the default. A closure is one as well:
///
/// ```
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_queue::{Consumer, Message};
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
/// queue.send(Message::new("order 42"));
/// # queue.close();
/// let number = |message: &Message| {
///     let text = String::from_utf8_lossy(message.payload());
///     text.trim_start_matches("order ").parse::<u64>()
/// };
/// Consumer::new(&idem, "orders").decoder(number).run(queue.deliveries(), on_order).await?;
/// assert_eq!(queue.acknowledged().len(), 1);
/// # Ok(()) }
/// ```
///
/// A message that cannot be decoded becomes a dead letter, and so does one at which the decoder panics.
///
/// # Implementing
///
/// An implementation MUST give the same value, or the same error, for each delivery of a message.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a decoder of messages for this handler",
    label = "not an `idempotent_queue::Decode<{M}>`",
    note = "decoders are `Json`, `MessagePack`, `Raw`, and closures such as `|message: &Message| parse(message.payload())` that return a `Result`"
)]
pub trait Decode<M>: Send + Sync + 'static {
    /// The error of a message that cannot be decoded. Its text goes along with the dead letter.
    type Error: fmt::Display;

    /// Decodes a message.
    ///
    /// # Errors
    /// The message is not what the handler takes.
    fn decode(&self, message: &Message) -> Result<M, Self::Error>;
}

impl<M: DeserializeOwned> Decode<M> for Json {
    type Error = serde_json::Error;

    fn decode(&self, message: &Message) -> Result<M, serde_json::Error> {
        serde_json::from_slice(message.payload())
    }
}

#[cfg(feature = "msgpack")]
impl<M: DeserializeOwned> Decode<M> for MessagePack {
    type Error = rmp_serde::decode::Error;

    fn decode(&self, message: &Message) -> Result<M, rmp_serde::decode::Error> {
        rmp_serde::from_slice(message.payload())
    }
}

impl Decode<Message> for Raw {
    type Error = Infallible;

    fn decode(&self, message: &Message) -> Result<Message, Infallible> {
        Ok(message.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<F, M, E> Decode<M> for F
where
    F: Fn(&Message) -> Result<M, E> + Send + Sync + 'static,
    E: fmt::Display,
{
    type Error = E;

    fn decode(&self, message: &Message) -> Result<M, E> {
        self(message)
    }
}
