//! Bounds of the store, and counters of the records and bytes it holds.
//!
//! Each shard counts for itself and reports in lots, so that threads do not fight over one counter.
//! Small bounds are exact; large ones may be overshot by a thousandth.

use super::entry::key_cost;
use crate::key::RecordKey;
use crate::store::Usage;
use crate::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::fmt;

/// Changes of one shard that it has not reported yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    entries: i64,
    bytes: i64,
}

#[derive(Debug)]
pub(super) struct Budget {
    max_entries: u64,
    max_bytes: u64,
    /// The largest change that a shard may leave unreported.
    slack: Tally,
    entries: AtomicI64,
    bytes: AtomicI64,
}

impl Budget {
    pub(super) fn new(max_entries: u64, max_bytes: u64) -> Self {
        let slack = |max: u64, most| i64::try_from(max >> 16).unwrap_or(most).min(most);
        Self {
            max_entries,
            max_bytes,
            slack: Tally { entries: slack(max_entries, 64), bytes: slack(max_bytes, 1 << 14) },
            entries: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
        }
    }

    /// `true` if another record with this key fits. Racing callers may overshoot by one each.
    pub(super) fn admits(&self, tally: &Tally, key: &RecordKey) -> bool {
        self.usage([*tally]).entries < self.max_entries && self.has_bytes(tally, key_cost(key))
    }

    pub(super) fn has_bytes(&self, tally: &Tally, more: u64) -> bool {
        self.usage([*tally]).bytes.saturating_add(more) <= self.max_bytes
    }

    pub(super) fn add(&self, tally: &mut Tally, cost: u64) {
        self.change(tally, 1, signed(cost));
    }

    pub(super) fn remove(&self, tally: &mut Tally, cost: u64) {
        self.change(tally, -1, -signed(cost));
    }

    pub(super) fn resize(&self, tally: &mut Tally, before: u64, after: u64) {
        self.change(tally, 0, signed(after) - signed(before));
    }

    fn change(&self, tally: &mut Tally, entries: i64, bytes: i64) {
        tally.entries += entries;
        tally.bytes += bytes;
        if tally.entries.abs() > self.slack.entries || tally.bytes.abs() > self.slack.bytes {
            self.entries.fetch_add(tally.entries, Relaxed);
            self.bytes.fetch_add(tally.bytes, Relaxed);
            *tally = Tally::default();
        }
    }

    /// The sum of what was reported and what these shards have not reported yet.
    pub(super) fn usage(&self, unreported: impl IntoIterator<Item = Tally>) -> Usage {
        let mut entries = self.entries.load(Relaxed);
        let mut bytes = self.bytes.load(Relaxed);
        for tally in unreported {
            entries += tally.entries;
            bytes += tally.bytes;
        }
        let unsigned = |count| u64::try_from(count).unwrap_or(0);
        Usage::new(unsigned(entries), unsigned(bytes)).bounded(self.max_entries, self.max_bytes)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {} records and {} bytes", self.max_entries, self.max_bytes)
    }
}
