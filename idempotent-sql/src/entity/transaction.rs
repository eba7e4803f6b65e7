//! The question whether a connection has an open transaction.
//!
//! Asked of the database: a client may have begun the transaction with a statement of its own.

use super::{EntityError, EntityErrorKind};
use crate::client::{Database, Preparation, SqlConnection, SqlError, Statement};

/// A statement without parameters.
pub(crate) fn bare(text: &str) -> Statement<'_> {
    Statement { text, params: &[], preparation: Preparation::Named }
}

/// A savepoint that is set and released at once. Outside a transaction, PostgreSQL refuses to set
/// it, and MySQL forgets it at once and refuses to release it.
pub(crate) const PROBE: [&str; 2] =
    ["SAVEPOINT idempotent_probe", "RELEASE SAVEPOINT idempotent_probe"];

/// Fails with [`EntityErrorKind::NoTransaction`] if the connection has no open transaction.
pub(crate) async fn require<C: SqlConnection + ?Sized>(
    connection: &mut C,
    call: &str,
) -> Result<(), EntityError> {
    match connection.database() {
        Database::Postgres | Database::MySql => match connection.query_each(&PROBE.map(bare)).await
        {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(error, call)),
        },
        // SQLite refuses to begin a transaction inside another one, and the refusal does no harm.
        Database::Sqlite => match connection.query(bare("BEGIN")).await {
            Ok(_) => {
                connection.query(bare("ROLLBACK")).await?;
                Err(missing(call))
            }
            Err(error) if error.is("1") => Ok(()),
            Err(error) => Err(error.into()),
        },
    }
}

/// The error of a [`PROBE`], or of a statement behind it.
pub(crate) fn explain(error: SqlError, call: &str) -> EntityError {
    if error.is("25P01") || error.is("1305") { missing(call) } else { error.into() }
}

fn missing(call: &str) -> EntityError {
    EntityError::new(
        EntityErrorKind::NoTransaction,
        format!("`{call}` needs a transaction\nhelp: begin one, and pass it on as the connection"),
    )
}
