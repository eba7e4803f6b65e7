//! Answers of ended records in the memory of this process, before a store on the network.
//!
//! An answer is served from memory only while the store is certain to report that its record has been
//! freed. Anything uncertain is left to the store: while the subscription is not there the cache is
//! empty and stays so.
//!
//! # The epoch
//! An operator may free a record between the moment at which the store reads it for a call of this process
//! and the moment at which that call keeps the answer. So a call takes a [`Reading`], with the epoch,
//! before it asks the store, and keeps nothing if the epoch has changed since. Every key that is
//! freed, and every loss of the subscription, changes the epoch *before* it removes entries, each
//! under the lock of its shard; the epoch is compared under the same lock. Either the comparison comes
//! first, and the removal finds the entry; or the removal comes first, and the comparison finds
//! another epoch.
//!
//! The epoch is odd while the store listens, so that one load tells both.

use super::replay_shard::{Entry, Kept, Shard};
use crate::clock::Moment;
use crate::config::ReplayCache;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::Begun;
use crate::store::FreedEvent;
use crate::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
use crate::sync::{CachePadded, Mutex, RandomState, lock, shards};
use std::hash::BuildHasher as _;
use std::time::Duration;

/// The most shards. A shard holds at least a few of the largest entries.
const SHARDS: usize = shards(16);
/// The least number of entries for which a shard is worth it.
const ENTRIES_OF_A_SHARD: usize = 64;

/// The cache of an instance.
#[derive(Debug)]
pub(crate) struct Replays {
    epoch: CachePadded<AtomicU64>,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    hasher: RandomState,
    max_age: Duration,
    largest_entry: usize,
}

/// The right to keep an answer of the store that is asked for from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    epoch: u64,
    at: Moment,
}

/// The result of a lookup in the cache.
#[derive(Debug)]
pub(crate) enum Lookup {
    Hit(Kept),
    Miss,
    /// The store does not listen: nothing is kept.
    Off,
}

impl Lookup {
    /// Its name in metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hit(_) => "hit",
            Self::Miss => "miss",
            Self::Off => "off",
        }
    }
}

/// An answer of the store to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a> {
    pub(crate) key: &'a RecordKey,
    /// The payload of the call.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) answer: &'a Begun,
    /// The longest time for which the record lives, from when the store was asked.
    pub(crate) life: Duration,
}

impl Replays {
    pub(crate) fn new(options: &ReplayCache) -> Self {
        let count = (options.max_entries / ENTRIES_OF_A_SHARD).clamp(1, SHARDS);
        // A power of two, so that a shard is found without a division.
        let count = 1 << count.ilog2();
        let (entries, bytes) = (options.max_entries / count, options.max_bytes / count);
        let shard = |_| CachePadded(Mutex::new(Shard::new(entries, bytes)));
        Self {
            epoch: CachePadded(AtomicU64::new(0)),
            shards: (0..count).map(shard).collect(),
            hasher: RandomState::new(),
            max_age: options.max_age,
            largest_entry: options.largest_entry(),
        }
    }

    /// The answer to a call at this moment.
    pub(crate) fn find(
        &self,
        key: &RecordKey,
        fingerprint: Option<Fingerprint>,
        now: Moment,
    ) -> Lookup {
        if !is_listening(self.epoch.load(Acquire)) {
            return Lookup::Off;
        }
        let hash = self.hash(key.as_str());
        match lock(self.shard(hash)).find(hash, key, fingerprint, now) {
            Some(kept) => Lookup::Hit(kept),
            None => Lookup::Miss,
        }
    }

    /// To be taken before the store is asked. `None` if nothing can be kept.
    ///
    /// Acquire: the epoch is not read later than the store.
    pub(crate) fn reading(&self, now: Moment) -> Option<Reading> {
        let epoch = self.epoch.load(Acquire);
        is_listening(epoch).then_some(Reading { epoch, at: now })
    }

    /// Keeps the answer of a record that has ended, and drops what is kept of any other.
    pub(crate) fn told(&self, reading: Reading, told: Told<'_>) {
        let Told { key, fingerprint, answer, life } = told;
        let hash = self.hash(key.as_str());
        let Some(kept) = Kept::of(answer) else {
            return lock(self.shard(hash)).remove(hash, key.as_str());
        };
        let (asked_at, until) = (reading.at, reading.at.after(life.min(self.max_age)));
        let key = key.clone();
        let entry = Entry { hash, key, fingerprint, kept, asked_at, until, is_used: false };
        let mut shard = lock(self.shard(hash));
        if shard.has_later(&entry) {
            return;
        }
        if self.epoch.load(Acquire) != reading.epoch {
            // What was kept before is older than what is not kept now.
            return shard.remove(hash, entry.key.as_str());
        }
        match entry.bytes() <= self.largest_entry {
            true => shard.insert(entry, reading.at),
            false => shard.remove(hash, entry.key.as_str()),
        }
    }

    /// Follows what the store tells of freed records.
    pub(crate) fn heard(&self, event: FreedEvent<'_>) {
        match event {
            FreedEvent::Listening => drop(self.epoch.fetch_or(1, AcqRel)),
            FreedEvent::Freed(key) => self.freed(key),
            FreedEvent::Lost => {
                let over = |epoch| is_listening(epoch).then_some(epoch + 1);
                if self.epoch.fetch_update(AcqRel, Acquire, over).is_ok() {
                    self.shards.iter().for_each(|shard| lock(shard).clear());
                }
            }
        }
    }

    /// An operator freed or resolved the record of `key`, or may have.
    pub(crate) fn freed(&self, key: &str) {
        // By two: it is listening after this if it was before.
        self.epoch.fetch_add(2, AcqRel);
        let hash = self.hash(key);
        lock(self.shard(hash)).remove(hash, key);
    }

    /// `true` if answers are given and kept.
    pub(crate) fn is_listening(&self) -> bool {
        is_listening(self.epoch.load(Acquire))
    }

    /// The number of entries, and their bytes.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let each = self.shards.iter().map(|shard| {
            let shard = lock(shard);
            (shard.len(), shard.bytes())
        });
        each.fold((0, 0), |(entries, bytes), (more, of)| (entries + more, bytes + of))
    }

    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// By other bits of the hash than those by which a table finds a key.
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }
}

fn is_listening(epoch: u64) -> bool {
    epoch & 1 == 1
}

#[cfg(test)]
#[path = "replays_tests.rs"]
mod tests;
