use super::*;
use crate::store::{Claim, Token};

fn key() -> RecordKey {
    RecordKey::from("k")
}

fn sent(fingerprint: Option<Fingerprint>) -> Sent {
    let claim = Claim::Window { window: Duration::from_secs(1) };
    let request = BeginRequest { token: Token::random(), fingerprint, fence_seed: 1, claim };
    Sent {
        request,
        retention: Duration::from_secs(1),
        binding: Binding::Lifted,
        at: Moment::from_nanos(1),
        unanswered: false,
        begin: None,
    }
}

#[test]
fn one_sits_and_the_others_wait() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    assert!(matches!(first.turn(None, Waits::Yes), Turn::Sit(None)));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
    assert!(matches!(second.turn(None, Waits::No), Turn::Wait));
}

#[test]
fn the_token_passes_on_with_the_seat() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    first.turn(None, Waits::Yes);
    let token = sent(None);
    let mark = token.request.token;
    first.vacate(Some(token));
    assert!(slots.leave(&key(), &first).is_none());
    match second.turn(None, Waits::Yes) {
        Turn::Sit(Some(sent)) => assert_eq!(sent.request.token, mark),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_one_to_leave_takes_the_token_along() {
    let slots = Slots::new();
    let only = slots.join(&key());
    only.turn(None, Waits::Yes);
    only.vacate(Some(sent(None)));
    assert!(slots.leave(&key(), &only).is_some());
    assert_eq!(slots.len(), 0);
}

#[test]
fn whoever_does_not_wait_is_told_as_soon_as_the_body_runs() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    first.turn(None, Waits::Yes);
    first.running(None, Duration::from_secs(3));
    assert!(matches!(second.turn(None, Waits::No), Turn::InFlight(left) if left.as_secs() == 3));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
}

#[test]
fn what_one_was_told_does_not_outlive_its_seat() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    first.turn(None, Waits::Yes);
    first.in_flight_elsewhere(1, Duration::from_secs(3));
    assert!(matches!(second.turn(None, Waits::No), Turn::InFlight(_)));
    first.vacate(None);
    let third = slots.join(&key());
    assert!(matches!(second.turn(None, Waits::No), Turn::Sit(None)));
    assert!(matches!(third.turn(None, Waits::No), Turn::Wait));
}

#[test]
fn another_payload_is_told_apart_while_the_body_runs() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
    first.turn(Some(one), Waits::Yes);
    first.running(Some(one), Duration::from_secs(3));
    assert!(matches!(second.turn(Some(two), Waits::Yes), Turn::Mismatch));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
}

#[test]
fn an_answer_is_shared_only_with_the_same_payload() {
    let slots = Slots::new();
    let (first, second) = (slots.join(&key()), slots.join(&key()));
    let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
    first.turn(Some(one), Waits::Yes);
    let answer = Shared::Succeeded { number: 1, value: None };
    slots.settle(&key(), &first, Some(one), answer);
    let share = |fingerprint| second.turn(fingerprint, Waits::Yes);
    assert!(matches!(share(None), Turn::Share(Shared::Succeeded { .. })));
    assert!(matches!(share(Some(one)), Turn::Share(Shared::Succeeded { .. })));
    assert!(matches!(share(Some(two)), Turn::Share(Shared::Again)));
}

#[test]
fn who_comes_after_the_end_meets_in_another_slot() {
    let slots = Slots::new();
    let first = slots.join(&key());
    first.turn(None, Waits::Yes);
    slots.settle(&key(), &first, None, Shared::Again);
    let second = slots.join(&key());
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Sit(None)));
    slots.leave(&key(), &first);
    assert_eq!(slots.len(), 1);
    slots.leave(&key(), &second);
    assert_eq!(slots.len(), 0);
}
