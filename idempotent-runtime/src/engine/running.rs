//! A granted attempt, which ends in good order whatever happens to its caller.

use super::admission::Permit;
use super::backoff::Backoff;
use super::begin::{RESEND_PAUSE, not_local};
use super::call::{InstanceRef, Prepared};
use super::core::Core;
use super::lease::{Lease, Terms};
use super::place::Place;
use super::release::{self, Copies, Unused};
use super::settle::{self, End, Handoff, Settlement};
use crate::clock::Moment;
use crate::config::{LONGEST, Mode, OnUnrecorded};
use crate::current::{Current, enclosing};
use crate::error::{Error, ErrorKind};
use crate::observe::{self, StoreTimer};
use crate::options::Policy;
use crate::outcome::Recorded;
use crate::protocol::{StoreExt as _, Update, Updated};
use crate::race::{First, race};
use crate::store::{Answer, AttemptId, StoreError, StoreErrorKind, StoreFuture, Token, Verb};
use std::sync::Arc;

/// A granted attempt. Dropped before its body started, it is released; dropped after, abandoned.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    instance: InstanceRef<'a>,
    lease: Arc<Lease>,
    phase: Phase,
    /// Copies of its `begin` or `arm` that may still arrive.
    pub(super) copies: Copies,
    mode: Mode,
    max_value_bytes: usize,
    on_unrecorded: OnUnrecorded,
    planned: Recorded,
    place: Option<Box<Place>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Granted,
    Started,
    Updated,
}

impl<'a> Running<'a> {
    pub(crate) fn new(
        call: &Prepared<'a>,
        attempt: AttemptId,
        sent_at: Moment,
        copies: Copies,
        mut place: Option<Place>,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        let operation = call.operation.clone();
        let identity = call.instance.identity();
        let terms = call.terms(sent_at);
        let lease = Lease::new(operation, call.key.clone(), attempt, &terms, identity, enclosing());
        let lease = Arc::new(lease);
        if let Some(permit) = permit {
            permit.runs();
            lease.runs_with(permit);
        }
        if let Some(place) = &mut place {
            place.running(&lease);
        }
        // A window has no lease: it is taken for a fixed time, and nothing follows.
        let mode = call.policy.mode;
        if mode != Mode::Window {
            let leases = call.core().keeper.leases();
            leases.insert(&lease);
            observe::in_flight(|| leases.count());
        }
        let instance = call.instance.clone();
        let Policy { max_value_bytes, on_unrecorded, .. } = call.policy;
        let place = place.map(Box::new);
        let (phase, planned) = (Phase::Granted, Recorded::No);
        Self {
            instance,
            lease,
            phase,
            copies,
            mode,
            max_value_bytes,
            on_unrecorded,
            planned,
            place,
        }
    }

    /// An attempt of a disabled instance: it holds nothing, and nothing follows it.
    pub(crate) fn unprotected(call: &Prepared<'a>) -> Self {
        let now = call.core().clock.now();
        let attempt = call.request(Token::random(), now).first_attempt();
        let terms = Terms { length: LONGEST, max_run: LONGEST, ..call.terms(now) };
        // Of no instance: it keeps no call from its key, not even those inside it.
        let lease =
            Lease::new(call.operation.clone(), call.key.clone(), attempt, &terms, 0, enclosing());
        let Policy { max_value_bytes, on_unrecorded, .. } = call.policy;
        Self {
            instance: call.instance.clone(),
            lease: Arc::new(lease),
            phase: Phase::Started,
            copies: Copies::Answered,
            mode: Mode::Window,
            max_value_bytes,
            on_unrecorded,
            planned: Recorded::No,
            place: None,
        }
    }

