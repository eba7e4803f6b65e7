//! Signals to the broker that messages are still in hand.
//!
//! A delivery is registered with the [`Heartbeats`] of its consumer while its task waits for something, and one task
//! signals for all that are registered. So a handler that blocks its thread does not hold up the signals of its
//! message, and a message that is done before its first signal is due costs no timer.
//!
//! ```text
//!               register              due                 answered, or cancelled
//!   its task ────────────► waiting ───────► signalling ────────────────────────► waiting
//!       ▲                     │
//!       └─────────────────────┘ withdraw, which cancels a signal and waits for its end
//! ```
//!
//! The task that signals is woken by a timer. A delivery whose signal is due before that, since it was in hand when
//! the timer was set, wakes it and lets it run first: tokio queues it on the same thread, which a handler may block.

use super::settings::Settings;
use super::work::Work;
use crate::unpanicked::unpanicked;
use crate::{Delivery, Message};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// The heartbeats of a consumer.
pub(super) struct Heartbeats<D> {
    registry: Mutex<Registry<D>>,
    /// A signal is due before the task would wake up.
    sooner: Notify,
}

/// The deliveries that the broker is signalled for.
struct Registry<D> {
    entries: HashMap<u64, Entry<D>>,
    next_id: u64,
    /// The time at which the task wakes up.
    wakes_at: Instant,
}

struct Entry<D> {
    due: Instant,
    state: State<D>,
}

enum State<D> {
    Waiting(D),
    Signalling(Arc<Signal>),
}

/// A signal that is under way.
#[derive(Default)]
struct Signal {
    cancelled: Notify,
    ended: Notify,
}

/// The task that signals, which ends when this is dropped.
pub(super) struct HeartbeatTask(AbortHandle);

impl Drop for HeartbeatTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<D: Delivery> Heartbeats<D> {
    pub(super) fn new() -> Self {
        let registry = Registry { entries: HashMap::new(), next_id: 0, wakes_at: Instant::now() };
        Self { registry: Mutex::new(registry), sooner: Notify::new() }
    }

    /// Starts the task that signals.
    pub(super) fn start<C, H>(self: &Arc<Self>, work: &Arc<Work<C, H>>) -> HeartbeatTask
    where
        C: Send + Sync + 'static,
        H: Send + Sync + 'static,
    {
        let (heartbeats, work) = (Arc::clone(self), Arc::clone(work));
        let beats = async move { heartbeats.beat(&work.settings).await };
        HeartbeatTask(tokio::spawn(beats).abort_handle())
    }

    /// Signals for each delivery that is due, for ever. A broker that does not answer holds up no other signal.
    async fn beat(self: Arc<Self>, settings: &Settings) -> Infallible {
        let mut signals = JoinSet::new();
        loop {
            let now = Instant::now();
            // Not from when it was due: signals that were missed are not made up for.
            let next = now + settings.heartbeat();
            let (due, wakes_at) = self.registry().take_due(now, next);
            for (id, delivery, signal) in due {
                let name = Arc::clone(&settings.name);
                signals.spawn(Arc::clone(&self).signal(id, delivery, signal, name));
            }
            tokio::select! {
                () = sleep_until(wakes_at) => {}
                () = self.sooner.notified() => {}
                // Its next signal may be the first that is due.
                Some(_) = signals.join_next() => {}
            }
        }
    }

