//! The source of deliveries: its settings, and the pull that it waits on.

use super::aside::Places;
use super::delivery::NatsDelivery;
use super::prepare::{self, Names};
use super::pull::Pull;
use crate::{Deliveries, PrepareError, Prepared, QueueError, Terms};
use async_nats::jetstream::Context;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The deliveries of a durable pull consumer. [`deliveries`](super::deliveries) makes one.
///
/// ```no_run
/// use idempotent_queue::nats;
///
/// # fn example(jetstream: &async_nats::jetstream::Context) {
/// let orders = nats::deliveries(jetstream, "ORDERS", "shop")
///     .dead_letters("dead.orders")
///     .parked("parked.orders");
/// # }
/// ```
///
/// # Limits
/// The settings of the stream and of its consumer are read before the first delivery, and those under
/// which a message is lost are refused: acknowledgements that are not explicit, a `max_deliver`
/// below ten times [`max_attempts`](crate::Consumer::max_attempts), an `ack_wait` shorter than three
/// [heartbeats](crate::Consumer::heartbeat), subjects for dead letters that no stream keeps.
///
/// # Connection
/// The client connects again by itself, and the messages are asked for again. A consumer that is deleted
/// at the server is an error of each pull until it is there again. It is not made again: one that starts
/// from the beginning of the stream would deliver all messages again.
pub struct NatsDeliveries {
    context: Context,
    names: Names,
    places: Arc<Places>,
    /// Subjects of a stream that is made if it is missing.
    create: Option<Vec<String>>,
    prefetch: usize,
    /// A permit for each delivery that the server may have in flight.
    free: Arc<Semaphore>,
    pulling: Pulling,
}

/// The pull of a source, which is opened by the first wait, and again after an error.
enum Pulling {
    Closed,
    /// Kept between waits: one that is dropped, as a busy consumer does over and over, does not begin anew.
    Opening(Pin<Box<dyn Future<Output = Result<Pull, QueueError>> + Send>>),
    Open(Box<Pull>),
}

impl NatsDeliveries {
    pub(super) fn new(context: Context, stream: String, consumer: String) -> Self {
        let places = Arc::new(Places::of(&stream, &consumer));
        let names = Names { stream, consumer };
        // Until the terms are known.
        let (prefetch, free) = (1, Arc::new(Semaphore::new(1)));
        Self { context, names, places, create: None, prefetch, free, pulling: Pulling::Closed }
    }

    /// Sets the subject of dead letters, which a stream must keep. Default:
    /// `dead-letters.STREAM.CONSUMER`.
    #[must_use]
    pub fn dead_letters(mut self, subject: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.places).dead_letters = subject.into();
        self
    }

    /// Sets the subject of messages that wait for a person, which a stream must keep. Default:
    /// `parked.STREAM.CONSUMER`.
    #[must_use]
    pub fn parked(mut self, subject: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.places).parked = subject.into();
        self
    }

    /// Makes what is missing when the consumer starts, and leaves alone what is there: the stream, with
    /// these subjects; its durable consumer; a stream `STREAM_CONSUMER_aside` for dead letters and parked
    /// messages whose subject no stream has.
    #[must_use]
    pub fn create<S: Into<String>>(mut self, subjects: impl IntoIterator<Item = S>) -> Self {
        self.create = Some(subjects.into_iter().map(Into::into).collect());
        self
    }
}

impl Deliveries for NatsDeliveries {
    type Delivery = NatsDelivery;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        let Self { context, names, places, create, .. } = self;
        let prepared = prepare::prepare(context, names, places, create.as_deref(), terms).await?;
        self.prefetch = terms.prefetch.clamp(1, Semaphore::MAX_PERMITS);
        self.free = Arc::new(Semaphore::new(self.prefetch));
        self.pulling = Pulling::Closed;
        Ok(prepared)
    }

    async fn next(&mut self) -> Result<Option<NatsDelivery>, QueueError> {
        loop {
            let failed = match &mut self.pulling {
                Pulling::Closed => {
                    let (context, names) = (self.context.clone(), self.names.clone());
                    let opening = Pull::open(context, names, Arc::clone(&self.free), self.prefetch);
                    self.pulling = Pulling::Opening(Box::pin(opening));
                    continue;
                }
                Pulling::Opening(opening) => match opening.await {
                    Ok(pull) => {
                        self.pulling = Pulling::Open(Box::new(pull));
                        continue;
                    }
                    Err(error) => error,
                },
                Pulling::Open(pull) => match pull.next().await {
                    Ok((message, permit)) => {
                        let places = Arc::clone(&self.places);
                        match NatsDelivery::new(&self.context, places, message, permit) {
                            Some(delivery) => return Ok(Some(delivery)),
                            None => continue,
                        }
                    }
                    Err(error) => error,
                },
            };
            self.pulling = Pulling::Closed;
            return Err(failed);
        }
    }
}

impl fmt::Debug for NatsDeliveries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NatsDeliveries")
            .field("stream", &self.names.stream)
            .field("consumer", &self.names.consumer)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}
