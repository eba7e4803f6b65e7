//! The verbs of operators: `forget` and `resolve`.

use super::*;

#[test]
fn forget_deletes_what_nobody_holds() {
    for force in [false, true] {
        for situation in [Situation::FailedFinal, Situation::Succeeded, Situation::Taken] {
            let step = forget(Some(situation.record()), force);
            assert_eq!(step, (Forgotten::Deleted, Write::Delete), "{situation:?}");
        }
        assert_eq!(forget(None, force), (Forgotten::NotFound, Write::Keep));
    }
}

#[test]
fn forget_keeps_the_tombstone_of_a_free_key() {
    for force in [false, true] {
        let step = forget(Some(Situation::FailedFree.record()), force);
        assert_eq!(step, (Forgotten::Freed, Write::Keep));
    }
}

#[test]
fn forget_lifts_the_binding_of_a_free_key_once() {
    for force in [false, true] {
        let record = Situation::FailedFree.record().number(2).fence(9);
        let (answer, write) = forget(Some(record.bound_to("payload")), force);
        assert_eq!((answer, written(write)), (Forgotten::Freed, record));
        assert_eq!(forget(Some(record), force), (Forgotten::Freed, Write::Keep));
    }
}

#[test]
fn forget_leaves_a_held_key_alone_without_force() {
    for situation in [Situation::Running, Situation::Overdue, Situation::Abandoned] {
        let step = forget(Some(situation.record()), false);
        assert_eq!(step, (Forgotten::Held, Write::Keep), "{situation:?}");
    }
}

#[test]
fn a_forced_forget_leaves_a_tombstone_that_supersedes_the_holder() {
    for situation in [Situation::Running, Situation::Overdue, Situation::Abandoned] {
        let record = situation.record().number(2).bound_to("payload");
        let (answer, write) = forget(Some(record), true);
        assert_eq!(answer, Forgotten::Freed, "{situation:?}");
        let tombstone = written(write);
        assert_eq!((tombstone.head.state, tombstone.ttl), (State::FailedFree, record.ttl));
        assert_eq!(tombstone.head.attempt.fingerprint, None);
        let late = complete(Some(tombstone), &attempt(OWNER), RETENTION, IfGone::Rewrite);
        assert_eq!(late, (Updated::Superseded, Write::Keep), "{situation:?}");
        let next = begin(Some(tombstone), (), &request(STRANGER)).0;
        assert!(matches!(next, Begun::Fresh(AttemptId { number: 3, fence: 1_001, .. })));
    }
}

#[test]
fn resolve_ends_only_an_attempt_whose_outcome_is_unknown() {
    let resolutions = [
        (Resolution::Succeeded(None::<()>), State::Succeeded),
        (Resolution::Retry, State::FailedFree),
    ];
    for (resolution, state) in resolutions {
        for situation in SITUATIONS {
            let record = situation.record().block().bound_to("payload");
            let step = resolve(Some(record), &resolution, RETENTION);
            let mut resolved = record;
            if state == State::Succeeded {
                // The answer is the operator's: the lost attempt has no part in it.
                resolved.head.attempt.token = Token::NOBODY;
            }
            let expected = match situation {
                Situation::Overdue | Situation::Abandoned => {
                    (Resolved::Done, Then::Becomes(state, RETENTION).write(&resolved))
                }
                _ => (Resolved::NotIndeterminate(situation.state()), Write::Keep),
            };
            assert_eq!(step, expected, "{situation:?}");
        }
        assert_eq!(resolve(None, &resolution, RETENTION), (Resolved::NotFound, Write::Keep));
    }
}

#[test]
fn a_lease_is_known_to_be_over_exactly_at_its_end() {
    let retry = Resolution::<()>::Retry;
    let record = Situation::Running.record();
    let alive = resolve(Some(record.left(LINGER + TICK)), &retry, RETENTION);
    assert_eq!(alive.0, Resolved::NotIndeterminate(State::Processing));
    assert_eq!(resolve(Some(record.left(LINGER)), &retry, RETENTION).0, Resolved::Done);
}

#[test]
fn a_key_resolved_to_be_retried_is_free_and_supersedes_the_lost_attempt() {
    let record = Situation::Abandoned.record().block();
    let freed = written(resolve(Some(record), &Resolution::<()>::Retry, RETENTION).1);
    assert_eq!(
        complete(Some(freed), &attempt(OWNER), RETENTION, IfGone::Rewrite).0,
        Updated::Superseded
    );
    let next = begin(Some(freed), (), &request(STRANGER)).0;
    assert!(matches!(next, Begun::Fresh(AttemptId { number: 2, .. })));
}
