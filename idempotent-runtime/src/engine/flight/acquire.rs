//! From a prepared call to a right to run, or an answer.
//!
//! A local store is asked directly. Before any other store, the callers of one key meet in a
//! flight and one of them asks. In both cases a strong caller waits, until there is an answer, its wait is
//! over, or two attempts that it waited for have failed.

use super::ask::{ask, look_now};
use super::awaited::Awaited;
use super::begin::{BeginAnswer, begin_local};
use super::flights::{Turn, Waits};
use super::grant::{Acquired, grant};
use super::not_granted::NotGranted;
use super::participant::Participant;
use super::prepared::Prepared;
use crate::clock::Moment;
use crate::config::Mode;
use crate::engine::attempt::{AttemptState, Kept, Lookup};
use crate::observe::{self, WaitTimer, names};
use crate::protocol::Begun;
use crate::race::race;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::coop;

/// The first step of a call, which does not wait.
#[derive(Debug)]
pub(crate) enum FirstStep<'a> {
    Acquired(Acquired<'a>),
    /// The call has to [wait](acquire).
    Waits(Rest),
}

/// The rest of a call that has to wait.
#[derive(Debug)]
pub(crate) enum Rest {
    /// The store is not local, or others hold the key: the attempts that are known here.
    Asks(Awaited),
    /// The answer is known, and other tasks have their turn before it is given.
    Yields(Box<NotGranted>),
}

/// Asks a local store, and none if the instance is disabled.
pub(crate) fn acquire_now<'a>(call: &Prepared<'a>) -> FirstStep<'a> {
    if call.engine().is_disabled() {
        return FirstStep::Acquired(Err(while_disabled(call)));
    }
    if !call.engine().local {
        return match kept(call) {
            Some(found) if takes_budget() => FirstStep::Acquired(Err(found)),
            Some(found) => FirstStep::Waits(Rest::Yields(Box::new(found))),
            None => FirstStep::Waits(Rest::Asks(Awaited::default())),
        };
    }
    let around = call.enclosing_permit();
    let answer = match call.policy.max_concurrent {
        // What is recorded is answered all the same.
        Some(limit) if around.is_none() && call.engine().admission.is_full(limit) => {
            match look_now(call) {
                Ok(Begun::Fresh(_)) => {
                    return FirstStep::Acquired(Err(NotGranted::OverLimit { limit }));
                }
                answer => answer,
            }
        }
        _ => begin_local(call, call.called_at),
    };
    match answer {
        Ok(Begun::InFlight { number, .. }) if call.policy.waits() => {
            FirstStep::Waits(Rest::Asks(Awaited::told_of(number)))
        }
        answer => {
            let answer = BeginAnswer::new(answer, call.called_at);
            FirstStep::Acquired(grant(call, answer, None, around))
        }
    }
}

/// The finding that this process has kept for a call, if it has.
pub(in crate::engine) fn kept(call: &Prepared<'_>) -> Option<NotGranted> {
    let engine = call.engine();
    let replays = engine.replays.as_ref().filter(|_| call.policy.mode != Mode::Window)?;
    let lookup = replays.find(&call.key, call.fingerprint, call.called_at);
    observe::looked_up(&call.operation, lookup.name());
    match lookup {
        Lookup::Hit(Kept::Succeeded { number, value }) => {
            Some(NotGranted::Succeeded { number, value })
        }
        Lookup::Hit(Kept::FailedFinal { number, value }) => {
            Some(NotGranted::FailedFinal { number, value })
        }
        Lookup::Miss => None,
        Lookup::Off => {
            engine.hear_freed();
            None
        }
    }
}

/// Takes a unit of the budget that tokio gives a task for one turn. `false` if it is used up: a task whose calls are all
/// answered from memory would never give way to others.
fn takes_budget() -> bool {
    // Whoever gets `false` waits for the next turn by `consume_budget`, so there is nobody to wake.
    match coop::poll_proceed(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(unit) => {
            unit.made_progress();
            true
        }
        Poll::Pending => false,
    }
}

/// The answer of a disabled instance to a call.
pub(in crate::engine) fn while_disabled(call: &Prepared<'_>) -> NotGranted {
    match call.policy.may_run() {
        true => NotGranted::Disabled,
        false => NotGranted::OverLimit { limit: 0 },
    }
}

