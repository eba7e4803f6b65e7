//! A granted attempt, which ends in good order whatever happens to its caller.

use super::admission::Permit;
use super::current::{Current, enclosing};
use super::end::End;
use super::faults::{lost, not_local, too_late};
use super::handoff::Handoff;
use super::instance::Instance;
use super::pending_begin::Copies;
use super::record::{self, PendingEnd};
use super::release::{self, Unused};
use super::state::{AttemptState, Terms};
use super::waiters::MaybeWaiters;
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::config::{LONGEST, Mode, OnUnrecorded};
use crate::engine::arc_ref::ArcRef;
use crate::engine::resend::FIRST_PAUSE;
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{self, StoreTimer, names};
use crate::operation_name::OperationName;
use crate::outcome::Recorded;
use crate::protocol::{Action, Exchange, Failure, StoreExt as _, Update, Updated};
use crate::race::{First, race};
use crate::store::{Answer, AttemptId, StoreError, StoreErrorKind, StoreFuture, Swap, Verb};
use std::sync::Arc;

/// A granted attempt. Dropped before its body started, it is released; dropped after, abandoned.
#[derive(Debug)]
pub(crate) struct AttemptGuard<'a> {
    instance: ArcRef<'a, Instance>,
    state: Arc<AttemptState>,
    phase: Phase,
    /// Copies of its `begin` or `arm` that may still arrive.
    copies: Copies,
    choices: Choices,
    planned: Recorded,
    /// It ends with an error that is kept.
    fails_finally: bool,
    waiters: MaybeWaiters,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Granted,
    Started,
    Ended,
}

/// The way in which an attempt holds its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// By a lease, which the keeper renews until the end is recorded.
    Lease,
    /// For a fixed time, or not at all: nothing follows.
    Window,
    /// By a database transaction, which records the end.
    Transaction,
}

/// The choices of a call that hold for its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices {
    pub(crate) mode: Mode,
    pub(crate) hold: Hold,
    /// The largest answer that is kept.
    pub(crate) max_value_bytes: usize,
    pub(crate) on_unrecorded: OnUnrecorded,
}

/// An attempt as the store granted it.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) operation: OperationName,
    pub(crate) key: RecordKey,
    pub(crate) id: AttemptId,
    pub(crate) terms: Terms,
    pub(crate) choices: Choices,
    pub(crate) copies: Copies,
    pub(crate) waiters: MaybeWaiters,
    pub(crate) permit: Option<Arc<Permit>>,
}

impl<'a> AttemptGuard<'a> {
    pub(crate) fn new(instance: ArcRef<'a, Instance>, granted: Granted) -> Self {
        let Granted { operation, key, id, terms, choices, copies, mut waiters, permit } = granted;
        let parent = enclosing().map(|around| Arc::clone(around.state()));
        let identity = instance.identity();
        let state = Arc::new(AttemptState::new(operation, key, id, &terms, identity, parent));
        if let Some(permit) = permit {
            permit.runs();
            state.runs_with(permit);
        }
        if let Some(waiters) = &mut waiters {
            waiters.granted(&state);
        }
        if choices.hold == Hold::Lease {
            let registry = instance.keeper.registry();
            registry.insert(&state);
            observe::in_flight(|| registry.count());
        }
        let (phase, planned) = (Phase::Granted, Recorded::No);
        let fails_finally = false;
        Self { instance, state, phase, copies, choices, planned, fails_finally, waiters }
    }

    /// An attempt of a disabled instance: it holds nothing, and nothing follows it.
    pub(crate) fn unprotected(instance: ArcRef<'a, Instance>, granted: Granted) -> Self {
        let Granted { operation, key, id, terms, choices, .. } = granted;
        let terms = Terms { length: LONGEST, max_run: LONGEST, ..terms };
        let parent = enclosing().map(|around| Arc::clone(around.state()));
        // Of no instance: it keeps no call from its key, not even those inside it.
        let state = Arc::new(AttemptState::new(operation, key, id, &terms, 0, parent));
        let choices = Choices { mode: Mode::Window, hold: Hold::Window, ..choices };
        let (phase, copies, planned) = (Phase::Started, Copies::Answered, Recorded::No);
        let (fails_finally, waiters) = (false, None);
        Self { instance, state, phase, copies, choices, planned, fails_finally, waiters }
    }

    /// `true` if the body may start as things are; `false` if that has to be [confirmed](Self::confirm) first: the
    /// answer to `begin` has taken long to come, or the key blocks.
    ///
    /// # Errors
    /// The lease is over.
    pub(crate) fn may_start(&self) -> Result<bool, StoreError> {
        if self.choices.hold != Hold::Lease {
            return Ok(true);
        }
        let left = self.state.deadline().since(self.instance.clock.now());
        if left.is_zero() {
            return Err(too_late());
        }
        // Past the first half, the keeper's own renewal would come close to the end of the lease.
        Ok(!self.state.is_to_be_armed() && left >= self.state.length() / 2)
    }

