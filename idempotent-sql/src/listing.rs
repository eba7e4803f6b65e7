//! Listings of records: pages of rows in the order of their keys, and cursors between them.

use crate::client::Row;
use crate::columns::{damaged, life, read_head, read_key};
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{Cursor, Filter, Listed, Page, StoreError, StoreErrorKind};
use std::time::Duration;

/// The most records of a page.
const PAGE_MAX: usize = 10_000;

/// The number of rows to ask for.
pub(crate) fn page_size(limit: usize) -> usize {
    limit.clamp(1, PAGE_MAX)
}

/// The page of these rows, of which there are `limit` unless they are the last. A row has the key,
/// the long key, the head, the length of the response and the life.
pub(crate) fn page(rows: Vec<Row>, filter: &Filter, limit: usize) -> Result<Page, StoreError> {
    let looked_at = rows.len();
    let (mut page, mut last) = (Page::default(), None);
    for mut row in rows {
        let name = row.bytes().map_err(damaged)?;
        last.clone_from(&name);
        let long_key = row.bytes().map_err(damaged)?;
        let (Ok(key), Ok(head)) = (read_key(name, long_key), read_head(&mut row)) else {
            page.skipped += 1;
            continue;
        };
        if key.as_str().parse::<RecordKey>().is_err() {
            page.skipped += 1;
            continue;
        }
        let bytes = row.integer().map_err(damaged)?.map(i64::cast_unsigned);
        let ttl = life(row.integer().map_err(damaged)?);
        if ttl > Duration::ZERO && filter.admits_key(&key) && filter.admits_head(&head, ttl) {
            page.records.push(Listed::new(key, head, ttl, bytes));
        }
    }
    if looked_at == limit {
        page.next = last.map(|name| Cursor::new(hex(&name)));
    }
    Ok(page)
}

/// The name after which a page begins.
pub(crate) fn place(after: Option<&Cursor>) -> Result<Vec<u8>, StoreError> {
    let digits = after.map(Cursor::as_str).unwrap_or_default().as_bytes();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.filter(|_| digits.len().is_multiple_of(2)).ok_or_else(|| {
        let text = "the cursor is not one of this store";
        StoreError::new(StoreErrorKind::Misconfigured, text)
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
