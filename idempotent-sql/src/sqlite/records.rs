//! Swaps and looks, as statements on one connection.

use super::clock::Now;
use super::errors::store_error;
use super::file::File;
use crate::client::SqlError;
use crate::client::rusqlite::{execute, first_row};
use crate::columns::{KeyColumns, SwapColumns, SwapKind, damaged, read_record};
use idempotent_runtime::store::{Found, Next, Seen, StoreError, Swap, Swapped};
use rusqlite::{Connection, Error};
use std::time::Duration;

/// The record of a name; the inner error is that of a row which cannot be read.
pub(super) fn look(
    connection: &Connection,
    file: &File,
    name: &[u8],
    now: &Now,
) -> Result<Result<Option<Found>, SqlError>, Error> {
    let [wall, boot, boot_id] = now.params();
    let row = first_row(connection, &file.statements.look, &[name.into(), wall, boot, boot_id])?;
    let found = row.map(|mut row| read_record(&mut row)).transpose();
    // One whose time is over counts as none.
    Ok(found.map(|found| found.filter(|found| found.ttl != Some(Duration::ZERO))))
}

/// The treatment of values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    Kept,
    /// There is no room for them.
    LeftOut,
}

/// Compares and writes, within a transaction that holds the write lock.
pub(super) fn swap(
    connection: &Connection,
    file: &File,
    key: &KeyColumns<'_>,
    swap: &Swap,
    values: Values,
) -> Result<Swapped, StoreError> {
    // Read here, after the lock was waited for, and once: both statements see one moment.
    let now = file.clock.now();
    let refused = |error| store_error(error, file);
    let without_value;
    let (swap, done) = match (values, swap) {
        (
            Values::LeftOut,
            Swap { seen, next: Next::Put { head, value: Some(_), ttl, when_full }, verb },
        ) => {
            let next = Next::Put { head: *head, value: None, ttl: *ttl, when_full: *when_full };
            without_value = Swap { seen: *seen, next, verb: *verb };
            (&without_value, Swapped::DoneWithoutValue)
        }
        _ => (swap, Swapped::Done),
    };
    if write(connection, file, key, swap, &now).map_err(refused)? {
        return Ok(done);
    }
    let found = look(connection, file, &key.name, &now).map_err(refused)?.map_err(damaged)?;
    if found.is_none() && swap.seen == Seen::Nothing && matches!(swap.next, Next::Put { .. }) {
        // Neither dead nor alive: its times are not numbers.
        return Err(damaged(SqlError::unexpected("the record is damaged: its times are invalid")));
    }
    Ok(Swapped::Found(found))
}

/// `true` if the condition holds, and the swap is done.
fn write(
    connection: &Connection,
    file: &File,
    key: &KeyColumns<'_>,
    swap: &Swap,
    now: &Now,
) -> Result<bool, Error> {
    let columns = SwapColumns::of(key, swap);
    let statement = match columns.kind {
        SwapKind::Insert => &file.statements.insert,
        SwapKind::Update => &file.statements.update,
        SwapKind::Extend => &file.statements.extend,
        SwapKind::Delete => &file.statements.delete,
        SwapKind::Show => return Ok(false),
    };
    let mut params = columns.params();
    params.extend(now.params());
    Ok(first_row(connection, statement, &params)?.is_some())
}

/// Removes some of what has expired, and returns their number.
pub(super) fn expire(connection: &Connection, file: &File, limit: i64) -> Result<u64, Error> {
    let now = file.clock.now();
    let [wall, boot, boot_id] = now.params();
    let params = [limit.into(), wall, boot, boot_id];
    let gone = execute(connection, &file.statements.expire, &params)?;
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}
