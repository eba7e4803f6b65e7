//! Message consumers that settle according to the outcome of the call.
//!
//! A broker delivers a message at least once. The handler of a [`Consumer`] is a function with
//! `#[idempotent]`, and the consumer settles each delivery by the answer of the engine: a message that was
//! handled before is acknowledged, one that another process is handling is redelivered later, one that
//! cannot succeed becomes a dead letter. The record is written before the message is acknowledged, so a
//! lost acknowledgement leads to a replay.
//!
//! ```
//! use idempotent_queue::memory::MemoryQueue;
//! use idempotent_queue::{Consumer, Message};
//! use idempotent_runtime::{Error, Idempotency, idempotent};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! // Without a `key`, the message's own `idempotency-key` is the key.
//! #[idempotent(mode = "strong", expire = "7d")]
//! async fn on_order(order: Order) -> Result<u64, Error> {
//!     Ok(order.id)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = MemoryQueue::new();
//! for _ in 0..2 {
//!     queue.send(Message::new(r#"{"id":42}"#).with_header("idempotency-key", "order-42"));
//! }
//! queue.close();
//!
//! let idem = Idempotency::in_memory()?;
//! Consumer::new(&idem, "orders").max_attempts(5).run(queue.deliveries(), on_order).await?;
//! assert_eq!(queue.acknowledged().len(), 2, "the second one is a replay");
//! # Ok(()) }
//! ```
//!
//! # Settlement
//!
//! The engine reports what became of the call, so that the function may have any error type.
//!
//! | outcome | settlement |
//! | --- | --- |
//! | `Ok`; `Duplicate` and `ResultUnavailable`: handled before | [`Ack`](Settlement::Ack) |
//! | an error of the function that is not final, a panic, `Reentrant` | [`Again`](Settlement::Again), after a pause that grows with the attempts |
//! | `InProgress`, `Superseded`, `Unrecorded` | [`Again`](Settlement::Again), after the time that the error names |
//! | an error that is final, `FailedBefore`, `Mismatch`, `MissingKey`, `InvalidKey`; a payload that cannot be decoded; too many deliveries | [`DeadLetter`](Settlement::DeadLetter) |
//! | `Indeterminate`, `Undecodable` | [`Park`](Settlement::Park): a person decides |
//! | `StoreUnavailable`, `StoreFull`, `NotReplicated`, `ShuttingDown` | [`Pause`](Settlement::Pause): it is held unsettled, and nothing is fetched meanwhile |
//! | `Misconfigured`; mode `window`, which does not tell whether the work was done | [`Stop`](Settlement::Stop) |
//!
//! A function that is not idempotent is settled by its result alone, and a warning says so once.
//!
//! # Consumers
//!
//! [`Consumer`] has the settings: concurrency and prefetch, attempts, the order of messages that have one
//! key, [decoders](decode), spans, shutdown. [`ConsumerHealth`] tells its state. With the feature `metrics`
//! there are [counters, a histogram and a gauge](observe::names).
//!
//! # Brokers
//!
//! [`Deliveries`] and [`Delivery`] are what a broker's adapter implements. [`memory`] is a queue without
//! a broker, for tests of consumers and for work inside one process. [`Publisher`] is the other direction.
//!
//! # Producers and schedules
//!
//! A [`Producer`] sends a message once per business id. A [`Schedule`] runs a job once per period, whatever
//! the number of processes.
//!
//! The [guide] has the rules, and a page for each broker.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `rabbitmq` | queues of RabbitMQ |
//! | `nats` | streams of NATS JetStream |
//! | `redis-streams` | streams of Redis and Valkey |
//! | `redis-streams-tls` | TLS to them, with rustls |
//! | `kafka` | topics of Kafka; builds librdkafka, which needs a C compiler |
//! | `msgpack` | payloads in MessagePack |
//! | `metrics` | counters, gauges and histograms, through the `metrics` facade |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod consumer;
pub mod decode;
pub mod delivery;
pub mod encode;
mod error;
pub mod format;
pub mod guide;
mod health;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
mod message;
#[cfg(feature = "nats")]
pub mod nats;
pub mod observe;
pub mod producer;
pub mod publisher;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis-streams")]
pub mod redis_streams;
pub mod schedule;
pub mod settlement;
mod unpanicked;

pub use consumer::Consumer;
pub use decode::Decode;
pub use delivery::{Deliveries, Delivery, PrepareError, Prepared, Reason, Terms};
pub use error::{ConsumerError, QueueError};
pub use health::{ConsumerHealth, ConsumerState, LastError, Settled};
pub use message::Message;
pub use producer::Producer;
pub use publisher::{Outgoing, PublishError, PublishErrorKind, Publisher, Receipt};
pub use schedule::Schedule;
pub use settlement::Settlement;

/// The header with the key of a message.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// The header with the type of an event.
pub(crate) const KIND_HEADER: &str = "type";

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
