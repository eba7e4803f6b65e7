//! A call inside a database transaction that begins and ends with it.
//!
//! Claim, body, record and commit are one transaction: what the body wrote and the record of its
//! answer are there together, or neither is. The steps whose interruption would leave the outcome
//! unknown, to begin and to commit, are not interrupted: the caller may go away, and the key still
//! ends.

use super::body::Body;
use super::finish::{Finish, Finished, is_rolled_back, not_in_time};
use super::run::{Decision, conclude, decide, end_of, refuse, unprotected};
use super::underway::Underway;
use super::uninterrupted::uninterrupted;
use super::unrecorded::{Effects, kept, run_unrecorded, source_rolls_back, unknown, warn_of_kept};
use crate::answer_policy::AnswerPolicy;
use crate::backoff::Backoff;
use crate::config::Mode;
use crate::engine::attempt::admission::Permit;
use crate::engine::attempt::release::release_first;
use crate::engine::attempt::{AttemptGuard, End};
use crate::engine::flight::{
    Awaited, NotGranted, Participant, Prepared, count_timeout, look, take_the_lead, while_disabled,
};
use crate::engine::resend::Resend;
use crate::error::{Error, ErrorKind};
use crate::observe::{self, CallEnd, Ending};
use crate::outcome::Outcome;
use crate::protocol::{
    Begun, Claimed, Failure, OpenTransaction as _, TransactionClaim, TransactionSource, Updated,
};
use crate::race::{First, race};
use crate::store::{Seen, StoreError, StoreErrorKind, Swap, Token, Verb, Watch};
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The number of transactions that a call begins, should each of them lose a race.
const ROUNDS: u32 = 12;
/// The pauses between them double up to the longest. A race may be lost for as long as the commit of the
/// winner takes, with a slow disk or a replica that is waited for: all pauses are two seconds and more,
/// and the first ones are short.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The time after which a transaction that has not begun counts as refused. It includes that for a
/// connection of the pool, which has a limit of its own: half a minute, mostly.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);

