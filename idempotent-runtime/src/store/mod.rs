//! Where records live: the [`Store`] trait, the state table every store obeys, and the embedded
//! [`MemoryStore`].

mod error;
pub(crate) mod future;
mod memory;
mod record;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub mod table;
mod watch;

pub use error::{StoreError, StoreErrorKind};
pub use future::StoreFuture;
pub use memory::{MemoryOptions, MemoryStore};
pub use record::{
    Armed, AttemptId, BeginRequest, Begun, Binding, Claim, Completed, Failure, Forgotten, Head,
    IfGone, Record, Renewed, Resolution, Resolved, Settled, State, Token, Value,
};
#[cfg(feature = "redis")]
pub use redis::{Effect, RedisBuilder, RedisStore};
#[cfg(feature = "redis")]
pub(crate) use redis::{EffectTerms, Effected};
pub use watch::Watch;

use crate::key::RecordKey;
use std::fmt;
use std::time::Duration;

/// The answer of a verb.
pub type Answer<'a, T> = StoreFuture<'a, Result<T, StoreError>>;

/// A place that keeps records and applies the state table to them, one atomic step a verb.
///
/// # Implementing
///
/// An implementation
///
/// * MUST apply each verb to its record as one atomic step, as [`table`] says: read the record and
///   its remaining time to live, call the function of the verb's name, write what it returns;
/// * MUST take time from one clock for all callers (the server's), never from the caller's;
/// * MUST keep what it acknowledged until its time to live is over, and MUST NOT evict earlier;
/// * MUST answer [`StoreErrorKind::Full`], [`StoreErrorKind::Contended`],
///   [`StoreErrorKind::Undecodable`] and [`StoreErrorKind::Misconfigured`] only if the verb had no effect; any other failure counts as "may
///   or may not have taken effect";
/// * MUST let [`complete`](Store::complete) and [`renew`](Store::renew) of a granted attempt
///   succeed when it is full, `complete` without its value if need be;
/// * MUST stay consistent when a future is dropped before it is ready; the verb may then take
///   effect or not, also later;
/// * MAY wake [`Watch`]es too often, and SHOULD wake them whenever a record leaves
///   [`State::Processing`].
///
/// `idempotent_runtime::testing::contract` (feature `testing`) checks all of this on any store.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Who may run the body. See [`table::begin`].
    fn begin<'a>(&'a self, key: &'a RecordKey, request: &'a BeginRequest) -> Answer<'a, Begun>;

    /// The body is about to start, and blocks its key if it does not end. See [`table::arm`].
    fn arm<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        linger: Duration,
    ) -> Answer<'a, Armed>;

    /// The body returned a value. See [`table::complete`].
    fn complete<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        value: Option<Value>,
        retention: Duration,
        if_gone: IfGone,
    ) -> Answer<'a, Completed>;

    /// The body returned an error. See [`table::fail`].
    fn fail<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        failure: Failure,
        retention: Duration,
    ) -> Answer<'a, Settled>;

    /// The body started, and was dropped or panicked. See [`table::abandon`].
    fn abandon<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled>;

    /// The body never started. See [`table::release`].
    fn release<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled>;

    /// The body still runs. See [`table::renew`].
    fn renew<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        lease: Duration,
    ) -> Answer<'a, Renewed>;

    /// The record, if there is one.
    fn get<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>>;

    /// Removes a record, or with `force` frees one that is held; lifts the binding of a free key.
    /// See [`table::forget`].
    fn forget<'a>(&'a self, key: &'a RecordKey, force: bool) -> Answer<'a, Forgotten>;

    /// Ends an attempt whose outcome was unknown. See [`table::resolve`].
    fn resolve<'a>(
        &'a self,
        key: &'a RecordKey,
        resolution: Resolution,
        retention: Duration,
    ) -> Answer<'a, Resolved>;

    /// Whether this store answers from its own memory, without waiting for anything.
    ///
    /// The callers of one key in one process are merged before they reach a store that is not
    /// local. A local store MUST return [`StoreFuture::ready`] from every verb.
    fn is_local(&self) -> bool {
        false
    }

    /// The time after which a verb that was not answered fails, if there is one.
    ///
    /// A lease that is shorter is over before the loss of a renewal is noticed: the instance warns.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Begins many keys. The answers come in the order of the requests.
    ///
    /// The provided method begins them all at once.
    fn begin_many<'a>(
        &'a self,
        requests: &'a [(RecordKey, BeginRequest)],
    ) -> StoreFuture<'a, Vec<Result<Begun, StoreError>>> {
        future::all(requests.iter().map(|(key, request)| self.begin(key, request)))
    }

    /// Arms many keys. The answers come in the order of the requests.
    ///
    /// The provided method arms them all at once.
    fn arm_many<'a>(
        &'a self,
        requests: &'a [ArmRequest],
    ) -> StoreFuture<'a, Vec<Result<Armed, StoreError>>> {
        future::all(
            requests
                .iter()
                .map(|ArmRequest { key, attempt, linger }| self.arm(key, attempt, *linger)),
        )
    }

    /// Completes many keys. The answers come in the order of the requests.
    ///
    /// The provided method completes them all at once.
    fn complete_many<'a>(
        &'a self,
        requests: &'a [CompleteRequest],
    ) -> StoreFuture<'a, Vec<Result<Completed, StoreError>>> {
        future::all(requests.iter().map(|request| {
            let CompleteRequest { key, attempt, value, retention, if_gone } = request;
            self.complete(key, attempt, value.clone(), *retention, *if_gone)
        }))
    }

    /// Renews many leases. The answers come in the order of the requests.
    ///
    /// The provided method renews them all at once.
    fn renew_many<'a>(
        &'a self,
        requests: &'a [RenewRequest],
    ) -> StoreFuture<'a, Vec<Result<Renewed, StoreError>>> {
        future::all(
            requests
                .iter()
                .map(|RenewRequest { key, attempt, lease }| self.renew(key, attempt, *lease)),
        )
    }

    /// Watches a record from now on: the [`Watch`] wakes when the record may have changed.
    ///
    /// Whoever watches looks again after this returns, so a change between two looks is never
    /// missed. The provided method returns a watch that never wakes; waiters then poll.
    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let _ = key;
        StoreFuture::ready(Ok(Watch::never()))
    }

    /// Asks to be told when an operator frees a record that an attempt holds, also from another
    /// process: see [`forget`](Self::forget).
    ///
    /// A store MAY tell late, twice, without reason or never: an instance that is told asks the
    /// store, and one that is not told learns it when it renews. The store calls `told` on a thread
    /// of its own, which MUST NOT be blocked. The provided method never tells.
    fn on_freed(&self, told: Freed) {
        drop(told);
    }

    /// Removes some of what has expired, if the store does not do so by itself. Called now and then
    /// on the thread that renews leases, so it MUST NOT take long; it is called again soon if it says
    /// that there is more.
    fn maintain(&self) -> Maintenance {
        Maintenance::default()
    }

    /// What the store holds, if it can tell without asking anybody.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// Called with the key of a record that an operator freed, as [`RecordKey::as_str`] gives it.
