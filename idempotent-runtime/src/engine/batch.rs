//! Many calls of one operation: one `begin` for all, one body, one end for all.

use super::acquire::{Acquired, acquired};
use super::admission::{Full, Permit, around, with_permit};
use super::ask::look;
use super::backoff::Backoff;
use super::begin::{BeginAnswer, RESEND_PAUSE, SENDS};
use super::call::Prepared;
use super::core::Core;
use super::run::{Decision, conclude, decide, refuse, verb};
use super::running::Running;
use super::settle::{self, Handoff};
use super::slots::Sent;
use crate::answers::Answers;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{BodyTimer, CallEnd, Ending, StoreTimer};
use crate::operation::Outcome;
use crate::race::{First, race};
use crate::store::future::all;
use crate::store::{BeginRequest, Begun, StoreError, StoreErrorKind, StoreFuture, Token};
use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// One call of a batch, and its answer once there is one.
struct Item<'a, T, E> {
    call: Prepared<'a>,
    end: CallEnd,
    answer: Option<Result<Outcome<T>, E>>,
}

/// Runs `body` once, with the inputs whose keys are free, and answers the others as their records
/// say. Nobody waits for a body that runs elsewhere.
pub(crate) async fn run_batch<I, T, E, B, F>(
    calls: Vec<(Result<Prepared<'_>, Error>, I)>,
    answers: &Answers<T, E>,
    body: B,
) -> Vec<Result<Outcome<T>, E>>
where
    B: FnOnce(Vec<I>) -> F,
    F: Future<Output = Vec<Result<T, E>>>,
{
    let mut order = Vec::with_capacity(calls.len());
    let (mut items, mut inputs) = (Vec::new(), Vec::new());
    for (call, input) in calls {
        match call {
            Ok(call) => {
                let end = CallEnd::new(call.operation.clone());
                order.push(Ok(items.len()));
                items.push(Item { call, end, answer: None });
                inputs.push(Some(input));
            }
            Err(error) => order.push(Err(refuse(error, answers))),
        }
    }
    execute(&mut items, inputs, answers, body).await;
    let mut answered: Vec<_> = items.into_iter().map(|item| item.answer).collect();
    let answer = |place| match place {
        Ok(index) => {
            let answer: &mut Option<Result<Outcome<T>, E>> = &mut answered[index];
            answer.take()
        }
        Err(error) => Some(Err(error)),
    };
    order.into_iter().filter_map(answer).collect()
}

async fn execute<I, T, E, B, F>(
    items: &mut [Item<'_, T, E>],
    mut inputs: Vec<Option<I>>,
    answers: &Answers<T, E>,
    body: B,
) where
    B: FnOnce(Vec<I>) -> F,
    F: Future<Output = Vec<Result<T, E>>>,
{
    let mut seen = HashSet::new();
    let (firsts, repeats): (Vec<_>, Vec<_>) =
        (0..items.len()).partition(|&index| seen.insert(items[index].call.key.clone()));
    let mut granted = ask(items, &firsts, answers).await;
    if !granted.is_empty() {
        let taken = granted.iter().filter_map(|grant| inputs[grant.index].take()).collect();
        granted.iter_mut().for_each(Grant::start);
        let timer = BodyTimer::start(&items[granted[0].index].call.operation);
        let permit = granted.iter().find_map(|grant| grant.running.as_ref()?.lease().permit());
        let permit = permit.map(|permit| Arc::downgrade(&permit));
        let identity = items[granted[0].index].call.instance.identity();
        let results = with_permit(identity, permit, async { body(taken).await }).await;
        timer.stop();
        settle(items, granted, results, answers).await;
    }
    // Their first is answered now, or failed, in which case it is not run a second time here.
    for Grant { index, running } in ask(items, &repeats, answers).await {
        drop(running);
        let error = items[index].call.after_failures(1);
        items[index].end.ends(Ending::InProgress);
        items[index].answer = Some(Err((answers.refuse)(error)));
    }
}

/// A call that may run; without an attempt if it runs unprotected.
struct Grant {
    index: usize,
    running: Option<Running<'static>>,
}

impl Grant {
    fn start(&mut self) {
        if let Some(running) = &mut self.running {
            running.start();
        }
    }
}

/// Asks the store for some of the calls. Those that may run are returned, the others answered.
async fn ask<T, E>(
    items: &mut [Item<'_, T, E>],
    indexes: &[usize],
    answers: &Answers<T, E>,
) -> Vec<Grant> {
    if indexes.is_empty() {
        return Vec::new();
    }
    let calls: Vec<_> = indexes.iter().map(|&index| &items[index].call).collect();
    // One body is one place, however many calls it runs for.
    let (permit, over_limit) = match admit(calls[0]).await {
        Ok(permit) => (permit, None),
        Err(limit) => (None, Some(limit)),
    };
    let begun = match over_limit {
        None => begin_many(&calls).await,
        Some(_) => look_at_many(&calls).await,
    };
    let mut granted = Vec::new();
    for (&index, (answer, sent_at)) in indexes.iter().zip(begun) {
        let Item { call, end, answer: answered, .. } = &mut items[index];
        let acquired = match over_limit {
            Some(limit) if matches!(answer, Ok(Begun::Fresh(_))) => Acquired::OverLimit { limit },
            _ => acquired(call, answer, sent_at, None, permit.clone()),
        };
        let acquired = match acquired {
            Acquired::Granted(running) => match running.confirm().await {
                Ok(running) => Acquired::Granted(running),
                Err(error) => Acquired::TooLate(error),
            },
            acquired => acquired,
        };
        match decide(call, answers, acquired) {
            Decision::Run(running) => {
                granted.push(Grant { index, running: Some(running.into_owned()) });
            }
            Decision::RunUnprotected => granted.push(Grant { index, running: None }),
            Decision::Answer(answer, ending) => {
                end.ends(ending);
                *answered = Some(answer);
            }
        }
    }
    granted
}

/// Records how each call ended, and answers it.
async fn settle<T, E>(
    items: &mut [Item<'_, T, E>],
    mut granted: Vec<Grant>,
    results: Vec<Result<T, E>>,
    answers: &Answers<T, E>,
) {
    if results.len() != granted.len() {
        let text = format!("the body answered {} of {} items", results.len(), granted.len());
        for Grant { index, running } in granted {
            // Dropped after its start: abandoned, as nobody knows what became of it.
            drop(running);
            let error = items[index].call.error(ErrorKind::Misconfigured);
            let error = error.with_message(text.clone()).after_the_body_ran();
            items[index].end.ends(Ending::Failed);
            items[index].answer = Some(Err((answers.refuse)(error)));
        }
        return;
    }
    let settlements: Vec<_> = granted
        .iter_mut()
        .zip(&results)
        .map(|(grant, result)| {
            let running = grant.running.as_mut()?;
            let verb = verb(running, answers, result);
            running.settle(verb)
        })
        .collect();
    let core = Arc::clone(items[granted[0].index].call.core());
    let patience = core.sleep_until(core.clock.now().after(items[0].call.policy.lease));
    let recorded = Handoff::new(Arc::clone(&core), settle::record_many(core, settlements));
    let mut ended = match race(recorded, patience).await {
        First::Left(ended) => ended,
        // Dropped, it goes on in the background.
        First::Right(()) => Vec::new(),
    }
    .into_iter();
    for (Grant { index, running }, result) in granted.into_iter().zip(results) {
        let Item { end, answer, .. } = &mut items[index];
        let ended = ended.next().unwrap_or_else(|| Err(settle::not_recorded_yet()));
        *answer = Some(match running {
            Some(running) => conclude(&running, answers, result, ended, end),
            None => {
                end.ends(Ending::Unprotected);
                result.map(|value| Outcome { value, replayed: false, attempt: 1 })
            }
        });
    }
}

/// A permit for the body of a batch, or the limit if as many bodies run as may.
async fn admit(call: &Prepared<'_>) -> Result<Option<Arc<Permit>>, usize> {
    let Some(limit) = call.policy.max_concurrent else { return Ok(None) };
    if let Some(permit) = around(call.instance.identity()) {
        return Ok(Some(permit));
    }
    let core = call.core();
    loop {
        let changed = core.admission.changed();
        match core.admission.ask(limit) {
            Ok(permit) => return Ok(Some(permit)),
            Err(Full::Running) => return Err(limit),
            Err(Full::Asking) => {
                let patience = core.sleep_until(core.clock.now().after(call.policy.lease));
                if let First::Right(()) = race(changed, patience).await {
                    return Err(limit);
                }
            }
        }
    }
}

/// Looks at many records in one go, and says what `begin` would answer.
async fn look_at_many(calls: &[&Prepared<'_>]) -> Vec<BeginAnswer> {
    let now = calls[0].core().clock.now();
    let looks = calls.iter().map(|call| StoreFuture::new(look(call)));
    let answers = all(looks).await.into_iter();
    answers.map(|looked| (looked.map(|looked| looked.answer), now)).collect()
}

/// Begins many keys in one go; those that got no answer again, always with the same token.
async fn begin_many(calls: &[&Prepared<'_>]) -> Vec<BeginAnswer> {
    let core = calls[0].core();
    let sent_at = core.clock.now();
    let request = |call: &&Prepared<'_>| (call.key.clone(), call.request(Token::random(), sent_at));
    let mut unanswered = Unanswered::new(core, calls, calls.iter().map(request).collect(), sent_at);
    let mut backoff = Backoff::new(RESEND_PAUSE);
    for _ in 0..SENDS {
        let asked: Vec<usize> = unanswered.indexes();
        let requests: Vec<_> =
            asked.iter().map(|&index| unanswered.requests[index].clone()).collect();
        let timer = StoreTimer::start(&"begin");
        let patience = core.sleep_until(core.clock.now().after(calls[0].policy.lease));
        let First::Left(answers) = race(core.store.begin_many(&requests), patience).await else {
            break;
        };
        timer.stop();
        for (index, answer) in asked.into_iter().zip(answers) {
            unanswered.answers[index] = Some(answer);
        }
        if unanswered.indexes().is_empty() {
            break;
        }
        core.sleep_until(core.clock.now().after(backoff.pause())).await;
    }
    unanswered.finish()
}

/// What was sent and is not known to be answered. What is left of it is released.
struct Unanswered<'a> {
    core: &'a Arc<Core>,
    requests: Vec<(RecordKey, BeginRequest)>,
    retention: Vec<Duration>,
    answers: Vec<Option<Result<crate::store::Begun, StoreError>>>,
    sent_at: Moment,
}

impl<'a> Unanswered<'a> {
    fn new(
        core: &'a Arc<Core>,
        calls: &[&Prepared<'_>],
        requests: Vec<(RecordKey, BeginRequest)>,
        sent_at: Moment,
    ) -> Self {
        let retention = calls.iter().map(|call| call.policy.retention).collect();
        let answers = requests.iter().map(|_| None).collect();
        Self { core, requests, retention, answers, sent_at }
    }

    /// Which of them may be sent again.
    fn indexes(&self) -> Vec<usize> {
        let open = |answer: &Option<Result<_, StoreError>>| match answer {
            None => true,
            Some(Err(error)) => {
                matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Contended)
            }
            Some(Ok(_)) => false,
        };
        (0..self.answers.len()).filter(|&index| open(&self.answers[index])).collect()
    }

    fn finish(mut self) -> Vec<BeginAnswer> {
        let answers: Vec<_> = self.answers.iter_mut().map(Option::take).collect();
        answers
            .into_iter()
            .enumerate()
            .map(|(index, answer)| {
                let answer = answer.unwrap_or_else(|| {
                    let text = "the store did not answer within a lease";
                    Err(StoreError::new(StoreErrorKind::Unavailable, text))
                });
                // One that is answered is not released when this is dropped.
                if may_have_taken_effect(&answer) {
                    self.release(index);
                }
                self.answers[index] = Some(Ok(crate::store::Begun::Superseded));
                (answer, self.sent_at)
            })
            .collect()
    }

    fn release(&self, index: usize) {
        let (key, request) = self.requests[index].clone();
        let (retention, at) = (self.retention[index], self.sent_at);
        let sent = Sent { request, retention, at, unanswered: true, begin: None };
        settle::release_orphan(self.core, key, sent);
    }
}

fn may_have_taken_effect<T>(answer: &Result<T, StoreError>) -> bool {
    let kind = answer.as_ref().err().map(StoreError::kind);
    matches!(kind, Some(StoreErrorKind::Unavailable | StoreErrorKind::NotReplicated))
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        for (index, answer) in self.answers.iter().enumerate() {
            let granted = matches!(answer, Some(Ok(crate::store::Begun::Fresh(_))));
            if granted || answer.as_ref().is_none_or(may_have_taken_effect) {
                self.release(index);
            }
        }
    }
}
