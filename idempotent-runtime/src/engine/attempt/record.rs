//! Records how attempts end, in the foreground, in the background, and after their caller has gone.

use super::end::{End, Worth, if_gone};
use super::faults::{not_local, not_recorded_yet};
use super::instance::Instance;
use super::pending_begin::Copies;
use super::release::{self, Unused};
use super::replays::{Reading, Told};
use super::state::AttemptState;
use super::waiters::MaybeWaiters;
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::observe::{self, StoreTimer, names};
use crate::protocol::{Begun, Failure, IfGone, StoreExt as _, Update, Updated};
use crate::race::{First, race};
use crate::store::future::all;
use crate::store::{Answer, StoreError, StoreErrorKind, StoreFuture, Verb};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The first pause between two tries in the background.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two tries to record an end. A server that comes back gets all that
/// waits for it within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The longest time for which a try in the background is waited for.
const LONGEST_TRY: Duration = Duration::from_secs(30);

/// An end to be recorded. Dropped, whether it was recorded or not, its attempt is no longer renewed.
#[derive(Debug)]
pub(crate) struct PendingEnd {
    instance: Arc<Instance>,
    state: Arc<AttemptState>,
    waiters: MaybeWaiters,
    end: End,
}

impl PendingEnd {
    pub(crate) fn new(
        instance: Arc<Instance>,
        state: Arc<AttemptState>,
        waiters: MaybeWaiters,
        end: End,
    ) -> Self {
        Self { instance, state, waiters, end }
    }

    /// Records it in a local store.
    pub(crate) fn record_now(self) -> Result<Updated, StoreError> {
        let answer = self.send().now().unwrap_or_else(|_| Err(not_local()));
        let answer = answer.inspect_err(|error| observe::store_failed(self.end.verb(), error));
        self.finish(answer)
    }

    /// Records it. If the first try fails the keeper goes on trying, and the error is returned.
    pub(crate) async fn record(self) -> Result<Updated, StoreError> {
        let reading = self.instance.reading();
        let timer = StoreTimer::start(&self.end.verb());
        let answer = self.send_within(self.state.length()).await;
        timer.answered(&answer);
        self.keep(reading, &answer);
        self.finish(answer)
    }

    /// Keeps an answer that the first try has recorded. Of a later one it is not known when an earlier
    /// one has written the record, and whether with its value.
    fn keep(&self, reading: Option<Reading>, answer: &Result<Updated, StoreError>) {
        let (Some(_), Ok(updated)) = (reading, answer) else { return };
        let Some((answer, life)) = recorded(&self.state, &self.end, *updated) else { return };
        let (key, fingerprint) = (&self.state.key, self.state.id().fingerprint);
        self.instance.told(reading, Told { key, fingerprint, answer: &answer, life });
    }

    fn finish(self, answer: Result<Updated, StoreError>) -> Result<Updated, StoreError> {
        match answer {
            Ok(ended) => self.conclude(Some(ended)),
            Err(_) if matches!(self.end, End::Release) && !self.instance.local => self.release(),
            Err(ref error) if is_final(error) => self.give_up(error),
            Err(_) => {
                let instance = Arc::clone(&self.instance);
                // Counted from here, not from when the keeper comes to it.
                let expires = instance.clock.now().after(self.state.longest_id().claim.ttl());
                instance.keeper.spawn(self.persist(expires));
            }
        }
        answer
    }

    /// Records it without a caller that waits for it.
    pub(crate) fn record_in_background(self) {
        if self.instance.local {
            if let Err(error) = self.record_now() {
                tracing::warn!(target: "idempotent", %error, "the end of an attempt is not recorded");
            }
            return;
        }
        let instance = Arc::clone(&self.instance);
        instance.keeper.spawn(async move { drop(self.record().await) });
    }

    /// Goes on releasing in the background, where a shutdown does not wait for it.
    fn release(self) {
        let unused = Unused::new(&self.state, Copies::Answered);
        let instance = Arc::clone(&self.instance);
        self.conclude(None);
        release::release_unused(&instance, unused, None);
    }

