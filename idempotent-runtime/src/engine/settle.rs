//! Records how attempts end, in the foreground, in the background, and after their caller has gone.

use super::backoff::Backoff;
use super::core::Core;
use super::lease::Lease;
use super::place::Place;
use super::slots::{Sent, Shared};
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{self, LoggedKey, StoreTimer, names};
use crate::race::{First, race};
use crate::store::{
    Answer, AttemptId, BeginRequest, Begun, Claim, CompleteRequest, Completed, Failure, Settled,
    StoreError, StoreErrorKind, Value,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The first pause between two tries in the background.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// For how long at most a `begin` is expected to arrive late.
const LONGEST_ORPHAN: Duration = Duration::from_secs(30);

/// How an attempt ends.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Complete { value: Option<Value>, retention: Duration },
    Fail(Failure),
    Abandon,
    Release,
}

impl Verb {
    fn name(&self) -> &'static str {
        match self {
            Self::Complete { .. } => "complete",
            Self::Fail(_) => "fail",
            Self::Abandon => "abandon",
            Self::Release => "release",
        }
    }
}

/// What the record says afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Recorded,
    /// Recorded, but there was no room for the value.
    RecordedWithoutValue,
    /// The record had vanished.
    Vanished,
    /// Another attempt had taken over.
    Superseded,
}

/// An end to be recorded.
#[derive(Debug)]
pub(crate) struct Settlement {
    core: Arc<Core>,
    lease: Arc<Lease>,
    place: Option<Box<Place>>,
    verb: Verb,
}

impl Settlement {
    pub(crate) fn new(
        core: Arc<Core>,
        lease: Arc<Lease>,
        place: Option<Box<Place>>,
        verb: Verb,
    ) -> Self {
        Self { core, lease, place, verb }
    }

    /// Records it in a local store.
    pub(crate) fn record_now(self) -> Result<Ended, StoreError> {
        let answer = self.send().now().unwrap_or_else(|| {
            let text = "the store says it is local, but did not answer at once";
            Err(StoreError::new(StoreErrorKind::Unavailable, text))
        });
        self.finish(answer)
    }

    /// Records it. If the first try fails the keeper goes on trying, and the error is returned.
    pub(crate) async fn record(self) -> Result<Ended, StoreError> {
        let timer = StoreTimer::start(&self.verb.name());
        let answer = self.send().await;
        timer.stop();
        self.finish(answer)
    }

    fn finish(self, answer: Result<Ended, StoreError>) -> Result<Ended, StoreError> {
        match answer {
            Ok(ended) => self.conclude(Some(ended)),
            Err(_) => {
                let core = Arc::clone(&self.core);
                core.keeper.spawn(self.persist());
            }
        }
        answer
    }

    /// Records it while nobody waits for it.
    pub(crate) fn record_behind(self) {
        if self.core.local {
            if let Err(error) = self.record_now() {
                tracing::warn!(target: "idempotent", %error, "the end of an attempt is not recorded");
            }
            return;
        }
        let core = Arc::clone(&self.core);
        core.keeper.spawn(async move { drop(self.record().await) });
    }

    /// Tries for as long as the lease can be held.
    async fn persist(self) {
        let mut backoff = Backoff::new(RETRY_PAUSE);
        loop {
            self.core.sleep_until(self.core.clock.now().after(backoff.pause())).await;
            // Looked at before the try, so that one more is made after the lease is lost.
            let last = self.lease.is_lost();
            match self.send().await {
                Ok(ended) => return self.conclude(Some(ended)),
                Err(error) if last => {
                    let operation: &str = &self.lease.operation;
                    let key = self.lease.logged_key(&self.core);
                    tracing::error!(
                        target: "idempotent", operation, key, %error,
                        "the end of an attempt was not recorded within its lease"
                    );
                    return self.conclude(None);
                }
                Err(_) => {}
            }
        }
    }

    fn send(&self) -> Sending<'_> {
        send(&self.core, &self.lease, &self.verb)
    }

    /// The lease is no longer renewed, and those who wait in this process are told.
    fn conclude(mut self, ended: Option<Ended>) {
        if let Some(place) = &mut self.place {
            let shared = shared(&self.verb, ended, self.lease.attempt.number);
            place.settle(self.lease.attempt.fingerprint, shared);
        }
        if let Some(ended) = ended {
            tell(&self.core, &self.lease, &self.verb, ended);
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        // Also when a store panics: an attempt that ends in no way is left to its lease.
        forget(&self.core, &self.lease);
    }
}

