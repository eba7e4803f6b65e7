//! Formats of payloads, which both [decoders](crate::decode) and [encoders](crate::encode) are made for.

/// Payloads in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

/// Payloads in MessagePack. Field names are written, so that fields can be added and reordered.
#[cfg(feature = "msgpack")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessagePack;

/// Payloads as they are. A consumer's handler takes the whole [`Message`](crate::Message), with its
/// headers; a producer sends bytes or text.
///
/// ```
/// use idempotent_queue::format::Raw;
/// use idempotent_queue::memory::MemoryQueue;
/// use idempotent_queue::{Consumer, Message};
/// use idempotent_runtime::{Error, Idempotency, idempotent};
///
/// #[idempotent(mode = "strong", expire = "7d")]
/// async fn on_image(image: Message) -> Result<usize, Error> {
///     Ok(image.payload().len())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (idem, queue) = (Idempotency::in_memory()?, MemoryQueue::new());
/// queue.send(Message::new([0x89, 0x50]).with_header("idempotency-key", "image-1"));
/// # queue.close();
/// Consumer::new(&idem, "images").decoder(Raw).run(queue.deliveries(), on_image).await?;
/// assert_eq!(queue.acknowledged().len(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw;
