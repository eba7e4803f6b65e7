//! Many calls of one operation: one `begin` for all, one body, one end for all.

use super::run::{conclude, decide, end_of, refuse, unprotected};
use crate::answer_policy::AnswerPolicy;
use crate::clock::Moment;
use crate::engine::attempt::admission::{Full, Permit};
use crate::engine::attempt::current::without_attempt;
use crate::engine::attempt::faults::{not_recorded_yet, unanswered};
use crate::engine::attempt::record::record_many;
use crate::engine::attempt::release::{AtStake, Unused, release_unused};
use crate::engine::attempt::{AttemptGuard, Copies, Handoff, Instance, call_refused, with_permit};
use crate::engine::flight::{
    Acquired, BeginAnswer, NotGranted, Prepared, grant, kept, look, while_disabled,
};
use crate::engine::resend::Resend;
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{self, BodyTimer, CallEnd, Ending, StoreTimer};
use crate::outcome::Outcome;
use crate::protocol::{BeginRequest, Begun, Binding, StoreExt as _, Updated};
use crate::race::{First, race};
use crate::store::future::all;
use crate::store::{StoreError, StoreErrorKind, StoreFuture, Token, Verb};
use std::collections::HashSet;
use std::future::Future;
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::coop;

/// One call of a batch, and its answer once there is one.
struct Item<'a, T, E> {
    call: Prepared<'a>,
    end: CallEnd,
    answer: Option<Result<Outcome<T>, E>>,
}

impl<T, E> Item<'_, T, E> {
    /// Answers the call if this process keeps its answer. `false` if the store has to be asked.
    async fn is_answered_from_memory(&mut self, answers: &AnswerPolicy<T, E>) -> bool {
        let Self { call, end, answer } = self;
        if let Some(found) = kept(call)
            && let ControlFlow::Break(answered) = decide(call, answers, Err(found), end)
        {
            *answer = Some(answered);
            coop::consume_budget().await;
        }
        answer.is_some()
    }
}

