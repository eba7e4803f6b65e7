//! Consumers on brokers: every way to settle a message, on each of them.
//!
//! `scenarios` says what has to happen, for any broker; a module each says how a test gets a queue of its
//! own. The queue in memory is the reference.

#[path = "../bench.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests on the queue in memory")]
mod bench;
#[cfg(feature = "broker-tests")]
mod crashes;
#[cfg(feature = "broker-tests")]
mod kafka;
mod memory;
#[cfg(feature = "broker-tests")]
mod nats;
#[cfg(feature = "broker-tests")]
#[path = "../place.rs"]
mod place;
#[cfg(feature = "broker-tests")]
mod producers;
#[cfg(feature = "broker-tests")]
mod rabbitmq;
#[cfg(feature = "broker-tests")]
mod redis_streams;
mod scenarios;
