//! Claims in PostgreSQL: an advisory lock of the transaction holds the key.
//!
//! The lock is taken first, and the record is looked at in the next statement, which sees what the
//! holder before has committed. Nothing is written until the attempt ends, so a claim costs no
//! write, and the end of the attempt is one: the finished record.

use super::Isolation;
use super::claims::{Claims, Savepoint, decide, no_end, no_transaction, record, unprepared};
use crate::PostgresStore;
use crate::client::{
    Database, Param, Preparation, Row, SqlConnection, SqlError, Statement, script,
};
use crate::columns::{KeyColumns, SwapColumns, SwapKind, damaged, read_record};
use crate::dialect::postgres::NOTHING_WRITTEN;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{Claimed, TransactionClaim};
use idempotent_runtime::store::{Next, StoreError, Swap, Swapped};
use std::time::{Duration, Instant};

/// Tries to take the lock `$1`. The setting `$2` tells statements of the body apart in logs.
const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)::int::bigint, \
                        set_config('idempotent.key', $2, true)";
/// The same, and limits the transaction to `$3` milliseconds between and in its statements.
const TRY_LOCK_AND_LIMIT: &str = "SELECT pg_try_advisory_xact_lock($1)::int::bigint, \
                                  set_config('idempotent.key', $2, true), \
                                  set_config('idle_in_transaction_session_timeout', $3, true), \
                                  set_config('statement_timeout', $3, true)";
/// The same, but it fails if the lock is taken: a cast of a text that tells the reader of the server's
/// log why.
const LOCK_AND_LIMIT_OR_FAIL: &str = "SELECT (CASE WHEN pg_try_advisory_xact_lock($1) THEN '1' \
                                      ELSE 'idempotent: the key is not new, and is held' END)::int, \
                                      set_config('idempotent.key', $2, true), \
                                      set_config('idle_in_transaction_session_timeout', $3, true), \
                                      set_config('statement_timeout', $3, true)";
const SET_LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, true)";

/// The statement that begins a transaction.
pub(super) fn begin(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Default => "BEGIN ISOLATION LEVEL READ COMMITTED",
        Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
    }
}

/// The message that begins a transaction which holds a key without a record. It fails if there is a
/// record, or if another transaction holds the key. `None` if the key is not expected to be new.
///
/// `BEGIN` comes after lock and look, which belong to the transaction that it begins all the same. If
/// one of them fails there is none, and nothing to roll back: sqlx does not roll back what it has not
/// seen begin. In a session with a higher isolation, whose look may be too old, `BEGIN` is refused: the
/// isolation of a transaction cannot be changed after its first statement.
pub(super) fn begin_with_new_key<'a>(
    store: &'a PostgresStore,
    claim: &TransactionClaim<'a>,
) -> Option<impl FnOnce() -> String + Send + 'a> {
    let inner = store.inner();
    let key = KeyColumns::of(claim.key);
    let lock = key.lock(store.table());
    let (undoable, limit) = (claim.undoable, limit(claim));
    let message = move || {
        let mark = crate::mark::mark(key.whole());
        let params = [lock.into(), Param::from(&*mark), Param::from(&*limit)];
        let name = [Param::from(&*key.name)];
        let savepoint = Savepoint::default().set();
        let with = |text, params| Statement { params, ..unprepared(text) };
        let statements = [
            with(LOCK_AND_LIMIT_OR_FAIL, &params),
            with(&inner.statements.none_or_fail, &name),
            unprepared(begin(Isolation::Default)),
            unprepared(&savepoint),
        ];
        let count = statements.len() - usize::from(!undoable);
        script(Database::Postgres, &statements[..count])
    };
    inner.expects_new(lock).then_some(message)
}

/// The longest time that a transaction may take, in milliseconds.
fn limit(claim: &TransactionClaim<'_>) -> String {
    claim.max_run.as_millis().min(i32::MAX as u128).to_string()
}

