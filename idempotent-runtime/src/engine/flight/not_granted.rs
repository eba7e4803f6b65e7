//! The reason for which a call does not run its body.

use crate::engine::attempt::faults::ended_before_grant;
use crate::protocol::Begun;
use crate::store::{StoreError, StoreErrorKind, Value};
use std::time::Duration;

/// The finding of a call that was not granted an attempt: a recorded answer, another attempt, or a
/// refusal. Callers of one process share the findings that hold for all of them.
#[derive(Debug)]
pub(crate) enum NotGranted {
    /// The instance is disabled: the store was not asked.
    Disabled,
    Succeeded {
        number: u32,
        value: Option<Value>,
    },
    FailedFinal {
        number: u32,
        value: Option<Value>,
    },
    InFlight {
        /// The time for which the key stays held if its holder has died.
        lease_left: Duration,
    },
    /// Two attempts that this call waited for ended without an answer.
    FailedTwice,
    Taken {
        retry_after: Duration,
    },
    Mismatch,
    Indeterminate {
        number: u32,
    },
    /// The body has started as often as it may. The record is that of a final failure.
    Exhausted {
        max_attempts: u32,
    },
    /// As many attempts run in this process as may.
    OverLimit {
        limit: usize,
    },
    Refused(StoreError),
    /// The grant came too late to be used. Others may have run meanwhile.
    TooLate(StoreError),
}

impl NotGranted {
    /// The finding that an answer to `begin` stands for.
    ///
    /// A grant is taken out before. One that is left here could not be used.
    pub(crate) fn from_answer(answer: Result<Begun, StoreError>) -> Self {
        match answer {
            Ok(Begun::Succeeded { number, value }) => Self::Succeeded { number, value },
            Ok(Begun::FailedFinal { number, value }) => Self::FailedFinal { number, value },
            Ok(Begun::InFlight { retry_after, .. }) => Self::InFlight { lease_left: retry_after },
            Ok(Begun::Taken { retry_after }) => Self::Taken { retry_after },
            Ok(Begun::Mismatch) => Self::Mismatch,
            Ok(Begun::Indeterminate { number }) => Self::Indeterminate { number },
            Ok(Begun::Fresh(_) | Begun::Superseded) => Self::TooLate(ended_before_grant()),
            Err(error) => Self::Refused(error),
        }
    }

    /// `true` if another attempt, or a transaction, holds the key.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Self::InFlight { .. } => true,
            Self::Refused(error) => error.kind() == StoreErrorKind::Contended,
            _ => false,
        }
    }

    /// The same for another caller of the key; `None` if that caller has to ask for itself.
    pub(crate) fn share(&self) -> Option<Self> {
        match self {
            Self::Succeeded { number, value } => {
                Some(Self::Succeeded { number: *number, value: value.clone() })
            }
            Self::FailedFinal { number, value } => {
                Some(Self::FailedFinal { number: *number, value: value.clone() })
            }
            Self::Indeterminate { number } => Some(Self::Indeterminate { number: *number }),
            Self::Refused(error) => {
                Some(Self::Refused(StoreError::new(error.kind(), error.to_string())))
            }
            _ => None,
        }
    }
}
