//! The embedded store: records in this process, sharded, bounded, with a clock of its own.
//!
//! Every verb locks one shard for a few hundred nanoseconds; keys of different shards never meet.
//! A full store refuses new keys; it forgets nothing that has not expired.

mod budget;
mod entry;
mod expiry;
mod scan;
mod shard;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(test)]
mod tests;

use super::{
    Answer, Cursor, Decided, Filter, Found, Maintenance, Next, Page, Record, Seen, State, Store,
    StoreError, StoreErrorKind, StoreFuture, Swap, Swapped, Usage, Watch, WhenFull,
};
use crate::clock::{Clock, Moment};
use crate::key::RecordKey;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, MutexGuard, RandomState, lock, shards};
use budget::{Budget, Tally};
use entry::Entry;
use shard::{Place, Shard, Swept};
use std::fmt;
use std::hash::BuildHasher;
use std::time::Duration;

const SHARDS: usize = shards(64);
/// Number of expired records that one background step removes while it holds a shard.
const SWEEP_STEP: usize = 1024;
/// Number of such steps in one call of `maintain`.
const SWEEP_STEPS: usize = 8;
/// Number of times that a `begin` looks for room, since other callers may take it first.
const ROOM_TRIES: usize = 8;

/// Bounds and clock of a [`MemoryStore`].
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    max_entries: u64,
    max_bytes: u64,
    evict_answers: bool,
    clock: Clock,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            max_entries: 10_000_000,
            max_bytes: 1 << 30,
            evict_answers: false,
            clock: Clock::system(),
        }
    }
}

impl MemoryOptions {
    /// The defaults: 10,000,000 records, 1 GiB, nothing evicted, the system's clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// The maximum number of records. A `begin` beyond it is refused.
    #[must_use]
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    /// The maximum number of bytes that the records take. A `begin` beyond it is refused; a value
    /// beyond it is not kept, though its success is.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Drops answers when the store is full, instead of refusing new keys. Answers that expire soon
    /// go first, roughly.
    ///
    /// This gives up the promise that a stored success is never followed by another start: a key
    /// whose answer was dropped runs again.
    #[must_use]
    pub fn evict_answers(mut self, evict: bool) -> Self {
        self.evict_answers = evict;
        self
    }

    /// The clock that leases and retention are counted on: a [`Clock`], or a
    /// `testing::ManualClock` in tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }
}

/// The embedded store. Cheap to create; holds nothing beyond this process.
///
/// A [scan](Store::scan) lists a record that is there from the first page to the last exactly once,
/// and none twice. A page takes a pass over each of the 64 shards that it comes to, and locks it for
/// a bounded number of records at a time.
///
/// ```
/// use idempotent_runtime::Idempotency;
/// use idempotent_runtime::store::{MemoryOptions, MemoryStore};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::with(MemoryOptions::new().max_entries(100_000));
/// let idem = Idempotency::builder().store(store).build()?;
/// # Ok(()) }
/// ```
pub struct MemoryStore {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    clock: Clock,
    budget: Budget,
    evict_answers: bool,
    /// The shard that gives up an answer next, if answers are evicted.
    next_victim: AtomicUsize,
}

impl MemoryStore {
    /// A store with the default bounds.
    pub fn new() -> Self {
        Self::with(MemoryOptions::default())
    }

    /// A store with these bounds and this clock.
    pub fn with(options: MemoryOptions) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            hasher: RandomState::new(),
            clock: options.clock,
            budget: Budget::new(options.max_entries, options.max_bytes),
            evict_answers: options.evict_answers,
            next_victim: AtomicUsize::new(0),
        }
    }

    fn open(&self, key: &RecordKey) -> Opened<'_> {
        let hash = self.hash(key);
        let shard = lock(&self.shards[Self::shard_of(hash)]);
        Opened { store: self, shard, hash, now: self.clock.now() }
    }

    fn hash(&self, key: &RecordKey) -> u64 {
        self.hasher.hash_one(key.as_str())
    }

    /// The shard for a hash. The table inside a shard places an entry by the low bits of its hash and
    /// compares the upper 7 before it looks at the entry, so the shard is chosen by those in between.
    fn shard_of(hash: u64) -> usize {
        (hash >> 51) as usize % SHARDS
    }

    /// Removes expired records, a bounded number of them.
    fn sweep(&self) -> Maintenance {
        let now = self.clock.now();
        let mut expired = 0;
        let mut steps = 0;
        for shard in &self.shards {
            loop {
                match lock(shard).sweep(now, SWEEP_STEP, &self.budget) {
                    Swept::More { removed } => {
                        expired += removed;
                        steps += 1;
                        if steps == SWEEP_STEPS {
                            return Maintenance { expired, more: true };
                        }
                    }
                    Swept::All { removed } => {
                        expired += removed;
                        break;
                    }
                }
            }
            lock(shard).shrink();
            if expired >= (SWEEP_STEPS * SWEEP_STEP) as u64 {
                return Maintenance { expired, more: true };
            }
        }
        Maintenance { expired, more: false }
    }

    /// Makes the change that `decide` returns for a record and its life, if any. Asked again if there
    /// was no room for a change that may be refused.
    fn change(
        &self,
        key: &RecordKey,
        mut decide: impl FnMut(Option<(&Entry, Duration)>) -> Option<Next>,
    ) -> Result<Decided, StoreError> {
        for _ in 0..ROOM_TRIES {
            let mut opened = self.open(key);
            opened.shard.sweep(opened.now, shard::SWEEP_ON_ACCESS, &self.budget);
            let place = opened.shard.place(opened.hash, key);
            let entry = place.and_then(|place| opened.shard.entry(place));
            let living = entry.and_then(|entry| Some((entry, entry.life(opened.now)?)));
            let mut next = decide(living);
            let Some(next) = &mut next else { return Ok(Decided::Done) };
            let may_refuse = matches!(next, Next::Put { when_full: WhenFull::Refuse, .. });
            if entry.is_some() || !may_refuse || self.budget.admits(&opened.shard.tally, key) {
                return Ok(opened.write(place, key, next));
            }
            drop(opened);
            if !self.make_room(key) {
                break;
            }
        }
        let text = format!("the memory store is full: it holds {}", self.budget);
        Err(StoreError::new(StoreErrorKind::Full, text))
    }

    /// Makes room for `key` by removing what has expired, and answers, if that was chosen.
    ///
    /// `false` if there is none. Others may make room meanwhile, or take what was made.
    fn make_room(&self, key: &RecordKey) -> bool {
        if self.sweep().expired > 0 || self.budget.admits(&Tally::default(), key) {
            return true;
        }
        // From one shard after the other, so that no shard's answers go before all others'.
        let first = self.next_victim.fetch_add(1, Relaxed) % SHARDS;
        let mut shards = self.shards[first..].iter().chain(&self.shards[..first]);
        self.evict_answers && shards.any(|shard| lock(shard).evict_answer(&self.budget))
    }
}

