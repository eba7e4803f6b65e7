//! Signals to the broker that a message is still in hand.

use super::settings::Settings;
use crate::Delivery;
use std::convert::Infallible;
use std::future::Future;
use tokio::time::{Instant, sleep_until};

/// The heartbeat of one delivery.
pub(super) struct Heartbeat<'a> {
    settings: &'a Settings,
    next: Instant,
}

impl<'a> Heartbeat<'a> {
    /// The first signal is due one interval after the delivery.
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self { settings, next: Instant::now() + settings.heartbeat() }
    }

    /// Waits for a future, and signals meanwhile. A broker that does not answer does not hold it up.
    pub(super) async fn during<F: Future>(
        &mut self,
        delivery: &mut impl Delivery,
        future: F,
    ) -> F::Output {
        tokio::select! {
            biased;
            output = future => output,
            never = self.beats(delivery) => match never {},
        }
    }

    async fn beats(&mut self, delivery: &mut impl Delivery) -> Infallible {
        loop {
            sleep_until(self.next).await;
            // Not from when it was due: signals that were missed are not made up for.
            self.next = Instant::now() + self.settings.heartbeat();
            if let Err(error) = delivery.in_progress().await {
                let consumer: &str = &self.settings.name;
                tracing::debug!(target: "idempotent", consumer, %error, "progress not signalled");
            }
        }
    }
}
