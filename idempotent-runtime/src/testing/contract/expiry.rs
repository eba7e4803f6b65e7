//! The lifetime of leases and records.

use super::Subject;
use super::bench::{Bench, FREE, LEASE, LINGER, RETENTION, asking, value};
use crate::protocol::{Begun, Failure, Updated};
use crate::store::State;

/// An answer is replayed to the last moment of its retention, and then the key is new.
pub async fn answer_expires_exactly_at_the_end_of_its_retention(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.complete(&attempt, b"answer").await;
    bench.step_to_just_before(RETENTION).await;
    let replay = Begun::Succeeded { number: 1, value: value(b"answer") };
    assert_eq!(bench.begin(&asking()).await, replay);
    bench.step_to_the_end().await;
    assert_eq!(bench.get().await, None);
    let next = bench.granted(&asking()).await;
    assert_eq!(next.number, 1);
    assert_eq!(bench.assert_lives(LEASE + LINGER).await.value, None);
}

/// The retention of an answer counts from its completion, however long the attempt took.
pub async fn retention_counts_from_completion(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.step(LEASE + LINGER / 2).await;
    bench.complete(&attempt, b"answer").await;
    bench.assert_lives(RETENTION).await;
}

/// An attempt that never ends leaves its record behind for as long as it lingers, so that the next
/// one gets a greater fence; then the key is new.
pub async fn unfinished_record_outlives_its_lease(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    bench.granted(&asking()).await;
    bench.step(LEASE).await;
    bench.assert_lives(LINGER).await;
    bench.step_to_just_before(LINGER).await;
    assert_eq!(bench.granted(&asking()).await.number, 2);
    bench.step(LEASE + LINGER).await;
    assert_eq!(bench.granted(&asking()).await.number, 1);
}

/// The memory of a failure lasts for its retention; then the key is new.
pub async fn failed_record_lives_for_its_retention(subject: &dyn Subject) {
    for (failure, state) in [(FREE, State::FailedFree), (Failure::Final(None), State::FailedFinal)]
    {
        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        bench.fail(&attempt, failure).await;
        bench.step_to_just_before(RETENTION).await;
        assert_eq!(bench.get().await.map(|record| record.head.state), Some(state));
        bench.step_to_the_end().await;
        assert_eq!(bench.granted(&asking()).await.number, 1);
    }
}

/// A renewed lease keeps others away for its new length.
pub async fn renew_extends_the_lease(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    for _ in 0..3 {
        bench.step_to_just_before(LEASE).await;
        assert_eq!(bench.renew(&attempt, LEASE).await, Updated::Done);
        let record = bench.assert_lives(LEASE + LINGER).await;
        assert_eq!((record.head.state, record.head.attempt), (State::Processing, attempt));
    }
    bench.step_to_just_before(LEASE).await;
    let answer = bench.begin(&asking()).await;
    assert!(matches!(answer, Begun::InFlight { .. }), "{answer:?}");
    bench.step_to_the_end().await;
    assert_eq!(bench.renew(&attempt, LEASE).await, Updated::Done, "over, but not taken");
    let answer = bench.begin(&asking()).await;
    assert!(matches!(answer, Begun::InFlight { .. }), "{answer:?}");
}

/// Renewing with a shorter lease leaves the longer one.
pub async fn renew_never_shortens(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    assert_eq!(bench.renew(&attempt, LEASE * 4).await, Updated::Done);
    assert_eq!(bench.renew(&attempt, LEASE).await, Updated::Done);
    bench.assert_lives(LEASE * 4 + LINGER).await;
    match bench.begin(&asking()).await {
        Begun::InFlight { retry_after, .. } => assert!(retry_after <= LEASE, "{retry_after:?}"),
        other => panic!("{other:?}"),
    }
}

/// An attempt that ended or was taken over cannot be renewed, and neither can a window.
pub async fn renew_of_a_lost_attempt_changes_nothing(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.complete(&attempt, b"answer").await;
    bench.untouched(bench.renew(&attempt, LEASE * 100), Updated::Superseded).await;

    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.fail(&attempt, FREE).await;
    bench.untouched(bench.renew(&attempt, LEASE * 100), Updated::Superseded).await;

    let bench = Bench::new(subject);
    let window = bench.granted(&super::bench::asking_for_a_window()).await;
    bench.untouched(bench.renew(&window, LEASE * 100), Updated::Superseded).await;
}
