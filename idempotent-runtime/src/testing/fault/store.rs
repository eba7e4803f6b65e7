//! The store itself.

use super::gate::{Barrier, Gate};
use super::script::{Plan, Script};
use super::told::Told;
use super::{Fault, Verb};
use crate::key::RecordKey;
use crate::store::{
    Answer, Cursor, Filter, FreedListener, Maintenance, Next, Page, Record, Store, StoreError,
    StoreErrorKind, StoreFuture, Swap, Swapped, Usage, Watch,
};
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::yield_now;

/// A store that forwards every message to another one, and fails on request. Clones are one store.
///
/// It is not local, whatever it wraps: callers of one key meet before they reach it, as they do
/// before a store on the network, and every verb is pending at least twice.
///
/// ```
/// use idempotent_runtime::store::{MemoryStore, StoreErrorKind};
/// use idempotent_runtime::testing::{Fault, FaultStore, Verb};
/// use idempotent_runtime::{Error, Idempotency, Mode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FaultStore::new(MemoryStore::new());
/// let idem = Idempotency::builder().store(store.clone()).build()?;
///
/// // The first `begin` takes effect, and its reply is lost.
/// store.fault_at(Verb::Begin, 1, Fault::After(StoreErrorKind::Unavailable));
/// let answer: Result<u8, Error> =
///     idem.operation("o").key(1).mode(Mode::Strong).run(async { Ok(7) }).await;
/// assert_eq!(answer?, 7);
/// assert_eq!((store.calls(Verb::Begin), store.grants()), (2, 1));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn Store>,
    script: Arc<Script>,
    /// Those whom it tells of freed records, if it does.
    told: Option<Arc<Told>>,
    local: bool,
}

impl FaultStore {
    /// Wraps `store`.
    pub fn new(store: impl Store) -> Self {
        Self::around(Arc::new(store))
    }

    /// Wraps a store that is shared with other code.
    pub fn around(store: Arc<dyn Store>) -> Self {
        Self { inner: store, script: Arc::default(), told: None, local: false }
    }

