//! The outcomes of a call.

/// The outcome of a call. Every call ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The body ran and its answer is recorded, or will be.
    Executed,
    /// The body ran without protection, because the store failed and the function allows that, or
    /// because the instance is disabled.
    Unprotected,
    /// The body ran and returned an error.
    Failed,
    /// A stored answer was returned.
    Replayed,
    /// A duplicate was turned away.
    Rejected,
    /// Another call was running.
    InProgress,
    /// The key was used with another payload.
    Mismatch,
    /// The outcome of an earlier attempt is unknown.
    Indeterminate,
    /// The body ran, but another attempt had taken over.
    Superseded,
    /// The store gave no positive answer, the instance is shutting down, or the caller has begun too
    /// many keys.
    Refused,
    /// The key or the request was missing a part or invalid, the call re-entrant, or the function set
    /// up wrongly.
    Invalid,
    /// It was done before, but its answer was not kept or cannot be read.
    Unreadable,
    /// The caller went away.
    Cancelled,
    /// The body panicked.
    Panicked,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Executed,
        Self::Unprotected,
        Self::Failed,
        Self::Replayed,
        Self::Rejected,
        Self::InProgress,
        Self::Mismatch,
        Self::Indeterminate,
        Self::Superseded,
        Self::Refused,
        Self::Invalid,
        Self::Unreadable,
        Self::Cancelled,
        Self::Panicked,
    ];

    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Unprotected => "unprotected",
            Self::Failed => "failed",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::Indeterminate => "indeterminate",
            Self::Superseded => "superseded",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Unreadable => "unreadable",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
        }
    }
}
