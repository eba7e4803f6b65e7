//! The store of the model: one record and its time to live, changed by the functions of
//! [`table`](idempotent_runtime::store::table) and by nothing else.

use idempotent_runtime::store::table::{self, Living, Write};
use idempotent_runtime::store::{
    Armed, AttemptId, BeginRequest, Begun, Binding, Claim, Completed, Failure, Head, IfGone,
    Renewed, Resolution, Resolved, Settled, State, Token,
};
use idempotent_runtime::{Abandon, Fingerprint};
use std::cmp::Ordering;
use std::time::Duration;

/// Time passes in ticks. Whatever happens between two of them happens at one moment.
pub(crate) type Ticks = u8;

/// What every caller asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Ticks,
    /// The linger of a record, and its linger once it is armed.
    pub(crate) linger: Ticks,
    pub(crate) block_linger: Ticks,
    pub(crate) retention: Ticks,
    pub(crate) abandon: Abandon,
    pub(crate) completion: Completion,
    /// The payloads of the calls, by their tokens; a call beyond the end has none.
    pub(crate) payloads: &'static [u8],
    /// Carried by the verbs that free the key.
    pub(crate) binding: Binding,
}

/// Whether `complete` compares tokens. That it has to is seen where it does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Completion {
    ByToken,
    Unconditional,
}

/// The token of records that an operator resolved.
pub(crate) const NOBODY: u8 = u8::MAX;

/// One grant, as callers and records name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) token: u8,
    pub(crate) number: u8,
    pub(crate) fence: u8,
    /// Its key blocks if it does not end.
    pub(crate) armed: bool,
}

/// A record without its time to live: what two stores of equal bytes agree in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) attempt: Attempt,
    pub(crate) state: State,
    /// Whose body returned what is kept.
    pub(crate) value: Option<u8>,
    /// The payload that the key is bound to.
    pub(crate) payload: Option<u8>,
}

impl Ord for Record {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.attempt, it.state as u8, it.value, it.payload);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A record that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    pub(crate) ttl: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Verb {
    Begin,
    /// Sent before the body starts, if the policy is to block.
    Arm,
    Renew,
    Complete,
    /// As `Complete`, by an attempt that has lost its lease.
    CompleteLate,
    Fail,
    FailFinal,
    Abandon,
    Release,
    /// An operator says that it did happen.
    ResolveSucceeded,
    /// An operator says that it did not.
    ResolveRetry,
}

/// A verb with what it carries. Of a `begin`, the fence is the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) attempt: Attempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Answer {
    Fresh(Attempt),
    InFlight,
    /// The key is bound to another payload.
    Mismatch,
    Indeterminate,
    /// The value that is kept.
    Succeeded(Option<u8>),
    /// The error that is kept.
    FailedFinal(Option<u8>),
    /// The record says what the caller wanted it to.
    Done,
    /// It was not there. `complete` has written it again.
    Vanished,
    /// It was not there, and `complete` has left it so.
    Gone,
    Superseded,
    Extended,
    Lost,
}

/// What becomes of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Change {
    None,
    Put(Kept),
    Delete,
}

impl Terms {
    /// What the table says to `request`.
    pub(crate) fn step(&self, kept: Option<Kept>, request: Request) -> (Answer, Change) {
        let Request { verb, attempt } = request;
        let living = kept.map(|kept| self.living(kept));
        let id = self.id(attempt);
        let retention = time(self.retention);
        match verb {
            Verb::Begin => {
                let AttemptId { token, fence: fence_seed, fingerprint, claim, .. } = id;
                let request = BeginRequest { token, fingerprint, fence_seed, claim };
                let (answer, write) = table::begin(living, &request);
                let value = kept.and_then(|kept| kept.record.value);
                (begun(&answer, value), self.change(write, None))
            }
            Verb::Renew => {
                let (answer, write) = table::renew(living, &id, time(self.lease));
                let answer = match answer {
                    Renewed::Extended => Answer::Extended,
                    Renewed::Lost => Answer::Lost,
                };
                (answer, self.change(write, None))
            }
            Verb::Arm => {
                let (answer, write) = table::arm(living, &id, time(self.block_linger));
                let answer = match answer {
                    Armed::Done => Answer::Extended,
                    Armed::Lost => Answer::Lost,
                };
                (answer, self.change(write, None))
            }
            Verb::Complete | Verb::CompleteLate => {
                let living = living.filter(|_| self.completion == Completion::ByToken);
                let if_gone = match verb {
                    Verb::CompleteLate => IfGone::Leave,
                    _ => IfGone::Rewrite,
                };
                let (answer, write) = table::complete(living, &id, retention, if_gone);
                let answer = match answer {
                    Completed::Stored | Completed::StoredWithoutValue => Answer::Done,
                    Completed::Vanished => Answer::Vanished,
                    Completed::Gone => Answer::Gone,
                    Completed::Superseded => Answer::Superseded,
                };
                (answer, self.change(write, Some(attempt.token)))
            }
            Verb::Fail => {
                let failure = Failure::Free(self.binding);
                self.settled(table::fail(living, &id, &failure, retention), None)
            }
            Verb::FailFinal => {
                let step = table::fail(living, &id, &Failure::Final(None), retention);
                self.settled(step, Some(attempt.token))
            }
            Verb::Abandon => {
                self.settled(table::abandon(living, &id, retention, self.binding), None)
            }
            Verb::Release => {
                self.settled(table::release(living, &id, retention, self.binding), None)
            }
            Verb::ResolveSucceeded => {
                self.resolved(table::resolve(living, &Resolution::Succeeded(()), retention))
            }
            Verb::ResolveRetry => {
                self.resolved(table::resolve(living, &Resolution::<()>::Retry, retention))
            }
        }
    }

