//! A queue in memory whose broker can fail, and which notes what the consumer does.

use idempotent_queue::memory::{MemoryDeliveries, MemoryDelivery, MemoryQueue};
use idempotent_queue::{
    Deliveries, Delivery, Message, PrepareError, Prepared, QueueError, Reason, Terms,
};
use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The behaviour of a broker that is told of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Broker {
    #[default]
    Answers,
    Refuses,
    /// It answers neither settlements nor signals.
    IsSilent,
    /// Its client panics, once.
    Panics,
}

/// Counts of what the consumer did.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) terms: Mutex<Vec<Terms>>,
    pub(crate) asked: AtomicUsize,
    /// Questions for the next delivery that were dropped before they were answered.
    pub(crate) dropped: AtomicUsize,
    pub(crate) signals: AtomicUsize,
    pub(crate) again: AtomicUsize,
}

impl Seen {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    pub(crate) fn signals(&self) -> usize {
        self.signals.load(SeqCst)
    }

    pub(crate) fn again(&self) -> usize {
        self.again.load(SeqCst)
    }
}

pub(crate) struct Watched {
    inner: MemoryDeliveries,
    pub(crate) seen: Arc<Seen>,
    pub(crate) broker: Arc<Mutex<Broker>>,
    /// Answers to `prepare`, before those that succeed.
    pub(crate) prepares: VecDeque<Result<Prepared, PrepareError>>,
    /// The number of times that it fails to deliver.
    pub(crate) errors: usize,
}

impl Watched {
    pub(crate) fn new(queue: &MemoryQueue) -> Self {
        let (seen, broker) = <(Arc<Seen>, Arc<Mutex<Broker>>)>::default();
        Self { inner: queue.deliveries(), seen, broker, prepares: VecDeque::new(), errors: 0 }
    }
}

/// Counts a question that is dropped, unless it was answered.
struct Asked<'a>(&'a AtomicUsize, bool);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(usize::from(!self.1), SeqCst);
    }
}

impl Deliveries for Watched {
    type Delivery = WatchedDelivery;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        assert_eq!(self.seen.asked(), 0, "it is prepared before it is asked");
        self.seen.terms.lock().unwrap().push(terms.clone());
        self.prepares.pop_front().unwrap_or(Ok(Prepared::default()))
    }

    async fn next(&mut self) -> Result<Option<WatchedDelivery>, QueueError> {
        self.seen.asked.fetch_add(1, SeqCst);
        if self.errors > 0 {
            self.errors -= 1;
            return Err(QueueError::new("the broker is away"));
        }
        let mut asked = Asked(&self.seen.dropped, false);
        let next = self.inner.next().await;
        asked.1 = true;
        let (seen, broker) = (Arc::clone(&self.seen), Arc::clone(&self.broker));
        Ok(next?.map(|inner| WatchedDelivery { inner, seen, broker }))
    }
}

pub(crate) struct WatchedDelivery {
    inner: MemoryDelivery,
    seen: Arc<Seen>,
    broker: Arc<Mutex<Broker>>,
}

impl WatchedDelivery {
    async fn answer(&self) -> Result<(), QueueError> {
        let broker = {
            let mut broker = self.broker.lock().unwrap();
            let now = *broker;
            if now == Broker::Panics {
                *broker = Broker::Answers;
            }
            now
        };
        match broker {
            Broker::Answers => Ok(()),
            Broker::Refuses => Err(QueueError::new("the broker takes no settlement")),
            Broker::IsSilent => pending().await,
            Broker::Panics => panic!("the client panics"),
        }
    }
}

impl Delivery for WatchedDelivery {
    fn message(&self) -> &Message {
        self.inner.message()
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.answer().await?;
        self.inner.ack().await
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        self.answer().await?;
        self.seen.again.fetch_add(1, SeqCst);
        self.inner.again(after).await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        self.answer().await?;
        self.inner.dead_letter(reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.answer().await?;
        self.inner.park(reason).await
    }

    async fn in_progress(&mut self) -> Result<(), QueueError> {
        self.seen.signals.fetch_add(1, SeqCst);
        self.answer().await
    }
}
