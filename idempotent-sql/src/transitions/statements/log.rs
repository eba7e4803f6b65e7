//! The statements on the log that are the same for all events.

use crate::client::{Database, Param, Preparation, Row, SqlConnection, SqlError, Statement};
use crate::entity::{EntityError, Identifier, transaction::bare};
use crate::migration;

/// The statements on this log table.
#[derive(Clone, Copy, Debug)]
pub(in crate::transitions) struct LogStatements(pub(in crate::transitions) Identifier);

impl LogStatements {
    /// The statement that creates the table.
    pub(in crate::transitions) fn schema(self, database: Database) -> String {
        let table = self.0.quoted(database);
        let (number, text, long, time) = match database {
            Database::Postgres => (
                "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                "text COLLATE \"C\"",
                "text COLLATE \"C\"",
                "timestamptz NOT NULL DEFAULT clock_timestamp()",
            ),
            Database::Sqlite => {
                ("INTEGER PRIMARY KEY AUTOINCREMENT", "TEXT", "TEXT", "TEXT NOT NULL")
            }
            // Binary, since texts are compared without case and blanks. The longest key that an
            // index takes has 3,072 bytes.
            Database::MySql => (
                "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
                "VARBINARY(255)",
                "VARBINARY(700)",
                "DATETIME(6) NOT NULL",
            ),
        };
        let engine = if database == Database::MySql { " ENGINE = InnoDB" } else { "" };
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n    \
               number {number},\n    \
               machine {text} NOT NULL,\n    \
               entity {long} NOT NULL,\n    \
               event {text} NOT NULL,\n    \
               id {long} NOT NULL,\n    \
               from_state {text} NOT NULL,\n    \
               to_state {text} NOT NULL,\n    \
               happened_at {time},\n    \
               UNIQUE (machine, entity, event, id)\n\
             ){engine}"
        )
    }

    /// Creates the table if it is not there. Looks first: a role that may not create tables may
    /// call this as well.
    pub(in crate::transitions) async fn migrate<C: SqlConnection + ?Sized>(
        self,
        connection: &mut C,
    ) -> Result<(), EntityError> {
        let database = connection.database();
        let (table, schema) = (self.0.quoted(database), self.schema(database));
        match database {
            Database::Postgres => {
                let text = format!("SELECT to_regclass('{table}') IS NOT NULL");
                let rows = connection.query(bare(&text)).await?;
                if rows.into_iter().next().map(|mut row| row.integer()).transpose()?.flatten()
                    == Some(1)
                {
                    return Ok(());
                }
                connection.query(bare(&migration::one_at_a_time(&[schema]))).await?;
            }
            Database::Sqlite => {
                connection.query(bare(&schema)).await?;
            }
            Database::MySql => {
                // Fails only if the table is not there.
                let text = format!("SELECT 1 FROM {table} WHERE false");
                match connection.query(bare(&text)).await {
                    Ok(_) => {}
                    Err(error) if error.is("1146") => {
                        connection.query(bare(&schema)).await?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// The transitions of an entity.
    pub(in crate::transitions) async fn history<C: SqlConnection + ?Sized>(
        self,
        connection: &mut C,
        machine: &str,
        entity: &str,
    ) -> Result<Vec<Row>, SqlError> {
        let text = format!(
            "SELECT event, id, from_state, to_state {} ORDER BY number",
            self.of_entity(connection.database())
        );
        run(connection, &text, [machine, entity]).await
    }

    /// Removes the transitions of an entity.
    pub(in crate::transitions) async fn forget<C: SqlConnection + ?Sized>(
        self,
        connection: &mut C,
        machine: &str,
        entity: &str,
    ) -> Result<(), EntityError> {
        let text = format!("DELETE {}", self.of_entity(connection.database()));
        run(connection, &text, [machine, entity]).await?;
        Ok(())
    }

    fn of_entity(self, database: Database) -> String {
        let (machine, entity) = match database {
            Database::Postgres => ("$1::text", "$2::text"),
            Database::Sqlite => ("?1", "?2"),
            Database::MySql => ("?", "?"),
        };
        let table = self.0.quoted(database);
        format!("FROM {table} WHERE machine = {machine} AND entity = {entity}")
    }
}

async fn run<C: SqlConnection + ?Sized>(
    connection: &mut C,
    text: &str,
    values: [&str; 2],
) -> Result<Vec<Row>, SqlError> {
    let params = match connection.database() {
        Database::MySql => values.map(|value| Param::Bytes(Some(value.as_bytes()))),
        _ => values.map(|value| Param::Text(Some(value))),
    };
    let preparation = Preparation::Named;
    connection.query(Statement { text, params: &params, preparation }).await
}
