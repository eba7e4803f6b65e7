//! Callers in this process that wait for an attempt, as the attempt sees them.

use super::end::End;
use super::state::AttemptState;
use crate::protocol::Updated;
use std::fmt;
use std::sync::Arc;

/// Callers that wait for an attempt. Dropped before they are told of its end, they ask the store
/// for themselves.
pub(crate) trait Waiters: fmt::Debug + Send {
    /// The attempt was granted: the callers wait for it.
    fn granted(&mut self, state: &Arc<AttemptState>);

    /// The attempt has ended. `updated` is the store's answer, if there was one.
    fn ended(&mut self, state: &AttemptState, end: &End, updated: Option<Updated>);
}

/// The waiters of an attempt; `None` where callers do not wait in this process.
pub(crate) type MaybeWaiters = Option<Box<dyn Waiters>>;
