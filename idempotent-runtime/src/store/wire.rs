//! Bytes of a record, for stores that keep bytes. `docs/wire-format.md` is their description; tests
//! freeze them.
//!
//! The bytes of a held record follow from its attempt alone, so its holder can name them
//! without reading them first. They begin with the [`VERSION`] of the format; the byte at
//! [`RESERVED`] is zero here and is the store's own to use.
//!
//! ```
//! use idempotent_runtime::store::wire;
//! # use idempotent_runtime::Abandon;
//! # use idempotent_runtime::store::{AttemptId, Claim, Head, State, Token, Value};
//! # use std::time::Duration;
//! # let second = Duration::from_secs(1);
//! # let claim = Claim::Lease { lease: second, linger: second, abandon: Abandon::Retry };
//! # let token = Token::random();
//! # let attempt = AttemptId { token, number: 1, fence: 1, fingerprint: None, claim };
//! # let head = Head { attempt, state: State::Succeeded };
//! let value = Value::from(&b"answer"[..]);
//! let bytes = wire::encode(&head, Some(&value));
//! assert_eq!(wire::decode(&bytes)?, (head, Some(value)));
//! # Ok::<_, idempotent_runtime::store::StoreError>(())
//! ```

use crate::config::Abandon;
use crate::fingerprint::Fingerprint;
use crate::store::{AttemptId, Claim, Head, State, StoreError, StoreErrorKind, Token, Value};
use std::time::Duration;

/// The first byte of every record that this version reads and writes.
pub const VERSION: u8 = 1;
/// The most bytes that a record has before its value.
pub const HEAD_MAX: usize = 64;
/// The place of the byte that is the store's own.
pub const RESERVED: usize = 2;

const BLOCK: u8 = 0b0001;
const WINDOW: u8 = 0b0010;
const FINGERPRINT: u8 = 0b0100;
const VALUE: u8 = 0b1000;

/// The longest time that is written, in milliseconds: over 8,000 years.
const MAX_MILLIS: u64 = 1 << 48;

/// A state and its letter.
const STATES: [(State, u8); 6] = [
    (State::Processing, b'P'),
    (State::Abandoned, b'A'),
    (State::FailedFree, b'F'),
    (State::FailedFinal, b'E'),
    (State::Succeeded, b'S'),
    (State::Taken, b'T'),
];

/// The bytes of a record.
pub fn encode(head: &Head, value: Option<&Value>) -> Vec<u8> {
    let start = HeadBytes::of(head, value.is_some());
    let value = value.map_or(&[][..], Value::as_bytes);
    let mut bytes = Vec::with_capacity(start.as_slice().len() + value.len());
    bytes.extend(start.as_slice());
    bytes.extend(value);
    bytes
}

/// The bytes of a record before its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadBytes {
    bytes: [u8; HEAD_MAX],
    length: usize,
}

impl HeadBytes {
    pub(crate) fn of(head: &Head, has_value: bool) -> Self {
        let AttemptId { token, number, fence, fingerprint, claim } = head.attempt;
        let letter =
            STATES.iter().find(|(state, _)| *state == head.state).map_or(b'?', |(_, it)| *it);
        let mut flags = match claim {
            Claim::Lease { abandon: Abandon::Retry, .. } => 0,
            Claim::Lease { abandon: Abandon::Block, .. } => BLOCK,
            Claim::Window { .. } => WINDOW,
        };
        if fingerprint.is_some() {
            flags |= FINGERPRINT;
        }
        if has_value {
            flags |= VALUE;
        }
        let mut start = Self { bytes: [0; HEAD_MAX], length: 0 };
        start.push([VERSION, letter, 0, flags]);
        start.push(token.to_bytes());
        start.push(number.to_be_bytes());
        start.push(fence.to_be_bytes());
        start.push(millis(claim.lease()).to_be_bytes());
        start.push(millis(claim.linger()).to_be_bytes());
        if let Some(fingerprint) = fingerprint {
            start.push(fingerprint.to_bytes());
        }
        start
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += N;
    }
}

/// A record as it was written.
///
/// # Errors
/// [`StoreErrorKind::Undecodable`]: the bytes are damaged, or those of another version.
pub fn decode(bytes: &[u8]) -> Result<(Head, Option<Value>), StoreError> {
    let (head, rest) = read(bytes)?;
    Ok((head, rest.map(Value::from)))
}

