//! The work of a consumer, which its tasks share.

use super::order::Turn;
use super::settings::Settings;
use super::status::Status;
use crate::{Message, Prepared, observe};
use idempotent_runtime::ambient::CallReport;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::Span;

/// Settings, functions and status of a consumer that runs.
pub(super) struct Work<C, H> {
    pub(super) settings: Settings,
    pub(super) status: Arc<Status>,
    pub(super) decoder: C,
    pub(super) handler: H,
    prepared: Prepared,
    /// One permit for each handler that may run.
    handlers: Semaphore,
    /// The warning was given that the handler is not idempotent.
    is_unprotected: AtomicBool,
    /// The warning was given that records expire too early.
    expires_early: AtomicBool,
}

impl<C, H> Work<C, H> {
    pub(super) fn new(
        settings: Settings,
        status: Arc<Status>,
        decoder: C,
        handler: H,
        prepared: Prepared,
    ) -> Self {
        let handlers = Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS));
        let [is_unprotected, expires_early] = [const { AtomicBool::new(false) }; 2];
        Self {
            settings,
            status,
            decoder,
            handler,
            prepared,
            handlers,
            is_unprotected,
            expires_early,
        }
    }

    /// The permit of a handler that may start without a wait.
    pub(super) fn starts_at_once(&self, turn: &Turn) -> Option<SemaphorePermit<'_>> {
        if !turn.has_come() {
            return None;
        }
        let permit = self.handlers.try_acquire().ok()?;
        // With the permit, as below.
        self.status.conditions().lets_start().then_some(permit)
    }

    /// Waits until a handler may start. `None` if the message has to go back: the consumer drains, or a
    /// message before this one went back.
    pub(super) async fn may_start(&self, turn: &mut Turn) -> Option<SemaphorePermit<'_>> {
        let starts = async {
            turn.comes().await.ok()?;
            let permit = self.handlers.acquire().await.ok()?;
            // With the permit: nobody else may start either, and an outage that began before it was there is seen.
            self.status.may_start().await;
            Some(permit)
        };
        tokio::select! {
            biased;
            () = self.status.drains() => None,
            permit = starts => permit,
        }
    }

    /// The span of a message.
    pub(super) fn span(&self, message: &Message) -> Span {
        match &self.settings.span {
            None => observe::span(&self.settings.name, message),
            Some(span) => {
                catch_unwind(AssertUnwindSafe(|| span(message))).unwrap_or_else(|_| Span::none())
            }
        }
    }

    /// Warns, once each, of functions that do not protect against repeats.
    pub(super) fn look_at(&self, report: Option<&CallReport>) {
        let consumer: &str = &self.settings.name;
        let Some(report) = report else {
            if !self.is_unprotected.swap(true, Relaxed) {
                tracing::warn!(
                    target: "idempotent", consumer,
                    "the handler calls no idempotent function: a message that is delivered again is handled again"
                );
            }
            return;
        };
        let kept = report.retention.filter(|_| report.body_ran && report.refusal.is_none());
        if let (Some(expire), Some(redelivered_for)) = (kept, self.prepared.redelivered_for)
            && expire < redelivered_for
            && !self.expires_early.swap(true, Relaxed)
        {
            tracing::warn!(
                target: "idempotent", consumer, ?expire, ?redelivered_for,
                "records expire before the broker stops to deliver again: a late delivery runs the body"
            );
        }
    }
}
