//! The guide: a page for each topic, from choosing a key to the bytes in the store.
//!
//! | question | page |
//! | --- | --- |
//! | which key, mode and times suit an operation | [choosing] |
//! | what is guaranteed, exactly | [semantics] |
//! | what a refused caller does next | [errors] |
//! | which settings there are, and where they come from | [configuration] |
//! | which store to choose, and how to write one | [stores], [redis] |
//! | how to test idempotent functions and stores | [testing] |
//! | what to measure, log and alert on | [observability] |
//! | what may change between two versions of a program | [rolling_deploys] |
//! | what other libraries call these things | [coming_from] |
//! | what a call costs | [costs] |
//! | what was tested, and how | [reliability] |
//! | what the attribute expands to | [expansion] |
//! | what a record looks like in the store | [wire_format] |
//!
//! The crates around this one have guides of their own: [HTTP], [messages], and [SQL] with
//! [effects that happen exactly once][exactly once].
//!
//! [HTTP]: ../../idempotent_http/guide/index.html
//! [messages]: ../../idempotent_queue/guide/index.html
//! [SQL]: ../../idempotent_sql/guide/index.html
//! [exactly once]: ../../idempotent_sql/guide/exactly_once/index.html
//!
//! # Files of the repository
//!
//! Pages also mention files that are in the repository and not in this documentation: programs in `examples`, recipes in
//! `docs/recipes`, alert rules and a dashboard in `docs/monitoring`, pages about HTTP problems in `docs/problems`, and the
//! reasons behind decisions in `docs/decisions`. On a Git host, the same pages link to them.

#![cfg_attr(not(doc), allow(missing_docs))] // The pages are read for documentation only.

// Link definitions stand before the page, because the first definition of a label counts: those at the end of each page
// are for readers of the files.

// Pages.

/// [errors#dispositions]: crate::guide::errors#dispositions
/// [queues]: ../../../idempotent_queue/guide/queues/index.html
#[cfg_attr(doc, doc = include_str!("../guide/choosing.md"))]
pub mod choosing {}

/// [redis#replays-from-memory]: crate::guide::redis#replays-from-memory
#[cfg_attr(doc, doc = include_str!("../guide/coming-from.md"))]
pub mod coming_from {}

/// [redis#replays-from-memory]: crate::guide::redis#replays-from-memory
/// [rolling-deploys]: crate::guide::rolling_deploys
/// [stores]: crate::guide::stores
/// [testing]: crate::guide::testing
#[cfg_attr(doc, doc = include_str!("../guide/configuration.md"))]
pub mod configuration {}

/// [decision 17]: crate::guide#files-of-the-repository
/// [decision 37]: crate::guide#files-of-the-repository
/// [decision 38]: crate::guide#files-of-the-repository
/// [redis#replays-from-memory]: crate::guide::redis#replays-from-memory
/// [redis#round-trips]: crate::guide::redis#round-trips
#[cfg_attr(doc, doc = include_str!("../guide/costs.md"))]
pub mod costs {}

/// [semantics]: crate::guide::semantics
#[cfg_attr(doc, doc = include_str!("../guide/errors.md"))]
pub mod errors {}

#[cfg_attr(doc, doc = include_str!("../guide/expansion.md"))]
pub mod expansion {}

/// [examples/metrics/prometheus.rs]: crate::guide#files-of-the-repository
/// [monitoring/alerts.yml]: crate::guide#files-of-the-repository
/// [monitoring/dashboard.json]: crate::guide#files-of-the-repository
/// [redis#replays-from-memory]: crate::guide::redis#replays-from-memory
/// [rolling-deploys]: crate::guide::rolling_deploys
#[cfg_attr(doc, doc = include_str!("../guide/observability.md"))]
pub mod observability {}

/// [configuration#the-installed-instance]: crate::guide::configuration#the-installed-instance
/// [examples/stock.rs]: crate::guide#files-of-the-repository
/// [examples/tokens.rs]: crate::guide#files-of-the-repository
/// [stores#list-records]: crate::guide::stores#list-records
#[cfg_attr(all(doc, any(not(doctest), feature = "redis")), doc = include_str!("../guide/redis.md"))]
pub mod redis {}

/// [redis]: crate::guide::redis
#[cfg_attr(doc, doc = include_str!("../guide/reliability.md"))]
pub mod reliability {}

#[cfg_attr(doc, doc = include_str!("../guide/rolling-deploys.md"))]
pub mod rolling_deploys {}

#[cfg_attr(doc, doc = include_str!("../guide/semantics.md"))]
pub mod semantics {}

/// [decision 31]: crate::guide#files-of-the-repository
/// [exactly-once]: ../../../idempotent_sql/guide/exactly_once/index.html
/// [examples/crash_recovery.rs]: crate::guide#files-of-the-repository
/// [examples/custom_store.rs]: crate::guide#files-of-the-repository
/// [examples/redis.rs]: crate::guide#files-of-the-repository
/// [examples/stock.rs]: crate::guide#files-of-the-repository
/// [examples/tokens.rs]: crate::guide#files-of-the-repository
/// [outbox]: ../../../idempotent_sql/guide/outbox/index.html
/// [recipes/blocked-key.md]: crate::guide#files-of-the-repository
/// [redis#replays-from-memory]: crate::guide::redis#replays-from-memory
/// [redis]: crate::guide::redis
/// [reliability]: crate::guide::reliability
/// [semantics#14-what-a-store-must-do]: crate::guide::semantics#14-what-a-store-must-do
/// [sql]: ../../../idempotent_sql/guide/sql/index.html
/// [store-trait]: crate::store::Store
/// [testing]: crate::guide::testing
/// [wire-format]: crate::guide::wire_format
#[cfg_attr(doc, doc = include_str!("../guide/stores.md"))]
pub mod stores {}

/// [http#tests-of-a-service]: ../../../idempotent_http/guide/http/index.html#tests-of-a-service
/// [recipes/time-travel.md]: crate::guide#files-of-the-repository
/// [redis#tests-with-a-paused-clock]: crate::guide::redis#tests-with-a-paused-clock
#[cfg_attr(all(doc, any(not(doctest), feature = "testing")), doc = include_str!("../guide/testing.md"))]
pub mod testing {}

/// [idempotent-runtime/src/store/redis/scripts]: crate::guide#files-of-the-repository
#[cfg_attr(doc, doc = include_str!("../guide/wire-format.md"))]
pub mod wire_format {}
