//! A store that fails as told.
//!
//! It passes every verb on to another store and takes two turns of the scheduler for it. What it
//! does beside that, a test chooses: errors before or after the effect, replies that never come,
//! effects that come late, calls that are held until they are let go.

mod gate;
mod script;
mod store;

pub use gate::Gate;
pub use store::FaultStore;

pub use crate::store::Verb;

use crate::store::StoreErrorKind;

/// What goes wrong with a call.
///
/// A store answers [`Full`](StoreErrorKind::Full), [`Contended`](StoreErrorKind::Contended) and
/// [`Undecodable`](StoreErrorKind::Undecodable) only where there was no effect, so those kinds
/// belong into [`Before`](Fault::Before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No effect, and an error of this kind. Its caller cannot tell it from [`Fault::After`].
    Before(StoreErrorKind),
    /// No effect, and an error that [says so](crate::store::StoreError::without_effect): there is
    /// no connection.
    NotSent,
    /// The effect, and an error of this kind: the reply was lost.
    After(StoreErrorKind),
    /// No effect, and no answer ever.
    Hang,
    /// The effect, and no answer ever.
    HangAfter,
    /// An error of this kind, and the effect when the test calls
    /// [`FaultStore::deliver_late`]: the message was slow.
    Late(StoreErrorKind),
}

#[cfg(test)]
mod tests;
