//! A call whose body finishes even if its caller goes away.
//!
//! All that need not wait happens within the caller's first poll, on its stack: a call of a local
//! store whose body does not wait leaves nothing in its future. The rest is boxed.
//!
//! The picture of its states is at the head of the [engine](crate::engine).
//! [`Moves`] chooses between its two ways to run on.

use super::body::Body;
use super::detachable::{Detachable, SpawnContext};
use super::run::{Decision, conclude, decide, end_of, refuse, unprotected};
use super::underway::Underway;
use crate::answer_policy::AnswerPolicy;
use crate::engine::attempt::{AttemptGuard, End, call_refused};
use crate::engine::flight::{Acquired, FirstStep, Prepared, acquire, acquire_now};
use crate::error::{Error, ErrorKind};
use crate::observe::{CallEnd, Ending};
use crate::outcome::Outcome;
use crate::protocol::Updated;
use crate::store::StoreFuture;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// As [`run`](super::run), with a body that finishes even if the caller goes away. The call is
/// prepared when it is first polled.
///
/// The body comes boxed, so that a large one lies on the stack of none of its polls.
pub(crate) fn run_detached<'a, P, T, E, F>(
    prepare: P,
    answers: AnswerPolicy<T, E>,
    body: Pin<Box<F>>,
    moves: Moves,
) -> Detached<'a, P, T, E, F>
where
    P: Prepare<'a>,
{
    Detached::New { prepare, answers, body, moves }
}

/// The moment at which a body moves to a task of its own, unless its first poll ends it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moves {
    /// After its first poll. A caller that holds the future and does not poll it, as in a `select!`
    /// on a reference, holds up neither the body nor its key.
    AtOnce,
    /// As the caller drops the future. The caller has to poll it until then.
    WhenDropped,
}

/// A call that is prepared when it is first polled: what it is prepared from is smaller.
pub(crate) trait Prepare<'a> {
    fn prepare(self) -> Result<Prepared<'a>, Error>;
}

type Waiting<'a, T, E> = Pin<Box<dyn Future<Output = Result<Outcome<T>, E>> + Send + 'a>>;

/// A detached call, from its first poll to its answer.
pub(crate) enum Detached<'a, P, T, E, F> {
    New { prepare: P, answers: AnswerPolicy<T, E>, body: Pin<Box<F>>, moves: Moves },
    Waits(Waiting<'a, T, E>),
    InPlace(InPlace<T, E>),
    Over,
}

/// A body that its caller polls, and what follows it.
type InPlace<T, E> = Detachable<Result<Outcome<T>, E>>;

/// Nothing in it is pinned but what is boxed.
impl<P, T, E, F> Unpin for Detached<'_, P, T, E, F> {}

impl<'a, P, T, E, F> Future for Detached<'a, P, T, E, F>
where
    P: Prepare<'a>,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Output = Result<Outcome<T>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Self::New { .. } = this
            && let Self::New { prepare, answers, body, moves } = mem::replace(this, Self::Over)
        {
            let progress = match prepare.prepare() {
                Ok(call) => begin(call, answers, body, moves, context),
                Err(error) => Progress::Over(Err(refuse(error, &answers))),
            };
            match progress {
                Progress::Over(answer) => return Poll::Ready(answer),
                Progress::Waits(rest) => *this = Self::Waits(rest),
                Progress::InPlace(rest) => {
                    *this = Self::InPlace(rest);
                    // Its body has been polled, and wakes this task.
                    return Poll::Pending;
                }
            }
        }
        match this {
            Self::Waits(rest) => rest.as_mut().poll(context),
            Self::InPlace(rest) => Pin::new(rest).poll(context),
            Self::New { .. } | Self::Over => panic!("a call was polled after it had ended"),
        }
    }
}

/// The progress of a call within one poll.
enum Progress<'a, T, E> {
    Over(Result<Outcome<T>, E>),
    /// Waits, with the rest of the call.
    Waits(Waiting<'a, T, E>),
    /// Waits, with a rest that goes on when it is dropped. Its body was polled within this poll.
    InPlace(InPlace<T, E>),
}

