//! The log of transitions: its table, and reading it.

use super::statements::LogStatements;
use super::{State, StateMachine};
use crate::client::{Database, SqlConnection};
use crate::entity::{EntityError, EntityKey};

/// A transition in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// The event.
    pub event: String,
    /// The id under which it happened.
    pub id: String,
    /// The name of the state before. A text: the type may no longer have the state.
    pub from: String,
    /// The name of the state after.
    pub to: String,
}

impl<S: State> StateMachine<S> {
    /// The statement that creates the log table, for migrations of the user's own.
    ///
    /// The program itself needs the rights to read and insert rows of the log, and to delete them
    /// for [`forget`](Self::forget).
    pub fn schema(&self, database: Database) -> String {
        self.log().schema(database)
    }

    /// Creates the log table if it is not there. In MySQL, this commits an open transaction.
    pub async fn migrate<C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
    ) -> Result<(), EntityError> {
        self.log().migrate(connection).await
    }

    /// The transitions of an entity, in the order in which they happened.
    pub async fn history<'k, C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
        key: impl Into<EntityKey<'k>> + Send,
    ) -> Result<Vec<LogEntry>, EntityError> {
        let key = key.into();
        key.check()?;
        let rows = self.log().history(connection, &self.machine(), &key.text()).await?;
        let entries = rows.into_iter().map(|mut row| {
            let mut text = || row.text().map(Option::unwrap_or_default);
            Ok(LogEntry { event: text()?, id: text()?, from: text()?, to: text()? })
        });
        entries.collect()
    }

    /// Removes an entity from the log, as part of removing the entity: another one that gets its
    /// key begins without a history.
    pub async fn forget<'k, C: SqlConnection + ?Sized>(
        &self,
        connection: &mut C,
        key: impl Into<EntityKey<'k>> + Send,
    ) -> Result<(), EntityError> {
        let key = key.into();
        key.check()?;
        self.log().forget(connection, &self.machine(), &key.text()).await
    }

    fn log(&self) -> LogStatements {
        LogStatements(self.names.log)
    }
}
