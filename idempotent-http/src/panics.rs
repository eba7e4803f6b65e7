//! Catches panics of handlers, so that the client gets a response.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// A handler panicked.
pub(crate) struct Panicked;

/// Polls a future and turns a panic into an error.
pub(crate) fn catch_panic<F: Future>(
    mut future: Pin<&mut F>,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
}
