//! `begin`, row by row.

use super::*;

fn begin_on(record: Living, request: &BeginRequest) -> Step<Begun<()>> {
    begin(Some(record), (), request)
}

fn answer(record: Living, request: &BeginRequest) -> Begun<()> {
    let (answer, write) = begin_on(record, request);
    assert_eq!(write, Write::Keep, "the record is untouched by {answer:?}");
    answer
}

fn granted(step: Step<Begun<()>>) -> (AttemptId, Living) {
    let (Begun::Fresh(attempt), write) = step else { panic!("not granted: {step:?}") };
    let record = written(write);
    assert_eq!(record.head.attempt, attempt);
    (attempt, record)
}

#[test]
fn without_a_record_the_first_attempt_is_granted() {
    let request = request_for(OWNER, "payload");
    let (attempt, record) = granted(begin(None, (), &request));
    assert_eq!(attempt.token, token(OWNER));
    assert_eq!((attempt.number, attempt.fence), (1, request.fence_seed));
    assert_eq!(attempt.fingerprint, request.fingerprint);
    let head = Head { attempt, state: State::Processing };
    assert_eq!(attempt.claim, lease(Abandon::Retry));
    assert_eq!(record, Living { head, ttl: LEASE + LINGER });
}

#[test]
fn the_record_keeps_the_policy_it_was_begun_with() {
    let request = BeginRequest { claim: lease(Abandon::Block), ..request(OWNER) };
    let (_, record) = granted(begin(None, (), &request));
    assert_eq!(record.head.attempt.claim, lease(Abandon::Block));
}

#[test]
fn a_window_without_a_record_is_taken_for_its_whole_length() {
    let (attempt, record) = granted(begin(None, (), &window(OWNER)));
    assert_eq!((attempt.number, attempt.fence), (1, 500));
    assert_eq!((record.head.state, record.ttl), (State::Taken, RETENTION));
}

#[test]
fn a_begin_whose_reply_was_lost_gets_the_same_attempt() {
    for situation in [Situation::Running, Situation::Overdue] {
        let record = situation.record().number(3).fence(77).bound_to("payload");
        let repeated = request_for(OWNER, "payload");
        assert_eq!(answer(record, &repeated), Begun::Fresh(record.head.attempt));
    }
}

#[test]
fn a_window_whose_reply_was_lost_gets_the_same_attempt() {
    let record = Situation::Taken.record();
    assert_eq!(answer(record, &window(OWNER)), Begun::Fresh(record.head.attempt));
}

#[test]
fn another_payload_is_a_mismatch_while_the_record_binds_one() {
    for situation in SITUATIONS {
        let record = situation.record().bound_to("one");
        let (answer, write) = begin_on(record, &request_for(STRANGER, "two"));
        match situation {
            Situation::Running
            | Situation::Overdue
            | Situation::Abandoned
            | Situation::FailedFree
            | Situation::FailedFinal
            | Situation::Succeeded => {
                assert_eq!((answer, write), (Begun::Mismatch, Write::Keep), "{situation:?}");
            }
            Situation::Taken => assert_ne!(answer, Begun::Mismatch, "{situation:?}"),
        }
    }
}

#[test]
fn a_payload_matters_only_if_both_sides_have_one() {
    for situation in SITUATIONS {
        let bound = begin_on(situation.record().bound_to("one"), &request(STRANGER)).0;
        assert_ne!(bound, Begun::Mismatch, "{situation:?}, the asker has none");
        let free = begin_on(situation.record(), &request_for(STRANGER, "one")).0;
        assert_ne!(free, Begun::Mismatch, "{situation:?}, the record has none");
        let record = situation.record().bound_to("one");
        let same = begin_on(record, &request_for(STRANGER, "one")).0;
        assert_ne!(same, Begun::Mismatch, "{situation:?}, both have the same");
    }
}

#[test]
fn a_living_lease_keeps_others_away() {
    for record in [Situation::Running.record(), Situation::Running.record().block()] {
        let in_flight = Begun::InFlight { number: 1, retry_after: LEASE };
        assert_eq!(answer(record, &request(STRANGER)), in_flight);
        let nearly_over = record.left(LINGER + TICK);
        let in_flight = Begun::InFlight { number: 1, retry_after: TICK };
        assert_eq!(answer(nearly_over, &request(STRANGER)), in_flight);
    }
}

#[test]
fn retry_after_is_never_longer_than_a_lease() {
    let renewed_for_long = Situation::Running.record().left(LINGER + LEASE * 10);
    let in_flight = Begun::InFlight { number: 1, retry_after: LEASE };
    assert_eq!(answer(renewed_for_long, &request(STRANGER)), in_flight);
}

#[test]
fn the_lease_that_counts_is_the_one_in_the_record() {
    let claim = Claim::Lease { lease: TICK, linger: TICK, abandon: Abandon::Retry };
    let hasty = BeginRequest { claim, ..request(STRANGER) };
    let in_flight = Begun::InFlight { number: 1, retry_after: LEASE };
    assert_eq!(answer(Situation::Running.record(), &hasty), in_flight);
}

#[test]
fn at_the_end_of_its_lease_the_key_is_taken_over() {
    let record = Situation::Running.record().left(LINGER);
    let (attempt, taken) = granted(begin_on(record, &request(STRANGER)));
    assert_eq!((attempt.token, attempt.number), (token(STRANGER), 2));
    assert_eq!((taken.head.state, taken.ttl), (State::Processing, LEASE + LINGER));
}

