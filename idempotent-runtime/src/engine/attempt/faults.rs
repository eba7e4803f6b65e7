//! Errors of a store that did not answer in time, as the engine words them.

use crate::store::{StoreError, StoreErrorKind};

fn unavailable(text: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, text)
}

/// The error of a store that is not as local as it says.
pub(in crate::engine) fn not_local() -> StoreError {
    unavailable("the store says it is local, but did not answer at once")
}

/// The error of a message that the store did not answer in time.
pub(in crate::engine) fn unanswered() -> StoreError {
    unavailable("the store did not answer within a lease")
}

/// The error of an end that is not known to be recorded.
pub(in crate::engine) fn not_recorded_yet() -> StoreError {
    unavailable("the store did not answer within a lease; recording goes on")
}

/// The error of a grant that came too late to be used.
pub(in crate::engine) fn too_late() -> StoreError {
    unavailable("the store took longer than the lease to answer")
}

/// The error of a grant that was lost again.
pub(in crate::engine) fn lost() -> StoreError {
    unavailable("the lease was lost before the body could start")
}

/// The error of an attempt that an operator, or another copy of its `begin`, has ended.
pub(in crate::engine) fn ended_before_grant() -> StoreError {
    unavailable("the attempt was ended before it was granted")
}
