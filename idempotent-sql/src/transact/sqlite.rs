//! Claims in SQLite: the write lock of the file holds every key.
//!
//! A transaction that was begun with `BEGIN IMMEDIATE` has it. One that was not takes it here, which
//! fails if another connection has written since the transaction first read. Nothing is written
//! until the attempt ends.

use super::claims::{Claims, decide, found, no_transaction, record};
use crate::SqliteStore;
use crate::client::{Param, Preparation, SqlConnection, SqlError, SqlErrorKind, Statement};
use crate::columns::{KeyColumns, SwapColumns, SwapKind};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{Claimed, TransactionClaim};
use idempotent_runtime::store::{StoreError, StoreErrorKind, Swap, Swapped};

pub(super) async fn claim<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &SqliteStore,
    claim: TransactionClaim<'_>,
) -> Result<Claimed, StoreError> {
    if !claims.state.owned {
        take_write_lock(claims, store).await?;
    }
    let key = KeyColumns::of(claim.key);
    let now = store.now();
    let mut params = vec![Param::from(&*key.name)];
    params.extend(now.params());
    let load = statement(&store.statements().load, &params);
    let savepoint = claims.state.point.set();
    let preparation = Preparation::Unnamed;
    let statements = [load, Statement { text: &savepoint, params: &[], preparation }];
    let rows = claims.each(&statements[..1 + usize::from(claim.undoable)]).await?;
    claims.state.savepoint = claim.undoable;
    decide(&claim, record(rows.into_iter().next())?)
}

/// Makes sure that the connection is in a transaction that may write.
async fn take_write_lock<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &SqliteStore,
) -> Result<(), StoreError> {
    const HELP: &str = "begin one with `pool.begin_with(\"BEGIN IMMEDIATE\")`, and pass `&mut *tx`";
    // Only outside of a transaction can another one begin.
    if claims.run("BEGIN").await.is_ok() {
        claims.run("ROLLBACK").await?;
        return Err(no_transaction(HELP));
    }
    let touch = format!("DELETE FROM {} WHERE 0", store.table());
    match claims.connection.query(statement(&touch, &[])).await {
        Ok(_) => Ok(()),
        // The snapshot of the transaction is out of date.
        Err(error) if error.is("517") => {
            let text = format!(
                "another connection has written to the file since this transaction first read it\n\
                 help: {HELP}"
            );
            Err(StoreError::new(StoreErrorKind::Contended, text).with_source(error))
        }
        Err(error) => Err(claims.error(error)),
    }
}

/// Writes the end of an attempt.
pub(super) async fn swap<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &SqliteStore,
    key: &RecordKey,
    swap: &Swap,
) -> Result<Swapped, StoreError> {
    let key = KeyColumns::of(key);
    let columns = SwapColumns::of(&key, swap);
    let now = store.now();
    let statements = store.statements();
    let text = match columns.kind {
        SwapKind::Insert => Some(&statements.insert),
        SwapKind::Update if claims.state.holds => Some(&statements.replace_locked),
        SwapKind::Update => Some(&statements.update),
        SwapKind::Extend => Some(&statements.extend),
        SwapKind::Delete => Some(&statements.delete),
        SwapKind::Show => None,
    };
    if let Some(text) = text {
        let mut params = columns.params();
        params.extend(now.params());
        let written = claims.connection.query(statement(text, &params)).await;
        if !written.map_err(|error| claims.error(error))?.is_empty() {
            if let Some(release) = claims.release() {
                claims.run(&release).await?;
            }
            return Ok(Swapped::Done);
        }
    }
    let mut params = vec![Param::from(&*key.name)];
    params.extend(now.params());
    let rows = claims.connection.query(statement(&statements.load, &params)).await;
    Ok(Swapped::Found(found(Some(rows.map_err(|error| claims.error(error))?))?))
}

fn statement<'a>(text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
    Statement { text, params, preparation: Default::default() }
}

/// The error of a statement in a transaction.
pub(super) fn store_error(error: SqlError) -> StoreError {
    let primary = error.code().parse::<i32>().map(|code| code & 0xff);
    let kind = match (error.kind(), primary) {
        // Busy, locked.
        (SqlErrorKind::Refused, Ok(5 | 6)) => StoreErrorKind::Contended,
        // Full.
        (SqlErrorKind::Refused, Ok(13)) => StoreErrorKind::Full,
        // Read-only, cannot open, not a database.
        (SqlErrorKind::Refused, Ok(8 | 14 | 26)) => StoreErrorKind::Misconfigured,
        _ if error.to_string().contains("no such table") => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Unavailable,
    };
    let help = match kind {
        StoreErrorKind::Misconfigured => {
            "\nhelp: the pool must open the same file as the `SqliteStore` of the instance"
        }
        _ => "",
    };
    StoreError::new(kind, format!("SQLite: {error}{help}")).with_source(error)
}
