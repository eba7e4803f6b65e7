//! A delivery, and the ways to settle it.

use super::deliveries::Session;
use super::properties;
use super::publisher::unroutable;
use super::senders::{Letter, Sent};
use super::topology::Wait;
use crate::{Delivery, Message, QueueError, Reason};
use lapin::options::BasicAckOptions;
use lapin::types::ShortString;
use lapin::{Acker, BasicProperties};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A delivery of a [`RabbitMqDeliveries`](super::RabbitMqDeliveries). Dropped, it is given back.
pub struct RabbitMqDelivery {
    message: Message,
    properties: BasicProperties,
    acker: Acker,
    session: Arc<Session>,
}

impl RabbitMqDelivery {
    pub(super) fn new(session: Arc<Session>, delivery: lapin::message::Delivery) -> Self {
        let lapin::message::Delivery { redelivered, properties, data, acker, .. } = delivery;
        let message = properties::message(data, &properties, redelivered);
        Self { message, properties, acker, session }
    }

    /// Acknowledges the message. If this does not reach the broker, it delivers the message again.
    async fn acknowledge(self) -> Result<(), QueueError> {
        let acknowledged = self.acker.ack(BasicAckOptions::default());
        let target = self.session.rabbit.consuming().target();
        match target.in_time(acknowledged).await {
            Ok(true) => Ok(()),
            // The client sends nothing on a channel that has failed.
            Ok(false) => Err(QueueError::new(
                "the connection that the message came on has broken: the broker delivers it again",
            )),
            Err(failure) => Err(QueueError::new(failure)),
        }
    }

    /// Sends a copy to a queue, and waits until the broker has it.
    async fn send_copy(
        &self,
        queue: &ShortString,
        properties: BasicProperties,
    ) -> Result<Sent, QueueError> {
        let (exchange, payload) = (&ShortString::default(), self.message.payload());
        let letter = Letter { exchange, routing_key: queue, properties, payload };
        self.session.rabbit.senders().send(letter).await.map_err(QueueError::new)
    }

    async fn put_aside(self, queue: &ShortString, reason: &Reason) -> Result<(), QueueError> {
        let copy = properties::put_aside(&self.properties, reason);
        if let Sent::Unroutable(_) = self.send_copy(queue, copy.clone()).await? {
            // The queue has been deleted.
            let ensured = self.session.topology.ensure(self.session.rabbit.senders().link()).await;
            ensured.map_err(QueueError::new)?;
            confirmed(queue, self.send_copy(queue, copy).await?)?;
        }
        self.acknowledge().await
    }
}

fn confirmed(queue: &ShortString, sent: Sent) -> Result<(), QueueError> {
    match sent {
        Sent::Confirmed => Ok(()),
        Sent::Unroutable(text) => Err(QueueError::new(unroutable("", queue.as_str(), &text))),
    }
}

impl Delivery for RabbitMqDelivery {
    fn message(&self) -> &Message {
        &self.message
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.acknowledge().await
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        let wait = Wait::of(after);
        let (topology, link) = (&self.session.topology, self.session.rabbit.senders().link());
        let copy = properties::of_retry(&self.properties, self.message.deliveries())
            .with_expiration(wait.expiration(after));
        let queue = topology.wait_queue(link, wait).await.map_err(QueueError::new)?;
        if let Sent::Unroutable(_) = self.send_copy(&queue, copy.clone()).await? {
            // The queue has been deleted.
            topology.forget(wait);
            let queue = topology.wait_queue(link, wait).await.map_err(QueueError::new)?;
            confirmed(&queue, self.send_copy(&queue, copy).await?)?;
        }
        self.acknowledge().await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        let queue = self.session.topology.dead.clone();
        self.put_aside(&queue, reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        let queue = self.session.topology.parked.clone();
        self.put_aside(&queue, reason).await
    }
}

impl Drop for RabbitMqDelivery {
    fn drop(&mut self) {
        // The channel lives on, so the broker would not deliver it again by itself.
        if self.acker.usable() {
            Arc::clone(&self.session).give_back(self.acker.clone());
        }
    }
}

impl fmt::Debug for RabbitMqDelivery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitMqDelivery")
            .field("queue", &self.session.topology.queue.as_str())
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}
