//! Queues of RabbitMQ.
//!
//! ```no_run
//! use idempotent_queue::Consumer;
//! use idempotent_queue::rabbitmq::RabbitMq;
//! use idempotent_runtime::{Error, Idempotency, idempotent};
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     id: u64,
//! }
//!
//! #[idempotent(mode = "strong", expire = "7d")]
//! async fn on_order(order: Order) -> Result<u64, Error> {
//!     Ok(order.id)
//! }
//!
//! # async fn consume(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
//! let rabbit = RabbitMq::connect("amqp://localhost").await?;
//! Consumer::new(idem, "orders").max_attempts(5).run(rabbit.deliveries("orders"), on_order).await?;
//! # Ok(()) }
//! ```
//!
//! # Queues
//!
//! A source of the queue `orders` uses these; each of them can have another name.
//!
//! | queue | for | declared |
//! | --- | --- | --- |
//! | `orders` | what is consumed | by [`declare`](RabbitMqDeliveries::declare) if that is asked for; it has to exist otherwise |
//! | `orders.dead` | dead letters | if it does not exist |
//! | `orders.parked` | messages that wait for a person | if it does not exist |
//! | `orders.wait.128`, `orders.wait.256` and so on | messages that come again after a pause of at most so many milliseconds | when it is used; deleted a week after |
//!
//! Queues that are declared are durable, and quorum queues by default.
//!
//! # Settlement
//!
//! A message that comes again, a dead letter and a message that is parked are copies: published, confirmed
//! by the broker, and only then is the original acknowledged. A copy has the payload, the headers and the
//! properties of the original, without `expiration`, `user-id`, the headers `CC` and `BCC`, and the
//! broker's `x-delivery-count` and `x-death`.
//!
//! # Connections
//!
//! A [`RabbitMq`] has one connection for consumers and one for publishers, since a broker that is short of
//! memory stops reading from those that publish. Each is made when it is needed, and again, after a pause
//! that grows, when it has broken.

mod channel;
mod connection;
mod deliveries;
mod delivery;
mod failure;
mod limits;
mod properties;
mod publisher;
mod senders;
mod topology;

pub use deliveries::RabbitMqDeliveries;
pub use delivery::RabbitMqDelivery;
pub use properties::DELIVERIES_HEADER;
pub use publisher::RabbitMqPublisher;
pub use topology::QueueType;

use crate::QueueError;
use crate::producer::Destination;
use connection::{Link, Target};
use lapin::uri::AMQPUri;
use senders::Senders;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use topology::{Declarations, Names};

/// A broker, and the connections to it. Clones share them.
#[derive(Clone)]
pub struct RabbitMq(Arc<Shared>);

struct Shared {
    consuming: Link,
    senders: Senders,
}

impl RabbitMq {
    /// Connects to a broker: `amqp://user:password@host:5672/vhost`. The virtual host `/` is the one of a
    /// URL without a path.
    ///
    /// # Errors
    /// The URL cannot be read, or the broker does not take the connection.
    pub async fn connect(url: &str) -> Result<Self, QueueError> {
        Self::builder(url)?.connect().await
    }

