//! Runs an async function once per key, across processes and machines. A repeat call gets the first
//! answer, or a clear refusal.
//!
//! This page is the short version. The [guide] has a page for each topic, and
//! [`#[idempotent]`](macro@idempotent) an example for every argument.
//!
//! # Install
//!
//! The crate is not published yet, so a program depends on a checkout or on the Git repository:
//!
//! ```toml
//! [dependencies]
//! idempotent-runtime = { version = "0.1", path = "../idempotent/idempotent-runtime" }
//! serde = { version = "1", features = ["derive"] }
//! thiserror = "2"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! # An idempotent function
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
//! #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
//! enum OrderError {
//!     #[error("{0} is sold out")]
//!     SoldOut(String),
//!     #[error(transparent)]
//!     Refused(#[from] Error), // with kind(), retry_after() and disposition()
//! }
//!
//! impl OrderError {
//!     fn is_final(&self) -> bool { matches!(self, Self::SoldOut(_)) }
//! }
//!
//! #[idempotent(key = "req.order_id", mode = "strong", expire = "10m", wait = "5s", final_errors = OrderError::is_final)]
//! async fn create_order(req: CreateOrder) -> Result<Order, OrderError> {
//!     if req.item == "unicorn" {
//!         return Err(OrderError::SoldOut(req.item)); // final: a repeat gets it too
//!     }
//!     Ok(Order { id: req.order_id, item: req.item })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), OrderError> {
//! let request = CreateOrder { order_id: 42, item: "lamp".into() };
//! let first = create_order(request.clone()).await?;
//! let again = create_order(request).await?; // replayed: the body ran once
//! assert_eq!(first, again);
//! # Ok(()) }
//! ```
//!
//! The key can also be written without quotes, `key = req.order_id`. Both forms are checked at compile
//! time; without quotes, the compiler also points at the one wrong name and offers a similar one that
//! can be applied, and editors complete, rename and navigate the path.
//!
//! # Modes
//!
//! | [`Mode`] | duplicate while the body runs | duplicate after a success | use it for |
//! | --- | --- | --- | --- |
//! | `"reject"`, the default | refused at once | refused | messages, jobs, notifications |
//! | `"strong"` | waits for [`wait`](macro@idempotent#wait), 300 ms by default, then gets the answer | the stored answer | payments, orders, bookings |
//! | `"window"` | refused | refused, until `expire` after the start | double clicks |
//!
//! [Choosing](guide::choosing) helps to pick a key, a mode and the times.
//!
//! # Errors
//!
//! A function returns a `Result` whose error implements [`From<Error>`](Error), so that a call can be refused.
//! [`Error::kind`] is the reason, [`Error::retry_after`] the time after which a retry makes sense, and
//! [`Error::disposition`] the next step: nothing, a retry, to give up, or to ask an operator. An error of the body
//! frees the key, unless [`final_errors`](macro@idempotent#final_errors) keeps it as an answer.
//!
//! ```
//! use idempotent_runtime::{Disposition, Error};
//! use std::time::Duration;
//!
//! /// The pause before the next try; `None` if there is nothing left to try.
//! fn pause(refusal: &Error) -> Option<Duration> {
//!     match refusal.disposition() {
//!         Disposition::Retry { after } => Some(after.unwrap_or(Duration::from_millis(100))),
//!         _ => None,
//!     }
//! }
//! # let _ = pause;
//! ```
//!
//! # Stores
//!
//! A program installs its store once, at startup. Without that, the first call starts a [`MemoryStore`](store::MemoryStore)
//! and logs a warning; with `IDEMPOTENT_REQUIRE_INSTALLED=1` it is refused instead.
//!
#![cfg_attr(
    feature = "redis",
    doc = r#"```no_run
use idempotent_runtime::{Config, Idempotency, store::RedisStore};

async fn start() -> Result<(), Box<dyn std::error::Error>> {
    let store = RedisStore::connect("redis://127.0.0.1/").await?;
    Idempotency::builder().store(store).config(Config::from_env()?).build()?.install()?;
    Ok(())
}
```"#
)]
//!
//! | store | shared by | records survive |
//! | --- | --- | --- |
//! | `RedisStore`, feature `redis` | all processes on one Redis or Valkey | restarts, if the server persists them |
//! | `PostgresStore`, `MySqlStore`, `SqliteStore` of `idempotent-sql` | all processes on one database or file | everything committed |
//! | [`MemoryStore`](store::MemoryStore) | one process | nothing |
//!
//! # Testing
//!
//! With the feature `testing`, `testing::assert_runs_once(10, || create_order(request())).await` makes ten concurrent calls
//! and one more, on a store of its own, and asserts one run and equal answers. [The guide](guide::testing) covers the rest:
//! a manual clock, a store with faults, a contract suite.
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `redis` (default) | `RedisStore`; with `default-features = false`, records are in memory or in a store of your own |
//! | `redis-tls` | TLS to Redis, with rustls |
//! | `msgpack` | MessagePack as the codec, instead of JSON |
//! | `encryption` | stored values encrypted with XChaCha20-Poly1305, bound to their record |
//! | `ids` | key generators for callers |
//! | `metrics` | counters, gauges and histograms, through the `metrics` facade |
//! | `axum` | [`Error`] as a response of axum |
//! | `testing` | tools for tests |
//! | `bytes`, `chrono`, `jiff`, `rust_decimal`, `time`, `uuid` | types of the crate of that name as [parts of keys](derive@KeyPart) |
//!
//! Libraries that use the attribute depend on this crate with `default-features = false`, so that the
//! program that uses them chooses the store.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private/mod.rs"]
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
pub use config::{Abandon, Config, Mode, OnStoreError, OnUnrecorded, ReplayCache, retention};
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

/// Compiles and runs the examples of the README files: that of the package, and that of the repository.
#[cfg(all(doctest, feature = "redis"))]
mod readme {
    #[doc = include_str!("../README.md")]
    mod package {}
    #[doc = include_str!("../../README.md")]
    mod repository {}
}
