//! The outbox: messages that are sent if, and only if, a transaction commits.
//!
//! [`Outbox::send`] writes a message into a table, in the caller's transaction. A [`Relay`] reads
//! the table and hands each message to a [`Publisher`], which sends it to a message broker; when the
//! broker has confirmed it, the message is deleted.
//!
//! * A transaction that is rolled back sends nothing. One that commits sends each of its messages
//!   **at least once**, and every delivery of a message has the same id.
//! * Messages of one destination and key are delivered **in the order in which their transactions
//!   commit**, and within a transaction in the order in which they were sent. `send` holds the key
//!   until its transaction ends, so that transactions that send to one key do so one after the
//!   other. A repeated delivery can come late; the first delivery of a message never comes before
//!   that of an earlier one of its key.
//! * Any number of relays run at the same time, in any number of processes. One that is killed holds
//!   up the keys that it was at work on for at most its [lease](Relay::lease).
//!
//! ```
//! # #[cfg(feature = "sqlx-sqlite")] {
//! use idempotent_sql::outbox::{Message, Outbox, Outgoing, PublishError, Publisher, Receipt, Relay};
//! use std::time::Duration;
//!
//! const OUTBOX: Outbox = Outbox::new("idempotent_outbox");
//!
//! struct Printer;
//!
//! impl Publisher for Printer {
//!     async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
//!         println!("{} for {:?}", message.kind(), message.key());
//!         Ok(Receipt::new())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! OUTBOX.migrate(&mut pool.acquire().await?).await?;
//!
//! let mut tx = pool.begin().await?;
//! // .. statements of the business transaction ..
//! OUTBOX.send(&mut tx, Message::new("orders", "order-17", "{}").kind("OrderCreated")).await?;
//! tx.commit().await?;
//!
//! let relay = Relay::new(OUTBOX, pool.clone(), Printer).start();
//! while relay.status().published < 1 {
//!     tokio::time::sleep(Duration::from_millis(10)).await;
//! }
//! relay.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! # main().unwrap();
//! # }
//! ```

mod dead_letters;
mod error;
mod lane;
mod message;
mod relay;
mod schema;
mod statements;

pub use dead_letters::{Backlog, DeadLetter};
pub use error::{OutboxError, OutboxErrorKind};
#[doc(inline)]
pub use idempotent_queue::{Outgoing, PublishError, PublishErrorKind, Publisher, Receipt};
pub use message::{Message, OutboxMessage};
pub use relay::{DeadLetterPolicy, Relay, RelayHandle, RelayStatus, RelayWaker, Stopped};

use crate::client::{Database, Param, Preparation, Row, SqlConnection, Statement};
use crate::entity::Identifier;
use crate::migration;
use schema::Tables;
use statements::Statements;

/// The longest name of the table, to which suffixes are added.
const LONGEST_NAME: usize = 48;

/// A table of messages. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outbox {
    table: Identifier,
}

impl Outbox {
    /// An outbox in this table: `idempotent_outbox`, or `shop.outbox` with a schema.
    ///
    /// Further tables have its name with a suffix: `idempotent_outbox_claims`, and on MySQL
    /// `idempotent_outbox_locks`.
    ///
    /// # Panics
    ///
    /// Panics if it is not the name of a table, or has more than 48 bytes; in a constant, when it is
    /// compiled.
    ///
    /// ```
    /// use idempotent_sql::outbox::Outbox;
    ///
    /// const OUTBOX: Outbox = Outbox::new("idempotent_outbox");
    /// # let _ = OUTBOX;
    /// ```
    pub const fn new(table: &'static str) -> Self {
        let identifier = Identifier::new(table);
        let bytes = table.as_bytes();
        let (mut at, mut length) = (0, 0);
        while at < bytes.len() {
            length = if bytes[at] == b'.' { 0 } else { length + 1 };
            at += 1;
        }
        assert!(length <= LONGEST_NAME, "the name of an outbox has at most 48 bytes");
        Self { table: identifier }
    }

