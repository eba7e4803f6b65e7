//! A sign that a record may have changed.

use crate::sync::{Notify, OwnedNotified};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Resolves when the watched record may have changed. May resolve without reason.
pub struct Watch(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Watch {
    /// A watch that never wakes: its holder has to poll.
    pub fn never() -> Self {
        Self(None)
    }

    /// A watch that wakes when `signal` resolves.
    ///
    /// The signal MUST count from this call on, not from its first poll: a change in between would be
    /// missed otherwise.
    pub fn new(signal: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Some(Box::pin(signal)))
    }

    /// A watch on `notify`, armed from now on.
    pub(crate) fn armed(notify: Arc<Notify>) -> Self {
        let mut notified: Pin<Box<OwnedNotified>> = Box::pin(notify.notified_owned());
        notified.as_mut().enable();
        Self(Some(notified))
    }
}

impl Future for Watch {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(signal) => signal.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}
