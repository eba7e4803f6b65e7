//! The payload that may follow an attempt that ended without an answer.

use super::Subject;
use super::bench::{Bench, LEASE, LINGER, RETENTION, asking, asking_to_block, asking_with};
use crate::protocol::{
    BeginRequest, Begun, Binding, Failure, Forgotten, Resolution, Resolved, Updated,
};
use crate::store::{AttemptId, State};
use crate::testing::model::payloads;

/// A verb that leaves a key free.
#[derive(Clone, Copy, Debug)]
enum Way {
    Fail,
    Abandon,
    /// Of the second attempt: a first one leaves nothing.
    Release,
}

const WAYS: [Way; 3] = [Way::Fail, Way::Abandon, Way::Release];

impl Way {
    async fn send(self, bench: &Bench<'_>, attempt: &AttemptId, binding: Binding) -> Updated {
        match self {
            Self::Fail => bench.fail(attempt, Failure::Free(binding)).await,
            Self::Abandon => bench.abandon_with(attempt, binding).await,
            Self::Release => bench.release_with(attempt, binding).await,
        }
    }

    /// Brings a key to where an attempt with the first payload has ended this way. Returns its request,
    /// and the attempt as the record keeps it.
    async fn end(self, bench: &Bench<'_>, binding: Binding) -> (BeginRequest, AttemptId) {
        let mut request = asking_with(payloads()[0]);
        let mut attempt = bench.granted(&request).await;
        if matches!(self, Self::Release) {
            assert_eq!(bench.fail(&attempt, Failure::Free(binding)).await, Updated::Done);
            request = asking_with(payloads()[0]);
            attempt = bench.granted(&request).await;
        }
        assert_eq!(self.send(bench, &attempt, binding).await, Updated::Done, "{self:?}");
        if matches!(self, Self::Release) {
            attempt.number -= 1;
        }
        (request, attempt)
    }
}

/// However an attempt ends without an answer, its key is free for any payload if the binding is
/// lifted.
pub async fn lifted_binding_lets_another_payload_follow(subject: &dyn Subject) {
    for way in WAYS {
        let bench = Bench::new(subject);
        let (_, ended) = way.end(&bench, Binding::Lifted).await;
        let record = bench.assert_lives(RETENTION).await;
        assert_eq!(record.head.attempt, AttemptId { fingerprint: None, ..ended }, "{way:?}");
        let two = payloads()[1];
        let next = bench.granted(&asking_with(two)).await;
        assert_eq!((next.number, next.fingerprint), (ended.number + 1, Some(two)), "{way:?}");
    }
}

/// However an attempt ends without an answer, its key takes no other payload if the binding is kept,
/// to the end of the record.
pub async fn kept_binding_lets_no_other_payload_follow(subject: &dyn Subject) {
    let [_, two] = payloads();
    for way in WAYS {
        let bench = Bench::new(subject);
        let (request, ended) = way.end(&bench, Binding::Kept).await;
        let record = bench.assert_lives(RETENTION).await;
        assert_eq!(record.head.state, State::FailedFree, "{way:?}");
        assert_eq!(record.head.attempt, ended, "{way:?}: the whole attempt is kept");
        for asked in
            [asking_with(two), BeginRequest { claim: asking_to_block().claim, ..asking_with(two) }]
        {
            bench.untouched(bench.begin(&asked), Begun::Mismatch).await;
        }
        bench.untouched(bench.begin(&request), Begun::Superseded).await;
        bench.untouched(bench.complete(&ended, b"late"), Updated::Superseded).await;
        bench.step_to_just_before(RETENTION).await;
        assert_eq!(bench.begin(&asking_with(two)).await, Begun::Mismatch, "{way:?}");
        bench.step_to_the_end().await;
        assert_eq!(bench.granted(&asking_with(two)).await.number, 1, "{way:?}");
    }
}

