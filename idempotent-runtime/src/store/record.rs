//! What a store holds for one key, and what the verbs carry.
//!
//! Records hold no absolute time. A store knows how long a record still lives (its time to live),
//! and everything else follows from that: the lease of a processing record is alive while it has
//! more time to live than the record lingers after a lease.

use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
use crate::sync::rng;
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The random mark of one attempt. Its caller makes it before anything is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

impl Token {
    /// The mark of nobody: of records that no attempt wrote.
    pub const NOBODY: Self = Self([0; 16]);

    /// A token nobody else has.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        rng().fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// The token's bytes, for stores.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// A token read back from a store.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Token({})", crate::key::hex(&self.0))
    }
}

/// One grant to run the body. Later verbs carry all of it and are compared by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptId {
    /// Who holds the grant.
    pub token: Token,
    /// 1 for the first attempt under a record, 2 for the next.
    pub number: u32,
    /// Greater than that of every earlier attempt under the same record.
    pub fence: u64,
    /// What the caller's payload was, if it gave one.
    pub fingerprint: Option<Fingerprint>,
    /// How the key is held.
    pub claim: Claim,
}

impl AttemptId {
    /// The same attempt once its key is armed: an attempt that never ends blocks the key, and its
    /// record outlives the lease by `linger`. An attempt that is armed already, or that took a
    /// window, stays what it is.
    #[must_use]
    pub fn armed(self, linger: Duration) -> Self {
        match self.claim {
            Claim::Lease { lease, abandon: Abandon::Retry, .. } => {
                Self { claim: Claim::Lease { lease, linger, abandon: Abandon::Block }, ..self }
            }
            Claim::Lease { .. } | Claim::Window { .. } => self,
        }
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// An attempt was granted and has not ended.
    Processing,
    /// An attempt began, was dropped or panicked, and `abandon = "block"` keeps others away.
    Abandoned,
    /// The last attempt ended without an answer; the key is free for the next one. If the record has
    /// a fingerprint, only for one with the same payload, or with none.
    FailedFree,
    /// The body returned an error that is kept and replayed.
    FailedFinal,
    /// The body returned a value.
    Succeeded,
    /// Window mode: taken until the record expires.
    Taken,
}

/// A record without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The attempt that wrote the record last.
    pub attempt: AttemptId,
    /// Where the record stands.
    pub state: State,
}

impl Head {
    /// How much of the lease is left for a record that still lives for `ttl`; zero when it is over.
    pub fn lease_left(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.attempt.claim.linger())
    }
}

/// A record as [`get`](super::Store::get) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The record without its value.
    pub head: Head,
    /// The stored answer, encoded; `None` where there is none or it was not kept.
    pub value: Option<Value>,
    /// How long the record still lives.
    pub ttl: Duration,
}

impl Record {
    /// A record as a store reads it.
    pub fn new(head: Head, value: Option<Value>, ttl: Duration) -> Self {
        Self { head, value, ttl }
    }
}

/// Encoded bytes of an answer, shared rather than copied. `Debug` shows their number only.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Arc<[u8]>);

impl Value {
    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Value({} bytes)", self.0.len())
    }
}

/// What `begin` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeginRequest {
    /// The token of the attempt, if it is granted.
    pub token: Token,
    /// What the caller's payload is, if it matters.
    pub fingerprint: Option<Fingerprint>,
    /// The fence of a first attempt, and the least fence of a later one: Unix microseconds.
    pub fence_seed: u64,
    /// How the key is to be held.
    pub claim: Claim,
}

/// How a key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// For one attempt, with a lease that is renewed until a terminal verb.
    Lease {
        /// How long others stay away without a sign of life.
        lease: Duration,
        /// How long the record lives on after its lease.
        linger: Duration,
        /// What an attempt that never ends means for the next one.
        abandon: Abandon,
    },
    /// For a fixed time; nothing follows.
    Window {
        /// How long, from now.
        window: Duration,
    },
}

