//! Many calls of one operation: one `begin` for all, one body, one end for all.

use super::acquire::{Acquired, acquired, while_disabled};
use super::admission::{Full, Permit, with_permit};
use super::ask::look;
use super::backoff::Backoff;
use super::begin::{BeginAnswer, RESEND_PAUSE, SENDS, unanswered};
use super::call::Prepared;
use super::core::Core;
use super::release::{self, AtStake, Copies, Unused};
use super::run::{Decision, conclude, decide, refuse, unprotected, verb};
use super::running::Running;
use super::settle::{self, Handoff};
use crate::answers::Answers;
use crate::clock::Moment;
use crate::current::without_attempt;
use crate::error::{Error, ErrorKind};
use crate::key::RecordKey;
use crate::observe::{BodyTimer, CallEnd, Ending, StoreTimer};
use crate::operation::Outcome;
use crate::protocol::{BeginRequest, Begun, Binding, StoreExt as _, Updated};
use crate::race::{First, race};
use crate::store::future::all;
use crate::store::{StoreError, StoreErrorKind, StoreFuture, Token, Verb};
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
    let mut is_first = |call: &Prepared<'_>| {
        // Without protection nothing is a repeat.
        call.core().is_disabled() || seen.insert(call.key.clone())
    };
    let (firsts, repeats): (Vec<_>, Vec<_>) =
        (0..items.len()).partition(|&index| is_first(&items[index].call));
    let mut granted = ask(items, &firsts, answers).await;
    if !granted.is_empty() {
        let taken = granted.iter().filter_map(|grant| inputs[grant.index].take()).collect();
        granted.iter_mut().for_each(Grant::start);
        let timer = BodyTimer::start(&items[granted[0].index].call.operation);
        let permit = granted.iter().find_map(|grant| grant.running.as_ref()?.lease().permit());
        let permit = permit.map(|permit| Arc::downgrade(&permit));
        let identity = items[granted[0].index].call.instance.identity();
        let body = without_attempt(async { body(taken).await });
        let results = with_permit(identity, permit, body).await;
        timer.stop();
        settle(items, granted, results, answers).await;
    }
    answer_repeats(items, &repeats, answers).await;
}

/// Answers the calls whose key stands earlier in the batch. Their first is answered by now, or
/// failed, in which case it is not run a second time here: so the records are only looked at.
async fn answer_repeats<T, E>(
    items: &mut [Item<'_, T, E>],
    repeats: &[usize],
    answers: &Answers<T, E>,
) {
    let calls: Vec<_> = repeats.iter().map(|&index| &items[index].call).collect();
    let looked = look_at_many(&calls).await;
    for (&index, looked) in repeats.iter().zip(looked) {
        let Item { call, end, answer } = &mut items[index];
        let decided = match looked.answer {
            Ok(Begun::Fresh(_)) => None,
            _ => match decide(call, answers, acquired(call, looked, None, None)) {
                Decision::Answer(answer, ending) => Some((answer, ending)),
                Decision::Run(_) | Decision::RunUnprotected => None,
            },
        };
        let (answered, ending) = decided
            .unwrap_or_else(|| (Err((answers.refuse)(call.after_failures(1))), Ending::InProgress));
        end.ends(ending);
        *answer = Some(answered);
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
    let acquired = match calls[0].core().is_disabled() {
        true => calls.iter().map(|call| while_disabled(call)).collect(),
        false => acquire_many(&calls).await,
    };
    let decided = calls.iter().zip(acquired).map(|(call, acquired)| {
        let acquired = match acquired {
            // Those that were confirmed first have waited for the others.
            Acquired::Granted(running) => match running.in_time() {
                Ok(running) => Acquired::Granted(running),
                Err(error) => Acquired::TooLate(error),
            },
            acquired => acquired,
        };
        decide(call, answers, acquired).into_owned()
    });
    let decided: Vec<_> = decided.collect();
    let mut granted = Vec::new();
    for (&index, decision) in indexes.iter().zip(decided) {
        match decision {
            Decision::Run(running) => granted.push(Grant { index, running: Some(running) }),
            Decision::RunUnprotected => granted.push(Grant { index, running: None }),
            Decision::Answer(answer, ending) => {
                items[index].end.ends(ending);
                items[index].answer = Some(answer);
            }
        }
    }
    granted
}

/// Begins many calls in one go, and confirms those that are granted.
async fn acquire_many<'a>(calls: &[&Prepared<'a>]) -> Vec<Acquired<'a>> {
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
                Acquired::OverLimit { limit }
            }
            _ => acquired(call, answer, None, permit.clone()),
        })
        .collect();
    arm_many(calls[0].core(), &mut acquired).await;
    let mut confirmed = Vec::with_capacity(acquired.len());
    for acquired in acquired {
        confirmed.push(match acquired {
            Acquired::Granted(running) if !running.is_armed() => match running.confirm().await {
                Ok(running) => Acquired::Granted(running),
                Err(error) => Acquired::TooLate(error),
            },
            acquired => acquired,
        });
    }
    confirmed
}

