//! Claims on a connection inside a transaction.

use super::table::{RecordTable, store_error};
use crate::client::{Database, Preparation, Row, SqlConnection, SqlError, Statement};
use crate::columns::{KeyColumns, damaged, read_record};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    Action, Begun, Claimed, Exchange, OpenTransaction, TransactionClaim,
};
use idempotent_runtime::store::{Found, Next, Record, StoreError, StoreErrorKind, Swap, Swapped};
use std::fmt;

/// The savepoint to which the effects of a body are undone.
///
/// It is released with the write that ends its attempt: an open one holds a lock in the memory of the
/// server, and those after it are nested in it. The body may call others in the same transaction, which
/// may be dropped halfway: so each key has a name of its own. The call that began the transaction is the
/// outermost one, and needs none.
#[derive(Debug, Default)]
pub(super) struct Savepoint(Option<i64>);

impl Savepoint {
    fn of(key: &RecordKey, owned: bool) -> Self {
        Self((!owned).then(|| KeyColumns::of(key).lock("savepoint")))
    }

    pub(super) fn set(&self) -> String {
        format!("SAVEPOINT {self}")
    }

    pub(super) fn undo(&self) -> String {
        format!("ROLLBACK TO SAVEPOINT {self}")
    }

    pub(super) fn release(&self) -> String {
        format!("RELEASE SAVEPOINT {self}")
    }
}

impl fmt::Display for Savepoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => write!(formatter, "idempotent_{number:016x}"),
            None => formatter.write_str("idempotent"),
        }
    }
}

/// The memory of a claim, between its statements.
#[derive(Debug, Default)]
pub(crate) struct ClaimState {
    pub(super) table: Option<RecordTable>,
    /// The transaction was begun for this call, and may be given limits.
    pub(super) owned: bool,
    /// It was begun with an isolation above `READ COMMITTED`.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "MySQL asks"))]
    pub(super) has_snapshot: bool,
    /// The key is held until the transaction ends. A record that expires meanwhile counts as the one
    /// that was seen: no other attempt can have begun since.
    pub(super) holds: bool,
    /// The row of a record that had expired when the key was claimed is still in the table.
    #[cfg(feature = "postgres")]
    pub(super) leftover: bool,
    /// The key was claimed when the transaction began, and has no record.
    #[cfg(feature = "postgres")]
    pub(super) is_new: bool,
    /// The savepoint is set.
    pub(super) savepoint: bool,
    pub(super) point: Savepoint,
}

/// A connection with the memory of its claim.
#[derive(Debug)]
pub(crate) struct Claims<'a, C> {
    pub(crate) connection: &'a mut C,
    pub(crate) state: &'a mut ClaimState,
}

impl<C: SqlConnection> OpenTransaction for Claims<'_, C> {
    fn locks_store(&self) -> bool {
        locks_store(self.connection.database())
    }

    async fn claim(&mut self, claim: TransactionClaim<'_>) -> Result<Claimed, StoreError> {
        let table = RecordTable::of(claim.store, self.connection.database())?;
        self.state.table = Some(table.clone());
        self.state.point = Savepoint::of(claim.key, self.state.owned);
        let claimed = match table {
            #[cfg(feature = "postgres")]
            RecordTable::Postgres(store) => super::postgres::claim(self, &store, claim).await?,
            #[cfg(feature = "sqlite")]
            RecordTable::Sqlite(store) => super::sqlite::claim(self, &store, claim).await?,
            #[cfg(feature = "mysql")]
            RecordTable::MySql(store) => super::mysql::claim(self, &store, claim).await?,
        };
        self.state.holds = matches!(claimed, Claimed::Granted { .. });
        if !self.state.holds {
            // A claim that is not granted leaves nothing in a transaction of the caller's.
            let release = self.release();
            self.state.savepoint = false;
            if let Some(release) = release {
                self.run(&release).await?;
            }
        }
        Ok(claimed)
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        self.run(&self.state.point.undo()).await
    }

    async fn swap(&mut self, key: &RecordKey, swap: Swap) -> Result<Swapped, StoreError> {
        let swapped = self.write(key, &swap).await;
        let is_done = matches!(swapped, Ok(Swapped::Done | Swapped::DoneWithoutValue));
        if self.release().is_some() && !is_done {
            let (undo, release) = (self.state.point.undo(), self.state.point.release());
            let undone = self.each(&[unprepared(&undo), unprepared(&release)]).await;
            // A write that failed says more than what came after it.
            if swapped.is_ok() {
                undone?;
            }
        }
        self.state.savepoint = false;
        swapped
    }
}

