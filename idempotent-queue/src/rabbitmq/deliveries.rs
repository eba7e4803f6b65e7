//! The deliveries of a queue.

use super::RabbitMq;
use super::channel::OwnedChannel;
use super::delivery::RabbitMqDelivery;
use super::failure::Failure;
use super::limits;
use super::properties::short;
use super::topology::{Names, QueueType, Topology};
use crate::{Deliveries, PrepareError, Prepared, QueueError, Terms};
use futures_util::StreamExt as _;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Acker, Consumer};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The prefetch of a source that was not prepared for a consumer.
const PREFETCH: usize = 16;

/// The deliveries of a queue, by [`RabbitMq::deliveries`].
///
/// ```no_run
/// use idempotent_queue::rabbitmq::{QueueType, RabbitMq};
///
/// # async fn deliveries() -> Result<(), Box<dyn std::error::Error>> {
/// let rabbit = RabbitMq::connect("amqp://localhost").await?;
/// let orders = rabbit
///     .deliveries("orders")
///     .declare()
///     .dead_letter_queue("orders-that-failed")
///     .parking_queue("orders-in-question")
///     .queue_type(QueueType::Quorum);
/// # drop(orders);
/// # Ok(()) }
/// ```
///
/// Dropped, it gives back what the broker has sent ahead. Deliveries in hand can still be settled.
pub struct RabbitMqDeliveries {
    rabbit: RabbitMq,
    names: Names,
    reads_limit: bool,
    prefetch: usize,
    tag: String,
    state: State,
}

enum State {
    Idle,
    /// Kept here, and not in the future of `next`, which is dropped now and then.
    Subscribing(Pin<Box<dyn Future<Output = Result<Subscription, PrepareError>> + Send>>),
    Subscribed(Subscription),
}

impl RabbitMqDeliveries {
    pub(super) fn new(rabbit: RabbitMq, queue: String) -> Self {
        Self {
            rabbit,
            names: Names::of(queue),
            reads_limit: true,
            prefetch: PREFETCH,
            tag: String::new(),
            state: State::Idle,
        }
    }

    /// Declares the queue if it does not exist. Default: it has to exist.
    #[must_use]
    pub fn declare(mut self) -> Self {
        self.names.declares_queue = true;
        self
    }

    /// Sets the type of the queues that are declared. Default: quorum queues.
    #[must_use]
    pub fn queue_type(mut self, kind: QueueType) -> Self {
        self.names.kind = kind;
        self
    }

    /// Sets the queue for dead letters. Default: `orders.dead` for the queue `orders`.
    #[must_use]
    pub fn dead_letter_queue(mut self, name: impl Into<String>) -> Self {
        self.names.dead = name.into();
        self
    }

    /// Sets the queue for messages that wait for a person. Default: `orders.parked` for the queue `orders`.
    #[must_use]
    pub fn parking_queue(mut self, name: impl Into<String>) -> Self {
        self.names.parked = name.into();
        self
    }

    /// Sets the beginning of the names of wait queues. Default: `orders.wait` for the queue `orders`.
    #[must_use]
    pub fn wait_queues(mut self, prefix: impl Into<String>) -> Self {
        self.names.wait = prefix.into();
        self
    }

    /// Does not read the queue's delivery limit. For queues whose limit or dead letter exchange is set by a
    /// policy, which the arguments of the queue do not tell. Default: it is read, and one that is too low is
    /// refused.
    #[must_use]
    pub fn trust_delivery_limit(mut self) -> Self {
        self.reads_limit = false;
        self
    }

    fn subscribe(&self) -> impl Future<Output = Result<Subscription, PrepareError>> + Send + use<> {
        let (rabbit, names) = (self.rabbit.clone(), self.names.clone());
        let (prefetch, tag) = (self.prefetch, self.tag.clone());
        async move { Subscription::open(rabbit, &names, prefetch, &tag).await }
    }
}

