//! The future of a store's answer: there already, or boxed.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A store's answer to come.
///
/// A store that answers without waiting returns [`StoreFuture::ready`] and saves an allocation.
pub struct StoreFuture<'a, T>(Inner<'a, T>);

enum Inner<'a, T> {
    Ready(Option<T>),
    Boxed(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> StoreFuture<'a, T> {
    /// An answer that is available immediately.
    pub fn ready(answer: T) -> Self {
        Self(Inner::Ready(Some(answer)))
    }

    /// An answer that takes time.
    pub fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self(Inner::Boxed(Box::pin(future)))
    }

    /// The answer, if it is there already.
    pub(crate) fn now(self) -> Result<T, Self> {
        match self.0 {
            Inner::Ready(Some(answer)) => Ok(answer),
            pending => Err(Self(pending)),
        }
    }
}

/// All answers, in order, asked for at once.
pub(crate) fn all<'a, T: Send + Unpin + 'a>(
    answers: impl Iterator<Item = StoreFuture<'a, T>>,
) -> StoreFuture<'a, Vec<T>> {
    after(answers.map(|answer| (None, answer)))
}

/// The same; those about one key are asked for one after the other.
pub(crate) fn all_by_key<'a, K: Eq + Hash, T: Send + Unpin + 'a>(
    answers: impl Iterator<Item = (K, StoreFuture<'a, T>)>,
) -> StoreFuture<'a, Vec<T>> {
    let mut last = HashMap::new();
    after(answers.enumerate().map(|(at, (key, answer))| (last.insert(key, at), answer)))
}

/// All answers, each asked for after the one with this number, if any.
fn after<'a, T: Send + Unpin + 'a>(
    answers: impl Iterator<Item = (Option<usize>, StoreFuture<'a, T>)>,
) -> StoreFuture<'a, Vec<T>> {
    let (before, mut waiting): (Vec<_>, Vec<_>) =
        answers.map(|(before, answer)| (before, (answer, None))).unzip();
    StoreFuture::new(poll_fn(move |context| {
        let mut ready = true;
        for at in 0..waiting.len() {
            // Looked at earlier in this loop: if it is done by now, this one begins.
            if before[at].is_some_and(|before| waiting[before].1.is_none()) {
                ready = false;
                continue;
            }
            let (answer, done) = &mut waiting[at];
            if done.is_some() {
                continue;
            }
            match Pin::new(answer).poll(context) {
                Poll::Ready(answer) => *done = Some(answer),
                Poll::Pending => ready = false,
            }
        }
        if !ready {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut waiting).into_iter().filter_map(|(_, done)| done).collect())
    }))
}

impl<T: Unpin> Future for StoreFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Inner::Ready(answer) => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => panic!("a store's future was polled after it had answered"),
            },
            Inner::Boxed(future) => future.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Inner::Ready(_) => "StoreFuture::Ready",
            Inner::Boxed(_) => "StoreFuture::Boxed",
        })
    }
}