/// Records many ends, the completions among them in one go.
pub(crate) async fn record_many(
    core: Arc<Core>,
    settlements: Vec<Option<Settlement>>,
) -> Vec<Result<Ended, StoreError>> {
    let completion = |settlement: &Option<Settlement>| {
        let Settlement { lease, verb, .. } = settlement.as_ref()?;
        let Verb::Complete { value, retention } = verb else { return None };
        let Lease { key, attempt, .. } = &**lease;
        let (key, value) = (key.clone(), value.clone());
        Some(CompleteRequest { key, attempt: *attempt, value, retention: *retention })
    };
    let requests: Vec<_> = settlements.iter().filter_map(completion).collect();
    let timer = StoreTimer::start(&"complete");
    let mut completed = core.store.complete_many(&requests).await.into_iter();
    timer.stop();
    let mut ended = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        ended.push(match settlement {
            None => Ok(Ended::Recorded),
            Some(settlement) if matches!(settlement.verb, Verb::Complete { .. }) => {
                let answer = completed.next().unwrap_or_else(|| Err(not_recorded_yet()));
                settlement.finish(answer.map(Ended::from))
            }
            Some(settlement) => settlement.record().await,
        });
    }
    ended
}

/// Why the end of an attempt is not known to be recorded.
pub(crate) fn not_recorded_yet() -> StoreError {
    let text = "the store did not answer within a lease; recording goes on";
    StoreError::new(StoreErrorKind::Unavailable, text)
}

/// Records the end of an attempt in a local store, where nobody waits in a slot. `None` if the
/// store did not take it.
pub(crate) fn record_local(core: &Core, lease: &Lease, verb: &Verb) -> Option<Ended> {
    let timer = StoreTimer::start(&verb.name());
    let forgets = Forgets { core, lease };
    let Some(Ok(answer)) = send(core, lease, verb).now() else {
        // Tried again under this lease.
        std::mem::forget(forgets);
        return None;
    };
    timer.stop();
    drop(forgets);
    tell(core, lease, verb, answer);
    Some(answer)
}

/// Forgets a lease when it is dropped, also by a store that panics.
struct Forgets<'a> {
    core: &'a Core,
    lease: &'a Lease,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        forget(self.core, self.lease);
    }
}

/// The lease is no longer renewed.
fn forget(core: &Core, lease: &Lease) {
    let leases = core.keeper.leases();
    leases.remove(lease);
    core.keeper.attempt_ended();
    observe::in_flight(|| leases.count());
}

/// What is worth telling about how an end was recorded.
fn tell(core: &Core, lease: &Lease, verb: &Verb, ended: Ended) {
    let operation: &str = &lease.operation;
    match (ended, verb) {
        (Ended::RecordedWithoutValue, _) => {
            observe::rare(names::NOT_KEPT, &lease.operation);
            tracing::warn!(target: "idempotent", operation, "no room: the value is not kept");
        }
        (Ended::Vanished, Verb::Complete { .. }) => {
            observe::rare(names::VANISHED, &lease.operation);
            tracing::warn!(
                target: "idempotent", operation, key = lease.logged_key(core),
                "the record had vanished and was written again"
            );
        }
        _ => {}
    }
}

/// Sends the verb that ends an attempt.
fn send<'a>(core: &'a Core, lease: &'a Lease, verb: &Verb) -> Sending<'a> {
    let Lease { key, attempt, retention, .. } = lease;
    let store = &core.store;
    match verb {
        Verb::Complete { value, retention } => {
            Sending::Complete(store.complete(key, attempt, value.clone(), *retention))
        }
        Verb::Fail(failure) => {
            Sending::Settle(store.fail(key, attempt, failure.clone(), *retention))
        }
        Verb::Abandon => Sending::Settle(store.abandon(key, attempt, *retention)),
        Verb::Release => Sending::Settle(store.release(key, attempt, *retention)),
    }
}

/// What those who wait in this process may share. Only what the store acknowledged.
fn shared(verb: &Verb, ended: Option<Ended>, number: u32) -> Shared {
    match (verb, ended) {
        (Verb::Complete { value, .. }, Some(Ended::Recorded | Ended::Vanished)) => {
            Shared::Succeeded { number, value: value.clone() }
        }
        (Verb::Complete { .. }, Some(Ended::RecordedWithoutValue)) => {
            Shared::Succeeded { number, value: None }
        }
        (Verb::Fail(Failure::Final(value)), Some(Ended::Recorded)) => {
            Shared::FailedFinal { number, value: value.clone() }
        }
        // One that was superseded had lost its key before: nobody waited for it any more. What was
        // not acknowledged is counted by those who see it in the record.
        (Verb::Fail(_) | Verb::Abandon, Some(Ended::Recorded | Ended::Vanished)) => {
            Shared::Failed { number }
        }
        _ => Shared::Again,
    }
}

impl Lease {
    pub(crate) fn logged_key(&self, core: &Core) -> String {
        LoggedKey { key: &self.key, in_full: core.config.load().log_keys }.to_string()
    }

    pub(crate) fn error(&self, kind: ErrorKind, core: &Core) -> Error {
        Error::new(kind, &self.operation).with_key(self.logged_key(core))
    }
}

/// A terminal verb under way.
enum Sending<'a> {
    Complete(Answer<'a, Completed>),
    Settle(Answer<'a, Settled>),
}

impl Sending<'_> {
    /// The answer, if it is there already.
    fn now(self) -> Option<Result<Ended, StoreError>> {
        match self {
            Self::Complete(answer) => answer.now().ok().map(|answer| answer.map(Ended::from)),
            Self::Settle(answer) => answer.now().ok().map(|answer| answer.map(Ended::from)),
        }
    }
}