impl Claim {
    /// How long others stay away without a sign of life. A window has no lease.
    pub fn lease(&self) -> Duration {
        match *self {
            Self::Lease { lease, .. } => lease,
            Self::Window { .. } => Duration::ZERO,
        }
    }

    /// How long the record lives without a sign of life, the lease aside.
    pub fn linger(&self) -> Duration {
        match *self {
            Self::Lease { linger, .. } => linger,
            Self::Window { window } => window,
        }
    }

    /// What an attempt that never ends means for the next one. The end of a window frees its key.
    pub fn abandon(&self) -> Abandon {
        match *self {
            Self::Lease { abandon, .. } => abandon,
            Self::Window { .. } => Abandon::Retry,
        }
    }

    /// How long a record that is held like this lives if nothing follows.
    pub fn ttl(&self) -> Duration {
        self.lease().saturating_add(self.linger())
    }
}

impl BeginRequest {
    /// The attempt as which the body runs if this request is granted without a record.
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
    /// Somebody else runs it. `retry_after` is what is left of the lease.
    InFlight {
        /// The number of that attempt.
        number: u32,
        /// When asking again makes sense at the latest.
        retry_after: Duration,
    },
    /// The key is bound to another payload.
    Mismatch,
    /// An earlier attempt began and its outcome is unknown.
    Indeterminate {
        /// The number of that attempt.
        number: u32,
    },
    /// It succeeded before.
    Succeeded {
        /// The number of the attempt that did.
        number: u32,
        /// Its encoded answer.
        value: V,
    },
    /// It failed before, with an error that is kept.
    FailedFinal {
        /// The number of the attempt that did.
        number: u32,
        /// Its encoded error.
        value: V,
    },
    /// Window mode: taken until `retry_after` from now.
    Taken {
        /// When the window ends.
        retry_after: Duration,
    },
    /// This token was used and has ended: a `begin` that arrived late.
    Superseded,
}

impl Begun<()> {
    /// Adds the record's value to a final answer.
    pub fn with_value(self, read: impl FnOnce() -> Option<Value>) -> Begun {
        match self {
            Begun::Fresh(attempt) => Begun::Fresh(attempt),
            Begun::InFlight { number, retry_after } => Begun::InFlight { number, retry_after },
            Begun::Mismatch => Begun::Mismatch,
            Begun::Indeterminate { number } => Begun::Indeterminate { number },
            Begun::Succeeded { number, value: () } => Begun::Succeeded { number, value: read() },
            Begun::FailedFinal { number, value: () } => {
                Begun::FailedFinal { number, value: read() }
            }
            Begun::Taken { retry_after } => Begun::Taken { retry_after },
            Begun::Superseded => Begun::Superseded,
        }
    }
}

/// How a body that returned an error ends its attempt.
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

/// The answer to `arm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// The key is armed, and its lease renewed. The body may start.
    Done,
    /// The record is gone, ended, or another attempt's. The body must not start.
    Lost,
}

/// The answer to `complete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The record is `Succeeded`, by this attempt.
    Stored,
    /// The record is `Succeeded`, but there was no room for the value.
    StoredWithoutValue,
    /// The record had vanished and was written again.
    Vanished,
    /// The record had vanished and was not written again, as [`IfGone::Leave`] asks for.
    Gone,
    /// Another attempt, or another verb, ended it first. The record is untouched.
    Superseded,
}

/// The answer to `fail`, `abandon` and `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The record says so.
    Done,
    /// There was no record. Nothing was written.
    Vanished,
    /// Another attempt, or another verb, ended it first. The record is untouched.
    Superseded,
}

/// The answer to `renew`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is at least as long as asked for.
    Extended,
    /// The record is gone, ended, or another attempt's.
    Lost,
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

/// What an operator found out about an attempt whose outcome was unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution<V = Option<Value>> {
    /// It did happen; repeats get this answer.
    Succeeded(V),
    /// It did not happen; the next caller runs it.
    Retry,
}

/// The answer to `resolve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The record says so.
    Done,
    /// The outcome of the record is not unknown. It is untouched.
    NotIndeterminate(State),
    /// There is no record.
    NotFound,
}
