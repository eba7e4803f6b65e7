//! The guide to messages: consumers, producers, schedules, and a page for each broker.
//!
//! | question | page |
//! | --- | --- |
//! | how deliveries are settled, and how to send and schedule once | [queues] |
//! | what is particular to a broker | [queues_rabbitmq], [queues_nats], [queues_redis_streams], [queues_kafka] |
//!
//! Keys, modes and guarantees are topics of the [guide of `idempotent-runtime`](idempotent_runtime::guide).

#![cfg_attr(not(doc), allow(missing_docs))] // The pages are read for documentation only.

// Link definitions stand before the page: the first definition of a label counts.

// Pages.

/// [queues#attempts]: crate::guide::queues#attempts
#[cfg_attr(all(doc, any(not(doctest), feature = "kafka")), doc = include_str!("../guide/queues-kafka.md"))]
pub mod queues_kafka {}

/// [queues]: crate::guide::queues
#[cfg_attr(all(doc, any(not(doctest), feature = "nats")), doc = include_str!("../guide/queues-nats.md"))]
pub mod queues_nats {}

/// [queues]: crate::guide::queues
#[cfg_attr(all(doc, any(not(doctest), feature = "rabbitmq")), doc = include_str!("../guide/queues-rabbitmq.md"))]
pub mod queues_rabbitmq {}

/// [queues]: crate::guide::queues
#[cfg_attr(all(doc, any(not(doctest), feature = "redis-streams")), doc = include_str!("../guide/queues-redis-streams.md"))]
pub mod queues_redis_streams {}

/// [observability]: idempotent_runtime::guide::observability
/// [outbox]: ../../../idempotent_sql/guide/outbox/index.html
/// [queues-kafka]: crate::guide::queues_kafka
/// [queues-nats]: crate::guide::queues_nats
/// [queues-rabbitmq]: crate::guide::queues_rabbitmq
/// [queues-redis-streams]: crate::guide::queues_redis_streams
#[cfg_attr(doc, doc = include_str!("../guide/queues.md"))]
pub mod queues {}
