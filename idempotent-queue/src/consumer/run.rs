//! The loop of a consumer.

use super::Settings;
use super::handle::{Handled, handle};
use crate::{ConsumerError, Deliveries, Message, Settlement};
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

pub(super) async fn run<S, D, M, X, H, F, T, E>(
    settings: Settings,
    mut shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    mut deliveries: S,
    decode: D,
    handler: H,
) -> Result<(), ConsumerError>
where
    S: Deliveries,
    D: Fn(&Message) -> Result<M, X> + Send + Sync + 'static,
    M: Send + 'static,
    X: StdError + Send + 'static,
    H: Fn(M) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: fmt::Display + Send + 'static,
{
    let settings = Arc::new(settings);
    let functions = Arc::new((decode, handler));
    // Dropped, it ends its tasks, and their deliveries go back to the broker.
    let mut tasks = JoinSet::new();
    let mut outages = Outages::default();
    let mut stopped = None;
    while stopped.is_none() {
        let now = Instant::now();
        let pause = outages.until().filter(|until| *until > now);
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = tasks.join_next() => stopped = outages.look_at(ended, &settings),
            () = sleep_until(pause.unwrap_or(now)), if pause.is_some() => {}
            // Not asked before it is polled: a source may take a message at once.
            next = async { deliveries.next().await }, if pause.is_none() && tasks.len() < settings.concurrency => {
                match next {
                    Ok(None) => break,
                    Ok(Some(delivery)) => {
                        outages.source = Outage::default();
                        let (settings, functions) = (Arc::clone(&settings), Arc::clone(&functions));
                        tasks.spawn(async move {
                            let (decode, handler) = &*functions;
                            handle(&settings, delivery, decode, handler).await
                        });
                    }
                    Err(error) => {
                        let consumer: &str = &settings.name;
                        tracing::warn!(target: "idempotent", consumer, %error, "no delivery");
                        outages.source.goes_on(&settings);
                    }
                }
            }
        }
    }
    let drained = async {
        while let Some(ended) = tasks.join_next().await {
            let error = outages.look_at(ended, &settings);
            stopped = stopped.take().or(error);
        }
    };
    if timeout(settings.drain, drained).await.is_err() {
        let (consumer, left): (&str, usize) = (&settings.name, tasks.len());
        tracing::warn!(target: "idempotent", consumer, left, "messages go back to the broker");
    }
    stopped.map_or(Ok(()), Err)
}

/// Outages of those that a consumer depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Outages {
    store: Outage,
    /// The broker delivers nothing.
    source: Outage,
    /// The broker takes no settlements.
    settling: Outage,
}

/// An outage, in which nothing is fetched.
#[derive(Clone, Copy, Debug, Default)]
struct Outage {
    failures: u32,
    until: Option<Instant>,
}

impl Outages {
    fn until(&self) -> Option<Instant> {
        self.store.until.max(self.source.until).max(self.settling.until)
    }

    /// Learns from a delivery whether store and broker answer. An error ends the consumer.
    fn look_at(
        &mut self,
        ended: Result<Handled, JoinError>,
        settings: &Settings,
    ) -> Option<ConsumerError> {
        // Panics of handlers are caught; one of the broker's client leaves the delivery to the broker.
        let handled = match ended {
            Ok(handled) => handled,
            Err(error) => {
                let consumer: &str = &settings.name;
                tracing::error!(target: "idempotent", consumer, %error, "delivery dropped");
                self.settling.goes_on(settings);
                return None;
            }
        };
        match handled.is_settled {
            true => self.settling = Outage::default(),
            false => self.settling.goes_on(settings),
        }
        match handled.settlement {
            Settlement::Pause => self.store.goes_on(settings),
            Settlement::Stop => {
                let (consumer, error) = (settings.name.clone(), handled.error);
                return Some(ConsumerError::Misconfigured { consumer, error });
            }
            // One that did not ask the store says nothing of it.
            _ if handled.store_answered => self.store = Outage::default(),
            _ => {}
        }
        None
    }
}

impl Outage {
    fn goes_on(&mut self, settings: &Settings) {
        // Messages that failed together are one failure.
        if self.until.is_none_or(|until| until <= Instant::now()) {
            self.failures = self.failures.saturating_add(1);
            self.until = Some(Instant::now() + settings.pauses.after(self.failures));
        }
    }
}
