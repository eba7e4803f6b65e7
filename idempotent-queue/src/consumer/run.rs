//! The loop of a consumer.

use super::Consumer;
use super::conditions::{Dependency, Phase};
use super::handle::Answer;
use super::heartbeat::Heartbeats;
use super::in_hand::{Consequence, reject, take};
use super::order::{Chains, Turn};
use super::prepare::prepare;
use super::work::Work;
use crate::{ConsumerError, Decode, Deliveries, Delivery, Message, QueueError};
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

pub(super) async fn run<S, C, M, H, F, T, E>(
    consumer: Consumer<C>,
    mut source: S,
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
    let Some(prepared) = prepare(&settings, &status, &mut source, &mut shutdown).await? else {
        return Ok(());
    };
    status.enters(Phase::Running);
    let work = Arc::new(Work::new(settings, status, decoder, handler, prepared));
    let heartbeats = Arc::new(Heartbeats::new());
    let _task = heartbeats.start(&work);
    let mut changes = work.status.watch();
    let mut chains = Chains::default();
    // Dropped, it ends its tasks, and their deliveries go back to the broker.
    let mut tasks = JoinSet::new();
    // Kept from turn to turn. One that the source has been asked for is waited for, also if an outage begins
    // meanwhile, and is not dropped before the consumer ends.
    let mut next = pin!(fetch(source));
    let (mut is_asked, mut is_over) = (false, false);
    let stopped = loop {
        let pause = changes.borrow_and_update().no_fetch_before();
        let has_room = pause.is_none() && tasks.len() < work.settings.prefetch();
        if is_over && tasks.is_empty() {
            break None;
        }
        tokio::select! {
            biased;
            () = &mut shutdown => break None,
            Some(ended) = tasks.join_next() => match consequence(&work, ended) {
                Consequence::GoesOn => {}
                Consequence::Ends => break None,
                Consequence::Stops(error) => {
                    let consumer = (*work.settings.name).to_owned();
                    break Some(ConsumerError::Misconfigured { consumer, error });
                }
            },
            _ = changes.changed() => {}
            () = sleep_until(pause.unwrap_or_else(Instant::now)), if pause.is_some() => {}
            (source, fetched) = poll_fn(|context| {
                is_asked = true;
                next.as_mut().poll(context)
            }), if !is_over && (is_asked || has_room) => {
                is_asked = false;
                next.set(fetch(source));
                match fetched {
                    Ok(None) => is_over = true,
                    Ok(Some(delivery)) => {
                        work.status.answers(Dependency::Source);
                        let task = Arc::clone(&work);
                        match turn(&work, &mut chains, delivery.message()) {
                            Ok(turn) => {
                                tasks.spawn(take(task, Arc::clone(&heartbeats), delivery, turn))
                            }
                            Err(answer) => tasks.spawn(reject(task, delivery, answer)),
                        };
                    }
                    Err(error) => {
                        let consumer: &str = &work.settings.name;
                        tracing::warn!(target: "idempotent", consumer, %error, "no delivery");
                        work.status.fails(Dependency::Source, work.settings.pauses, &error);
                    }
                }
            }
        }
    };
    work.status.enters(Phase::Draining);
    drain(&work, &mut tasks, stopped).await
}

/// Asks a source for its next delivery, once this is polled: a source may take a message when it is asked.
async fn fetch<S: Deliveries>(mut source: S) -> (S, Result<Option<S::Delivery>, QueueError>) {
    let fetched = source.next().await;
    (source, fetched)
}

/// The turn of a message, which is free if it has no key. An answer if it is not known.
fn turn<C, H>(work: &Work<C, H>, chains: &mut Chains, message: &Message) -> Result<Turn, Answer> {
    let Some(ordered_by) = &work.settings.ordered_by else { return Ok(Turn::default()) };
    match catch_unwind(AssertUnwindSafe(|| ordered_by(message))) {
        Ok(None) => Ok(Turn::default()),
        Ok(Some(key)) => Ok(chains.join(key)),
        Err(_) => Err(Answer::dead("order-unknown", "the function of `ordered_by` panicked")),
    }
}

/// Waits for the messages in hand. Those that are left go back when the tasks are dropped.
async fn drain<C, H>(
    work: &Work<C, H>,
    tasks: &mut JoinSet<Consequence>,
    mut stopped: Option<ConsumerError>,
) -> Result<(), ConsumerError> {
    let drained = async {
        while let Some(ended) = tasks.join_next().await {
            if let Consequence::Stops(error) = consequence(work, ended) {
                let consumer = (*work.settings.name).to_owned();
                stopped.get_or_insert(ConsumerError::Misconfigured { consumer, error });
            }
        }
    };
    if timeout(work.settings.drain, drained).await.is_err() {
        let (consumer, left): (&str, usize) = (&work.settings.name, tasks.len());
        tracing::warn!(target: "idempotent", consumer, left, "messages go back to the broker");
    }
    stopped.map_or(Ok(()), Err)
}

fn consequence<C, H>(work: &Work<C, H>, ended: Result<Consequence, JoinError>) -> Consequence {
    ended.unwrap_or_else(|error| {
        // Panics of handlers are answers; one of the broker's client leaves the delivery to the broker.
        let consumer: &str = &work.settings.name;
        tracing::error!(target: "idempotent", consumer, %error, "delivery dropped");
        work.status.fails(Dependency::Settling, work.settings.pauses, &error);
        Consequence::GoesOn
    })
}