    /// Tries until the store answers. An answer is given up when its record has expired; an end
    /// that only frees the key, when the lease is over and does the same.
    async fn persist(self, expires: Moment) {
        let Self { instance, state, .. } = &self;
        let room = match self.end.worth(state) {
            Worth::Answer => {
                instance.backlog.admit_answer(self.end.bytes() + state.key.as_str().len())
            }
            Worth::Lease => None,
        };
        let mut backoff = Backoff::up_to(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            instance.sleep_until(instance.clock.now().after(backoff.pause())).await;
            // Looked at before the try, so that one more is made afterwards.
            let last = match room {
                Some(_) => instance.clock.now() >= expires,
                None => state.is_over(),
            };
            let answer = self.send_within(state.length().min(LONGEST_TRY)).await;
            match answer.inspect_err(|error| observe::store_failed(self.end.verb(), error)) {
                Ok(ended) => return self.conclude(Some(ended)),
                Err(error) if last || is_final(&error) => return self.give_up(&error),
                Err(_) => {}
            }
        }
    }

    /// Tells that this end is not recorded and never will be.
    fn give_up(self, error: &StoreError) {
        observe::dropped(self.end.verb());
        let operation: &str = &self.state.operation;
        let key = self.instance.logged_key(&self.state.key);
        tracing::error!(
            target: "idempotent", operation, key, %error,
            "the end of an attempt was never recorded"
        );
        self.conclude(None);
    }

    fn send(&self) -> Answer<'_, Updated> {
        send(&self.instance, &self.state, &self.end)
    }

    /// Sends it. A store that swallows it is one that does not answer: it is to be sent again, and
    /// given up when its time is over.
    fn send_within(
        &self,
        patience: Duration,
    ) -> impl Future<Output = Result<Updated, StoreError>> + Send + use<'_> {
        let patience = self.instance.sleep_until(self.instance.clock.now().after(patience));
        let answer = race(self.send(), patience);
        async {
            match answer.await {
                First::Left(answer) => answer,
                First::Right(()) => Err(not_recorded_yet()),
            }
        }
    }

    /// Tells the callers that wait in this process, and stops renewing the lease.
    fn conclude(mut self, updated: Option<Updated>) {
        if let Some(waiters) = &mut self.waiters {
            waiters.ended(&self.state, &self.end, updated);
        }
        if let Some(updated) = updated {
            report(&self.instance, &self.state, &self.end, updated);
        }
    }
}

impl Drop for PendingEnd {
    fn drop(&mut self) {
        // Also when a store panics: an attempt that ends in no way is left to its lease.
        self.instance.forget(&self.state);
    }
}

/// Records many ends, the completions among them in one go.
pub(crate) async fn record_many(
    instance: Arc<Instance>,
    ends: Vec<Option<PendingEnd>>,
) -> Vec<Result<Updated, StoreError>> {
    let completion = |pending: &Option<PendingEnd>| {
        let PendingEnd { state, end, .. } = pending.as_ref()?;
        let End::Complete { .. } = end else { return None };
        let update = Update { attempt: *state.id(), to: end.progress(state) };
        Some((state.key.clone(), update))
    };
    let requests: Vec<_> = ends.iter().filter_map(completion).collect();
    let lengths = ends.iter().flatten().map(|pending| pending.state.length());
    let patience =
        instance.sleep_until(instance.clock.now().after(lengths.max().unwrap_or_default()));
    let reading = instance.reading();
    let timer = StoreTimer::start(&Verb::Complete);
    let completed = match race(instance.store.execute_many(requests), patience).await {
        First::Left(completed) => completed,
        First::Right(()) => Vec::new(),
    };
    timer.stop();
    let mut completed = completed.into_iter();
    let record = |pending| match pending {
        None => StoreFuture::ready(Ok(Updated::Done)),
        Some(pending @ PendingEnd { end: End::Complete { .. }, .. }) => {
            let answer = completed.next().unwrap_or_else(|| Err(not_recorded_yet()));
            let answer = answer.inspect_err(|error| observe::store_failed(Verb::Complete, error));
            pending.keep(reading, &answer);
            StoreFuture::ready(pending.finish(answer))
        }
        // All at once: one that is not answered keeps none of the others waiting.
        Some(pending) => StoreFuture::new(pending.record()),
    };
    all(ends.into_iter().map(record)).await
}

