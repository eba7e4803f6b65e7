//! Ends of attempts: every verb in every situation, by the owner and by a stranger.

use super::*;
use Then::{Becomes, Gone, Kept, LivesFor, Released, StaysBound};

/// An error that is not kept, after which any payload may follow.
const FREE: Failure = Failure::Free(Binding::Lifted);

#[test]
fn complete_ends_a_running_attempt_once() {
    check_rows(
        |record| record.bound_to("payload"),
        |record, attempt| complete(record, attempt, RETENTION, IfGone::Rewrite),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, Becomes(State::Succeeded, RETENTION)),
            (Situation::Overdue, Updated::Done, Becomes(State::Succeeded, RETENTION)),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Superseded, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Done, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
}

#[test]
fn complete_writes_a_vanished_record_again() {
    let mut attempt = attempt(OWNER);
    (attempt.number, attempt.fingerprint) = (3, Some(Fingerprint::of("payload")));
    let (answer, write) = complete(None, &attempt, RETENTION, IfGone::Rewrite);
    assert_eq!(answer, Updated::Vanished);
    let record = written(write);
    assert_eq!((record.head.state, record.ttl), (State::Succeeded, RETENTION));
    assert_eq!(record.head.attempt, attempt);
    let repeated = complete(Some(record), &attempt, RETENTION, IfGone::Rewrite);
    assert_eq!(repeated, (Updated::Done, Write::Keep));
}

#[test]
fn complete_leaves_a_vanished_record_alone_once_its_lease_is_lost() {
    let step = complete(None, &attempt(OWNER), RETENTION, IfGone::Leave);
    assert_eq!(step, (Updated::Gone, Write::Keep));
    for situation in SITUATIONS {
        let record = Some(situation.record());
        let late = complete(record, &attempt(OWNER), RETENTION, IfGone::Leave);
        let in_time = complete(record, &attempt(OWNER), RETENTION, IfGone::Rewrite);
        assert_eq!(late, in_time, "{situation:?}: a record that is there is treated alike");
    }
}

#[test]
fn a_free_failure_frees_a_running_attempt_once() {
    check_rows(
        |record| record.number(2).bound_to("payload"),
        |record, attempt| fail(record, attempt, &FREE, RETENTION),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, Becomes(State::FailedFree, RETENTION)),
            (Situation::Overdue, Updated::Done, Becomes(State::FailedFree, RETENTION)),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Done, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
}

#[test]
fn a_free_failure_keeps_number_fence_and_token_but_binds_no_payload() {
    let record = Situation::Running.record().number(3).fence(9).bound_to("payload");
    let freed = written(fail(Some(record), &attempt(OWNER), &FREE, RETENTION).1);
    let kept = AttemptId { number: 3, fence: 9, ..attempt(OWNER) };
    assert_eq!(freed.head.attempt, kept);
}

/// Checks a verb that frees a key on held records, with the binding kept.
fn check_kept_binding(verb: impl Fn(Option<Living>, &AttemptId) -> Step<Updated>) {
    check_rows(
        |record| record.number(2).bound_to("payload"),
        verb,
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, StaysBound(RETENTION)),
            (Situation::Overdue, Updated::Done, StaysBound(RETENTION)),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Done, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
}

#[test]
fn a_free_failure_that_keeps_the_binding_keeps_the_payload() {
    let kept = Failure::Free(Binding::Kept);
    check_kept_binding(|record, attempt| fail(record, attempt, &kept, RETENTION));
}

#[test]
fn an_abandoned_attempt_that_keeps_the_binding_keeps_the_payload() {
    check_kept_binding(|record, attempt| abandon(record, attempt, RETENTION, Binding::Kept));
}

#[test]
fn a_first_attempt_that_is_released_leaves_nothing_that_could_be_bound() {
    for situation in [Situation::Running, Situation::Overdue, Situation::Taken] {
        let record = situation.record().bound_to("payload");
        let step = release(Some(record), &attempt(OWNER), RETENTION, Binding::Kept);
        assert_eq!(step, (Updated::Done, Write::Delete), "{situation:?}");
    }
}

#[test]
fn the_payload_that_stays_bound_is_the_one_in_the_record() {
    let other = AttemptId { fingerprint: Some(Fingerprint::of("other")), ..attempt(OWNER) };
    let record = Situation::Running.record().number(2);
    for (record, bound) in [(record.bound_to("payload"), Some("payload")), (record, None)] {
        let bound = bound.map(Fingerprint::of);
        let failed = fail(Some(record), &other, &Failure::Free(Binding::Kept), RETENTION);
        let abandoned = abandon(Some(record), &other, RETENTION, Binding::Kept);
        let released = release(Some(record), &other, RETENTION, Binding::Kept);
        for (_, write) in [failed, abandoned, released] {
            assert_eq!(written(write).head.attempt.fingerprint, bound);
        }
    }
}

