//! A queue, an instance on a store with faults, and a handler that does as its message says.

use idempotent_queue::memory::MemoryQueue;
use idempotent_queue::{Consumer, ConsumerError, Message};
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::FaultStore;
use idempotent_runtime::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// An error that says nothing of refusals.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failed {
    Busy,
    Declined,
    Refused(String),
}

impl Failed {
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Declined)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => formatter.write_str("busy"),
            Self::Declined => formatter.write_str("declined"),
            Self::Refused(text) => formatter.write_str(text),
        }
    }
}

/// The behaviour of a body, which is the payload of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body {
    Succeeds,
    Fails,
    Declines,
    Panics,
    Waits,
}

#[idempotent(
    name = "queue.handle",
    mode = "strong",
    wait = "0s",
    final_errors = "Failed::is_final"
)]
pub(crate) async fn handle(body: Body) -> Result<u8, Failed> {
    match body {
        Body::Succeeds => Ok(1),
        Body::Fails => Err(Failed::Busy),
        Body::Declines => Err(Failed::Declined),
        Body::Panics => panic!("the body panics"),
        Body::Waits => std::future::pending().await,
    }
}

/// A message with this key.
pub(crate) fn message(key: &str, body: Body) -> Message {
    Message::new(serde_json::to_vec(&body).unwrap()).with_header("Idempotency-Key", key)
}

/// Ends a consumer whose messages come again for ever.
pub(crate) async fn in_time<F: Future>(consumes: F) -> F::Output {
    let consumed = tokio::time::timeout(Duration::from_secs(30), consumes).await;
    consumed.expect("the messages are settled")
}

pub(crate) struct Bench {
    pub(crate) idem: Idempotency,
    pub(crate) store: FaultStore,
    pub(crate) queue: MemoryQueue,
}

impl Bench {
    /// On a store that is not local.
    pub(crate) fn new() -> Self {
        Self::on(FaultStore::new(MemoryStore::new()))
    }

    /// Another process, with a queue of its own, on this store.
    pub(crate) fn on(store: FaultStore) -> Self {
        let idem = Idempotency::builder().store(store.clone()).build().unwrap();
        Self { idem, store, queue: MemoryQueue::new() }
    }

    pub(crate) fn consumer(&self) -> Consumer {
        let millisecond = Duration::from_millis(1);
        Consumer::new(&self.idem, "orders").backoff(millisecond, millisecond * 4)
    }

    /// Consumes until all messages are acknowledged, dead letters or parked.
    pub(crate) async fn consume(&self, messages: impl IntoIterator<Item = Message>) {
        self.consume_with(self.consumer(), messages).await.unwrap();
    }

    pub(crate) async fn consume_with(
        &self,
        consumer: Consumer,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), ConsumerError> {
        messages.into_iter().for_each(|message| self.queue.send(message));
        self.queue.close();
        in_time(consumer.run(self.queue.deliveries(), handle)).await
    }

    /// The numbers of messages that are acknowledged, dead letters, parked, and not settled.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let queue = &self.queue;
        let settled = [queue.acknowledged().len(), queue.dead_letters().len()];
        [settled[0], settled[1], queue.parked().len(), queue.pending()]
    }

    /// The codes of dead letters and of what is parked.
    pub(crate) fn codes(&self) -> Vec<String> {
        let letters = [self.queue.dead_letters(), self.queue.parked()].concat();
        letters.iter().map(|(_, reason)| reason.code().to_owned()).collect()
    }
}
