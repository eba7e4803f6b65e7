use super::*;
use crate::clock::Moment;
use crate::engine::attempt::Copies;
use crate::protocol::{BeginRequest, Binding};
use crate::store::{Claim, Token};

fn key() -> RecordKey {
    RecordKey::from("k")
}

fn begin(fingerprint: Option<Fingerprint>) -> PendingBegin {
    let claim = Claim::Window { window: Duration::from_secs(1) };
    let request = BeginRequest { token: Token::random(), fingerprint, fence_seed: 1, claim };
    PendingBegin {
        request,
        retention: Duration::from_secs(1),
        binding: Binding::Lifted,
        at: Moment::from_nanos(1),
        copies: Copies::Answered,
        begin: None,
    }
}

#[test]
fn one_leads_and_the_others_wait() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    assert!(matches!(first.turn(None, Waits::Yes), Turn::Lead(None)));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
    assert!(matches!(second.turn(None, Waits::No), Turn::Wait));
}

#[test]
fn the_token_passes_on_with_the_lead() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    first.turn(None, Waits::Yes);
    let token = begin(None);
    let mark = token.request.token;
    first.step_down(Some(token));
    assert!(flights.leave(&first).is_none());
    match second.turn(None, Waits::Yes) {
        Turn::Lead(Some(begin)) => assert_eq!(begin.request.token, mark),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_one_to_leave_takes_the_token_along() {
    let flights = Flights::new();
    let only = flights.join(&key());
    only.turn(None, Waits::Yes);
    only.step_down(Some(begin(None)));
    assert!(flights.leave(&only).is_some());
    assert_eq!(flights.len(), 0);
}

#[test]
fn whoever_does_not_wait_is_told_as_soon_as_the_body_runs() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    first.turn(None, Waits::Yes);
    first.running(None, Duration::from_secs(3));
    assert!(matches!(second.turn(None, Waits::No), Turn::InFlight(left) if left.as_secs() == 3));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
}

#[test]
fn what_a_leader_was_told_does_not_outlive_its_lead() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    first.turn(None, Waits::Yes);
    first.in_flight_elsewhere(1, Duration::from_secs(3));
    assert!(matches!(second.turn(None, Waits::No), Turn::InFlight(_)));
    first.step_down(None);
    let third = flights.join(&key());
    assert!(matches!(second.turn(None, Waits::No), Turn::Lead(None)));
    assert!(matches!(third.turn(None, Waits::No), Turn::Wait));
}

#[test]
fn another_payload_is_told_apart_while_the_body_runs() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
    first.turn(Some(one), Waits::Yes);
    first.running(Some(one), Duration::from_secs(3));
    assert!(matches!(second.turn(Some(two), Waits::Yes), Turn::Mismatch));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait));
}

#[test]
fn an_answer_is_shared_only_with_the_same_payload() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
    first.turn(Some(one), Waits::Yes);
    let found = Some(NotGranted::Succeeded { number: 1, value: None });
    flights.land(&first, Landing { fingerprint: Some(one), found, failed: None });
    let share = |fingerprint| second.turn(fingerprint, Waits::Yes);
    assert!(matches!(share(None), Turn::Landed(Some(NotGranted::Succeeded { .. }))));
    assert!(matches!(share(Some(one)), Turn::Landed(Some(NotGranted::Succeeded { .. }))));
    assert!(matches!(share(Some(two)), Turn::Landed(None)));
}

#[test]
fn who_comes_after_the_end_meets_in_another_flight() {
    let flights = Flights::new();
    let first = flights.join(&key());
    first.turn(None, Waits::Yes);
    flights.land(&first, Landing::default());
    let second = flights.join(&key());
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Lead(None)));
    flights.leave(&first);
    assert_eq!(flights.len(), 1);
    flights.leave(&second);
    assert_eq!(flights.len(), 0);
}
