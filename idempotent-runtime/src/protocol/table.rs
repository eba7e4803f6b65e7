//! The state table: the answer of each verb for each record, and the change to the record.
//!
//! Pure functions of record, request and remaining time to live. The protocol executes them on
//! every store; they are the one place where the rules are written.

use super::request::{
    BeginRequest, Begun, Binding, Failure, Forgotten, IfGone, Resolution, Resolved, Updated,
};
use crate::config::Abandon;
use crate::store::{AttemptId, Head, State, Token};
use std::time::Duration;

/// A record that has not expired, and its remaining time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// The record without its value.
    pub head: Head,
    /// The remaining time to live; more than zero.
    pub ttl: Duration,
}

/// A change to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The record stays as it is.
    Keep,
    /// The record becomes this, with the value of the request if it has one.
    Put {
        /// The record without its value.
        head: Head,
        /// The time to live, from now on.
        ttl: Duration,
    },
    /// The record stays as it is, and lives for at least this long from now on.
    Extend {
        /// The time to live.
        ttl: Duration,
    },
    /// The record is deleted.
    Delete,
}

impl Write {
    /// Applies the change to a record, and returns the record afterwards.
    pub fn on(self, record: Option<Living>) -> Option<Living> {
        match self {
            Self::Keep => record,
            Self::Put { head, ttl } => Some(Living { head, ttl }),
            Self::Extend { ttl } => record.map(|it| Living { ttl: it.ttl.max(ttl), ..it }),
            Self::Delete => None,
        }
    }
}

/// An answer, and the change to the record.
pub type Step<A> = (A, Write);

/// Grants the right to run the body, or answers from the record. A final answer carries `value`,
/// that of the record.
#[inline]
pub fn begin<V>(record: Option<Living>, value: V, request: &BeginRequest) -> Step<Begun<V>> {
    let Some(Living { head, ttl }) = record else {
        return grant(request.first_attempt());
    };
    let attempt = head.attempt;
    let same_token = attempt.token == request.token;
    let lease_left = head.lease_left(ttl);
    let answer = match head.state {
        State::Processing if same_token => Begun::Fresh(attempt),
        // A key that was freed has a fingerprint only if its binding was kept.
        State::Processing
        | State::Abandoned
        | State::FailedFree
        | State::FailedFinal
        | State::Succeeded
            if differ(&attempt, request) =>
        {
            Begun::Mismatch
        }
        State::Processing if !lease_left.is_zero() => {
            // A server clock that was set back must not keep callers away for longer than a lease.
            let retry_after = lease_left.min(attempt.claim.lease());
            Begun::InFlight { number: attempt.number, retry_after }
        }
        State::Processing if attempt.claim.abandon() == Abandon::Retry => {
            return take_over(&attempt, request);
        }
        State::Processing | State::Abandoned => Begun::Indeterminate { number: attempt.number },
        State::FailedFree if same_token => Begun::Superseded,
        State::FailedFree => return take_over(&attempt, request),
        State::FailedFinal => Begun::FailedFinal { number: attempt.number, value },
        State::Succeeded => Begun::Succeeded { number: attempt.number, value },
        // The token of the window itself: the reply to the first `begin` was lost.
        State::Taken if same_token => Begun::Fresh(attempt),
        State::Taken => Begun::Taken { retry_after: ttl },
    };
    (answer, Write::Keep)
}

/// Arms an attempt whose body is about to start: from here on its key blocks if the body does not
/// end. Also renews the lease. A repeat, or a copy that arrives late, never shortens the remaining
/// life of the record.
pub fn arm(record: Option<Living>, attempt: &AttemptId, linger: Duration) -> Step<Updated> {
    hold(record, attempt, |head| {
        let armed = Head { attempt: head.attempt.armed(linger), ..*head };
        let ttl = armed.attempt.claim.ttl();
        if armed == *head { Write::Extend { ttl } } else { Write::Put { head: armed, ttl } }
    })
}