/// Arms the keys that block in one go. What is not answered is armed again by itself when it is
/// confirmed.
async fn arm_many(core: &Core, acquired: &mut [Acquired<'_>]) {
    let (mut granted, mut requests) = (Vec::new(), Vec::new());
    for acquired in acquired {
        if let Acquired::Granted(running) = acquired
            && !running.is_armed()
            && let Some(request) = running.lease().arm_request()
        {
            requests.push((running.lease().key.clone(), request));
            granted.push(running);
        }
    }
    // They were sent together, so one time is the end of all of them.
    let Some(until) = granted.iter().map(|running| running.lease().granted_until()).min() else {
        return;
    };
    let sent_at = core.clock.now();
    let timer = StoreTimer::start(&Verb::Arm);
    let patience = core.sleep_until(until);
    let First::Left(answers) = race(core.store.execute_many(requests), patience).await else {
        return;
    };
    timer.stop();
    for (running, answer) in granted.into_iter().zip(answers) {
        if let Ok(Updated::Done) = answer {
            running.lease().armed(sent_at);
        }
    }
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
                unprotected(result)
            }
        });
    }
}

/// A permit for the body of a batch, or the limit if as many bodies run as may.
async fn admit(call: &Prepared<'_>) -> Result<Option<Arc<Permit>>, usize> {
    let Some(limit) = call.policy.max_concurrent else { return Ok(None) };
    if let Some(permit) = call.permit_around() {
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
    let Some(now) = calls.first().map(|call| call.core().clock.now()) else { return Vec::new() };
    let looks = calls.iter().map(|call| StoreFuture::new(look(call)));
    let answers = all(looks).await.into_iter();
    answers.map(|looked| BeginAnswer::new(looked.map(|looked| looked.answer), now)).collect()
}

/// Begins many keys in one go; those that got no answer again, always with the same token.
async fn begin_many(calls: &[&Prepared<'_>]) -> Vec<BeginAnswer> {
    let core = calls[0].core();
    let mut sent = Sent::new(core, calls);
    let mut backoff = Backoff::new(RESEND_PAUSE);
    for _ in 0..SENDS {
        let asked = sent.open();
        let requests: Vec<_> = asked.iter().map(|&index| sent.rows[index].request()).collect();
        asked.iter().for_each(|&index| sent.rows[index].copies = Copies::Unanswered);
        let timer = StoreTimer::start(&Verb::Begin);
        let patience = core.sleep_until(core.clock.now().after(calls[0].policy.lease));
        let First::Left(answers) = race(core.store.execute_many(requests), patience).await else {
            break;
        };
        timer.stop();
        for (index, answer) in asked.into_iter().zip(answers) {
            sent.rows[index].is_answered(answer);
        }
        if sent.open().is_empty() {
            break;
        }
        core.sleep_until(core.clock.now().after(backoff.pause())).await;
    }
    sent.finish()
}

/// The rows that were sent. Those that are not handed on are released when it is dropped.
struct Sent<'a> {
    core: &'a Arc<Core>,
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
    fn release(self, core: &Arc<Core>) {
        let Self { key, request, retention, binding, answer, copies, .. } = self;
        let attempt = match answer {
            Some(Ok(Begun::Fresh(attempt))) => attempt,
            _ if copies == Copies::Unanswered => request.first_attempt(),
            _ => return,
        };
        let at_stake = AtStake::Lease;
        let unused = Unused { key, attempt, retention, binding, copies, at_stake };
        release::release_unused(core, unused, None);
    }
}

impl<'a> Sent<'a> {
    fn new(core: &'a Arc<Core>, calls: &[&Prepared<'_>]) -> Self {
        let sent_at = core.clock.now();
        let row = |call: &&Prepared<'_>| Row {
            key: call.key.clone(),
            request: call.request(Token::random(), sent_at),
            retention: call.policy.retention,
            binding: call.policy.binding,
            answer: None,
            copies: Copies::Answered,
            unanswered_before: false,
        };
        Self { core, sent_at, rows: calls.iter().map(row).collect() }
    }

    /// The rows that may be sent again.
    fn open(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|&index| self.rows[index].is_open()).collect()
    }

    /// Hands grants on, and releases every other row of which a copy may arrive late.
    fn finish(mut self) -> Vec<BeginAnswer> {
        let rows = std::mem::take(&mut self.rows);
        let answer = |mut row: Row| {
            let answer = row.answer.take().unwrap_or_else(|| Err(unanswered()));
            let (sent_at, copies) = (self.sent_at, row.copies);
            if !matches!(answer, Ok(Begun::Fresh(_))) {
                row.release(self.core);
            }
            BeginAnswer { answer, sent_at, copies }
        };
        rows.into_iter().map(answer).collect()
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        for row in self.rows.drain(..) {
            row.release(self.core);
        }
    }
}