impl Future for Sending<'_> {
    type Output = Result<Ended, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Complete(answer) => {
                Pin::new(answer).poll(context).map(|answer| answer.map(Ended::from))
            }
            Self::Settle(answer) => {
                Pin::new(answer).poll(context).map(|answer| answer.map(Ended::from))
            }
        }
    }
}

impl From<Completed> for Ended {
    fn from(completed: Completed) -> Self {
        match completed {
            Completed::Stored => Self::Recorded,
            Completed::StoredWithoutValue => Self::RecordedWithoutValue,
            Completed::Vanished => Self::Vanished,
            Completed::Superseded => Self::Superseded,
        }
    }
}

impl From<Settled> for Ended {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Done => Self::Recorded,
            Settled::Vanished => Self::Vanished,
            Settled::Superseded => Self::Superseded,
        }
    }
}

/// A job in the foreground that the keeper finishes if its caller goes away.
pub(crate) struct Handoff<T: 'static> {
    core: Arc<Core>,
    job: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T> Handoff<T> {
    pub(crate) fn new(core: Arc<Core>, job: impl Future<Output = T> + Send + 'static) -> Self {
        Self { core, job: Some(Box::pin(job)) }
    }
}

impl<T> Future for Handoff<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out while it is polled: one that panics must not be polled again.
        let Some(mut job) = self.job.take() else { return Poll::Pending };
        let answer = job.as_mut().poll(context);
        if answer.is_pending() {
            self.job = Some(job);
        }
        answer
    }
}

impl<T> Drop for Handoff<T> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.core.keeper.spawn(async move { drop(job.await) });
        }
    }
}

/// Releases a `begin` whose caller has gone, or was refused, and whose body therefore never runs.
///
/// The `begin` may still be under way, so the release is repeated until the `begin` is known to
/// have been answered or a lease has passed.
pub(crate) fn release_orphan(core: &Arc<Core>, key: RecordKey, sent: Sent) {
    let job = release_until_gone(Arc::clone(core), key, sent);
    core.keeper.spawn(job);
}

/// As [`release_orphan`], and resolves when the `begin` has been answered and its release tried.
///
/// If this future is dropped, the keeper finishes it. The token cannot be handed on from here: a
/// release that was sent may take effect at any time, and would end whoever used the token again.
pub(crate) async fn release_first(core: &Arc<Core>, key: &RecordKey, sent: Sent) {
    let job = release_once(Arc::clone(core), key.clone(), sent);
    Handoff::new(Arc::clone(core), job).await;
}

async fn release_once(core: Arc<Core>, key: RecordKey, mut sent: Sent) {
    match grant(&core, &mut sent).await {
        Grant::No => return,
        Grant::Yes(attempt) => {
            if core.store.release(&key, &attempt, sent.retention).await.is_ok() {
                return;
            }
        }
        Grant::Unknown => {}
    }
    release_orphan(&core, key, sent);
}

/// For how long a `begin` that nobody uses could hold the key, and is expected to arrive late.
fn held_for(request: &BeginRequest) -> Duration {
    match request.claim {
        Claim::Lease { lease, .. } => lease.min(LONGEST_ORPHAN),
        Claim::Window { window } => window.min(LONGEST_ORPHAN),
    }
}

/// What became of a `begin` that nobody waits for any more.
enum Grant {
    Yes(AttemptId),
    No,
    /// It may have taken effect, now or later.
    Unknown,
}

async fn grant(core: &Core, sent: &mut Sent) -> Grant {
    let Some(begin) = sent.begin.take() else { return Grant::Unknown };
    let patience = core.sleep_until(core.clock.now().after(held_for(&sent.request)));
    let First::Left(answer) = race(begin, patience).await else { return Grant::Unknown };
    match answer {
        // An earlier copy of it was not answered, and may arrive yet.
        _ if sent.unanswered => Grant::Unknown,
        Ok(Begun::Fresh(attempt)) => Grant::Yes(attempt),
        Ok(_) => Grant::No,
        Err(error) => match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::NotReplicated => Grant::Unknown,
            _ => Grant::No,
        },
    }
}

async fn release_until_gone(core: Arc<Core>, key: RecordKey, mut sent: Sent) {
    let Sent { request, retention, .. } = sent;
    let (attempt, known) = match grant(&core, &mut sent).await {
        Grant::Yes(attempt) => (attempt, true),
        Grant::No => return,
        // Verbs compare by token; number and fence are those of the record.
        Grant::Unknown => (request.first_attempt(), false),
    };
    let length = held_for(&request);
    let until = core.clock.now().after(length);
    let mut backoff = Backoff::up_to(RETRY_PAUSE, length / 4);
    loop {
        match core.store.release(&key, &attempt, retention).await {
            Ok(_) if known => return,
            // A copy of the `begin` may arrive after this release as well.
            Ok(_) | Err(_) => {}
        }
        if core.clock.now() >= until {
            return;
        }
        core.sleep_until(core.clock.now().after(backoff.pause())).await;
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