    /// Says that it is local if the wrapped store does, and answers at once unless a fault or a
    /// gate needs time.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.local = self.inner.is_local();
        self
    }

    /// Tells all instances on it of every record that is freed, as a [`ReplayCache`](crate::ReplayCache)
    /// needs it. For a store that only this process uses.
    ///
    /// ```
    /// use idempotent_runtime::store::MemoryStore;
    /// use idempotent_runtime::testing::{FaultStore, Verb};
    /// use idempotent_runtime::{Error, Idempotency, Mode, ReplayCache};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = FaultStore::new(MemoryStore::new()).telling();
    /// let cache = ReplayCache::new();
    /// let idem = Idempotency::builder().store(store.clone()).replay_cache(cache).build()?;
    /// for _ in 0..3 {
    ///     let answer: Result<u8, Error> =
    ///         idem.operation("o").key(1).mode(Mode::Strong).run(async { Ok(7) }).await;
    ///     assert_eq!(answer?, 7);
    /// }
    /// assert_eq!(store.calls(Verb::Begin), 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn telling(mut self) -> Self {
        self.told = Some(Arc::default());
        self
    }

    /// The number of calls of `verb`.
    pub fn calls(&self, verb: Verb) -> usize {
        self.script.change(verb, |lines| lines.calls)
    }

    /// The number of calls of `verb` that were answered, with an error or without.
    pub fn answers(&self, verb: Verb) -> usize {
        self.script.change(verb, |lines| lines.answers)
    }

    /// The number of attempts that were granted; a repeated `begin` of one token counts once.
    pub fn grants(&self) -> usize {
        self.script.grants()
    }

    /// Resolves when `verb` has been called `calls` times since the store was made.
    pub async fn called(&self, verb: Verb, calls: usize) {
        self.script.until(verb, |lines| lines.calls >= calls).await;
    }

    /// Resolves when `answers` calls of `verb` have been answered since the store was made.
    pub async fn answered(&self, verb: Verb, answers: usize) {
        self.script.until(verb, |lines| lines.answers >= answers).await;
    }

    /// The `call`-th call of `verb`, counted from 1 since the store was made, meets `fault`.
    pub fn fault_at(&self, verb: Verb, call: usize, fault: Fault) {
        self.script.change(verb, |lines| lines.at.insert(call, fault));
    }

    /// The next call of `verb` meets `fault`.
    pub fn fault_next(&self, verb: Verb, fault: Fault) {
        self.script.change(verb, |lines| lines.at.insert(lines.calls + 1, fault));
    }

    /// All calls of `verb` meet `fault` from now on, until [`up`](Self::up).
    pub fn fault_always(&self, verb: Verb, fault: Fault) {
        self.script.change(verb, |lines| lines.always = Some(fault));
    }

    /// All calls of `verb` are refused as unavailable from now on, without effect.
    pub fn down(&self, verb: Verb) {
        self.fault_always(verb, Fault::Before(StoreErrorKind::Unavailable));
    }

    /// Calls of `verb` meet no fault from now on.
    pub fn up(&self, verb: Verb) {
        self.script.change(verb, |lines| {
            lines.always = None;
            lines.at.clear();
        });
    }

    /// As [`down`](Self::down), for all verbs.
    pub fn all_down(&self) {
        Verb::ALL.into_iter().for_each(|verb| self.down(verb));
    }

    /// As [`up`](Self::up), for all verbs.
    pub fn all_up(&self) {
        Verb::ALL.into_iter().for_each(|verb| self.up(verb));
    }

    /// Holds the calls of `verb` from now on, before they take effect.
    ///
    /// ```
    /// use idempotent_runtime::store::MemoryStore;
    /// use idempotent_runtime::testing::{FaultStore, Verb};
    /// use idempotent_runtime::{Error, Idempotency, Mode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = FaultStore::new(MemoryStore::new());
    /// let idem = Idempotency::builder().store(store.clone()).build()?;
    /// let gate = store.hold(Verb::Complete);
    /// let call = tokio::spawn(async move {
    ///     let answer: Result<u8, Error> = idem.operation("o").key(1).run(async { Ok(7) }).await;
    ///     answer
    /// });
    /// gate.arrived(1).await; // the body has run, and its answer is on its way
    /// gate.open();
    /// assert_eq!(call.await??, 7);
    /// # Ok(()) }
    /// ```
    pub fn hold(&self, verb: Verb) -> Gate {
        let barrier = Arc::<Barrier>::default();
        self.script.change(verb, |lines| lines.before = Some(Arc::clone(&barrier)));
        Gate::new(barrier)
    }

    /// Holds the calls of `verb` from now on, after they have taken effect and before they are
    /// answered. A swap that found another record has no effect, and is not held.
    pub fn hold_after(&self, verb: Verb) -> Gate {
        let barrier = Arc::<Barrier>::default();
        self.script.change(verb, |lines| lines.after = Some(Arc::clone(&barrier)));
        Gate::new(barrier)
    }

    /// Loses the notifications of freed records from now on, as a subscription that is cut does: a
    /// [`ReplayCache`](crate::ReplayCache) is emptied. For a store that is [telling](Self::telling).
    pub fn lose_freed(&self) {
        self.told.iter().for_each(|told| told.lose());
    }

    /// Tells of freed records again, after [`lose_freed`](Self::lose_freed).
    pub fn tell_freed(&self) {
        self.told.iter().for_each(|told| told.listen());
    }

    /// Lets the calls that met [`Fault::Late`] take effect, in their order. Returns how many.
    pub async fn deliver_late(&self) -> usize {
        let late = self.script.take_late();
        let count = late.len();
        for call in late {
            call.await;
        }
        count
    }

    /// Passes one call on. `effect` owns what it needs, so that it can outlive its caller.
    fn pass<T: Reply>(&self, verb: Verb, effect: Effect<T>) -> Answer<'_, T> {
        let mut answer = StoreFuture::new(async move {
            let plan = self.script.enter(verb);
            self.take_turn().await;
            let answer = self.run(plan, effect).await;
            self.take_turn().await;
            self.script.leave(verb);
            answer
        });
        if self.local {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut context) {
                return StoreFuture::ready(answer);
            }
        }
        answer
    }

    async fn take_turn(&self) {
        if !self.local {
            yield_now().await;
        }
    }

    async fn run<T: Reply>(&self, plan: Plan, effect: Effect<T>) -> Result<T, StoreError> {
        if let Some(gate) = plan.before {
            gate.pass().await;
        }
        let answer = match plan.fault {
            Some(Fault::Before(kind)) => return Err(injected(kind)),
            Some(Fault::NotSent) => {
                return Err(injected(StoreErrorKind::Unavailable).without_effect());
            }
            Some(Fault::Hang) => return pending().await,
            Some(Fault::Late(kind)) => {
                self.script.delay(Box::pin(async move { drop(effect.await) }));
                return Err(injected(kind));
            }
            Some(Fault::After(kind)) => {
                drop(effect.await);
                Err(injected(kind))
            }
            Some(Fault::HangAfter) => {
                drop(effect.await);
                return pending().await;
            }
            None => effect.await,
        };
        if let Some(gate) = plan.after
            && answer.as_ref().map_or(true, T::took_effect)
        {
            gate.pass().await;
        }
        answer
    }
}

