//! A body, polled and dropped inside its attempt.
//!
//! Destructors of a body are part of its attempt: they run before the key is free, and see the same
//! [`current`](crate::current) and the same span as the body does.

use crate::engine::attempt::current::{Current, enclosing};
use crate::engine::attempt::{AttemptGuard, AttemptState};
use crate::observe::{BodyTimer, LoggedKey};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tracing::Span;

pin_project! {
    /// A body. It is polled once it has been [started](Body::start) or is to run unprotected, and
    /// dropped as soon as it has ended.
    #[derive(Debug)]
    pub(super) struct Body<F> {
        #[pin]
        future: Option<F>,
        // Absent before the start, and for a body that runs unprotected.
        surroundings: Option<Surroundings>,
    }

    impl<F> PinnedDrop for Body<F> {
        fn drop(this: Pin<&mut Self>) {
            this.clear();
        }
    }
}

/// An attempt, as its body sees it.
#[derive(Debug)]
struct Surroundings {
    current: Current,
    span: Span,
    /// Stopped when the body has been dropped.
    timer: BodyTimer,
}

impl<F> Body<F> {
    pub(super) fn new(future: F) -> Self {
        Self { future: Some(future), surroundings: None }
    }

    /// Starts the attempt that the body belongs to.
    pub(super) fn start(self: Pin<&mut Self>, attempt: &mut AttemptGuard<'_>) {
        let span = span(attempt);
        attempt.start();
        let timer = BodyTimer::start(&attempt.state().operation);
        *self.project().surroundings =
            Some(Surroundings { current: attempt.current(), span, timer });
    }

    /// Drops the body, if that has not happened yet.
    pub(super) fn clear(self: Pin<&mut Self>) {
        let mut this = self.project();
        match this.surroundings.take() {
            // Cleared before, mostly.
            None if this.future.is_none() => {}
            None => match enclosing() {
                None => this.future.set(None),
                Some(around) => drop(around.conceal(Dropped(this.future))),
            },
            Some(Surroundings { current, span, timer }) => {
                let _entered = span.enter();
                // Dropped rather than polled: the scope drops what it holds with `current` in
                // place, and where a thread that ends has no task-locals any more, without.
                drop(current.scope(Dropped(this.future)));
                timer.stop();
            }
        }
    }
}

impl<F: Future> Future for Body<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.as_mut().project();
        let polled = match this.surroundings {
            None => match enclosing() {
                None => Polled(this.future).poll_once(context),
                // Its own attempt is none, and that of the body around it is not its own.
                Some(around) => pin!(around.conceal(Polled(this.future))).poll(context),
            },
            Some(Surroundings { current, span, .. }) => {
                let _entered = span.enter();
                pin!(current.clone().scope(Polled(this.future))).poll(context)
            }
        };
        if polled.is_ready() {
            self.clear();
        }
        polled
    }
}

/// One poll of a body.
struct Polled<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> Polled<'_, F> {
    fn poll_once(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(body) => body.poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F: Future> Future for Polled<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_once(context)
    }
}

/// The end of a body.
struct Dropped<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Dropped<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Never polled.
impl<F> Future for Dropped<'_, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

fn span(attempt: &AttemptGuard<'_>) -> Span {
    let AttemptState { operation, key, .. } = attempt.state();
    let (id, operation) = (attempt.state().id(), &**operation);
    tracing::debug_span!(
        target: "idempotent",
        "idempotent",
        operation,
        key = %LoggedKey { key, in_full: attempt.instance().config.load().log_keys },
        attempt = id.number,
        fence = id.fence,
    )
}
