//! The right to run the body, as `begin` grants and refuses it.

use super::Subject;
use super::bench::{
    Bench, FREE, LEASE, LINGER, SEED, WINDOW, asking, asking_for_a_window, asking_to_block,
    asking_with,
};
use crate::config::Abandon;
use crate::protocol::{BeginRequest, Begun, Failure, Updated};
use crate::store::{AttemptId, Claim, State, Token};
use crate::testing::model::payloads;

/// Without a record, `begin` grants attempt 1 with the caller's fence seed.
pub async fn first_begin_is_granted(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    assert_eq!(bench.get().await, None);
    let request = asking_with(payloads()[0]);
    let attempt = bench.granted(&request).await;
    let BeginRequest { token, fingerprint, claim, .. } = request;
    assert_eq!(attempt, AttemptId { token, number: 1, fence: SEED, fingerprint, claim });
    let record = bench.assert_lives(LEASE + LINGER).await;
    assert_eq!((record.head.state, record.head.attempt), (State::Processing, attempt));
}

/// A `begin` whose reply was lost is granted the same attempt again, and changes nothing.
pub async fn repeated_begin_gets_the_same_attempt(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking();
    let attempt = bench.granted(&request).await;
    bench.step(LEASE / 2).await;
    bench.untouched(bench.begin(&request), Begun::Fresh(attempt)).await;
    bench.assert_lives(LEASE / 2 + LINGER).await;
}

/// While a lease is alive, to its last moment, others are told how long it lasts.
pub async fn others_stay_away_while_the_lease_is_alive(subject: &dyn Subject) {
    for first in [asking(), asking_to_block()] {
        let bench = Bench::new(subject);
        bench.granted(&first).await;
        match bench.begin(&asking()).await {
            Begun::InFlight { number: 1, retry_after } => bench.assert_left(retry_after, LEASE),
            other => panic!("at the start of the lease: {other:?}"),
        }
        bench.step_to_just_before(LEASE).await;
        let last = bench.begin(&asking()).await;
        assert!(matches!(last, Begun::InFlight { .. }), "just before the end: {last:?}");
    }
}

/// At the end of a lease that nobody renewed, the next caller is granted attempt 2.
pub async fn key_is_taken_over_exactly_when_the_lease_ends(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let first = bench.granted(&asking()).await;
    bench.step(LEASE).await;
    let second = bench.granted(&asking()).await;
    assert_eq!(second.number, 2);
    assert!(second.fence > first.fence, "the fence did not grow");
    bench.assert_lives(LEASE + LINGER).await;
    let third = bench.begin(&asking()).await;
    assert!(
        matches!(third, Begun::InFlight { number: 2, .. }),
        "the new lease is not alive: {third:?}"
    );
}

/// Under `abandon = "block"` a lease that ran out leaves the outcome unknown, until the record
/// ends.
pub async fn blocked_key_is_not_taken_over(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    bench.granted(&asking_to_block()).await;
    bench.step(LEASE).await;
    bench.untouched(bench.begin(&asking()), Begun::Indeterminate { number: 1 }).await;
    bench.step_to_just_before(LINGER).await;
    assert_eq!(bench.begin(&asking()).await, Begun::Indeterminate { number: 1 });
    bench.step_to_the_end().await;
    assert_eq!(bench.granted(&asking()).await.number, 1);
}

/// Lease and policy of a record are those it was begun with, not those of whoever asks.
pub async fn terms_are_those_of_the_record(subject: &dyn Subject) {
    let (lease, linger) = (LEASE * 3, LINGER * 3);
    let claim = Claim::Lease { lease, linger, abandon: Abandon::Block };
    let other_terms = BeginRequest { claim, ..asking() };
    let bench = Bench::new(subject);
    bench.granted(&asking()).await;
    match bench.begin(&other_terms).await {
        Begun::InFlight { number: 1, retry_after } => bench.assert_left(retry_after, LEASE),
        other => panic!("{other:?}"),
    }
    bench.step(LEASE).await;
    bench.granted(&other_terms).await;
    bench.assert_lives(lease + linger).await;
    bench.step(lease).await;
    assert_eq!(bench.begin(&asking()).await, Begun::Indeterminate { number: 2 });
}

