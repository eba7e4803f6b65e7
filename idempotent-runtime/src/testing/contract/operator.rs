//! The verbs of an operator, by key: get, forget, resolve.

use super::Subject;
use super::bench::{
    Bench, LEASE, LINGER, RETENTION, asking, asking_for_a_window, asking_to_block, asking_with,
    value,
};
use crate::protocol::{Begun, Failure, Forgotten, Resolution, Resolved, Updated};
use crate::store::{Head, State};
use crate::testing::model::payloads;

/// `get` shows what was begun and how it ended, and changes nothing.
pub async fn get_shows_the_whole_record(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    assert_eq!(bench.get().await, None);
    let request = asking_with(payloads()[0]);
    let attempt = bench.granted(&request).await;
    assert_eq!(attempt.claim, request.claim);
    let begun = Head { attempt, state: State::Processing };
    for _ in 0..2 {
        let record = bench.assert_lives(LEASE + LINGER).await;
        assert_eq!((record.head, record.value), (begun, None));
    }
    bench.complete(&attempt, b"answer").await;
    let record = bench.assert_lives(RETENTION).await;
    let ended = Head { state: State::Succeeded, ..begun };
    assert_eq!((record.head, record.value), (ended, value(b"answer")));
}

/// Answers, final errors and windows are deleted; the next caller starts from nothing.
pub async fn forget_deletes_what_nobody_holds(subject: &dyn Subject) {
    for force in [false, true] {
        let bench = Bench::new(subject);
        assert_eq!(bench.forget(force).await, Forgotten::NotFound);
        let attempt = bench.granted(&asking()).await;
        bench.complete(&attempt, b"answer").await;
        assert_eq!(bench.forget(force).await, Forgotten::Deleted);
        assert_eq!(bench.get().await, None);

        let attempt = bench.granted(&asking()).await;
        assert_eq!(attempt.number, 1);
        bench.fail(&attempt, Failure::Final(value(b"error"))).await;
        assert_eq!(bench.forget(force).await, Forgotten::Deleted);
        bench.granted(&asking_for_a_window()).await;
        assert_eq!(bench.forget(force).await, Forgotten::Deleted);
        assert_eq!(bench.get().await, None);
    }
}

/// A running attempt is left alone, unless forced; then it is superseded and the key is free.
pub async fn forget_frees_a_held_key_only_by_force(subject: &dyn Subject) {
    for request in [asking(), asking_to_block()] {
        let bench = Bench::new(subject);
        let held = bench.granted(&request).await;
        bench.untouched(bench.forget(false), Forgotten::Held).await;
        assert_eq!(bench.forget(true).await, Forgotten::Freed);
        let record = bench.assert_lives(LEASE + LINGER).await;
        assert_eq!(record.head.state, State::FailedFree);
        bench.untouched(bench.complete(&held, b"late"), Updated::Superseded).await;
        let next = bench.granted(&asking()).await;
        assert_eq!(next.number, 2);
        assert!(next.fence > held.fence);
    }
}

/// A key that is free already stays free, and its record stays: however often a key is forgotten,
/// the attempt that held it cannot write its answer after all.
pub async fn forget_again_keeps_the_lost_attempt_out(subject: &dyn Subject) {
    for force in [false, true] {
        let bench = Bench::new(subject);
        let held = bench.granted(&asking()).await;
        assert_eq!(bench.forget(true).await, Forgotten::Freed);
        for _ in 0..2 {
            bench.untouched(bench.forget(force), Forgotten::Freed).await;
            bench.untouched(bench.complete(&held, b"late"), Updated::Superseded).await;
        }
        assert_eq!(bench.granted(&asking()).await.number, 2);
    }
}

/// An unknown outcome becomes an answer, an answer without a value, or a free key.
pub async fn resolve_ends_an_unknown_outcome(subject: &dyn Subject) {
    let cases = [
        (Resolution::Succeeded(value(b"found")), State::Succeeded),
        (Resolution::Succeeded(None), State::Succeeded),
        (Resolution::Retry, State::FailedFree),
    ];
    for (resolution, state) in cases {
        for abandoned in [true, false] {
            let bench = Bench::new(subject);
            let lost = bench.granted(&asking_to_block()).await;
            if abandoned {
                bench.abandon(&lost).await;
            } else {
                bench.step(LEASE).await;
            }
            assert_eq!(bench.resolve(resolution.clone()).await, Resolved::Done);
            let record = bench.assert_lives(RETENTION).await;
            assert_eq!(record.head.state, state);
            match &resolution {
                Resolution::Succeeded(value) => {
                    let replay = Begun::Succeeded { number: 1, value: value.clone() };
                    assert_eq!(bench.begin(&asking()).await, replay);
                }
                Resolution::Retry => {
                    let next = bench.granted(&asking()).await;
                    assert_eq!(next.number, 2);
                    let late = bench.complete(&lost, b"late").await;
                    assert_eq!(late, Updated::Superseded);
                }
            }
        }
    }
}

/// A record whose outcome is known, or whose attempt still runs, is not resolved.
pub async fn resolve_leaves_known_outcomes_alone(subject: &dyn Subject) {
    for resolution in [Resolution::Retry, Resolution::Succeeded(value(b"wrong"))] {
        let bench = Bench::new(subject);
        assert_eq!(bench.resolve(resolution.clone()).await, Resolved::NotFound);
        let attempt = bench.granted(&asking_to_block()).await;
        bench.step_to_just_before(LEASE).await;
        let running = Resolved::NotIndeterminate(State::Processing);
        bench.untouched(bench.resolve(resolution.clone()), running).await;
        bench.complete(&attempt, b"answer").await;
        let known = Resolved::NotIndeterminate(State::Succeeded);
        bench.untouched(bench.resolve(resolution.clone()), known).await;

        let bench = Bench::new(subject);
        bench.granted(&asking_for_a_window()).await;
        let taken = Resolved::NotIndeterminate(State::Taken);
        bench.untouched(bench.resolve(resolution), taken).await;
    }
}
