//! One record in memory, packed. Key and value are shared with whoever brought them.

use crate::clock::Moment;
use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::store::table::Living;
use crate::store::{AttemptId, Head, State, Token, Value};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Entry {
    hash: u64,
    expires: Moment,
    fence: u64,
    linger_ms: u64,
    token: Token,
    /// Boxed: most records have none.
    fingerprint: Option<Box<Fingerprint>>,
    key: RecordKey,
    value: Option<Value>,
    number: u32,
    lease_ms: u32,
    /// The expiry bucket that holds this entry. See [`super::expiry`].
    pub(super) scheduled: u32,
    state: State,
    abandon: Abandon,
}

impl Entry {
    pub(super) fn new(
        hash: u64,
        key: RecordKey,
        head: &Head,
        expires: Moment,
        value: Option<Value>,
    ) -> Self {
        Self {
            hash,
            expires,
            fence: head.attempt.fence,
            linger_ms: millis(head.linger),
            token: head.attempt.token,
            fingerprint: head.attempt.fingerprint.map(Box::new),
            key,
            value,
            number: head.attempt.number,
            lease_ms: u32::try_from(millis(head.lease)).unwrap_or(u32::MAX),
            scheduled: u32::MAX,
            state: head.state,
            abandon: head.abandon,
        }
    }

    /// Becomes `head` with `value`.
    pub(super) fn update(&mut self, head: &Head, expires: Moment, value: Option<Value>) {
        self.expires = expires;
        self.fence = head.attempt.fence;
        self.linger_ms = millis(head.linger);
        self.token = head.attempt.token;
        if self.fingerprint.as_deref() != head.attempt.fingerprint.as_ref() {
            self.fingerprint = head.attempt.fingerprint.map(Box::new);
        }
        self.value = value;
        self.number = head.attempt.number;
        self.lease_ms = u32::try_from(millis(head.lease)).unwrap_or(u32::MAX);
        self.state = head.state;
        self.abandon = head.abandon;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn expires(&self) -> Moment {
        self.expires
    }

    pub(super) fn is_key(&self, hash: u64, key: &RecordKey) -> bool {
        self.hash == hash && self.key == *key
    }

    /// Whether an answer, rather than somebody's right to run, would be lost with this entry.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.state, State::Succeeded | State::FailedFinal)
    }

    pub(super) fn living(&self, now: Moment) -> Option<Living> {
        let ttl = self.expires.since(now);
        (!ttl.is_zero()).then(|| Living { head: self.head(), ttl })
    }

    pub(super) fn value(&self) -> Option<Value> {
        self.value.clone()
    }

    /// What this entry costs: itself, its bytes, and its share of table and expiry index.
    pub(super) fn cost(&self) -> u64 {
        let value = self.value.as_ref().map_or(0, value_cost);
        let fingerprint = self.fingerprint.as_ref().map_or(0, |_| ALLOCATION);
        key_cost(&self.key) + value + fingerprint
    }

    fn head(&self) -> Head {
        Head {
            attempt: AttemptId {
                token: self.token,
                number: self.number,
                fence: self.fence,
                fingerprint: self.fingerprint.as_deref().copied(),
            },
            state: self.state,
            abandon: self.abandon,
            lease: Duration::from_millis(self.lease_ms.into()),
            linger: Duration::from_millis(self.linger_ms),
        }
    }
}

/// What an allocation costs beside its bytes: two counters, the allocator's own word, rounding.
const ALLOCATION: u64 = 32;

/// The cost of an entry without a value.
pub(super) fn key_cost(key: &RecordKey) -> u64 {
    const TABLE_AND_EXPIRY: u64 = 40;
    size_of::<Entry>() as u64 + TABLE_AND_EXPIRY + ALLOCATION + key.as_str().len() as u64
}

/// What a value adds to the cost of an entry.
pub(super) fn value_cost(value: &Value) -> u64 {
    ALLOCATION + value.as_bytes().len() as u64
}

fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(duration.subsec_millis().into())
}