    async fn signal(
        self: Arc<Self>,
        id: u64,
        mut delivery: D,
        signal: Arc<Signal>,
        name: Arc<str>,
    ) {
        let consumer: &str = &name;
        tokio::select! {
            biased;
            () = signal.cancelled.notified() => {}
            signalled = unpanicked(delivery.in_progress()) => match signalled {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(target: "idempotent", consumer, %error, "progress not signalled");
                }
                None => {
                    tracing::error!(target: "idempotent", consumer, "a signal of progress panicked");
                }
            }
        }
        let dropped = self.registry().put_back(id, delivery);
        signal.ended.notify_one();
        // Without the lock: the broker may be told of it.
        drop(dropped);
    }

    async fn register(&self, delivery: D, due: Instant) -> Registration<'_, D> {
        let (id, wakes_at) = self.registry().add(delivery, due);
        let registration = Registration { heartbeats: self, id: Some(id) };
        if due < wakes_at {
            self.sooner.notify_one();
            tokio::task::yield_now().await;
        }
        registration
    }

    fn registry(&self) -> MutexGuard<'_, Registry<D>> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Registry<D> {
    /// Adds a delivery. Returns its id, and the time at which the task wakes up.
    fn add(&mut self, delivery: D, due: Instant) -> (u64, Instant) {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.insert(id, Entry { due, state: State::Waiting(delivery) });
        (id, self.wakes_at)
    }

    /// Takes the deliveries that are due, and sets the time of their `next` signal. Returns with them the time at
    /// which the first of the others is due, `next` at the latest.
    fn take_due(&mut self, now: Instant, next: Instant) -> (Vec<(u64, D, Arc<Signal>)>, Instant) {
        let mut due = Vec::new();
        self.wakes_at = next;
        for (id, entry) in &mut self.entries {
            if entry.due > now {
                self.wakes_at = self.wakes_at.min(entry.due);
                continue;
            }
            // One whose last signal is not answered is due when it is.
            if matches!(entry.state, State::Signalling(_)) {
                continue;
            }
            let signal = Arc::new(Signal::default());
            let signalling = State::Signalling(Arc::clone(&signal));
            if let State::Waiting(delivery) = mem::replace(&mut entry.state, signalling) {
                entry.due = next;
                due.push((*id, delivery, signal));
            }
        }
        (due, self.wakes_at)
    }

    /// Takes a delivery back after its signal. Returns it if its task is gone.
    fn put_back(&mut self, id: u64, delivery: D) -> Option<D> {
        let Some(entry) = self.entries.get_mut(&id) else { return Some(delivery) };
        entry.state = State::Waiting(delivery);
        None
    }

    /// Removes a delivery, unless a signal is under way.
    fn remove(&mut self, id: u64) -> Result<(D, Instant), Arc<Signal>> {
        match self.entries.remove(&id).expect("a registration is withdrawn once") {
            Entry { due, state: State::Waiting(delivery) } => Ok((delivery, due)),
            Entry { due, state: State::Signalling(signal) } => {
                let state = State::Signalling(Arc::clone(&signal));
                self.entries.insert(id, Entry { due, state });
                Err(signal)
            }
        }
    }
}

/// A delivery that is registered. Dropped, it drops the delivery, and the broker delivers it again.
struct Registration<'a, D: Delivery> {
    heartbeats: &'a Heartbeats<D>,
    /// `None` once it is withdrawn.
    id: Option<u64>,
}

impl<D: Delivery> Registration<'_, D> {
    /// The delivery, and the time at which its next signal is due.
    async fn withdraw(mut self) -> (D, Instant) {
        let id = self.id.expect("a registration is withdrawn once");
        loop {
            let removed = self.heartbeats.registry().remove(id);
            match removed {
                Ok(removed) => {
                    self.id = None;
                    return removed;
                }
                Err(signal) => {
                    signal.cancelled.notify_one();
                    signal.ended.notified().await;
                }
            }
        }
    }
}

impl<D: Delivery> Drop for Registration<'_, D> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // A delivery whose signal is under way is dropped after it.
            let dropped = self.heartbeats.registry().entries.remove(&id);
            drop(dropped);
        }
    }
}

/// A delivery that its task has in hand.
pub(super) struct HeldDelivery<'a, D: Delivery> {
    heartbeats: &'a Heartbeats<D>,
    /// `None` while it is registered.
    delivery: Option<D>,
    due: Instant,
}

impl<'a, D: Delivery> HeldDelivery<'a, D> {
    /// The first signal is due one interval after the delivery.
    pub(super) fn new(heartbeats: &'a Heartbeats<D>, settings: &Settings, delivery: D) -> Self {
        let due = Instant::now() + settings.heartbeat();
        Self { heartbeats, delivery: Some(delivery), due }
    }

    pub(super) fn message(&self) -> &Message {
        self.delivery.as_ref().expect(REGISTERED).message()
    }

    /// Waits for a future, and signals meanwhile. A broker that does not answer does not hold it up.
    pub(super) async fn during<F: Future>(&mut self, future: F) -> F::Output {
        let delivery = self.delivery.take().expect(REGISTERED);
        let registration = self.heartbeats.register(delivery, self.due).await;
        let output = future.await;
        let (delivery, due) = registration.withdraw().await;
        (self.delivery, self.due) = (Some(delivery), due);
        output
    }

    pub(super) fn into_delivery(self) -> D {
        self.delivery.expect(REGISTERED)
    }
}

const REGISTERED: &str = "it is registered only while its task waits";
