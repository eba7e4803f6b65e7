//! A `begin` that was sent, until it is answered or released.

use crate::clock::Moment;
use crate::protocol::{BeginRequest, Begun, Binding};
use crate::store::StoreError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// A `begin` that may have reached the store.
pub(crate) struct PendingBegin {
    pub(crate) request: BeginRequest,
    /// The retention of the record if its attempt is not the first and has to be released.
    pub(crate) retention: Duration,
    /// The payload that may follow in that case.
    pub(crate) binding: Binding,
    /// The moment at which it was first sent: the lease counts from here.
    pub(crate) at: Moment,
    /// Copies that were sent before.
    pub(crate) copies: Copies,
    /// The message that is under way, if it has not been answered.
    pub(crate) begin: Option<BeginFuture>,
}

/// Copies of the `begin` of an attempt that may still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// All were answered, or had no effect.
    Answered,
    /// A `begin` was not answered, and may take effect at any time.
    Unanswered,
}

impl PendingBegin {
    /// Polls the message, which is taken out meanwhile: one that panics must not be polled again by
    /// the next leader. To that leader it was sent, and not answered.
    pub(crate) fn poll_begin(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Begun, StoreError>> {
        let Some(mut begin) = self.begin.take() else { return Poll::Pending };
        let copies = std::mem::replace(&mut self.copies, Copies::Unanswered);
        let answer = begin.as_mut().poll(context);
        self.copies = copies;
        if answer.is_pending() {
            self.begin = Some(begin);
        }
        answer
    }
}

/// A message under way, owned, so that it can be handed on.
pub(crate) type BeginFuture = Pin<Box<dyn Future<Output = Result<Begun, StoreError>> + Send>>;

impl fmt::Debug for PendingBegin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PendingBegin")
            .field("token", &self.request.token)
            .field("under_way", &self.begin.is_some())
            .finish_non_exhaustive()
    }
}