/// Ends an attempt whose body returned a value. The value is that of the request.
#[inline]
pub fn complete(
    record: Option<Living>,
    attempt: &AttemptId,
    retention: Duration,
    if_gone: IfGone,
) -> Step<Updated> {
    let Some(Living { head, .. }) = record else {
        let head = Head { attempt: *attempt, state: State::Succeeded };
        return match if_gone {
            IfGone::Rewrite => (Updated::Vanished, Write::Put { head, ttl: retention }),
            IfGone::Leave => (Updated::Gone, Write::Keep),
        };
    };
    match (owner(&head, attempt), head.state) {
        (Owner::This, State::Processing) => {
            (Updated::Done, put(&head, State::Succeeded, retention))
        }
        (Owner::This, State::Succeeded) => (Updated::Done, Write::Keep),
        _ => (Updated::Superseded, Write::Keep),
    }
}

/// Ends an attempt whose body returned an error. A final error is kept.
pub fn fail(
    record: Option<Living>,
    attempt: &AttemptId,
    failure: &Failure,
    retention: Duration,
) -> Step<Updated> {
    match failure {
        Failure::Free(binding) => {
            settle(record, attempt, |head| free(head, *binding, retention), State::FailedFree)
        }
        Failure::Final(_) => {
            let write = |head: &Head| put(head, State::FailedFinal, retention);
            settle(record, attempt, write, State::FailedFinal)
        }
    }
}

/// Ends an attempt whose body started, and was dropped or panicked.
pub fn abandon(
    record: Option<Living>,
    attempt: &AttemptId,
    retention: Duration,
    binding: Binding,
) -> Step<Updated> {
    let policy = record.map(|record| record.head.attempt.claim.abandon());
    match policy {
        Some(Abandon::Block) => {
            let write = |head: &Head| put(head, State::Abandoned, head.attempt.claim.linger());
            settle(record, attempt, write, State::Abandoned)
        }
        _ => fail(record, attempt, &Failure::Free(binding), retention),
    }
}

/// Ends an attempt whose body never started. A first attempt leaves nothing behind, whatever its
/// binding; a later one gives its number back, so that numbers count bodies that started, or may have.
/// Its fence is used up: a copy of its `begin` may still arrive.
pub fn release(
    record: Option<Living>,
    attempt: &AttemptId,
    retention: Duration,
    binding: Binding,
) -> Step<Updated> {
    let write = |head: &Head| match head.attempt.number {
        1 => Write::Delete,
        number => {
            let attempt = AttemptId { number: number.saturating_sub(1), ..head.attempt };
            free(&Head { attempt, ..*head }, binding, retention)
        }
    };
    if let Some(Living { head, .. }) = record
        && head.state == State::Taken
        && owner(&head, attempt) == Owner::This
    {
        return (Updated::Done, write(&head));
    }
    settle(record, attempt, write, State::FailedFree)
}

/// Renews the lease of an attempt whose body still runs. Never shortens the remaining life of the
/// record.
pub fn renew(record: Option<Living>, attempt: &AttemptId, lease: Duration) -> Step<Updated> {
    hold(record, attempt, |head| Write::Extend {
        ttl: head.attempt.claim.linger().saturating_add(lease),
    })
}

/// Removes a record for an operator. One that is held is removed only with `force`, and a tombstone
/// then frees the key, so that the attempt that held it is superseded. Forgetting a tombstone
/// leaves it in place, because the attempt could otherwise still write its answer, but lifts its
/// binding.
pub fn forget(record: Option<Living>, force: bool) -> Step<Forgotten> {
    match record {
        None => (Forgotten::NotFound, Write::Keep),
        Some(Living { head, ttl }) => match (head.state, force) {
            (State::Processing | State::Abandoned, false) => (Forgotten::Held, Write::Keep),
            (State::Processing | State::Abandoned, true) => {
                (Forgotten::Freed, free(&head, Binding::Lifted, ttl))
            }
            (State::FailedFree, _) if head.attempt.fingerprint.is_some() => {
                (Forgotten::Freed, free(&head, Binding::Lifted, ttl))
            }
            (State::FailedFree, _) => (Forgotten::Freed, Write::Keep),
            _ => (Forgotten::Deleted, Write::Delete),
        },
    }
}