    /// Makes sure that the body may start: the answer to `begin` may have taken long to come, and a
    /// key that blocks is armed first.
    ///
    /// Between the acknowledged arming and the first poll of the body nothing waits, so a key
    /// blocks without its body having started only if the process dies right there.
    pub(crate) async fn confirm(mut self) -> Result<Self, StoreError> {
        if self.mode == Mode::Window {
            return Ok(self);
        }
        if let Some(request) = self.lease.arm_request() {
            self.arm(&request).await?;
            return Ok(self);
        }
        let core = self.instance.core();
        let now = core.clock.now();
        let left = self.lease.deadline().since(now);
        if left.is_zero() {
            return Err(too_late());
        }
        if left < self.lease.length() / 2 {
            let Lease { key, .. } = &*self.lease;
            let renewal = core.store.renew(key, self.lease.attempt(), self.lease.length());
            // An answer that comes later than this would be worth nothing.
            let patience = core.sleep_until(self.lease.granted_until());
            let First::Left(answer) = race(renewal, patience).await else {
                return Err(too_late());
            };
            match answer? {
                Updated::Done => self.lease.extended(now),
                _ => return Err(lost()),
            }
            // This answer may have taken long, too.
            if self.lease.is_over() {
                return Err(too_late());
            }
        }
        Ok(self)
    }

    /// Makes sure that the lease is not over, after others were waited for.
    pub(crate) fn in_time(self) -> Result<Self, StoreError> {
        if self.mode != Mode::Window && self.lease.is_over() {
            return Err(too_late());
        }
        Ok(self)
    }

    /// Arms the key, again and again within the lease if the store does not answer.
    ///
    /// Within the lease as it was granted: the keeper renews it meanwhile, and a caller whose body
    /// cannot start must not wait for as long as renewals are answered.
    async fn arm(&mut self, request: &Update) -> Result<(), StoreError> {
        let core = Arc::clone(self.instance.core());
        let key = &self.lease.key;
        let mut backoff = Backoff::new(RESEND_PAUSE);
        let until = self.lease.granted_until();
        loop {
            let sent_at = core.clock.now();
            if sent_at >= until || self.lease.is_lost() {
                return Err(too_late());
            }
            let patience = core.sleep_until(until);
            let timer = StoreTimer::start(&Verb::Arm);
            let First::Left(answer) =
                race(core.store.execute(key, request.clone()), patience).await
            else {
                return Err(too_late());
            };
            timer.stop();
            match answer {
                Ok(answer) => return self.armed(answer, sent_at),
                Err(error) => match error.kind() {
                    StoreErrorKind::Unavailable | StoreErrorKind::Contended => {
                        tracing::debug!(target: "idempotent", %error, "arm is sent again");
                    }
                    _ => return Err(error),
                },
            }
            core.sleep_until(core.clock.now().after(backoff.pause())).await;
        }
    }

    /// Arms the key in a local store, which answers at once.
    pub(crate) fn arm_now(&self) -> Result<(), StoreError> {
        let Some(request) = self.lease.arm_request() else { return Ok(()) };
        let core = self.instance.core();
        let sent_at = core.clock.now();
        let answer = core.store.execute(&self.lease.key, request).now();
        let answer = answer.unwrap_or_else(|_| Err(not_local()));
        self.armed(answer?, sent_at)
    }

    /// Takes the answer to an `arm` that was sent at `sent_at`.
    pub(crate) fn armed(&self, answer: Updated, sent_at: Moment) -> Result<(), StoreError> {
        match answer {
            Updated::Done => self.lease.armed(sent_at),
            _ => return Err(lost()),
        }
        // The answer may have taken longer than what was left of the lease.
        if self.lease.is_over() { Err(too_late()) } else { Ok(()) }
    }

    /// `true` if the key is armed and its lease is not over.
    pub(super) fn is_armed(&self) -> bool {
        self.lease.blocks() && !self.lease.is_over()
    }

    pub(crate) fn current(&self) -> Current {
        Current::new(Arc::clone(&self.lease))
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.instance.core()
    }

    /// The largest answer that is kept.
    pub(crate) fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// The caller's choice for a value that is not recorded.
    pub(crate) fn on_unrecorded(&self) -> OnUnrecorded {
        self.on_unrecorded
    }

    /// The answer's `recorded` once the store has acknowledged the end.
    pub(crate) fn planned(&self) -> Recorded {
        self.planned
    }