    /// Makes sure that the body may start: arms a key that blocks, and renews the lease of any other.
    ///
    /// Between the acknowledged arming and the first poll of the body nothing waits, so a key
    /// blocks without its body having started only if the process dies right there.
    pub(crate) async fn confirm(mut self) -> Result<Self, StoreError> {
        match self.state.arm_request() {
            Some(request) => self.arm(&request).await?,
            None => {
                let now = self.instance.clock.now();
                renew(&self.instance, &self.state, now).await?;
            }
        }
        Ok(self)
    }

    /// Makes sure that the lease is not over, after others were waited for.
    pub(crate) fn in_time(self) -> Result<Self, StoreError> {
        if self.choices.hold == Hold::Lease && self.state.is_over() {
            return Err(too_late());
        }
        Ok(self)
    }

    /// Arms the key, again and again within the lease if the store does not answer.
    ///
    /// Within the lease as it was granted: the keeper renews it meanwhile, and a caller whose body
    /// cannot start must not wait for as long as renewals are answered.
    async fn arm(&mut self, request: &Update) -> Result<(), StoreError> {
        let instance = Arc::clone(&self.instance);
        let key = &self.state.key;
        let mut backoff = Backoff::new(FIRST_PAUSE);
        let until = self.state.granted_until();
        loop {
            let sent_at = instance.clock.now();
            if sent_at >= until || self.state.is_lost() {
                return Err(too_late());
            }
            let patience = instance.sleep_until(until);
            let timer = StoreTimer::start(&Verb::Arm);
            let First::Left(answer) =
                race(instance.store.execute(key, request.clone()), patience).await
            else {
                let error = too_late();
                timer.failed(&error);
                return Err(error);
            };
            timer.answered(&answer);
            match answer {
                Ok(answer) => return self.armed(answer, sent_at),
                Err(error) => match error.kind() {
                    StoreErrorKind::Unavailable | StoreErrorKind::Contended => {
                        tracing::debug!(target: "idempotent", %error, "arm is sent again");
                    }
                    _ => return Err(error),
                },
            }
            instance.sleep_until(instance.clock.now().after(backoff.pause())).await;
        }
    }

    /// Arms the key in a local store, which answers at once.
    pub(crate) fn arm_now(&self) -> Result<(), StoreError> {
        let Some(request) = self.state.arm_request() else { return Ok(()) };
        let instance = &self.instance;
        let sent_at = instance.clock.now();
        let answer = instance.store.execute(&self.state.key, request).now();
        let answer = answer.unwrap_or_else(|_| Err(not_local()));
        self.armed(answer?, sent_at)
    }

    /// Takes the answer to an `arm` that was sent at `sent_at`.
    pub(crate) fn armed(&self, answer: Updated, sent_at: Moment) -> Result<(), StoreError> {
        match answer {
            Updated::Done => self.state.armed(sent_at),
            _ => return Err(lost()),
        }
        // The answer may have taken longer than what was left of the lease.
        if self.state.is_over() { Err(too_late()) } else { Ok(()) }
    }

    /// `true` if the key is armed and its lease is not over.
    pub(crate) fn is_armed(&self) -> bool {
        self.state.blocks() && !self.state.is_over()
    }

    pub(crate) fn current(&self) -> Current {
        Current::new(Arc::clone(&self.state))
    }

    pub(crate) fn state(&self) -> &AttemptState {
        &self.state
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The largest answer that is kept.
    pub(crate) fn max_value_bytes(&self) -> usize {
        self.choices.max_value_bytes
    }

    /// The caller's choice for a value that is not recorded.
    pub(crate) fn on_unrecorded(&self) -> OnUnrecorded {
        self.choices.on_unrecorded
    }

    /// The answer's `recorded` once the store has acknowledged the end.
    pub(crate) fn planned(&self) -> Recorded {
        self.planned
    }

    /// `true` if the end that was recorded, or is being recorded, is an error that is kept.
    pub(crate) fn fails_finally(&self) -> bool {
        self.fails_finally
    }

    /// Notes what `end` records. Here, where it fits beside the other choices: in the future of a
    /// call it would have to be held while the store is waited for.
    fn plan(&mut self, end: &End) {
        self.fails_finally =
            self.choices.hold != Hold::Window && matches!(end, End::Fail(Failure::Final(_)));
        self.planned = match end {
            _ if self.choices.hold == Hold::Window => Recorded::No,
            End::Complete { value: None, .. } | End::Committed { value: None, .. }
                if self.choices.mode == Mode::Strong =>
            {
                Recorded::WithoutValue
            }
            End::Complete { .. } | End::Committed { .. } => Recorded::Yes,
            End::Fail(_) | End::Abandon | End::Release => Recorded::No,
        };
    }

    /// `true` if values are kept for later calls.
    pub(crate) fn keeps_values(&self) -> bool {
        self.choices.mode == Mode::Strong
    }

    pub(crate) fn into_owned(mut self) -> AttemptGuard<'static> {
        let owned = AttemptGuard {
            instance: ArcRef::Owned(Arc::clone(&self.instance)),
            state: Arc::clone(&self.state),
            phase: self.phase,
            copies: self.copies,
            choices: self.choices,
            planned: self.planned,
            fails_finally: self.fails_finally,
            waiters: self.waiters.take(),
        };
        // What is dropped here is an empty shell.
        self.phase = Phase::Ended;
        owned
    }

