//! Asks the store about one call until there is an answer or the wait is over.
//!
//! A waiting caller watches the record, looks, and sleeps until it is woken, with slow polling
//! beneath.
//! Looking changes nothing. It tells what became of the attempt that was waited for, before another
//! one is asked for: a caller counts the failed attempts that it waited for, and stops at two.

use super::awaited::Awaited;
use super::begin::{BeginAnswer, begin};
use super::grant::{Acquired, grant, in_time};
use super::not_granted::NotGranted;
use super::participant::Participant;
use super::prepared::Prepared;
use crate::backoff::Backoff;
use crate::engine::attempt::admission::{Full, Permit};
use crate::engine::attempt::faults::{not_local, unanswered};
use crate::engine::attempt::release::release_first;
use crate::engine::resend::Resend;
use crate::observe::{StoreTimer, WaitTimer};
use crate::protocol::Begun;
use crate::protocol::table::{self, Living};
use crate::race::{First, race};
use crate::store::{Record, State, StoreError, StoreErrorKind, Token, Verb, Watch};
use std::sync::Arc;
use std::time::Duration;

/// Asks until there is an answer, the wait is over, or too many attempts have failed, those included
/// that the call has waited for before.
///
/// The participant stays its owner's until there is an answer: taken by value, it would be kept here a second time.
pub(super) async fn ask<'a>(
    call: &Prepared<'a>,
    participant: &mut Option<Participant>,
    awaited: Awaited,
) -> Acquired<'a> {
    let engine = call.engine();
    // A local store has been asked once already. A call that has waited before may have been slow to
    // wake. But one that goes on with a token that was sent before would see that token, and wait for
    // itself.
    let continues = participant.as_ref().is_some_and(|leader| leader.begin.is_some());
    let looks = call.policy.waits() && (engine.local || awaited.is_known() && !continues);
    let first = match !looks && !awaited.is_over() && call.policy.max_concurrent.is_none() {
        true => first_answer(call, begin(call, participant).await, participant, &awaited),
        false => First::Right(None),
    };
    match first {
        First::Left(acquired) => in_time(call, acquired?).await,
        // Boxed, because the first answer is most often the last, and it makes the future of every call smaller.
        First::Right(asked) => {
            let asked = asked.map(|asked| *asked);
            Box::pin(keep_asking(call, participant.take(), awaited, looks, asked)).await
        }
    }
}

/// Takes the first answer, if it ends the question.
fn first_answer<'a>(
    call: &Prepared<'a>,
    answer: BeginAnswer,
    participant: &mut Option<Participant>,
    awaited: &Awaited,
) -> First<Acquired<'a>, Option<Box<Asked>>> {
    let again = asks_again(call, &answer);
    let asked = Asked::without_permit(answer);
    match again {
        true => First::Right(Some(Box::new(asked))),
        false => First::Left(take(call, asked, participant.take(), awaited)),
    }
}

/// `true` if this answer leaves a call waiting, or is to be refused for the attempt that it tells of.
fn asks_again(call: &Prepared<'_>, answer: &BeginAnswer) -> bool {
    match &answer.answer {
        Ok(Begun::InFlight { .. }) => true,
        Err(error) => error.kind() == StoreErrorKind::Contended && call.policy.waits(),
        Ok(_) => false,
    }
}

/// Takes an answer that ends the question.
fn take<'a>(
    call: &Prepared<'a>,
    asked: Asked,
    participant: Option<Participant>,
    awaited: &Awaited,
) -> Acquired<'a> {
    let Asked { answer, permit } = asked;
    if let (Ok(Begun::Fresh(_)), MayRun::OverLimit(limit)) = (&answer.answer, &permit) {
        return Err(NotGranted::OverLimit { limit: *limit });
    }
    let too_many = match &answer.answer {
        Ok(Begun::Fresh(attempt)) => call.policy.waits() && !awaited.may_run(attempt.number),
        _ => false,
    };
    let granted = grant(call, answer, participant, permit.into_permit());
    if too_many {
        // Others ran between the look and the grant. Dropped, that is released.
        drop(granted);
        return Err(NotGranted::FailedTwice);
    }
    granted
}