/// A key that stays bound is free at once for the same payload, and for a caller without one.
pub async fn kept_binding_lets_the_same_payload_follow(subject: &dyn Subject) {
    let [one, two] = payloads();
    for way in WAYS {
        for asked in [asking_with(one), asking()] {
            let bench = Bench::new(subject);
            let (_, ended) = way.end(&bench, Binding::Kept).await;
            let next = bench.granted(&asked).await;
            assert_eq!((next.number, next.fingerprint), (ended.number + 1, asked.fingerprint));
            assert!(next.fence > ended.fence, "{way:?}");
            bench.assert_lives(LEASE + LINGER).await;
        }
        // A caller without a payload takes the key over for nobody's payload.
        let bench = Bench::new(subject);
        way.end(&bench, Binding::Kept).await;
        let unbound = bench.granted(&asking()).await;
        assert_eq!(way.send(&bench, &unbound, Binding::Kept).await, Updated::Done, "{way:?}");
        assert_eq!(bench.granted(&asking_with(two)).await.fingerprint, Some(two), "{way:?}");
    }
}

/// The first end counts, as it does for all else: a repeat neither binds a key nor frees it.
pub async fn repeated_end_does_not_change_the_binding(subject: &dyn Subject) {
    for way in WAYS {
        for (first, second) in [(Binding::Lifted, Binding::Kept), (Binding::Kept, Binding::Lifted)]
        {
            let bench = Bench::new(subject);
            let (_, ended) = way.end(&bench, first).await;
            bench.untouched(way.send(&bench, &ended, second), Updated::Done).await;
        }
    }
}

/// A first attempt whose body never started binds nobody: there is no record.
pub async fn released_first_attempt_binds_nobody(subject: &dyn Subject) {
    let [one, two] = payloads();
    let bench = Bench::new(subject);
    let attempt = bench.granted(&asking_with(one)).await;
    assert_eq!(bench.release_with(&attempt, Binding::Kept).await, Updated::Done);
    assert_eq!(bench.get().await, None);
    assert_eq!(bench.granted(&asking_with(two)).await.number, 1);
}

/// `forget` lifts the binding of a free key, with and without force. The record stays.
pub async fn forget_lifts_the_binding_of_a_free_key(subject: &dyn Subject) {
    let [_, two] = payloads();
    for force in [false, true] {
        for way in WAYS {
            let bench = Bench::new(subject);
            let (_, ended) = way.end(&bench, Binding::Kept).await;
            assert_eq!(bench.forget(force).await, Forgotten::Freed, "{way:?}");
            let record = bench.assert_lives(RETENTION).await;
            assert_eq!(record.head.attempt, AttemptId { fingerprint: None, ..ended }, "{way:?}");
            bench.untouched(bench.forget(force), Forgotten::Freed).await;
            bench.untouched(bench.complete(&ended, b"late"), Updated::Superseded).await;
            let next = bench.granted(&asking_with(two)).await;
            assert_eq!(next.number, ended.number + 1, "{way:?}");
        }
    }
}

/// A held key that an operator freed takes any payload, whatever its lost attempt says afterwards.
pub async fn late_end_does_not_bind_a_freed_key(subject: &dyn Subject) {
    let [one, two] = payloads();
    for way in WAYS {
        let bench = Bench::new(subject);
        let lost = bench.granted(&asking_with(one)).await;
        assert_eq!(bench.forget(true).await, Forgotten::Freed);
        bench.untouched(way.send(&bench, &lost, Binding::Kept), Updated::Done).await;
        assert_eq!(bench.granted(&asking_with(two)).await.number, 2, "{way:?}");
    }
}

/// An unknown outcome binds its payload; one that was resolved to be retried does not.
pub async fn resolved_key_is_bound_to_no_payload(subject: &dyn Subject) {
    let [one, two] = payloads();
    let bench = Bench::new(subject);
    let blocking = BeginRequest { claim: asking_to_block().claim, ..asking_with(one) };
    let lost = bench.granted(&blocking).await;
    assert_eq!(bench.abandon_with(&lost, Binding::Kept).await, Updated::Done);
    bench.untouched(bench.begin(&asking_with(two)), Begun::Mismatch).await;
    assert_eq!(bench.resolve(Resolution::Retry).await, Resolved::Done);
    assert_eq!(bench.granted(&asking_with(two)).await.number, 2);
}
