//! The guide to HTTP: the behaviour that clients see, the layer among others, and frameworks without tower.
//!
//! | question | page |
//! | --- | --- |
//! | what clients see, and every setting of the layer | [http] |
//! | where the layer goes among CORS, authentication, tracing and others | [http_layers] |
//! | how a request with a key differs from one without | [http_differences] |
//! | how to use the attribute in actix-web | [actix_web] |
//!
//! Keys, modes and guarantees are topics of the [guide of `idempotent-runtime`](idempotent_runtime::guide).

#![cfg_attr(not(doc), allow(missing_docs))] // The pages are read for documentation only.

// Link definitions stand before the page: the first definition of a label counts.

// Pages.

/// [http]: crate::guide::http
#[cfg_attr(doc, doc = include_str!("../guide/actix-web.md"))]
pub mod actix_web {}

/// [http#handlers-in-transactions]: crate::guide::http#handlers-in-transactions
#[cfg_attr(doc, doc = include_str!("../guide/http-differences.md"))]
pub mod http_differences {}

#[cfg_attr(all(doc, any(not(doctest), feature = "axum")), doc = include_str!("../guide/http-layers.md"))]
pub mod http_layers {}

/// [actix-web]: crate::guide::actix_web
/// [exactly-once#handlers-of-http-requests]: ../../../idempotent_sql/guide/exactly_once/index.html#handlers-of-http-requests
/// [examples/axum_orders.rs]: idempotent_runtime::guide#files-of-the-repository
/// [examples/form.rs]: idempotent_runtime::guide#files-of-the-repository
/// [http-differences]: crate::guide::http_differences
/// [http-layers]: crate::guide::http_layers
/// [observability]: idempotent_runtime::guide::observability
/// [problems]: idempotent_runtime::guide#files-of-the-repository
/// [recipes/http-handler.md]: idempotent_runtime::guide#files-of-the-repository
/// [wire-format]: idempotent_runtime::guide::wire_format
#[cfg_attr(all(doc, any(not(doctest), all(feature = "axum", feature = "client", feature = "testing", feature = "utoipa"))), doc = include_str!("../guide/http.md"))]
pub mod http {}
