//! One shard: a table of entries, their expiry, and who waits for them.

use super::budget::{Budget, Tally};
use super::entry::{Entry, value_cost};
use super::expiry::Expiry;
use crate::clock::Moment;
use crate::key::RecordKey;
use crate::store::{Decided, Head, State, Value, Watch};
use crate::sync::Notify;
use hashbrown::HashTable;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Number of expired records that each access to a shard removes.
pub(super) const SWEEP_ON_ACCESS: usize = 4;

/// An entry and the hash of its key. Boxed, so that the empty places of the table are small; the
/// hash beside it, so that a table that grows need not visit its entries.
type Boxed = (u64, Box<Entry>);

#[derive(Default)]
pub(super) struct Shard {
    table: HashTable<Boxed>,
    /// Grows whenever the entries of the table may change their places.
    moves: Cell<u64>,
    pub(super) tally: Tally,
    expiry: Expiry,
    watchers: HashMap<Box<str>, Weak<Notify>>,
    /// The size of `watchers` at which those without a waiter are removed.
    prune_at: usize,
}

/// Result of a sweep: all expired records are removed, or there may be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    All { removed: u64 },
    More { removed: u64 },
}

/// The place of an entry in its table, while the shard stays locked and nothing else changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Shard {
    /// Writes the record at `place`, or a new one if there is none with this key.
    pub(super) fn put(
        &mut self,
        place: Option<Place>,
        (hash, key): (u64, &RecordKey),
        head: &Head,
        (now, ttl): (Moment, Duration),
        value: Option<Value>,
        budget: &Budget,
    ) -> Decided {
        let expires = now.after(ttl);
        let has_value = value.is_some();
        let kept = value.filter(|value| budget.has_bytes(&self.tally, value_cost(value)));
        let decided = match kept.is_some() == has_value {
            true => Decided::Done,
            false => Decided::DoneWithoutValue,
        };
        // An attempt ends within its lease, as a rule. Its record is looked at when an answer would expire that it gave
        // at once, so that its end brings nothing forward.
        let due = match head.state {
            State::Processing => now.after(ttl.saturating_sub(head.attempt.claim.lease())),
            _ => expires,
        };
        let known = place.and_then(|Place(bucket)| self.table.get_bucket_mut(bucket));
        let entry = match known {
            Some((_, entry)) => {
                let before = entry.cost();
                entry.update(head, expires, kept);
                budget.resize(&mut self.tally, before, entry.cost());
                entry
            }
            None => {
                let entry = Box::new(Entry::new(key.clone(), head, expires, kept));
                budget.add(&mut self.tally, entry.cost());
                &mut self.table.insert_unique(hash, (hash, entry), moved(&self.moves)).into_mut().1
            }
        };
        let bucket = Expiry::bucket(due).min(Expiry::horizon(now));
        if bucket < entry.scheduled {
            entry.scheduled = bucket;
            self.expiry.schedule(bucket, hash);
            self.drop_stale();
        }
        decided
    }

    /// Lets a record live for `ttl` from now, or longer if it would anyway.
    pub(super) fn extend(&mut self, hash: u64, key: &RecordKey, now: Moment, ttl: Duration) {
        let is_key = |(known, entry): &Boxed| *known == hash && entry.is_key(key);
        if let Some((_, entry)) = self.table.find_mut(hash, is_key) {
            // Its place in the expiry index is looked at in time, and moved on then.
            entry.extend(now.after(ttl));
        }
    }

    /// Rebuilds the expiry index when most of it has no record behind it. A record that is removed,
    /// or whose expiry is brought forward, leaves a hash in a later bucket.
    fn drop_stale(&mut self) {
        const SLACK: usize = 64;
        if self.expiry.len() <= 4 * self.table.len() + SLACK {
            return;
        }
        self.expiry = Expiry::default();
        for (hash, entry) in &self.table {
            self.expiry.schedule(entry.scheduled, *hash);
        }
    }

    pub(super) fn remove(&mut self, hash: u64, key: &RecordKey, budget: &Budget) {
        let is_key = |(known, entry): &Boxed| *known == hash && entry.is_key(key);
        if let Ok(found) = self.table.find_entry(hash, is_key) {
            budget.remove(&mut self.tally, found.remove().0.1.cost());
        }
    }

    /// Looks at up to `limit` records whose bucket is due, and removes those that have expired.
    pub(super) fn sweep(&mut self, now: Moment, limit: usize, budget: &Budget) -> Swept {
        let mut removed = 0;
        for _ in 0..limit {
            let Some((bucket, hash)) = self.expiry.pop_due(now) else {
                return Swept::All { removed };
            };
            let is_due = |(known, entry): &Boxed| *known == hash && entry.scheduled == bucket;
            let Ok(mut found) = self.table.find_entry(hash, is_due) else {
                continue;
            };
            let entry = &mut found.get_mut().1;
            if entry.expires() <= now {
                budget.remove(&mut self.tally, found.remove().0.1.cost());
                removed += 1;
            } else {
                entry.scheduled = Expiry::bucket(entry.expires()).min(Expiry::horizon(now));
                self.expiry.schedule(entry.scheduled, hash);
                if entry.scheduled <= bucket {
                    // A clock beyond what buckets can count: nothing moves on from here.
                    return Swept::All { removed };
                }
            }
        }
        Swept::More { removed }
    }

    /// Drops the answer that would expire soonest. `false` if there is none.
    pub(super) fn evict_answer(&mut self, budget: &Budget) -> bool {
        let mut held = Vec::new();
        let mut evicted = false;
        // What stands in the index without a record behind it goes on the way.
        while let Some((bucket, hash)) = self.expiry.pop() {
            let stands_here = |(known, entry): &Boxed| *known == hash && entry.scheduled == bucket;
            match self.table.find_entry(hash, stands_here) {
                Ok(found) if found.get().1.is_answer() => {
                    budget.remove(&mut self.tally, found.remove().0.1.cost());
                    evicted = true;
                    break;
                }
                Ok(_) => held.push((bucket, hash)),
                Err(_) => {}
            }
        }
        for (bucket, hash) in held {
            self.expiry.schedule(bucket, hash);
        }
        evicted
    }

    /// Gives memory back after many records have gone.
    pub(super) fn shrink(&mut self) {
        if self.table.capacity() > 4 * self.table.len().max(16) {
            self.table.shrink_to(2 * self.table.len(), moved(&self.moves));
        }
        if self.watchers.is_empty() {
            self.watchers.shrink_to_fit();
        }
    }

    pub(super) fn watch(&mut self, key: &RecordKey) -> Watch {
        if let Some(notify) = self.watchers.get(key.as_str()).and_then(Weak::upgrade) {
            return Watch::armed(notify);
        }
        if self.watchers.len() >= self.prune_at {
            self.watchers.retain(|_, watcher| watcher.strong_count() > 0);
            self.prune_at = 64.max(2 * self.watchers.len());
        }
        let notify = Arc::new(Notify::new());
        self.watchers.insert(key.as_str().into(), Arc::downgrade(&notify));
        Watch::armed(notify)
    }

    /// Removes the watchers of `key`, to be woken when the shard is no longer locked: a waker may
    /// do anything.
    #[must_use]
    pub(super) fn take_watchers(&mut self, key: &RecordKey) -> Option<Arc<Notify>> {
        if self.watchers.is_empty() {
            return None;
        }
        self.watchers.remove(key.as_str())?.upgrade()
    }

    pub(super) fn find(&self, hash: u64, key: &RecordKey) -> Option<&Entry> {
        self.entry(self.place(hash, key)?)
    }

    /// The place of the record, if there is one.
    pub(super) fn place(&self, hash: u64, key: &RecordKey) -> Option<Place> {
        let is_key = |(known, entry): &Boxed| *known == hash && entry.is_key(key);
        self.table.find_bucket_index(hash, is_key).map(Place)
    }

    pub(super) fn entry(&self, Place(bucket): Place) -> Option<&Entry> {
        self.table.get_bucket(bucket).map(|(_, entry)| &**entry)
    }

    /// A number that is another one once entries have changed their places.
    pub(super) fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// The places of the table, taken or not.
    pub(super) fn buckets(&self) -> usize {
        self.table.num_buckets()
    }

    /// The hashes in some places of the table.
    pub(super) fn hashes(&self, first: usize, count: usize) -> impl Iterator<Item = u64> {
        let end = first.saturating_add(count).min(self.buckets());
        (first..end).filter_map(|bucket| self.table.get_bucket(bucket)).map(|(hash, _)| *hash)
    }

    /// The entries with this hash: one, except by a chance of 2^-64.
    pub(super) fn with_hash(&self, hash: u64) -> impl Iterator<Item = &Entry> {
        let entries = self.table.iter_hash(hash).filter(move |(known, _)| *known == hash);
        entries.map(|(_, entry)| &**entry)
    }

    /// The number of hashes in the expiry index.
    #[cfg(test)]
    pub(super) fn indexed(&self) -> usize {
        self.expiry.len()
    }
}

/// Gives the table the hash of an entry, which it asks for only when it moves that entry.
fn moved(moves: &Cell<u64>) -> impl Fn(&Boxed) -> u64 {
    |(hash, _)| {
        moves.set(moves.get() + 1);
        *hash
    }
}
