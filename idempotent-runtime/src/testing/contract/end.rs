//! The ends of an attempt: completed, failed, released, abandoned.

use super::Subject;
use super::bench::{
    Bench, FREE, LEASE, LINGER, RETENTION, asking, asking_to_block, asking_with, value,
};
use crate::protocol::{BeginRequest, Begun, Failure, IfGone, Updated};
use crate::store::State;
use crate::testing::model::payloads;

/// A stored answer is replayed to others and to the attempt's own token.
pub async fn answer_is_replayed_to_everybody(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking();
    let attempt = bench.granted(&request).await;
    assert_eq!(bench.complete(&attempt, b"answer").await, Updated::Done);
    for asked in [request, asking(), asking_to_block(), asking_with(payloads()[0])] {
        let replay = Begun::Succeeded { number: 1, value: value(b"answer") };
        bench.untouched(bench.begin(&asked), replay).await;
    }
    let record = bench.assert_lives(RETENTION).await;
    assert_eq!(record.head.state, State::Succeeded);
}

/// A final error is replayed like an answer.
pub async fn final_error_is_replayed_to_everybody(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking();
    let attempt = bench.granted(&request).await;
    let failure = Failure::Final(value(b"error"));
    assert_eq!(bench.fail(&attempt, failure.clone()).await, Updated::Done);
    for asked in [request, asking()] {
        let replay = Begun::FailedFinal { number: 1, value: value(b"error") };
        bench.untouched(bench.begin(&asked), replay).await;
    }
    bench.untouched(bench.fail(&attempt, failure), Updated::Done).await;
    bench.assert_lives(RETENTION).await;
}

/// A `complete` whose reply was lost may be repeated; it neither replaces the answer nor prolongs
/// its life.
pub async fn repeated_complete_keeps_the_first_answer(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.complete(&attempt, b"first").await;
    bench.step(RETENTION / 2).await;
    bench.untouched(bench.complete(&attempt, b"second"), Updated::Done).await;
    let record = bench.assert_lives(RETENTION / 2).await;
    assert_eq!(record.value, value(b"first"));
}

/// An attempt that lost its key to another one cannot end it any more, in any way.
pub async fn late_complete_of_a_lost_attempt_is_superseded(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let lost = bench.granted(&asking()).await;
    bench.step(LEASE).await;
    let owner = bench.granted(&asking()).await;
    for _ in 0..2 {
        bench.untouched(bench.complete(&lost, b"late"), Updated::Superseded).await;
        bench.untouched(bench.fail(&lost, FREE), Updated::Superseded).await;
        bench.untouched(bench.fail(&lost, Failure::Final(None)), Updated::Superseded).await;
        bench.untouched(bench.abandon(&lost), Updated::Superseded).await;
        bench.untouched(bench.release(&lost), Updated::Superseded).await;
        bench.untouched(bench.renew(&lost, LEASE), Updated::Superseded).await;
    }
    assert_eq!(bench.complete(&owner, b"answer").await, Updated::Done);
    bench.untouched(bench.complete(&lost, b"late"), Updated::Superseded).await;
    let replay = Begun::Succeeded { number: 2, value: value(b"answer") };
    assert_eq!(bench.begin(&asking()).await, replay);
}

/// Of two different ends of one attempt the first one stands.
pub async fn first_terminal_verb_wins(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.complete(&attempt, b"answer").await;
    bench.untouched(bench.fail(&attempt, FREE), Updated::Superseded).await;
    bench.untouched(bench.fail(&attempt, Failure::Final(None)), Updated::Superseded).await;
    bench.untouched(bench.abandon(&attempt), Updated::Superseded).await;
    bench.untouched(bench.release(&attempt), Updated::Superseded).await;

    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.fail(&attempt, FREE).await;
    bench.untouched(bench.complete(&attempt, b"late"), Updated::Superseded).await;
    bench.untouched(bench.fail(&attempt, FREE), Updated::Done).await;
}

/// `complete` writes a record that vanished before it, and says so; a repeat is fine.
pub async fn vanished_record_is_written_by_complete(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking_with(payloads()[0])).await;
    bench.step(LEASE + LINGER).await;
    assert_eq!(bench.get().await, None);
    assert_eq!(bench.complete(&attempt, b"answer").await, Updated::Vanished);
    let record = bench.assert_lives(RETENTION).await;
    assert_eq!((record.head.state, record.head.attempt), (State::Succeeded, attempt));
    bench.untouched(bench.complete(&attempt, b"answer"), Updated::Done).await;
    let replay = Begun::Succeeded { number: 1, value: value(b"answer") };
    assert_eq!(bench.begin(&asking()).await, replay);
    assert_eq!(bench.begin(&asking_with(payloads()[1])).await, Begun::Mismatch);
}