impl Deliveries for RabbitMqDeliveries {
    type Delivery = RabbitMqDelivery;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        self.prefetch = terms.prefetch;
        self.tag.clone_from(&terms.consumer);
        let topology = self.names.checked()?;
        let link = self.rabbit.consuming();
        topology.ensure(link).await?;
        if self.reads_limit {
            limits::check(link, &topology.queue, terms).await?;
        }
        // Another subscription would have other terms.
        self.state = State::Subscribed(self.subscribe().await?);
        Ok(Prepared::default())
    }

    async fn next(&mut self) -> Result<Option<RabbitMqDelivery>, QueueError> {
        loop {
            match &mut self.state {
                State::Idle => self.state = State::Subscribing(Box::pin(self.subscribe())),
                State::Subscribing(subscribes) => match subscribes.await {
                    Ok(subscription) => self.state = State::Subscribed(subscription),
                    Err(error) => {
                        self.state = State::Idle;
                        let (PrepareError::Unavailable(error) | PrepareError::Refused(error)) =
                            error;
                        return Err(error);
                    }
                },
                State::Subscribed(subscription) => match subscription.next().await {
                    Ok(delivery) => return Ok(Some(delivery)),
                    Err(error) => {
                        self.state = State::Idle;
                        return Err(error);
                    }
                },
            }
        }
    }
}

impl fmt::Debug for RabbitMqDeliveries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitMqDeliveries")
            .field("rabbit", &self.rabbit)
            .field("queue", &self.names.queue)
            .finish_non_exhaustive()
    }
}

/// A channel on which the broker delivers. Deliveries share it: it is closed after the last of them, and the
/// broker then takes back what is not settled.
pub(super) struct Session {
    pub(super) rabbit: RabbitMq,
    pub(super) topology: Topology,
    channel: OwnedChannel,
    runtime: Handle,
}

impl Session {
    /// Gives a message back to the broker, which delivers it again.
    ///
    /// In a task, since it is called when a delivery is dropped. If the runtime has ended, so has the
    /// connection.
    pub(super) fn give_back(self: Arc<Self>, acker: Acker) {
        self.runtime.clone().spawn(async move {
            let options = BasicNackOptions { requeue: true, ..Default::default() };
            // A channel that has failed has given it back.
            let _ = self.rabbit.consuming().target().in_time(acker.nack(options)).await;
        });
    }
}

/// A consumer at the broker.
struct Subscription {
    session: Arc<Session>,
    // Taken when it is dropped.
    consumer: Option<Consumer>,
}

impl Subscription {
    async fn open(
        rabbit: RabbitMq,
        names: &Names,
        prefetch: usize,
        tag: &str,
    ) -> Result<Self, PrepareError> {
        let topology = names.checked()?;
        let link = rabbit.consuming();
        topology.ensure(link).await?;
        let channel = link.channel().await?;
        let tag = short("name of the consumer", tag)
            .map_err(|error| PrepareError::Refused(QueueError::new(error)))?;
        // Zero would be no limit.
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX).max(1);
        let consumer = link
            .target()
            .in_time(async {
                channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
                let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
                channel.basic_consume(topology.queue.clone(), tag, options, arguments).await
            })
            .await?;
        let runtime = Handle::current();
        let session = Arc::new(Session { rabbit, topology, channel, runtime });
        Ok(Self { session, consumer: Some(consumer) })
    }

    /// The next delivery. After an error there is none.
    async fn next(&mut self) -> Result<RabbitMqDelivery, QueueError> {
        let next = match &mut self.consumer {
            Some(consumer) => consumer.next().await,
            None => None,
        };
        match next {
            Some(Ok(delivery)) => Ok(RabbitMqDelivery::new(Arc::clone(&self.session), delivery)),
            Some(Err(error)) => Err(QueueError::new(Failure::from(error))),
            None => Err(QueueError::new(format!(
                "the broker has ended the deliveries of the queue `{}`",
                self.session.topology.queue
            ))),
        }
    }
}

impl Drop for Subscription {
    /// Tells the broker to send no more, and gives back what it has sent ahead.
    fn drop(&mut self) {
        let Some(mut consumer) = self.consumer.take() else { return };
        let session = Arc::clone(&self.session);
        if !session.channel.status().connected() {
            return;
        }
        self.session.runtime.spawn(async move {
            let target = session.rabbit.consuming().target();
            let gives_back = async {
                let options = BasicCancelOptions::default();
                session.channel.basic_cancel(consumer.tag(), options).await?;
                // It ends behind the last one that was on its way.
                while let Some(Ok(delivery)) = consumer.next().await {
                    Arc::clone(&session).give_back(delivery.acker);
                }
                Ok::<_, lapin::Error>(())
            };
            // Otherwise the channel is closed behind the last delivery in hand.
            let _ = target.in_time(gives_back).await;
        });
    }
}
