//! Requests: the verbs with their arguments, and their answers.

use super::table::{self, Living, Step};
use crate::fingerprint::Fingerprint;
use crate::store::{AttemptId, Claim, Found, Head, State, Token, Value, Verb, WhenFull};
use std::time::Duration;

/// A verb with its arguments.
///
/// [`table`] defines its answer for each record, and the change to the record; [`super::Exchange`]
/// executes it on a store.
pub trait Request: Sync {
    /// The answer of the verb.
    type Answer: Send;

    /// The name of the verb.
    fn verb(&self) -> Verb;

    /// The record that it expects before the store is asked.
    fn expects(&self) -> Expected;

    /// The answer for a record, and the change to the record.
    fn step(&self, found: Option<Found>) -> Step<Self::Answer>;

    /// `true` if the answer for this record depends on its remaining time to live.
    fn depends_on_life(&self, head: &Head) -> bool {
        let _ = head;
        false
    }

    /// The value that it writes.
    fn value(&self) -> Option<&Value> {
        None
    }

    /// The treatment of its write by a store that is full.
    fn when_full(&self) -> WhenFull {
        WhenFull::Take
    }

    /// `true` if an answer that wrote nothing relies on an earlier write.
    fn relies_on_record(answer: &Self::Answer) -> bool;

    /// The answer if the store had no room for the value.
    #[must_use]
    fn without_value(answer: Self::Answer) -> Self::Answer {
        answer
    }
}

/// The record that a request expects before the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No record.
    Nothing,
    /// The record that the sender holds.
    Held(Head),
    /// Any record: it is loaded first.
    Any,
}

/// The request to begin an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginRequest {
    /// The token of the attempt, if it is granted.
    pub token: Token,
    /// The fingerprint of the caller's payload, if the payload matters.
    pub fingerprint: Option<Fingerprint>,
    /// The fence of a first attempt, and the least fence of a later one: Unix microseconds.
    pub fence_seed: u64,
    /// The claim to the key: a lease or a window.
    pub claim: Claim,
}

impl BeginRequest {
    /// The attempt that is granted if there is no record.
    pub fn first_attempt(&self) -> AttemptId {
        self.attempt(1, self.fence_seed)
    }

    pub(crate) fn attempt(&self, number: u32, fence: u64) -> AttemptId {
        let Self { token, fingerprint, claim, .. } = *self;
        AttemptId { token, number, fence, fingerprint, claim }
    }
}

/// The answer to `begin`. `V` is the value that comes with a final answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun<V = Option<Value>> {
    /// The body may run, as this attempt.
    Fresh(AttemptId),
    /// Another attempt is running.
    InFlight {
        /// The number of that attempt.
        number: u32,
        /// The rest of its lease, after which asking again makes sense at the latest.
        retry_after: Duration,
    },
    /// The key is bound to another payload.
    Mismatch,
    /// An earlier attempt began and its outcome is unknown.
    Indeterminate {
        /// The number of that attempt.
        number: u32,
    },
    /// An earlier attempt succeeded.
    Succeeded {
        /// The number of that attempt.
        number: u32,
        /// Its encoded answer.
        value: V,
    },
    /// An earlier attempt failed, with an error that is kept.
    FailedFinal {
        /// The number of that attempt.
        number: u32,
        /// Its encoded error.
        value: V,
    },
    /// The window is taken (window mode).
    Taken {
        /// The time until the window ends.
        retry_after: Duration,
    },
    /// The attempt with this token has ended: the `begin` arrived late.
    Superseded,
}

/// The end of an attempt whose body returned an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The key is free for the next attempt, with any payload or with the same one.
    Free(Binding),
    /// The error is kept and replayed; `None` if it could not be encoded.
    Final(Option<Value>),
}

/// The payload that the next attempt may carry, once an attempt has ended without an answer.
///
/// The verbs that free a key carry it, and the record shows it: a [`State::FailedFree`] record that
/// has a fingerprint is bound to it. An operator who frees a key always lifts the binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Any payload: the record loses its fingerprint.
    #[default]
    Lifted,
    /// The same payload, or none: the record keeps its fingerprint, if it has one.
    Kept,
}

