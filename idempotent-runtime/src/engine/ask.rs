//! Asks the store about one call until there is an answer or the wait is over.
//!
//! A waiting caller watches the record, looks, and sleeps until it is woken, with slow polling
//! beneath.
//! Looking changes nothing. It tells what became of the attempt that was waited for, before another
//! one is asked for: a caller counts the failed attempts that it waited for, and stops at two.

use super::acquire::{Acquired, acquired, settle_in};
use super::admission::{Full, Permit};
use super::awaited::Awaited;
use super::backoff::Backoff;
use super::begin::{BeginAnswer, RESEND_PAUSE, SENDS, begin, not_local, unanswered};
use super::call::Prepared;
use super::place::Place;
use super::release;
use crate::observe::{StoreTimer, WaitTimer};
use crate::protocol::Begun;
use crate::protocol::table::{self, Living};
use crate::race::{First, race};
use crate::store::{Record, State, StoreError, StoreErrorKind, Token, Verb, Watch};
use std::sync::Arc;
use std::time::Duration;

/// Asks until there is an answer, the wait is over, or too many attempts have failed, those included
/// that the call has waited for before.
pub(super) async fn ask<'a>(
    call: &Prepared<'a>,
    mut place: Option<Place>,
    mut awaited: Awaited,
) -> Acquired<'a> {
    let core = call.core();
    let deadline = call.called_at.after(call.policy.wait);
    let mut backoff = Backoff::new(core.config.load().retry_interval);
    // A local store has been asked once already. Who has waited before may have been slow to wake. But
    // who goes on with a token that was sent before would see that token, and wait for itself.
    let continues = place.as_ref().is_some_and(|place| place.sent.is_some());
    let mut looks = call.policy.waits() && (core.local || awaited.is_known() && !continues);
    let mut watching = call.policy.waits() && core.local;
    let mut watch = None;
    let mut waiting = None;
    loop {
        if watching && watch.is_none() {
            // Watch before looking, so that no change falls between.
            watch = Some(core.store.watch(&call.key).await.unwrap_or_else(|_| Watch::never()));
        }
        let looked = match looks {
            // Without an answer, `begin` is tried and says why.
            true => look(call).await.ok(),
            false => None,
        };
        if let Some(looked) = &looked {
            looked.tell(&mut awaited, place.as_ref());
        }
        if call.policy.waits() && awaited.is_over() && looked.as_ref().is_none_or(Looked::is_open) {
            return Acquired::FailedTwice;
        }
        let asked = match looked.map(|looked| looked.answer) {
            None | Some(Begun::Fresh(_)) => begin_within_limit(call, &mut place).await,
            Some(answer) => Asked::without_permit(BeginAnswer::new(Ok(answer), core.clock.now())),
        };
        let Asked { answer, permit } = asked;
        if let (Ok(Begun::Fresh(_)), MayRun::OverLimit(limit)) = (&answer.answer, &permit) {
            return Acquired::OverLimit { limit: *limit };
        }
        let Ok(Begun::InFlight { number, retry_after }) = answer.answer else {
            let too_many = match &answer.answer {
                Ok(Begun::Fresh(attempt)) => {
                    call.policy.waits() && !awaited.may_run(attempt.number)
                }
                _ => false,
            };
            let permit = permit.into_permit();
            if too_many {
                // Others ran between the look and the grant. Dropped, that is released.
                drop(acquired(call, answer, place, permit));
                return Acquired::FailedTwice;
            }
            return settle_in(call, answer, place, permit).await;
        };
        // A caller that waits for another body runs none.
        drop(permit);
        awaited.sees_running(number);
        if let Some(place) = &place {
            place.in_flight_elsewhere(number, retry_after);
        }
        if call.policy.waits() && awaited.is_over() {
            return Acquired::FailedTwice;
        }
        let now = core.clock.now();
        if !call.policy.waits() || now >= deadline {
            return Acquired::InFlight { lease_left: retry_after };
        }
        (looks, watching) = (true, true);
        waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
        let Some(armed) = &mut watch else { continue };
        // The holder may die silently: look when its lease is over at the latest.
        let pause = backoff.pause().min(retry_after.max(Duration::from_millis(1)));
        let asleep = core.sleep_until(now.after(pause).min(deadline));
        if let First::Left(()) = race(armed, asleep).await {
            // Most likely it has ended: look at once, and watch again only if it has not.
            (watch, watching) = (None, false);
        }
    }
}

/// An answer to a question, and the permit that it was asked with.
struct Asked {
    answer: BeginAnswer,
    permit: MayRun,
}

/// Permission to use a grant.
enum MayRun {
    Yes(Option<Arc<Permit>>),
    OverLimit(usize),
}

impl MayRun {
    fn into_permit(self) -> Option<Arc<Permit>> {
        match self {
            Self::Yes(permit) => permit,
            Self::OverLimit(_) => None,
        }
    }
}