pub(super) async fn claim<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &PostgresStore,
    claim: TransactionClaim<'_>,
) -> Result<Claimed, StoreError> {
    if std::mem::take(&mut claims.state.is_new) {
        claims.state.savepoint = claim.undoable;
        return decide(&claim, None);
    }
    let claimed = ask(claims, store, &claim).await?;
    if claimed != Claimed::Held || claim.wait.is_zero() {
        return Ok(claimed);
    }
    match wait_for_lock(claims, store, &claim).await? {
        Waited::TooLong => Ok(Claimed::Held),
        // The holder before may have committed, and this transaction would not see it.
        Waited::WithSnapshot => Ok(Claimed::Outdated),
        // The lock is this transaction's: this one is not refused it.
        Waited::Locked => ask(claims, store, &claim).await,
    }
}

/// Takes the lock if it is free, and looks at the record.
async fn ask<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &PostgresStore,
    claim: &TransactionClaim<'_>,
) -> Result<Claimed, StoreError> {
    let inner = store.inner();
    let preparation = inner.preparation();
    let statement = |text, params| Statement { text, params, preparation };
    let key = KeyColumns::of(claim.key);
    let mark = crate::mark::mark(claim.key);
    let (lock, limit) = (key.lock(store.table()), limit(claim));
    let params = [lock.into(), Param::from(&*mark), Param::from(&*limit)];
    let (text, params) = match claims.state.owned {
        true => (TRY_LOCK_AND_LIMIT, &params[..]),
        false => (TRY_LOCK, &params[..2]),
    };
    let name = [Param::from(&*key.name)];
    let mut statements =
        vec![statement(text, params), statement(&inner.statements.load_any, &name)];
    let savepoint = claims.state.point.set();
    if claim.undoable {
        statements.push(unprepared(&savepoint));
    }
    let rows = match claims.connection.query_each(&statements).await {
        Ok(rows) => rows,
        // `SAVEPOINT can only be used in transaction blocks`.
        Err(error) if error.is("25P01") => {
            return Err(no_transaction("begin one with `pool.begin()`, and pass `&mut *tx`"));
        }
        Err(error) => return Err(claims.error(error)),
    };
    claims.state.savepoint = claim.undoable;
    let mut rows = rows.into_iter();
    let mut locked = first(rows.next()).map_err(damaged)?;
    let is_locked = locked.integer().map_err(damaged)? == Some(1);
    let looked = rows.next();
    let life = looked.iter().flatten().next().and_then(Row::last_integer);
    claims.state.leftover = life.is_some_and(|micros| micros <= 0);
    if claims.state.owned && claim.wait.is_zero() {
        inner.met(lock, is_locked && life.is_none());
    }
    let looked = looked.filter(|_| !claims.state.leftover);
    match decide(claim, record(looked)?)? {
        Claimed::Granted { .. } if !is_locked => Ok(Claimed::Held),
        // An answer that is recorded holds, whichever caller has the lock: mostly other repeat calls.
        claimed => Ok(claimed),
    }
}

/// The end of a wait for the lock of a key.
enum Waited {
    Locked,
    /// The same, in a transaction that sees the database as it was before the wait.
    WithSnapshot,
    TooLong,
}

