//! Topics of Kafka, as a member of a consumer group.
//!
//! ```no_run
//! use idempotent_queue::{Consumer, kafka};
//! use idempotent_runtime::{Error, Idempotency, idempotent};
//!
//! #[idempotent(key = "order", mode = "strong", expire = "14d")]
//! async fn on_order(order: u64) -> Result<u64, Error> {
//!     Ok(order)
//! }
//!
//! # async fn consume(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = rdkafka::ClientConfig::new();
//! config.set("bootstrap.servers", "localhost:9092").set("group.id", "billing");
//! Consumer::new(idem, "orders").run(kafka::deliveries(&config, ["orders"]), on_order).await?;
//! # Ok(()) }
//! ```
//!
//! # Settlement
//!
//! Kafka has no acknowledgement of one message: a group commits an offset per partition, before which all is done.
//!
//! | settlement | on Kafka |
//! | --- | --- |
//! | acknowledged | the offset of the oldest message that is not settled is committed, within a tenth of a second and when the partition is given up |
//! | again | a copy on `orders.retry`, which this source reads too and holds until it is due; or in memory, with [`retry_in_place`](KafkaDeliveries::retry_in_place) |
//! | dead letter, parked | a copy on `orders.dead`, `orders.parked` |
//! | still being handled | nothing: polling goes on |
//!
//! A copy has the key, the payload and all headers of the message, and those of this module. It is confirmed by all
//! replicas in sync before the message is settled. A process that dies in between, or before its commit, leaves the
//! message to the next owner of the partition: it is there twice, and handled once.
//!
//! # Settings
//!
//! The settings are the user's, and those of librdkafka. This module sets `enable.auto.commit` and
//! `enable.auto.offset.store` to `false`, `auto.offset.reset` to `earliest` if it is not set, and for what it sends
//! `enable.idempotence`, `acks=all` and, if it is not set, `message.timeout.ms=30000`. Settings that contradict this are
//! refused.

mod assignment;
mod committer;
mod config;
mod deliveries;
mod delivery;
mod offsets;
mod poller;
mod prepare;
mod publisher;
mod record;
mod shared;
mod topics;

pub use deliveries::KafkaDeliveries;
pub use delivery::KafkaDelivery;
pub use publisher::KafkaPublisher;
pub use record::{DELIVERIES_HEADER, DUE_HEADER, GROUP_HEADER, ORIGIN_HEADER};

use crate::QueueError;
use crate::producer::Destination;
use rdkafka::ClientConfig;

/// The messages of these topics, for a consumer. It connects when the consumer starts.
///
/// ```
/// use idempotent_queue::kafka;
///
/// let mut config = rdkafka::ClientConfig::new();
/// config.set("bootstrap.servers", "localhost:9092").set("group.id", "billing");
/// let orders = kafka::deliveries(&config, ["orders", "refunds"]).dead_letter_topic("billing.dead");
/// ```
///
/// The settings need `bootstrap.servers` and `group.id`. Each topic needs those of its copies: `orders.retry`,
/// `orders.dead` and `orders.parked`, or as they are set. A topic that does not exist is refused when the consumer
/// starts.
pub fn deliveries<T: Into<String>>(
    config: &ClientConfig,
    topics: impl IntoIterator<Item = T>,
) -> KafkaDeliveries {
    KafkaDeliveries::new(config, topics.into_iter().map(Into::into).collect())
}

/// A topic that a [`Producer`](crate::Producer) sends to, by its name.
///
/// ```no_run
/// use idempotent_queue::{Producer, kafka};
/// use idempotent_runtime::Idempotency;
///
/// # async fn send(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = rdkafka::ClientConfig::new();
/// config.set("bootstrap.servers", "localhost:9092");
/// let orders = Producer::new(idem, kafka::topic(&config, "orders")?);
/// let sent = orders.send("order-42", &42).await?;
/// println!("{}", sent.id());
/// # Ok(()) }
/// ```
///
/// # Errors
/// Those of [`publisher`].
pub fn topic(
    config: &ClientConfig,
    name: impl Into<String>,
) -> Result<Destination<KafkaPublisher>, QueueError> {
    Ok(Destination::new(publisher(config)?, name))
}

/// A publisher to topics of this cluster.
///
/// ```
/// use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt, kafka};
///
/// async fn order_created(publisher: &kafka::KafkaPublisher) -> Result<Receipt, PublishError> {
///     let message = Outgoing::new("orders", "order-17", r#"{"total": 4200}"#).with_key("customer-3");
///     publisher.publish(&message).await
/// }
///
/// let mut config = rdkafka::ClientConfig::new();
/// config.set("bootstrap.servers", "localhost:9092");
/// let publisher = kafka::publisher(&config)?;
/// # Ok::<(), idempotent_queue::QueueError>(())
/// ```
///
/// # Errors
/// The settings contradict `enable.idempotence` or `acks=all`, or librdkafka does not take them.
pub fn publisher(config: &ClientConfig) -> Result<KafkaPublisher, QueueError> {
    KafkaPublisher::new(config)
}