/// Asks the store, and waits if the call's mode says so. `rest` is what the [first step](acquire_now) of the call left.
pub(crate) async fn acquire<'a>(call: &Prepared<'a>, rest: Rest) -> Acquired<'a> {
    let mut awaited = match rest {
        Rest::Asks(awaited) => awaited,
        Rest::Yields(found) => {
            coop::consume_budget().await;
            return Err(*found);
        }
    };
    // It stays here, and is lent: the future would keep room for each place that it is moved to.
    let mut participant = join(call, &mut awaited);
    if let Some(follower) = participant.as_mut().filter(|participant| participant.follows())
        // Boxed, because most calls have their key to themselves, and it makes the future of each smaller.
        && let Err(found) = Box::pin(wait_for_the_lead(call, follower, &mut awaited)).await
    {
        let refused = Err(found);
        count_timeout(call, &refused);
        return refused;
    }
    let acquired = ask(call, &mut participant, awaited).await;
    count_timeout(call, &acquired);
    acquired
}

/// Joins the flight of the key, and leads it if nobody else does. `None` for a call that asks the store in no flight.
fn join(call: &Prepared<'_>, awaited: &mut Awaited) -> Option<Participant> {
    if call.engine().local || call.policy.mode == Mode::Window {
        return None;
    }
    let mut participant = Participant::join(call.engine(), &call.key);
    participant.lead_at_once(call.fingerprint, waits(call), awaited);
    Some(participant)
}

fn waits(call: &Prepared<'_>) -> Waits {
    if call.policy.waits() { Waits::Yes } else { Waits::No }
}

/// Counts a call that has waited in vain for another body.
pub(in crate::engine) fn count_timeout<T>(call: &Prepared<'_>, acquired: &Result<T, NotGranted>) {
    let is_held = acquired.as_ref().is_err_and(NotGranted::is_held);
    if is_held && call.policy.waits() {
        observe::rare(names::WAIT_TIMEOUTS, &call.operation);
    }
}

/// Joins the flight of the key, and waits until this call leads it or has its finding.
pub(in crate::engine) async fn take_the_lead(
    call: &Prepared<'_>,
    awaited: &mut Awaited,
) -> Result<Participant, NotGranted> {
    let mut participant = Participant::join(call.engine(), &call.key);
    wait_for_the_lead(call, &mut participant, awaited).await?;
    Ok(participant)
}

/// Waits until the participant leads. With an error it has to leave the flight, which passes the lead on.
async fn wait_for_the_lead(
    call: &Prepared<'_>,
    participant: &mut Participant,
    awaited: &mut Awaited,
) -> Result<(), NotGranted> {
    let waits = waits(call);
    let deadline = match waits {
        Waits::Yes => call.called_at.after(call.policy.wait),
        // Its leader is about to be answered.
        Waits::No => Moment::FAR,
    };
    let mut waiting = None;
    loop {
        let woken = participant.woken();
        let turn = participant.turn(call.fingerprint, waits, awaited);
        let gives_up = waits == Waits::Yes && awaited.is_over();
        match turn {
            Turn::Lead(begin) => {
                drop(woken);
                participant.lead(begin);
                return match gives_up {
                    true => Err(NotGranted::FailedTwice),
                    false => Ok(()),
                };
            }
            Turn::Mismatch => return Err(NotGranted::Mismatch),
            Turn::Landed(Some(
                found @ (NotGranted::Succeeded { .. } | NotGranted::FailedFinal { .. }),
            )) => return Err(found),
            _ if gives_up => return Err(NotGranted::FailedTwice),
            Turn::Landed(Some(found)) => return Err(found),
            Turn::Landed(None) | Turn::HolderLost => {
                drop(woken);
                *participant = Participant::join(call.engine(), &call.key);
            }
            Turn::InFlight(lease_left) => return Err(NotGranted::InFlight { lease_left }),
            Turn::Wait(_) if participant.has_waited() => {
                return Err(NotGranted::InFlight { lease_left: call.policy.lease });
            }
            Turn::Wait(holder) => {
                let Some(armed) = woken else {
                    drop(woken);
                    // Armed in the next round.
                    participant.waits_until(deadline);
                    continue;
                };
                if waits == Waits::Yes {
                    waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
                }
                if holder.is_some() {
                    call.engine().hear_freed();
                }
                race(armed, lost(holder)).await;
            }
        }
    }
}

/// Resolves when the attempt that runs in this process loses its lease.
async fn lost(holder: Option<Arc<AttemptState>>) {
    match holder {
        Some(state) => state.lost().await,
        None => std::future::pending().await,
    }
}