    /// Settings of the connections to a broker.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn builder(url: &str) -> Result<RabbitMqBuilder, QueueError> {
        let mut uri: AMQPUri = url.parse().map_err(|error| {
            let help = "help: write it as amqp://user:password@host:5672/vhost";
            // Without the URL, which has a password.
            QueueError::new(format!("the URL of the broker cannot be read: {error}; {help}"))
        })?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let name = "idempotent-queue".to_owned();
        Ok(RabbitMqBuilder { uri, name, timeout: TIMEOUT })
    }

    /// The deliveries of a queue, for a consumer.
    pub fn deliveries(&self, queue: impl Into<String>) -> RabbitMqDeliveries {
        RabbitMqDeliveries::new(self.clone(), queue.into())
    }

    /// Declares a queue if it does not exist, as [`declare`](RabbitMqDeliveries::declare) of its consumer
    /// does. For producers that start before it.
    ///
    /// # Errors
    /// The broker cannot be reached, or does not let the user declare it.
    pub async fn declare_queue(&self, name: impl Into<String>) -> Result<(), QueueError> {
        let names = Names { declares_queue: true, ..Names::of(name.into()) };
        let mut declarations = Declarations { link: self.senders().link(), channel: None };
        let topology = names.checked().map_err(QueueError::new)?;
        topology.ensure_queue(&mut declarations).await.map_err(QueueError::new)
    }

    /// A queue that a [`Producer`](crate::Producer) sends to.
    ///
    /// ```no_run
    /// use idempotent_queue::Producer;
    /// use idempotent_queue::rabbitmq::RabbitMq;
    /// use idempotent_runtime::Idempotency;
    ///
    /// # async fn send(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
    /// let rabbit = RabbitMq::connect("amqp://localhost").await?;
    /// let orders = Producer::new(idem, rabbit.queue("orders"));
    /// let sent = orders.send("order-42", &42).await?;
    /// println!("{}", sent.id());
    /// # Ok(()) }
    /// ```
    pub fn queue(&self, name: impl Into<String>) -> Destination<RabbitMqPublisher> {
        Destination::new(self.publisher(), name)
    }

    /// A publisher whose destinations are names of queues.
    pub fn publisher(&self) -> RabbitMqPublisher {
        RabbitMqPublisher::new(self.clone())
    }

    /// Closes the connections, behind all that was sent on them. For the end of a program: without it, the
    /// broker's log says that a client has gone away. A later use connects again.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn close(&self) -> Result<(), QueueError> {
        let closed = [self.senders().link().close().await, self.consuming().close().await];
        closed.into_iter().collect::<Result<(), _>>().map_err(QueueError::new)
    }

    fn consuming(&self) -> &Link {
        &self.0.consuming
    }

    fn senders(&self) -> &Senders {
        &self.0.senders
    }
}

impl fmt::Debug for RabbitMq {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RabbitMq").field(&self.0.consuming.target()).finish()
    }
}

/// Settings of the connections to a broker, by [`RabbitMq::builder`].
pub struct RabbitMqBuilder {
    uri: AMQPUri,
    name: String,
    timeout: Duration,
}

/// The default time limit for an answer of the broker.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time between heartbeats, unless the URL has `?heartbeat=..`: a peer that is gone without a word is
/// noticed after twice that.
const HEARTBEAT_SECONDS: u16 = 20;

impl RabbitMqBuilder {
    /// Sets the name of the connections, which operators see. Default: `idempotent-queue`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Limits the time for which an answer of the broker is waited for: a connection, a confirmation, a
    /// settlement. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Connects at once, so that an unreachable broker or a refused user is noticed at startup.
    ///
    /// # Errors
    /// The broker does not take the connection.
    pub async fn connect(self) -> Result<RabbitMq, QueueError> {
        let rabbit = self.build();
        rabbit.consuming().channel().await.map_err(QueueError::new)?;
        Ok(rabbit)
    }

    /// Connects at the first use.
    #[must_use]
    pub fn build(self) -> RabbitMq {
        let Self { uri, name, timeout } = self;
        let target = Arc::new(Target::new(uri, name, timeout));
        let consuming = Link::new(Arc::clone(&target));
        let senders = Senders::new(Link::new(target));
        RabbitMq(Arc::new(Shared { consuming, senders }))
    }
}

impl fmt::Debug for RabbitMqBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitMqBuilder")
            .field("host", &self.uri.authority.host)
            .field("name", &self.name)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_password() {
        let error = RabbitMq::builder("amqp://guest:secret@[/").unwrap_err();
        let builder = RabbitMq::builder("amqp://guest:secret@localhost").unwrap();
        let texts = [format!("{error} {error:?} {builder:?}"), format!("{:?}", builder.build())];
        assert!(!texts.concat().contains("secret"), "{texts:?}");
    }
}
