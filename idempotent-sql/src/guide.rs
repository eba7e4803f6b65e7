//! The guide to databases: the stores, effects that happen exactly once, and the outbox.
//!
//! | question | page |
//! | --- | --- |
//! | which store to choose, and how its table is made | [sql] |
//! | how the record and the rows of a body commit together | [exactly_once] |
//! | how messages are sent if a transaction commits | [outbox] |
//!
//! Keys, modes and guarantees are topics of the [guide of `idempotent-runtime`](idempotent_runtime::guide).

#![cfg_attr(not(doc), allow(missing_docs))] // The pages are read for documentation only.

// Link definitions stand before the page: the first definition of a label counts.

// Pages.

/// [examples/sql/sea_orm.rs]: idempotent_runtime::guide#files-of-the-repository
/// [http#handlers-in-transactions]: ../../../idempotent_http/guide/http/index.html#handlers-in-transactions
/// [outbox]: crate::guide::outbox
/// [recipes/import.md]: idempotent_runtime::guide#files-of-the-repository
/// [recipes/payment.md]: idempotent_runtime::guide#files-of-the-repository
/// [recipes/settle-from-the-log.md]: idempotent_runtime::guide#files-of-the-repository
/// [recipes/state-machine.md]: idempotent_runtime::guide#files-of-the-repository
/// [recipes/stock.md]: idempotent_runtime::guide#files-of-the-repository
#[cfg_attr(all(doc, any(not(doctest), all(feature = "axum", feature = "sqlx-postgres", feature = "sqlx-sqlite"))), doc = include_str!("../guide/exactly-once.md"))]
pub mod exactly_once {}

/// [queues#producers]: idempotent_queue::guide::queues#producers
#[cfg_attr(all(doc, any(not(doctest), all(feature = "sqlx-postgres", feature = "sqlx-sqlite"))), doc = include_str!("../guide/outbox.md"))]
pub mod outbox {}

/// [exactly-once]: crate::guide::exactly_once
#[cfg_attr(all(doc, any(not(doctest), all(feature = "sqlx-postgres", feature = "sqlx-sqlite"))), doc = include_str!("../guide/sql.md"))]
pub mod sql {}
