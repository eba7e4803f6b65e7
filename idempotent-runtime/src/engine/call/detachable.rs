//! Futures that move to a task of their own when they are dropped.

use super::scoped;
use crate::ambient::{self, Ambient, ReportSlot};
use crate::engine::flight::Engine;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Creates a future that continues in a task of its own if it is dropped after its first poll and
/// before its end.
///
/// Until then it is polled by its caller, in the caller's task. The runtime, the current
/// [span](tracing::Span), the [ambient] token and scope, and the instance that `testing::scoped`
/// set are those of the first poll inside a tokio runtime; the new task has them, too. It has
/// neither the other task-locals of the caller, nor the permits and timeouts of the middleware
/// around the caller.
///
/// A future that was never polled inside a tokio runtime is dropped, and so is one whose runtime has
/// shut down. A future that panics is not polled again.
///
/// ```
/// use idempotent_runtime::detach::detachable;
/// use tokio::sync::oneshot;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (start, started) = oneshot::channel();
/// let (end, ended) = oneshot::channel();
/// let mut handler = Box::pin(detachable(async move {
///     let _ = started.await;
///     end.send("finished").unwrap();
/// }));
/// tokio::select! {
///     biased;
///     () = &mut handler => unreachable!("nobody has started it"),
///     () = std::future::ready(()) => drop(handler), // the client has gone
/// }
/// start.send(()).unwrap();
/// assert_eq!(ended.await, Ok("finished"));
/// # }
/// ```
pub fn detachable<F>(future: F) -> Detachable<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Detachable::new(None, future)
}

/// A future that finishes even if it is dropped. Made by [`detachable`].
#[must_use = "futures do nothing unless polled"]
pub struct Detachable<T> {
    /// `None` after the future has ended or panicked.
    future: Option<Boxed<T>>,
    /// `None` before the first poll inside a runtime.
    spawn_context: Option<SpawnContext>,
    /// A function pointer, because `Drop` cannot have the bounds that spawning needs.
    detach: fn(SpawnContext, Boxed<T>),
}

impl<T> Detachable<T> {
    /// Wraps a future. `spawn_context` are those of its first poll, if it was polled before.
    pub(crate) fn new(
        spawn_context: impl Into<Option<SpawnContext>>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self
    where
        T: Send + 'static,
    {
        Self {
            future: Some(Box::pin(future)),
            spawn_context: spawn_context.into(),
            // A runtime that is shutting down drops the future at once.
            detach: |spawn_context, future| drop(spawn_context.spawn(future)),
        }
    }
}

impl<T> Future for Detachable<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if self.spawn_context.is_none() {
            self.spawn_context = SpawnContext::capture();
        }
        // Taken out while it is polled, so that a future that panics is dropped here and not
        // spawned.
        let Some(mut future) = self.future.take() else {
            panic!("a detachable future was polled after it had ended");
        };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T> Drop for Detachable<T> {
    fn drop(&mut self) {
        if let (Some(future), Some(spawn_context)) = (self.future.take(), self.spawn_context.take())
        {
            (self.detach)(spawn_context, future);
        }
    }
}

impl<T> fmt::Debug for Detachable<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Detachable")
            .field("has_ended", &self.future.is_none())
            .finish_non_exhaustive()
    }
}

/// Context of a caller that moves to the new task.
#[derive(Debug)]
pub(crate) struct SpawnContext {
    runtime: Handle,
    span: Span,
    ambient: Option<Ambient>,
    scoped: Option<Arc<Engine>>,
    report: Option<ReportSlot>,
}

impl SpawnContext {
    /// Captures the context of the caller; `None` outside of a tokio runtime.
    pub(crate) fn capture() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let (span, ambient) = (Span::current(), ambient::current());
        let (scoped, report) = (scoped::current(), ambient::report_slot());
        Some(Self { runtime, span, ambient, scoped, report })
    }

    /// Spawns `future` with this context.
    pub(crate) fn spawn<T: Send + 'static>(self, future: Boxed<T>) -> JoinHandle<T> {
        let mut future: Boxed<T> = Box::pin(future.instrument(self.span));
        if let Some(ambient) = self.ambient {
            future = Box::pin(ambient::scope(ambient, future));
        }
        if let Some(slot) = self.report {
            future = Box::pin(ambient::report_to(slot, future));
        }
        if let Some(engine) = self.scoped {
            future = Box::pin(scoped::scope(engine, future));
        }
        self.runtime.spawn(future)
    }
}
