//! Requests for tests that speak to the store itself.

use idempotent_runtime::Abandon;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{BeginRequest, Begun, IfGone, StoreExt as _, Updated};
use idempotent_runtime::store::{AttemptId, Claim, StoreError, Token, Value};
use idempotent_sql::SqliteStore;
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const LINGER: Duration = Duration::from_secs(300);
pub(crate) const RETENTION: Duration = Duration::from_secs(200);

pub(crate) fn key(name: impl std::fmt::Display) -> RecordKey {
    RecordKey::from(&*format!("shop|orders.create|{name}"))
}

pub(crate) fn asking() -> BeginRequest {
    asking_to(Abandon::Retry)
}

pub(crate) fn asking_to(abandon: Abandon) -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger: LINGER, abandon };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

/// Begins, and must be granted an attempt.
pub(crate) async fn granted(store: &SqliteStore, key: &RecordKey) -> AttemptId {
    match store.begin(key, &asking()).await.unwrap() {
        Begun::Fresh(attempt) => attempt,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn completed(
    store: &SqliteStore,
    key: &RecordKey,
    attempt: &AttemptId,
    value: &[u8],
) -> Result<Updated, StoreError> {
    let value = Some(Value::from(value));
    store.complete(key, attempt, value, RETENTION, IfGone::Rewrite).await
}

/// Begins and completes.
pub(crate) async fn answered(store: &SqliteStore, key: &RecordKey) {
    let attempt = granted(store, key).await;
    assert_eq!(completed(store, key, &attempt, b"answer").await.unwrap(), Updated::Done);
}
