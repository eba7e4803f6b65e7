//! The answer to a transition.

/// The answer of [`StateMachine::apply`](super::StateMachine::apply).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a transition that was not allowed has not happened"]
pub enum TransitionOutcome<S> {
    /// The state was changed, and the log has the transition.
    Applied {
        /// The state before.
        from: S,
        /// The state after.
        to: S,
    },
    /// The transition was applied before, under the same id. Nothing was changed; the entity may
    /// have gone on to other states since.
    Again,
    /// The event has happened before, under another id, and the present state does not allow it a
    /// second time. Nothing was changed.
    Conflict {
        /// The id under which it happened last.
        by: String,
    },
    /// The present state does not allow the event, and the event has not happened before. Nothing
    /// was changed.
    NotAllowed {
        /// The present state.
        from: S,
    },
    /// There is no row with this key. Nothing was changed.
    NotFound,
}

impl<S> TransitionOutcome<S> {
    /// `true` if the transition has happened under this id: just now, or before.
    pub fn has_happened(&self) -> bool {
        matches!(self, Self::Applied { .. } | Self::Again)
    }
}
