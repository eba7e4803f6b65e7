//! Tower layer that handles each HTTP request once per key, following the draft standard for
//! `Idempotency-Key`.
//!
//! The first request with a key runs the handler, and its response is stored. A repeat of the
//! request gets the stored response, marked as a replay. Refusals are [problem details](problem) of
//! stable types.
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
//!
//! The [guide] describes the behaviour that clients see, every setting, and the place of the layer among others.
//!
//! | to | use |
//! | --- | --- |
//! | store and replay whole responses | [`IdempotencyLayer`] |
//! | read the key in a handler | [`IdempotencyKey`] |
//! | guard HTML forms without scripts | [`FormTokens`] |
//! | commit rows and response together | [`transactional`](IdempotencyLayer::transactional), with `idempotent-sql` |
//! | tell clients about a key | [`StatusService`] |
//! | send keys to other services | [`downstream`], and `client` |
//!
//! # Features
//!
//! | feature | adds |
//! | --- | --- |
//! | `axum` (default) | the whole path of routers that axum nests, extractors, and errors as responses |
//! | `client` | `client::Retry`: a request that is sent until it is answered |
//! | `testing` | assertions that a route is handled once |
//! | `utoipa` | the header, its refusals and the marks of replays in OpenAPI documents |
//!
//! A handler can be idempotent by itself, without the layer. With the feature `axum`, its refusals
//! are responses:
//!
//! ```
//! use axum::extract::Path;
//! use axum::response::IntoResponse;
//! use axum::routing::post;
//! use axum::{Json, Router};
//! use idempotent_runtime::{Error, idempotent};
//!
//! #[idempotent(key = "id", mode = "reject")]
//! async fn create_order(Path(id): Path<u64>) -> Result<Json<u64>, Error> {
//!     Ok(Json(id))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let app: Router = Router::new().route("/orders/{id}", post(create_order));
//! assert_eq!(create_order(Path(7)).await.into_response().status(), 200);
//! let refusal = create_order(Path(7)).await.into_response();
//! assert_eq!(refusal.status(), 409);
//! assert_eq!(refusal.headers()["content-type"], "application/problem+json");
//! # drop(app);
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
#[cfg(feature = "client")]
pub mod client;
#[cfg(test)]
mod documented_tests;
pub mod downstream;
mod exchange;
mod execution;
mod extract;
mod form;
mod gather;
mod grpc;
pub mod guide;
pub mod header;
mod headers;
mod identity;
mod keeping;
mod key;
mod layer;
mod mistakes;
mod multipart;
#[cfg(feature = "utoipa")]
pub mod openapi;
mod orphans;
mod panics;
mod payload;
pub mod problem;
mod quota;
mod record;
mod refusal;
mod request_body;
mod response;
mod scope;
mod service;
mod settings;
mod status;
mod stored;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
mod unread;

pub use body::ResponseBody;
pub use extract::IdempotencyKey;
#[cfg(feature = "axum")]
pub use extract::IdempotencyKeyRejection;
pub use form::{FormService, FormTokens};
pub use key::KeySource;
pub use layer::IdempotencyLayer;
pub use mistakes::SettingsError;
pub use payload::{Comparison, Payload};
pub use problem::responses::problem_response;
pub use record::{RecordHandle, StoredExchange};
pub use request_body::RequestBody;
pub use service::{IdempotencyService, NoStore, Streaming};
pub use status::StatusService;
pub use transaction::{
    LostRace, TransactionRejection, TransactionSlot, TransactionalLayer, TransactionalService,
};

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../README.md")]
mod readme {}
