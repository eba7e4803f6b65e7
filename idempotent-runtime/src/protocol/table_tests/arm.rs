//! Keys that block once their body is about to start.

use super::*;

const BLOCK_LINGER: Duration = Duration::from_secs(900);

fn armed(situation: Situation) -> Living {
    let record = situation.record();
    Living {
        head: Head { attempt: record.head.attempt.armed(BLOCK_LINGER), ..record.head },
        ..record
    }
}

#[test]
fn arming_turns_a_held_key_into_one_that_blocks_and_renews_its_lease() {
    for situation in [Situation::Running, Situation::Overdue] {
        let record = situation.record().number(3).fence(9).bound_to("payload");
        let (answer, write) = arm(Some(record), &attempt(OWNER), BLOCK_LINGER);
        assert_eq!(answer, Updated::Done, "{situation:?}");
        let claim = Claim::Lease { lease: LEASE, linger: BLOCK_LINGER, abandon: Abandon::Block };
        let expected = AttemptId { claim, ..record.head.attempt };
        let head = Head { attempt: expected, state: State::Processing };
        assert_eq!(write, Write::Put { head, ttl: LEASE + BLOCK_LINGER }, "{situation:?}");
    }
}

#[test]
fn arming_again_changes_nothing_but_the_life_of_the_record() {
    let record = armed(Situation::Running);
    for sent in [attempt(OWNER), record.head.attempt] {
        // The linger that was written first stays, whatever a later copy says.
        for linger in [BLOCK_LINGER, BLOCK_LINGER * 2] {
            let (answer, write) = arm(Some(record), &sent, linger);
            assert_eq!(answer, Updated::Done);
            assert_eq!(write, Write::Extend { ttl: LEASE + BLOCK_LINGER });
            let shorter = record.left(BLOCK_LINGER + TICK);
            assert_eq!(write.on(Some(shorter)), Some(record.left(LEASE + BLOCK_LINGER)));
            let longer = record.left(LEASE * 2 + BLOCK_LINGER);
            assert_eq!(write.on(Some(longer)), Some(longer));
        }
    }
}

#[test]
fn nobody_arms_what_it_does_not_hold() {
    let lost = (Updated::Superseded, Write::Keep);
    assert_eq!(arm(None, &attempt(OWNER), BLOCK_LINGER), lost);
    for situation in SITUATIONS {
        let record = Some(situation.record());
        assert_eq!(arm(record, &attempt(STRANGER), BLOCK_LINGER), lost, "{situation:?}");
        if situation.state() != State::Processing {
            assert_eq!(arm(record, &attempt(OWNER), BLOCK_LINGER), lost, "{situation:?}");
        }
    }
}

#[test]
fn only_an_armed_key_blocks() {
    let unarmed = Situation::Overdue.record();
    assert!(matches!(begin(Some(unarmed), (), &request(STRANGER)).0, Begun::Fresh(_)));
    let armed = armed(Situation::Overdue).left(BLOCK_LINGER);
    assert_eq!(begin(Some(armed), (), &request(STRANGER)).0, Begun::Indeterminate { number: 1 });
}

#[test]
fn release_takes_an_armed_key_back() {
    let step =
        release(Some(armed(Situation::Running)), &attempt(OWNER), RETENTION, Binding::Lifted);
    assert_eq!(step, (Updated::Done, Write::Delete));
}
