//! The state table as a store of one record, and calls that can be made on it and on a real one.

use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::store::table::{self, Living, Write};
use crate::store::{
    Armed, AttemptId, BeginRequest, Begun, Binding, Completed, Failure, Forgotten, IfGone, Record,
    Renewed, Resolution, Resolved, Settled, Store, StoreError, Value,
};
use std::time::Duration;

/// One call of a store, with all that it carries.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Begin(BeginRequest),
    Arm(AttemptId, Duration),
    Complete(AttemptId, Option<Value>, Duration, IfGone),
    Fail(AttemptId, Failure, Duration),
    Abandon(AttemptId, Duration, Binding),
    Release(AttemptId, Duration, Binding),
    Renew(AttemptId, Duration),
    Forget { force: bool },
    Resolve(Resolution, Duration),
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Begun(Begun),
    Armed(Armed),
    Completed(Completed),
    Settled(Settled),
    Renewed(Renewed),
    Forgotten(Forgotten),
    Resolved(Resolved),
}

impl Call {
    pub(super) async fn send(
        &self,
        store: &dyn Store,
        key: &RecordKey,
    ) -> Result<Reply, StoreError> {
        Ok(match self.clone() {
            Self::Begin(request) => Reply::Begun(store.begin(key, &request).await?),
            Self::Arm(attempt, linger) => Reply::Armed(store.arm(key, &attempt, linger).await?),
            Self::Complete(attempt, value, retention, if_gone) => {
                Reply::Completed(store.complete(key, &attempt, value, retention, if_gone).await?)
            }
            Self::Fail(attempt, failure, retention) => {
                Reply::Settled(store.fail(key, &attempt, failure, retention).await?)
            }
            Self::Abandon(attempt, retention, binding) => {
                Reply::Settled(store.abandon(key, &attempt, retention, binding).await?)
            }
            Self::Release(attempt, retention, binding) => {
                Reply::Settled(store.release(key, &attempt, retention, binding).await?)
            }
            Self::Renew(attempt, lease) => Reply::Renewed(store.renew(key, &attempt, lease).await?),
            Self::Forget { force } => Reply::Forgotten(store.forget(key, force).await?),
            Self::Resolve(resolution, retention) => {
                Reply::Resolved(store.resolve(key, resolution, retention).await?)
            }
        })
    }

    fn value(&self) -> Option<Value> {
        match self {
            Self::Complete(_, value, _, _)
            | Self::Fail(_, Failure::Final(value), _)
            | Self::Resolve(Resolution::Succeeded(value), _) => value.clone(),
            _ => None,
        }
    }
}

impl Reply {
    /// Whether a store may answer this where the table says `expected`.
    pub(super) fn agrees(&self, expected: &Self, slack: Duration) -> bool {
        match (self, expected) {
            (
                Self::Begun(Begun::InFlight { number, retry_after: left }),
                Self::Begun(Begun::InFlight { number: running, retry_after: expected }),
            ) => number == running && is_left(*left, *expected, slack),
            (
                Self::Begun(Begun::Taken { retry_after: left }),
                Self::Begun(Begun::Taken { retry_after: expected }),
            ) => is_left(*left, *expected, slack),
            _ => self == expected,
        }
    }
}

/// Whether `left` is what is left of `expected` after at most `slack`.
pub(super) fn is_left(left: Duration, expected: Duration, slack: Duration) -> bool {
    left <= expected && left >= expected.saturating_sub(slack)
}

/// Whether a store may show this record where the table says `expected`.
pub(super) fn records_agree(
    shown: Option<&Record>,
    expected: Option<&Record>,
    slack: Duration,
) -> bool {
    match (shown, expected) {
        (None, None) => true,
        (Some(shown), Some(expected)) => {
            shown.head == expected.head
                && shown.value == expected.value
                && is_left(shown.ttl, expected.ttl, slack)
        }
        _ => false,
    }
}

/// What the table says about one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    record: Option<Record>,
}

impl Model {
    pub(super) fn of(record: Option<Record>) -> Self {
        Self { record }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    pub(super) fn step(&mut self, by: Duration) {
        self.record = self.record.take().and_then(|record| {
            let ttl = record.ttl.saturating_sub(by);
            (!ttl.is_zero()).then_some(Record { ttl, ..record })
        });
    }

    pub(super) fn answer(&mut self, call: &Call) -> Reply {
        let record =
            self.record.as_ref().map(|record| Living { head: record.head, ttl: record.ttl });
        let (reply, write) = match call {
            Call::Begin(request) => {
                let (answer, write) = table::begin(record, request);
                let value = || self.record.as_ref().and_then(|record| record.value.clone());
                (Reply::Begun(answer.with_value(value)), write)
            }
            Call::Arm(attempt, linger) => with(Reply::Armed, table::arm(record, attempt, *linger)),
            Call::Complete(attempt, _, retention, if_gone) => {
                with(Reply::Completed, table::complete(record, attempt, *retention, *if_gone))
            }
            Call::Fail(attempt, failure, retention) => {
                with(Reply::Settled, table::fail(record, attempt, failure, *retention))
            }
            Call::Abandon(attempt, retention, binding) => {
                with(Reply::Settled, table::abandon(record, attempt, *retention, *binding))
            }
            Call::Release(attempt, retention, binding) => {
                with(Reply::Settled, table::release(record, attempt, *retention, *binding))
            }
            Call::Renew(attempt, lease) => {
                with(Reply::Renewed, table::renew(record, attempt, *lease))
            }
            Call::Forget { force } => with(Reply::Forgotten, table::forget(record, *force)),
            Call::Resolve(resolution, retention) => {
                with(Reply::Resolved, table::resolve(record, resolution, *retention))
            }
        };
        match write {
            Write::Keep => {}
            Write::Delete => self.record = None,
            Write::Put { head, ttl } => self.record = Some(Record::new(head, call.value(), ttl)),
        }
        reply
    }
}

fn with<A>(wrap: fn(A) -> Reply, (answer, write): table::Step<A>) -> (Reply, Write) {
    (wrap(answer), write)
}

/// Both bindings that a verb which frees a key can carry.
pub(super) const BINDINGS: [Binding; 2] = [Binding::Lifted, Binding::Kept];

/// Two payloads that differ.
pub(super) fn payloads() -> [Fingerprint; 2] {
    [Fingerprint::of("one"), Fingerprint::of("two")]
}
