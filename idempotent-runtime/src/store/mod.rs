//! Places for records: the [`Store`] trait, the embedded [`MemoryStore`] and the [`RedisStore`].

mod error;
mod freed;
pub(crate) mod future;
mod memory;
mod record;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod scan;
mod watch;
pub mod wire;

pub use error::{StoreError, StoreErrorKind};
pub use freed::{FreedEvent, FreedListener};
pub use future::StoreFuture;
pub use memory::{MemoryOptions, MemoryStore};
pub use record::{AttemptId, Claim, Head, Record, State, Token, Value};
#[cfg(feature = "redis")]
pub use redis::{Effect, RedisBuilder, RedisStore};
#[cfg(feature = "redis")]
pub(crate) use redis::{EffectRecords, Ran};
pub use scan::{Cursor, Filter, Listed, Page};
pub use watch::Watch;

use crate::key::RecordKey;
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// The answer of a verb.
pub type Answer<'a, T> = StoreFuture<'a, Result<T, StoreError>>;

/// A map of records with compare-and-swap and a time to live. It decides nothing: the rules are those
/// of [`protocol`](crate::protocol), which has a method for each verb in
/// [`StoreExt`](crate::protocol::StoreExt).
///
/// # Implementing
///
/// [`load`](Self::load) and [`swap`](Self::swap) are all that a store needs. An implementation
///
/// * MUST compare and write as one atomic step;
/// * MUST take time from one clock for all callers (the server's), never from the caller's;
/// * MUST keep what it acknowledged until its time to live is over, and MUST NOT evict earlier;
/// * MUST answer [`StoreErrorKind::Full`], [`StoreErrorKind::Contended`],
///   [`StoreErrorKind::Undecodable`] and [`StoreErrorKind::Misconfigured`] only if there was no
///   effect; any other failure counts as "may or may not have taken effect";
/// * MUST take writes that say so ([`WhenFull::Take`]) also when it is full, without their value if
///   need be;
/// * MUST stay consistent when a future is dropped before it is ready; the swap may then take
///   effect or not, also later;
/// * MAY wake [`Watch`]es too often, and SHOULD wake them whenever a record leaves
///   [`State::Processing`].
///
/// `idempotent_runtime::testing::contract` (feature `testing`) checks all of this on any store.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "does not implement `Store`",
    note = "a URL of Redis, with the feature `redis`: connect first, with \
            `idempotent_runtime::store::RedisStore::connect(\"redis://127.0.0.1/\").await?`",
    note = "for one process, `idempotent_runtime::store::MemoryStore::new()`; for a database, `PostgresStore`, \
            `MySqlStore` and `SqliteStore` of `idempotent-sql`"
)]
pub trait Store: Any + fmt::Debug + Send + Sync {
    /// The record and the time that it still lives, of one moment. `None` if there is none, or its
    /// time is over.
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>>;

    /// Replaces the record if it is the one that was seen, and shows it otherwise.
    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped>;

    /// Makes sure that the record is there to stay, although it was not written in this step: a
    /// store that waits for replicas waits for them here.
    ///
    /// The provided method does nothing, which is right where a write that was seen is one that
    /// lasts.
    fn confirm<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, ()> {
        let _ = key;
        StoreFuture::ready(Ok(()))
    }

