//! Records as columns of a table.
//!
//! Every part of a record has a column of its own, so that it can be read, and if need be changed,
//! by hand. Only `expires_at` is a time that decides anything; the database computes it.

use crate::client::{Param, Row, SqlError};
use idempotent_runtime::Abandon;
use idempotent_runtime::Fingerprint;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    AttemptId, Claim, Found, Head, Next, Seen, State, StoreError, StoreErrorKind, Swap, Token,
    Value,
};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

/// The columns of a head, in the order of [`HeadColumns::params`] and of [`read`].
pub(crate) const HEAD: [&str; 8] =
    ["state", "policy", "attempt", "fence", "lease_ms", "linger_ms", "token", "fingerprint"];

/// The longest key that is its own name in the table: that of an index of MySQL.
const LONGEST_KEY: usize = 700;
/// Start of the name of a longer key. No composed key begins with it and has no bar.
const HASHED: &str = "#sha256:";
/// The most characters of an operation or a business key that are written beside the key.
const LONGEST_LABEL: usize = 200;

/// The longest life of a record: that of a date in MySQL, with room for the present.
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(7_000 * 365 * 24 * 3_600);

const STATES: [(State, &str); 6] = [
    (State::Processing, "processing"),
    (State::Abandoned, "abandoned"),
    (State::FailedFree, "free"),
    (State::FailedFinal, "failed"),
    (State::Succeeded, "succeeded"),
    (State::Taken, "taken"),
];

/// A key as the table holds it.
#[derive(Debug)]
pub(crate) struct KeyColumns<'a> {
    /// The primary key.
    pub(crate) name: Cow<'a, [u8]>,
    whole: &'a RecordKey,
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn of(key: &'a RecordKey) -> Self {
        let text = key.as_str().as_bytes();
        if text.len() <= LONGEST_KEY {
            return Self { name: Cow::Borrowed(text), whole: key };
        }
        let mut name = String::from(HASHED);
        for byte in Sha256::digest(text) {
            let _ = write!(name, "{byte:02x}");
        }
        Self { name: Cow::Owned(name.into_bytes()), whole: key }
    }

    /// The key itself.
    #[cfg(feature = "postgres")]
    pub(crate) fn whole(&self) -> &'a RecordKey {
        self.whole
    }

    /// The whole key, if its name is a hash.
    pub(crate) fn long_key(&self) -> Option<&'a [u8]> {
        matches!(self.name, Cow::Owned(_)).then_some(self.whole.as_str().as_bytes())
    }

    /// The operation, for people.
    pub(crate) fn operation(&self) -> Cow<'a, str> {
        match self.whole.operation() {
            Cow::Borrowed(name) => label(name),
            Cow::Owned(name) => Cow::Owned(label(&name).into_owned()),
        }
    }

    /// The function's own key, for people.
    pub(crate) fn business_key(&self) -> Cow<'a, str> {
        label(self.whole.business_key())
    }

    /// The number of the advisory lock that transactions hold on this key.
    pub(crate) fn lock(&self, table: &str) -> i64 {
        let digest = Sha256::new().chain_update(table).chain_update([0]).chain_update(&self.name);
        let mut number = [0; 8];
        number.copy_from_slice(&digest.finalize()[..8]);
        i64::from_be_bytes(number)
    }
}

/// A text as far as every database keeps it: short, and without NUL.
fn label(text: &str) -> Cow<'_, str> {
    let end = text.char_indices().nth(LONGEST_LABEL).map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text.into() }
}

/// The key of a row.
pub(crate) fn read_key(
    name: Option<Vec<u8>>,
    long_key: Option<Vec<u8>>,
) -> Result<RecordKey, SqlError> {
    let bytes = long_key.or(name).unwrap_or_default();
    match String::from_utf8(bytes) {
        Ok(text) => Ok(RecordKey::from(text.as_str())),
        Err(_) => Err(SqlError::unexpected("a key is not UTF-8")),
    }
}