/// The longest time for which one statement waits. A caller that goes away while it waits leaves
/// its connection to a statement that nobody needs: after this time the pool has it back.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Waits for the lock. A transaction of the caller's goes on as it was if that takes too long.
async fn wait_for_lock<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &PostgresStore,
    claim: &TransactionClaim<'_>,
) -> Result<Waited, StoreError> {
    let preparation = store.inner().preparation();
    fn with<'a>(preparation: Preparation, text: &'a str, params: &'a [Param<'a>]) -> Statement<'a> {
        Statement { text, params, preparation }
    }
    let look = "SELECT current_setting('transaction_isolation'), current_setting('lock_timeout')";
    let point = &claims.state.point;
    let (set_point, undo, release) = (point.set(), point.undo(), point.release());
    // An error ends the transaction, unless it comes after a savepoint. The one that was set when the
    // key was asked for will do; it ends with the wait, since to undo to it would let go of the lock.
    let statements = [with(preparation, look, &[]), unprepared(&set_point)];
    let is_set = std::mem::replace(&mut claims.state.savepoint, false);
    let rows = claims.each(&statements[..2 - usize::from(is_set)]).await?;
    let mut settings = first(rows.into_iter().next()).map_err(damaged)?;
    let isolation = settings.text().map_err(damaged)?.unwrap_or_default();
    let before = settings.text().map_err(damaged)?.unwrap_or_default();
    let (reset, number) =
        ([Param::from(&*before)], [KeyColumns::of(claim.key).lock(store.table()).into()]);
    let give_up = Instant::now() + claim.wait;
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        let millis = left.min(LONGEST_WAIT).as_millis().max(1).to_string();
        let set = [Param::from(&*millis)];
        let statements = [
            with(preparation, SET_LOCK_TIMEOUT, &set),
            with(preparation, "SELECT pg_advisory_xact_lock($1)::text", &number),
            with(preparation, SET_LOCK_TIMEOUT, &reset),
            unprepared(&release),
        ];
        match claims.connection.query_each(&statements).await {
            Ok(_) if isolation == "read committed" => return Ok(Waited::Locked),
            Ok(_) => return Ok(Waited::WithSnapshot),
            Err(late) if late.is("55P03") && left > LONGEST_WAIT => {
                claims.run(&undo).await?;
            }
            // Lock timeout, statement timeout, deadlock.
            Err(late) if late.is("55P03") || late.is("57014") || late.is("40P01") => {
                claims.each(&[unprepared(&undo), unprepared(&release)]).await?;
                return Ok(Waited::TooLong);
            }
            Err(error) => return Err(claims.error(error)),
        }
    }
}

/// Writes the end of an attempt.
pub(super) async fn swap<C: SqlConnection>(
    claims: &mut Claims<'_, C>,
    store: &PostgresStore,
    key: &RecordKey,
    swap: &Swap,
) -> Result<Swapped, StoreError> {
    let inner = store.inner();
    let key = KeyColumns::of(key);
    let columns = SwapColumns::of(&key, swap);
    let (statements, preparation) = (&inner.statements, inner.preparation());
    let (text, or_fail, params) = match columns.kind {
        SwapKind::Insert if claims.state.leftover => {
            (&statements.insert_over_locked, &statements.insert_over_or_fail, columns.params())
        }
        SwapKind::Insert => {
            (&statements.insert_locked, &statements.insert_or_fail, columns.params())
        }
        SwapKind::Update if claims.state.holds => {
            let params = columns.insert_or_update_params();
            (&statements.replace_locked, &statements.replace_or_fail, params)
        }
        // Of an attempt that has a lease, in a transaction without a savepoint.
        SwapKind::Update => (&statements.update, &statements.update, columns.params()),
        SwapKind::Extend | SwapKind::Delete | SwapKind::Show => return Err(no_end()),
    };
    // It is not committed yet. A hint that is wrong costs a round trip.
    if let Next::Put { head, ttl, .. } = &swap.next {
        inner.note(key.lock(store.table()), head, *ttl);
    }
    // A failure of these statements keeps the release, or the commit, from being carried out.
    let write = Statement { text: or_fail, params: &params, preparation };
    let written = match claims.release() {
        Some(release) => {
            let statements = [write, unprepared(&release)];
            Some(claims.connection.query_each(&statements).await.map(drop))
        }
        None if claims.state.owned && claims.state.holds => {
            Some(claims.connection.query_last(write).await)
        }
        None => None,
    };
    match written {
        Some(Ok(())) => return Ok(Swapped::Done),
        Some(Err(error)) if error.is(NOTHING_WRITTEN) => return Ok(Swapped::Found(None)),
        Some(Err(error)) => return Err(claims.error(error)),
        None => {}
    }
    let answer = claims.connection.query(Statement { text, params: &params, preparation }).await;
    let mut rows = answer.map_err(|error| claims.error(error))?;
    let Some(row) = rows.first_mut() else { return Ok(Swapped::Found(None)) };
    match row.integer().map_err(damaged)? {
        Some(1 | 2) => Ok(Swapped::Done),
        _ => Ok(Swapped::Found(Some(read_record(row).map_err(damaged)?))),
    }
}

fn first(rows: Option<Vec<Row>>) -> Result<Row, SqlError> {
    let row = rows.and_then(|rows| rows.into_iter().next());
    row.ok_or_else(|| SqlError::unexpected("a row is missing"))
}
