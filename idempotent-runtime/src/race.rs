//! Races two futures.

use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The output of the future that was ready first.
#[derive(Debug)]
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Resolves with the output of the future that is ready first. `left` is polled first.
///
/// Not an async function, which would keep room for each future twice.
pub(crate) fn race<A: Future, B: Future>(left: A, right: B) -> Race<A, B> {
    Race { left, right }
}

pin_project! {
    /// Two futures, one of which is awaited.
    #[derive(Debug)]
    pub(crate) struct Race<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.left.poll(context) {
            return Poll::Ready(First::Left(answer));
        }
        this.right.poll(context).map(First::Right)
    }
}