impl<'a, T, E> Progress<'a, T, E> {
    fn waits(rest: impl Future<Output = Result<Outcome<T>, E>> + Send + 'a) -> Self {
        Self::Waits(Box::pin(rest))
    }

    async fn finish(self) -> Result<Outcome<T>, E> {
        match self {
            Self::Over(answer) => answer,
            Self::Waits(rest) => rest.await,
            Self::InPlace(mut rest) => {
                let mut was_polled = true;
                poll_fn(move |context| match mem::take(&mut was_polled) {
                    true => Poll::Pending,
                    false => Pin::new(&mut rest).poll(context),
                })
                .await
            }
        }
    }
}

fn begin<'a, T, E, F>(
    call: Prepared<'a>,
    answers: AnswerPolicy<T, E>,
    body: Pin<Box<F>>,
    moves: Moves,
    context: &mut Context<'_>,
) -> Progress<'a, T, E>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let mut end = CallEnd::new(call.operation.clone());
    // Of the first poll: a drop may happen anywhere.
    let Some(spawn_context) = SpawnContext::capture() else {
        let text = "`detach` needs a tokio runtime around the call";
        let error = call.error(ErrorKind::Misconfigured).with_message(text);
        end.refused(&error);
        return Progress::Over(Err((answers.refuse)(error)));
    };
    let mut caller = Caller { body, end, answers, spawn_context, moves, call };
    let rest = match acquire_now(&caller.call) {
        FirstStep::Acquired(acquired) => {
            let decision = caller.decide(acquired);
            return caller.go_on(decision, context);
        }
        FirstStep::Waits(rest) => rest,
    };
    Progress::waits(async move {
        let decision = {
            let acquired = acquire(&caller.call, rest).await;
            caller.decide(acquired)
        };
        let mut granted = Some((caller, decision));
        let progress = poll_fn(|context| match granted.take() {
            Some((caller, decision)) => Poll::Ready(caller.go_on(decision, context)),
            None => Poll::Pending,
        });
        progress.await.finish().await
    })
}

/// The caller that waits for the answer. Dropped in this order.
struct Caller<'a, T, E, F> {
    body: Pin<Box<F>>,
    end: CallEnd,
    answers: AnswerPolicy<T, E>,
    spawn_context: SpawnContext,
    moves: Moves,
    /// A shutdown waits for it, and so for all of the above.
    call: Prepared<'a>,
}

impl<'a, T, E, F> Caller<'a, T, E, F>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    fn decide(&mut self, acquired: Acquired<'_>) -> Decision<'static, T, E> {
        let decision = decide(&self.call, &self.answers, acquired, &mut self.end);
        decision.map_continue(|attempt| attempt.map(AttemptGuard::into_owned))
    }

    fn go_on(
        self,
        decision: Decision<'static, T, E>,
        context: &mut Context<'_>,
    ) -> Progress<'a, T, E> {
        let attempt = match decision {
            ControlFlow::Break(answer) => return Progress::Over(answer),
            ControlFlow::Continue(attempt) => attempt,
        };
        let Self { call, moves, spawn_context, answers, mut end, body } = self;
        let detach = Detach { call, answers, spawn_context, moves };
        if let Some(attempt) = attempt {
            let then = move |finished| record(finished, answers, end);
            let run = Box::pin(run_body(attempt, body));
            return detach.run(run, then, context);
        }
        end.ends(Ending::Unprotected);
        let then = move |answer| {
            drop(end);
            Progress::Over(unprotected(answer))
        };
        detach.run(Box::pin(Body::new(body)), then, context)
    }
}

/// The way in which an attempt outlives its caller.
struct Detach<'a, T, E> {
    call: Prepared<'a>,
    answers: AnswerPolicy<T, E>,
    spawn_context: SpawnContext,
    moves: Moves,
}

