//! HTTP requests that run once per key: a tower layer that behaves as the draft standard for
//! `Idempotency-Key` says.
//!
//! The first request with a key runs the handler; its response is stored, and everybody who sends the
//! same request again gets it, marked as a replay. What is refused is refused with
//! [problem details](idempotent_runtime::problem) of stable types.
//!
//! ```
//! use axum::Router;
//! use axum::routing::post;
//! use idempotent_http::IdempotencyLayer;
//! use idempotent_runtime::Idempotency;
//!
//! /// What an authentication layer puts into the request.
//! #[derive(Clone)]
//! struct User(String);
//!
//! async fn create_order(body: String) -> String {
//!     format!("ordered {body}")
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::in_memory()?;
//! let layer = IdempotencyLayer::new(&idem, "shop")
//!     .require_key()
//!     .scope(|request| request.extensions.get::<User>().map(|user| user.0.clone()));
//! let app: Router = Router::new().route("/orders", post(create_order)).layer(layer);
//! # drop(app);
//! # Ok(()) }
//! ```

mod body;
#[cfg(feature = "client")]
pub mod client;
pub mod downstream;
mod exchange;
mod form;
mod headers;
mod identity;
mod key;
mod layer;
#[cfg(feature = "utoipa")]
pub mod openapi;
mod panics;
mod payload;
mod problem;
mod response;
mod service;
mod settings;
#[cfg(feature = "testing")]
pub mod testing;

pub use body::ResponseBody;
pub use form::{FormService, FormTokens};
pub use layer::IdempotencyLayer;
pub use payload::Payload;
pub use service::{IdempotencyService, NoStore, Streaming};