/// Runs `body` once, with the inputs whose keys are free, and answers the others as their records
/// say. Nobody waits for a body that runs elsewhere.
pub(crate) async fn run_batch<I, T, E, B, F>(
    calls: Vec<(Result<Prepared<'_>, Error>, I)>,
    answers: &AnswerPolicy<T, E>,
    body: B,
) -> Vec<Result<Outcome<T>, E>>
where
    B: FnOnce(Vec<I>) -> F,
    F: Future<Output = Vec<Result<T, E>>>,
{
    let mut order = Vec::with_capacity(calls.len());
    let mut items = Vec::with_capacity(calls.len());
    let mut inputs = Vec::with_capacity(calls.len());
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
    let answer = |position| match position {
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
    answers: &AnswerPolicy<T, E>,
    body: B,
) where
    B: FnOnce(Vec<I>) -> F,
    F: Future<Output = Vec<Result<T, E>>>,
{
    let (firsts, repeats) = sort(items, answers).await;
    let mut granted = ask(items, &firsts, answers).await;
    if !granted.is_empty() {
        let taken = granted.iter().filter_map(|grant| inputs[grant.index].take()).collect();
        granted.iter_mut().for_each(Grant::start);
        let timer = BodyTimer::start(&items[granted[0].index].call.operation);
        let permit = granted.iter().find_map(|grant| grant.attempt.as_ref()?.state().permit());
        let permit = permit.map(|permit| Arc::downgrade(&permit));
        let identity = items[granted[0].index].call.engine().identity();
        let body = without_attempt(async { body(taken).await });
        let results = with_permit(identity, permit, body).await;
        timer.stop();
        record(items, granted, results, answers).await;
    }
    answer_repeats(items, &repeats, answers).await;
}

/// Answers the calls whose answers this process keeps. Returns those of the others that ask the store, and those whose key
/// stands earlier among them.
async fn sort<T, E>(
    items: &mut [Item<'_, T, E>],
    answers: &AnswerPolicy<T, E>,
) -> (Vec<usize>, Vec<usize>) {
    let (mut firsts, mut repeats) = (Vec::with_capacity(items.len()), Vec::new());
    let mut seen = HashSet::with_capacity(items.len());
    for (index, item) in items.iter_mut().enumerate() {
        // Without protection nothing is a repeat.
        if item.call.engine().is_disabled() {
            firsts.push(index);
        } else if !seen.insert(item.call.key.clone()) {
            repeats.push(index);
        } else if item.is_answered_from_memory(answers).await {
            // Its record may have expired: a call with another payload would then be the first to run.
            seen.remove(&item.call.key);
        } else {
            firsts.push(index);
        }
    }
    (firsts, repeats)
}

/// Answers the calls whose key stands earlier in the batch. Their first is answered by now, or
/// failed, in which case it is not run a second time here: so the records are only looked at.
async fn answer_repeats<T, E>(
    items: &mut [Item<'_, T, E>],
    repeats: &[usize],
    answers: &AnswerPolicy<T, E>,
) {
    let mut open = Vec::with_capacity(repeats.len());
    for &index in repeats {
        // By now this may hold the answer of their first.
        if !items[index].is_answered_from_memory(answers).await {
            open.push(index);
        }
    }
    let calls: Vec<_> = open.iter().map(|&index| &items[index].call).collect();
    let looked = look_at_many(&calls).await;
    for (index, looked) in open.into_iter().zip(looked) {
        let Item { call, end, answer } = &mut items[index];
        let decided = match looked.answer {
            Ok(Begun::Fresh(_)) => ControlFlow::Continue(None),
            _ => decide(call, answers, grant(call, looked, None, None), end),
        };
        *answer = Some(match decided {
            ControlFlow::Break(answered) => answered,
            ControlFlow::Continue(_) => {
                end.ends(Ending::InProgress);
                call_refused();
                Err((answers.refuse)(call.after_failures(1)))
            }
        });
    }
}

/// A call that may run; without an attempt if it runs unprotected.
struct Grant {
    index: usize,
    attempt: Option<AttemptGuard<'static>>,
}

impl Grant {
    fn start(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.start();
        }
    }
}

/// Asks the store for some of the calls. Those that may run are returned, the others answered.
async fn ask<T, E>(
    items: &mut [Item<'_, T, E>],
    indexes: &[usize],
    answers: &AnswerPolicy<T, E>,
) -> Vec<Grant> {
    if indexes.is_empty() {
        return Vec::new();
    }
    let calls: Vec<_> = indexes.iter().map(|&index| &items[index].call).collect();
    let acquired: Vec<_> = match calls[0].engine().is_disabled() {
        true => calls.iter().map(|call| Err(while_disabled(call))).collect(),
        false => begin_and_confirm(&calls).await,
    };
    let mut granted = Vec::with_capacity(indexes.len());
    for (&index, acquired) in indexes.iter().zip(acquired) {
        let Item { call, end, answer } = &mut items[index];
        // Those that were confirmed first have waited for the others.
        let in_time = |attempt: AttemptGuard<'_>| {
            attempt.in_time().map(AttemptGuard::into_owned).map_err(NotGranted::TooLate)
        };
        match decide(call, answers, acquired.and_then(in_time), end) {
            ControlFlow::Continue(attempt) => granted.push(Grant { index, attempt }),
            ControlFlow::Break(answered) => *answer = Some(answered),
        }
    }
    granted
}

/// Begins many calls in one go, and confirms those that are granted.
async fn begin_and_confirm<'a>(calls: &[&Prepared<'a>]) -> Vec<Acquired<'a>> {
    // One body takes one permit, however many calls it runs for.
    let (permit, over_limit) = match admit(calls[0]).await {
        Ok(permit) => (permit, None),
        Err(limit) => (None, Some(limit)),
    };
    let begun = match over_limit {
        None => begin_many(calls).await,
        Some(_) => look_at_many(calls).await,
    };
    let mut acquired: Vec<_> = calls
        .iter()
        .zip(begun)
        .map(|(call, answer)| match over_limit {
            Some(limit) if matches!(answer.answer, Ok(Begun::Fresh(_))) => {
                Err(NotGranted::OverLimit { limit })
            }
            _ => grant(call, answer, None, permit.clone()),
        })
        .collect();
    arm_many(calls[0].engine(), &mut acquired).await;
    for acquired in &mut acquired {
        // Nearly all of them stay as they are, and where they are.
        let Ok(attempt) = acquired else { continue };
        if attempt.is_armed() {
            continue;
        }
        let may_start = attempt.may_start();
        if matches!(may_start, Ok(true)) {
            continue;
        }
        let attempt = mem::replace(acquired, Err(NotGranted::Disabled));
        *acquired = match (attempt, may_start) {
            (Ok(attempt), Ok(_)) => attempt.confirm().await.map_err(NotGranted::TooLate),
            (_, Err(error)) => Err(NotGranted::TooLate(error)),
            (refused, Ok(_)) => refused,
        };
    }
    acquired
}