/// One locked shard, opened for one key.
struct Opened<'a> {
    store: &'a MemoryStore,
    shard: MutexGuard<'a, Shard>,
    hash: u64,
    now: Moment,
}

impl Opened<'_> {
    /// The record, unless its time is over, and the time that it still lives.
    fn living(&self, key: &RecordKey) -> Option<(&Entry, Duration)> {
        let entry = self.shard.find(self.hash, key)?;
        Some((entry, entry.life(self.now)?))
    }

    /// Writes `next`, of which it takes the value, and wakes those who watch the record if it is no
    /// longer processed.
    fn write(mut self, place: Option<Place>, key: &RecordKey, next: &mut Next) -> Decided {
        let budget = &self.store.budget;
        let (decided, watchers) = match next {
            Next::Put { head, value, ttl, .. } => {
                let life = (self.now, *ttl);
                let named = (self.hash, key);
                let decided = self.shard.put(place, named, head, life, value.take(), budget);
                let watchers = match head.state {
                    State::Processing => None,
                    _ => self.shard.take_watchers(key),
                };
                (decided, watchers)
            }
            Next::Extend { ttl } => {
                self.shard.extend(self.hash, key, self.now, *ttl);
                (Decided::Done, None)
            }
            Next::Nothing => {
                self.shard.remove(self.hash, key, budget);
                (Decided::Done, self.shard.take_watchers(key))
            }
        };
        // Not under the lock: a waker may do anything.
        drop(self);
        if let Some(watchers) = watchers {
            watchers.notify_waiters();
        }
        decided
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryStore").field("usage", &self.usage()).finish()
    }
}

/// A record as it is shown.
fn found((entry, ttl): (&Entry, Duration)) -> Found {
    Found { head: entry.head(), value: entry.value(), ttl: Some(ttl) }
}

fn ready<'a, T>(answer: T) -> Answer<'a, T> {
    StoreFuture::ready(Ok(answer))
}

#[diagnostic::do_not_recommend]
impl Store for MemoryStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        let opened = self.open(key);
        let living = opened.living(key);
        ready(living.map(|(entry, ttl)| Record::new(entry.head(), entry.value(), ttl)))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        let mut instead = None;
        let decided = self.change(key, |record| {
            let holds = match (&swap.seen, record) {
                (Seen::Nothing, None) => true,
                (Seen::This { head, at_most }, Some((entry, ttl))) => {
                    entry.is_head(head) && at_most.is_none_or(|at_most| ttl <= at_most)
                }
                _ => false,
            };
            instead = (!holds).then(|| record.map(found));
            holds.then(|| swap.next.clone())
        });
        StoreFuture::ready(match instead {
            Some(found) => Ok(Swapped::Found(found)),
            None => decided.map(Swapped::from),
        })
    }

    fn decide(
        &self,
        key: &RecordKey,
        decide: &mut dyn FnMut(Option<Found>) -> Option<Next>,
    ) -> Option<Result<Decided, StoreError>> {
        // Two calls, so that no record is laid out where there is none.
        Some(self.change(key, |record| match record {
            Some(living) => decide(Some(found(living))),
            None => decide(None),
        }))
    }

    fn is_local(&self) -> bool {
        true
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        ready(self.open(key).shard.watch(key))
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        StoreFuture::ready(self.page(filter, after, limit))
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        StoreFuture::ready(self.sweep())
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.budget.usage(self.shards.iter().map(|shard| lock(shard).tally)))
    }
}
