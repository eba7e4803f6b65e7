//! The tasks of a consumer.
//!
//! Each hand is a task that takes a delivery, handles it, settles it, and takes the next one. One hand at a time waits for
//! the source; when it has a delivery, another one that has nothing to do takes its place, or a new one if all are
//! busy. So a message that is there when a hand is done with the one before wakes nobody, and needs no task of its own.

use super::Consumer;
use super::conditions::{Dependency, Phase};
use super::heartbeat::Heartbeats;
use super::in_hand::{Consequence, reject, take};
use super::intake::{ClosesSource, Fetched, Intake, Next, Taken, source};
use super::prepare::prepare;
use super::work::Work;
use crate::{ConsumerError, Decode, Deliveries};
use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::replace;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use tokio::sync::{Mutex, Notify};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

pub(super) async fn run<S, C, M, H, F, T, E>(
    consumer: Consumer<C>,
    mut deliveries: S,
    handler: H,
) -> Result<(), ConsumerError>
where
    S: Deliveries,
    C: Decode<M>,
    M: Send + 'static,
    H: Fn(M) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    let Consumer { settings, decoder, mut shutdown, life } = consumer;
    if settings.name.is_empty() {
        let error = "its name is empty, which is part of the scope of keys".to_owned();
        return Err(ConsumerError::Misconfigured { consumer: String::new(), error });
    }
    let status = Arc::clone(&life.0);
    let Some(prepared) = prepare(&settings, &status, &mut deliveries, &mut shutdown).await? else {
        return Ok(());
    };
    status.enters(Phase::Running);
    let source = Arc::new(source(deliveries));
    let intake = Intake::new(Arc::clone(&source), status.watch());
    let work = Arc::new(Work::new(settings, status, decoder, handler, prepared));
    let heartbeats = Arc::new(Heartbeats::new());
    let _task = heartbeats.start(&work);
    let crew = Arc::new(Crew::new(intake));
    let hand = || {
        let (crew, work, heartbeats) = (crew.clone(), work.clone(), heartbeats.clone());
        async move {
            loop {
                let Taken { delivery, turn, counted } = match crew.next(&work).await {
                    Next::Delivery(taken) => taken,
                    Next::Over => return Ended::Done,
                    Next::NotWanted => return Ended::NotWanted,
                    Next::Panicked(panic) => return Ended::SourcePanicked(panic),
                };
                let consequence = match turn {
                    Ok(turn) => take(&work, &heartbeats, delivery, turn).await,
                    Err(answer) => reject(&work, delivery, answer).await,
                };
                drop(counted);
                let ended = match consequence {
                    Consequence::GoesOn => continue,
                    Consequence::Ends => Ended::Ends,
                    Consequence::Stops(error) => Ended::Stops(error),
                };
                // The other hands know of it before they take another message.
                work.status.enters(Phase::Draining);
                return ended;
            }
        }
    };
    // A task, so that the hands know of it before they take another message, however seldom this future is polled.
    let mut told = JoinSet::new();
    let status = Arc::clone(&work.status);
    told.spawn(async move {
        shutdown.await;
        status.enters(Phase::Draining);
    });
    // Dropped, it ends its tasks, and their deliveries go back to the broker.
    let mut hands = JoinSet::new();
    // Declared after the hands, so dropped before them: the messages that they leave must not be delivered here again.
    let _closes_source = ClosesSource(source);
    hands.spawn(hand());
    let stopped = loop {
        crew.hand_count.store(hands.len(), SeqCst);
        tokio::select! {
            biased;
            Some(told) = told.join_next() => match told.map_err(JoinError::try_into_panic) {
                Err(Ok(panic)) => resume_unwind(panic),
                Ok(()) | Err(Err(_)) => break None,
            },
            ended = hands.join_next() => match ended.map(|ended| ending(&work, ended)) {
                // The source has no more deliveries, and the last one is settled.
                None => break None,
                Some(Ended::Done) => {}
                Some(Ended::NotWanted) => {
                    // Those that it left it to may all have taken a message since, and have counted on it.
                    crew.hand_count.store(hands.len(), SeqCst);
                    if crew.idle.load(SeqCst) == 0 {
                        crew.wants_hand.notify_one();
                    }
                }
                Some(Ended::Panicked) => drop(hands.spawn(hand())),
                Some(Ended::Ends) => break None,
                Some(Ended::Stops(error)) => break Some(misconfigured(&work, error)),
                Some(Ended::SourcePanicked(panic)) => resume_unwind(panic),
            },
            () = crew.wants_hand.notified() => {
                if hands.len() < work.settings.prefetch() {
                    hands.spawn(hand());
                }
            }
        }
    };
    work.status.enters(Phase::Draining);
    drain(&work, &mut hands, stopped).await
}

