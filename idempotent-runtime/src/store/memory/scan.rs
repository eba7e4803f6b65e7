//! Listing of records: shard by shard, and within a shard in the order of their hashes.
//!
//! The order depends on nothing but the keys, so a record that stays is listed exactly once, however
//! the table of its shard grows or shrinks meanwhile. A table knows no order: a call looks for the
//! next few hashes in a pass over the whole of it. A pass holds the lock for a bounded step at a
//! time, and starts again if the table was moved between two steps; that is rare, since a table
//! moves when it has doubled.

use super::{MemoryStore, SHARDS};
use crate::store::scan::LIMIT_MAX;
use crate::store::{Cursor, Filter, Listed, Page, StoreError, StoreErrorKind};
use crate::sync::lock;
use std::collections::BinaryHeap;

/// Buckets of a table that a pass looks at while it holds the lock. Few in tests, so that tables move
/// between two steps.
const PASS_STEP: usize = if cfg!(test) { 16 } else { 4_096 };
/// Records that are read while the lock is held.
const READ_STEP: usize = 64;
/// Passes after which one is made in a single step, so that a call ends whatever others do.
const PASSES: usize = 8;

/// A place in a listing: behind this hash of this shard, or before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    shard: usize,
    after: Option<u64>,
}

impl Place {
    fn read(cursor: Option<&Cursor>) -> Option<Self> {
        let Some(cursor) = cursor else { return Some(Self { shard: 0, after: None }) };
        let (shard, after) = cursor.as_str().split_once('.')?;
        let (shard, after) = (shard.parse().ok()?, u64::from_str_radix(after, 16).ok()?);
        (shard < SHARDS).then_some(Self { shard, after: Some(after) })
    }

    fn cursor(shard: usize, after: u64) -> Cursor {
        Cursor::new(format!("{shard}.{after:016x}"))
    }
}

impl MemoryStore {
    pub(super) fn page(
        &self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let Some(Place { shard: first, mut after }) = Place::read(after) else {
            let text = "the cursor is not one of a memory store";
            return Err(StoreError::new(StoreErrorKind::Misconfigured, text));
        };
        let mut left = limit.clamp(1, LIMIT_MAX);
        let mut page = Page::default();
        for shard in first..SHARDS {
            let hashes = self.next_hashes(shard, after.take(), left);
            self.list(shard, &hashes, filter, &mut page);
            left -= hashes.len().min(left);
            if let (0, Some(last)) = (left, hashes.last()) {
                page.next = Some(Place::cursor(shard, *last));
                break;
            }
        }
        Ok(page)
    }

    /// The smallest hashes above `after` in a shard, in order, up to `limit` of them.
    fn next_hashes(&self, shard: usize, after: Option<u64>, limit: usize) -> Vec<u64> {
        let mut passes = 0;
        loop {
            passes += 1;
            let step = if passes > PASSES { usize::MAX } else { PASS_STEP };
            if let Some(hashes) = self.pass(shard, after, limit, step) {
                return hashes;
            }
        }
    }

    /// One pass over a table; `None` if it was moved meanwhile.
    fn pass(
        &self,
        shard: usize,
        after: Option<u64>,
        limit: usize,
        step: usize,
    ) -> Option<Vec<u64>> {
        let mut smallest = BinaryHeap::new();
        let mut bucket = 0;
        let mut moves = None;
        loop {
            let shard = lock(&self.shards[shard]);
            if *moves.get_or_insert(shard.moves()) != shard.moves() {
                return None;
            }
            let hashes = shard.hashes(bucket, step);
            for hash in hashes.filter(|hash| after.is_none_or(|after| *hash > after)) {
                if smallest.len() < limit {
                    smallest.push(hash);
                } else if let Some(mut largest) = smallest.peek_mut()
                    && hash < *largest
                {
                    *largest = hash;
                }
            }
            bucket = bucket.saturating_add(step);
            if bucket >= shard.buckets() {
                break;
            }
        }
        Some(smallest.into_sorted_vec())
    }

    /// Adds the records with these hashes that still live, and that the filter admits.
    fn list(&self, shard: usize, hashes: &[u64], filter: &Filter, page: &mut Page) {
        for hashes in hashes.chunks(READ_STEP) {
            let mut living = Vec::with_capacity(hashes.len());
            let opened = lock(&self.shards[shard]);
            let now = self.clock.now();
            let mut last = None;
            for hash in hashes {
                // Two keys with one hash are both found by it.
                if last.replace(*hash) != Some(*hash) {
                    let entries = opened.with_hash(*hash);
                    living.extend(entries.filter_map(|entry| entry.listed(now)));
                }
            }
            drop(opened);
            let admitted = |found: &Listed| match found.key.parts() {
                Ok(parts) => filter.admits_parts(&parts) && filter.admits_state(found.head.state),
                Err(_) => {
                    page.skipped += 1;
                    false
                }
            };
            page.records.extend(living.into_iter().filter(admitted));
        }
    }
}
