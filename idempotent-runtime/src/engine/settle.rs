//! Records how attempts end, in the foreground, in the background, and after their caller has gone.

use super::backoff::Backoff;
use super::begin::not_local;
use super::core::Core;
use super::lease::Lease;
use super::place::Place;
use super::release::{self, Copies, Unused};
use super::slots::Shared;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind};
use crate::observe::{self, LoggedKey, StoreTimer, names};
use crate::protocol::{Failure, IfGone, Progress, StoreExt as _, Update, Updated};
use crate::race::{First, race};
use crate::store::future::all;
use crate::store::{Answer, StoreError, StoreErrorKind, StoreFuture, Value, Verb};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The first pause between two tries in the background.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two tries to record an end. A server that comes back gets all that
/// waits for it within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The longest time for which a try in the background is waited for.
const LONGEST_TRY: Duration = Duration::from_secs(30);

/// How an attempt ends.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Complete { value: Option<Value>, retention: Duration },
    Fail(Failure),
    Abandon,
    Release,
}

impl End {
    fn verb(&self) -> Verb {
        match self {
            Self::Complete { .. } => Verb::Complete,
            Self::Fail(_) => Verb::Fail,
            Self::Abandon => Verb::Abandon,
            Self::Release => Verb::Release,
        }
    }

    /// The size of the value that it carries.
    fn bytes(&self) -> usize {
        match self {
            Self::Complete { value: Some(value), .. } | Self::Fail(Failure::Final(Some(value))) => {
                value.as_bytes().len()
            }
            _ => 0,
        }
    }
}

/// The loss if the end of an attempt is never recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    /// An answer, or the freedom of a key that blocks.
    Answer,
    /// The rest of a lease, after a body that may have had effects.
    Lease,
    /// The rest of a lease, before any body started.
    Release,
}

/// An end to be recorded.
#[derive(Debug)]
pub(crate) struct Settlement {
    core: Arc<Core>,
    lease: Arc<Lease>,
    place: Option<Box<Place>>,
    end: End,
}

impl Settlement {
    pub(crate) fn new(
        core: Arc<Core>,
        lease: Arc<Lease>,
        place: Option<Box<Place>>,
        end: End,
    ) -> Self {
        Self { core, lease, place, end }
    }

    /// Records it in a local store.
    pub(crate) fn record_now(self) -> Result<Updated, StoreError> {
        let answer = self.send().now().unwrap_or_else(|_| Err(not_local()));
        self.finish(answer)
    }

    /// Records it. If the first try fails the keeper goes on trying, and the error is returned.
    pub(crate) async fn record(self) -> Result<Updated, StoreError> {
        let timer = StoreTimer::start(&self.end.verb());
        let answer = self.send_within(self.lease.length()).await;
        timer.stop();
        self.finish(answer)
    }

