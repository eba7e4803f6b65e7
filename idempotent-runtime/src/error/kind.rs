//! Kinds of errors, and their stable names.

use std::fmt;

/// The kind of an [`Error`](super::Error).
///
/// It displays, serializes and is read back as its [name](Self::as_str).
///
/// ```
/// use idempotent_runtime::ErrorKind;
///
/// assert_eq!(ErrorKind::InProgress.to_string(), "in_progress");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no key: no ambient token, or an optional field that is `None`.
    MissingKey,
    /// The key is empty or too long.
    InvalidKey,
    /// The operation is already done (reject mode), or the window is taken (window mode).
    Duplicate,
    /// Another call with this key is running, and this one does not wait, or has waited long
    /// enough.
    InProgress,
    /// The key was used before with another payload.
    Mismatch,
    /// An earlier attempt began and its outcome is unknown.
    Indeterminate,
    /// The call chain in this task already holds this key, or a lock that the call needs.
    Reentrant,
    /// The store did not answer.
    StoreUnavailable,
    /// The store, or this process, has no room for another attempt.
    StoreFull,
    /// The store has fewer replicas than required.
    NotReplicated,
    /// The instance is shutting down.
    ShuttingDown,
    /// Another attempt took over, or an operator freed the key. The value was dropped.
    Superseded,
    /// The body returned a value, which the store has not acknowledged, and `on_unrecorded` is
    /// `error`. The value was dropped; it may still be recorded.
    Unrecorded,
    /// The operation succeeded before, but its value was not kept.
    ResultUnavailable,
    /// The operation failed before for good: its error was not kept, or its body has started as often
    /// as it may.
    FailedBefore,
    /// The stored value does not fit the type, the codec or the format version.
    Undecodable,
    /// The instance or the function is misconfigured.
    Misconfigured,
    /// A kind that this version does not know, in an error that a newer version has written. No
    /// call is refused with it.
    Unknown,
}

impl ErrorKind {
    /// All that a call can be refused with.
    pub const ALL: [Self; 17] = [
        Self::MissingKey,
        Self::InvalidKey,
        Self::Duplicate,
        Self::InProgress,
        Self::Mismatch,
        Self::Indeterminate,
        Self::Reentrant,
        Self::StoreUnavailable,
        Self::StoreFull,
        Self::NotReplicated,
        Self::ShuttingDown,
        Self::Superseded,
        Self::Unrecorded,
        Self::ResultUnavailable,
        Self::FailedBefore,
        Self::Undecodable,
        Self::Misconfigured,
    ];

    /// The name of this kind, for logs, labels and the wire. It does not change between releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingKey => "missing_key",
            Self::InvalidKey => "invalid_key",
            Self::Duplicate => "duplicate",
            Self::InProgress => "in_progress",
            Self::Mismatch => "mismatch",
            Self::Indeterminate => "indeterminate",
            Self::Reentrant => "reentrant",
            Self::StoreUnavailable => "store_unavailable",
            Self::StoreFull => "store_full",
            Self::NotReplicated => "not_replicated",
            Self::ShuttingDown => "shutting_down",
            Self::Superseded => "superseded",
            Self::Unrecorded => "unrecorded",
            Self::ResultUnavailable => "result_unavailable",
            Self::FailedBefore => "failed_before",
            Self::Undecodable => "undecodable",
            Self::Misconfigured => "misconfigured",
            Self::Unknown => "unknown",
        }
    }

    /// The kind with this name; [`Unknown`](Self::Unknown) if this version knows none.
    pub(super) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Unknown)
    }

    /// A short description of this kind.
    pub fn description(self) -> &'static str {
        match self {
            Self::MissingKey => "no idempotency key",
            Self::InvalidKey => "invalid idempotency key",
            Self::Duplicate => "duplicate",
            Self::InProgress => "in progress",
            Self::Mismatch => "the key was used with another payload",
            Self::Indeterminate => "the outcome of an earlier attempt is unknown",
            Self::Reentrant => "this call chain already holds the key",
            Self::StoreUnavailable => "the store is unavailable",
            Self::StoreFull => "the store is full",
            Self::NotReplicated => "too few replicas",
            Self::ShuttingDown => "shutting down",
            Self::Superseded => "superseded by another attempt or by an operator",
            Self::Unrecorded => "done, but the result is not recorded",
            Self::ResultUnavailable => "done before, but the result was not kept",
            Self::FailedBefore => "failed before, for good",
            Self::Undecodable => "the stored result cannot be read",
            Self::Misconfigured => "misconfigured",
            Self::Unknown => "refused for a reason that this version does not know",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
