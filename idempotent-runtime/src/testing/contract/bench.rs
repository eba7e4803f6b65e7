//! The bench that every case works on: a key of its own, verbs that must be answered, and time.

use super::{MAX_SLACK, Subject};
use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::{
    BeginRequest, Begun, Binding, Failure, Forgotten, IfGone, Resolution, Resolved, StoreExt as _,
    Updated,
};
use crate::store::{AttemptId, Claim, Record, Store, StoreError, Token, Value};
use crate::testing::model::is_left;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

// Far enough apart for any subject's slack.
pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const LINGER: Duration = Duration::from_secs(300);
/// The linger of a key that is armed.
pub(super) const BLOCK_LINGER: Duration = Duration::from_secs(900);
pub(super) const RETENTION: Duration = Duration::from_secs(200);
pub(super) const WINDOW: Duration = Duration::from_secs(100);
const TICK: Duration = Duration::from_millis(1);

/// A fence seed as callers send it: Unix microseconds.
pub(super) const SEED: u64 = 1_700_000_000_000_000;

/// An error that is not kept, after which any payload may follow.
pub(super) const FREE: Failure = Failure::Free(Binding::Lifted);

/// One key of the store under test.
pub(super) struct Bench<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) store: Arc<dyn Store>,
    pub(super) key: RecordKey,
}

pub(super) fn answered<T>(answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| panic!("the store did not answer: {error} ({:?})", error.kind()))
}

/// A key nobody else has, with `rest` at its end.
pub(super) fn own_key(rest: &str) -> RecordKey {
    let own = crate::key::hex(&Token::random().to_bytes());
    RecordKey::from(&*format!("contract|{own}|{rest}"))
}

/// A request with a token of its own.
pub(super) fn asking() -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: LINGER, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: SEED, claim }
}

pub(super) fn asking_to_block() -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: LINGER, abandon: Abandon::Block };
    BeginRequest { claim, ..asking() }
}

pub(super) fn asking_for_a_window() -> BeginRequest {
    BeginRequest { claim: Claim::Window { window: WINDOW }, ..asking() }
}

pub(super) fn asking_with(payload: Fingerprint) -> BeginRequest {
    BeginRequest { fingerprint: Some(payload), ..asking() }
}

pub(super) fn value(bytes: &[u8]) -> Option<Value> {
    Some(bytes.into())
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: &'a dyn Subject) -> Self {
        assert!(subject.slack() <= MAX_SLACK, "the subject's slack is over {MAX_SLACK:?}");
        Self { subject, store: subject.store(), key: own_key("k") }
    }

    /// The same store, another key.
    pub(super) fn with_key(&self, key: RecordKey) -> Self {
        Self { subject: self.subject, store: Arc::clone(&self.store), key }
    }

    pub(super) async fn begin(&self, request: &BeginRequest) -> Begun {
        answered(self.store.begin(&self.key, request).await)
    }

    /// Begins, and must be granted an attempt.
    pub(super) async fn granted(&self, request: &BeginRequest) -> AttemptId {
        match self.begin(request).await {
            Begun::Fresh(attempt) => {
                assert_eq!(attempt.token, request.token, "the attempt of another token");
                attempt
            }
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Completes with a value, to be kept for [`RETENTION`].
    pub(super) async fn complete(&self, attempt: &AttemptId, bytes: &[u8]) -> Updated {
        self.complete_late(attempt, bytes, IfGone::Rewrite).await
    }

    /// Completes with a value; `if_gone` says what to do if the record is gone.
    pub(super) async fn complete_late(
        &self,
        attempt: &AttemptId,
        bytes: &[u8],
        if_gone: IfGone,
    ) -> Updated {
        answered(self.store.complete(&self.key, attempt, value(bytes), RETENTION, if_gone).await)
    }

    /// Arms the key, to block for [`BLOCK_LINGER`] after the lease.
    pub(super) async fn arm(&self, attempt: &AttemptId) -> Updated {
        answered(self.store.arm(&self.key, attempt, BLOCK_LINGER).await)
    }

    pub(super) async fn fail(&self, attempt: &AttemptId, failure: Failure) -> Updated {
        answered(self.store.fail(&self.key, attempt, failure, RETENTION).await)
    }

    pub(super) async fn abandon(&self, attempt: &AttemptId) -> Updated {
        self.abandon_with(attempt, Binding::Lifted).await
    }

    pub(super) async fn abandon_with(&self, attempt: &AttemptId, binding: Binding) -> Updated {
        answered(self.store.abandon(&self.key, attempt, RETENTION, binding).await)
    }

    pub(super) async fn release(&self, attempt: &AttemptId) -> Updated {
        self.release_with(attempt, Binding::Lifted).await
    }

    pub(super) async fn release_with(&self, attempt: &AttemptId, binding: Binding) -> Updated {
        answered(self.store.release(&self.key, attempt, RETENTION, binding).await)
    }

    pub(super) async fn renew(&self, attempt: &AttemptId, lease: Duration) -> Updated {
        answered(self.store.renew(&self.key, attempt, lease).await)
    }

    pub(super) async fn get(&self) -> Option<Record> {
        answered(self.store.load(&self.key).await)
    }

    pub(super) async fn forget(&self, force: bool) -> Forgotten {
        answered(self.store.forget(&self.key, force).await)
    }

    pub(super) async fn resolve(&self, resolution: Resolution) -> Resolved {
        answered(self.store.resolve(&self.key, resolution, RETENTION).await)
    }

    pub(super) async fn step(&self, by: Duration) {
        self.subject.step(std::slice::from_ref(&self.key), by).await;
    }

    /// Steps to the last moment before `span` has passed.
    pub(super) async fn step_to_just_before(&self, span: Duration) {
        self.step(span - TICK - self.subject.slack()).await;
    }

    /// Steps from there to the end of the span.
    pub(super) async fn step_to_the_end(&self) {
        self.step(TICK + self.subject.slack()).await;
    }

    /// Asserts that `left` is `expected`, less the time that may have passed by itself.
    pub(super) fn assert_left(&self, left: Duration, expected: Duration) {
        let slack = self.subject.slack();
        assert!(is_left(left, expected, slack), "{left:?} are left, expected {expected:?}");
    }

    /// The record, which must live for `ttl`.
    pub(super) async fn assert_lives(&self, ttl: Duration) -> Record {
        let record = self.get().await.unwrap_or_else(|| panic!("the record is gone"));
        self.assert_left(record.ttl, ttl);
        record
    }

    /// Runs `verb`, which must leave the record as it is.
    pub(super) async fn untouched<T: PartialEq + Debug>(
        &self,
        verb: impl Future<Output = T>,
        expected: T,
    ) {
        let before = self.get().await;
        assert_eq!(verb.await, expected);
        let after = self.get().await;
        let kept = crate::testing::model::records_agree(
            after.as_ref(),
            before.as_ref(),
            self.subject.slack(),
        );
        assert!(kept, "{expected:?}, and yet {before:?} became {after:?}");
    }
}