    /// Replaces many records, each in a step of its own. The answers come in the order of the
    /// swaps.
    ///
    /// The provided method sends them all at once, those of one key one after the other.
    fn swap_many<'a>(
        &'a self,
        swaps: &'a [(RecordKey, Swap)],
    ) -> StoreFuture<'a, Vec<Result<Swapped, StoreError>>> {
        future::all_by_key(swaps.iter().map(|(key, swap)| (key, self.swap(key, swap.clone()))))
    }

    /// Decides about a record and writes the decision, in one step in which nothing else happens to
    /// it. `decide` gets the record, or nothing if there is none or its time is over, and returns
    /// what is to be there instead, or nothing if it stays.
    ///
    /// For stores that can hold a record still without waiting for anybody, as one behind a lock in
    /// memory can: it saves them the comparison, and the copies of what is compared. It MUST come to
    /// the same as a [`load`](Self::load) and a [`swap`](Self::swap) with nothing in between;
    /// `decide` may be called more than once, and MUST NOT be called after an error was returned.
    /// The provided method returns `None`: the store cannot.
    fn decide(
        &self,
        key: &RecordKey,
        decide: &mut dyn FnMut(Option<Found>) -> Option<Next>,
    ) -> Option<Result<Decided, StoreError>> {
        let _ = (key, decide);
        None
    }

    /// `true` if this store answers from its own memory, without waiting for anything.
    ///
    /// The callers of one key in one process are merged before they reach a store that is not
    /// local. A local store MUST return [`StoreFuture::ready`] from every method.
    fn is_local(&self) -> bool {
        false
    }

    /// The time after which a message that was not answered fails, if there is one.
    ///
    /// A lease that is shorter is over before the loss of a renewal is noticed: the instance warns.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Watches a record from now on: the [`Watch`] wakes when the record may have changed.
    ///
    /// The caller loads the record again after this returns, so that it misses no change in
    /// between. The provided method returns a watch that never wakes; waiters then poll.
    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let _ = key;
        StoreFuture::ready(Ok(Watch::never()))
    }

    /// Lists records, a page at a time, for operators. The next page begins at the cursor of the one
    /// before.
    ///
    /// `limit` is about how many records a call looks at. A page holds those that the filter admits,
    /// so it may be empty and have a cursor all the same; it may hold some more than `limit` where a
    /// server gives out several at once. A `limit` of none counts as one.
    ///
    /// A record that is there from the first page to the last is listed. One that is written or
    /// removed meanwhile is listed or not, and shown as it was when it was looked at. Some stores
    /// list a record more than once; see [`MemoryStore`] and [`RedisStore`]. Keys that are not those
    /// of records, and records that cannot be read, are counted in [`Page::skipped`].
    ///
    /// An implementation MUST bound the work of a call, whatever the number of records, and MUST
    /// list only keys that can be parsed again. The provided method refuses, with
    /// [`StoreErrorKind::Misconfigured`].
    ///
    /// ```
    /// use idempotent_runtime::Idempotency;
    /// use idempotent_runtime::store::Filter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let idem = Idempotency::in_memory()?;
    /// let blocked = Filter::new().operation("payments.create").blocked();
    /// let mut after = None;
    /// loop {
    ///     let page = idem.store().scan(&blocked, after.as_ref(), 500).await?;
    ///     for found in &page.records {
    ///         println!("{} for {:?}", found.key.as_str(), found.ttl);
    ///     }
    ///     match page.next {
    ///         Some(next) => after = Some(next),
    ///         None => break,
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        let _ = (filter, after, limit);
        let text = "this store cannot list its records";
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Misconfigured, text)))
    }

    /// Asks to be told when an operator frees or resolves a record, also from another process: see
    /// [`announce_freed`](Self::announce_freed).
    ///
    /// A store MAY tell late, twice, without reason or never: an instance that is told asks the
    /// store, and one that is not told learns it when it renews. A store that
    /// [tells of all](Self::tells_all_freed) of them has to do more. A store SHOULD drop listeners that are
    /// [over](FreedListener::is_over).
    ///
    /// The store tells on any thread, also within this method and within [`announce_freed`](Self::announce_freed), and MAY
    /// hold a lock meanwhile: a listener MUST NOT block, and MUST NOT call the store. The provided method never tells.
    fn on_freed(&self, listener: FreedListener) {
        drop(listener);
    }

    /// `true` if this store tells of every record that an operator frees in any process, for as long
    /// as it says that it listens. A [`ReplayCache`](crate::ReplayCache) needs that.
    ///
    /// Such a store MUST tell [`FreedEvent::Listening`] only once nothing that is announced from
    /// then on is missed, MUST tell [`FreedEvent::Lost`] as soon as it notices that something may
    /// be, MUST notice that within seconds, and MUST tell these two in their order. The provided method
    /// returns `false`.
    fn tells_all_freed(&self) -> bool {
        false
    }

    /// Tells all processes that asked [to be told](Self::on_freed) that an operator freed or resolved
    /// a record.
    ///
    /// A process that does not hear it learns it by its next renewal, or when the answer that it
    /// keeps is too old, so a failure is none of the operator's. The provided method does nothing.
    fn announce_freed<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, ()> {
        let _ = key;
        StoreFuture::ready(())
    }

    /// Removes some of what has expired, if the store does not do so by itself. Called now and
    /// then, and again soon if it says that there is more; never while an earlier call is under way.
    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        StoreFuture::ready(Maintenance::default())
    }

    /// Numbers on what the store holds, if it has them without asking anybody.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// A replacement of a record, on a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The record that must be there.
    pub seen: Seen,
    /// The record that is to be there.
    pub next: Next,
    /// The verb of which this is a step. For logs and statistics: a store decides nothing by it.
    pub verb: Verb,
}

/// The condition of a [`Swap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is no record, or its time is over.
    Nothing,
    /// There is this record. It is compared by its head, never by its value.
    This {
        /// The record without its value.
        head: Head,
        /// The most time that it may still live: of a lease that is over.
        at_most: Option<Duration>,
    },
}

