//! The next step of a caller that was refused.

use super::ErrorKind;
use std::time::Duration;

/// The next step of a caller whose call was refused, from [`Error::disposition`](super::Error::disposition).
///
/// ```
/// use idempotent_runtime::{Disposition, Error};
/// use std::time::Duration;
///
/// enum Job { Finished, Again { after: Duration }, DeadLetter }
///
/// fn settle(error: &Error) -> Job {
///     match error.disposition() {
///         Disposition::Done => Job::Finished,
///         Disposition::Retry { after } => Job::Again { after: after.unwrap_or(Duration::from_secs(1)) },
///         Disposition::GiveUp => Job::DeadLetter,
///         // An operator has to look at the record or the configuration, so the job is kept.
///         _ => Job::Again { after: Duration::from_secs(3600) },
///     }
/// }
/// # let _ = settle;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Disposition {
    /// The work was done by an earlier call, and there is no answer to return. Nothing is left to
    /// do.
    Done,
    /// The same call with the same key can end differently.
    Retry {
        /// The time after which it makes sense, if it is known.
        after: Option<Duration>,
    },
    /// The same call with the same key always ends like this: the key, the payload or the program
    /// has to change.
    GiveUp,
    /// An operator has to look at the record or at the configuration. After that, the same call with the
    /// same key can end differently.
    AskOperator,
}

impl Disposition {
    /// The next step after a refusal of this kind that names this time.
    pub(crate) fn of(kind: ErrorKind, retry_after: Option<Duration>) -> Self {
        match (kind, retry_after) {
            // A window that is taken now is free later.
            (ErrorKind::Duplicate | ErrorKind::Unknown, Some(_)) => {
                Self::Retry { after: retry_after }
            }
            (ErrorKind::Duplicate | ErrorKind::ResultUnavailable, _) => Self::Done,
            (
                ErrorKind::InProgress
                | ErrorKind::StoreUnavailable
                | ErrorKind::StoreFull
                | ErrorKind::NotReplicated
                | ErrorKind::ShuttingDown
                | ErrorKind::Superseded
                | ErrorKind::Unrecorded,
                after,
            ) => Self::Retry { after },
            (
                ErrorKind::MissingKey
                | ErrorKind::InvalidKey
                | ErrorKind::Mismatch
                | ErrorKind::Reentrant
                | ErrorKind::FailedBefore,
                _,
            ) => Self::GiveUp,
            (
                ErrorKind::Indeterminate
                | ErrorKind::Undecodable
                | ErrorKind::Misconfigured
                | ErrorKind::Unknown,
                _,
            ) => Self::AskOperator,
        }
    }

    /// `true` for [`Retry`](Self::Retry).
    pub fn is_retry(self) -> bool {
        matches!(self, Self::Retry { .. })
    }
}
