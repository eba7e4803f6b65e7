//! The record that a store holds for one key, and its parts.
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
    /// The token of records that no attempt wrote.
    pub const NOBODY: Self = Self([0; 16]);

    /// A random token, unique in practice.
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
    /// The token of the caller that holds the grant.
    pub token: Token,
    /// 1 for the first attempt under a record, 2 for the next.
    pub number: u32,
    /// Greater than that of every earlier attempt under the same record.
    pub fence: u64,
    /// The fingerprint of the caller's payload, if it gave one.
    pub fingerprint: Option<Fingerprint>,
    /// The terms on which the key is held.
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

/// The state of a record.
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
    /// The state of the record.
    pub state: State,
}

impl Head {
    /// The record of an attempt that was granted.
    pub fn held_by(attempt: AttemptId) -> Self {
        let state = match attempt.claim {
            Claim::Lease { .. } => State::Processing,
            Claim::Window { .. } => State::Taken,
        };
        Self { attempt, state }
    }

    /// The rest of the lease of a record that still lives for `ttl`; zero when the lease is over.
    pub fn lease_left(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.attempt.claim.linger())
    }

    /// Returns `true` if a record that still lives for `ttl` keeps callers away until an operator
    /// resolves it: its attempt [blocks](Abandon::Block) the key, and was abandoned, or its process
    /// died and the lease is over.
    pub fn is_blocked(&self, ttl: Duration) -> bool {
        match self.state {
            State::Abandoned => true,
            State::Processing => {
                self.attempt.claim.abandon() == Abandon::Block && self.lease_left(ttl).is_zero()
            }
            State::FailedFree | State::FailedFinal | State::Succeeded | State::Taken => false,
        }
    }
}

/// A record as [`load`](super::Store::load) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The record without its value.
    pub head: Head,
    /// The stored answer, encoded; `None` where there is none or it was not kept.
    pub value: Option<Value>,
    /// The time that the record still lives.
    pub ttl: Duration,
}

impl Record {
    /// A record as a store reads it.
    pub fn new(head: Head, value: Option<Value>, ttl: Duration) -> Self {
        Self { head, value, ttl }
    }

    /// Returns `true` if the record keeps callers away until an operator resolves it: see
    /// [`Head::is_blocked`].
    pub fn is_blocked(&self) -> bool {
        self.head.is_blocked(self.ttl)
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

/// The terms on which a key is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// For one attempt, with a lease that is renewed until a terminal verb.
    Lease {
        /// The time for which other callers stay away after the grant or its last renewal.
        lease: Duration,
        /// The time that the record lives on after its lease.
        linger: Duration,
        /// The effect that an attempt that never ends has on the next one.
        abandon: Abandon,
    },
    /// For a fixed time; nothing follows.
    Window {
        /// The length of the window, from the moment it is granted.
        window: Duration,
    },
}

impl Claim {
    /// The time for which other callers stay away after the grant or its last renewal. Zero for a
    /// window, which has no lease.
    pub fn lease(&self) -> Duration {
        match *self {
            Self::Lease { lease, .. } => lease,
            Self::Window { .. } => Duration::ZERO,
        }
    }

    /// The time that the record lives on after its lease; for a window, the length of the window.
    pub fn linger(&self) -> Duration {
        match *self {
            Self::Lease { linger, .. } => linger,
            Self::Window { window } => window,
        }
    }

    /// The effect that an attempt that never ends has on the next one. The end of a window frees
    /// its key.
    pub fn abandon(&self) -> Abandon {
        match *self {
            Self::Lease { abandon, .. } => abandon,
            Self::Window { .. } => Abandon::Retry,
        }
    }

    /// The time to live of a record that is held on these terms and not renewed.
    pub fn ttl(&self) -> Duration {
        self.lease().saturating_add(self.linger())
    }
}