    fn finish(self, answer: Result<Updated, StoreError>) -> Result<Updated, StoreError> {
        match answer {
            Ok(ended) => self.conclude(Some(ended)),
            Err(_) if matches!(self.end, End::Release) && !self.core.local => self.release(),
            Err(ref error) if is_final(error) => self.give_up(error),
            Err(_) => {
                let core = Arc::clone(&self.core);
                // Counted from here, not from when the keeper comes to it.
                let expires = core.clock.now().after(self.lease.longest().claim.ttl());
                core.keeper.spawn(self.persist(expires));
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

    /// The loss if this end is never recorded.
    fn worth(&self) -> Worth {
        match &self.end {
            End::Complete { .. } | End::Fail(Failure::Final(_)) => Worth::Answer,
            // Unless it is recorded, the key blocks until an operator resolves it.
            End::Fail(Failure::Free(_)) | End::Abandon if self.lease.blocks() => Worth::Answer,
            End::Release if self.lease.may_block() => Worth::Answer,
            End::Fail(Failure::Free(_)) | End::Abandon => Worth::Lease,
            End::Release => Worth::Release,
        }
    }

    /// Goes on releasing in the background, where a shutdown does not wait for it.
    fn release(self) {
        let unused = Unused::new(&self.lease, Copies::Answered);
        let core = Arc::clone(&self.core);
        self.conclude(None);
        release::release_unused(&core, unused, None);
    }

    /// Tries until the store answers. An answer is given up when its record has expired; an end
    /// that only frees the key, when the lease is over and does the same.
    async fn persist(self, expires: Moment) {
        let Self { core, lease, .. } = &self;
        let room = match self.worth() {
            Worth::Answer => core.backlog.admit_answer(self.end.bytes() + lease.key.as_str().len()),
            Worth::Lease | Worth::Release => None,
        };
        let mut backoff = Backoff::up_to(RETRY_PAUSE, LONGEST_PAUSE);
        loop {
            core.sleep_until(core.clock.now().after(backoff.pause())).await;
            // Looked at before the try, so that one more is made afterwards.
            let last = match room {
                Some(_) => core.clock.now() >= expires,
                None => lease.is_over(),
            };
            match self.send_within(lease.length().min(LONGEST_TRY)).await {
                Ok(ended) => return self.conclude(Some(ended)),
                Err(error) if last || is_final(&error) => return self.give_up(&error),
                Err(_) => {}
            }
        }
    }

    /// Tells that this end is not recorded and never will be.
    fn give_up(self, error: &StoreError) {
        observe::dropped(self.end.verb());
        let operation: &str = &self.lease.operation;
        let key = self.lease.logged_key(&self.core);
        tracing::error!(
            target: "idempotent", operation, key, %error,
            "the end of an attempt was never recorded"
        );
        self.conclude(None);
    }

    fn send(&self) -> Answer<'_, Updated> {
        send(&self.core, &self.lease, &self.end)
    }

    /// Sends it. A store that swallows it is one that does not answer: it is to be sent again, and
    /// given up when its time is over.
    fn send_within(
        &self,
        patience: Duration,
    ) -> impl Future<Output = Result<Updated, StoreError>> + Send + use<'_> {
        let patience = self.core.sleep_until(self.core.clock.now().after(patience));
        let answer = race(self.send(), patience);
        async {
            match answer.await {
                First::Left(answer) => answer,
                First::Right(()) => Err(not_recorded_yet()),
            }
        }
    }

    /// The lease is no longer renewed, and those who wait in this process are told.
    fn conclude(mut self, updated: Option<Updated>) {
        if let Some(place) = &mut self.place {
            let shared = shared(&self.end, updated, self.lease.attempt().number);
            place.settle(self.lease.attempt().fingerprint, shared);
        }
        if let Some(updated) = updated {
            tell(&self.core, &self.lease, &self.end, updated);
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
) -> Vec<Result<Updated, StoreError>> {
    let completion = |settlement: &Option<Settlement>| {
        let Settlement { lease, end, .. } = settlement.as_ref()?;
        let End::Complete { .. } = end else { return None };
        let update = Update { attempt: *lease.attempt(), to: progress(lease, end) };
        Some((lease.key.clone(), update))
    };
    let requests: Vec<_> = settlements.iter().filter_map(completion).collect();
    let lengths = settlements.iter().flatten().map(|settlement| settlement.lease.length());
    let patience = core.sleep_until(core.clock.now().after(lengths.max().unwrap_or_default()));
    let timer = StoreTimer::start(&Verb::Complete);
    let completed = match race(core.store.execute_many(requests), patience).await {
        First::Left(completed) => completed,
        First::Right(()) => Vec::new(),
    };
    timer.stop();
    let mut completed = completed.into_iter();
    let record = |settlement| match settlement {
        None => StoreFuture::ready(Ok(Updated::Done)),
        Some(settlement @ Settlement { end: End::Complete { .. }, .. }) => {
            let answer = completed.next().unwrap_or_else(|| Err(not_recorded_yet()));
            StoreFuture::ready(settlement.finish(answer))
        }
        // All at once: one that is not answered keeps none of the others waiting.
        Some(settlement) => StoreFuture::new(settlement.record()),
    };
    all(settlements.into_iter().map(record)).await
}

/// `true` if an error is the store's final answer: the key holds something that is not a record, so
/// it is not this attempt's either.
fn is_final(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Undecodable
}

/// Why the end of an attempt is not known to be recorded.
pub(crate) fn not_recorded_yet() -> StoreError {
    let text = "the store did not answer within a lease; recording goes on";
    StoreError::new(StoreErrorKind::Unavailable, text)
}

/// Records the end of an attempt in a local store, where nobody waits in a slot. `None` if the
/// store did not take it.
pub(crate) fn record_local(core: &Core, lease: &Lease, end: &End) -> Option<Updated> {
    let timer = StoreTimer::start(&end.verb());
    let forgets = Forgets { core, lease };
    let Ok(Ok(answer)) = send(core, lease, end).now() else {
        // Tried again under this lease.
        std::mem::forget(forgets);
        return None;
    };
    timer.stop();
    drop(forgets);
    tell(core, lease, end, answer);
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
pub(super) fn forget(core: &Core, lease: &Lease) {
    let leases = core.keeper.leases();
    leases.remove(lease);
    core.keeper.attempt_ended();
    observe::in_flight(|| leases.count());
}

/// What is worth telling about how an end was recorded.
fn tell(core: &Core, lease: &Lease, end: &End, updated: Updated) {
    let operation: &str = &lease.operation;
    match (updated, end) {
        (Updated::DoneWithoutValue, _) => {
            observe::rare(names::NOT_KEPT, &lease.operation);
            tracing::warn!(target: "idempotent", operation, "no room: the value is not kept");
        }
        (Updated::Vanished, End::Complete { .. }) => {
            observe::rare(names::VANISHED, &lease.operation);
            tracing::warn!(
                target: "idempotent", operation, key = lease.logged_key(core),
                "the record had vanished and was written again"
            );
        }
        (Updated::Gone, _) => {
            observe::rare(names::UNRECORDED, &lease.operation);
            tracing::warn!(
                target: "idempotent", operation, key = lease.logged_key(core),
                "the record had vanished after the lease was lost: the answer is not recorded"
            );
        }
        _ => {}
    }
}

/// The treatment of a record that is gone. Without its lease an attempt does not know which others
/// have run since, and what became of their answers.
fn if_gone(lease: &Lease) -> IfGone {
    if lease.is_over() { IfGone::Leave } else { IfGone::Rewrite }
}

/// Sends the verb that ends an attempt.
fn send<'a>(core: &'a Core, lease: &'a Lease, end: &End) -> Answer<'a, Updated> {
    core.store.update(&lease.key, lease.attempt(), progress(lease, end))
}

/// The end of an attempt, as the protocol takes it.
fn progress(lease: &Lease, end: &End) -> Progress {
    let Lease { retention, binding, .. } = *lease;
    match end {
        End::Complete { value, retention } => Progress::Completed {
            value: value.clone(),
            retention: *retention,
            if_gone: if_gone(lease),
        },
        End::Fail(failure) => Progress::Failed { failure: failure.clone(), retention },
        End::Abandon => Progress::Abandoned { retention, binding },
        End::Release => Progress::Released { retention, binding },
    }
}

/// What those who wait in this process may share. Only what the store acknowledged.
fn shared(end: &End, updated: Option<Updated>, number: u32) -> Shared {
    match (end, updated) {
        (End::Complete { value, .. }, Some(Updated::Done | Updated::Vanished)) => {
            Shared::Succeeded { number, value: value.clone() }
        }
        (End::Complete { .. }, Some(Updated::DoneWithoutValue)) => {
            Shared::Succeeded { number, value: None }
        }
        (End::Fail(Failure::Final(value)), Some(Updated::Done)) => {
            Shared::FailedFinal { number, value: value.clone() }
        }
        (End::Fail(Failure::Final(_)), Some(Updated::DoneWithoutValue)) => {
            Shared::FailedFinal { number, value: None }
        }
        // One that was superseded had lost its key before: nobody waited for it any more. What was
        // not acknowledged is counted by those who see it in the record.
        (End::Fail(_) | End::Abandon, Some(Updated::Done | Updated::Vanished)) => {
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

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
