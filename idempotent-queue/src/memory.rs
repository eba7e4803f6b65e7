//! A queue in memory, for tests of consumers and for work inside one process.

use crate::{
    Deliveries, Delivery, Message, Outgoing, PublishError, Publisher, QueueError, Reason, Receipt,
};
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A queue in memory. Clones are the same queue.
///
/// A delivery that is dropped is delivered again at once.
#[derive(Clone, Debug, Default)]
pub struct MemoryQueue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Instant, Message)>,
    /// The number of deliveries that are not settled.
    in_hand: usize,
    /// The number of messages that came by a publisher.
    published: u64,
    is_closed: bool,
    acknowledged: Vec<Message>,
    dead_letters: Vec<(Message, Reason)>,
    parked: Vec<(Message, Reason)>,
}

impl MemoryQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn send(&self, message: Message) {
        self.state().waiting.push_back((Instant::now(), message));
        self.0.changed.notify_waiters();
    }

    /// Ends the deliveries once all messages are settled.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.0.changed.notify_waiters();
    }

    /// The deliveries of this queue, for a consumer.
    pub fn deliveries(&self) -> MemoryDeliveries {
        MemoryDeliveries(self.clone())
    }

    /// A publisher to this queue, whatever the destination. It is the reference for those of brokers.
    pub fn publisher(&self) -> MemoryPublisher {
        MemoryPublisher(self.clone())
    }

    /// The messages that are done, in the order of their ends.
    pub fn acknowledged(&self) -> Vec<Message> {
        self.state().acknowledged.clone()
    }

    /// The messages that cannot be handled.
    pub fn dead_letters(&self) -> Vec<(Message, Reason)> {
        self.state().dead_letters.clone()
    }

    /// The messages that wait for a person.
    pub fn parked(&self) -> Vec<(Message, Reason)> {
        self.state().parked.clone()
    }

    /// The number of messages that are to be delivered, or are in hand.
    pub fn pending(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.in_hand
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, put: impl FnOnce(&mut State)) {
        let mut state = self.state();
        state.in_hand -= 1;
        put(&mut state);
        drop(state);
        self.0.changed.notify_waiters();
    }
}

/// A publisher to a [`MemoryQueue`]. Messages have the broker's id `<number>`, counted from one.
#[derive(Clone, Debug)]
pub struct MemoryPublisher(MemoryQueue);

impl Publisher for MemoryPublisher {
    async fn publish(&self, outgoing: &Outgoing) -> Result<Receipt, PublishError> {
        let mut message = Message::new(outgoing.payload());
        for (name, value) in outgoing.wire_headers() {
            message = message.with_header(name, value);
        }
        let mut state = self.0.state();
        if state.is_closed {
            return Err(PublishError::permanent("the queue is closed"));
        }
        state.published += 1;
        let position = state.published.to_string();
        state.waiting.push_back((Instant::now(), message.with_id(&*position)));
        drop(state);
        self.0.0.changed.notify_waiters();
        Ok(Receipt::at(position))
    }
}

/// The deliveries of a [`MemoryQueue`].
#[derive(Debug)]
pub struct MemoryDeliveries(MemoryQueue);

impl Deliveries for MemoryDeliveries {
    type Delivery = MemoryDelivery;

    async fn next(&mut self) -> Result<Option<MemoryDelivery>, QueueError> {
        loop {
            // Before the look: a change after it is not missed.
            let changed = self.0.0.changed.notified();
            let earliest = {
                let mut state = self.0.state();
                let now = Instant::now();
                if let Some(at) = state.waiting.iter().position(|(ready, _)| *ready <= now) {
                    let Some((_, message)) = state.waiting.remove(at) else { continue };
                    state.in_hand += 1;
                    let deliveries = message.deliveries().unwrap_or(0).saturating_add(1);
                    let (queue, message) = (self.0.clone(), message.with_deliveries(deliveries));
                    return Ok(Some(MemoryDelivery { queue, message: Some(message) }));
                }
                if state.is_closed && state.waiting.is_empty() && state.in_hand == 0 {
                    return Ok(None);
                }
                state.waiting.iter().map(|(ready, _)| *ready).min()
            };
            match earliest {
                None => changed.await,
                Some(ready) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(ready) => {}
                },
            }
        }
    }
}

/// A delivery of a [`MemoryQueue`].
#[derive(Debug)]
pub struct MemoryDelivery {
    queue: MemoryQueue,
    /// Taken when it is settled.
    message: Option<Message>,
}

impl MemoryDelivery {
    fn settle(mut self, put: impl FnOnce(&mut State, Message)) -> Result<(), QueueError> {
        if let Some(message) = self.message.take() {
            self.queue.settle(|state| put(state, message));
        }
        Ok(())
    }
}

impl Delivery for MemoryDelivery {
    fn message(&self) -> &Message {
        match &self.message {
            Some(message) => message,
            None => unreachable!("it is taken when the delivery is settled, by value"),
        }
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.settle(|state, message| state.acknowledged.push(message))
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        let now = Instant::now();
        let ready = now.checked_add(after).unwrap_or(now);
        self.settle(|state, message| state.waiting.push_back((ready, message)))
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        self.settle(|state, message| state.dead_letters.push((message, reason.clone())))
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.settle(|state, message| state.parked.push((message, reason.clone())))
    }
}

impl Drop for MemoryDelivery {
    fn drop(&mut self) {
        if let Some(message) = mem::take(&mut self.message) {
            self.queue.settle(|state| state.waiting.push_back((Instant::now(), message)));
        }
    }
}
