//! The state table, row by row, and its invariants under any sequence of verbs.

use super::*;
use crate::fingerprint::Fingerprint;
use crate::store::{Claim, Token};

#[path = "table_tests/arm.rs"]
mod arm;
#[path = "table_tests/begin.rs"]
mod begin;
#[path = "table_tests/end.rs"]
mod end;
#[path = "table_tests/operator.rs"]
mod operator;
#[path = "table_tests/sequences.rs"]
mod sequences;

const LEASE: Duration = Duration::from_secs(30);
const LINGER: Duration = Duration::from_secs(300);
const RETENTION: Duration = Duration::from_secs(200);
const TICK: Duration = Duration::from_millis(1);

/// The owner of the records in these tests, and another caller.
const OWNER: u8 = 1;
const STRANGER: u8 = 2;

/// Every situation in which a verb can find a record.
const SITUATIONS: [Situation; 7] = [
    Situation::Running,
    Situation::Overdue,
    Situation::Abandoned,
    Situation::FailedFree,
    Situation::FailedFinal,
    Situation::Succeeded,
    Situation::Taken,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Situation {
    /// Processing, lease alive.
    Running,
    /// Processing, lease over.
    Overdue,
    Abandoned,
    FailedFree,
    FailedFinal,
    Succeeded,
    Taken,
}

impl Situation {
    fn state(self) -> State {
        match self {
            Self::Running | Self::Overdue => State::Processing,
            Self::Abandoned => State::Abandoned,
            Self::FailedFree => State::FailedFree,
            Self::FailedFinal => State::FailedFinal,
            Self::Succeeded => State::Succeeded,
            Self::Taken => State::Taken,
        }
    }

    /// The record of a first attempt by [`OWNER`] in this situation, without a fingerprint,
    /// `retry`.
    fn record(self) -> Living {
        let ttl = if self == Self::Running { LEASE + LINGER } else { LINGER };
        Living { head: Head { attempt: attempt(OWNER), state: self.state() }, ttl }
    }
}

/// Small changes to a record.
trait Build {
    fn number(self, number: u32) -> Self;
    fn fence(self, fence: u64) -> Self;
    fn bound_to(self, payload: &str) -> Self;
    fn block(self) -> Self;
    fn left(self, ttl: Duration) -> Self;
}

impl Build for Living {
    fn number(mut self, number: u32) -> Self {
        self.head.attempt.number = number;
        self
    }

    fn fence(mut self, fence: u64) -> Self {
        self.head.attempt.fence = fence;
        self
    }

    fn bound_to(mut self, payload: &str) -> Self {
        self.head.attempt.fingerprint = Some(Fingerprint::of(payload));
        self
    }

    fn block(mut self) -> Self {
        self.head.attempt.claim = lease(Abandon::Block);
        self
    }

    fn left(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }
}

fn token(mark: u8) -> Token {
    Token::from_bytes([mark; 16])
}

fn attempt(mark: u8) -> AttemptId {
    let claim = lease(Abandon::Retry);
    AttemptId { token: token(mark), number: 1, fence: 1_000, fingerprint: None, claim }
}

fn lease(abandon: Abandon) -> Claim {
    Claim::Lease { lease: LEASE, linger: LINGER, abandon }
}

fn request(mark: u8) -> BeginRequest {
    let claim = lease(Abandon::Retry);
    BeginRequest { token: token(mark), fingerprint: None, fence_seed: 500, claim }
}

fn request_for(mark: u8, payload: &str) -> BeginRequest {
    BeginRequest { fingerprint: Some(Fingerprint::of(payload)), ..request(mark) }
}

fn window(mark: u8) -> BeginRequest {
    BeginRequest { claim: Claim::Window { window: RETENTION }, ..request(mark) }
}

/// The expected change to a record after a verb.
#[derive(Clone, Copy, Debug)]
enum Then {
    Kept,
    Gone,
    /// This state, for this long; all else as it was. A free key is bound to no payload.
    Becomes(State, Duration),
    /// Free for this long, and bound to its payload.
    StaysBound(Duration),
    /// Free for this long, with the number of the attempt before, and its payload if that stays bound.
    Released(Binding, Duration),
    /// As it was, for at least this long.
    LivesFor(Duration),
}

impl Then {
    fn write(self, before: &Living) -> Write {
        match self {
            Self::Kept => Write::Keep,
            Self::Gone => Write::Delete,
            Self::Becomes(state, ttl) => {
                let mut head = Head { state, ..before.head };
                if state == State::FailedFree {
                    head.attempt.fingerprint = None;
                }
                Write::Put { head, ttl }
            }
            Self::LivesFor(ttl) => Write::Extend { ttl },
            Self::Released(binding, ttl) => {
                let mut head = Head { state: State::FailedFree, ..before.head };
                head.attempt.number -= 1;
                if binding == Binding::Lifted {
                    head.attempt.fingerprint = None;
                }
                Write::Put { head, ttl }
            }
            Self::StaysBound(ttl) => {
                Write::Put { head: Head { state: State::FailedFree, ..before.head }, ttl }
            }
        }
    }
}

/// Checks a verb of the owner in every situation, and that a stranger gets `refused` in each.
fn check_rows<A: Copy + PartialEq + std::fmt::Debug>(
    change: impl Fn(Living) -> Living,
    verb: impl Fn(Option<Living>, &AttemptId) -> Step<A>,
    refused: A,
    rows: [(Situation, A, Then); SITUATIONS.len()],
) {
    for (listed, situation) in rows.iter().zip(SITUATIONS) {
        assert_eq!(listed.0, situation, "every situation is listed once, in order");
    }
    for (situation, answer, then) in rows {
        let record = change(situation.record());
        let step = verb(Some(record), &attempt(OWNER));
        assert_eq!(step, (answer, then.write(&record)), "{situation:?}, by the owner");
        let step = verb(Some(record), &attempt(STRANGER));
        assert_eq!(step, (refused, Write::Keep), "{situation:?}, by a stranger");
    }
}

fn unchanged(record: Living) -> Living {
    record
}

fn written(write: Write) -> Living {
    match write {
        Write::Put { head, ttl } => Living { head, ttl },
        other => panic!("nothing was written: {other:?}"),
    }
}
