//! Invariants under any sequence of verbs, late and repeated ones included.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const MARKS: std::ops::RangeInclusive<u8> = 1..=4;

#[derive(Clone, Debug)]
enum Act {
    Begin(u8),
    Complete(u8),
    Fail(u8, Failure),
    Abandon(u8, Binding),
    Release(u8, Binding),
    Renew(u8, Duration),
    Forget(bool),
    Resolve(Resolution<()>),
    Pass(Duration),
}

fn act() -> impl Strategy<Value = Act> {
    let mark = || MARKS;
    prop_oneof![
        6 => mark().prop_map(Act::Begin),
        3 => mark().prop_map(Act::Complete),
        2 => (mark(), binding()).prop_map(|(mark, it)| Act::Fail(mark, Failure::Free(it))),
        1 => mark().prop_map(|mark| Act::Fail(mark, Failure::Final(None))),
        2 => (mark(), binding()).prop_map(|(mark, it)| Act::Abandon(mark, it)),
        2 => (mark(), binding()).prop_map(|(mark, it)| Act::Release(mark, it)),
        2 => (mark(), span()).prop_map(|(mark, lease)| Act::Renew(mark, lease)),
        1 => any::<bool>().prop_map(Act::Forget),
        1 => Just(Act::Resolve(Resolution::Retry)),
        1 => Just(Act::Resolve(Resolution::Succeeded(()))),
        4 => span().prop_map(Act::Pass),
    ]
}

fn binding() -> impl Strategy<Value = Binding> {
    prop::sample::select(vec![Binding::Lifted, Binding::Kept])
}

/// Spans up to the ends of leases and records, exactly and one tick more or less.
fn span() -> impl Strategy<Value = Duration> {
    let around = |span: Duration| vec![span - TICK, span, span + TICK];
    let spans = [TICK, LEASE, LINGER, RETENTION, LEASE + LINGER].into_iter().flat_map(around);
    prop::sample::select(spans.collect::<Vec<_>>())
}

/// One request per mark: a caller that begins again sends the same request.
fn requests() -> impl Strategy<Value = HashMap<u8, BeginRequest>> {
    let payload = prop::option::of(prop::sample::select(vec!["one", "two"]));
    let claim = prop::sample::select(vec![
        lease(Abandon::Retry),
        lease(Abandon::Retry),
        lease(Abandon::Block),
        Claim::Window { window: RETENTION },
    ]);
    let one = (payload, claim, 1_u64..100);
    prop::collection::vec(one, 4).prop_map(|all| {
        let request = |(mark, (payload, claim, fence_seed)): (u8, (Option<&str>, Claim, u64))| {
            let fingerprint = payload.map(Fingerprint::of);
            (mark, BeginRequest { token: token(mark), fingerprint, fence_seed, claim })
        };
        MARKS.zip(all).map(request).collect()
    })
}

struct World {
    record: Option<Living>,
    requests: HashMap<u8, BeginRequest>,
    granted: HashMap<u8, AttemptId>,
}

impl World {
    /// The attempt that this mark was granted, or assumes to be if it never got an answer.
    fn attempt(&self, mark: u8) -> AttemptId {
        self.granted.get(&mark).copied().unwrap_or_else(|| self.requests[&mark].first_attempt())
    }

