//! The future of a store's answer: there already, or boxed.

use std::fmt;
use std::future::{Future, poll_fn};
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
    /// An answer that is there already.
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
    let mut waiting: Vec<(StoreFuture<'a, T>, Option<T>)> =
        answers.map(|answer| (answer, None)).collect();
    StoreFuture::new(poll_fn(move |context| {
        let mut ready = true;
        for (answer, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
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