#[test]
fn a_final_failure_ends_a_running_attempt_once() {
    for error in [None, Some(b"error".as_slice().into())] {
        check_rows(
            |record| record.bound_to("payload"),
            |record, attempt| fail(record, attempt, &Failure::Final(error.clone()), RETENTION),
            Updated::Superseded,
            [
                (Situation::Running, Updated::Done, Becomes(State::FailedFinal, RETENTION)),
                (Situation::Overdue, Updated::Done, Becomes(State::FailedFinal, RETENTION)),
                (Situation::Abandoned, Updated::Superseded, Kept),
                (Situation::FailedFree, Updated::Superseded, Kept),
                (Situation::FailedFinal, Updated::Done, Kept),
                (Situation::Succeeded, Updated::Superseded, Kept),
                (Situation::Taken, Updated::Superseded, Kept),
            ],
        );
    }
}

#[test]
fn abandon_frees_the_key_under_retry() {
    check_rows(
        |record| record.bound_to("payload"),
        |record, attempt| abandon(record, attempt, RETENTION, Binding::Lifted),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, Becomes(State::FailedFree, RETENTION)),
            (Situation::Overdue, Updated::Done, Becomes(State::FailedFree, RETENTION)),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Done, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
}

#[test]
fn abandon_leaves_the_outcome_unknown_under_block() {
    check_rows(
        |record| record.block().bound_to("payload"),
        |record, attempt| abandon(record, attempt, RETENTION, Binding::Lifted),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, Becomes(State::Abandoned, LINGER)),
            (Situation::Overdue, Updated::Done, Becomes(State::Abandoned, LINGER)),
            (Situation::Abandoned, Updated::Done, Kept),
            (Situation::FailedFree, Updated::Superseded, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
}

#[test]
fn releasing_the_first_attempt_leaves_nothing() {
    check_rows(
        unchanged,
        |record, attempt| release(record, attempt, RETENTION, Binding::Lifted),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, Gone),
            (Situation::Overdue, Updated::Done, Gone),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Done, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Done, Gone),
        ],
    );
}

#[test]
fn releasing_a_later_attempt_gives_its_number_back_and_keeps_the_fence() {
    for binding in [Binding::Lifted, Binding::Kept] {
        check_rows(
            |record| record.number(2).bound_to("payload"),
            |record, attempt| release(record, attempt, RETENTION, binding),
            Updated::Superseded,
            [
                (Situation::Running, Updated::Done, Released(binding, RETENTION)),
                (Situation::Overdue, Updated::Done, Released(binding, RETENTION)),
                (Situation::Abandoned, Updated::Superseded, Kept),
                (Situation::FailedFree, Updated::Done, Kept),
                (Situation::FailedFinal, Updated::Superseded, Kept),
                (Situation::Succeeded, Updated::Superseded, Kept),
                (Situation::Taken, Updated::Done, Released(binding, RETENTION)),
            ],
        );
    }
}

#[test]
fn the_number_that_counts_for_a_release_is_the_one_in_the_record() {
    let late = AttemptId { number: 7, ..attempt(OWNER) };
    let step = release(Some(Situation::Running.record()), &late, RETENTION, Binding::Kept);
    assert_eq!(step, (Updated::Done, Write::Delete));
}

#[test]
fn a_vanished_record_is_not_written_by_a_failure() {
    let (none, attempt) = (None, attempt(OWNER));
    let vanished = (Updated::Vanished, Write::Keep);
    assert_eq!(fail(none, &attempt, &FREE, RETENTION), vanished);
    assert_eq!(fail(none, &attempt, &Failure::Final(None), RETENTION), vanished);
    assert_eq!(abandon(none, &attempt, RETENTION, Binding::Kept), vanished);
    assert_eq!(release(none, &attempt, RETENTION, Binding::Kept), vanished);
}

#[test]
fn verbs_compare_by_token_alone() {
    let other = AttemptId { number: 9, fence: 1, fingerprint: None, ..attempt(OWNER) };
    let record = Some(Situation::Running.record().bound_to("payload"));
    assert_eq!(complete(record, &other, RETENTION, IfGone::Rewrite).0, Updated::Done);
    assert_eq!(fail(record, &other, &FREE, RETENTION).0, Updated::Done);
    assert_eq!(renew(record, &other, LEASE).0, Updated::Done);
}

#[test]
fn renew_extends_only_a_running_attempt_of_its_own() {
    let longer = LEASE * 2;
    check_rows(
        |record| record.bound_to("payload"),
        |record, attempt| renew(record, attempt, longer),
        Updated::Superseded,
        [
            (Situation::Running, Updated::Done, LivesFor(LINGER + longer)),
            (Situation::Overdue, Updated::Done, LivesFor(LINGER + longer)),
            (Situation::Abandoned, Updated::Superseded, Kept),
            (Situation::FailedFree, Updated::Superseded, Kept),
            (Situation::FailedFinal, Updated::Superseded, Kept),
            (Situation::Succeeded, Updated::Superseded, Kept),
            (Situation::Taken, Updated::Superseded, Kept),
        ],
    );
    assert_eq!(renew(None, &attempt(OWNER), LEASE), (Updated::Superseded, Write::Keep));
}

#[test]
fn renew_never_shortens() {
    let record = Situation::Running.record();
    for lease in [LEASE, LEASE - TICK, Duration::ZERO] {
        let (answer, write) = renew(Some(record), &attempt(OWNER), lease);
        assert_eq!((answer, write.on(Some(record))), (Updated::Done, Some(record)), "{lease:?}");
    }
}
