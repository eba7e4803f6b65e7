//! The record of the model and its time to live, and requests as the
//! [`protocol`](idempotent_runtime::protocol) takes them.

use idempotent_runtime::protocol::table::Write;
use idempotent_runtime::protocol::{
    BeginRequest, Begun, Binding, Failure, IfGone, Progress, Request as _, Resolution, Resolve,
    Resolved, Update, Updated,
};
use idempotent_runtime::store::{AttemptId, Claim, Found, Head, State, Token, Value};
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
    /// It lives for so long, or longer if it would anyway.
    Extend(Ticks),
    Delete,
}

/// A request as the protocol takes it.
pub(crate) enum Typed {
    Begin(BeginRequest),
    Update(Update),
    Resolve(Resolve),
}

impl Terms {
    /// The table's answer to `request`, and what becomes of the record.
    pub(crate) fn step(&self, kept: Option<Kept>, request: Request) -> (Answer, Change) {
        let found = kept.map(|kept| self.found(kept.record, Some(kept.ttl)));
        let completes = matches!(request.verb, Verb::Complete | Verb::CompleteLate);
        let found = found.filter(|_| !completes || self.completion == Completion::ByToken);
        let (answer, write, value) = match self.typed(request) {
            Typed::Begin(begin) => {
                let (answer, write) = begin.step(found);
                (begun(&answer), write, None)
            }
            Typed::Update(update) => {
                let (answer, write) = update.step(found);
                (updated(answer, request.verb), write, update.value().map(whose))
            }
            Typed::Resolve(resolve) => {
                let (answer, write) = resolve.step(found);
                (resolved(answer), write, None)
            }
        };
        let change = match write {
            Write::Keep => Change::None,
            Write::Delete => Change::Delete,
            Write::Put { head, ttl } => {
                Change::Put(Kept { record: abstracted(head, value), ttl: ticks(ttl) })
            }
            Write::Extend { ttl } => Change::Extend(ticks(ttl)),
        };
        (answer, change)
    }

    pub(crate) fn typed(&self, request: Request) -> Typed {
        let Request { verb, attempt } = request;
        let id = self.id(attempt);
        let (retention, binding) = (time(self.retention), self.binding);
        let value = Some(Value::from(&[attempt.token][..]));
        let to = match verb {
            Verb::Begin => {
                let AttemptId { token, fence: fence_seed, fingerprint, claim, .. } = id;
                return Typed::Begin(BeginRequest { token, fingerprint, fence_seed, claim });
            }
            Verb::Renew => Progress::Renewed { lease: time(self.lease) },
            Verb::Arm => Progress::Armed { linger: time(self.block_linger) },
            Verb::Complete => Progress::Completed { value, retention, if_gone: IfGone::Rewrite },
            Verb::CompleteLate => Progress::Completed { value, retention, if_gone: IfGone::Leave },
            Verb::Fail => Progress::Failed { failure: Failure::Free(binding), retention },
            Verb::FailFinal => Progress::Failed { failure: Failure::Final(value), retention },
            Verb::Abandon => Progress::Abandoned { retention, binding },
            Verb::Release => Progress::Released { retention, binding },
            Verb::ResolveSucceeded => {
                let resolution = Resolution::Succeeded(None);
                return Typed::Resolve(Resolve { resolution, retention });
            }
            Verb::ResolveRetry => {
                return Typed::Resolve(Resolve { resolution: Resolution::Retry, retention });
            }
        };
        Typed::Update(Update { attempt: id, to })
    }

    /// A record as a store shows it.
    pub(crate) fn found(&self, record: Record, ttl: Option<Ticks>) -> Found {
        let Record { attempt, state, payload, value } = record;
        let attempt = AttemptId { fingerprint: payload.map(fingerprint), ..self.id(attempt) };
        let value = value.map(|whose| Value::from(&[whose][..]));
        Found { head: Head { attempt, state }, value, ttl: ttl.map(time) }
    }

    /// The rest of the lease of a record that is being processed.
    pub(crate) fn lease_left(&self, kept: Kept) -> Ticks {
        ticks(self.found(kept.record, None).head.lease_left(time(kept.ttl)))
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
}

/// The body whose value this is.
fn whose(value: &Value) -> u8 {
    value.as_bytes()[0]
}

/// A record of the model.
pub(crate) fn abstracted(head: Head, value: Option<u8>) -> Record {
    let Head { attempt, state } = head;
    let payload = attempt.fingerprint.map(|it| it.to_bytes()[0]);
    Record { attempt: attempt_of(attempt), state, value, payload }
}

fn attempt_of(id: AttemptId) -> Attempt {
    let AttemptId { token, number, fence, claim, .. } = id;
    let small = |number: u64| u8::try_from(number).expect("the model's numbers are small");
    Attempt {
        token: token.to_bytes()[15].wrapping_add(NOBODY),
        number: small(number.into()),
        fence: small(fence),
        armed: claim.abandon() == Abandon::Block,
    }
}

pub(crate) fn begun(answer: &Begun) -> Answer {
    match answer {
        Begun::Fresh(attempt) => Answer::Fresh(attempt_of(*attempt)),
        Begun::InFlight { .. } => Answer::InFlight,
        Begun::Indeterminate { .. } => Answer::Indeterminate,
        Begun::Succeeded { value, .. } => Answer::Succeeded(value.as_ref().map(whose)),
        Begun::FailedFinal { value, .. } => Answer::FailedFinal(value.as_ref().map(whose)),
        Begun::Superseded => Answer::Superseded,
        Begun::Mismatch => Answer::Mismatch,
        Begun::Taken { .. } => unreachable!("nobody takes a window"),
    }
}

pub(crate) fn updated(answer: Updated, verb: Verb) -> Answer {
    match (answer, verb) {
        (Updated::Done, Verb::Arm | Verb::Renew) => Answer::Extended,
        (_, Verb::Arm | Verb::Renew) => Answer::Lost,
        (Updated::Done | Updated::DoneWithoutValue, _) => Answer::Done,
        (Updated::Vanished, _) => Answer::Vanished,
        (Updated::Gone, _) => Answer::Gone,
        (Updated::Superseded, _) => Answer::Superseded,
    }
}

pub(crate) fn resolved(answer: Resolved) -> Answer {
    match answer {
        Resolved::Done => Answer::Done,
        Resolved::NotFound => Answer::Vanished,
        Resolved::NotIndeterminate(_) => Answer::Superseded,
    }
}

fn fingerprint(payload: u8) -> Fingerprint {
    Fingerprint::from_bytes([payload; 16])
}

fn time(ticks: Ticks) -> Duration {
    Duration::from_secs(ticks.into())
}

pub(crate) fn ticks(time: Duration) -> Ticks {
    u8::try_from(time.as_secs()).expect("the model's times are short")
}