/// The treatment of a record that is gone when the answer of its attempt arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfGone {
    /// It is written again. For an attempt that still holds its lease: no other can have run.
    Rewrite,
    /// It stays gone. For an attempt that has lost its lease: another one may have succeeded since,
    /// and an operator may have removed that answer.
    Leave,
}

/// A report on an attempt by its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The attempt. A record belongs to it if it has the same token.
    pub attempt: AttemptId,
    /// The progress of the attempt.
    pub to: Progress,
}

/// The progress of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The body is about to start, and blocks its key if it does not end.
    Armed {
        /// The time for which the record lives on after its lease.
        linger: Duration,
    },
    /// The body still runs.
    Renewed {
        /// The lease, from now on.
        lease: Duration,
    },
    /// The body returned a value.
    Completed {
        /// The encoded answer.
        value: Option<Value>,
        /// The time for which the answer is kept.
        retention: Duration,
        /// The treatment of a record that is gone.
        if_gone: IfGone,
    },
    /// The body returned an error.
    Failed {
        /// The treatment of the key and of the error.
        failure: Failure,
        /// The time for which the record is kept.
        retention: Duration,
    },
    /// The body started, and was dropped or panicked.
    Abandoned {
        /// The time for which the record is kept if the key is free.
        retention: Duration,
        /// The payload that may follow in that case.
        binding: Binding,
    },
    /// The body never started.
    Released {
        /// The time for which the record of a later attempt is kept.
        retention: Duration,
        /// The payload that may follow in that case.
        binding: Binding,
    },
}

/// The answer to an [`Update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updated {
    /// The record shows the progress.
    Done,
    /// The record shows the progress, but the store had no room for the value.
    DoneWithoutValue,
    /// There was no record. A completion has written it again; no other update has.
    Vanished,
    /// There was no record, and the completion has not written one, because of [`IfGone::Leave`].
    Gone,
    /// Another attempt, or another verb, ended it first. The record is untouched.
    ///
    /// For an arming or a renewal: the attempt no longer holds its key, for any reason.
    Superseded,
}

/// An operator's request to remove a record, or with `force` to free one that is held. It lifts the
/// binding of a free key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forget {
    /// `true` to free the key even if an attempt holds it.
    pub force: bool,
}

/// An operator's request to end an attempt whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// The outcome.
    pub resolution: Resolution,
    /// The time for which the record is kept.
    pub retention: Duration,
}

/// The answer to `forget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// The record is gone.
    Deleted,
    /// The key is free, and an attempt that held it is superseded. The record stays, so that this
    /// attempt cannot write its answer after all.
    Freed,
    /// An attempt holds the key and `force` was not set. The record is untouched.
    Held,
    /// There was no record.
    NotFound,
}

/// The outcome of an attempt, as established by an operator.
///
/// ```
/// use idempotent_runtime::protocol::Resolved;
/// use idempotent_runtime::{Error, Idempotency, Resolution};
///
/// /// Settles a transfer by what the bank's books say.
/// async fn settle(idem: &Idempotency, transfer: u64, receipt: Option<String>) -> Result<Resolved, Error> {
///     let transfer = idem.operation("money.wire").key(transfer);
///     match &receipt {
///         Some(receipt) => transfer.resolve(Resolution::Succeeded(Some(receipt))).await,
///         None => transfer.resolve::<String>(Resolution::Retry).await,
///     }
/// }
/// # drop(settle);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<V = Option<Value>> {
    /// The attempt took effect; repeat calls get this answer.
    Succeeded(V),
    /// The attempt had no effect; the next call runs the body.
    Retry,
}

/// The answer to `resolve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The record shows the outcome.
    Done,
    /// The outcome is known, or the attempt is still running. The record is untouched.
    NotIndeterminate(State),
    /// There is no record.
    NotFound,
}

impl Request for BeginRequest {
    type Answer = Begun;

    fn verb(&self) -> Verb {
        Verb::Begin
    }

    fn expects(&self) -> Expected {
        Expected::Nothing
    }

    // Inlined, here and below, into the decision that a local store runs under its lock: heads are
    // large to copy.
    #[inline(always)]
    fn step(&self, found: Option<Found>) -> Step<Begun> {
        let record = found.as_ref().map(living);
        table::begin(record, found.and_then(|found| found.value), self)
    }

