//! A store with faults that a test chooses.
//!
//! It forwards every verb to another store, and yields to the scheduler twice on the way. A test
//! chooses its faults: errors before or after the effect, replies that never come, effects that
//! come late, and calls that are held until the test lets them go.

mod gate;
mod script;
mod store;
mod told;

pub use gate::Gate;
pub use store::FaultStore;

pub use crate::store::Verb;

use crate::store::StoreErrorKind;

/// A fault of one call.
///
/// A store answers [`Full`](StoreErrorKind::Full), [`Contended`](StoreErrorKind::Contended) and
/// [`Undecodable`](StoreErrorKind::Undecodable) only if there was no effect, so those kinds belong
/// in [`Before`](Fault::Before).
///
/// ```
/// use idempotent_runtime::store::{MemoryStore, StoreErrorKind};
/// use idempotent_runtime::testing::{Fault, FaultStore, Verb};
/// use idempotent_runtime::{Error, ErrorKind, Idempotency};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FaultStore::new(MemoryStore::new());
/// let idem = Idempotency::builder().store(store.clone()).build()?;
/// store.fault_always(Verb::Begin, Fault::Before(StoreErrorKind::Unavailable));
///
/// let refused = idem.operation("o").key(1).run(async { Ok::<_, Error>(()) }).await;
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::StoreUnavailable);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No effect, and an error of this kind. The caller cannot tell it from [`Fault::After`].
    Before(StoreErrorKind),
    /// No effect, and an error that [says so](crate::store::StoreError::without_effect): there is
    /// no connection.
    NotSent,
    /// The effect, and an error of this kind: the reply was lost.
    After(StoreErrorKind),
    /// No effect, and never an answer.
    Hang,
    /// The effect, and never an answer.
    HangAfter,
    /// An error of this kind, and the effect when the test calls
    /// [`FaultStore::deliver_late`]: the message was slow.
    Late(StoreErrorKind),
}

#[cfg(test)]
mod tests;