/// The same key with another payload is refused while the attempt runs and after it has ended
/// with an answer.
pub async fn other_payload_is_a_mismatch(subject: &dyn Subject) {
    let [one, two] = payloads();
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking_with(one)).await;
    bench.untouched(bench.begin(&asking_with(two)), Begun::Mismatch).await;
    bench.step(LEASE).await;
    bench.untouched(bench.begin(&asking_with(two)), Begun::Mismatch).await;
    bench.complete(&attempt, b"answer").await;
    bench.untouched(bench.begin(&asking_with(two)), Begun::Mismatch).await;

    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking_with(one)).await;
    bench.fail(&attempt, Failure::Final(None)).await;
    bench.untouched(bench.begin(&asking_with(two)), Begun::Mismatch).await;
}

/// A caller without a payload, or a record without one, never mismatches.
pub async fn payload_matters_only_if_both_sides_have_one(subject: &dyn Subject) {
    let [one, _] = payloads();
    for (first, second) in [
        (asking_with(one), asking()),
        (asking(), asking_with(one)),
        (asking_with(one), asking_with(one)),
    ] {
        let bench = Bench::new(subject);
        bench.granted(&first).await;
        let answer = bench.begin(&second).await;
        assert!(matches!(answer, Begun::InFlight { .. }), "{answer:?}");
    }
}

/// Fences grow while the record is kept, whatever the callers' clocks say.
pub async fn fences_grow_with_every_attempt(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let mut last = 0;
    for (number, seed) in (1_u32..).zip([SEED, 7, SEED - 1, SEED + 10, SEED + 10, 0]) {
        let attempt = bench.granted(&BeginRequest { fence_seed: seed, ..asking() }).await;
        assert_eq!(attempt.number, number);
        assert!(attempt.fence > last && attempt.fence >= seed, "{} after {last}", attempt.fence);
        last = attempt.fence;
        match number % 3 {
            0 => bench.step(LEASE).await,
            1 => assert_eq!(bench.fail(&attempt, FREE).await, Updated::Done),
            _ => assert_eq!(bench.abandon(&attempt).await, Updated::Done),
        }
    }
    assert_eq!(last, SEED + 12, "six attempts");
}

/// The largest fence seeds survive being stored: no digit is rounded away.
pub async fn fences_are_kept_to_the_last_digit(subject: &dyn Subject) {
    for seed in [0, 1, (1 << 53) - 3, (1 << 53) - 2] {
        let bench = Bench::new(subject);
        let first = bench.granted(&BeginRequest { fence_seed: seed, ..asking() }).await;
        bench.fail(&first, FREE).await;
        let second = bench.granted(&BeginRequest { fence_seed: 0, ..asking() }).await;
        assert_eq!((first.fence, second.fence), (seed, seed + 1));
        let record = bench.get().await.unwrap_or_else(|| panic!("the record is gone"));
        assert_eq!(record.head.attempt, second);
    }
}

/// A `begin` that arrives after its own attempt has ended is not granted another one.
pub async fn late_begin_of_an_ended_attempt_is_superseded(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking();
    let attempt = bench.granted(&request).await;
    bench.fail(&attempt, FREE).await;
    bench.untouched(bench.begin(&request), Begun::Superseded).await;
    let stranger = BeginRequest { token: Token::random(), ..request };
    assert_eq!(bench.granted(&stranger).await.number, 2);
}

/// A window is taken for its whole length, however often others ask, and then free.
pub async fn window_is_taken_until_it_ends(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking_for_a_window();
    let attempt = bench.granted(&request).await;
    let record = bench.assert_lives(WINDOW).await;
    assert_eq!(record.head.state, State::Taken);
    bench.untouched(bench.begin(&request), Begun::Fresh(attempt)).await;
    for other in [asking_for_a_window(), asking(), asking_with(payloads()[0])] {
        match bench.begin(&other).await {
            Begun::Taken { retry_after } => bench.assert_left(retry_after, WINDOW),
            other => panic!("at the start of the window: {other:?}"),
        }
    }
    bench.step_to_just_before(WINDOW).await;
    let last = bench.begin(&asking_for_a_window()).await;
    assert!(matches!(last, Begun::Taken { .. }), "just before the end: {last:?}");
    bench.step_to_the_end().await;
    assert_eq!(bench.granted(&asking_for_a_window()).await.number, 1);
}
