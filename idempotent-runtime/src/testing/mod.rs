//! Test utilities: a check that a function runs once, a movable clock, a store with faults, and a
//! contract suite for stores.
//!
//! A test for any idempotent function, with ten calls at once and a repeat:
//!
//! ```
//! use idempotent_runtime::testing::assert_runs_once;
//! use idempotent_runtime::{Error, idempotent};
//!
//! #[idempotent(key = "order", mode = "strong")]
//! async fn create_order(order: u64) -> Result<u64, Error> {
//!     Ok(order * 10)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let answer = assert_runs_once(10, || create_order(42)).await;
//! assert_eq!(answer, 420);
//! # }
//! ```
//!
//! Tests wait for conditions, never for time: a [`ManualClock`] moves only when a test moves it,
//! and a [`FaultStore`] reports the arrival of a call and holds it until the test lets it go.

mod clock;
pub mod contract;
#[doc(hidden)]
pub mod decoders;
pub mod differential;
mod fault;
mod ledger;
mod model;
mod once;
mod subject;

pub use clock::ManualClock;
pub use fault::{Fault, FaultStore, Gate, Verb};
pub use ledger::Ledger;
pub use once::assert_runs_once;
pub use subject::{MAX_SLACK, MemorySubject, Subject};

use crate::instance::Idempotency;
use std::future::Future;

/// Runs `future` with `instance` in the place of the installed one.
///
/// This gives each test its own instance, without installing one. It does not cross `tokio::spawn`:
/// wrap the spawned future too.
///
/// ```
/// use idempotent_runtime::testing::scoped;
/// use idempotent_runtime::{Error, Idempotency, idempotent};
///
/// #[idempotent(key = "order", mode = "strong")]
/// async fn create_order(order: u64) -> Result<u64, Error> {
///     Ok(order * 10)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::in_memory()?;
/// let answer = scoped(idem.clone(), create_order(42)).await?;
/// assert_eq!(answer, 420);
/// assert_eq!(idem.store().usage().unwrap().entries, 1);
/// # Ok(()) }
/// ```
pub async fn scoped<F: Future>(instance: Idempotency, future: F) -> F::Output {
    instance.scope(future).await
}
