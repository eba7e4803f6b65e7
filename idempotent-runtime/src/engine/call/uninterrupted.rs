//! Work that a caller cannot interrupt.
//!
//! It runs where the caller is, which costs no switch to another thread. If the caller goes away, it
//! goes on in a task of its own, on the runtime that it began on: connections belong to that one.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tracing::Instrument as _;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs `work` to its end, whether or not the caller waits for it. Needs a runtime around it.
pub(super) fn uninterrupted<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Uninterrupted<T> {
    Uninterrupted { work: Some(Box::pin(work.in_current_span())), runtime: Handle::current() }
}

/// See [`uninterrupted`]. Returns `None` if the work panicked.
pub(super) struct Uninterrupted<T: Send + 'static> {
    work: Option<Work<T>>,
    runtime: Handle,
}

impl<T: Send + 'static> Future for Uninterrupted<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Taken out, so that work which panics is not polled again, here or in a task.
        let Some(mut work) = self.work.take() else { return Poll::Ready(None) };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => {
                self.work = Some(work);
                Poll::Pending
            }
            Err(_) => Poll::Ready(None),
        }
    }
}

impl<T: Send + 'static> Drop for Uninterrupted<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::{Notify, oneshot};

    #[tokio::test]
    async fn work_goes_on_when_its_caller_is_gone() {
        let (go_on, (says, done)) = (Arc::new(Notify::new()), oneshot::channel());
        let told = Arc::clone(&go_on);
        let mut work = uninterrupted(async move {
            told.notified().await;
            says.send(7).unwrap();
        });
        let polled = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut work).poll(context)));
        assert!(polled.await.is_pending());
        drop(work);
        go_on.notify_one();
        assert_eq!(done.await, Ok(7));
    }

    #[tokio::test]
    async fn work_runs_in_its_caller_as_long_as_that_waits() {
        let here = std::thread::current().id();
        let work = uninterrupted(async move { std::thread::current().id() == here });
        assert_eq!(work.await, Some(true));
    }

    #[tokio::test]
    async fn work_that_panics_is_told_as_such_and_not_polled_again() {
        let mut work = uninterrupted(async { panic!("of the work") });
        assert_eq!((&mut work).await, None::<()>);
        assert!(work.work.is_none());
    }
}
