//! A source that counts the ways in which its deliveries are settled.

use idempotent_queue::{
    Deliveries, Delivery, Message, PrepareError, Prepared, QueueError, Reason, Terms,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The deliveries that the broker has taken the settlement of, and dead letters that it has not taken.
#[derive(Debug, Default)]
pub(super) struct Counts {
    acknowledged: AtomicUsize,
    dead: AtomicUsize,
    parked: AtomicUsize,
    refused: AtomicUsize,
}

impl Counts {
    pub(super) fn refused(&self) -> usize {
        self.refused.load(SeqCst)
    }

    pub(super) fn dead(&self) -> usize {
        self.dead.load(SeqCst)
    }

    pub(super) fn parked(&self) -> usize {
        self.parked.load(SeqCst)
    }

    pub(super) fn settled(&self) -> usize {
        self.acknowledged.load(SeqCst) + self.dead() + self.parked()
    }
}

pub(super) struct Counted<S> {
    source: S,
    counts: Arc<Counts>,
}

impl<S> Counted<S> {
    pub(super) fn new(source: S, counts: Arc<Counts>) -> Self {
        Self { source, counts }
    }
}

impl<S: Deliveries> Deliveries for Counted<S> {
    type Delivery = CountedDelivery<S::Delivery>;

    async fn prepare(&mut self, terms: &Terms) -> Result<Prepared, PrepareError> {
        self.source.prepare(terms).await
    }

    async fn next(&mut self) -> Result<Option<Self::Delivery>, QueueError> {
        let delivery = self.source.next().await?;
        let counts = Arc::clone(&self.counts);
        Ok(delivery.map(|delivery| CountedDelivery { delivery, counts }))
    }
}

pub(super) struct CountedDelivery<D> {
    delivery: D,
    counts: Arc<Counts>,
}

impl<D: Delivery> Delivery for CountedDelivery<D> {
    fn message(&self) -> &Message {
        self.delivery.message()
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.delivery.ack().await?;
        self.counts.acknowledged.fetch_add(1, SeqCst);
        Ok(())
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        self.delivery.again(after).await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        let letter = self.delivery.dead_letter(reason).await;
        self.counts.refused.fetch_add(usize::from(letter.is_err()), SeqCst);
        letter?;
        self.counts.dead.fetch_add(1, SeqCst);
        Ok(())
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.delivery.park(reason).await?;
        self.counts.parked.fetch_add(1, SeqCst);
        Ok(())
    }

    async fn in_progress(&mut self) -> Result<(), QueueError> {
        self.delivery.in_progress().await
    }
}
