//! One record in memory, packed: a head of fixed size, and key and value in one allocation.

use crate::clock::Moment;
use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
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
    fingerprint: Option<Fingerprint>,
    state: State,
    abandon: Abandon,
    has_value: bool,
    number: u32,
    lease_ms: u32,
    /// The expiry bucket that holds this entry. See [`super::expiry`].
    pub(super) scheduled: u32,
    key_len: u32,
    key_and_value: Box<[u8]>,
}

impl Entry {
    pub(super) fn new(
        hash: u64,
        key: &str,
        head: &Head,
        expires: Moment,
        value: Option<&[u8]>,
    ) -> Self {
        Self {
            hash,
            expires,
            fence: head.attempt.fence,
            linger_ms: millis(head.linger),
            token: head.attempt.token,
            fingerprint: head.attempt.fingerprint,
            state: head.state,
            abandon: head.abandon,
            has_value: value.is_some(),
            number: head.attempt.number,
            lease_ms: u32::try_from(millis(head.lease)).unwrap_or(u32::MAX),
            scheduled: u32::MAX,
            // Keys are bounded far below this.
            key_len: u32::try_from(key.len()).unwrap_or(u32::MAX),
            key_and_value: match value {
                None => key.as_bytes().into(),
                Some(value) => [key.as_bytes(), value].concat().into(),
            },
        }
    }

    /// Becomes `head` with `value`.
    pub(super) fn update(&mut self, head: &Head, expires: Moment, value: Option<&[u8]>) {
        self.expires = expires;
        self.fence = head.attempt.fence;
        self.linger_ms = millis(head.linger);
        self.token = head.attempt.token;
        self.fingerprint = head.attempt.fingerprint;
        self.state = head.state;
        self.abandon = head.abandon;
        self.number = head.attempt.number;
        self.lease_ms = u32::try_from(millis(head.lease)).unwrap_or(u32::MAX);
        let has_value = value.is_some();
        if self.has_value || has_value {
            let value = value.unwrap_or_default();
            let mut bytes = std::mem::take(&mut self.key_and_value).into_vec();
            bytes.truncate(self.key_len as usize);
            bytes.reserve_exact(value.len());
            bytes.extend_from_slice(value);
            self.key_and_value = bytes.into_boxed_slice();
        }
        self.has_value = has_value;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn expires(&self) -> Moment {
        self.expires
    }

    pub(super) fn is_key(&self, hash: u64, key: &str) -> bool {
        self.hash == hash && &self.key_and_value[..self.key_len as usize] == key.as_bytes()
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
        self.has_value.then(|| Value::from(&self.key_and_value[self.key_len as usize..]))
    }

    /// What this entry costs: itself, its bytes, and its share of table and expiry index.
    pub(super) fn cost(&self) -> u64 {
        base_cost() + self.key_and_value.len() as u64
    }

    fn head(&self) -> Head {
        Head {
            attempt: AttemptId {
                token: self.token,
                number: self.number,
                fence: self.fence,
                fingerprint: self.fingerprint,
            },
            state: self.state,
            abandon: self.abandon,
            lease: Duration::from_millis(self.lease_ms.into()),
            linger: Duration::from_millis(self.linger_ms),
        }
    }
}

/// The cost of an entry without its key and value.
pub(super) fn base_cost() -> u64 {
    const TABLE_AND_EXPIRY: usize = 48;
    (size_of::<Entry>() + TABLE_AND_EXPIRY) as u64
}

fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(duration.subsec_millis().into())
}
