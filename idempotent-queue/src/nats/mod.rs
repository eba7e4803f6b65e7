//! Streams of NATS JetStream.
//!
//! [`deliveries`] pulls messages of a durable consumer, [`publisher`] sends messages to subjects. Both are
//! on the user's own [`Context`], whose client connects again by itself.
//!
//! ```no_run
//! use idempotent_queue::{Consumer, nats};
//! use idempotent_runtime::{Error, Idempotency, idempotent};
//!
//! #[idempotent(mode = "strong", expire = "7d")]
//! async fn on_order(order: u64) -> Result<u64, Error> {
//!     Ok(order)
//! }
//!
//! # async fn consume(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
//! let client = async_nats::connect("localhost:4222").await?;
//! let jetstream = async_nats::jetstream::new(client);
//!
//! // Makes what is missing: the stream, its durable consumer, and a stream of dead letters.
//! let orders = nats::deliveries(&jetstream, "ORDERS", "shop").create(["orders.>"]);
//! Consumer::new(idem, "orders").max_attempts(5).run(orders, on_order).await?;
//! # Ok(()) }
//! ```
//!
//! # Settlement
//!
//! | settlement | sent to the server |
//! | --- | --- |
//! | done | an acknowledgement, which the server confirms |
//! | again | a negative one with the pause, which the server confirms |
//! | dead letter, parked | a copy to its subject; once a stream has it, the original is terminated, which the server confirms |
//! | in progress | a signal that starts `ack_wait` again |
//! | dropped | a negative acknowledgement, if there is a runtime to send it; otherwise `ack_wait` runs out |
//!
//! A copy has the headers of the message except those that begin with `Nats-`, which are orders to the
//! server. It has `idempotent-reason` and `idempotent-error`, and [`SUBJECT_HEADER`] and
//! [`ORIGIN_HEADER`] say where it comes from.

mod aside;
mod deliveries;
mod delivery;
mod prepare;
mod publisher;
mod pull;
mod suitable;

pub use aside::{ORIGIN_HEADER, SUBJECT_HEADER};
pub use deliveries::NatsDeliveries;
pub use delivery::NatsDelivery;
pub use publisher::NatsPublisher;

use crate::producer::Destination;
use async_nats::jetstream::Context;

/// The deliveries of a durable pull consumer of a stream.
///
/// Nothing is sent to the server before a [`Consumer`](crate::Consumer) runs on them.
pub fn deliveries(
    jetstream: &Context,
    stream: impl Into<String>,
    consumer: impl Into<String>,
) -> NatsDeliveries {
    NatsDeliveries::new(jetstream.clone(), stream.into(), consumer.into())
}

/// A subject that a [`Producer`](crate::Producer) sends to.
///
/// ```no_run
/// use idempotent_queue::{Producer, nats};
/// use idempotent_runtime::Idempotency;
///
/// # async fn send(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
/// let jetstream = async_nats::jetstream::new(async_nats::connect("localhost:4222").await?);
/// let orders = Producer::new(idem, nats::subject(&jetstream, "orders.created"));
/// let sent = orders.send("order-42", &42).await?;
/// println!("{}", sent.id());
/// # Ok(()) }
/// ```
pub fn subject(jetstream: &Context, name: impl Into<String>) -> Destination<NatsPublisher> {
    Destination::new(publisher(jetstream), name)
}

/// A publisher to subjects of streams.
pub fn publisher(jetstream: &Context) -> NatsPublisher {
    NatsPublisher::new(jetstream.clone())
}