impl Seen {
    /// `true` if the condition holds for the record that is there.
    pub fn holds(&self, found: Option<&Record>) -> bool {
        match (self, found) {
            (Self::Nothing, None) => true,
            (Self::This { head, at_most }, Some(record)) => {
                record.head == *head && at_most.is_none_or(|at_most| record.ttl <= at_most)
            }
            _ => false,
        }
    }
}

/// The outcome of a [`Swap`] that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// This record.
    Put {
        /// The record without its value.
        head: Head,
        /// The value.
        value: Option<Value>,
        /// The time for which it lives from now.
        ttl: Duration,
        /// The treatment of this write by a store that is full.
        when_full: WhenFull,
    },
    /// The same record, which lives for so long from now, or longer if it would anyway.
    Extend {
        /// The least time for which it lives.
        ttl: Duration,
    },
    /// No record.
    Nothing,
}

/// The treatment of a write by a store that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It may be refused: no caller relies on it yet.
    Refuse,
    /// It is taken, without its value if need be: it ends or extends an attempt that was granted.
    Take,
}

/// The answer to a [`Swap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The record is as demanded.
    Done,
    /// The record is as demanded, but there was no room for its value.
    DoneWithoutValue,
    /// The condition does not hold: this is there instead. Nothing was written.
    Found(Option<Found>),
}

/// The outcome of [`Store::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The record is as decided.
    Done,
    /// The record is as decided, but there was no room for its value.
    DoneWithoutValue,
}

impl From<Decided> for Swapped {
    fn from(decided: Decided) -> Self {
        match decided {
            Decided::Done => Self::Done,
            Decided::DoneWithoutValue => Self::DoneWithoutValue,
        }
    }
}

/// A record that a [`Swap`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record without its value.
    pub head: Head,
    /// The value.
    pub value: Option<Value>,
    /// The time that it still lives, unless the store cannot tell in the same step.
    pub ttl: Option<Duration>,
}

impl From<Record> for Found {
    fn from(Record { head, value, ttl }: Record) -> Self {
        Self { head, value, ttl: Some(ttl) }
    }
}

/// A verb of the protocol, or another message to a store, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verb {
    /// A caller asks for the right to run the body.
    Begin,
    /// The body is about to start.
    Arm,
    /// The body still runs.
    Renew,
    /// The body returned a value.
    Complete,
    /// The body returned an error.
    Fail,
    /// The body was dropped or panicked.
    Abandon,
    /// The body never started.
    Release,
    /// An operator removes a record.
    Forget,
    /// An operator ends an attempt whose outcome was unknown.
    Resolve,
    /// A record is looked at.
    Get,
    /// A record is watched.
    Watch,
    /// Records are listed.
    Scan,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Begin,
        Self::Arm,
        Self::Renew,
        Self::Complete,
        Self::Fail,
        Self::Abandon,
        Self::Release,
        Self::Forget,
        Self::Resolve,
        Self::Get,
        Self::Watch,
        Self::Scan,
    ];

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Arm => "arm",
            Self::Renew => "renew",
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Abandon => "abandon",
            Self::Release => "release",
            Self::Forget => "forget",
            Self::Resolve => "resolve",
            Self::Get => "get",
            Self::Watch => "watch",
            Self::Scan => "scan",
        }
    }
}

/// Result of [`Store::maintain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Maintenance {
    /// The number of expired records that were removed.
    pub expired: u64,
    /// `true` if there is more to remove now.
    pub more: bool,
}

impl Maintenance {
    /// So many expired records were removed.
    pub fn expired(expired: u64) -> Self {
        Self { expired, more: false }
    }
}

/// Number and size of the records in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Records, expired ones that are not yet removed included.
    pub entries: u64,
    /// Bytes of keys and values, with the store's own cost per record.
    pub bytes: u64,
    /// The number of records beyond which the store refuses keys, if it has such a bound.
    pub max_entries: Option<u64>,
    /// The number of bytes beyond which the store refuses keys, if it has such a bound.
    pub max_bytes: Option<u64>,
}

impl Usage {
    /// So many records, of so many bytes, in a store without bounds.
    pub fn new(entries: u64, bytes: u64) -> Self {
        Self { entries, bytes, ..Self::default() }
    }

    /// The same in a store that holds at most so many records, and so many bytes.
    #[must_use]
    pub fn bounded(self, max_entries: u64, max_bytes: u64) -> Self {
        Self { max_entries: Some(max_entries), max_bytes: Some(max_bytes), ..self }
    }
}
