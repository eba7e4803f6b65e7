//! Streams of Redis and Valkey, with consumer groups.
//!
//! [`StreamDeliveries`] is a consumer in a group, for a [`Consumer`](crate::Consumer), and [`StreamPublisher`] adds
//! entries; a [`RedisStream`] is the target of a [`Producer`](crate::Producer) whose record is written in the same step. [The guide](crate::guide::queues_redis_streams) says which
//! settings go together.
//!
//! # Entries
//! The payload of a message is the field `payload` of its entry, and each header is a field `header:` with its
//! name: the key of a message is in `header:idempotency-key`. For entries that others write,
//! [`payload_field`](StreamDeliveries::payload_field) names the field of the payload, and every other field is a
//! header. An entry without the field has an empty payload, which cannot be decoded.
//!
//! # Invariants
//! * An entry stays pending in its group until it is acknowledged, and it is acknowledged after it was handled,
//!   or in one step with its copy that is put aside.
//! * A consumer changes an entry only while it is its own: scripts compare the consumer and the number of the
//!   delivery, since each claim counts as one more.
//!
//! The files, in the order of a delivery: `source` reads and claims through `group`, which sends commands and
//! scripts by a `link` to its `servers`; `entry` is what comes, `inbox` keeps it, `delivery` settles it, and `acks`
//! sends acknowledgements together. `settings`
//! and `check` look at what was set and at the server, before the first delivery.

mod acks;
mod check;
mod deliveries;
mod delivery;
mod entry;
mod error;
mod group;
mod inbox;
mod link;
mod publisher;
mod servers;
mod settings;
mod source;

pub use crate::producer::RedisStream;
pub use deliveries::StreamDeliveries;
pub use delivery::StreamDelivery;
pub use publisher::StreamPublisher;
