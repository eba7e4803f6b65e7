//! A granted attempt, which ends in good order whatever happens to its caller.

use super::admission::Permit;
use super::call::{InstanceRef, Prepared};
use super::core::Core;
use super::lease::Lease;
use super::place::Place;
use super::settle::{self, Ended, Handoff, Settlement, Verb};
use crate::clock::Moment;
use crate::config::Mode;
use crate::current::{Current, current};
use crate::error::{Error, ErrorKind};
use crate::observe;
use crate::race::{First, race};
use crate::store::{Answer, AttemptId, Renewed, StoreError, StoreErrorKind, StoreFuture};
use std::sync::Arc;

/// A granted attempt. Dropped before its body started, it is released; dropped after, abandoned.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    instance: InstanceRef<'a>,
    lease: Arc<Lease>,
    phase: Phase,
    mode: Mode,
    max_value_bytes: usize,
    place: Option<Box<Place>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Granted,
    Started,
    Ended,
}

impl<'a> Running<'a> {
    pub(crate) fn new(
        call: &'a Prepared<'_>,
        attempt: AttemptId,
        sent_at: Moment,
        mut place: Option<Place>,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        let operation = call.operation.clone();
        let identity = call.instance.identity();
        let terms = call.terms(sent_at);
        let lease = Lease::new(operation, call.key.clone(), attempt, &terms, identity, current());
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
        let instance = call.instance.by_ref();
        let max_value_bytes = call.policy.max_value_bytes;
        let place = place.map(Box::new);
        Self { instance, lease, phase: Phase::Granted, mode, max_value_bytes, place }
    }

    /// Checks that the grant is still worth something: the answer may have taken long to come.
    pub(crate) async fn confirm(self) -> Result<Self, StoreError> {
        if self.mode == Mode::Window {
            return Ok(self);
        }
        let core = self.instance.core();
        let now = core.clock.now();
        let left = self.lease.deadline().since(now);
        let too_late = || {
            let text = "the store took longer than the lease to answer";
            Err(StoreError::new(StoreErrorKind::Unavailable, text))
        };
        if left.is_zero() {
            return too_late();
        }
        if left < self.lease.length() / 2 {
            let Lease { key, attempt, .. } = &*self.lease;
            match core.store.renew(key, attempt, self.lease.length()).await? {
                Renewed::Extended => self.lease.extended(now),
                Renewed::Lost => {
                    let text = "the lease was lost before the body could start";
                    return Err(StoreError::new(StoreErrorKind::Unavailable, text));
                }
            }
            // This answer may have taken long, too.
            if self.lease.is_lost() || self.lease.deadline() <= core.clock.now() {
                return too_late();
            }
        }
        Ok(self)
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

    /// Whether values are kept for later calls.
    pub(crate) fn keeps_values(&self) -> bool {
        self.mode == Mode::Strong
    }

    pub(crate) fn into_owned(mut self) -> Running<'static> {
        let owned = Running {
            instance: self.instance.clone().into_owned(),
            lease: Arc::clone(&self.lease),
            phase: self.phase,
            mode: self.mode,
            max_value_bytes: self.max_value_bytes,
            place: self.place.take(),
        };
        self.phase = Phase::Ended;
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
    pub(crate) fn end(&mut self, verb: Verb) -> Answer<'static, Ended> {
        self.body_ended();
        if self.mode == Mode::Window {
            return StoreFuture::ready(Ok(Ended::Recorded));
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
    pub(crate) fn settle(&mut self, verb: Verb) -> Option<Settlement> {
        self.body_ended();
        (self.mode != Mode::Window).then(|| self.settlement(verb))
    }

    fn body_ended(&mut self) {
        self.phase = Phase::Ended;
        self.lease.body_ended();
    }

    /// An error of this attempt.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        self.lease.error(kind, self.instance.core())
    }

    fn settlement(&mut self, verb: Verb) -> Settlement {
        let core = Arc::clone(self.instance.core());
        Settlement::new(core, Arc::clone(&self.lease), self.place.take(), verb)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.phase == Phase::Ended {
            return;
        }
        self.lease.body_ended();
        let verb = match (self.phase, self.mode) {
            (Phase::Granted, _) => Verb::Release,
            (Phase::Started, Mode::Window) | (Phase::Ended, _) => return,
            (Phase::Started, _) => Verb::Abandon,
        };
        self.settlement(verb).record_behind();
    }
}
