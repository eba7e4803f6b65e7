//! From a prepared call to a right to run, or an answer.
//!
//! A local store is asked directly. Before any other store, the callers of one key meet in a slot
//! and one of them asks. In both cases a strong caller waits, until there is an answer, its wait is
//! over, or two attempts that it waited for have failed.

use super::admission::Permit;
use super::ask::{ask, look_now};
use super::awaited::Awaited;
use super::begin::{BeginAnswer, begin_local};
use super::call::Prepared;
use super::lease::Lease;
use super::place::Place;
use super::running::Running;
use super::slots::{Shared, Turn, Waits};
use crate::config::Mode;
use crate::observe::WaitTimer;
use crate::protocol::Begun;
use crate::race::{First, race};
use crate::store::{StoreError, StoreErrorKind, Value};
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
        /// The time for which the key stays held if its holder has died.
        lease_left: Duration,
    },
    /// Two attempts that this call waited for ended without an answer.
    FailedTwice,
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

/// The first step of a call, which does not wait.
#[derive(Debug)]
pub(crate) enum FirstStep<'a> {
    Acquired(Acquired<'a>),
    /// The store is not local, or the call has to wait for the attempts that are known here.
    Waits(Awaited),
}

/// Asks a local store, and none if the instance is disabled.
pub(crate) fn acquire_now<'a>(call: &Prepared<'a>) -> FirstStep<'a> {
    if call.core().is_disabled() {
        return FirstStep::Acquired(while_disabled(call));
    }
    if !call.core().local {
        return FirstStep::Waits(Awaited::default());
    }
    let around = call.permit_around();
    let answer = match call.policy.max_concurrent {
        // What is recorded is answered all the same.
        Some(limit) if around.is_none() && call.core().admission.is_full(limit) => {
            match look_now(call) {
                Ok(Begun::Fresh(_)) => {
                    return FirstStep::Acquired(Acquired::OverLimit { limit });
                }
                answer => answer,
            }
        }
        _ => begin_local(call, call.called_at),
    };
    match answer {
        Ok(Begun::InFlight { number, .. }) if call.policy.waits() => {
            FirstStep::Waits(Awaited::told_of(number))
        }
        answer => {
            let answer = BeginAnswer::new(answer, call.called_at);
            FirstStep::Acquired(acquired(call, answer, None, around))
        }
    }
}

/// The answer of a disabled instance to a call.
pub(super) fn while_disabled(call: &Prepared<'_>) -> Acquired<'static> {
    match call.policy.may_run() {
        true => Acquired::Disabled,
        false => Acquired::OverLimit { limit: 0 },
    }
}

/// Asks the store, and waits if the call's mode says so. `awaited` is what the
/// [first step](acquire_now) of the call left.
pub(crate) async fn acquire<'a>(call: &Prepared<'a>, mut awaited: Awaited) -> Acquired<'a> {
    if call.core().local || call.policy.mode == Mode::Window {
        return ask(call, None, awaited).await;
    }
    let waits = if call.policy.waits() { Waits::Yes } else { Waits::No };
    let deadline = call.called_at.after(call.policy.wait);
    let mut place = Place::join(call.core(), &call.key);
    let mut waiting = None;
    loop {
        let changed = place.changed();
        let turn = place.turn(call.fingerprint, waits);
        place.tell(&mut awaited);
        let gives_up = waits == Waits::Yes && awaited.is_over();
        match turn {
            Turn::Mismatch => return Acquired::Mismatch,
            Turn::Share(Shared::Again | Shared::Failed { .. }) if !gives_up => {
                place = Place::join(call.core(), &call.key);
            }
            Turn::Share(shared @ (Shared::Succeeded { .. } | Shared::FailedFinal { .. })) => {
                return shared.into();
            }
            // If it was its turn to ask, leaving the slot passes the turn on.
            _ if gives_up => return Acquired::FailedTwice,
            Turn::Share(shared) => return shared.into(),
            Turn::Sit(_) => return ask(call, Some(place), awaited).await,
            Turn::InFlight(lease_left) => return Acquired::InFlight { lease_left },
            Turn::Wait if waits == Waits::No => changed.await,
            Turn::Wait => {
                waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
                let holder = place.holder();
                if holder.is_some() {
                    call.core().hear_freed();
                }
                let asleep = call.core().sleep_until(deadline);
                let news = race(changed, lost(holder));
                if let First::Right(()) = race(news, asleep).await {
                    return Acquired::InFlight { lease_left: call.policy.lease };
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
            Shared::Again | Shared::Failed { .. } => Self::InFlight { lease_left: Duration::ZERO },
        }
    }
}

/// Turns an answer into what the call has got; a grant is checked against the time it took, and a
/// key that blocks is armed.
pub(super) async fn settle_in<'a>(
    call: &Prepared<'a>,
    answer: BeginAnswer,
    place: Option<Place>,
    permit: Option<Arc<Permit>>,
) -> Acquired<'a> {
    match acquired(call, answer, place, permit) {
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
    permit: Option<Arc<Permit>>,
) -> Acquired<'a> {
    let BeginAnswer { answer, sent_at, copies } = answer;
    if let Ok(Begun::Fresh(attempt)) = answer {
        let permit = match (permit, call.policy.max_concurrent) {
            (None, Some(limit)) => match call.core().admission.run(limit) {
                Ok(permit) => Some(permit),
                // Others were faster. Dropped before its body started, it is released.
                Err(_) => {
                    drop(Running::new(call, attempt, sent_at, copies, place, None));
                    return Acquired::OverLimit { limit };
                }
            },
            (permit, _) => permit,
        };
        let running = Running::new(call, attempt, sent_at, copies, place, permit);
        if call.core().local
            && let Err(error) = running.arm_now()
        {
            return Acquired::TooLate(error);
        }
        return Acquired::Granted(running);
    }
    if let Some(mut place) = place {
        place.settle(call.fingerprint, Shared::from(&answer));
    }
    match answer {
        Ok(Begun::Succeeded { number, value }) => Acquired::Succeeded { number, value },
        Ok(Begun::FailedFinal { number, value }) => Acquired::FailedFinal { number, value },
        Ok(Begun::InFlight { retry_after, .. }) => Acquired::InFlight { lease_left: retry_after },
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
