//! The future of a store's answer: there already, or boxed.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::iter;
use std::mem;
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

    /// Starts it: polls it once.
    #[cfg(feature = "redis")]
    pub(crate) async fn started(mut self) -> Self
    where
        T: Unpin,
    {
        match poll_fn(|context| Poll::Ready(Pin::new(&mut self).poll(context))).await {
            Poll::Ready(answer) => Self::ready(answer),
            Poll::Pending => self,
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.0, Inner::Ready(Some(_)))
    }
}

/// All answers, in order, asked for at once.
pub(crate) fn all<'a, T: Send + Unpin + 'a>(
    mut answers: impl Iterator<Item = StoreFuture<'a, T>>,
) -> StoreFuture<'a, Vec<T>> {
    let (mut ready, pending) = ready(&mut answers);
    let Some(first) = pending else { return StoreFuture::ready(ready) };
    let waiting = ready.drain(..).map(StoreFuture::ready).chain([first]).chain(answers).collect();
    after(Vec::new(), waiting)
}

/// The same; those about one key are asked for one after the other.
pub(crate) fn all_by_key<'a, K: Eq + Hash, T: Send + Unpin + 'a>(
    mut answers: impl Iterator<Item = (K, StoreFuture<'a, T>)>,
) -> StoreFuture<'a, Vec<T>> {
    let mut key = None;
    let asked = answers.by_ref().map(|(of, answer)| {
        key = Some(of);
        answer
    });
    let (mut ready, pending) = ready(asked);
    let (Some(first), Some(key)) = (pending, key) else { return StoreFuture::ready(ready) };
    // Those that are there already keep nothing waiting.
    let mut before = vec![None; ready.len()];
    let mut waiting: Vec<_> = ready.drain(..).map(StoreFuture::ready).collect();
    let mut last = HashMap::new();
    for (key, answer) in iter::once((key, first)).chain(answers) {
        before.push(last.insert(key, waiting.len()));
        waiting.push(answer);
    }
    after(before, waiting)
}

/// The answers that are there already, up to the first one that is not.
fn ready<'a, T>(
    answers: impl Iterator<Item = StoreFuture<'a, T>>,
) -> (Vec<T>, Option<StoreFuture<'a, T>>) {
    let mut ready = Vec::with_capacity(answers.size_hint().0);
    for answer in answers {
        match answer.now() {
            Ok(answer) => ready.push(answer),
            Err(pending) => return (ready, Some(pending)),
        }
    }
    (ready, None)
}

/// All answers, each asked for after the one with this number, if any.
fn after<'a, T: Send + Unpin + 'a>(
    before: Vec<Option<usize>>,
    mut waiting: Vec<StoreFuture<'a, T>>,
) -> StoreFuture<'a, Vec<T>> {
    StoreFuture::new(poll_fn(move |context| {
        let mut ready = true;
        for at in 0..waiting.len() {
            // Looked at earlier in this loop: if it is done by now, this one begins.
            if let Some(&Some(before)) = before.get(at)
                && !waiting[before].is_ready()
            {
                ready = false;
                continue;
            }
            let answer = &mut waiting[at];
            if answer.is_ready() {
                continue;
            }
            match Pin::new(&mut *answer).poll(context) {
                Poll::Ready(done) => *answer = StoreFuture::ready(done),
                Poll::Pending => ready = false,
            }
        }
        if !ready {
            return Poll::Pending;
        }
        Poll::Ready(mem::take(&mut waiting).into_iter().filter_map(|it| it.now().ok()).collect())
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
