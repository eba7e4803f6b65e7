//! Idempotency records in the database that has the data: PostgreSQL, SQLite, MySQL and MariaDB.
//!
//! The stores keep the same rules as every store of `idempotent_runtime`. A database adds a guarantee that
//! no other store can give: the record of a call and the rows that its body writes are committed in one
//! transaction, so the effect happens exactly once per key.
//!
//! ```
//! # #[cfg(feature = "sqlx-sqlite")]
//! # mod example {
//! use idempotent_runtime::{Idempotency, Mode};
//! use idempotent_sql::{SqliteStore, TransactExt as _};
//! use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
//!
//! # #[derive(Debug, thiserror::Error)]
//! # #[error(transparent)]
//! # enum OrderError { Sql(#[from] sqlx::Error), Refused(#[from] idempotent_runtime::Error) }
//! # pub(super) async fn run(file: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let idem = Idempotency::builder().store(SqliteStore::open(file)?).build()?;
//! let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file)).await?;
//! sqlx::query("CREATE TABLE orders (id INTEGER, item TEXT)").execute(&pool).await?;
//!
//! for _ in 0..2 {
//!     let item = idem
//!         .operation("orders.create")
//!         .key(42)
//!         .mode(Mode::Strong)
//!         .transact(&pool, async |mut tx| {
//!             // Runs once: the second call gets the stored answer.
//!             sqlx::query("INSERT INTO orders VALUES (42, 'lamp')").execute(&mut *tx).await?;
//!             Ok::<_, OrderError>("lamp".to_owned())
//!         })
//!         .await?;
//!     assert_eq!(item, "lamp");
//! }
//! let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await?;
//! assert_eq!(orders, 1);
//! # Ok(())
//! # }
//! # }
//! # #[cfg(feature = "sqlx-sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! #     let folder = std::env::temp_dir().join(format!("idempotent-sql-doc-{}", std::process::id()));
//! #     std::fs::create_dir_all(&folder).unwrap();
//! #     let done = example::run(&folder.join("shop.db")).await;
//! #     std::fs::remove_dir_all(&folder).unwrap();
//! #     done.unwrap();
//! # }
//! # #[cfg(not(feature = "sqlx-sqlite"))]
//! # fn main() {}
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | keep records in a database | [`PostgresStore`], [`SqliteStore`], [`MySqlStore`] |
//! | commit rows and record together | [`transact`](TransactExt::transact), or `#[idempotent(.., transaction = "tx")]` in a transaction of the caller's |
//! | commit long work only if its lease was kept | [`Attempt::commit`](CommitExt::commit) |
//! | send a message if a transaction commits | [`outbox`] |
//! | change the state of an entity once per event | [`transitions`] |
//! | lock a row, or save it unless it has changed | [`entity`] |
//! | use another database client | [`client::SqlConnection`], [`TransactionPool`] |
//!
//! The [guide] says which store to choose, and what is guaranteed.
//!
//! # Features
//!
//! None is on by default; a build has no client that no feature asks for.
//!
//! | feature | gives | client |
//! | --- | --- | --- |
//! | `postgres` | [`PostgresStore`], and its transactions | tokio-postgres |
//! | `postgres-tls` | encrypted connections to PostgreSQL | rustls |
//! | `sqlx-postgres` | `postgres`, and transactions of `sqlx::PgPool` | sqlx |
//! | `sqlite` | [`SqliteStore`] | rusqlite, with SQLite itself |
//! | `sqlx-sqlite` | `sqlite`, and transactions of `sqlx::SqlitePool` | sqlx |
//! | `mysql` | [`MySqlStore`], and transactions of `sqlx::MySqlPool` | sqlx |
//! | `axum` | the transaction of a request as an extractor, [`Lent`] | axum |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod client;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod columns;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod dialect;
pub mod entity;
pub mod guide;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod listing;
mod mark;
mod migration;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
pub mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod store_parts;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod table;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod transact;
pub mod transitions;

pub use mark::marked;
#[cfg(feature = "mysql")]
pub use mysql::{MySqlBuilder, MySqlStore};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresBuilder, PostgresStore};
#[cfg(feature = "sqlite")]
pub use sqlite::{Now, SqliteBuilder, SqliteStore, Synchronous};
#[cfg(feature = "postgres")]
pub use transact::PostgresTransaction;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
pub use transact::{
    CommitExt, CommitTransaction, Isolation, Lent, Transact, TransactExt, TransactionPool,
    Transactions,
};
pub use transitions::{StateMachine, Transitions};

/// Recipes of the repository: they compile, and run where they need no server.
#[cfg(all(doctest, feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
mod recipes {
    #[doc = include_str!("../../docs/recipes/import.md")]
    mod import {}
    #[doc = include_str!("../../docs/recipes/payment.md")]
    mod payment {}
    #[doc = include_str!("../../docs/recipes/settle-from-the-log.md")]
    mod settle_from_the_log {}
    #[doc = include_str!("../../docs/recipes/state-machine.md")]
    mod state_machine {}
    #[doc = include_str!("../../docs/recipes/stock.md")]
    mod stock {}
}

/// Compiles the example of the README.
#[cfg(all(doctest, feature = "sqlx-sqlite"))]
#[doc = include_str!("../README.md")]
mod readme {}