/// The head of a record and the length of its value, from its beginning and its whole length. The
/// beginning is all of the record, or more than [`HEAD_MAX`] bytes of it.
///
/// # Errors
/// [`StoreErrorKind::Undecodable`]: the bytes are damaged, or those of another version.
pub fn decode_head(start: &[u8], whole: u64) -> Result<(Head, Option<u64>), StoreError> {
    let (head, rest) = read(start)?;
    let value = rest.map(|rest| whole.saturating_sub((start.len() - rest.len()) as u64));
    Ok((head, value))
}

/// The head of a record, and what follows it if that is a value.
fn read(bytes: &[u8]) -> Result<(Head, Option<&[u8]>), StoreError> {
    match bytes.first() {
        Some(&VERSION) => {}
        Some(version) => {
            let text = format!("the record has format version {version}, not {VERSION}");
            return Err(StoreError::new(StoreErrorKind::Undecodable, text));
        }
        None => return Err(damaged("it is empty")),
    }
    let mut reader = Reader(&bytes[1..]);
    let [letter, reserved, flags] = reader.take()?;
    let (state, _) = STATES
        .into_iter()
        .find(|(_, known)| *known == letter)
        .ok_or_else(|| damaged("its state is unknown"))?;
    if reserved != 0 {
        return Err(damaged("its reserved byte is in use"));
    }
    let token = Token::from_bytes(reader.take()?);
    let number = u32::from_be_bytes(reader.take()?);
    let fence = u64::from_be_bytes(reader.take()?);
    let (lease, linger) = (reader.time()?, reader.time()?);
    let claim = match flags & (BLOCK | WINDOW) {
        0 => Claim::Lease { lease, linger, abandon: Abandon::Retry },
        BLOCK => Claim::Lease { lease, linger, abandon: Abandon::Block },
        WINDOW if lease.is_zero() => Claim::Window { window: linger },
        WINDOW => return Err(damaged("it is a window with a lease")),
        _ => return Err(damaged("its flags contradict each other")),
    };
    if flags & !(BLOCK | WINDOW | FINGERPRINT | VALUE) != 0 {
        return Err(damaged("its flags are unknown"));
    }
    let fingerprint = match flags & FINGERPRINT {
        0 => None,
        _ => Some(Fingerprint::from_bytes(reader.take()?)),
    };
    let value = match (flags & VALUE, reader.0) {
        (0, []) => None,
        (0, _) => return Err(damaged("it is too long")),
        (_, rest) => Some(rest),
    };
    let attempt = AttemptId { token, number, fence, fingerprint, claim };
    Ok((Head { attempt, state }, value))
}

/// A time as it is written and sent: whole milliseconds, rounded up.
pub fn millis(time: Duration) -> u64 {
    let whole = u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(MAX_MILLIS);
    whole.min(MAX_MILLIS)
}

fn damaged(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Undecodable, format!("the record is damaged: {what}"))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(|| damaged("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn time(&mut self) -> Result<Duration, StoreError> {
        match u64::from_be_bytes(self.take()?) {
            millis @ ..=MAX_MILLIS => Ok(Duration::from_millis(millis)),
            _ => Err(damaged("its times are too long")),
        }
    }
}

