//! The queue in memory.

use crate::scenarios::{Broker, scenarios};
use idempotent_queue::Message;
use idempotent_queue::memory::{MemoryDeliveries, MemoryQueue};

struct Memory(MemoryQueue);

impl Broker for Memory {
    type Deliveries = MemoryDeliveries;

    async fn open() -> Self {
        Self(MemoryQueue::new())
    }

    async fn send(&self, message: Message) {
        self.0.send(message);
    }

    async fn deliveries(&self) -> MemoryDeliveries {
        self.0.deliveries()
    }

    async fn dead_letters(&self) -> Vec<Message> {
        with_headers(self.0.dead_letters())
    }

    async fn parked(&self) -> Vec<Message> {
        with_headers(self.0.parked())
    }

    async fn pending(&self) -> usize {
        self.0.pending()
    }
}

fn with_headers(letters: Vec<(Message, idempotent_queue::Reason)>) -> Vec<Message> {
    let letters = letters.into_iter().map(|(message, reason)| {
        reason
            .headers()
            .into_iter()
            .fold(message, |message, (name, value)| message.with_header(name, value))
    });
    letters.collect()
}

scenarios!(Memory);