    fn apply(&mut self, write: Write) {
        if let Write::Put { ttl, .. } | Write::Extend { ttl } = write {
            assert!(!ttl.is_zero(), "a record is never written without time to live");
        }
        self.record = write.on(self.record);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Begin(mark) => self.begin(*mark),
            Act::Complete(mark) => self.complete(*mark),
            Act::Fail(mark, failure) => {
                self.settle(*mark, |record, attempt| fail(record, attempt, failure, RETENTION));
            }
            Act::Abandon(mark, binding) => {
                self.settle(*mark, |record, attempt| abandon(record, attempt, RETENTION, *binding));
            }
            Act::Release(mark, binding) => {
                self.settle(*mark, |record, attempt| release(record, attempt, RETENTION, *binding));
            }
            Act::Renew(mark, lease) => self.renew(*mark, *lease),
            Act::Forget(force) => {
                let (answer, write) = forget(self.record, *force);
                self.apply(write);
                if answer == Forgotten::Freed {
                    let bound = self.record.and_then(|record| record.head.attempt.fingerprint);
                    assert_eq!(bound, None, "an operator frees the key for any payload");
                }
            }
            Act::Resolve(resolution) => {
                self.apply(resolve(self.record, resolution, RETENTION).1);
            }
            Act::Pass(by) => {
                self.record = self.record.and_then(|record| {
                    let ttl = record.ttl.saturating_sub(*by);
                    (!ttl.is_zero()).then_some(Living { ttl, ..record })
                });
            }
        }
    }

    fn begin(&mut self, mark: u8) {
        let (before, request) = (self.record, self.requests[&mark]);
        let (answer, write) = begin(before, (), &request);
        self.apply(write);
        match answer {
            Begun::Fresh(attempt) => {
                assert_eq!(attempt.token, request.token);
                assert!(may_start(before, &request), "granted over {before:?}");
                self.granted.insert(mark, attempt);
                let again = begin(self.record, (), &request);
                assert_eq!(again, (Begun::Fresh(attempt), Write::Keep), "repeated");
            }
            answer => {
                assert_eq!(write, Write::Keep, "{answer:?} leaves the record alone");
                let Some(Living { head, ttl }) = before else {
                    panic!("refused without a record: {answer:?}");
                };
                if let Begun::InFlight { retry_after, .. } = answer {
                    assert!(
                        !retry_after.is_zero()
                            && retry_after <= head.attempt.claim.lease().min(ttl)
                    );
                }
            }
        }
    }

    fn complete(&mut self, mark: u8) {
        let attempt = self.attempt(mark);
        let (answer, write) = complete(self.record, &attempt, RETENTION, IfGone::Rewrite);
        self.apply(write);
        let again = complete(self.record, &attempt, RETENTION, IfGone::Rewrite);
        match answer {
            Updated::Superseded => {
                assert_eq!(write, Write::Keep, "superseded, and yet it writes");
                assert_eq!(again, (answer, Write::Keep), "repeated");
            }
            _ => assert_eq!(again, (Updated::Done, Write::Keep), "repeated"),
        }
    }

    fn settle(&mut self, mark: u8, verb: impl Fn(Option<Living>, &AttemptId) -> Step<Updated>) {
        let attempt = self.attempt(mark);
        let (answer, write) = verb(self.record, &attempt);
        self.apply(write);
        if answer != Updated::Done {
            assert_eq!(write, Write::Keep, "{answer:?}, and yet it writes");
        }
        let again = verb(self.record, &attempt);
        assert_eq!(again.1, Write::Keep, "a repeated verb changes nothing");
        if self.record.is_some() {
            assert_eq!(again.0, answer, "repeated");
        }
    }

    fn renew(&mut self, mark: u8, lease: Duration) {
        let before = self.record;
        let (answer, write) = renew(before, &self.attempt(mark), lease);
        self.apply(write);
        match (answer, before, self.record) {
            (Updated::Superseded, ..) => assert_eq!(write, Write::Keep, "lost, and yet it writes"),
            (Updated::Done, Some(before), Some(after)) => {
                assert_eq!(after.head, before.head);
                assert!(after.ttl >= before.ttl, "a lease was shortened");
                assert!(after.head.lease_left(after.ttl) >= lease, "shorter than asked for");
            }
            (answer, ..) => panic!("{answer:?} without a record"),
        }
    }
}

/// `true` if the table may grant this request: no other attempt can be running and no answer is
/// stored.
fn may_start(record: Option<Living>, request: &BeginRequest) -> bool {
    let Some(Living { head, ttl }) = record else { return true };
    let own = head.attempt.token == request.token;
    match head.state {
        State::Processing => {
            own || (head.lease_left(ttl).is_zero()
                && head.attempt.claim.abandon() == Abandon::Retry)
        }
        State::FailedFree => !own && !differ(&head.attempt, request),
        State::Taken => own,
        State::Abandoned | State::FailedFinal | State::Succeeded => false,
    }
}

/// Checks the invariants between any two states of one kept record.
fn check_progress(before: Living, after: Living) {
    let (old, new) = (before.head, after.head);
    if [old.attempt.token, Token::NOBODY].contains(&new.attempt.token) {
        assert_eq!(new.attempt.fence, old.attempt.fence, "a fence changed under its attempt");
        let is_released = new.state == State::FailedFree
            && matches!(old.state, State::Processing | State::Taken)
            && new.attempt.number + 1 == old.attempt.number;
        assert!(new.attempt.number == old.attempt.number || is_released, "{old:?}, {new:?}");
    } else {
        assert!(new.attempt.fence > old.attempt.fence, "a later fence is not greater");
        assert_eq!(new.attempt.number, old.attempt.number + 1);
    }
    if matches!(old.state, State::Succeeded | State::FailedFinal) {
        assert_eq!((new.state, new.attempt), (old.state, old.attempt), "an answer was replaced");
    }
    if new.state == State::FailedFree {
        let bound = [None, old.attempt.fingerprint];
        assert!(bound.contains(&new.attempt.fingerprint), "a failed attempt binds another payload");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_verbs_breaks_the_promises(
        requests in requests(),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut world = World { record: None, requests, granted: HashMap::new() };
        for act in &acts {
            let before = world.record;
            world.act(act);
            if let (Some(before), Some(after)) = (before, world.record) {
                check_progress(before, after);
            }
        }
    }
}
