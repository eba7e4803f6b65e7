//! A sender of messages to streams.

use super::entry;
use super::error::publish_error;
use super::link::{Link, Request};
use super::servers::Servers;
use super::settings::TIMEOUT;
use crate::{Outgoing, PublishError, QueueError, Receipt};
use redis::cmd;
use std::time::Duration;

/// Sends messages to streams: the destination is the name of the stream, and the [receipt](Receipt) has the id
/// of the entry.
///
/// ```no_run
/// use idempotent_queue::redis_streams::StreamPublisher;
/// use idempotent_queue::{Outgoing, Publisher as _};
///
/// # async fn send() -> Result<(), Box<dyn std::error::Error>> {
/// let publisher = StreamPublisher::new("redis://127.0.0.1/")?;
/// let receipt = publisher.publish(&Outgoing::new("orders", "order-42", r#"{"id":42}"#)).await?;
/// println!("{:?}", receipt.position());
/// # Ok(()) }
/// ```
///
/// Nothing is connected before the first message. A server that is full refuses a message for a while, and
/// a key that is not a stream refuses it for ever.
#[derive(Debug)]
pub struct StreamPublisher {
    servers: Servers,
    link: Link,
    longest: Option<usize>,
}

impl StreamPublisher {
    /// A publisher on one server, with an address as [`StreamDeliveries::new`](super::StreamDeliveries::new)
    /// takes it.
    ///
    /// # Errors
    /// The address cannot be read.
    pub fn new(url: &str) -> Result<Self, QueueError> {
        Servers::single(url).map(Self::on)
    }

    /// A publisher on a cluster, of which some nodes are named.
    ///
    /// # Errors
    /// An address cannot be read, or there is none.
    pub fn cluster<U: AsRef<str>>(nodes: impl IntoIterator<Item = U>) -> Result<Self, QueueError> {
        Servers::cluster(nodes).map(Self::on)
    }

    fn on(servers: Servers) -> Self {
        Self { link: Link::new(servers.clone(), TIMEOUT, TIMEOUT), servers, longest: None }
    }

    /// Sets the time that a server may take to answer, and to accept a connection. Default: 2 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.link = Link::new(self.servers.clone(), timeout, timeout);
        self
    }

    /// Trims each stream to about so many entries when one is added. Trimmed entries are lost, also those
    /// that were not handled: keep many more than consumers may be behind. Default: streams are not trimmed.
    #[must_use]
    pub fn max_len(mut self, entries: usize) -> Self {
        self.longest = Some(entries);
        self
    }
}

impl crate::Publisher for StreamPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let mut add = cmd("XADD");
        add.arg(message.destination());
        if let Some(longest) = self.longest {
            add.arg("MAXLEN").arg("~").arg(longest);
        }
        add.arg("*").arg(entry::sent(message));
        // Once: the caller sends it again, with the same id.
        let answer = self.link.ask(Request::Command(&add)).await;
        let id = answer.and_then(|id| Ok(redis::from_redis_value::<String>(id)?));
        id.map(Receipt::at).map_err(|error| publish_error(&error))
    }
}