impl<'a, T, E> Detach<'a, T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    /// Polls `run` and what is to be done with its output, whether or not the caller stays.
    ///
    /// The first poll is the caller's own. A body that is ready by then needs no task: `then` leaves
    /// nothing behind when it is dropped.
    fn run<A, N>(self, run: Pin<Box<A>>, then: N, context: &mut Context<'_>) -> Progress<'a, T, E>
    where
        A: Future + Send + 'static,
        N: FnOnce(A::Output) -> Progress<'static, T, E> + Send + 'static,
    {
        let Self { call, answers, spawn_context, moves } = self;
        // Dropped in reverse: if an attempt panics, a shutdown waits for its destructors.
        let (then, mut run) = (then, run);
        if let Poll::Ready(output) = run.as_mut().poll(context) {
            // A body's destructors are part of it.
            drop(run);
            return match then(output) {
                Progress::Waits(rest) => Progress::waits(async move {
                    let _call = call;
                    rest.await
                }),
                over => over,
            };
        }
        let job = Job { run, then, underway: Underway::new(call.engine()) };
        if let Moves::WhenDropped = moves {
            return Progress::InPlace(Detachable::new(spawn_context, job.run()));
        }
        let task = spawn_context.spawn(Box::pin(job.run()));
        Progress::waits(async move {
            match task.await {
                Ok(answer) => answer,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => {
                        let text = "the runtime ended before the body did";
                        let error = call.error(ErrorKind::ShuttingDown).after_the_body_ran();
                        call_refused();
                        Err((answers.refuse)(error.with_message(text)))
                    }
                },
            }
        })
    }
}

/// The part of a call that can go on without its caller. Dropped in this order.
struct Job<A, N> {
    run: Pin<Box<A>>,
    then: N,
    /// A shutdown waits for it, and so for all of the above.
    underway: Underway,
}

impl<A: Future, N> Job<A, N> {
    async fn run<T, E>(self) -> Result<Outcome<T>, E>
    where
        N: FnOnce(A::Output) -> Progress<'static, T, E>,
    {
        let Self { underway: _underway, then, run } = self;
        let output = run.await;
        then(output).finish().await
    }
}

/// An attempt whose body has ended or panicked.
struct Finished<T> {
    attempt: AttemptGuard<'static>,
    answer: std::thread::Result<T>,
}

/// Runs the body of a granted attempt.
fn run_body<F: Future>(
    mut attempt: AttemptGuard<'static>,
    body: F,
) -> impl Future<Output = Finished<F::Output>> {
    // Not an async function: its arguments would lie in its future twice.
    let body = Body::new(body);
    async move {
        let answer = {
            let mut body = pin!(body);
            body.as_mut().start(&mut attempt);
            catch_panic(body).await
        };
        Finished { attempt, answer }
    }
}

/// Records how an attempt ended. If what is left of this is dropped, the keeper finishes it.
fn record<T, E>(
    finished: Finished<Result<T, E>>,
    answers: AnswerPolicy<T, E>,
    mut end: CallEnd,
) -> Progress<'static, T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let Finished { mut attempt, answer } = finished;
    let ended = match &answer {
        Ok(answer) => attempt.end(end_of(&attempt, &answers, answer)),
        Err(_) if attempt.has_started() => attempt.end(End::Abandon),
        // Something else panicked before the body began. Dropped, the attempt is released.
        Err(_) => StoreFuture::ready(Ok(Updated::Done)),
    };
    let conclude = move |ended| match answer {
        Ok(answer) => conclude(&attempt, &answers, answer, ended, &mut end),
        // The key is free, or blocked, before the caller hears of it and may call again.
        Err(panic) => resume_unwind(panic),
    };
    match ended.now() {
        Ok(ended) => Progress::Over(conclude(ended)),
        Err(ended) => Progress::waits(async move { conclude(ended.await) }),
    }
}

/// Resolves with the panic of `future`, if it panics.
fn catch_panic<F: Future>(
    mut future: Pin<&mut F>,
) -> impl Future<Output = std::thread::Result<F::Output>> {
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
}
