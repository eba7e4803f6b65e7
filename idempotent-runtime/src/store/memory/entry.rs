//! One record in memory, packed. Key and value are shared with whoever brought them.

use crate::clock::Moment;
use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::store::{AttemptId, Claim, Head, Listed, State, Token, Value};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Entry {
    expires: Moment,
    /// A fence has 53 bits; state and policy lie above it.
    fence: Packed<FENCE_BITS>,
    /// The linger in milliseconds has 42 bits; the number of the attempt lies above it.
    linger_ms: Packed<LINGER_BITS>,
    token: Token,
    /// Boxed: most records have none.
    fingerprint: Option<Box<Fingerprint>>,
    key: RecordKey,
    value: Option<Value>,
    lease_ms: u32,
    /// The expiry bucket that holds this entry. See [`super::expiry`].
    pub(super) scheduled: u32,
}

const FENCE_BITS: u32 = 56;
const LINGER_BITS: u32 = 42;

/// Two numbers in one word: `LOW` bits and what lies above. Each is cut off at what it can hold.
#[derive(Clone, Copy, Debug)]
struct Packed<const LOW: u32>(u64);

impl<const LOW: u32> Packed<LOW> {
    const LOW_MAX: u64 = (1 << LOW) - 1;
    const HIGH_MAX: u64 = (1 << (64 - LOW)) - 1;

    fn new(low: u64, high: u64) -> Self {
        Self(low.min(Self::LOW_MAX) | (high.min(Self::HIGH_MAX) << LOW))
    }

    fn low(self) -> u64 {
        self.0 & Self::LOW_MAX
    }

    fn high(self) -> u64 {
        self.0 >> LOW
    }
}

/// The states in the order of their numbers.
const STATES: [State; 6] = [
    State::Processing,
    State::Abandoned,
    State::FailedFree,
    State::FailedFinal,
    State::Succeeded,
    State::Taken,
];

const BLOCK: u64 = 0b0_1000;
const WINDOW: u64 = 0b1_0000;

fn state_and_policy(head: &Head) -> u64 {
    let state = STATES.iter().position(|state| *state == head.state).unwrap_or(0) as u64;
    state
        | match head.attempt.claim {
            Claim::Lease { abandon: Abandon::Retry, .. } => 0,
            Claim::Lease { abandon: Abandon::Block, .. } => BLOCK,
            Claim::Window { .. } => WINDOW,
        }
}

fn packed_fence(head: &Head) -> Packed<FENCE_BITS> {
    Packed::new(head.attempt.fence, state_and_policy(head))
}

fn packed_linger(head: &Head) -> Packed<LINGER_BITS> {
    Packed::new(millis(head.attempt.claim.linger()), head.attempt.number.into())
}

fn packed_lease(head: &Head) -> u32 {
    u32::try_from(millis(head.attempt.claim.lease())).unwrap_or(u32::MAX)
}

impl Entry {
    pub(super) fn new(key: RecordKey, head: &Head, expires: Moment, value: Option<Value>) -> Self {
        let mut entry = Self {
            expires,
            fence: Packed(0),
            linger_ms: Packed(0),
            token: head.attempt.token,
            fingerprint: None,
            key,
            value: None,
            lease_ms: 0,
            scheduled: u32::MAX,
        };
        entry.update(head, expires, value);
        entry
    }

    /// Becomes `head` with `value`.
    pub(super) fn update(&mut self, head: &Head, expires: Moment, value: Option<Value>) {
        self.expires = expires;
        self.fence = packed_fence(head);
        self.linger_ms = packed_linger(head);
        self.token = head.attempt.token;
        if self.fingerprint.as_deref() != head.attempt.fingerprint.as_ref() {
            self.fingerprint = head.attempt.fingerprint.map(Box::new);
        }
        self.value = value;
        self.lease_ms = packed_lease(head);
    }

    pub(super) fn expires(&self) -> Moment {
        self.expires
    }

    pub(super) fn is_key(&self, key: &RecordKey) -> bool {
        self.key == *key
    }

