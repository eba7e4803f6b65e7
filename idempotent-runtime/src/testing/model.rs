//! The state table as a store of one record, and calls for it and for a real store.

use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::protocol::table::Write;
use crate::protocol::{
    BeginRequest, Begun, Binding, Forget, Forgotten, Progress, Request, Resolve, Resolved,
    StoreExt as _, Update, Updated,
};
use crate::store::{AttemptId, Found, Record, Store, StoreError};
use std::time::Duration;

/// A request of any kind.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Begin(BeginRequest),
    Update(Update),
    Forget(Forget),
    Resolve(Resolve),
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Begun(Begun),
    Updated(Updated),
    Forgotten(Forgotten),
    Resolved(Resolved),
}

impl Call {
    /// A report on an attempt by its holder.
    pub(super) fn update(attempt: AttemptId, to: Progress) -> Self {
        Self::Update(Update { attempt, to })
    }

    pub(super) async fn send(
        &self,
        store: &dyn Store,
        key: &RecordKey,
    ) -> Result<Reply, StoreError> {
        Ok(match self.clone() {
            Self::Begin(request) => Reply::Begun(store.execute(key, request).await?),
            Self::Update(update) => Reply::Updated(store.execute(key, update).await?),
            Self::Forget(forget) => Reply::Forgotten(store.execute(key, forget).await?),
            Self::Resolve(resolve) => Reply::Resolved(store.execute(key, resolve).await?),
        })
    }
}

impl Reply {
    /// `true` if a store may give this answer where the table gives `expected`.
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

/// `true` if `left` is the rest of `expected` after at most `slack`.
pub(super) fn is_left(left: Duration, expected: Duration, slack: Duration) -> bool {
    left <= expected && left >= expected.saturating_sub(slack)
}

/// `true` if a store may return this record where the table has `expected`.
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

/// The state table, applied to one record.
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
        match call {
            Call::Begin(request) => Reply::Begun(self.apply(request)),
            Call::Update(update) => Reply::Updated(self.apply(update)),
            Call::Forget(forget) => Reply::Forgotten(self.apply(forget)),
            Call::Resolve(resolve) => Reply::Resolved(self.apply(resolve)),
        }
    }

    fn apply<R: Request>(&mut self, request: &R) -> R::Answer {
        let found = self.record.clone().map(Found::from);
        let (answer, write) = request.step(found);
        match write {
            Write::Keep => {}
            Write::Delete => self.record = None,
            Write::Extend { ttl } => {
                if let Some(record) = &mut self.record {
                    record.ttl = record.ttl.max(ttl);
                }
            }
            Write::Put { head, ttl } => {
                self.record = Some(Record::new(head, request.value().cloned(), ttl));
            }
        }
        answer
    }
}

/// Both bindings that the verbs which free a key can carry.
pub(super) const BINDINGS: [Binding; 2] = [Binding::Lifted, Binding::Kept];

/// Two payloads that differ.
pub(super) fn payloads() -> [Fingerprint; 2] {
    [Fingerprint::of("one"), Fingerprint::of("two")]
}