    fn depends_on_life(&self, head: &Head) -> bool {
        // Tried with an unlimited life: an answer that a lease or a window causes depends on the
        // rest of it.
        let record = Living { head: *head, ttl: Duration::MAX };
        let (answer, _) = table::begin(Some(record), (), self);
        matches!(answer, Begun::InFlight { .. } | Begun::Taken { .. })
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Refuse
    }

    fn relies_on_record(answer: &Begun) -> bool {
        // Granted to an earlier copy of this request, whose write may not have reached the
        // replicas.
        matches!(answer, Begun::Fresh(_))
    }
}

impl Request for Update {
    type Answer = Updated;

    fn verb(&self) -> Verb {
        match &self.to {
            Progress::Armed { .. } => Verb::Arm,
            Progress::Renewed { .. } => Verb::Renew,
            Progress::Completed { .. } => Verb::Complete,
            Progress::Failed { .. } => Verb::Fail,
            Progress::Abandoned { .. } => Verb::Abandon,
            Progress::Released { .. } => Verb::Release,
        }
    }

    fn expects(&self) -> Expected {
        Expected::Held(Head::held_by(self.attempt))
    }

    #[inline(always)]
    fn step(&self, found: Option<Found>) -> Step<Updated> {
        let record = found.as_ref().map(living);
        let attempt = &self.attempt;
        match &self.to {
            Progress::Armed { linger } => table::arm(record, attempt, *linger),
            Progress::Renewed { lease } => table::renew(record, attempt, *lease),
            Progress::Completed { retention, if_gone, .. } => {
                table::complete(record, attempt, *retention, *if_gone)
            }
            Progress::Failed { failure, retention } => {
                table::fail(record, attempt, failure, *retention)
            }
            Progress::Abandoned { retention, binding } => {
                table::abandon(record, attempt, *retention, *binding)
            }
            Progress::Released { retention, binding } => {
                table::release(record, attempt, *retention, *binding)
            }
        }
    }

    fn value(&self) -> Option<&Value> {
        match &self.to {
            Progress::Completed { value, .. }
            | Progress::Failed { failure: Failure::Final(value), .. } => value.as_ref(),
            _ => None,
        }
    }

    fn when_full(&self) -> WhenFull {
        match self.to {
            Progress::Armed { .. } => WhenFull::Refuse,
            _ => WhenFull::Take,
        }
    }

    fn relies_on_record(answer: &Updated) -> bool {
        *answer == Updated::Done
    }

    fn without_value(answer: Updated) -> Updated {
        match answer {
            Updated::Done => Updated::DoneWithoutValue,
            other => other,
        }
    }
}

impl Request for Forget {
    type Answer = Forgotten;

    fn verb(&self) -> Verb {
        Verb::Forget
    }

    fn expects(&self) -> Expected {
        Expected::Any
    }

    fn step(&self, found: Option<Found>) -> Step<Forgotten> {
        table::forget(found.as_ref().map(living), self.force)
    }

    fn depends_on_life(&self, _: &Head) -> bool {
        true
    }

    fn relies_on_record(answer: &Forgotten) -> bool {
        *answer == Forgotten::Freed
    }
}

impl Request for Resolve {
    type Answer = Resolved;

    fn verb(&self) -> Verb {
        Verb::Resolve
    }

    fn expects(&self) -> Expected {
        Expected::Any
    }

    fn step(&self, found: Option<Found>) -> Step<Resolved> {
        table::resolve(found.as_ref().map(living), &self.resolution, self.retention)
    }

    fn depends_on_life(&self, head: &Head) -> bool {
        head.state == State::Processing
    }

    fn value(&self) -> Option<&Value> {
        match &self.resolution {
            Resolution::Succeeded(value) => value.as_ref(),
            Resolution::Retry => None,
        }
    }

    fn relies_on_record(answer: &Resolved) -> bool {
        *answer == Resolved::Done
    }
}

/// The record as the table takes it. A life that is not known does not matter for the answer.
fn living(found: &Found) -> Living {
    Living { head: found.head, ttl: found.ttl.unwrap_or(Duration::MAX) }
}