impl Asked {
    fn without_permit(answer: BeginAnswer) -> Self {
        Self { answer, permit: MayRun::Yes(None) }
    }
}

/// Sends `begin` if a body may run. If none may, the record is looked at: what it says is answered
/// all the same, and a grant is none.
async fn begin_within_limit(call: &Prepared<'_>, place: &mut Option<Place>) -> Asked {
    let core = call.core();
    let Some(limit) = call.policy.max_concurrent else {
        return Asked::without_permit(begin(call, place).await);
    };
    let mut may_run = call.permit_around();
    let mut looked = None;
    loop {
        let changed = core.admission.changed();
        let permit = match may_run.take() {
            Some(permit) => Ok(permit),
            None => core.admission.ask(limit),
        };
        let full = match permit {
            Ok(permit) => {
                let answer = begin(call, place).await;
                return Asked { answer, permit: MayRun::Yes(Some(permit)) };
            }
            Err(full) => full,
        };
        let permit = MayRun::OverLimit(limit);
        match looked.take() {
            None => {
                // The caller that asked before has gone: a grant of its `begin` would be nobody's.
                if let Some(sent) = place.as_mut().and_then(|place| place.sent.take()) {
                    release::release_first(core, &call.key, *sent).await;
                }
                match look(call).await.map(|looked| looked.answer) {
                    // Asked once more: this has taken as long as an answer that others wait for.
                    Ok(fresh @ Begun::Fresh(_)) => looked = Some(fresh),
                    answer => {
                        let answer = BeginAnswer::new(answer, core.clock.now());
                        return Asked { answer, permit };
                    }
                }
            }
            Some(fresh) => {
                let patience = core.sleep_until(core.clock.now().after(call.policy.lease));
                let waited = match full {
                    Full::Running => First::Right(()),
                    Full::Asking => race(changed, patience).await,
                };
                match waited {
                    First::Left(()) => looked = Some(fresh),
                    First::Right(()) => {
                        let answer = BeginAnswer::new(Ok(fresh), core.clock.now());
                        return Asked { answer, permit };
                    }
                }
            }
        }
    }
}

/// A look at a record.
pub(super) struct Looked {
    /// The answer to a `begin`. If that is a grant, nothing was granted.
    pub(super) answer: Begun,
    /// The record's state, and the number of its attempt.
    state: Option<(State, u32)>,
}

impl Looked {
    fn new(call: &Prepared<'_>, record: Option<Record>) -> Self {
        let request = call.request(Token::random(), call.core().clock.now());
        let living = record.as_ref().map(|record| Living { head: record.head, ttl: record.ttl });
        let state = living.map(|living| (living.head.state, living.head.attempt.number));
        let (answer, _) = table::begin(living, &request);
        Self { answer: answer.with_value(|| record.and_then(|record| record.value)), state }
    }

    /// Tells the call, and those who wait with it, what the record says of the attempt.
    fn tell(&self, awaited: &mut Awaited, place: Option<&Place>) {
        match self.state {
            Some((State::Processing, number)) if matches!(self.answer, Begun::Fresh(_)) => {
                awaited.sees_lease_over(number);
            }
            // Told by the answer.
            Some((State::Processing, _)) => {}
            Some((State::FailedFree, number)) => {
                awaited.sees_failed(number);
                place.inspect(|place| place.failed_elsewhere(number));
            }
            _ => {}
        }
    }

    /// Whether the record holds no answer for the call.
    fn is_open(&self) -> bool {
        matches!(self.answer, Begun::Fresh(_) | Begun::InFlight { .. })
    }
}

/// Asks for the record, again if need be, and says what `begin` would answer.
pub(super) async fn look(call: &Prepared<'_>) -> Result<Looked, StoreError> {
    let core = call.core();
    let mut backoff = Backoff::new(RESEND_PAUSE);
    let mut sends = 0;
    loop {
        let timer = StoreTimer::start(&Verb::Get);
        let patience = core.sleep_until(core.clock.now().after(call.policy.lease));
        let First::Left(answer) = race(core.store.load(&call.key), patience).await else {
            return Err(unanswered());
        };
        timer.stop();
        sends += 1;
        match answer {
            Err(error) if error.kind() == StoreErrorKind::Unavailable && sends < SENDS => {}
            answer => return answer.map(|record| Looked::new(call, record)),
        }
        core.sleep_until(core.clock.now().after(backoff.pause())).await;
    }
}

/// As [`look`], for a local store, which answers at once.
pub(super) fn look_now(call: &Prepared<'_>) -> Result<Begun, StoreError> {
    let _timer = StoreTimer::start(&Verb::Get);
    let record = call.core().store.load(&call.key).now().unwrap_or_else(|_| Err(not_local()))?;
    Ok(Looked::new(call, record).answer)
}