    /// What is left of the lease of a record that is being processed.
    pub(crate) fn lease_left(&self, kept: Kept) -> Ticks {
        let Living { head, ttl } = self.living(kept);
        ticks(head.lease_left(ttl))
    }

    fn settled(&self, step: table::Step<Settled>, value: Option<u8>) -> (Answer, Change) {
        let answer = match step.0 {
            Settled::Done => Answer::Done,
            Settled::Vanished => Answer::Vanished,
            Settled::Superseded => Answer::Superseded,
        };
        (answer, self.change(step.1, value))
    }

    fn resolved(&self, step: table::Step<Resolved>) -> (Answer, Change) {
        let answer = match step.0 {
            Resolved::Done => Answer::Done,
            Resolved::NotFound => Answer::Vanished,
            Resolved::NotIndeterminate(_) => Answer::Superseded,
        };
        (answer, self.change(step.1, None))
    }

    fn change(&self, write: Write, value: Option<u8>) -> Change {
        match write {
            Write::Keep => Change::None,
            Write::Delete => Change::Delete,
            Write::Put { head: Head { attempt, state }, ttl } => {
                let payload = attempt.fingerprint.map(|it| it.to_bytes()[0]);
                let attempt = abstracted(attempt);
                let record = Record { attempt, state, value, payload };
                Change::Put(Kept { record, ttl: ticks(ttl) })
            }
        }
    }

    fn living(&self, kept: Kept) -> Living {
        let Kept { record: Record { attempt, state, payload, .. }, ttl } = kept;
        let attempt = AttemptId { fingerprint: payload.map(fingerprint), ..self.id(attempt) };
        Living { head: Head { attempt, state }, ttl: time(ttl) }
    }

    /// The payload of the call that made a token.
    pub(crate) fn payload(&self, token: u8) -> Option<u8> {
        self.payloads.get(usize::from(token)).copied()
    }

    fn id(&self, attempt: Attempt) -> AttemptId {
        let Self { lease, linger, block_linger, .. } = *self;
        let claim =
            Claim::Lease { lease: time(lease), linger: time(linger), abandon: Abandon::Retry };
        let mut token = [0; 16];
        token[15] = attempt.token.wrapping_sub(NOBODY);
        let id = AttemptId {
            token: Token::from_bytes(token),
            number: attempt.number.into(),
            fence: attempt.fence.into(),
            fingerprint: self.payload(attempt.token).map(fingerprint),
            claim,
        };
        if attempt.armed { id.armed(time(block_linger)) } else { id }
    }

    /// The linger of a record of this attempt.
    pub(crate) fn linger_of(&self, attempt: Attempt) -> Ticks {
        if attempt.armed { self.block_linger } else { self.linger }
    }
}

fn abstracted(id: AttemptId) -> Attempt {
    let AttemptId { token, number, fence, claim, .. } = id;
    let small = |number: u64| u8::try_from(number).expect("the model's numbers are small");
    Attempt {
        token: token.to_bytes()[15].wrapping_add(NOBODY),
        number: small(number.into()),
        fence: small(fence),
        armed: claim.abandon() == Abandon::Block,
    }
}

fn begun(answer: &Begun<()>, value: Option<u8>) -> Answer {
    match answer {
        Begun::Fresh(attempt) => Answer::Fresh(abstracted(*attempt)),
        Begun::InFlight { .. } => Answer::InFlight,
        Begun::Indeterminate { .. } => Answer::Indeterminate,
        Begun::Succeeded { .. } => Answer::Succeeded(value),
        Begun::FailedFinal { .. } => Answer::FailedFinal(value),
        Begun::Superseded => Answer::Superseded,
        Begun::Mismatch => Answer::Mismatch,
        Begun::Taken { .. } => unreachable!("nobody takes a window"),
    }
}

fn fingerprint(payload: u8) -> Fingerprint {
    Fingerprint::from_bytes([payload; 16])
}

fn time(ticks: Ticks) -> Duration {
    Duration::from_secs(ticks.into())
}

fn ticks(time: Duration) -> Ticks {
    u8::try_from(time.as_secs()).expect("the model's times are short")
}