/// `true` if `bytes` are a record. If they are, they are what is written for it: a store that
/// compares bytes would otherwise miss its own record.
#[cfg(feature = "testing")]
pub(crate) fn is_sound(bytes: &[u8]) -> bool {
    let Ok((head, value)) = decode(bytes) else { return false };
    assert_eq!(bytes, encode(&head, value.as_ref()), "a record is written as it was read");
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hex;

    fn head(state: State, claim: Claim) -> Head {
        let attempt = AttemptId {
            token: Token::from_bytes(*b"0123456789abcdef"),
            number: 2,
            fence: 0x0006_0504_0302_0100,
            fingerprint: None,
            claim,
        };
        Head { attempt, state }
    }

    fn lease(abandon: Abandon) -> Claim {
        let lease = Duration::from_secs(30);
        Claim::Lease { lease, linger: Duration::from_secs(300), abandon }
    }

    /// Version, state, mark, flags, token, number, fence, lease, linger, fingerprint, value.
    #[test]
    fn the_format_is_frozen() {
        let processing = head(State::Processing, lease(Abandon::Retry));
        assert_eq!(
            hex(&encode(&processing, None)),
            "01500000303132333435363738396162636465660000000200060504030201000000000000007530\
             00000000000493e0"
        );
        let mut succeeded = head(State::Succeeded, lease(Abandon::Block));
        succeeded.attempt.fingerprint = Some(Fingerprint::from_bytes([7; 16]));
        assert_eq!(
            hex(&encode(&succeeded, Some(&Value::from(&b"value"[..])))),
            "0153000d303132333435363738396162636465660000000200060504030201000000000000007530\
             00000000000493e00707070707070707070707070707070776616c7565"
        );
        let window = Claim::Window { window: Duration::from_secs(5) };
        assert_eq!(
            hex(&encode(&head(State::Taken, window), None)),
            "01540002303132333435363738396162636465660000000200060504030201000000000000000000\
             0000000000001388"
        );
    }

    /// A free key that is bound to its payload is the record of a free key with a fingerprint. Versions
    /// that know no such keys read it, and run whatever payload comes.
    #[test]
    fn the_format_of_a_free_key_is_frozen() {
        let mut free = head(State::FailedFree, lease(Abandon::Retry));
        let unbound = "01460000303132333435363738396162636465660000000200060504030201000000000000007530\
             00000000000493e0";
        assert_eq!(hex(&encode(&free, None)), unbound);
        free.attempt.fingerprint = Some(Fingerprint::from_bytes([7; 16]));
        let bound = "01460004303132333435363738396162636465660000000200060504030201000000000000007530\
             00000000000493e007070707070707070707070707070707";
        assert_eq!(hex(&encode(&free, None)), bound);
    }

    #[test]
    fn every_record_comes_back() {
        let window = Claim::Window { window: Duration::from_secs(5) };
        let long = Some(Value::from(vec![7; 500]));
        let values = [None, Some(Value::from(&b""[..])), Some(Value::from(&b"value"[..])), long];
        for (state, _) in STATES {
            for claim in [lease(Abandon::Retry), lease(Abandon::Block), window] {
                for fingerprint in [None, Some(Fingerprint::of("payload"))] {
                    for value in &values {
                        let mut head = head(state, claim);
                        head.attempt.fingerprint = fingerprint;
                        let bytes = encode(&head, value.as_ref());
                        assert_eq!(decode(&bytes).unwrap(), (head, value.clone()));
                        let length = value.as_ref().map(|it| it.as_bytes().len() as u64);
                        let start = &bytes[..bytes.len().min(HEAD_MAX + 1)];
                        let from_start = decode_head(start, bytes.len() as u64);
                        assert_eq!(from_start.unwrap(), (head, length));
                    }
                }
            }
        }
    }

    #[test]
    fn a_record_of_another_version_is_refused() {
        let mut bytes = encode(&head(State::Succeeded, lease(Abandon::Retry)), None);
        bytes[0] = 2;
        let error = decode(&bytes).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Undecodable);
        assert_eq!(error.to_string(), "the record has format version 2, not 1");
    }

    #[test]
    fn damaged_records_are_refused_and_not_misread() {
        let whole = encode(&head(State::Processing, lease(Abandon::Retry)), None);
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "cut to {length} bytes");
        }
        for (at, byte) in [(1, b'Z'), (RESERVED, 1), (3, BLOCK | WINDOW), (3, 0x10)] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            assert!(decode(&bytes).is_err(), "byte {at} is {byte}");
        }
        assert!(decode(&[&whole[..], b"x"].concat()).is_err(), "one byte too many");
        let mut window = whole.clone();
        window[3] = WINDOW;
        assert!(decode(&window).is_err(), "a window with a lease");
        let mut endless = whole;
        endless[32] = 0xff;
        assert!(decode(&endless).is_err(), "a lease of half a billion years");
    }

    #[test]
    fn times_are_whole_milliseconds_and_never_shorter_than_asked_for() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(5)), 5);
        assert_eq!(millis(Duration::MAX), MAX_MILLIS);
    }
}