#[test]
fn later_fences_exceed_both_the_earlier_one_and_the_seed() {
    for (earlier, seed, fence) in [(1_000, 500, 1_001), (400, 500, 500), (500, 500, 501)] {
        for situation in [Situation::Overdue, Situation::FailedFree] {
            let asked = BeginRequest { fence_seed: seed, ..request(STRANGER) };
            let (attempt, _) = granted(begin_on(situation.record().fence(earlier), &asked));
            assert_eq!(attempt.fence, fence, "{situation:?} after {earlier}, seed {seed}");
        }
    }
}

#[test]
fn numbers_and_fences_stop_at_their_largest_value() {
    let record = Situation::FailedFree.record().number(u32::MAX).fence(u64::MAX);
    let (attempt, _) = granted(begin_on(record, &request(STRANGER)));
    assert_eq!((attempt.number, attempt.fence), (u32::MAX, u64::MAX));
}

#[test]
fn a_blocked_key_is_not_taken_over_when_its_lease_ends() {
    let record = Situation::Overdue.record().block().number(4);
    assert_eq!(answer(record, &request(STRANGER)), Begun::Indeterminate { number: 4 });
    let last_moment = record.left(TICK);
    assert_eq!(answer(last_moment, &request(STRANGER)), Begun::Indeterminate { number: 4 });
}

#[test]
fn the_policy_that_counts_is_the_one_in_the_record() {
    let blocking = BeginRequest { claim: lease(Abandon::Block), ..request(STRANGER) };
    granted(begin_on(Situation::Overdue.record(), &blocking));
    let record = Situation::Overdue.record().block();
    assert_eq!(answer(record, &request(STRANGER)), Begun::Indeterminate { number: 1 });
}

#[test]
fn an_abandoned_key_is_indeterminate_for_everybody() {
    let record = Situation::Abandoned.record().block().number(2);
    for asker in [OWNER, STRANGER] {
        assert_eq!(answer(record, &request(asker)), Begun::Indeterminate { number: 2 });
    }
}

#[test]
fn a_failed_key_is_free_for_the_next_attempt_with_any_payload() {
    let record = Situation::FailedFree.record().number(2);
    for asked in [request(STRANGER), request_for(STRANGER, "two")] {
        let (attempt, taken) = granted(begin_on(record, &asked));
        assert_eq!((attempt.number, attempt.fingerprint), (3, asked.fingerprint));
        assert_eq!((taken.head.state, taken.ttl), (State::Processing, LEASE + LINGER));
    }
}

#[test]
fn a_failed_key_that_is_bound_is_free_for_the_same_payload_and_for_none() {
    let record = Situation::FailedFree.record().number(2).bound_to("one");
    for asked in [request(STRANGER), request_for(STRANGER, "one")] {
        let (attempt, taken) = granted(begin_on(record, &asked));
        assert_eq!((attempt.number, attempt.fingerprint), (3, asked.fingerprint));
        assert_eq!((taken.head.state, taken.ttl), (State::Processing, LEASE + LINGER));
    }
    let window =
        BeginRequest { fingerprint: request_for(STRANGER, "two").fingerprint, ..window(STRANGER) };
    for asked in [request_for(STRANGER, "two"), window] {
        assert_eq!(answer(record, &asked), Begun::Mismatch);
    }
}

#[test]
fn a_failed_key_is_not_free_for_the_token_that_failed() {
    assert_eq!(answer(Situation::FailedFree.record(), &request(OWNER)), Begun::Superseded);
    assert_eq!(answer(Situation::FailedFree.record(), &window(OWNER)), Begun::Superseded);
    let bound = Situation::FailedFree.record().bound_to("one");
    assert_eq!(answer(bound, &request_for(OWNER, "one")), Begun::Superseded);
}

#[test]
fn a_stored_answer_is_replayed_to_everybody() {
    for asker in [OWNER, STRANGER] {
        let succeeded = answer(Situation::Succeeded.record().number(2), &request(asker));
        assert_eq!(succeeded, Begun::Succeeded { number: 2, value: () });
        let failed = answer(Situation::FailedFinal.record().number(3), &request(asker));
        assert_eq!(failed, Begun::FailedFinal { number: 3, value: () });
    }
}

#[test]
fn a_taken_window_stays_taken_until_it_ends() {
    let record = Situation::Taken.record().left(TICK);
    for asked in [request(STRANGER), window(STRANGER), request_for(STRANGER, "other")] {
        assert_eq!(answer(record, &asked), Begun::Taken { retry_after: TICK });
    }
}

#[test]
fn a_window_meets_the_records_of_other_modes_by_the_same_rules() {
    let ask = |situation: Situation| begin_on(situation.record(), &window(STRANGER));
    assert!(matches!(ask(Situation::Running).0, Begun::InFlight { .. }));
    assert!(matches!(ask(Situation::Succeeded).0, Begun::Succeeded { .. }));
    for situation in [Situation::Overdue, Situation::FailedFree] {
        let (attempt, taken) = granted(ask(situation));
        assert_eq!((attempt.number, attempt.fence), (2, 1_001));
        assert_eq!((taken.head.state, taken.ttl), (State::Taken, RETENTION));
    }
}

#[test]
fn an_endless_lease_does_not_overflow() {
    let claim = Claim::Lease { lease: Duration::MAX, linger: LINGER, abandon: Abandon::Retry };
    let (_, record) = granted(begin(None, (), &BeginRequest { claim, ..request(OWNER) }));
    assert_eq!(record.ttl, Duration::MAX);
    let (answer, write) = renew(Some(record), &attempt(OWNER), Duration::MAX);
    assert_eq!((answer, write.on(Some(record))), (Updated::Done, Some(record)));
}
