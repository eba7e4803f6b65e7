//! Stores that break one rule each.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Armed, AttemptId, BeginRequest, Begun, Binding, Completed, Failure, Forgotten, IfGone,
    Record, Renewed, Resolution, Resolved, Settled, State, Store, StoreError, StoreFuture, Value,
    Watch,
};
use std::time::Duration;

/// What a store is not to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Only the attempt that holds the key completes it.
    CompleteComparesTokens,
    /// Only the attempt that holds the key frees it.
    FailComparesTokens,
    /// An answer that was acknowledged is there afterwards.
    AnswersAreKept,
    /// A key that is held is not granted.
    OneHolds,
    /// Each attempt has a greater fence than the one before.
    FencesGrow,
}

/// Passes every verb on, and breaks one rule.
#[derive(Debug)]
pub(super) struct BrokenStore<S> {
    inner: S,
    rule: Rule,
}

impl<S: Store> BrokenStore<S> {
    pub(super) fn new(inner: S, rule: Rule) -> Self {
        Self { inner, rule }
    }

    /// Removes whatever record there is.
    async fn clear(&self, key: &RecordKey) -> Result<(), StoreError> {
        while self.inner.forget(key, true).await? == Forgotten::Freed {}
        Ok(())
    }

    /// Frees a key that somebody else holds.
    async fn free(&self, key: &RecordKey, settled: Settled) -> Result<Settled, StoreError> {
        if self.rule == Rule::FailComparesTokens
            && settled == Settled::Superseded
            && let Some(record) = self.inner.get(key).await?
            && record.head.state == State::Processing
        {
            self.inner.forget(key, true).await?;
            return Ok(Settled::Done);
        }
        Ok(settled)
    }
}

impl<S: Store> Store for BrokenStore<S> {
    fn begin<'a>(&'a self, key: &'a RecordKey, request: &'a BeginRequest) -> Answer<'a, Begun> {
        StoreFuture::new(async move {
            let begun = self.inner.begin(key, request).await?;
            match (self.rule, begun) {
                (Rule::OneHolds, Begun::InFlight { .. }) => {
                    self.inner.forget(key, true).await?;
                    self.inner.begin(key, request).await
                }
                (Rule::FencesGrow, Begun::Fresh(attempt)) => {
                    Ok(Begun::Fresh(AttemptId { fence: 1, ..attempt }))
                }
                (_, begun) => Ok(begun),
            }
        })
    }

    fn arm<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        linger: Duration,
    ) -> Answer<'a, Armed> {
        self.inner.arm(key, attempt, linger)
    }

    fn complete<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        value: Option<Value>,
        retention: Duration,
        if_gone: IfGone,
    ) -> Answer<'a, Completed> {
        StoreFuture::new(async move {
            if self.rule == Rule::AnswersAreKept {
                return Ok(Completed::Stored);
            }
            let completed =
                self.inner.complete(key, attempt, value.clone(), retention, if_gone).await?;
            if self.rule == Rule::CompleteComparesTokens && completed == Completed::Superseded {
                self.clear(key).await?;
                self.inner.complete(key, attempt, value, retention, IfGone::Rewrite).await?;
                return Ok(Completed::Stored);
            }
            Ok(completed)
        })
    }

    fn fail<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        failure: Failure,
        retention: Duration,
    ) -> Answer<'a, Settled> {
        StoreFuture::new(async move {
            let settled = self.inner.fail(key, attempt, failure, retention).await?;
            self.free(key, settled).await
        })
    }

    fn abandon<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        StoreFuture::new(async move {
            let settled = self.inner.abandon(key, attempt, retention, binding).await?;
            self.free(key, settled).await
        })
    }

    fn release<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        retention: Duration,
        binding: Binding,
    ) -> Answer<'a, Settled> {
        self.inner.release(key, attempt, retention, binding)
    }

    fn renew<'a>(
        &'a self,
        key: &'a RecordKey,
        attempt: &'a AttemptId,
        lease: Duration,
    ) -> Answer<'a, Renewed> {
        self.inner.renew(key, attempt, lease)
    }

    fn get<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        self.inner.get(key)
    }

    fn forget<'a>(&'a self, key: &'a RecordKey, force: bool) -> Answer<'a, Forgotten> {
        self.inner.forget(key, force)
    }

    fn resolve<'a>(
        &'a self,
        key: &'a RecordKey,
        resolution: Resolution,
        retention: Duration,
    ) -> Answer<'a, Resolved> {
        self.inner.resolve(key, resolution, retention)
    }

    fn watch<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Watch> {
        self.inner.watch(key)
    }
}
