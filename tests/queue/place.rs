//! A queue of a broker, which processes are told of.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A queue of a broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Place {
    Kafka { config: BTreeMap<String, String>, topic: String },
    Nats { url: String, stream: String, subject: String, consumer: String },
    RabbitMq { url: String, queue: String },
    RedisStream { url: String, stream: String, group: String, claim_after_ms: u64 },
}
