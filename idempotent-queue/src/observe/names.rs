//! Names of all metrics and labels of consumers.

/// Counter: deliveries that were settled, by [`CONSUMER`] and [`SETTLEMENT`].
pub const SETTLED: &str = "idempotent_settled_total";
/// Counter: settlements that the broker did not take, by [`CONSUMER`] and [`SETTLEMENT`].
pub const NOT_SETTLED: &str = "idempotent_not_settled_total";
/// Histogram, seconds: how long a handler ran, its decoder included, by [`CONSUMER`].
pub const HANDLING_SECONDS: &str = "idempotent_handling_seconds";
/// Gauge: deliveries that are not settled, by [`CONSUMER`].
pub const IN_HAND: &str = "idempotent_messages_in_hand";
/// Label: the name of the consumer.
pub const CONSUMER: &str = "consumer";
/// Label: the way in which a delivery was settled: `ack`, `again`, `dead_letter` or `park`.
pub const SETTLEMENT: &str = "settlement";
