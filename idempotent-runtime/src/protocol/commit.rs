//! The end of an attempt inside a transaction of the caller's.

use crate::key::RecordKey;
use crate::store::Swap;

/// The completion of an attempt, to be made by the code that commits its effects. See
/// [`Attempt::complete_with`](crate::Attempt::complete_with).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The key of the record.
    pub key: RecordKey,
    /// The record that must be there and the one that takes its place. `None` if the instance is
    /// [disabled](crate::instance::Builder::disabled): there is no record then, and nothing to
    /// compare.
    pub swap: Option<Swap>,
}

/// The outcome of a transaction that was to complete an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The transaction is committed, and the completion with it.
    Stored,
    /// The record was not the one that must be there: another attempt has taken over. The
    /// transaction was rolled back.
    Superseded,
    /// The commit was not answered.
    Unknown,
}