/// A head as the table holds it.
#[derive(Debug)]
pub(crate) struct HeadColumns {
    state: &'static str,
    policy: &'static str,
    attempt: i64,
    fence: i64,
    lease: i64,
    linger: i64,
    token: [u8; 16],
    fingerprint: Option<[u8; 16]>,
}

impl HeadColumns {
    pub(crate) fn of(head: &Head) -> Self {
        let AttemptId { token, number, fence, fingerprint, claim } = head.attempt;
        let policy = match claim {
            Claim::Lease { abandon: Abandon::Block, .. } => "block",
            Claim::Lease { .. } => "retry",
            Claim::Window { .. } => "window",
        };
        Self {
            state: state_name(head.state),
            policy,
            attempt: number.into(),
            // Unix microseconds, mostly; a greater one is negative in the table and comes back.
            fence: fence.cast_signed(),
            lease: millis(claim.lease()),
            linger: millis(claim.linger()),
            token: token.to_bytes(),
            fingerprint: fingerprint.map(Fingerprint::to_bytes),
        }
    }

    /// The values, in the order of [`HEAD`].
    pub(crate) fn params(&self) -> [Param<'_>; 8] {
        [
            self.state.into(),
            self.policy.into(),
            self.attempt.into(),
            self.fence.into(),
            self.lease.into(),
            self.linger.into(),
            self.token.as_slice().into(),
            self.fingerprint.as_ref().map(<[u8; 16]>::as_slice).into(),
        ]
    }
}

/// The kind of statement that makes a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwapKind {
    /// Writes a record where there is none: key, labels, head, response, life.
    Insert,
    /// Replaces a record: key, head that is seen, longest life, head, response, life.
    Update,
    /// Extends its life: key, head that is seen, longest life, life.
    Extend,
    /// Removes it: key, head that is seen, longest life.
    Delete,
    /// Shows it: key. There is nothing to extend or remove.
    Show,
}

