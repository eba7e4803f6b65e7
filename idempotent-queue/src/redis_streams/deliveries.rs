//! A source of deliveries, and its settings.

use super::check::check;
use super::delivery::StreamDelivery;
use super::group::Group;
use super::servers::Servers;
use super::settings::Settings;
use super::source::Source;
use crate::{Deliveries, PrepareError, Prepared, QueueError, Terms};
use std::sync::Arc;
use std::time::Duration;

/// A consumer in a group of a stream.
///
/// ```no_run
/// use idempotent_queue::Consumer;
/// use idempotent_queue::redis_streams::StreamDeliveries;
/// # use idempotent_runtime::{Error, Idempotency, idempotent};
/// # use std::time::Duration;
/// # #[idempotent(key = "order", mode = "strong", expire = "7d")]
/// # async fn on_order(order: u64) -> Result<u64, Error> { Ok(order) }
///
/// # async fn consume(idem: &Idempotency) -> Result<(), Box<dyn std::error::Error>> {
/// let orders = StreamDeliveries::new("redis://127.0.0.1/", "orders", "shop")?
///     .claim_after(Duration::from_secs(60));
/// Consumer::new(idem, "orders").run(orders, on_order).await?;
/// # Ok(()) }
/// ```
///
/// The group is created with the first delivery, and the stream with it. A server that cannot be reached is
/// tried again, with pauses that grow.
///
/// # Deliveries
/// An entry is pending in the group until it is settled. A consumer that is at work on one says so with each
/// heartbeat; an entry whose consumer was not heard of for [`claim_after`](Self::claim_after) is claimed by
/// another one. Each claim, and each delivery after a pause, counts as a delivery.
///
/// A pause is kept in the idle time of the entry, so that any consumer of the group may take the entry after
/// it. A pause longer than `claim_after` needs this source: if its process dies, the entry comes earlier than
/// asked, and if its process lives, others leave it alone until then.
///
/// # Memory
/// No more entries are held than the consumer handles at a time. Of entries that come again only ids are kept,
/// of 10,000 at most; further ones are found in Redis when their pauses are over.
#[derive(Debug)]
pub struct StreamDeliveries {
    servers: Servers,
    settings: Settings,
    /// Made with the terms of the consumer.
    source: Option<Arc<Source>>,
    is_started: bool,
}

impl StreamDeliveries {
    /// A consumer of a stream on one server: `redis://user:password@host:6379/0`, `rediss://` for TLS (feature
    /// `redis-streams-tls`), `unix:///path?db=0`. Consumers of one group share its entries, and each group gets
    /// all of them.
    ///
    /// # Errors
    /// The address cannot be read.
    pub fn new(
        url: &str,
        stream: impl Into<String>,
        group: impl Into<String>,
    ) -> Result<Self, QueueError> {
        Ok(Self::on(Servers::single(url)?, stream.into(), group.into()))
    }

    /// A consumer of a stream in a cluster, of which some nodes are named.
    ///
    /// A dead letter is put aside in one step if its stream is in the same slot, as `{orders}` and
    /// `{orders}:dead` are. Otherwise it is copied first, and there is a copy too many if the process dies
    /// between the two.
    ///
    /// # Errors
    /// An address cannot be read, or there is none.
    pub fn cluster<U: AsRef<str>>(
        nodes: impl IntoIterator<Item = U>,
        stream: impl Into<String>,
        group: impl Into<String>,
    ) -> Result<Self, QueueError> {
        Ok(Self::on(Servers::cluster(nodes)?, stream.into(), group.into()))
    }

    fn on(servers: Servers, stream: String, group: String) -> Self {
        let settings = Settings::new(stream, group);
        Self { servers, settings, source: None, is_started: false }
    }

    /// Sets the name inside the group, which no other source may have at the same time. Default: the name of
    /// the consumer, the host, the process and a random part.
    #[must_use]
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.settings.consumer = Some(name.into());
        self
    }

    /// Sets the time after which an entry is claimed whose consumer was not heard of, at least three of the
    /// consumer's heartbeats. All sources of a group should have the same. Default: 30 seconds, or three
    /// heartbeats.
    #[must_use]
    pub fn claim_after(mut self, idle: Duration) -> Self {
        self.settings.claim_after = Some(idle);
        self
    }

    /// Sets the time after which consumers of the group are removed that were not heard of and have nothing
    /// pending. Default: an hour.
    #[must_use]
    pub fn forget_consumers_after(mut self, idle: Duration) -> Self {
        self.settings.forget_after = idle;
        self
    }

    /// Sets the field of the payload, for entries that others write. Every other field is a header, without
    /// `header:` in front of its name if it has that. Default: `payload`.
    #[must_use]
    pub fn payload_field(mut self, name: impl Into<String>) -> Self {
        self.settings.payload = name.into();
        self
    }

    /// Sets the stream of dead letters. Default: the name of the stream, with `:dead` after it.
    #[must_use]
    pub fn dead_letters(mut self, stream: impl Into<String>) -> Self {
        self.settings.dead_letters = stream.into();
        self
    }

    /// Sets the stream of messages that wait for a person. Default: the name of the stream, with `:parked`
    /// after it.
    #[must_use]
    pub fn parked(mut self, stream: impl Into<String>) -> Self {
        self.settings.parked = stream.into();
        self
    }

    /// Begins a group that does not exist with entries that are added from then on. Default: with the first
    /// one that is in the stream. A group that is lost while the source is at work begins with the first one.
    #[must_use]
    pub fn only_new(mut self) -> Self {
        self.settings.begin = "$";
        self
    }

    /// Deletes entries when they are acknowledged or put aside. Only for streams with one group: others do
    /// not get an entry that is deleted. Default: entries stay, until the stream is trimmed.
    #[must_use]
    pub fn delete_settled(mut self) -> Self {
        self.settings.deletes = true;
        self
    }

    /// Sets the time that a server may take to answer, and to accept a connection. Default: 2 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    fn source(&mut self, terms: &Terms) -> Arc<Source> {
        let source = self.source.get_or_insert_with(|| {
            let group = Group::new(self.servers.clone(), self.settings.clone(), terms);
            Source::new(group, terms.prefetch)
        });
        Arc::clone(source)
    }

    fn start(&mut self, source: &Arc<Source>) {
        if !self.is_started {
            self.is_started = true;
            source.start();
        }
    }
}

impl Deliveries for StreamDeliveries {
    type Delivery = StreamDelivery;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        self.settings.check(terms).map_err(PrepareError::Refused)?;
        let source = self.source(terms);
        check(&source.group).await?;
        self.start(&source);
        // A stream keeps its entries until it is trimmed.
        Ok(Prepared::default())
    }

    async fn next(&mut self) -> Result<Option<StreamDelivery>, QueueError> {
        let source = match &self.source {
            Some(source) => Arc::clone(source),
            // Not prepared: on the terms of a consumer without settings.
            None => self.source(&Terms::new(self.settings.group.clone())),
        };
        self.start(&source);
        let entry = source.next().await?;
        Ok(Some(StreamDelivery::new(source, entry)))
    }
}

impl Drop for StreamDeliveries {
    fn drop(&mut self) {
        if let Some(source) = &self.source {
            source.end();
        }
    }
}