/// Ends an attempt whose outcome is unknown, as an operator has established it. The value, if there
/// is one, is that of the request.
pub fn resolve<V>(
    record: Option<Living>,
    resolution: &Resolution<V>,
    retention: Duration,
) -> Step<Resolved> {
    let Some(Living { head, ttl }) = record else {
        return (Resolved::NotFound, Write::Keep);
    };
    let unknown = match head.state {
        State::Abandoned => true,
        State::Processing => head.lease_left(ttl).is_zero(),
        _ => false,
    };
    if !unknown {
        return (Resolved::NotIndeterminate(head.state), Write::Keep);
    }
    let write = match resolution {
        Resolution::Succeeded(_) => {
            let mut head = head;
            // The answer is the operator's. The lost attempt may still come back with its own.
            head.attempt.token = Token::NOBODY;
            put(&head, State::Succeeded, retention)
        }
        Resolution::Retry => free(&head, Binding::Lifted, retention),
    };
    (Resolved::Done, write)
}

#[inline]
fn grant<V>(attempt: AttemptId) -> Step<Begun<V>> {
    let write = Write::Put { head: Head::held_by(attempt), ttl: attempt.claim.ttl() };
    (Begun::Fresh(attempt), write)
}

fn take_over<V>(last: &AttemptId, request: &BeginRequest) -> Step<Begun<V>> {
    let fence = request.fence_seed.max(last.fence.saturating_add(1));
    grant(request.attempt(last.number.saturating_add(1), fence))
}

/// The shared rule of `arm` and `renew`: the token matches, and the attempt has not ended.
fn hold(
    record: Option<Living>,
    attempt: &AttemptId,
    write: impl FnOnce(&Head) -> Write,
) -> Step<Updated> {
    match record {
        Some(Living { head, .. })
            if head.state == State::Processing && owner(&head, attempt) == Owner::This =>
        {
            (Updated::Done, write(&head))
        }
        _ => (Updated::Superseded, Write::Keep),
    }
}

/// The shared rule of the verbs that end an attempt: the token matches, the first verb wins, and a
/// repeat of it is accepted.
fn settle(
    record: Option<Living>,
    attempt: &AttemptId,
    write: impl FnOnce(&Head) -> Write,
    settled: State,
) -> Step<Updated> {
    let Some(Living { head, .. }) = record else {
        return (Updated::Vanished, Write::Keep);
    };
    match (owner(&head, attempt), head.state) {
        (Owner::This, State::Processing) => (Updated::Done, write(&head)),
        (Owner::This, state) if state == settled => (Updated::Done, Write::Keep),
        _ => (Updated::Superseded, Write::Keep),
    }
}

#[derive(PartialEq)]
enum Owner {
    This,
    Another,
}

#[inline]
fn owner(head: &Head, attempt: &AttemptId) -> Owner {
    if head.attempt.token == attempt.token { Owner::This } else { Owner::Another }
}

fn differ(attempt: &AttemptId, request: &BeginRequest) -> bool {
    matches!((attempt.fingerprint, request.fingerprint), (Some(old), Some(new)) if old != new)
}

#[inline]
fn put(head: &Head, state: State, ttl: Duration) -> Write {
    Write::Put { head: Head { state, ..*head }, ttl }
}

/// Frees the key. The fingerprint alone says whether the key stays bound: a record has no other
/// field for this that every version reads.
fn free(head: &Head, binding: Binding, ttl: Duration) -> Write {
    let mut head = Head { state: State::FailedFree, ..*head };
    if binding == Binding::Lifted {
        head.attempt.fingerprint = None;
    }
    Write::Put { head, ttl }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
