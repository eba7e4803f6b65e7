//! Work in the foreground that goes on in the background if its caller goes away.

use super::instance::Instance;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A job in the foreground that the keeper finishes if its caller goes away.
pub(crate) struct Handoff<T: 'static> {
    instance: Arc<Instance>,
    job: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T> Handoff<T> {
    pub(crate) fn new(
        instance: Arc<Instance>,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self { instance, job: Some(Box::pin(job)) }
    }
}

impl<T> Future for Handoff<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled: one that panics must not be polled again.
        let Some(mut job) = self.job.take() else { return Poll::Pending };
        let answer = job.as_mut().poll(context);
        if answer.is_pending() {
            self.job = Some(job);
        }
        answer
    }
}

impl<T> Drop for Handoff<T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.instance.keeper.spawn(async move { drop(job.await) });
        }
    }
}

#[cfg(test)]
#[path = "handoff_tests.rs"]
mod tests;
