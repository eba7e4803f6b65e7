//! The end of an attempt, as a value.

use super::state::AttemptState;
use crate::protocol::{Failure, IfGone, Progress};
use crate::store::{Value, Verb};
use std::time::Duration;

/// The way in which an attempt ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Complete {
        value: Option<Value>,
        retention: Duration,
    },
    /// As `Complete`, after somebody else has written the answer: it is not written again.
    Committed {
        value: Option<Value>,
        retention: Duration,
    },
    Fail(Failure),
    Abandon,
    Release,
}

/// The loss if the end of an attempt is never recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// An answer, or the freedom of a key that blocks.
    Answer,
    /// The rest of a lease.
    Lease,
}

impl End {
    pub(super) fn verb(&self) -> Verb {
        match self {
            Self::Complete { .. } | Self::Committed { .. } => Verb::Complete,
            Self::Fail(_) => Verb::Fail,
            Self::Abandon => Verb::Abandon,
            Self::Release => Verb::Release,
        }
    }

    /// The same, once somebody else has written it.
    pub(crate) fn committed(self) -> Self {
        match self {
            Self::Complete { value, retention } => Self::Committed { value, retention },
            other => other,
        }
    }

    /// The size of the value that it carries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Complete { value: Some(value), .. }
            | Self::Committed { value: Some(value), .. }
            | Self::Fail(Failure::Final(Some(value))) => value.as_bytes().len(),
            _ => 0,
        }
    }

    /// The loss if this end is never recorded.
    pub(super) fn worth(&self, state: &AttemptState) -> Worth {
        match self {
            Self::Complete { .. } | Self::Fail(Failure::Final(_)) => Worth::Answer,
            // It is there already. What is left is to tell those who wait.
            Self::Committed { .. } => Worth::Lease,
            // Unless it is recorded, the key blocks until an operator resolves it.
            Self::Fail(Failure::Free(_)) | Self::Abandon if state.blocks() => Worth::Answer,
            Self::Release if state.may_block() => Worth::Answer,
            Self::Fail(Failure::Free(_)) | Self::Abandon | Self::Release => Worth::Lease,
        }
    }

    /// The same as the protocol takes it.
    pub(super) fn progress(&self, state: &AttemptState) -> Progress {
        // Only an answer asks: the clock is not read for anything else.
        let if_gone = match self {
            Self::Complete { .. } => if_gone(state),
            _ => IfGone::Leave,
        };
        self.progress_with(state, if_gone)
    }

    /// The same, with this treatment of a record that is gone.
    pub(super) fn progress_with(&self, state: &AttemptState, if_gone: IfGone) -> Progress {
        let (retention, binding) = (state.retention, state.binding());
        match self {
            Self::Complete { value, retention } => {
                Progress::Completed { value: value.clone(), retention: *retention, if_gone }
            }
            Self::Committed { value, retention } => Progress::Completed {
                value: value.clone(),
                retention: *retention,
                if_gone: IfGone::Leave,
            },
            Self::Fail(failure) => Progress::Failed { failure: failure.clone(), retention },
            Self::Abandon => Progress::Abandoned { retention, binding },
            Self::Release => Progress::Released { retention, binding },
        }
    }
}

/// The treatment of a record that is gone. Without its lease an attempt does not know which others
/// have run since, and what became of their answers.
pub(super) fn if_gone(state: &AttemptState) -> IfGone {
    if state.is_over() { IfGone::Leave } else { IfGone::Rewrite }
}