/// The largest number of hands that wait for the place at the source. A hand that would be one more ends instead.
const MOST_IDLE: usize = 64;

/// The end of a hand.
enum Ended {
    /// There is nothing more to take.
    Done,
    /// Enough others wait to take a message.
    NotWanted,
    /// The instance was shut down, or the runtime.
    Ends,
    /// No message can be settled.
    Stops(String),
    /// It has panicked, with a delivery.
    Panicked,
    /// The source has panicked.
    SourcePanicked(Box<dyn Any + Send>),
}

/// The place at which the hands of a consumer take deliveries.
struct Crew<S, F> {
    /// Held by the one that waits for the source.
    intake: Mutex<Intake<S, F>>,
    /// Those that wait for the place at the source.
    idle: AtomicUsize,
    /// The number of hands when the consumer was polled last. Some may have ended since.
    hand_count: AtomicUsize,
    /// All hands are busy, and there may be another one.
    wants_hand: Notify,
}

impl<S, F> Crew<S, F>
where
    S: Deliveries,
    F: Future<Output = Fetched<S>>,
{
    fn new(intake: Intake<S, F>) -> Self {
        let [idle, hand_count] = [const { AtomicUsize::new(0) }; 2];
        Self { intake: Mutex::new(intake), idle, hand_count, wants_hand: Notify::new() }
    }

    /// The next delivery for this hand.
    async fn next<'a, C, H>(&self, work: &'a Work<C, H>) -> Next<'a, S::Delivery> {
        let Some(idle) = Idle::new(&self.idle) else { return Next::NotWanted };
        let mut intake = self.intake.lock().await;
        drop(idle);
        let next = intake.next(work).await;
        if !matches!(next, Next::Delivery(_)) {
            return next;
        }
        let has_successor = self.idle.load(SeqCst) > 0;
        let is_short = !has_successor && self.hand_count.load(SeqCst) < work.settings.prefetch();
        if is_short {
            self.wants_hand.notify_one();
        }
        drop(intake);
        behind_woken_tasks().await;
        next
    }
}

/// A hand that has nothing to do.
struct Idle<'a>(&'a AtomicUsize);

impl<'a> Idle<'a> {
    /// `None` if there are enough of them.
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let others = count.fetch_add(1, SeqCst);
        let idle = Self(count);
        (others < MOST_IDLE).then_some(idle)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Reschedules this task behind those that were woken since it waited last, by the message before or by the source. tokio
/// keeps the last of them in a slot of this thread from which no other thread takes it, and a handler may block the thread.
async fn behind_woken_tasks() {
    let mut has_waited = false;
    poll_fn(|context| {
        if replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for the messages in hand. Those that are left go back when the tasks are dropped.
async fn drain<C, H>(
    work: &Work<C, H>,
    hands: &mut JoinSet<Ended>,
    mut stopped: Option<ConsumerError>,
) -> Result<(), ConsumerError> {
    let drained = async {
        while let Some(ended) = hands.join_next().await {
            match ending(work, ended) {
                Ended::Stops(error) => {
                    stopped.get_or_insert_with(|| misconfigured(work, error));
                }
                Ended::SourcePanicked(panic) => resume_unwind(panic),
                Ended::Done | Ended::NotWanted | Ended::Ends | Ended::Panicked => {}
            }
        }
    };
    let is_cut_off = timeout(work.settings.drain, drained).await.is_err();
    let (consumer, left): (&str, usize) = (&work.settings.name, work.status.in_hand());
    if is_cut_off && left > 0 {
        tracing::warn!(target: "idempotent", consumer, left, "messages go back to the broker");
    }
    stopped.map_or(Ok(()), Err)
}

fn ending<C, H>(work: &Work<C, H>, ended: Result<Ended, JoinError>) -> Ended {
    ended.unwrap_or_else(|error| {
        if error.is_cancelled() {
            // Its runtime has ended.
            return Ended::Ends;
        }
        // Panics of handlers are answers; one of the broker's client leaves the delivery to the broker.
        let consumer: &str = &work.settings.name;
        tracing::error!(target: "idempotent", consumer, %error, "delivery dropped");
        work.status.fails(Dependency::Settling, work.settings.pauses, &error);
        Ended::Panicked
    })
}

fn misconfigured<C, H>(work: &Work<C, H>, error: String) -> ConsumerError {
    ConsumerError::Misconfigured { consumer: (*work.settings.name).to_owned(), error }
}
