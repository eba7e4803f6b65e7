//! The side of a consumer on which deliveries come in. One task at a time waits there.

use super::conditions::{Conditions, Dependency, Phase};
use super::handle::Answer;
use super::order::{Chains, Turn};
use super::status::InHand;
use super::work::Work;
use crate::{Deliveries, Delivery, Message, QueueError};
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A source, which comes back with what it was asked for. `None` if it was told to stop before it had that.
pub(super) type Fetched<S> = (S, Option<Result<Option<<S as Deliveries>::Delivery>, QueueError>>);

/// A source that is asked for one delivery after the other, by whichever task waits for it.
pub(super) struct Source<S, F> {
    /// Kept from delivery to delivery. One that the source has been asked for is not dropped before the consumer ends.
    /// `None` once it is closed.
    next: Mutex<Option<Pin<Box<F>>>>,
    ask: fn(S, Arc<AtomicBool>) -> F,
    /// Nothing is waited for any more.
    is_stopped: Arc<AtomicBool>,
}

/// The end of a wait for a source.
enum Polled<D> {
    Fetched(Result<Option<D>, QueueError>),
    Closed,
    Panicked(Box<dyn Any + Send>),
}

/// The source of a consumer.
pub(super) fn source<S: Deliveries>(
    source: S,
) -> Source<S, impl Future<Output = Fetched<S>> + Send> {
    let (ask, is_stopped) = (ask::<S>, Arc::<AtomicBool>::default());
    let next = ask(source, Arc::clone(&is_stopped));
    Source { next: Mutex::new(Some(Box::pin(next))), ask, is_stopped }
}

/// Asks a source for its next delivery, once this is polled: a source may take a message when it is asked.
async fn ask<S: Deliveries>(mut source: S, is_stopped: Arc<AtomicBool>) -> Fetched<S> {
    let fetched = {
        let mut next = pin!(source.next());
        poll_fn(|context| match is_stopped.load(SeqCst) {
            true => Poll::Ready(None),
            false => next.as_mut().poll(context).map(Some),
        })
        .await
    };
    (source, fetched)
}

impl<S: Deliveries, F: Future<Output = Fetched<S>>> Source<S, F> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Polled<S::Delivery>> {
        let mut slot = self.lock();
        let Some(next) = slot.as_mut() else { return Poll::Ready(Polled::Closed) };
        match catch_unwind(AssertUnwindSafe(|| next.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready((source, fetched))) => {
                next.set((self.ask)(source, Arc::clone(&self.is_stopped)));
                Poll::Ready(fetched.map_or(Polled::Closed, Polled::Fetched))
            }
            Err(panic) => {
                // Nothing of it is looked at any more, and no other panic takes the place of this one.
                let panicked = slot.take();
                drop(slot);
                let _ = catch_unwind(AssertUnwindSafe(|| drop(panicked)));
                Poll::Ready(Polled::Panicked(panic))
            }
        }
    }

    /// Ends the wait for a delivery. The source is kept for those in hand, and has nobody left to fetch for.
    fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
        drop(self.poll(&mut Context::from_waker(Waker::noop())));
    }
}

impl<S, F> Source<S, F> {
    fn lock(&self) -> MutexGuard<'_, Option<Pin<Box<F>>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the source of a consumer when it is dropped. The broker does not deliver here after that.
pub(super) struct ClosesSource<S, F>(pub(super) Arc<Source<S, F>>);

impl<S, F> Drop for ClosesSource<S, F> {
    fn drop(&mut self) {
        let closed = self.0.lock().take();
        // Without the lock: the broker may be told of it.
        drop(closed);
    }
}

/// The deliveries of a source, for the task whose turn it is to wait for them.
pub(super) struct Intake<S, F> {
    source: Arc<Source<S, F>>,
    /// The source was polled for a delivery that has not come. It is polled on, even if an outage begins meanwhile.
    is_asked: bool,
    is_over: bool,
    chains: Chains,
    changes: watch::Receiver<Conditions>,
}

/// A delivery that was taken.
pub(super) struct Taken<'a, D> {
    pub(super) delivery: D,
    /// Its turn, or the answer to it if that is not known.
    pub(super) turn: Result<Turn, Answer>,
    pub(super) counted: InHand<'a>,
}

/// The end of a wait for a delivery.
pub(super) enum Next<'a, D> {
    Delivery(Taken<'a, D>),
    /// There is no other one: the source says so, or the consumer drains.
    Over,
    /// Enough others wait for one.
    NotWanted,
    /// The source panicked.
    Panicked(Box<dyn Any + Send>),
}

impl<S: Deliveries, F: Future<Output = Fetched<S>>> Intake<S, F> {
    pub(super) fn new(source: Arc<Source<S, F>>, changes: watch::Receiver<Conditions>) -> Self {
        let ([is_asked, is_over], chains) = ([false; 2], Chains::default());
        Self { source, is_asked, is_over, chains, changes }
    }

    /// Waits for the next delivery. Dropped, it leaves what the source was asked for to the next wait.
    pub(super) async fn next<'a, C, H>(&mut self, work: &'a Work<C, H>) -> Next<'a, S::Delivery> {
        loop {
            let conditions = *self.changes.borrow_and_update();
            if conditions.phase >= Phase::Draining {
                self.source.stop();
                return Next::Over;
            }
            if self.is_over {
                return Next::Over;
            }
            let pause = conditions.no_fetch_before();
            let polled = tokio::select! {
                biased;
                polled = poll_fn(|context| {
                    // It drains since this wait began: nothing more is fetched.
                    if work.status.conditions().phase >= Phase::Draining {
                        return Poll::Pending;
                    }
                    self.is_asked = true;
                    self.source.poll(context)
                }), if self.is_asked || pause.is_none() => polled,
                _ = self.changes.changed() => continue,
                () = sleep_until(pause.unwrap_or_else(Instant::now)), if pause.is_some() => continue,
            };
            let fetched = match polled {
                Polled::Fetched(fetched) => fetched,
                Polled::Closed => return Next::Over,
                Polled::Panicked(panic) => return Next::Panicked(panic),
            };
            self.is_asked = false;
            match fetched {
                Ok(None) => self.is_over = true,
                Ok(Some(delivery)) => {
                    work.status.answers(Dependency::Source);
                    let turn = self.turn(work, delivery.message());
                    let counted = work.status.takes();
                    return Next::Delivery(Taken { delivery, turn, counted });
                }
                Err(error) => {
                    let consumer: &str = &work.settings.name;
                    tracing::warn!(target: "idempotent", consumer, %error, "no delivery");
                    work.status.fails(Dependency::Source, work.settings.pauses, &error);
                }
            }
        }
    }

    /// The turn of a message, which is free if it has no key. An answer if it is not known.
    fn turn<C, H>(&mut self, work: &Work<C, H>, message: &Message) -> Result<Turn, Answer> {
        let Some(ordered_by) = &work.settings.ordered_by else { return Ok(Turn::default()) };
        match catch_unwind(AssertUnwindSafe(|| ordered_by(message))) {
            Ok(None) => Ok(Turn::default()),
            Ok(Some(key)) => Ok(self.chains.join(key)),
            Err(_) => Err(Answer::dead("order-unknown", "the function of `ordered_by` panicked")),
        }
    }
}