    /// The statements that create the tables, for the migrations of an application. They can be run
    /// again, and a role that may read and write rows is enough for everything else.
    ///
    /// ```
    /// use idempotent_sql::client::Database;
    /// use idempotent_sql::outbox::Outbox;
    ///
    /// let statements = Outbox::new("idempotent_outbox").schema(Database::Postgres);
    /// assert!(statements.starts_with("CREATE TABLE IF NOT EXISTS \"idempotent_outbox\" ("));
    /// ```
    pub fn schema(&self, database: Database) -> String {
        let statements = Tables::new(self.table, database).schema(self.table, database);
        statements.join(";\n") + ";\n"
    }

    /// Creates the tables that are missing.
    ///
    /// # Errors
    ///
    /// Fails if the database refuses, such as for a role that may not create tables.
    pub async fn migrate<C>(&self, connection: &mut C) -> Result<(), OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let database = connection.database();
        let tables = Tables::new(self.table, database);
        let mut texts = tables.schema(self.table, database);
        if database == Database::Postgres {
            texts = vec![migration::one_at_a_time(&texts)];
        }
        let statements: Vec<_> = texts.iter().map(|text| unnamed(text, &[])).collect();
        connection.query_each(&statements).await?;
        Ok(())
    }

    /// Writes a message, in the transaction that is open on the connection, and returns its id. It
    /// is delivered after the transaction has committed, and not at all if it is rolled back.
    ///
    /// Other transactions that send to the same destination and key wait here until this one ends.
    /// Two that send to two keys in different orders can deadlock, and the database ends one of
    /// them: send last in a transaction, and to several keys in a fixed order.
    /// On MySQL and MariaDB, keys share 4,096 locks.
    ///
    /// Outside a transaction the message is on its way at once.
    ///
    /// # Errors
    ///
    /// Fails if the message is not valid, or the database refuses it. The transaction is then to be
    /// rolled back.
    pub async fn send<C>(&self, connection: &mut C, message: Message) -> Result<String, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        message.check()?;
        let database = connection.database();
        let statements = Statements::new(self.table, database);
        let lane = message.lane();
        // Nobody else sends to the key of an unordered message.
        let is_ordered = message.key.is_some();
        let lock = is_ordered.then(|| lane.advisory_lock(self.table));
        let headers = message.headers_text();
        let params = [
            Param::Integer(lock),
            Param::from(&*message.id),
            Param::from(&*message.destination),
            Param::from(message.aggregate_id()),
            Param::from(&*message.kind),
            Param::from(&*message.payload),
            Param::Text(headers.as_deref()),
            Param::from(lane.0),
        ];
        let params = if database == Database::Postgres { &params[..] } else { &params[1..] };
        if database == Database::MySql && is_ordered {
            let row = [Param::from(lane.lock_row())];
            if self.run(connection, &statements.lock_row(), &row).await?.is_empty() {
                return Err(OutboxError::not_migrated(self.table.as_str()));
            }
        }
        self.run(connection, &statements.insert(), params).await?;
        Ok(message.id)
    }

    async fn run<C>(
        &self,
        connection: &mut C,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, OutboxError>
    where
        C: SqlConnection + ?Sized,
    {
        let database = connection.database();
        let rows = connection.query(Statement { text, params, preparation: Preparation::Named });
        rows.await.map_err(|error| OutboxError::of(database, self.table.as_str(), error))
    }
}

/// A statement that is not prepared for later use.
fn unnamed<'a>(text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
    Statement { text, params, preparation: Preparation::Unnamed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "at most 48 bytes")]
    fn long_names_are_refused() {
        let _ = Outbox::new("a123456789012345678901234567890123456789012345678");
    }

    #[test]
    fn the_schema_may_be_longer_than_the_name() {
        let _ = Outbox::new("a123456789012345678901234567890123456789.b1234567890");
    }
}
