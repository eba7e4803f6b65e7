//! A publisher that answers as a test has it, and remembers everything that got through.

use idempotent_queue::producer::{Destination, Producer};
use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt};
use idempotent_runtime::Idempotency;
use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The answer of a broker to one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It keeps the message.
    Confirms,
    /// It keeps the message, and the confirmation is lost.
    IsLost,
    /// It keeps the message, and its confirmation never comes.
    Hangs,
    /// The message never gets there.
    HangsBefore,
    /// It keeps the message once the test lets it.
    Waits,
    /// It will not take the message for the moment.
    IsBusy,
    /// It will never take the message.
    Refuses,
}

/// A broker in memory. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Broker(Arc<Inner>);

#[derive(Default)]
struct Inner {
    kept: Mutex<Vec<Outgoing>>,
    answers: Mutex<VecDeque<Answer>>,
    asked: AtomicUsize,
    go_on: Notify,
}

impl Broker {
    /// A broker whose first answers are these, and which confirms from then on.
    pub(crate) fn with(answers: impl IntoIterator<Item = Answer>) -> Self {
        let broker = Self::default();
        broker.will(answers);
        broker
    }

    /// Gives these answers after those that it was told before.
    pub(crate) fn will(&self, answers: impl IntoIterator<Item = Answer>) {
        self.0.answers.lock().unwrap().extend(answers);
    }

    /// A producer to `orders` that loses no time.
    pub(crate) fn producer(&self, idem: &Idempotency) -> Producer<Destination<Self>> {
        let millisecond = Duration::from_millis(1);
        Producer::new(idem, Destination::new(self.clone(), "orders"))
            .backoff(millisecond, millisecond)
    }

    /// Ids of the messages that it keeps.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.kept().iter().map(|message| message.id().to_owned()).collect()
    }

    pub(crate) fn kept(&self) -> Vec<Outgoing> {
        self.0.kept.lock().unwrap().clone()
    }

    /// The number of times that it was given a message.
    pub(crate) fn asked(&self) -> usize {
        self.0.asked.load(SeqCst)
    }

    pub(crate) fn go_on(&self) {
        self.0.go_on.notify_one();
    }

    fn keep(&self, message: &Outgoing) -> Receipt {
        let mut kept = self.0.kept.lock().unwrap();
        kept.push(message.clone());
        Receipt::at(kept.len().to_string())
    }
}

impl Publisher for Broker {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let answer = self.0.answers.lock().unwrap().pop_front().unwrap_or(Answer::Confirms);
        if answer == Answer::HangsBefore {
            self.0.asked.fetch_add(1, SeqCst);
            return pending().await;
        }
        if answer == Answer::Waits {
            self.0.asked.fetch_add(1, SeqCst);
            self.0.go_on.notified().await;
            return Ok(self.keep(message));
        }
        let receipt = match answer {
            Answer::IsBusy | Answer::Refuses => None,
            _ => Some(self.keep(message)),
        };
        self.0.asked.fetch_add(1, SeqCst);
        match (answer, receipt) {
            (Answer::Hangs, _) => pending().await,
            (Answer::IsLost, _) => Err(PublishError::unavailable("connection reset")),
            (Answer::IsBusy, _) => Err(PublishError::retryable("queue is full")),
            (_, Some(receipt)) => Ok(receipt),
            (_, None) => Err(PublishError::permanent("no such queue")),
        }
    }
}
