//! A store that other processes share, as the checker sees one.

use crate::key::RecordKey;
use crate::protocol::{
    BeginRequest, Begun, Binding, Failure, Forgotten, IfGone, Resolution, Resolved, Updated,
};
use crate::store::{
    Answer, AttemptId, MemoryStore, Record, Store, StoreError, StoreErrorKind, StoreFuture, Value,
    Watch,
};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Every verb takes effect at some time after it was called, also if its caller has gone, and is
/// answered at some time after that.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    store: Arc<MemoryStore>,
    under_way: Arc<AtomicUsize>,
    /// How many answers may still be lost.
    losses: Arc<AtomicUsize>,
}

impl Remote {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store: Arc::new(store), under_way: Arc::default(), losses: Arc::default() }
    }

    /// Some of the next answers, this many at the most, are lost, before or after their verb takes
    /// effect.
    pub(super) fn losing(self, losses: usize) -> Self {
        self.losses.store(losses, SeqCst);
        self
    }

    /// Waits until every verb has taken effect, and looks at the record.
    pub(super) async fn settled(&self, key: &RecordKey) -> Option<Record> {
        while self.under_way.load(SeqCst) > 0 {
            yield_now().await;
        }
        self.store.load(key).await.unwrap()
    }

    fn send<'a, T, F>(&'a self, verb: impl FnOnce(Arc<MemoryStore>) -> F) -> Answer<'a, T>
    where
        T: Send + Unpin + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let effect = verb(Arc::clone(&self.store));
        let under_way = Arc::clone(&self.under_way);
        under_way.fetch_add(1, SeqCst);
        let answer = spawn(async move {
            yield_now().await;
            let answer = effect.await;
            under_way.fetch_sub(1, SeqCst);
            answer
        });
        StoreFuture::new(async move {
            let lost = StoreError::new(StoreErrorKind::Unavailable, "the answer was lost");
            match self.loses_one() {
                true if thread_rng().r#gen() => Err(lost),
                true => answer.await.expect("nobody aborts it").and(Err(lost)),
                false => answer.await.expect("nobody aborts it"),
            }
        })
    }

    fn loses_one(&self) -> bool {
        self.losses.load(SeqCst) > 0 && thread_rng().r#gen() && self.losses.fetch_sub(1, SeqCst) > 0
    }
}

impl Store for Remote {
    fn begin<'a>(&'a self, key: &'a RecordKey, request: &'a BeginRequest) -> Answer<'a, Begun> {
        let (key, request) = (key.clone(), *request);
        self.send(|store| async move { store.begin(&key, &request).await })
    }

    fn arm<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        linger: Duration,
    ) -> Answer<'a, Armed> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(|store| async move { store.arm(&key, &attempt, linger).await })
    }

    fn complete<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        value: Option<Value>,
        retention: Duration,
        if_gone: IfGone,
    ) -> Answer<'a, Completed> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(
            |store| async move { store.complete(&key, &attempt, value, retention, if_gone).await },
        )
    }

    fn fail<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        failure: Failure,
        retention: Duration,
    ) -> Answer<'a, Settled> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(|store| async move { store.fail(&key, &attempt, failure, retention).await })
    }

    fn abandon<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(|store| async move { store.abandon(&key, &attempt, retention, binding).await })
    }

    fn release<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(|store| async move { store.release(&key, &attempt, retention, binding).await })
    }

    fn renew<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        lease: Duration,
    ) -> Answer<'a, Renewed> {
        let (key, attempt) = (key.clone(), *attempt);
        self.send(|store| async move { store.renew(&key, &attempt, lease).await })
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        let key = key.clone();
        self.send(|store| async move { store.load(&key).await })
    }

    fn forget<'a>(&'a self, key: &'a RecordKey, force: bool) -> Answer<'a, Forgotten> {
        let key = key.clone();
        self.send(move |store| async move { store.forget(&key, force).await })
    }

    fn resolve<'a>(
        &'a self,
        key: &'a RecordKey,
        resolution: Resolution,
        retention: Duration,
    ) -> Answer<'a, Resolved> {
        let key = key.clone();
        self.send(move |store| async move { store.resolve(&key, resolution, retention).await })
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let key = key.clone();
        self.send(|store| async move { store.watch(&key).await })
    }
}