/// `complete` of an attempt that has lost its lease leaves a record alone that vanished.
pub async fn vanished_record_is_left_to_a_late_complete(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.step(LEASE + LINGER).await;
    for _ in 0..2 {
        let late = bench.complete_late(&attempt, b"answer", IfGone::Leave).await;
        assert_eq!(late, Updated::Gone);
        assert_eq!(bench.get().await, None);
    }
    let attempt = bench.granted(&asking()).await;
    bench.step(LEASE).await;
    let late = bench.complete_late(&attempt, b"answer", IfGone::Leave).await;
    assert_eq!(late, Updated::Done, "its own record is still there");
}

/// No other end writes a record that vanished before it.
pub async fn vanished_record_is_not_written_by_a_failure(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    bench.step(LEASE + LINGER).await;
    assert_eq!(bench.fail(&attempt, FREE).await, Updated::Vanished);
    assert_eq!(bench.fail(&attempt, Failure::Final(None)).await, Updated::Vanished);
    assert_eq!(bench.abandon(&attempt).await, Updated::Vanished);
    assert_eq!(bench.release(&attempt).await, Updated::Vanished);
    assert_eq!(bench.renew(&attempt, LEASE).await, Updated::Superseded);
    assert_eq!(bench.get().await, None);
}

/// After a failure that is not kept the next caller runs, at once and with a greater fence.
pub async fn free_failure_frees_the_key(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let first = bench.granted(&asking_with(payloads()[0])).await;
    assert_eq!(bench.fail(&first, FREE).await, Updated::Done);
    let record = bench.assert_lives(RETENTION).await;
    assert_eq!((record.head.state, record.value), (State::FailedFree, None));
    assert_eq!(record.head.attempt.fingerprint, None);
    let second = bench.granted(&asking()).await;
    assert_eq!(second.number, 2);
    assert!(second.fence > first.fence);
}

/// A first attempt whose body never started leaves no trace.
pub async fn released_first_attempt_leaves_nothing(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    assert_eq!(bench.release(&attempt).await, Updated::Done);
    assert_eq!(bench.get().await, None);
    assert_eq!(bench.release(&attempt).await, Updated::Vanished);
    assert_eq!(bench.granted(&asking()).await.number, 1);
}

/// A later attempt whose body never started keeps number and fence for the next one.
pub async fn released_later_attempt_keeps_the_fence(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let first = bench.granted(&asking()).await;
    bench.fail(&first, FREE).await;
    let second = bench.granted(&asking()).await;
    assert_eq!(bench.release(&second).await, Updated::Done);
    bench.untouched(bench.release(&second), Updated::Done).await;
    bench.assert_lives(RETENTION).await;
    let third = bench.granted(&BeginRequest { fence_seed: 1, ..asking() }).await;
    assert_eq!(third.number, 2, "the body of the attempt before never started");
    assert!(third.fence > second.fence);
}

/// Under `abandon = "retry"` the next caller runs after a drop or a panic.
pub async fn abandoned_attempt_frees_the_key(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking()).await;
    assert_eq!(bench.abandon(&attempt).await, Updated::Done);
    bench.untouched(bench.abandon(&attempt), Updated::Done).await;
    bench.assert_lives(RETENTION).await;
    assert_eq!(bench.granted(&asking()).await.number, 2);
}

/// Under `abandon = "block"` nobody runs after a drop or a panic, from the first moment on.
pub async fn abandoned_attempt_blocks_the_key(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let request = asking_to_block();
    let attempt = bench.granted(&request).await;
    assert_eq!(bench.abandon(&attempt).await, Updated::Done);
    bench.untouched(bench.abandon(&attempt), Updated::Done).await;
    for asked in [asking(), request] {
        bench.untouched(bench.begin(&asked), Begun::Indeterminate { number: 1 }).await;
    }
    bench.untouched(bench.complete(&attempt, b"late"), Updated::Superseded).await;
    let record = bench.assert_lives(LINGER).await;
    assert_eq!(record.head.state, State::Abandoned);
    bench.step(LINGER).await;
    assert_eq!(bench.granted(&asking()).await.number, 1);
}
