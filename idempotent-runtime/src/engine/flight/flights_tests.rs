use super::*;
use crate::clock::{Clock, Manual, Moment};
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
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait(_)));
    assert!(matches!(second.turn(None, Waits::No), Turn::Wait(_)));
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
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait(_)));
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
    assert!(matches!(third.turn(None, Waits::No), Turn::Wait(_)));
}

#[test]
fn another_payload_is_told_apart_while_the_body_runs() {
    let flights = Flights::new();
    let (first, second) = (flights.join(&key()), flights.join(&key()));
    let (one, two) = (Fingerprint::of("one"), Fingerprint::of("two"));
    first.turn(Some(one), Waits::Yes);
    first.running(Some(one), Duration::from_secs(3));
    assert!(matches!(second.turn(Some(two), Waits::Yes), Turn::Mismatch));
    assert!(matches!(second.turn(None, Waits::Yes), Turn::Wait(_)));
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

/// A clock, and the moments at which timers were set on it.
struct Timers {
    manual: Arc<Manual>,
    clock: Clock,
    set: Vec<Moment>,
}

impl Timers {
    fn new() -> Self {
        let manual = Arc::new(Manual::new());
        Self { clock: Clock::manual(Arc::clone(&manual)), manual, set: Vec::new() }
    }

    fn in_micros(&self, micros: u64) -> Moment {
        self.clock.now().after(Duration::from_micros(micros))
    }

    fn waits_until(&mut self, member: &mut Member, deadline: Moment) {
        member.waits_until(deadline, |moment| {
            self.set.push(moment);
            self.clock.sleep_until(moment, &tokio::runtime::Handle::current())
        });
    }
}

#[tokio::test]
async fn followers_whose_waits_end_within_a_millisecond_share_a_timer() {
    let (flights, mut timers) = (Flights::new(), Timers::new());
    let mut followers: Vec<_> = (0..4).map(|_| flights.join(&key())).collect();
    for (follower, micros) in followers.iter_mut().zip([1_001, 1_500, 2_000, 2_001]) {
        let deadline = timers.in_micros(micros);
        timers.waits_until(follower, deadline);
    }
    assert_eq!(timers.set, [timers.in_micros(2_000), timers.in_micros(3_000)]);
    timers.manual.advance(Duration::from_micros(1_999));
    assert!(followers.iter().all(|follower| !follower.has_waited()));
    timers.manual.advance(Duration::from_micros(1));
    let waited: Vec<_> = followers.iter().map(Member::has_waited).collect();
    assert_eq!(waited, [true, true, true, false]);
}

#[tokio::test]
async fn a_wait_that_is_over_at_once_is_noticed() {
    let (flights, mut timers) = (Flights::new(), Timers::new());
    let mut follower = flights.join(&key());
    let now = timers.clock.now();
    timers.waits_until(&mut follower, now);
    assert!(follower.has_waited());
}

#[tokio::test]
async fn a_timer_is_cancelled_when_the_last_one_who_needs_it_leaves() {
    let (flights, mut timers) = (Flights::new(), Timers::new());
    let leader = flights.join(&key());
    leader.turn(None, Waits::Yes);
    let deadline = timers.in_micros(5_000);
    for _ in 0..2 {
        let (mut first, mut second) = (flights.join(&key()), flights.join(&key()));
        timers.waits_until(&mut first, deadline);
        timers.waits_until(&mut second, deadline);
        flights.leave(&first);
        assert!(!lock(&leader.flight.state).alarms.all().is_empty());
        flights.leave(&second);
        assert!(lock(&leader.flight.state).alarms.all().is_empty());
    }
    assert_eq!(timers.set, [deadline, deadline]);
}

#[tokio::test]
async fn only_news_wake_a_follower() {
    let (flights, mut timers) = (Flights::new(), Timers::new());
    let (leader, mut follower) = (flights.join(&key()), flights.join(&key()));
    leader.turn(None, Waits::Yes);
    let deadline = timers.in_micros(5_000);
    timers.waits_until(&mut follower, deadline);
    let wakes = |change: &dyn Fn()| {
        let mut woken = std::pin::pin!(follower.woken().unwrap());
        change();
        woken.as_mut().enable()
    };
    assert!(wakes(&|| leader.in_flight_elsewhere(1, Duration::from_secs(3))));
    assert!(!wakes(&|| leader.in_flight_elsewhere(1, Duration::from_secs(2))));
    assert!(wakes(&|| leader.in_flight_elsewhere(2, Duration::from_secs(3))));
    assert!(wakes(&|| leader.failed_elsewhere(2)));
    assert!(!wakes(&|| leader.held_elsewhere(Duration::from_secs(1))));
    assert!(wakes(&|| timers.manual.advance(Duration::from_millis(5))));
    assert!(wakes(&|| flights.land(&leader, Landing::default())));
}
