//! The table that an instance's store keeps its records in, as transactions see it.

use crate::client::{Database, SqlError};
use idempotent_runtime::store::{Store, StoreError, StoreErrorKind};
use std::any::Any;

/// The store of an instance.
#[derive(Clone, Debug)]
pub(crate) enum RecordTable {
    #[cfg(feature = "postgres")]
    Postgres(crate::PostgresStore),
    #[cfg(feature = "sqlite")]
    Sqlite(crate::SqliteStore),
    #[cfg(feature = "mysql")]
    MySql(crate::MySqlStore),
}

impl RecordTable {
    /// The table of a store, for a transaction on this database.
    pub(super) fn of(store: &dyn Store, database: Database) -> Result<Self, StoreError> {
        let any: &dyn Any = store;
        let found = match database {
            #[cfg(feature = "postgres")]
            Database::Postgres => any.downcast_ref().cloned().map(Self::Postgres),
            #[cfg(feature = "sqlite")]
            Database::Sqlite => any.downcast_ref().cloned().map(Self::Sqlite),
            #[cfg(feature = "mysql")]
            Database::MySql => any.downcast_ref().cloned().map(Self::MySql),
            #[allow(unreachable_patterns, reason = "with all features there is no other")]
            _ => None,
        };
        found.ok_or_else(|| {
            let wanted = match database {
                Database::Postgres => "PostgresStore",
                Database::Sqlite => "SqliteStore",
                Database::MySql => "MySqlStore",
            };
            let text = format!(
                "the records of this instance are not in the database of the transaction\nhelp: \
                 build the instance with a `{wanted}` on the same database"
            );
            StoreError::new(StoreErrorKind::Misconfigured, text)
        })
    }
}

/// The error of a statement on the records. It had no effect that lasts, since its transaction is
/// not committed.
pub(super) fn store_error(database: Database, error: SqlError) -> StoreError {
    let error = match database {
        #[cfg(feature = "postgres")]
        Database::Postgres => crate::postgres::errors::store_error(error, "of the records"),
        #[cfg(feature = "sqlite")]
        Database::Sqlite => super::sqlite::store_error(error),
        #[cfg(feature = "mysql")]
        Database::MySql => crate::mysql::errors::store_error(error, "of the records"),
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        _ => StoreError::new(StoreErrorKind::Unavailable, error.to_string()),
    };
    error.without_effect()
}

/// `true` if a transaction that failed so has lost a race, and can be repeated.
pub(super) fn is_lost_race(database: Database, error: &SqlError) -> bool {
    match database {
        // Serialization failure, deadlock.
        Database::Postgres => error.is("40001") || error.is("40P01"),
        // Busy, and busy with a snapshot that is out of date.
        Database::Sqlite => error.is("5") || error.is("517"),
        // Deadlock.
        Database::MySql => error.is("1213"),
    }
}

/// `true` if an error that came in place of a commit rules out that it took place.
pub(super) fn is_refusal(database: Database, error: &SqlError) -> bool {
    use crate::client::SqlErrorKind::{NotSent, Refused};
    match (error.kind(), database) {
        (NotSent, _) => true,
        (Refused, Database::Postgres) => {
            // The server ends the connection: that may come after the commit.
            !["57P", "08", "XX"].iter().any(|class| error.code().starts_with(class))
        }
        // Constraint violation, busy, read-only, full: before anything is committed.
        (Refused, Database::Sqlite) => {
            let primary = error.code().parse::<i32>().map(|code| code & 0xff);
            matches!(primary, Ok(5 | 6 | 8 | 13 | 19))
        }
        #[cfg(feature = "mysql")]
        (Refused, Database::MySql) => crate::mysql::errors::is_before_commit(error),
        _ => false,
    }
}
