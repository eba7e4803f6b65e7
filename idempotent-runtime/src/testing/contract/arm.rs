//! Keys that block once their body is about to start.

use super::Subject;
use super::bench::{BLOCK_LINGER, Bench, FREE, LEASE, LINGER, asking, asking_with};
use crate::protocol::{Begun, Updated};
use crate::store::State;
use crate::testing::model::payloads;

/// An armed key is held while its lease lasts, and blocks afterwards.
pub async fn armed_key_blocks_when_its_lease_is_over(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking_with(payloads()[0])).await;
    assert_eq!(bench.arm(&attempt).await, Updated::Done);
    let record = bench.assert_lives(LEASE + BLOCK_LINGER).await;
    assert_eq!(record.head.attempt, attempt.armed(BLOCK_LINGER));
    assert_eq!(record.head.state, State::Processing);
    bench.step_to_just_before(LEASE).await;
    assert!(matches!(bench.begin(&asking()).await, Begun::InFlight { .. }));
    bench.step_to_the_end().await;
    bench.untouched(bench.begin(&asking()), Begun::Indeterminate { number: 1 }).await;
}

/// A key that was never armed is taken over, whatever its caller was about to do.
pub async fn unarmed_key_is_taken_over(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    bench.granted(&asking()).await;
    bench.step(LEASE).await;
    assert_eq!(bench.granted(&asking()).await.number, 2);
}

/// Arming renews the lease. A repeat does so too, and never shortens what the record has left.
pub async fn arming_renews_and_may_be_repeated(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.step(LEASE / 2).await;
    assert_eq!(bench.arm(&attempt).await, Updated::Done);
    bench.assert_lives(LEASE + BLOCK_LINGER).await;
    for sent in [attempt, attempt.armed(BLOCK_LINGER)] {
        bench.step(LEASE / 2).await;
        assert_eq!(bench.arm(&sent).await, Updated::Done);
        let record = bench.assert_lives(LEASE + BLOCK_LINGER).await;
        assert_eq!(record.head.attempt, attempt.armed(BLOCK_LINGER));
    }
    bench.renew(&attempt.armed(BLOCK_LINGER), LEASE * 2).await;
    bench.untouched(bench.arm(&attempt), Updated::Done).await;
}

/// An attempt that no longer holds its key cannot arm it, and a copy that arrives late cannot
/// either.
pub async fn lost_attempt_cannot_arm(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let lost = bench.granted(&asking()).await;
    bench.step(LEASE).await;
    let owner = bench.granted(&asking()).await;
    bench.untouched(bench.arm(&lost), Updated::Superseded).await;
    bench.complete(&owner, b"answer").await;
    bench.untouched(bench.arm(&lost), Updated::Superseded).await;
    bench.untouched(bench.arm(&owner), Updated::Superseded).await;

    let bench = Bench::new(subject);
    let released = bench.granted(&asking()).await;
    bench.release(&released).await;
    assert_eq!(bench.arm(&released).await, Updated::Superseded);
    assert_eq!(bench.get().await, None);
    let failed = bench.granted(&asking()).await;
    bench.fail(&failed, FREE).await;
    bench.untouched(bench.arm(&failed), Updated::Superseded).await;
}

/// A release takes an armed key back, also by a caller that does not know that it is armed.
pub async fn armed_key_can_be_released(subject: &dyn Subject) {
    for knows in [true, false] {
        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        assert_eq!(bench.arm(&attempt).await, Updated::Done);
        let armed = attempt.armed(BLOCK_LINGER);
        let released = bench.release(if knows { &armed } else { &attempt }).await;
        assert_eq!(released, Updated::Done);
        assert_eq!(bench.get().await, None);
    }
}

/// An armed attempt ends as any other does, and an abandoned one blocks its key.
pub async fn armed_attempt_ends_like_any_other(subject: &dyn Subject) {
    let armed = async |bench: &Bench<'_>| {
        let attempt = bench.granted(&asking()).await;
        assert_eq!(bench.arm(&attempt).await, Updated::Done);
        attempt.armed(BLOCK_LINGER)
    };
    let bench = Bench::new(subject);
    let attempt = armed(&bench).await;
    assert_eq!(bench.complete(&attempt, b"answer").await, Updated::Done);

    let bench = Bench::new(subject);
    let attempt = armed(&bench).await;
    assert_eq!(bench.fail(&attempt, FREE).await, Updated::Done);
    assert_eq!(bench.granted(&asking()).await.number, 2);

    let bench = Bench::new(subject);
    let attempt = armed(&bench).await;
    assert_eq!(bench.abandon(&attempt).await, Updated::Done);
    bench.assert_lives(BLOCK_LINGER).await;
    assert_eq!(bench.begin(&asking()).await, Begun::Indeterminate { number: 1 });
    assert!(BLOCK_LINGER > LINGER, "an unarmed record would be gone sooner");
}