/// Runs `body` once per key, in a transaction of `source`.
pub(crate) async fn run_transacted<T, E, S, B, F>(
    call: Result<Prepared<'_>, Error>,
    answers: AnswerPolicy<T, E>,
    source: S,
    repeats: fn(&E) -> bool,
    mut body: B,
) -> Result<Outcome<T>, E>
where
    S: TransactionSource,
    B: FnMut(S::Lent) -> F,
    F: Future<Output = Result<T, E>>,
{
    let call = match call.and_then(suitable) {
        Ok(call) => call,
        Err(error) => return Err(refuse(error, &answers)),
    };
    let mut end = CallEnd::new(call.operation.clone());
    let mut awaited = Awaited::default();
    let mut rounds = Rounds::new();
    let mut body_ran = false;
    loop {
        let undoable = answers.keeps_failures();
        let acquired = acquire(&call, &source, &mut awaited, &mut rounds, undoable).await;
        count_timeout(&call, &acquired);
        let held = match acquired {
            Ok(held) => held,
            // The body ran in an earlier round, and was rolled back.
            Err(found) if body_ran && !is_replayed(&call, &answers, &found) => {
                let error = call.refusal(found).after_the_body_ran();
                end.refused(&error);
                return Err((answers.refuse)(error));
            }
            Err(found) => {
                let decision: Decision<'_, T, E> = decide(&call, &answers, Err(found), &mut end);
                match decision {
                    ControlFlow::Break(answer) => return answer,
                    ControlFlow::Continue(_) => {
                        end.ends(Ending::Unprotected);
                        return run_unprotected(&call, &answers, source, body).await;
                    }
                }
            }
        };
        body_ran = true;
        let Held { mut attempt, transaction, seen, before } = held;
        let (lent, loan) = source.lend(transaction);
        let answer = {
            let mut running = pin!(Body::new(async { body(lent).await }));
            running.as_mut().start(&mut attempt);
            running.as_mut().await
        };
        let (last, effects) = (end_of(&attempt, &answers, &answer), Effects::of(&answers, &answer));
        let Some(transaction) = loan.take() else {
            let error = call.blame(kept(&call.operation));
            // The body's own error, and nothing was to be committed.
            if answer.is_err() && is_rolled_back(effects, &last) {
                warn_of_kept(&error);
                return conclude(&attempt, &answers, answer, Ok(Updated::Gone), &mut end);
            }
            end.refused(&error);
            return Err((answers.refuse)(error));
        };
        if let Err(error) = &answer
            && repeats(error)
            && let Some(pause) = rounds.next_after()
        {
            uninterrupted(source_rolls_back(source.clone(), transaction)).await;
            drop(attempt);
            call.engine().sleep_until(call.engine().clock.now().after(pause)).await;
            continue;
        }
        let seen = if is_rolled_back(effects, &last) { before } else { seen };
        let finish = Finish {
            key: call.key.clone(),
            token: attempt.state().id().token,
            swap: attempt.swap(&last).map(|swap| Swap { seen, ..swap }),
            effects,
            patience: call.policy.lease,
            attempt: attempt.into_owned(),
            end: last,
            transaction,
            source: source.clone(),
        };
        let underway = Underway::new(call.engine());
        let finished = uninterrupted(async move {
            let _underway = underway;
            finish.run().await
        });
        let Some((attempt, finished)) = finished.await else {
            let error = call.blame(unknown(&call.operation));
            end.refused(&error);
            return Err((answers.refuse)(error));
        };
        let error = match finished {
            Finished::Recorded(updated) => {
                return conclude(&attempt, &answers, answer, Ok(updated), &mut end);
            }
            // The body's own error, and its effects are undone.
            finished if answer.is_err() => {
                let updated = match finished {
                    Finished::LostRace(_) => Updated::Superseded,
                    _ => Updated::Gone,
                };
                return conclude(&attempt, &answers, answer, Ok(updated), &mut end);
            }
            Finished::LostRace(error) => {
                if let Some(pause) = rounds.next_after() {
                    drop(attempt);
                    call.engine().sleep_until(call.engine().clock.now().after(pause)).await;
                    continue;
                }
                call.store_error(error).after_the_body_ran()
            }
            Finished::Failed(error) => call.store_error(error).after_the_body_ran(),
            Finished::Unknown(error) => call.blame(unknown(&call.operation)).with_source(error),
        };
        end.refused(&error);
        return Err((answers.refuse)(error));
    }
}

/// `true` if a call is answered with what was found, and not refused.
fn is_replayed<T, E>(
    call: &Prepared<'_>,
    answers: &AnswerPolicy<T, E>,
    found: &NotGranted,
) -> bool {
    match found {
        NotGranted::Succeeded { value: Some(_), .. } => {
            call.policy.mode == Mode::Strong && answers.keeps_values()
        }
        NotGranted::FailedFinal { value: Some(_), .. } => true,
        _ => false,
    }
}

/// The transactions of one call.
struct Rounds {
    left: u32,
    backoff: Backoff,
}

