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
    pub(crate) struct Body<F> {
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

impl Surroundings {
    /// Starts the attempt.
    fn of(attempt: &mut AttemptGuard<'_>) -> Self {
        let span = span(attempt);
        attempt.start();
        let timer = BodyTimer::start(&attempt.state().operation);
        Self { current: attempt.current(), span, timer }
    }
}

impl<F> Body<F> {
    pub(super) fn new(future: F) -> Self {
        Self { future: Some(future), surroundings: None }
    }

    /// Starts the attempt that the body belongs to.
    pub(super) fn start(self: Pin<&mut Self>, attempt: &mut AttemptGuard<'_>) {
        *self.project().surroundings = Some(Surroundings::of(attempt));
    }

    /// A body whose attempt has started; one without an attempt runs unprotected.
    pub(super) fn started(future: F, attempt: Option<&mut AttemptGuard<'_>>) -> Self {
        Self { future: Some(future), surroundings: attempt.map(Surroundings::of) }
    }

    /// Drops the body, if that has not happened yet.
    pub(super) fn clear(self: Pin<&mut Self>) {
        let mut this = self.project();
        match this.surroundings.take() {
            // Cleared before, mostly.
            None if this.future.is_none() => {}
            None => match enclosing() {
                None => this.future.set(None),
                Some(around) => drop(around.conceal(Dropped(&mut || this.future.set(None)))),
            },
            Some(Surroundings { current, span, timer }) => {
                let _entered = span.enter();
                // Dropped rather than polled: the scope drops what it holds with `current` in
                // place, and where a thread that ends has no task-locals any more, without.
                drop(current.scope(Dropped(&mut || this.future.set(None))));
                timer.stop();
            }
        }
    }
}

impl<F: Future> Future for Body<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.as_mut().project();
        let mut polled = Poll::Pending;
        let mut poll = |context: &mut Context<'_>| {
            if let Some(body) = this.future.as_mut().as_pin_mut() {
                polled = body.poll(context);
            }
            if polled.is_ready() {
                // Here, where its surroundings are in place: they need not be entered once more.
                this.future.set(None);
            }
        };
        match this.surroundings {
            None => match enclosing() {
                None => poll(context),
                // Its own attempt is none, and that of the body around it is not its own.
                Some(around) => poll_once(around.conceal(Polled(&mut poll)), context),
            },
            Some(Surroundings { current, span, .. }) => {
                let _entered = span.enter();
                poll_once(current.clone().scope(Polled(&mut poll)), context);
            }
        }
        if polled.is_ready()
            && let Some(Surroundings { timer, .. }) = this.surroundings.take()
        {
            timer.stop();
        }
        polled
    }
}

/// One poll of a body. Like [`Dropped`] it knows nothing of the body's type, so that the scope around it is
/// compiled once, and not for every body.
struct Polled<'a>(&'a mut dyn FnMut(&mut Context<'_>));

impl Future for Polled<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        (self.0)(context);
        Poll::Ready(())
    }
}

fn poll_once(polled: impl Future<Output = ()>, context: &mut Context<'_>) {
    let _ready = pin!(polled).poll(context);
}

/// The end of a body.
struct Dropped<'a>(&'a mut dyn FnMut());

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Never polled.
impl Future for Dropped<'_> {
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
