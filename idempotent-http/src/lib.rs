//! HTTP requests that run once per key: a tower layer that behaves as the draft standard for
//! `Idempotency-Key` says.
//!
//! The first request with a key runs the handler; its response is stored, and everybody who sends the
//! same request again gets it, marked as a replay. What is refused is refused with
//! [problem details](idempotent_runtime::problem) of stable types.

mod body;
mod exchange;
mod form;
mod headers;
mod key;
mod layer;
mod payload;
mod problem;
mod service;
mod settings;

pub use body::ResponseBody;
pub use form::{FormService, FormTokens};
pub use layer::IdempotencyLayer;
pub use payload::Payload;
pub use service::{IdempotencyService, NoStore, Streaming};
