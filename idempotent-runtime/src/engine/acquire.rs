//! From a prepared call to a right to run, or an answer.
//!
//! A local store is asked directly. Before any other store, the callers of one key meet in a slot
//! and one of them asks. In both cases a strong caller waits: it watches the record, looks, and
//! sleeps until it is woken, with slow polling beneath.

use super::backoff::Backoff;
use super::begin::{BeginAnswer, begin, begin_local};
use super::call::Prepared;
use super::lease::Lease;
use super::place::Place;
use super::running::Running;
use super::slots::{Shared, Turn, Waits};
use crate::config::Mode;
use crate::observe::WaitTimer;
use crate::race::{First, race};
use crate::store::{Begun, StoreError, StoreErrorKind, Value, Watch};
use std::sync::Arc;
use std::time::Duration;

/// What a call has got.
#[derive(Debug)]
pub(crate) enum Acquired<'a> {
    Granted(Running<'a>),
    /// The instance is disabled: the store was not asked.
    Disabled,
    Succeeded {
        number: u32,
        value: Option<Value>,
    },
    FailedFinal {
        number: u32,
        value: Option<Value>,
    },
    InFlight {
        retry_after: Duration,
    },
    Taken {
        retry_after: Duration,
    },
    Mismatch,
    Indeterminate {
        number: u32,
    },
    /// As many attempts run in this process as may.
    OverLimit {
        limit: usize,
    },
    Refused(StoreError),
    /// The grant came too late to be used. Others may have run meanwhile.
    TooLate(StoreError),
}

/// Asks a local store, and none if the instance is disabled. `None` if the call has to wait, or the
/// store is not local.
pub(crate) fn acquire_now<'a>(call: &Prepared<'a>) -> Option<Acquired<'a>> {
    if call.core().is_disabled() {
        return Some(Acquired::Disabled);
    }
    if !call.core().local {
        return None;
    }
    match begin_local(call, call.called_at) {
        Ok(Begun::InFlight { .. }) if call.policy.waits() => None,
        answer => Some(acquired(call, BeginAnswer::new(answer, call.called_at), None)),
    }
}

/// Asks the store, and waits if the call's mode says so.
pub(crate) async fn acquire<'a>(call: &Prepared<'a>) -> Acquired<'a> {
    if call.core().local || call.policy.mode == Mode::Window {
        return ask(call, None).await;
    }
    let waits = if call.policy.waits() { Waits::Yes } else { Waits::No };
    let deadline = call.called_at.after(call.policy.wait);
    let mut place = Place::join(call.core(), &call.key);
    let mut waiting = None;
    loop {
        let changed = place.changed();
        match place.turn(call.fingerprint, waits) {
            Turn::Sit(_) => return ask(call, Some(place)).await,
            Turn::InFlight(retry_after) => return Acquired::InFlight { retry_after },
            Turn::Mismatch => return Acquired::Mismatch,
            Turn::Share(Shared::Again) => place = Place::join(call.core(), &call.key),
            Turn::Share(shared) => return shared.into(),
            Turn::Wait if waits == Waits::No => changed.await,
            Turn::Wait => {
                waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
                let asleep = call.core().sleep_until(deadline);
                let news = race(changed, lost(place.holder()));
                if let First::Right(()) = race(news, asleep).await {
                    return Acquired::InFlight { retry_after: call.policy.lease };
                }
            }
        }
    }
}

/// Resolves when the attempt that runs in this process loses its lease.
async fn lost(holder: Option<Arc<Lease>>) {
    match holder {
        Some(lease) => lease.lost().await,
        None => std::future::pending().await,
    }
}

impl From<Shared> for Acquired<'_> {
    fn from(shared: Shared) -> Self {
        match shared {
            Shared::Succeeded { number, value } => Self::Succeeded { number, value },
            Shared::FailedFinal { number, value } => Self::FailedFinal { number, value },
            Shared::Indeterminate { number } => Self::Indeterminate { number },
            Shared::Refused(kind, text) => Self::Refused(StoreError::new(kind, text)),
            Shared::Again => Self::InFlight { retry_after: Duration::ZERO },
        }
    }
}

