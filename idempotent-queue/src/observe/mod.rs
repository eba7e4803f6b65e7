//! Observability of consumers: metrics, with the feature `metrics`, and the span of a message.

pub mod names;

use crate::Message;
use std::sync::Arc;
use std::time::Instant;
use tracing::Span;

/// The span in which a message is handled.
pub(crate) fn span(consumer: &str, message: &Message) -> Span {
    tracing::info_span!(
        target: "idempotent",
        "consume",
        consumer,
        message_id = message.id(),
        deliveries = message.deliveries(),
        traceparent = message.header("traceparent"),
    )
}

/// Counts a settlement that the broker took, or did not.
pub(crate) fn settles(consumer: &Arc<str>, settlement: &'static str, is_taken: bool) {
    #[cfg(feature = "metrics")]
    {
        let name = if is_taken { names::SETTLED } else { names::NOT_SETTLED };
        let consumer = Arc::clone(consumer);
        metrics::counter!(name, names::CONSUMER => consumer, names::SETTLEMENT => settlement)
            .increment(1);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (consumer, settlement, is_taken);
}

/// Measures a handler that has ended.
pub(crate) fn handled(consumer: &Arc<str>, since: Instant) {
    #[cfg(feature = "metrics")]
    metrics::histogram!(names::HANDLING_SECONDS, names::CONSUMER => Arc::clone(consumer))
        .record(since.elapsed());
    #[cfg(not(feature = "metrics"))]
    let _ = (consumer, since);
}

/// A delivery that is not settled, in the gauge until it is dropped.
#[derive(Debug)]
pub(crate) struct InHand {
    #[cfg(feature = "metrics")]
    consumer: Arc<str>,
}

impl InHand {
    pub(crate) fn new(consumer: &Arc<str>) -> Self {
        #[cfg(feature = "metrics")]
        metrics::gauge!(names::IN_HAND, names::CONSUMER => Arc::clone(consumer)).increment(1.0);
        #[cfg(not(feature = "metrics"))]
        let _ = consumer;
        Self {
            #[cfg(feature = "metrics")]
            consumer: Arc::clone(consumer),
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for InHand {
    fn drop(&mut self) {
        metrics::gauge!(names::IN_HAND, names::CONSUMER => Arc::clone(&self.consumer))
            .decrement(1.0);
    }
}