impl Rounds {
    /// Before the first one.
    fn new() -> Self {
        Self { left: ROUNDS - 1, backoff: Backoff::up_to(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    /// The pause before another transaction, after one that lost a race; `None` if it was the last.
    fn next_after(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        Some(self.backoff.pause())
    }
}

/// A call that can run in a transaction.
fn suitable(call: Prepared<'_>) -> Result<Prepared<'_>, Error> {
    let text = if call.policy.mode == Mode::Window {
        "a window is not taken in a transaction\nhelp: use mode `reject` or `strong`"
    } else if tokio::runtime::Handle::try_current().is_err() {
        "a transaction needs a tokio runtime around the call"
    } else {
        return Ok(call);
    };
    Err(call.error(ErrorKind::Misconfigured).with_message(text))
}

/// An attempt that holds its key by a transaction.
struct Held<'a, X> {
    transaction: X,
    /// The record that must be there at the end.
    seen: Seen,
    /// The record that is there without the transaction.
    before: Seen,
    // Dropped last: callers that wait for it find the key free.
    attempt: AttemptGuard<'a>,
}

/// Begins a transaction that holds the key, or says why there is none.
async fn acquire<'a, S: TransactionSource>(
    call: &Prepared<'a>,
    source: &S,
    awaited: &mut Awaited,
    rounds: &mut Rounds,
    undoable: bool,
) -> Result<Held<'a, S::Transaction>, NotGranted> {
    let engine = call.engine();
    if engine.is_disabled() {
        return Err(while_disabled(call));
    }
    let mut participant = take_the_lead(call, awaited).await?;
    // Left by a leader that asked the store and went.
    if let Some(begin) = participant.begin.take() {
        release_first(engine, &call.key, *begin).await;
    }
    let deadline = call.called_at.after(call.policy.wait);
    let mut resend = Resend::new();
    let mut backoff = Backoff::new(engine.config.load().retry_interval);
    loop {
        let (transaction, claimed) = match claim(call, source, &mut participant, undoable).await {
            Ok(claimed) => claimed,
            Err(error) => {
                observe::store_failed(Verb::Begin, &error);
                let pause = match error.kind() {
                    StoreErrorKind::Contended => rounds.next_after(),
                    _ => resend.after(&error),
                };
                let Some(pause) = pause else {
                    let found = NotGranted::Refused(error);
                    participant.found(call.fingerprint, &found);
                    return Err(found);
                };
                engine.sleep_until(engine.clock.now().after(pause)).await;
                continue;
            }
        };
        let begun = match claimed {
            Claimed::Granted { attempt, seen, before } => {
                // Not before: a caller that waits for another body runs none.
                let permit = match permit(call).await {
                    Ok(permit) => permit,
                    Err(found) => {
                        uninterrupted(source_rolls_back(source.clone(), transaction)).await;
                        return Err(found);
                    }
                };
                let waiters = Some(Box::new(participant) as _);
                let locks_store = transaction.locks_store();
                let exhausted = call.exhausted(&attempt);
                let attempt = call.granted_by_transaction(attempt, waiters, permit, locks_store);
                let held = Held { transaction, seen, before, attempt };
                return match exhausted {
                    Some(exhausted) => Err(give_up(call, source, held, exhausted).await),
                    None => Ok(held),
                };
            }
            Claimed::Answered(begun) => begun,
            Claimed::Held | Claimed::Outdated => {
                let source = source.clone();
                uninterrupted(source_rolls_back(source, transaction)).await;
                if claimed == Claimed::Outdated && engine.clock.now() < deadline {
                    continue;
                }
                return Err(NotGranted::InFlight { lease_left: call.policy.lease });
            }
        };
        uninterrupted(source_rolls_back(source.clone(), transaction)).await;
        match begun {
            // An attempt without a transaction holds it.
            Begun::InFlight { number, retry_after } => {
                participant.in_flight_elsewhere(number, retry_after);
                let now = engine.clock.now();
                if !call.policy.waits() || now >= deadline {
                    return Err(NotGranted::InFlight { lease_left: retry_after });
                }
                let watch = engine.store.watch(&call.key).await.unwrap_or_else(|_| Watch::never());
                let pause = backoff.pause().min(retry_after.max(Duration::from_millis(1)));
                race(watch, engine.sleep_until(now.after(pause).min(deadline))).await;
            }
            begun => {
                let found = NotGranted::from_answer(Ok(begun));
                participant.found(call.fingerprint, &found);
                return Err(found);
            }
        }
    }
}

/// Records the final failure of a key whose body has started as often as it may.
async fn give_up<S: TransactionSource>(
    call: &Prepared<'_>,
    source: &S,
    held: Held<'_, S::Transaction>,
    exhausted: NotGranted,
) -> NotGranted {
    let Held { transaction, seen, attempt, .. } = held;
    let end = End::Fail(Failure::Final(None));
    let finish = Finish {
        key: call.key.clone(),
        token: attempt.state().id().token,
        swap: attempt.swap(&end).map(|swap| Swap { seen, ..swap }),
        effects: Effects::Kept,
        patience: call.policy.lease,
        attempt: attempt.into_owned(),
        end,
        transaction,
        source: source.clone(),
    };
    match uninterrupted(finish.run()).await {
        // Another attempt came first, and may have succeeded: the next call finds out.
        Some((_, Finished::LostRace(_))) => NotGranted::InFlight { lease_left: call.policy.lease },
        // A failure that is not recorded is found again by the next call.
        _ => exhausted,
    }
}

/// The permit of a body that may run, or the answer to a call that may not.
pub(super) async fn permit(call: &Prepared<'_>) -> Result<Option<Arc<Permit>>, NotGranted> {
    let Some(limit) = call.policy.max_concurrent else { return Ok(None) };
    if let Some(permit) = call.enclosing_permit() {
        return Ok(Some(permit));
    }
    if let Ok(permit) = call.engine().admission.run(limit) {
        return Ok(Some(permit));
    }
    // What is recorded is answered all the same.
    match look(call).await {
        Ok(looked) if !matches!(looked.answer, Begun::Fresh(_)) => {
            Err(NotGranted::from_answer(Ok(looked.answer)))
        }
        Ok(_) => Err(NotGranted::OverLimit { limit }),
        Err(error) => Err(NotGranted::Refused(error)),
    }
}

/// Begins a transaction and claims the key in it. A caller that waits first asks without waiting,
/// so that those behind it that do not wait are told.
async fn claim<S: TransactionSource>(
    call: &Prepared<'_>,
    source: &S,
    participant: &mut Participant,
    undoable: bool,
) -> Result<(S::Transaction, Claimed), StoreError> {
    let engine = call.engine();
    let request = call.request(Token::random(), engine.clock.now());
    let (wait, max_run) = (Duration::ZERO, call.policy.max_run);
    let (begins, store, key) = (source.clone(), Arc::clone(&engine.store), call.key.clone());
    let begun = uninterrupted(async move {
        let (store, key) = (&*store, &key);
        let claim = TransactionClaim { store, key, request, wait, max_run, undoable };
        begins.begin_for_claim(claim).await
    });
    let late = engine.sleep_until(engine.clock.now().after(BEGIN_PATIENCE));
    let begun = match race(begun, late).await {
        First::Left(begun) => begun,
        // One that comes about later is dropped, and with that rolled back.
        First::Right(()) => return Err(not_in_time().without_effect()),
    };
    let Some(begun) = begun else {
        let text = "the runtime is shutting down";
        return Err(StoreError::new(StoreErrorKind::Unavailable, text).without_effect());
    };
    let mut transaction = begun?;
    let (store, key) = (&*engine.store, &call.key);
    // Fences follow the time at which their keys were held, which is after the wait for a connection.
    let request = call.request(request.token, engine.clock.now());
    let mut terms = TransactionClaim { store, key, request, wait, max_run, undoable };
    let mut claimed = in_time(call, transaction.claim(terms), terms.wait).await?;
    if claimed == Claimed::Held && call.policy.waits() {
        participant.held_elsewhere(call.policy.lease);
        terms.wait = call.called_at.after(call.policy.wait).since(engine.clock.now());
        if !terms.wait.is_zero() {
            claimed = in_time(call, transaction.claim(terms), terms.wait).await?;
        }
    }
    Ok((transaction, claimed))
}

/// The answer to a claim that may wait for so long. One that takes a lease longer has none: dropped,
/// its transaction is rolled back.
async fn in_time(
    call: &Prepared<'_>,
    claims: impl Future<Output = Result<Claimed, StoreError>>,
    wait: Duration,
) -> Result<Claimed, StoreError> {
    let engine = call.engine();
    let limit = wait.saturating_add(call.policy.lease);
    match race(claims, engine.sleep_until(engine.clock.now().after(limit))).await {
        First::Left(claimed) => claimed,
        First::Right(()) => Err(not_in_time().without_effect()),
    }
}

/// Runs a body without a record, in a transaction all the same.
async fn run_unprotected<T, E, S, B, F>(
    call: &Prepared<'_>,
    answers: &AnswerPolicy<T, E>,
    source: S,
    body: B,
) -> Result<Outcome<T>, E>
where
    S: TransactionSource,
    B: FnMut(S::Lent) -> F,
    F: Future<Output = Result<T, E>>,
{
    let blame = |error| call.blame(error);
    unprotected(run_unrecorded(&call.operation, answers, source, body, blame).await)
}