/// Asks until there is an answer or the wait is over.
async fn ask<'a>(call: &Prepared<'a>, mut place: Option<Place>) -> Acquired<'a> {
    let core = call.core();
    let deadline = call.called_at.after(call.policy.wait);
    let mut backoff = Backoff::new(core.config.load().retry_interval);
    // A local store has been asked once already.
    let mut watching = call.policy.waits() && core.local;
    let mut watch = None;
    let mut waiting = None;
    loop {
        if watching && watch.is_none() {
            // Watch before looking, so that no change falls between.
            watch = Some(core.store.watch(&call.key).await.unwrap_or_else(|_| Watch::never()));
        }
        let answer = begin(call, &mut place).await;
        let Ok(Begun::InFlight { retry_after }) = answer.answer else {
            return settle_in(call, answer, place).await;
        };
        if let Some(place) = &place {
            place.in_flight_elsewhere(retry_after);
        }
        let now = core.clock.now();
        if !call.policy.waits() || now >= deadline {
            return Acquired::InFlight { retry_after };
        }
        watching = true;
        waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
        let Some(armed) = &mut watch else { continue };
        // Whoever holds the key may die silently: look when its lease is over at the latest.
        let pause = backoff.pause().min(retry_after.max(Duration::from_millis(1)));
        let asleep = core.sleep_until(now.after(pause).min(deadline));
        if let First::Left(()) = race(armed, asleep).await {
            // Most likely it has ended: look at once, and watch again only if it has not.
            (watch, watching) = (None, false);
        }
    }
}

/// Turns an answer into what the call has got; a grant is checked against the time it took, and a
/// key that blocks is armed.
async fn settle_in<'a>(
    call: &Prepared<'a>,
    answer: BeginAnswer,
    place: Option<Place>,
) -> Acquired<'a> {
    match acquired(call, answer, place) {
        Acquired::Granted(running) if !call.core().local => match running.confirm().await {
            Ok(running) => Acquired::Granted(running),
            Err(error) => Acquired::TooLate(error),
        },
        answer => answer,
    }
}

pub(super) fn acquired<'a>(
    call: &Prepared<'a>,
    answer: BeginAnswer,
    place: Option<Place>,
) -> Acquired<'a> {
    let BeginAnswer { answer, sent_at, copies } = answer;
    if let Ok(Begun::Fresh(attempt)) = answer {
        let running = Running::new(call, attempt, sent_at, copies, place);
        if call.core().local
            && let Err(error) = running.arm_now()
        {
            return Acquired::TooLate(error);
        }
        let core = call.core();
        return match call.policy.max_concurrent {
            // Dropped before its body started, it is released.
            Some(limit) if core.keeper.leases().count() > limit => {
                drop(running);
                Acquired::OverLimit { limit }
            }
            _ => Acquired::Granted(running),
        };
    }
    if let Some(mut place) = place {
        place.settle(call.fingerprint, Shared::from(&answer));
    }
    match answer {
        Ok(Begun::Succeeded { number, value }) => Acquired::Succeeded { number, value },
        Ok(Begun::FailedFinal { number, value }) => Acquired::FailedFinal { number, value },
        Ok(Begun::InFlight { retry_after }) => Acquired::InFlight { retry_after },
        Ok(Begun::Taken { retry_after }) => Acquired::Taken { retry_after },
        Ok(Begun::Mismatch) => Acquired::Mismatch,
        Ok(Begun::Indeterminate { number }) => Acquired::Indeterminate { number },
        Ok(Begun::Fresh(_) | Begun::Superseded) => Acquired::TooLate(StoreError::new(
            StoreErrorKind::Unavailable,
            "the attempt was ended before it was granted",
        )),
        Err(error) => Acquired::Refused(error),
    }
}

impl From<&Result<Begun, StoreError>> for Shared {
    fn from(answer: &Result<Begun, StoreError>) -> Self {
        match answer {
            Ok(Begun::Succeeded { number, value }) => {
                Self::Succeeded { number: *number, value: value.clone() }
            }
            Ok(Begun::FailedFinal { number, value }) => {
                Self::FailedFinal { number: *number, value: value.clone() }
            }
            Ok(Begun::Indeterminate { number }) => Self::Indeterminate { number: *number },
            Err(error) => Self::Refused(error.kind(), error.to_string()),
            Ok(_) => Self::Again,
        }
    }
}
