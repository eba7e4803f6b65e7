//! Listing of records: shard by shard, and within a shard in the order of their hashes.
//!
//! The order depends on nothing but the keys, so a record that stays is listed exactly once, however
//! the table of its shard grows or shrinks meanwhile. A table knows no order: a call looks for the
//! next few hashes in a pass over the whole of it. A pass holds the lock for a bounded step at a
//! time, and starts again if the table was moved between two steps; that is rare, since a table
//! moves when it has doubled.

use super::shard::Shard;
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

/// A pass over a table that looks for the next few hashes.
pub(super) struct Pass {
    after: Option<u64>,
    limit: usize,
    /// The largest of them on top.
    smallest: BinaryHeap<u64>,
    bucket: usize,
    /// Those of the table at the first step.
    moves: Option<u64>,
}

/// The state of a pass after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// Entries have changed their places since the first step: some may have been passed by.
    Moved,
    Done,
}

impl Pass {
    pub(super) fn new(after: Option<u64>, limit: usize) -> Self {
        Self { after, limit, smallest: BinaryHeap::new(), bucket: 0, moves: None }
    }

    /// Looks at so many buckets.
    pub(super) fn step(&mut self, shard: &Shard, buckets: usize) -> Progress {
        if *self.moves.get_or_insert(shard.moves()) != shard.moves() {
            return Progress::Moved;
        }
        let after = self.after;
        let hashes = shard.hashes(self.bucket, buckets);
        for hash in hashes.filter(|hash| after.is_none_or(|after| *hash > after)) {
            if self.smallest.len() < self.limit {
                self.smallest.push(hash);
            } else if let Some(mut largest) = self.smallest.peek_mut()
                && hash < *largest
            {
                *largest = hash;
            }
        }
        self.bucket = self.bucket.saturating_add(buckets);
        if self.bucket < shard.buckets() { Progress::More } else { Progress::Done }
    }

    /// The hashes that were found, in order.
    pub(super) fn hashes(self) -> Vec<u64> {
        self.smallest.into_sorted_vec()
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
        let mut pass = Pass::new(after, limit);
        let mut passes = 1;
        loop {
            let step = if passes > PASSES { usize::MAX } else { PASS_STEP };
            let progress = pass.step(&lock(&self.shards[shard]), step);
            match progress {
                Progress::More => {}
                Progress::Moved => {
                    pass = Pass::new(after, limit);
                    passes += 1;
                }
                Progress::Done => return pass.hashes(),
            }
        }
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
                Ok(parts) => {
                    filter.admits_parts(&parts) && filter.admits_head(&found.head, found.ttl)
                }
                Err(_) => {
                    page.skipped += 1;
                    false
                }
            };
            page.records.extend(living.into_iter().filter(admitted));
        }
    }
}
