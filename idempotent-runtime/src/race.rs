//! Races two futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// The output of the future that was ready first.
#[derive(Debug)]
pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Resolves with the output of the future that is ready first. `left` is polled first.
pub(crate) async fn race<A: Future, B: Future>(left: A, right: B) -> First<A::Output, B::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    poll_fn(|context| {
        if let Poll::Ready(answer) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(answer));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
