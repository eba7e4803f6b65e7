//! Claims in MySQL and MariaDB: the row of the record holds the key, locked until the transaction
//! ends.
//!
//! Neither database has a lock that ends with a transaction other than that of a row. So the first
//! attempt of a key writes a record of a running attempt, which nobody else sees, and which its end
//! replaces. A later attempt only locks the record that is there.
//!
//! A transaction of this crate's own is `READ COMMITTED` and looks first, so that a repeat call
//! writes nothing. One of the caller's may be `REPEATABLE READ`, in which a look at a key that is
//! missing locks the gap around it, and two such looks end in a deadlock: there the record is
//! inserted first.

use super::claims::{Claims, decide, found, no_end, no_transaction, record, unprepared};
use crate::MySqlStore;
use crate::client::{Param, Row, SqlConnection, SqlError, Statement};
use crate::columns::{KeyColumns, SwapColumns, SwapKind};
use crate::dialect::mysql::{NONE_WRITTEN, SOME_WRITTEN};
use crate::mysql::errors::{is_duplicate, is_locked};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{Claimed, TransactionClaim};
use idempotent_runtime::store::{Head, Next, Seen, StoreError, Swap, Swapped, Verb, WhenFull};
use std::time::{Duration, Instant};

/// The pause between two looks at a record that another transaction has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn claim<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    claim: TransactionClaim<'_>,
) -> Result<Claimed, StoreError> {
    if !claims.state.owned {
        check_transaction(claims).await?;
    }
    if !claims.state.owned || claims.state.has_snapshot {
        // If it is there already, it can be locked without a gap.
        let first = decide(&claim, None)?;
        if let Some(granted) = insert(claims, store, &claim, first).await? {
            return savepoint(claims, &claim, granted).await;
        }
    }
    let key = KeyColumns::of(claim.key);
    let name = [Param::from(&*key.name)];
    let rows = match look(claims, store, &name, &claim).await? {
        Looked::Locked => return Ok(Claimed::Held),
        Looked::Rows(rows) => rows,
    };
    let claimed = match decide(&claim, record(Some(rows))?)? {
        granted @ Claimed::Granted { seen: Seen::Nothing, .. } => {
            match insert(claims, store, &claim, granted).await? {
                Some(granted) => granted,
                // Another transaction has written it since the look.
                None => return Ok(Claimed::Outdated),
            }
        }
        claimed => claimed,
    };
    savepoint(claims, &claim, claimed).await
}

async fn savepoint<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    claim: &TransactionClaim<'_>,
    claimed: Claimed,
) -> Result<Claimed, StoreError> {
    if claim.undoable && matches!(claimed, Claimed::Granted { .. }) {
        claims.run(&claims.state.point.set()).await?;
        claims.state.savepoint = true;
    }
    Ok(claimed)
}

/// Refuses a connection that is not in a transaction, where the server tells: MariaDB does.
async fn check_transaction<C: SqlConnection>(claims: &mut Claims<'_, C>) -> Result<(), StoreError> {
    let text = "SELECT CAST(@@in_transaction AS SIGNED)";
    let mut rows = match claims.connection.query(statement(text, &[])).await {
        Ok(rows) => rows,
        // Unknown system variable: MySQL.
        Err(error) if error.is("1193") => return Ok(()),
        Err(error) => return Err(claims.error(error)),
    };
    match rows.first_mut().map(Row::integer) {
        Some(Ok(Some(0))) => {
            Err(no_transaction("begin one with `pool.begin()`, and pass `&mut *tx`"))
        }
        _ => Ok(()),
    }
}

enum Looked {
    Rows(Vec<Row>),
    Locked,
}

/// Looks at the record and locks it.
async fn look<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    name: &[Param<'_>],
    claim: &TransactionClaim<'_>,
) -> Result<Looked, StoreError> {
    let statements = store.statements();
    let asked = Instant::now();
    loop {
        // Not by waiting in the server: for how long is a setting of the session, which a caller that
        // goes away would leave behind.
        match claims.connection.query(statement(&statements.look_now, name)).await {
            Ok(rows) => return Ok(Looked::Rows(rows)),
            Err(error) if is_locked(&error) && asked.elapsed() >= claim.wait => {
                return Ok(Looked::Locked);
            }
            Err(error) if is_locked(&error) => tokio::time::sleep(LOCKED_PAUSE).await,
            Err(error) => return Err(claims.error(error)),
        }
    }
}

