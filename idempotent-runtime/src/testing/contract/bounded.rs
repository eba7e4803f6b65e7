//! The behaviour of a store that is full, if it can be.

use super::Subject;
use super::bench::{Bench, LEASE, LINGER, RETENTION, asking, own_key, value};
use crate::protocol::{Begun, StoreExt as _, Updated};
use crate::store::{AttemptId, StoreErrorKind};
use std::sync::Arc;

/// More records than any bounded store in a test has room for.
const ENOUGH: usize = 100_000;

/// A full store, and the attempts that fill it.
pub(super) async fn filled<'a>(subject: &'a dyn Subject) -> Option<Vec<(Bench<'a>, AttemptId)>> {
    let store = subject.bounded()?;
    let mut running = Vec::new();
    for index in 0..ENOUGH {
        let key = own_key(&index.to_string());
        let bench = Bench { subject, store: Arc::clone(&store), key };
        match bench.store.begin(&bench.key, &asking()).await {
            Ok(Begun::Fresh(attempt)) => running.push((bench, attempt)),
            Ok(other) => panic!("an unused key: {other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
                assert_eq!(bench.get().await, None, "refused as full, and yet written");
                assert!(!running.is_empty(), "full from the start");
                return Some(running);
            }
        }
    }
    panic!("not full with {ENOUGH} records");
}

/// A full store refuses keys it does not know, and goes on answering for those it does.
pub async fn full_store_refuses_only_further_keys(subject: &dyn Subject) {
    let Some(running) = filled(subject).await else { return };
    for (bench, attempt) in &running {
        let known = bench.begin(&asking()).await;
        assert!(matches!(known, Begun::InFlight { .. }), "{known:?}");
        assert_eq!(bench.get().await.map(|record| record.head.attempt), Some(*attempt));
    }
    let (bench, attempt) = &running[0];
    let request = asking();
    bench.step(LEASE).await;
    assert_eq!(bench.renew(attempt, LEASE).await, Updated::Done);
    let stranger = bench.with_key(own_key("stranger"));
    let refused = stranger.store.begin(&stranger.key, &request).await;
    assert_eq!(refused.map_err(|error| error.kind()), Err(StoreErrorKind::Full));
}

/// Attempts that were granted can be renewed and completed when the store is full; their value may
/// be lost, their success may not.
pub async fn full_store_lets_granted_attempts_end(subject: &dyn Subject) {
    let Some(running) = filled(subject).await else { return };
    let large = vec![7_u8; 64 * 1024];
    for (bench, attempt) in &running {
        assert_eq!(bench.renew(attempt, LEASE * 2).await, Updated::Done);
        let stored = match bench.complete(attempt, &large).await {
            Updated::Done => value(&large),
            Updated::DoneWithoutValue => None,
            other => panic!("{other:?}"),
        };
        let replay = bench.begin(&asking()).await;
        assert!(replay == Begun::Succeeded { number: 1, value: stored }, "{replay:?}");
        bench.assert_lives(RETENTION).await;
    }
}

/// A full store takes new records once others have expired, the same keys included.
pub async fn expired_records_make_room(subject: &dyn Subject) {
    let Some(running) = filled(subject).await else { return };
    let keys: Vec<_> = running.iter().map(|(bench, _)| bench.key.clone()).collect();
    subject.step(&keys, LEASE + LINGER).await;
    for (bench, _) in &running {
        assert_eq!(bench.get().await, None);
    }
    let (bench, _) = &running[0];
    assert_eq!(bench.granted(&asking()).await.number, 1);
}
