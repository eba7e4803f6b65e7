//! A whole call, as a future: acquire, run, record, answer.

use super::body::Body;
use super::run::{conclude, decide, end_of, refuse, unprotected};
use crate::answer_policy::AnswerPolicy;
use crate::engine::attempt::AttemptGuard;
use crate::engine::flight::{Acquired, FirstStep, Prepared, acquire, acquire_now};
use crate::error::Error;
use crate::observe::{CallEnd, Ending};
use crate::outcome::Outcome;
use crate::protocol::Updated;
use crate::store::{Answer, StoreError};
use pin_project_lite::pin_project;
use std::future::Future;
use std::mem;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Runs `body` once per key, or answers as the record says. A call that could not be prepared is
/// refused.
pub(crate) fn run<'a, T, E, F>(
    call: Result<Prepared<'a>, Error>,
    answers: AnswerPolicy<T, E>,
    body: F,
) -> Run<'a, T, E, F> {
    let body = Body::new(body);
    let (attempt, end) = (None, None);
    // Not by way of an `Option`: a prepared call is large, and would be copied once more.
    match call {
        Ok(call) => Run { body, stage: Stage::Begins, attempt, end, call: Some(call), answers },
        Err(error) => Run { body, stage: Stage::Refused(error), attempt, end, call: None, answers },
    }
}

pin_project! {
    /// A whole call.
    ///
    /// Written by hand for two reasons. An async function holds a future that it pins twice: as its
    /// argument, and as what it has pinned. And it is `Send` only if the types in it still fit each
    /// other after rustc has erased their lifetimes; this is `Send` if its fields are.
    ///
    /// Fields hold all that outlives a stage: it is large, and would be copied from each stage to the
    /// next. Fields are dropped in their order: the body before the attempt
    /// that it belongs to, and the call last, since a shutdown waits for it and so for all of them.
    pub(crate) struct Run<'a, T, E, F> {
        #[pin]
        body: Body<F>,
        stage: Stage<'a, T, E>,
        // There from the grant on.
        attempt: Option<AttemptGuard<'a>>,
        // There from the first poll on.
        end: Option<CallEnd>,
        // There from the start on, unless the call could not be prepared or its key is being acquired.
        call: Option<Prepared<'a>>,
        answers: AnswerPolicy<T, E>,
    }
}

/// Stages of a call.
enum Stage<'a, T, E> {
    Refused(Error),
    Begins,
    /// Boxed: the rare path must not make the future of every call larger.
    Acquires(Pin<Box<dyn Future<Output = (Acquired<'a>, Unanswered<'a>)> + Send + 'a>>),
    Runs,
    RunsUnprotected,
    /// If this is dropped, the keeper finishes it.
    Records {
        ended: Answer<'static, Updated>,
        answer: Result<T, E>,
    },
    Over,
}

/// A call whose key is being acquired, and its end to come. Fields are dropped in their order.
struct Unanswered<'a> {
    end: CallEnd,
    call: Prepared<'a>,
}

impl<'a> Unanswered<'a> {
    /// Borrows all of it, so that a future which owns it holds it once.
    fn call(&self) -> &Prepared<'a> {
        &self.call
    }
}

/// The stage that follows, or the answer.
type Next<'a, T, E> = ControlFlow<Result<Outcome<T>, E>, Stage<'a, T, E>>;

impl<T, E, F> Future for Run<'_, T, E, F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<Outcome<T>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = self.as_mut().project();
            // A stage that waits stays where it is: if the body panics, it is dropped before its
            // attempt.
            let next = match this.stage {
                Stage::Runs => {
                    let answer = ready!(this.body.poll(context));
                    self.as_mut().answered(answer)
                }
                Stage::RunsUnprotected => {
                    let answer = ready!(this.body.poll(context));
                    ControlFlow::Break(unprotected(answer))
                }
                Stage::Records { ended, .. } => {
                    let ended = ready!(Pin::new(ended).poll(context));
                    self.as_mut().recorded(ended)
                }
                Stage::Acquires(acquiring) => {
                    let (acquired, Unanswered { end, call }) =
                        ready!(acquiring.as_mut().poll(context));
                    (*this.end, *this.call) = (Some(end), Some(call));
                    self.as_mut().granted(acquired)
                }
                Stage::Begins | Stage::Refused(_) | Stage::Over => self.as_mut().begun(),
            };
            let this = self.as_mut().project();
            match next {
                ControlFlow::Continue(stage) => *this.stage = stage,
                ControlFlow::Break(answer) => {
                    *this.stage = Stage::Over;
                    *this.attempt = None;
                    *this.end = None;
                    *this.call = None;
                    return Poll::Ready(answer);
                }
            }
        }
    }
}

impl<'a, T, E, F> Run<'a, T, E, F> {
    /// The first poll.
    fn begun(mut self: Pin<&mut Self>) -> Next<'a, T, E> {
        let this = self.as_mut().project();
        // Over, should the store panic: the call is not begun again.
        let call = match (mem::replace(this.stage, Stage::Over), &*this.call) {
            (Stage::Begins, Some(call)) => call,
            (Stage::Refused(error), _) => {
                return ControlFlow::Break(Err(refuse(error, this.answers)));
            }
            _ => panic!("a call was polled after it had ended"),
        };
        let end = CallEnd::new(call.operation.clone());
        match acquire_now(call) {
            FirstStep::Acquired(acquired) => {
                *this.end = Some(end);
                self.granted(acquired)
            }
            FirstStep::Waits(rest) => {
                let Some(call) = this.call.take() else {
                    return ControlFlow::Continue(Stage::Over);
                };
                let unanswered = Unanswered { end, call };
                ControlFlow::Continue(Stage::Acquires(Box::pin(async move {
                    let acquired = acquire(unanswered.call(), rest).await;
                    (acquired, unanswered)
                })))
            }
        }
    }

    /// Runs the body of a call that may, and answers every other.
    fn granted(self: Pin<&mut Self>, acquired: Acquired<'a>) -> Next<'a, T, E> {
        let this = self.project();
        let (Some(call), Some(end)) = (this.call, this.end) else {
            return ControlFlow::Continue(Stage::Over);
        };
        match decide(call, this.answers, acquired, end) {
            ControlFlow::Continue(Some(attempt)) => {
                this.body.start(this.attempt.insert(attempt));
                ControlFlow::Continue(Stage::Runs)
            }
            ControlFlow::Continue(None) => {
                end.ends(Ending::Unprotected);
                ControlFlow::Continue(Stage::RunsUnprotected)
            }
            ControlFlow::Break(answer) => ControlFlow::Break(answer),
        }
    }

    /// The body has answered.
    fn answered(self: Pin<&mut Self>, answer: Result<T, E>) -> Next<'a, T, E> {
        let this = self.project();
        let Some(attempt) = this.attempt else { return ControlFlow::Continue(Stage::Over) };
        let ended = attempt.end(end_of(attempt, this.answers, &answer));
        ControlFlow::Continue(Stage::Records { ended, answer })
    }

    /// The store has recorded the answer, or has not.
    fn recorded(self: Pin<&mut Self>, ended: Result<Updated, StoreError>) -> Next<'a, T, E> {
        let this = self.project();
        match (mem::replace(this.stage, Stage::Over), this.attempt, this.end) {
            (Stage::Records { answer, .. }, Some(attempt), Some(end)) => {
                ControlFlow::Break(conclude(attempt, this.answers, answer, ended, end))
            }
            (stage, ..) => ControlFlow::Continue(stage),
        }
    }
}
