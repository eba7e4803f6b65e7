//! A part of the [replay cache](super::replays): the entries of some keys, within bounds.
//!
//! Entries that were asked for since the hand passed them are spared once (the clock algorithm). Each
//! step of the hand that removes nothing undoes a hit, so eviction takes constant time per
//! entry and hit. The hand passes a new entry after all that are there, so entries that nobody asks for leave in the order
//! in which they came.

use crate::clock::Moment;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::Begun;
use crate::store::Value;
use hashbrown::HashTable;
use std::fmt;

/// The cost of an entry beside its key and its value: itself, its place in the table, and the heads
/// of two allocations.
const ENTRY_BYTES: usize = size_of::<Entry>() + 64;

/// The answer of an ended record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Succeeded { number: u32, value: Option<Value> },
    FailedFinal { number: u32, value: Option<Value> },
}

impl Kept {
    /// The answer that the record has given; `None` if it has not ended.
    pub(super) fn of(answer: &Begun) -> Option<Self> {
        match answer {
            Begun::Succeeded { number, value } => {
                Some(Self::Succeeded { number: *number, value: value.clone() })
            }
            Begun::FailedFinal { number, value } => {
                Some(Self::FailedFinal { number: *number, value: value.clone() })
            }
            _ => None,
        }
    }

    fn value(&self) -> Option<&Value> {
        let (Self::Succeeded { value, .. } | Self::FailedFinal { value, .. }) = self;
        value.as_ref()
    }
}

/// An answer, and the calls to which it is given.
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) key: RecordKey,
    /// The payload for which the store has given the answer. Another payload has to be compared with
    /// that of the record.
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) kept: Kept,
    /// The moment at which the store was asked for it.
    pub(super) asked_at: Moment,
    /// The moment from which the store is asked again.
    pub(super) until: Moment,
    /// It was asked for since the hand passed it.
    pub(super) is_used: bool,
}

impl Entry {
    pub(super) fn bytes(&self) -> usize {
        let value = self.kept.value().map_or(0, |value| value.as_bytes().len());
        self.key.as_str().len() + value + ENTRY_BYTES
    }

    /// `true` if the store is known to give this answer to a call with this payload.
    fn is_for(&self, fingerprint: Option<Fingerprint>) -> bool {
        fingerprint.is_none() || fingerprint == self.fingerprint
    }
}

/// Entries, and the hand that looks for one to remove.
pub(super) struct Shard {
    /// Numbers of entries, by the hash of their key.
    table: HashTable<usize>,
    /// Without gaps: the last one takes the place of one that is removed.
    entries: Vec<Entry>,
    hand: usize,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
}

impl Shard {
    pub(super) fn new(max_entries: usize, max_bytes: usize) -> Self {
        let (table, entries) = (HashTable::new(), Vec::new());
        Self { table, entries, hand: 0, bytes: 0, max_entries, max_bytes }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The answer to a call at this moment.
    #[inline]
    pub(super) fn find(
        &mut self,
        hash: u64,
        key: &RecordKey,
        fingerprint: Option<Fingerprint>,
        now: Moment,
    ) -> Option<Kept> {
        let index = self.index(hash, key.as_str())?;
        let entry = &mut self.entries[index];
        if now >= entry.until {
            self.remove_at(index);
            return None;
        }
        if !entry.is_for(fingerprint) {
            return None;
        }
        entry.is_used = true;
        Some(entry.kept.clone())
    }

    /// `true` if the store was asked for the answer that is kept after it was asked for this one.
    pub(super) fn has_later(&self, entry: &Entry) -> bool {
        let index = self.index(entry.hash, entry.key.as_str());
        index.is_some_and(|index| self.entries[index].asked_at > entry.asked_at)
    }

    /// Keeps an entry that fits, and removes others for it.
    pub(super) fn insert(&mut self, entry: Entry, now: Moment) {
        self.remove(entry.hash, entry.key.as_str());
        let bytes = entry.bytes();
        let mut freed = None;
        while !self.entries.is_empty()
            && (self.entries.len() >= self.max_entries || self.bytes + bytes > self.max_bytes)
        {
            let index = self.evict(now);
            freed.get_or_insert(index);
        }
        self.bytes += bytes;
        let (hash, index) = (entry.hash, self.entries.len());
        self.entries.push(entry);
        let entries = &self.entries;
        self.table.insert_unique(hash, index, |&index| entries[index].hash);
        // Behind the hand, which comes to it after all others. At the end it could be the next one to go.
        if let Some(freed) = freed.filter(|freed| *freed < index) {
            self.exchange([freed, index]);
        }
    }

    /// Exchanges two entries.
    fn exchange(&mut self, [one, other]: [usize; 2]) {
        let hashes = [self.entries[one].hash, self.entries[other].hash];
        let is_of = |place: usize, index: &usize| *index == [one, other][place];
        if let [Some(of_one), Some(of_other)] = self.table.get_disjoint_mut(hashes, is_of) {
            std::mem::swap(of_one, of_other);
            self.entries.swap(one, other);
        }
    }

    pub(super) fn remove(&mut self, hash: u64, key: &str) {
        if let Some(index) = self.index(hash, key) {
            self.remove_at(index);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.max_entries, self.max_bytes);
    }

    fn index(&self, hash: u64, key: &str) -> Option<usize> {
        self.table.find(hash, |&index| self.entries[index].key.as_str() == key).copied()
    }

    /// Removes the entry at which the hand stops, and returns its index.
    fn evict(&mut self, now: Moment) -> usize {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let index = self.hand;
            // Also past one that is removed: what takes its place has not been there for a round.
            self.hand += 1;
            let entry = &mut self.entries[index];
            if now >= entry.until || !std::mem::take(&mut entry.is_used) {
                self.remove_at(index);
                return index;
            }
        }
    }

    fn remove_at(&mut self, index: usize) {
        let removed = self.entries.swap_remove(index);
        self.bytes -= removed.bytes();
        if let Ok(found) = self.table.find_entry(removed.hash, |&it| it == index) {
            found.remove();
        }
        if let Some(moved) = self.entries.get(index) {
            let from = self.entries.len();
            if let Some(number) = self.table.find_mut(moved.hash, |&it| it == from) {
                *number = index;
            }
        }
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shard").field("entries", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "replay_shard_tests.rs"]
mod tests;