impl<C: SqlConnection> Claims<'_, C> {
    /// Writes the end of an attempt, and releases the savepoint if that is done.
    async fn write(&mut self, key: &RecordKey, swap: &Swap) -> Result<Swapped, StoreError> {
        match self.state.table.clone() {
            #[cfg(feature = "postgres")]
            Some(RecordTable::Postgres(store)) => {
                super::postgres::swap(self, &store, key, swap).await
            }
            #[cfg(feature = "sqlite")]
            Some(RecordTable::Sqlite(store)) => super::sqlite::swap(self, &store, key, swap).await,
            #[cfg(feature = "mysql")]
            Some(RecordTable::MySql(store)) => super::mysql::swap(self, &store, key, swap).await,
            None => {
                let text = "the key was not claimed";
                Err(StoreError::new(StoreErrorKind::Misconfigured, text))
            }
        }
    }

    /// The statement that releases the savepoint. `None` if none is set, or if the end of the
    /// transaction follows.
    pub(super) fn release(&self) -> Option<String> {
        let is_due = self.state.savepoint && !self.state.owned;
        is_due.then(|| self.state.point.release())
    }

    /// Runs a statement without parameters.
    pub(super) async fn run(&mut self, text: &str) -> Result<(), StoreError> {
        self.each(&[unprepared(text)]).await.map(drop)
    }

    /// Runs statements one after the other.
    pub(super) async fn each(
        &mut self,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let answers = self.connection.query_each(statements).await;
        answers.map_err(|error| self.error(error))
    }

    /// The error of a statement on the records.
    pub(super) fn error(&self, error: SqlError) -> StoreError {
        let database = self.connection.database();
        if database == Database::MySql && !self.state.owned && error.is("1213") {
            let text = "MySQL: a deadlock, for which the server has rolled the whole transaction back\n\
                        help: begin another one, and repeat what was done in this one";
            let error = StoreError::new(StoreErrorKind::Unavailable, text).with_source(error);
            return error.without_effect();
        }
        store_error(database, error)
    }
}

/// A statement without parameters that the server does not keep: the names of savepoints are those of
/// keys, which are many.
pub(super) fn unprepared(text: &str) -> Statement<'_> {
    Statement { text, params: &[], preparation: Preparation::Unnamed }
}

/// `true` if a transaction that writes keeps all others from writing.
pub(super) fn locks_store(database: Database) -> bool {
    database == Database::Sqlite
}

/// The answer to a claim that has looked at the record while it holds the key. A grant is not
/// written: the end of the attempt is, in its place.
pub(super) fn decide(
    claim: &TransactionClaim<'_>,
    record: Option<Record>,
) -> Result<Claimed, StoreError> {
    let mut exchange = Exchange::new(claim.request);
    exchange.loaded(record);
    Ok(match exchange.action()? {
        Action::Swap(Swap { seen, next: Next::Put { head, .. }, .. }) => {
            Claimed::Granted { attempt: head.attempt, seen, before: seen }
        }
        Action::Answer(begun) | Action::Confirm(begun) => Claimed::Answered(begun),
        Action::Swap(_) | Action::Load => Claimed::Answered(Begun::Superseded),
    })
}

/// The record that a look has found.
pub(super) fn record(rows: Option<Vec<Row>>) -> Result<Option<Record>, StoreError> {
    let found = found(rows)?;
    Ok(found.map(|Found { head, value, ttl }| Record::new(head, value, ttl.unwrap_or_default())))
}

/// The same, as a swap finds it.
pub(super) fn found(rows: Option<Vec<Row>>) -> Result<Option<Found>, StoreError> {
    let Some(mut row) = rows.and_then(|rows| rows.into_iter().next()) else { return Ok(None) };
    Ok(Some(read_record(&mut row).map_err(damaged)?))
}

/// The error of a call whose connection is not in a transaction.
pub(super) fn no_transaction(help: &str) -> StoreError {
    let text = format!("the connection is not in a transaction\nhelp: {help}");
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

/// The error of a write that is not the end of an attempt.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn no_end() -> StoreError {
    let text = "a transaction only writes the end of its attempt";
    StoreError::new(StoreErrorKind::Misconfigured, text)
}
