//! Runs an async function once per key, across processes and machines. A repeat call gets the first
//! answer.
//!
//! ```
//! use idempotent_runtime::{Error, idempotent};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone)]
//! struct CreateOrder { order_id: u64, item: String }
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Order { id: u64, item: String }
//!
//! #[idempotent(key = "req.order_id", expire = 300, mode = "strong")]
//! async fn create_order(req: CreateOrder) -> Result<Order, Error> {
//!     Ok(Order { id: req.order_id, item: req.item })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let request = CreateOrder { order_id: 42, item: "lamp".into() };
//! let first = create_order(request.clone()).await?;
//! let again = create_order(request).await?; // replayed: the body ran once
//! assert_eq!(first, again);
//! # Ok(()) }
//! ```
//!
//! Without any configuration this uses an embedded [memory store](store::MemoryStore).
//! [`Idempotency::install`] sets another store for the whole program.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod ambient;
mod answer_policy;
mod attempt;
mod backoff;
mod causes;
pub mod clock;
pub mod codec;
pub mod config;
mod derived_key;
mod derived_name;
pub mod detach;
#[cfg(feature = "redis")]
mod effects;
mod engine;
mod error;
mod fingerprint;
pub mod guide;
#[cfg(feature = "ids")]
pub mod ids;
mod install;
pub mod instance;
pub mod key;
pub mod observe;
mod operation;
mod operation_name;
mod options;
mod outcome;
pub mod problem;
pub mod protocol;
mod race;
mod record_handle;
mod site;
pub mod store;
mod switch;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tokens;

pub use answer_policy::AnswerPolicy;
pub use attempt::{Attempt, Begin, Stored};
#[doc(inline)]
pub use config::{Abandon, Config, Mode, OnStoreError, OnUnrecorded, retention};
#[cfg(feature = "redis")]
pub use effects::EffectOutcome;
pub use engine::{Current, current};
pub use error::{BodyRun, Disposition, Error, ErrorKind};
pub use fingerprint::Fingerprint;
pub use install::require_installed;
#[doc(inline)]
pub use instance::Idempotency;
#[doc(inline)]
pub use key::KeyPart;
pub use operation::Operation;
pub use outcome::{Outcome, Recorded};
#[doc(inline)]
pub use protocol::Resolution;

#[doc = include_str!("../docs/key_part.md")]
pub use idempotent_macros::KeyPart;
#[doc = include_str!("../docs/idempotent.md")]
pub use idempotent_macros::idempotent;

/// Runs the examples of the README as doctests.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../README.md")]
pub struct Readme;