/// An answer of the wrapped store.
trait Reply: Send + Unpin + 'static {
    /// `false` if the message changed nothing that it was sent to change.
    fn took_effect(&self) -> bool {
        true
    }
}

impl Reply for Option<Record> {}
impl Reply for Watch {}
impl Reply for Page {}
impl Reply for Swapped {
    fn took_effect(&self) -> bool {
        !matches!(self, Self::Found(_))
    }
}

/// A call of the wrapped store, not yet made.
type Effect<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

fn injected(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "a fault was injected")
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FaultStore").field(&self.inner).finish()
    }
}

impl Store for FaultStore {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        let (store, key) = (Arc::clone(&self.inner), key.clone());
        self.pass(Verb::Get, Box::pin(async move { store.load(&key).await }))
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        let (store, script) = (Arc::clone(&self.inner), Arc::clone(&self.script));
        let (key, verb) = (key.clone(), swap.verb);
        let effect = async move {
            let granted = match (swap.verb, &swap.next) {
                (Verb::Begin, Next::Put { head, .. }) => Some(head.attempt.token),
                _ => None,
            };
            let swapped = store.swap(&key, swap).await;
            if let (Ok(Swapped::Done), Some(token)) = (&swapped, granted) {
                script.granted(token);
            }
            swapped
        };
        self.pass(verb, Box::pin(effect))
    }

    fn confirm<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, ()> {
        self.inner.confirm(key)
    }

    fn is_local(&self) -> bool {
        self.local
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let (store, key) = (Arc::clone(&self.inner), key.clone());
        self.pass(Verb::Watch, Box::pin(async move { store.watch(&key).await }))
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        let (store, filter, after) = (Arc::clone(&self.inner), filter.clone(), after.cloned());
        let effect = async move { store.scan(&filter, after.as_ref(), limit).await };
        self.pass(Verb::Scan, Box::pin(effect))
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.timeout()
    }

    fn on_freed(&self, listener: FreedListener) {
        match &self.told {
            Some(told) => told.add(listener),
            None => self.inner.on_freed(listener),
        }
    }

    fn tells_all_freed(&self) -> bool {
        self.told.is_some() || self.inner.tells_all_freed()
    }

    fn announce_freed<'a>(&'a self, key: &'a RecordKey) -> StoreFuture<'a, ()> {
        self.told.iter().for_each(|told| told.freed(key));
        self.inner.announce_freed(key)
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        self.inner.maintain()
    }

    fn usage(&self) -> Option<Usage> {
        self.inner.usage()
    }
}