pub type Freed = std::sync::Arc<dyn Fn(&str) + Send + Sync>;

/// One entry of [`Store::arm_many`].
#[derive(Clone, Debug)]
pub struct ArmRequest {
    /// The record.
    pub key: RecordKey,
    /// The attempt that holds it.
    pub attempt: AttemptId,
    /// The time for which the record lives on after its lease.
    pub linger: Duration,
}

/// One entry of [`Store::complete_many`].
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// Which record.
    pub key: RecordKey,
    /// By which attempt.
    pub attempt: AttemptId,
    /// The encoded answer.
    pub value: Option<Value>,
    /// How long the answer is kept.
    pub retention: Duration,
    /// The treatment of a record that is gone.
    pub if_gone: IfGone,
}

/// One entry of [`Store::renew_many`].
#[derive(Clone, Debug)]
pub struct RenewRequest {
    /// Which record.
    pub key: RecordKey,
    /// By which attempt.
    pub attempt: AttemptId,
    /// How long the lease is to be from now.
    pub lease: Duration,
}

/// What [`Store::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Maintenance {
    /// How many expired records were removed.
    pub expired: u64,
    /// Whether there is more to remove now.
    pub more: bool,
}

impl Maintenance {
    /// So many expired records were removed.
    pub fn expired(expired: u64) -> Self {
        Self { expired, more: false }
    }
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Records, expired ones that are not yet removed included.
    pub entries: u64,
    /// Bytes of keys and values, with the store's own cost per record.
    pub bytes: u64,
}

impl Usage {
    /// So many records, of so many bytes.
    pub fn new(entries: u64, bytes: u64) -> Self {
        Self { entries, bytes }
    }
}