/// Writes the record of a running attempt. `None` if another one is there.
async fn insert<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    claim: &TransactionClaim<'_>,
    granted: Claimed,
) -> Result<Option<Claimed>, StoreError> {
    let Claimed::Granted { attempt, before, .. } = granted else { return Ok(None) };
    let head = Head::held_by(attempt);
    // Nobody else sees it, and it must not expire under its own transaction.
    let ttl = attempt.claim.ttl().saturating_add(claim.max_run);
    let when_full = WhenFull::Refuse;
    let next = Next::Put { head, value: None, ttl, when_full };
    let swap = Swap { seen: Seen::Nothing, next, verb: Verb::Begin };
    let granted = Claimed::Granted { attempt, seen: Seen::This { head, at_most: None }, before };
    Ok(write(claims, store, claim.key, &swap).await?.then_some(granted))
}

/// `true` if the condition of a swap holds, and it is done.
async fn write<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    key: &RecordKey,
    swap: &Swap,
) -> Result<bool, StoreError> {
    let key = KeyColumns::of(key);
    let columns = SwapColumns::of(&key, swap);
    let statements = store.statements();
    let params = columns.params();
    let name = &params[..1];
    let count = match columns.kind {
        SwapKind::Insert => {
            // The key again, for the condition of one that looks.
            let all = [&params[..], name].concat();
            let inserted = match claims.state.owned {
                true => counted(claims, store, &statements.insert, &all).await,
                false => counted(claims, store, &statements.insert_first, &params).await,
            };
            match inserted {
                // One is there that has expired, or was committed since.
                Err(error) if is_duplicate(&error) => {
                    let replaced = [&params[4..], name].concat();
                    counted(claims, store, &statements.take_over, &replaced).await
                }
                count => count,
            }
        }
        SwapKind::Update => {
            let (seen, next) = params[1..].split_at(9);
            let text = match claims.state.holds {
                true => &statements.replace_locked,
                false => &statements.update,
            };
            counted(claims, store, text, &[next, name, seen].concat()).await
        }
        SwapKind::Extend | SwapKind::Delete | SwapKind::Show => {
            return Err(no_end());
        }
    };
    Ok(count.map_err(|error| claims.error(error))? > 0)
}

/// Runs a statement that writes, and returns how many rows it wrote. The savepoint is released behind
/// it, unless it wrote none: then the statement in between fails.
async fn counted<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    text: &str,
    params: &[Param<'_>],
) -> Result<i64, SqlError> {
    let written = &store.statements().written;
    if let Some(release) = claims.release() {
        let some = unprepared(SOME_WRITTEN);
        let statements = [statement(text, params), some, unprepared(&release)];
        return match claims.connection.query_each(&statements).await {
            Ok(_) => Ok(1),
            Err(error) if error.is(NONE_WRITTEN) => Ok(0),
            Err(error) => Err(error),
        };
    }
    let statements = [statement(text, params), statement(written, &[])];
    let rows = claims.connection.query_each(&statements).await?;
    let mut count = rows.into_iter().nth(1).unwrap_or_default();
    count.first_mut().map_or(Ok(None), Row::integer).map(Option::unwrap_or_default)
}

/// Writes the end of an attempt.
pub(super) async fn swap<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &MySqlStore,
    key: &RecordKey,
    swap: &Swap,
) -> Result<Swapped, StoreError> {
    if write(claims, store, key, swap).await? {
        return Ok(Swapped::Done);
    }
    let key = KeyColumns::of(key);
    let name = [Param::from(&*key.name)];
    let rows = claims.connection.query(statement(&store.statements().load, &name)).await;
    Ok(Swapped::Found(found(Some(rows.map_err(|error| claims.error(error))?))?))
}

fn statement<'a>(text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
    Statement { text, params, preparation: Default::default() }
}