/// Arms the keys that block in one go. One that is not answered is armed again by itself when it is
/// confirmed.
async fn arm_many(instance: &Instance, acquired: &mut [Acquired<'_>]) {
    let (mut granted, mut requests) = (Vec::new(), Vec::new());
    for acquired in acquired {
        if let Ok(attempt) = acquired
            && !attempt.is_armed()
            && let Some(request) = attempt.state().arm_request()
        {
            requests.push((attempt.state().key.clone(), request));
            granted.push(attempt);
        }
    }
    // They were sent together, so one time is the end of all of them.
    let Some(until) = granted.iter().map(|attempt| attempt.state().granted_until()).min() else {
        return;
    };
    let sent_at = instance.clock.now();
    let timer = StoreTimer::start(&Verb::Arm);
    let patience = instance.sleep_until(until);
    let First::Left(answers) = race(instance.store.execute_many(requests), patience).await else {
        timer.failed(&unanswered());
        return;
    };
    timer.stop();
    for (attempt, answer) in granted.into_iter().zip(answers) {
        match answer {
            Ok(Updated::Done) => attempt.state().armed(sent_at),
            Ok(_) => {}
            Err(error) => observe::store_failed(Verb::Arm, &error),
        }
    }
}

/// Records how each call ended, and answers it.
async fn record<T, E>(
    items: &mut [Item<'_, T, E>],
    mut granted: Vec<Grant>,
    results: Vec<Result<T, E>>,
    answers: &AnswerPolicy<T, E>,
) {
    if results.len() != granted.len() {
        let text = format!("the body answered {} of {} items", results.len(), granted.len());
        for Grant { index, attempt } in granted {
            // Dropped after its start: abandoned, as nobody knows what became of it.
            drop(attempt);
            let error = items[index].call.error(ErrorKind::Misconfigured);
            let error = error.with_message(text.clone()).after_the_body_ran();
            items[index].end.ends(Ending::Failed);
            items[index].answer = Some(Err((answers.refuse)(error)));
        }
        return;
    }
    let ends: Vec<_> = granted
        .iter_mut()
        .zip(&results)
        .map(|(grant, result)| {
            let attempt = grant.attempt.as_mut()?;
            let end = end_of(attempt, answers, result);
            attempt.pending_end(end)
        })
        .collect();
    let instance = Arc::clone(&items[granted[0].index].call.engine().instance);
    let patience = instance.sleep_until(instance.clock.now().after(items[0].call.policy.lease));
    let recorded = Handoff::new(Arc::clone(&instance), record_many(instance, ends));
    let mut ended = match race(recorded, patience).await {
        First::Left(ended) => ended,
        // Dropped, it goes on in the background.
        First::Right(()) => Vec::new(),
    }
    .into_iter();
    for (Grant { index, attempt }, result) in granted.into_iter().zip(results) {
        let Item { end, answer, .. } = &mut items[index];
        let ended = ended.next().unwrap_or_else(|| Err(not_recorded_yet()));
        *answer = Some(match attempt {
            Some(attempt) => conclude(&attempt, answers, result, ended, end),
            None => {
                end.ends(Ending::Unprotected);
                unprotected(result)
            }
        });
    }
}

/// A permit for the body of a batch, or the limit if as many bodies run as may.
async fn admit(call: &Prepared<'_>) -> Result<Option<Arc<Permit>>, usize> {
    let Some(limit) = call.policy.max_concurrent else { return Ok(None) };
    if let Some(permit) = call.enclosing_permit() {
        return Ok(Some(permit));
    }
    let engine = call.engine();
    loop {
        let changed = engine.admission.changed();
        match engine.admission.ask(limit) {
            Ok(permit) => return Ok(Some(permit)),
            Err(Full::Running) => return Err(limit),
            Err(Full::Asking) => {
                let patience = engine.sleep_until(engine.clock.now().after(call.policy.lease));
                if let First::Right(()) = race(changed, patience).await {
                    return Err(limit);
                }
            }
        }
    }
}

/// Looks at many records in one go, and says what `begin` would answer.
async fn look_at_many(calls: &[&Prepared<'_>]) -> Vec<BeginAnswer> {
    let Some(now) = calls.first().map(|call| call.engine().clock.now()) else { return Vec::new() };
    let looks = calls.iter().map(|call| StoreFuture::new(look(call)));
    let answers = all(looks).await.into_iter();
    answers.map(|looked| BeginAnswer::new(looked.map(|looked| looked.answer), now)).collect()
}

/// Begins many keys in one go; those that got no answer again, always with the same token.
async fn begin_many(calls: &[&Prepared<'_>]) -> Vec<BeginAnswer> {
    let engine = calls[0].engine();
    let mut sent = SentBatch::new(engine, calls);
    let mut resend = Resend::new();
    loop {
        let asked = sent.open();
        let requests: Vec<_> = asked.iter().map(|&index| sent.rows[index].request()).collect();
        asked.iter().for_each(|&index| sent.rows[index].copies = Copies::Unanswered);
        let reading = engine.reading();
        let timer = StoreTimer::start(&Verb::Begin);
        let patience = engine.sleep_until(engine.clock.now().after(calls[0].policy.lease));
        let First::Left(answers) = race(engine.store.execute_many(requests), patience).await else {
            timer.failed(&unanswered());
            break;
        };
        timer.stop();
        for (index, answer) in asked.into_iter().zip(answers) {
            let answer = answer.inspect_err(|error| observe::store_failed(Verb::Begin, error));
            if let Ok(answer) = &answer {
                let call = calls[index];
                engine.told(reading, call.told(answer, call.policy.retention));
            }
            sent.rows[index].is_answered(answer);
        }
        if sent.open().is_empty() || !resend.once_more() {
            break;
        }
        engine.sleep_until(engine.clock.now().after(resend.pause())).await;
    }
    sent.finish()
}

/// The rows that were sent. Those that are not handed on are released when it is dropped.
struct SentBatch<'a> {
    instance: &'a Arc<Instance>,
    sent_at: Moment,
    rows: Vec<Row>,
}

/// One key of a batch, and what is known about its `begin`.
struct Row {
    key: RecordKey,
    request: BeginRequest,
    retention: Duration,
    binding: Binding,
    answer: Option<Result<Begun, StoreError>>,
    /// Copies of its `begin` that may still arrive.
    copies: Copies,
    /// An earlier copy than the one under way was not answered.
    unanswered_before: bool,
}

impl Row {
    fn request(&self) -> (RecordKey, BeginRequest) {
        (self.key.clone(), self.request)
    }

    fn is_answered(&mut self, answer: Result<Begun, StoreError>) {
        self.unanswered_before |= answer.as_ref().is_err_and(StoreError::may_have_taken_effect);
        if !self.unanswered_before {
            self.copies = Copies::Answered;
        }
        self.answer = Some(answer);
    }

    /// `true` if it may be sent again.
    fn is_open(&self) -> bool {
        match &self.answer {
            None => true,
            Some(Err(error)) => {
                matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Contended)
            }
            Some(Ok(_)) => false,
        }
    }

    /// Releases what it may have got, or may get yet.
    fn release(self, instance: &Arc<Instance>) {
        let Self { key, request, retention, binding, answer, copies, .. } = self;
        let attempt = match answer {
            Some(Ok(Begun::Fresh(attempt))) => attempt,
            _ if copies == Copies::Unanswered => request.first_attempt(),
            _ => return,
        };
        let at_stake = AtStake::Lease;
        let unused = Unused { key, attempt, retention, binding, copies, at_stake };
        release_unused(instance, unused, None);
    }
}

impl<'a> SentBatch<'a> {
    fn new(instance: &'a Arc<Instance>, calls: &[&Prepared<'_>]) -> Self {
        let sent_at = instance.clock.now();
        let row = |call: &&Prepared<'_>| Row {
            key: call.key.clone(),
            request: call.request(Token::random(), sent_at),
            retention: call.policy.retention,
            binding: call.policy.binding,
            answer: None,
            copies: Copies::Answered,
            unanswered_before: false,
        };
        Self { instance, sent_at, rows: calls.iter().map(row).collect() }
    }

    /// The rows that may be sent again.
    fn open(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|&index| self.rows[index].is_open()).collect()
    }

    /// Hands grants on, and releases every other row of which a copy may arrive late.
    fn finish(mut self) -> Vec<BeginAnswer> {
        let rows = mem::take(&mut self.rows);
        let answer = |mut row: Row| {
            let answer = row.answer.take().unwrap_or_else(|| Err(unanswered()));
            let (sent_at, copies) = (self.sent_at, row.copies);
            if !matches!(answer, Ok(Begun::Fresh(_))) {
                row.release(self.instance);
            }
            BeginAnswer { answer, sent_at, copies }
        };
        rows.into_iter().map(answer).collect()
    }
}

impl Drop for SentBatch<'_> {
    fn drop(&mut self) {
        for row in self.rows.drain(..) {
            row.release(self.instance);
        }
    }
}