    /// From here on, going away means that the body may have had effects.
    pub(crate) fn start(&mut self) {
        self.phase = Phase::Started;
    }

    /// `true` if the body may have had effects.
    pub(crate) fn has_started(&self) -> bool {
        self.phase == Phase::Started
    }

    /// The swap that records an end, for somebody else to make. `None` if this attempt has no end
    /// of this kind.
    pub(crate) fn swap(&self, end: &End) -> Option<Swap> {
        let (attempt, to) = (*self.state.id(), end.progress(&self.state));
        match Exchange::new(Update { attempt, to }).action() {
            Ok(Action::Swap(swap)) => Some(swap),
            _ => None,
        }
    }

    /// Records how the body ended. An error means: not recorded yet; the keeper goes on trying.
    ///
    /// If this future is dropped, the keeper finishes it. To be called once.
    pub(crate) fn end(&mut self, end: End) -> Answer<'static, Updated> {
        self.body_ended();
        self.plan(&end);
        if self.choices.hold != Hold::Lease {
            return StoreFuture::ready(Ok(Updated::Done));
        }
        let instance = &self.instance;
        if instance.local {
            let Some(answer) = record::record_local(instance, &self.state, &end) else {
                return StoreFuture::ready(self.pending(end).record_now());
            };
            return StoreFuture::ready(Ok(answer));
        }
        // Its first try ends with the lease at the latest.
        let pending = self.pending(end);
        StoreFuture::new(Handoff::new(Arc::clone(&self.instance), pending.record()))
    }

    /// An end that is to be recorded together with others. `None` if there is nothing to record.
    pub(crate) fn pending_end(&mut self, end: End) -> Option<PendingEnd> {
        self.body_ended();
        self.plan(&end);
        (self.choices.hold == Hold::Lease).then(|| self.pending(end))
    }

    /// The end of an attempt that its transaction has recorded, or could not: tells the callers that
    /// wait.
    pub(crate) fn ended_in_transaction(&mut self, end: &End, updated: Option<Updated>) {
        self.body_ended();
        self.plan(end);
        if let Some(mut waiters) = self.waiters.take() {
            waiters.ended(&self.state, end, updated);
        }
    }

    fn body_ended(&mut self) {
        self.phase = Phase::Ended;
        self.state.body_ended();
    }

    /// An error of this attempt.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, &self.state.operation).with_key(self.instance.logged_key(&self.state.key))
    }

    /// Releases the key of a body that never starts.
    fn give_back(&mut self) {
        let instance = Arc::clone(&self.instance);
        if instance.local {
            self.pending(End::Release).record_in_background();
            return;
        }
        instance.forget(&self.state);
        let unused = Unused::new(&self.state, self.copies);
        release::release_unused(&instance, unused, self.waiters.take());
    }

    fn pending(&mut self, end: End) -> PendingEnd {
        let instance = Arc::clone(&self.instance);
        PendingEnd::new(instance, Arc::clone(&self.state), self.waiters.take(), end)
    }
}

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        if self.phase == Phase::Ended {
            return;
        }
        self.state.body_ended();
        match (self.phase, self.choices.hold) {
            // Its transaction is rolled back.
            (_, Hold::Transaction) => {}
            (Phase::Granted, _) => self.give_back(),
            (Phase::Started, Hold::Window) | (Phase::Ended, _) => {}
            (Phase::Started, Hold::Lease) => self.pending(End::Abandon).record_in_background(),
        }
    }
}

/// Renews the lease before the body starts.
async fn renew(instance: &Instance, state: &AttemptState, now: Moment) -> Result<(), StoreError> {
    let renewal = instance.store.renew(&state.key, state.id(), state.length());
    // An answer that comes later than this would be worth nothing.
    let patience = instance.sleep_until(state.granted_until());
    let answer = match race(renewal, patience).await {
        First::Left(answer) => answer,
        First::Right(()) => Err(too_late()),
    };
    let answer = answer.inspect_err(|error| observe::store_failed(Verb::Renew, error))?;
    if answer != Updated::Done {
        return Err(lost());
    }
    observe::rare(names::RENEWALS, &state.operation);
    state.extended(now);
    // This answer may have taken long, too.
    match state.is_over() {
        true => Err(too_late()),
        false => Ok(()),
    }
}