/// A swap as the parameters of its statement.
#[derive(Debug)]
pub(crate) struct SwapColumns<'a> {
    pub(crate) kind: SwapKind,
    key: &'a KeyColumns<'a>,
    labels: Option<[Cow<'a, str>; 2]>,
    seen: Option<(HeadColumns, Option<i64>)>,
    next: Option<(HeadColumns, Option<&'a [u8]>)>,
    life: Option<i64>,
    #[cfg(feature = "postgres")]
    settles: bool,
}

impl<'a> SwapColumns<'a> {
    pub(crate) fn of(key: &'a KeyColumns<'a>, swap: &'a Swap) -> Self {
        let seen = match &swap.seen {
            Seen::Nothing => None,
            Seen::This { head, at_most } => Some((HeadColumns::of(head), at_most.map(micros))),
        };
        let (next, life) = match &swap.next {
            Next::Put { head, value, ttl, .. } => {
                let value = value.as_ref().map(Value::as_bytes);
                (Some((HeadColumns::of(head), value)), Some(micros(*ttl)))
            }
            Next::Extend { ttl } => (None, Some(micros(*ttl))),
            Next::Nothing => (None, None),
        };
        let kind = match (&swap.seen, &swap.next) {
            (Seen::Nothing, Next::Put { .. }) => SwapKind::Insert,
            (Seen::Nothing, _) => SwapKind::Show,
            (_, Next::Put { .. }) => SwapKind::Update,
            (_, Next::Extend { .. }) => SwapKind::Extend,
            (_, Next::Nothing) => SwapKind::Delete,
        };
        let labels = next.is_some().then(|| [key.operation(), key.business_key()]);
        #[cfg(feature = "postgres")]
        let settles = match (&swap.seen, &swap.next) {
            (Seen::This { head, at_most: None }, Next::Put { head: next, .. }) => {
                head.state == State::Processing && head.attempt == next.attempt
            }
            _ => false,
        };
        Self {
            kind,
            key,
            labels,
            seen,
            next,
            life,
            #[cfg(feature = "postgres")]
            settles,
        }
    }

    /// The parameters of an update that ends an attempt and changes nothing else of it: key, next
    /// state, then the state, policy and token that are seen, response, life.
    #[cfg(feature = "postgres")]
    pub(crate) fn settle_params(&self) -> Option<[Param<'_>; 7]> {
        let (Some((seen, _)), Some((next, value))) = (&self.seen, &self.next) else { return None };
        self.settles.then(|| {
            [
                (&*self.key.name).into(),
                next.state.into(),
                seen.state.into(),
                seen.policy.into(),
                seen.token.as_slice().into(),
                (*value).into(),
                self.life.into(),
            ]
        })
    }

    /// The parameters, in the order that the [kind](SwapKind) says.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let mut params = Vec::with_capacity(24);
        params.push((&*self.key.name).into());
        if self.kind == SwapKind::Show {
            return params;
        }
        if self.kind == SwapKind::Insert {
            self.push_labels(&mut params);
        }
        self.push_seen(&mut params);
        self.push_next(&mut params);
        params
    }

    /// The parameters of an update that inserts where there is no record: those of an insert, then
    /// the head that is seen and the longest life.
    #[cfg(feature = "postgres")]
    pub(crate) fn insert_or_update_params(&self) -> Vec<Param<'_>> {
        let mut params = Vec::with_capacity(24);
        params.push((&*self.key.name).into());
        self.push_labels(&mut params);
        self.push_next(&mut params);
        self.push_seen(&mut params);
        params
    }

    fn push_labels<'p>(&'p self, params: &mut Vec<Param<'p>>) {
        if let Some([operation, business_key]) = &self.labels {
            params.push(Param::Bytes(self.key.long_key()));
            params.extend([Param::from(&**operation), Param::from(&**business_key)]);
        }
    }

    fn push_seen<'p>(&'p self, params: &mut Vec<Param<'p>>) {
        if let Some((head, at_most)) = &self.seen {
            params.extend(head.params());
            params.push((*at_most).into());
        }
    }

    fn push_next<'p>(&'p self, params: &mut Vec<Param<'p>>) {
        if let Some((head, value)) = &self.next {
            params.extend(head.params());
            params.push((*value).into());
        }
        if let Some(life) = self.life {
            params.push(life.into());
        }
    }
}

fn state_name(state: State) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("unknown", |(_, name)| name)
}

/// Milliseconds of a lease or a linger, as [`wire`](idempotent_runtime::store::wire) writes them.
fn millis(time: Duration) -> i64 {
    idempotent_runtime::store::wire::millis(time).cast_signed()
}

/// Microseconds of a life, as statements take them.
pub(crate) fn micros(life: Duration) -> i64 {
    i64::try_from(life.min(LONGEST_LIFE).as_micros()).unwrap_or(i64::MAX)
}

/// The head of a row, from the columns of [`HEAD`].
pub(crate) fn read_head(row: &mut Row) -> Result<Head, SqlError> {
    let state = row.text()?.unwrap_or_default();
    let state = STATES.iter().find(|(_, name)| *name == state).map(|(state, _)| *state);
    let policy = row.text()?.unwrap_or_default();
    let attempt = row.integer()?.and_then(|number| u32::try_from(number).ok());
    let fence = row.integer()?.map(i64::cast_unsigned);
    let lease = time(row.integer()?);
    let linger = time(row.integer()?);
    let token = row.bytes()?.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let fingerprint = match row.bytes()? {
        None => Some(None),
        Some(bytes) => <[u8; 16]>::try_from(bytes).ok().map(Some),
    };
    let damaged = |what: &str| SqlError::unexpected(format!("the record is damaged: {what}"));
    let claim = match (&*policy, lease, linger) {
        ("retry", Some(lease), Some(linger)) => {
            Claim::Lease { lease, linger, abandon: Abandon::Retry }
        }
        ("block", Some(lease), Some(linger)) => {
            Claim::Lease { lease, linger, abandon: Abandon::Block }
        }
        ("window", _, Some(window)) => Claim::Window { window },
        (_, Some(_), Some(_)) => return Err(damaged("its policy is unknown")),
        _ => return Err(damaged("its lease or linger is negative")),
    };
    let attempt = AttemptId {
        token: Token::from_bytes(token.ok_or_else(|| damaged("its token has not 16 bytes"))?),
        number: attempt.ok_or_else(|| damaged("its attempt is not a number"))?,
        fence: fence.ok_or_else(|| damaged("it has no fence"))?,
        fingerprint: fingerprint
            .ok_or_else(|| damaged("its fingerprint has not 16 bytes"))?
            .map(Fingerprint::from_bytes),
        claim,
    };
    Ok(Head { attempt, state: state.ok_or_else(|| damaged("its state is unknown"))? })
}

