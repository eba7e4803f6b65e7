//! One message in the hands of a handler, and the ways to settle it.

use super::assignment::Revoked;
use super::publisher::Sender;
use super::record::Record;
use super::shared::Shared;
use super::topics::Topics;
use crate::{Delivery, Message, PublishError, QueueError, Reason};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The time after which a delivery that was dropped comes again.
const AFTER_DROP: Duration = Duration::from_millis(100);

/// The things that all deliveries of a source use.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) shared: Arc<Shared>,
    pub(super) sender: Sender,
    pub(super) topics: Arc<Topics>,
    pub(super) group: Arc<str>,
}

/// A delivery of [`KafkaDeliveries`](super::KafkaDeliveries).
///
/// Dropped, it is delivered again from memory a moment later, or by the broker if the source is gone too.
///
/// # Errors
/// Once the partition of the message is another consumer's, every settlement fails: that consumer gets the message
/// again.
#[derive(Debug)]
pub struct KafkaDelivery {
    desk: Arc<Desk>,
    /// Taken when the delivery ends.
    record: Option<Record>,
}

impl KafkaDelivery {
    pub(super) fn new(desk: Arc<Desk>, record: Record) -> Self {
        Self { desk, record: Some(record) }
    }

    fn record(&self) -> &Record {
        match &self.record {
            Some(record) => record,
            None => unreachable!("it is taken when the delivery is settled, by value"),
        }
    }

    /// Settles the message, of which nothing is left to do.
    fn done(mut self) -> Result<(), QueueError> {
        match self.record.take() {
            Some(record) => self.desk.shared.settle(&record.claim).map_err(revoked),
            None => Ok(()),
        }
    }

    /// Puts a copy on another topic, and settles the message once that is confirmed.
    async fn put_aside(self, topic: String, reason: &Reason) -> Result<(), QueueError> {
        let record = self.record();
        // Its next owner puts it aside too.
        self.desk.shared.owns(&record.claim).map_err(revoked)?;
        let headers = record.headers_aside(&self.desk.group, reason);
        let sender = &self.desk.sender;
        let sent = sender.send(&topic, record.key.as_deref(), record.payload(), headers).await;
        sent.map_err(QueueError::new)?;
        self.done()
    }

    /// Sends a copy that is delivered when it is due.
    async fn send_copy(&self, topic: &str, after: Duration) -> Result<(), PublishError> {
        let (record, now) = (self.record(), SystemTime::now());
        let due = now.checked_add(after).unwrap_or(now);
        let headers = record.headers_of_retry(&self.desk.group, due);
        let sender = &self.desk.sender;
        sender.send(topic, record.key.as_deref(), record.payload(), headers).await?;
        Ok(())
    }

    /// Delivers the message again from memory.
    fn again_from_memory(&mut self, after: Duration) -> Result<(), QueueError> {
        match self.record.take() {
            Some(record) => self.desk.shared.deliver_again(record, after).map_err(revoked),
            None => Ok(()),
        }
    }
}

impl Delivery for KafkaDelivery {
    fn message(&self) -> &Message {
        &self.record().message
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.done()
    }

    async fn again(mut self, after: Duration) -> Result<(), QueueError> {
        let record = self.record();
        let Some(topic) = self.desk.topics.retry(&record.home) else {
            return self.again_from_memory(after);
        };
        self.desk.shared.owns(&record.claim).map_err(revoked)?;
        match self.send_copy(&topic, after).await {
            Ok(()) => self.done(),
            // The pause is kept, also without the topic.
            Err(error) => {
                self.again_from_memory(after)?;
                Err(QueueError::new(error))
            }
        }
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        let topic = self.desk.topics.dead_letters(&self.record().home);
        self.put_aside(topic, reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        let topic = self.desk.topics.parked(&self.record().home);
        self.put_aside(topic, reason).await
    }
}

impl Drop for KafkaDelivery {
    fn drop(&mut self) {
        // Of a partition that is another consumer's, the message is that one's.
        let _ = self.again_from_memory(AFTER_DROP);
    }
}

fn revoked(Revoked: Revoked) -> QueueError {
    QueueError::new(
        "the partition is no longer this consumer's, and its owner gets the message again",
    )
}