/// The answer that the record has from here on, and the time for which it lives; `None` if the record
/// has not ended with it. An answer that was committed before is as old as its transaction, and an
/// error whose record had vanished is not written again.
fn recorded(state: &AttemptState, end: &End, updated: Updated) -> Option<(Begun, Duration)> {
    let number = state.id().number;
    match (end, updated) {
        (End::Complete { value, retention }, Updated::Done | Updated::Vanished) => {
            Some((Begun::Succeeded { number, value: value.clone() }, *retention))
        }
        (End::Complete { retention, .. }, Updated::DoneWithoutValue) => {
            Some((Begun::Succeeded { number, value: None }, *retention))
        }
        (End::Fail(Failure::Final(value)), Updated::Done) => {
            Some((Begun::FailedFinal { number, value: value.clone() }, state.retention))
        }
        (End::Fail(Failure::Final(_)), Updated::DoneWithoutValue) => {
            Some((Begun::FailedFinal { number, value: None }, state.retention))
        }
        _ => None,
    }
}

/// `true` if an error is the store's final answer: the key holds something that is not a record, so
/// it is not this attempt's either.
fn is_final(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Undecodable
}

/// Records the end of an attempt in a local store, before which callers do not wait for each other.
/// `None` if the store did not take it.
pub(crate) fn record_local(
    instance: &Instance,
    state: &AttemptState,
    end: &End,
) -> Option<Updated> {
    let timer = StoreTimer::start(&end.verb());
    let forget = Forget { instance, state };
    // Whether the lease is over takes a look at the clock, and matters only if the record is gone, which it seldom is.
    let left = end.progress_with(state, IfGone::Leave);
    let answer = match instance.store.update(&state.key, state.id(), left).now() {
        Ok(Ok(Updated::Gone))
            if matches!(end, End::Complete { .. }) && if_gone(state) == IfGone::Rewrite =>
        {
            send(instance, state, end).now()
        }
        answer => answer,
    };
    let Ok(Ok(answer)) = answer else {
        // Tried again under this lease.
        std::mem::forget(forget);
        return None;
    };
    timer.stop();
    drop(forget);
    report(instance, state, end, answer);
    Some(answer)
}

/// Forgets an attempt when it is dropped, also by a store that panics.
struct Forget<'a> {
    instance: &'a Instance,
    state: &'a AttemptState,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.instance.forget(self.state);
    }
}

/// Logs and counts an end that was not recorded as it should be.
fn report(instance: &Instance, state: &AttemptState, end: &End, updated: Updated) {
    let operation: &str = &state.operation;
    match (updated, end) {
        (Updated::DoneWithoutValue, _) => {
            observe::rare(names::NOT_KEPT, &state.operation);
            tracing::warn!(target: "idempotent", operation, "no room: the value is not kept");
        }
        (Updated::Vanished, End::Complete { .. }) => {
            observe::rare(names::VANISHED, &state.operation);
            tracing::warn!(
                target: "idempotent", operation, key = instance.logged_key(&state.key),
                "the record had vanished and was written again"
            );
        }
        // Expired, or forgotten: it was recorded by whoever committed it.
        (Updated::Gone, End::Committed { .. }) => {}
        (Updated::Gone, _) => {
            observe::rare(names::UNRECORDED, &state.operation);
            tracing::warn!(
                target: "idempotent", operation, key = instance.logged_key(&state.key),
                "the record had vanished after the lease was lost: the answer is not recorded"
            );
        }
        _ => {}
    }
}

/// Sends the verb that ends an attempt.
fn send<'a>(instance: &'a Instance, state: &'a AttemptState, end: &End) -> Answer<'a, Updated> {
    instance.store.update(&state.key, state.id(), end.progress(state))
}