    /// `true` if the entry holds an answer, rather than the right of an attempt to run.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.state(), State::Succeeded | State::FailedFinal)
    }

    /// The time that it still lives; `None` if that is over.
    pub(super) fn life(&self, now: Moment) -> Option<Duration> {
        let ttl = self.expires.since(now);
        (!ttl.is_zero()).then_some(ttl)
    }

    /// Lives until then, or longer if it would anyway.
    pub(super) fn extend(&mut self, expires: Moment) {
        self.expires = self.expires.max(expires);
    }

    /// `true` if `head` is what this entry says, as far as it is kept.
    pub(super) fn is_head(&self, head: &Head) -> bool {
        let [fence, linger_ms] = [self.fence.0, self.linger_ms.0];
        self.token == head.attempt.token
            && fence == packed_fence(head).0
            && linger_ms == packed_linger(head).0
            && self.lease_ms == packed_lease(head)
            && self.fingerprint.as_deref() == head.attempt.fingerprint.as_ref()
    }

    pub(super) fn value(&self) -> Option<Value> {
        self.value.clone()
    }

    /// This entry as a scan lists it, unless its time is over.
    pub(super) fn listed(&self, now: Moment) -> Option<Listed> {
        let value_bytes = self.value.as_ref().map(|value| value.as_bytes().len() as u64);
        Some(Listed::new(self.key.clone(), self.head(), self.life(now)?, value_bytes))
    }

    /// The memory cost of this entry: itself, its bytes, and its share of table and expiry index.
    pub(super) fn cost(&self) -> u64 {
        let value = self.value.as_ref().map_or(0, value_cost);
        let fingerprint = self.fingerprint.as_ref().map_or(0, |_| ALLOCATION);
        key_cost(&self.key) + value + fingerprint
    }

    fn state(&self) -> State {
        let number = (self.fence.high() & !(BLOCK | WINDOW)) as usize;
        STATES.get(number).copied().unwrap_or(State::Processing)
    }

    pub(super) fn head(&self) -> Head {
        Head {
            attempt: AttemptId {
                token: self.token,
                number: u32::try_from(self.linger_ms.high()).unwrap_or(u32::MAX),
                fence: self.fence.low(),
                fingerprint: self.fingerprint.as_deref().copied(),
                claim: self.claim(),
            },
            state: self.state(),
        }
    }

    fn claim(&self) -> Claim {
        let linger = Duration::from_millis(self.linger_ms.low());
        let flags = self.fence.high();
        if flags & WINDOW != 0 {
            return Claim::Window { window: linger };
        }
        let abandon = if flags & BLOCK == 0 { Abandon::Retry } else { Abandon::Block };
        Claim::Lease { lease: Duration::from_millis(self.lease_ms.into()), linger, abandon }
    }
}

/// The overhead of an allocation beside its bytes: two counters, the allocator's own word,
/// rounding.
const ALLOCATION: u64 = 32;

/// The cost of an entry without a value.
pub(super) fn key_cost(key: &RecordKey) -> u64 {
    const TABLE_AND_EXPIRY: u64 = 56;
    size_of::<Entry>() as u64 + TABLE_AND_EXPIRY + ALLOCATION + key.as_str().len() as u64
}

/// The cost that a value adds to its entry.
pub(super) fn value_cost(value: &Value) -> u64 {
    ALLOCATION + value.as_bytes().len() as u64
}

fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        for state in STATES {
            let linger = crate::config::LONGEST;
            let lease = Duration::from_secs(24 * 3_600);
            for claim in [
                Claim::Lease { lease, linger, abandon: Abandon::Retry },
                Claim::Lease { lease, linger, abandon: Abandon::Block },
                Claim::Window { window: linger },
            ] {
                let head = Head {
                    attempt: AttemptId {
                        token: Token::random(),
                        number: 77,
                        fence: (1 << 53) - 1,
                        fingerprint: Some(Fingerprint::of("payload")),
                        claim,
                    },
                    state,
                };
                let now = Moment::from_nanos(5);
                let expires = now.after(Duration::from_secs(1));
                let entry = Entry::new(RecordKey::from("k"), &head, expires, None);
                assert_eq!(entry.head(), head);
                assert!(entry.is_head(&head));
            }
        }
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 88, "{} bytes", size_of::<Entry>());
    }
}
