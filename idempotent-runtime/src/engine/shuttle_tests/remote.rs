//! A store that other processes share, as the checker sees one.

use crate::key::RecordKey;
use crate::store::{
    Answer, MemoryStore, Record, Store, StoreError, StoreErrorKind, StoreFuture, Swap, Swapped,
    Watch,
};
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Every message takes effect at some time after it was called, also if its caller has gone, and is
/// answered at some time after that.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    store: Arc<MemoryStore>,
    under_way: Arc<AtomicUsize>,
    /// The number of answers that may still be lost.
    losses: Arc<AtomicUsize>,
}

impl Remote {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self { store: Arc::new(store), under_way: Arc::default(), losses: Arc::default() }
    }

    /// Some of the next answers, this many at the most, are lost, before or after their message takes
    /// effect.
    pub(super) fn losing(self, losses: usize) -> Self {
        self.losses.store(losses, SeqCst);
        self
    }

    /// Waits until every message has taken effect, and looks at the record.
    pub(super) async fn at_rest(&self, key: &RecordKey) -> Option<Record> {
        while self.under_way.load(SeqCst) > 0 {
            yield_now().await;
        }
        self.store.load(key).await.unwrap()
    }

    fn send<'a, T, F>(&'a self, message: impl FnOnce(Arc<MemoryStore>) -> F) -> Answer<'a, T>
    where
        T: Send + Unpin + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let effect = message(Arc::clone(&self.store));
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
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        let key = key.clone();
        self.send(|store| async move { store.load(&key).await })
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        let key = key.clone();
        self.send(|store| async move { store.swap(&key, swap).await })
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        let key = key.clone();
        self.send(|store| async move { store.watch(&key).await })
    }
}