/// The same for a call that does not end with its first answer: `asked`, if it has been asked at all. `looks` if it
/// begins with a look at the record.
async fn keep_asking<'a>(
    call: &Prepared<'a>,
    mut participant: Option<Participant>,
    mut awaited: Awaited,
    mut looks: bool,
    mut asked: Option<Asked>,
) -> Acquired<'a> {
    let engine = call.engine();
    let deadline = call.called_at.after(call.policy.wait);
    let mut backoff = Backoff::new(engine.config.load().retry_interval);
    let mut watching = call.policy.waits() && engine.local;
    let mut watch = None;
    let mut waiting = None;
    loop {
        let asked = match asked.take() {
            Some(asked) => asked,
            None => {
                if watching && watch.is_none() {
                    // Watch before looking, so that no change falls between.
                    let armed = engine.store.watch(&call.key).await;
                    watch = Some(armed.unwrap_or_else(|_| Watch::never()));
                }
                let looked = match looks {
                    // Without an answer, `begin` is tried and says why.
                    true => look(call).await.ok(),
                    false => None,
                };
                if let Some(looked) = &looked {
                    looked.tell(&mut awaited, participant.as_ref());
                }
                let is_open = looked.as_ref().is_none_or(Looked::is_open);
                if call.policy.waits() && awaited.is_over() && is_open {
                    return Err(NotGranted::FailedTwice);
                }
                match looked.map(|looked| looked.answer) {
                    None | Some(Begun::Fresh(_)) => {
                        begin_within_limit(call, &mut participant).await
                    }
                    Some(answer) => {
                        Asked::without_permit(BeginAnswer::new(Ok(answer), engine.clock.now()))
                    }
                }
            }
        };
        if let Err(error) = &asked.answer.answer
            && error.kind() == StoreErrorKind::Contended
            && call.policy.waits()
            && engine.clock.now() < deadline
        {
            // A transaction may hold the key, and shows nothing of itself before it commits.
            drop(asked);
            waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
            let pause = engine.clock.now().after(backoff.pause());
            engine.sleep_until(pause.min(deadline)).await;
            continue;
        }
        let Ok(Begun::InFlight { number, retry_after }) = asked.answer.answer else {
            return in_time(call, take(call, asked, participant, &awaited)?).await;
        };
        // A caller that waits for another body runs none.
        drop(asked);
        awaited.sees_running(number);
        if let Some(participant) = &participant {
            participant.in_flight_elsewhere(number, retry_after);
        }
        if call.policy.waits() && awaited.is_over() {
            return Err(NotGranted::FailedTwice);
        }
        let now = engine.clock.now();
        if !call.policy.waits() || now >= deadline {
            return Err(NotGranted::InFlight { lease_left: retry_after });
        }
        (looks, watching) = (true, true);
        waiting.get_or_insert_with(|| WaitTimer::start(&call.operation));
        let Some(armed) = &mut watch else { continue };
        // The holder may die silently: look when its lease is over at the latest.
        let pause = backoff.pause().min(retry_after.max(Duration::from_millis(1)));
        let asleep = engine.sleep_until(now.after(pause).min(deadline));
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
async fn begin_within_limit(call: &Prepared<'_>, participant: &mut Option<Participant>) -> Asked {
    match call.policy.max_concurrent {
        None => Asked::without_permit(begin(call, participant).await),
        // Boxed, because it makes the future of every call smaller.
        Some(limit) => Box::pin(begin_with_permit(call, participant, limit)).await,
    }
}

async fn begin_with_permit(
    call: &Prepared<'_>,
    participant: &mut Option<Participant>,
    limit: usize,
) -> Asked {
    let engine = call.engine();
    let mut may_run = call.enclosing_permit();
    let mut looked = None;
    loop {
        let changed = engine.admission.changed();
        let permit = match may_run.take() {
            Some(permit) => Ok(permit),
            None => engine.admission.ask(limit),
        };
        let full = match permit {
            Ok(permit) => {
                let answer = begin(call, participant).await;
                return Asked { answer, permit: MayRun::Yes(Some(permit)) };
            }
            Err(full) => full,
        };
        let permit = MayRun::OverLimit(limit);
        match looked.take() {
            None => {
                // The caller that asked before has gone: a grant of its `begin` would be nobody's.
                if let Some(begin) = participant.as_mut().and_then(|leader| leader.begin.take()) {
                    release_first(engine, &call.key, *begin).await;
                }
                match look(call).await.map(|looked| looked.answer) {
                    // Asked once more: this has taken as long as an answer that others wait for.
                    Ok(fresh @ Begun::Fresh(_)) => looked = Some(fresh),
                    answer => {
                        let answer = BeginAnswer::new(answer, engine.clock.now());
                        return Asked { answer, permit };
                    }
                }
            }
            Some(fresh) => {
                let patience = engine.sleep_until(engine.clock.now().after(call.policy.lease));
                let waited = match full {
                    Full::Running => First::Right(()),
                    Full::Asking => race(changed, patience).await,
                };
                match waited {
                    First::Left(()) => looked = Some(fresh),
                    First::Right(()) => {
                        let answer = BeginAnswer::new(Ok(fresh), engine.clock.now());
                        return Asked { answer, permit };
                    }
                }
            }
        }
    }
}

/// A look at a record.
pub(in crate::engine) struct Looked {
    /// The answer to a `begin`. If that is a grant, nothing was granted.
    pub(in crate::engine) answer: Begun,
    /// The record's state, and the number of its attempt.
    state: Option<(State, u32)>,
}

impl Looked {
    fn new(call: &Prepared<'_>, record: Option<Record>) -> Self {
        let request = call.request(Token::random(), call.engine().clock.now());
        let living = record.as_ref().map(|record| Living { head: record.head, ttl: record.ttl });
        let state = living.map(|living| (living.head.state, living.head.attempt.number));
        let value = record.and_then(|record| record.value);
        let (answer, _) = table::begin(living, value, &request);
        Self { answer, state }
    }

    /// Tells the call, and those who wait with it, what the record says of the attempt.
    fn tell(&self, awaited: &mut Awaited, participant: Option<&Participant>) {
        match self.state {
            Some((State::Processing, number)) if matches!(self.answer, Begun::Fresh(_)) => {
                awaited.sees_lease_over(number);
            }
            // Told by the answer.
            Some((State::Processing, _)) => {}
            Some((State::FailedFree, number)) => {
                awaited.sees_failed(number);
                participant.inspect(|leader| leader.failed_elsewhere(number));
            }
            _ => {}
        }
    }

    /// `true` if the record holds no answer for the call.
    fn is_open(&self) -> bool {
        matches!(self.answer, Begun::Fresh(_) | Begun::InFlight { .. })
    }
}

/// Asks for the record, again if need be, and says what `begin` would answer.
pub(in crate::engine) async fn look(call: &Prepared<'_>) -> Result<Looked, StoreError> {
    let engine = call.engine();
    let mut resend = Resend::new();
    loop {
        let timer = StoreTimer::start(&Verb::Get);
        let patience = engine.sleep_until(engine.clock.now().after(call.policy.lease));
        let reading = engine.reading();
        let First::Left(answer) = race(engine.store.load(&call.key), patience).await else {
            let error = unanswered();
            timer.failed(&error);
            return Err(error);
        };
        timer.answered(&answer);
        let pause = match answer {
            Ok(record) => {
                let life = record.as_ref().map_or(Duration::ZERO, |record| record.ttl);
                let looked = Looked::new(call, record);
                engine.told(reading, call.told(&looked.answer, life));
                return Ok(looked);
            }
            Err(error) => resend.after(&error).ok_or(error)?,
        };
        engine.sleep_until(engine.clock.now().after(pause)).await;
    }
}

/// As [`look`], for a local store, which answers at once.
pub(super) fn look_now(call: &Prepared<'_>) -> Result<Begun, StoreError> {
    let timer = StoreTimer::start(&Verb::Get);
    let answer = call.engine().store.load(&call.key).now().unwrap_or_else(|_| Err(not_local()));
    timer.answered(&answer);
    Ok(Looked::new(call, answer?).answer)
}