/// A record of a row: the columns of [`HEAD`], the response, and the microseconds that it still
/// lives.
pub(crate) fn read_record(row: &mut Row) -> Result<Found, SqlError> {
    let head = read_head(row)?;
    let value = row.bytes()?.map(Value::from);
    let ttl = life(row.integer()?);
    Ok(Found { head, value, ttl: Some(ttl) })
}

/// The error of a row that cannot be read as a record.
pub(crate) fn damaged(error: SqlError) -> StoreError {
    StoreError::new(StoreErrorKind::Undecodable, error.to_string()).with_source(error)
}

/// The life of a row, from its microseconds.
pub(crate) fn life(micros: Option<i64>) -> Duration {
    Duration::from_micros(micros.and_then(|micros| u64::try_from(micros).ok()).unwrap_or_default())
}

fn time(millis: Option<i64>) -> Option<Duration> {
    millis.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Cell;

    fn cells(columns: &HeadColumns) -> Vec<Cell> {
        let cell = |param: &Param<'_>| match *param {
            Param::Integer(Some(value)) => Cell::Integer(value),
            Param::Bytes(Some(value)) => Cell::Bytes(value.to_vec()),
            Param::Text(Some(value)) => Cell::Text(value.to_owned()),
            _ => Cell::Null,
        };
        columns.params().iter().map(cell).collect()
    }

    #[test]
    fn every_head_comes_back() {
        let second = Duration::from_secs(1);
        let lease = |abandon| Claim::Lease { lease: second, linger: second * 60, abandon };
        let window = Claim::Window { window: second };
        for (state, _) in STATES {
            for claim in [lease(Abandon::Retry), lease(Abandon::Block), window] {
                for fingerprint in [None, Some(Fingerprint::of("payload"))] {
                    let (token, number, fence) = (Token::random(), u32::MAX, u64::MAX);
                    let attempt = AttemptId { token, number, fence, fingerprint, claim };
                    let head = Head { attempt, state };
                    let mut row = Row::new(cells(&HeadColumns::of(&head)));
                    assert_eq!(read_head(&mut row).unwrap(), head);
                }
            }
        }
    }

    #[test]
    fn a_long_key_has_a_short_name_and_is_kept_whole() {
        let key = RecordKey::from("x".repeat(701).as_str());
        let columns = KeyColumns::of(&key);
        assert_eq!(columns.name.len(), HASHED.len() + 64);
        let read = read_key(Some(columns.name.to_vec()), columns.long_key().map(<[u8]>::to_vec));
        assert_eq!(read.unwrap(), key);
        let key = RecordKey::from("x".repeat(700).as_str());
        assert_eq!(KeyColumns::of(&key).long_key(), None);
    }

    #[test]
    fn labels_are_short_and_have_no_nul() {
        let key = RecordKey::from("p|a\0b|42");
        assert_eq!(KeyColumns::of(&key).operation(), "a\u{fffd}b");
        assert_eq!(KeyColumns::of(&key).business_key(), "42");
        assert_eq!(label(&"ä".repeat(300)).chars().count(), LONGEST_LABEL);
    }
}