    /// Notes what `verb` records. Here, where it fits beside the other choices: in the future of a
    /// call it would have to be held while the store is waited for.
    fn plan(&mut self, verb: &End) {
        self.planned = match verb {
            _ if self.mode == Mode::Window => Recorded::No,
            End::Complete { value: None, .. } if self.mode == Mode::Strong => {
                Recorded::WithoutValue
            }
            End::Complete { .. } => Recorded::Yes,
            End::Fail(_) | End::Abandon | End::Release => Recorded::No,
        };
    }

    /// Whether values are kept for later calls.
    pub(crate) fn keeps_values(&self) -> bool {
        self.mode == Mode::Strong
    }

    pub(crate) fn into_owned(mut self) -> Running<'static> {
        let owned = Running {
            instance: self.instance.clone().into_owned(),
            lease: Arc::clone(&self.lease),
            phase: self.phase,
            copies: self.copies,
            mode: self.mode,
            max_value_bytes: self.max_value_bytes,
            on_unrecorded: self.on_unrecorded,
            planned: self.planned,
            place: self.place.take(),
        };
        self.phase = Phase::Updated;
        owned
    }

    /// From here on, going away means that the body may have had effects.
    pub(crate) fn start(&mut self) {
        self.phase = Phase::Started;
    }

    /// Whether the body may have had effects.
    pub(crate) fn has_started(&self) -> bool {
        self.phase == Phase::Started
    }

    /// Records how the body ended. An error means: not recorded yet; the keeper goes on trying.
    ///
    /// If this future is dropped, the keeper finishes it. To be called once.
    pub(crate) fn end(&mut self, verb: End) -> Answer<'static, Updated> {
        self.body_ended();
        self.plan(&verb);
        if self.mode == Mode::Window {
            return StoreFuture::ready(Ok(Updated::Done));
        }
        let core = self.instance.core();
        if core.local {
            let Some(answer) = settle::record_local(core, &self.lease, &verb) else {
                return StoreFuture::ready(self.settlement(verb).record_now());
            };
            return StoreFuture::ready(Ok(answer));
        }
        let settlement = self.settlement(verb);
        let core = Arc::clone(self.instance.core());
        let patience = core.sleep_until(core.clock.now().after(self.lease.length()));
        let handoff = Handoff::new(core, settlement.record());
        StoreFuture::new(async move {
            match race(handoff, patience).await {
                First::Left(answer) => answer,
                // Dropped, it goes on in the background.
                First::Right(()) => Err(settle::not_recorded_yet()),
            }
        })
    }

    /// An end that is to be recorded together with others. `None` if there is nothing to record.
    pub(crate) fn settle(&mut self, verb: End) -> Option<Settlement> {
        self.body_ended();
        self.plan(&verb);
        (self.mode != Mode::Window).then(|| self.settlement(verb))
    }

    fn body_ended(&mut self) {
        self.phase = Phase::Updated;
        self.lease.body_ended();
    }

    /// An error of this attempt.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        self.lease.error(kind, self.instance.core())
    }

    /// Releases the key of a body that never starts.
    fn give_back(&mut self) {
        let core = Arc::clone(self.instance.core());
        if core.local {
            self.settlement(End::Release).record_behind();
            return;
        }
        settle::forget(&core, &self.lease);
        let unused = Unused::new(&self.lease, self.copies);
        release::release_unused(&core, unused, self.place.take());
    }

    fn settlement(&mut self, verb: End) -> Settlement {
        let core = Arc::clone(self.instance.core());
        Settlement::new(core, Arc::clone(&self.lease), self.place.take(), verb)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.phase == Phase::Updated {
            return;
        }
        self.lease.body_ended();
        match (self.phase, self.mode) {
            (Phase::Granted, _) => self.give_back(),
            (Phase::Started, Mode::Window) | (Phase::Updated, _) => {}
            (Phase::Started, _) => self.settlement(End::Abandon).record_behind(),
        }
    }
}

fn too_late() -> StoreError {
    let text = "the store took longer than the lease to answer";
    StoreError::new(StoreErrorKind::Unavailable, text)
}

fn lost() -> StoreError {
    let text = "the lease was lost before the body could start";
    StoreError::new(StoreErrorKind::Unavailable, text)
}
