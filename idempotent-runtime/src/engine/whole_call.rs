//! A whole call, as a future: acquire, run, record, answer.

use super::acquire::{Acquired, FirstStep, acquire, acquire_now};
use super::body::Body;
use super::call::Prepared;
use super::run::{Decision, conclude, decide, refuse, unprotected, verb};
use super::running::Running;
use super::settle::Ended;
use crate::answers::Answers;
use crate::error::Error;
use crate::observe::{CallEnd, Ending};
use crate::operation::Outcome;
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
    answers: Answers<T, E>,
    body: F,
) -> Run<'a, T, E, F> {
    let stage = match call {
        Ok(call) => Stage::Begins(call),
        Err(error) => Stage::Refused(error),
    };
    Run { body: Body::new(body), stage, answers }
}

pin_project! {
    /// A whole call.
    ///
    /// Written by hand for two reasons. An async function holds a future that it pins twice: as its
    /// argument, and as what it has pinned. And it is `Send` only if the types in it still fit each
    /// other after rustc has erased their lifetimes; this is `Send` if its fields are.
    pub(crate) struct Run<'a, T, E, F> {
        // Dropped before the attempt that it belongs to.
        #[pin]
        body: Body<F>,
        stage: Stage<'a, T, E>,
        answers: Answers<T, E>,
    }
}

/// Stages of a call. Fields are dropped in their order: a shutdown waits for the call, and so for
/// all that stands before it.
enum Stage<'a, T, E> {
    Refused(Error),
    Begins(Prepared<'a>),
    /// Boxed: the rare path must not make the future of every call larger.
    Acquires(Pin<Box<dyn Future<Output = (Acquired<'a>, CallEnd, Prepared<'a>)> + Send + 'a>>),
    Runs {
        running: Running<'a>,
        end: CallEnd,
        call: Prepared<'a>,
    },
    RunsUnprotected {
        end: CallEnd,
        call: Prepared<'a>,
    },
    /// If this is dropped, the keeper finishes it.
    Records {
        ended: Answer<'static, Ended>,
        answer: Result<T, E>,
        running: Running<'a>,
        end: CallEnd,
        call: Prepared<'a>,
    },
    Over,
}

/// The stage that follows, or the answer.
type Next<'a, T, E> = ControlFlow<Result<Outcome<T>, E>, Stage<'a, T, E>>;

impl<T, E, F> Future for Run<'_, T, E, F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<Outcome<T>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            // A stage that waits stays where it is: if the body panics, it is dropped before its
            // attempt.
            let next = match this.stage {
                Stage::Acquires(acquiring) => {
                    let (acquired, end, call) = ready!(acquiring.as_mut().poll(context));
                    granted(call, end, this.answers, acquired)
                }
                Stage::Runs { .. } | Stage::RunsUnprotected { .. } => {
                    let answer = ready!(this.body.as_mut().poll(context));
                    answered(mem::replace(this.stage, Stage::Over), this.answers, answer)
                }
                Stage::Records { ended, .. } => {
                    let ended = ready!(Pin::new(ended).poll(context));
                    recorded(mem::replace(this.stage, Stage::Over), this.answers, ended)
                }
                Stage::Refused(_) | Stage::Begins(_) | Stage::Over => {
                    begun(mem::replace(this.stage, Stage::Over), this.answers)
                }
            };
            match next {
                ControlFlow::Continue(stage) => *this.stage = stage,
                ControlFlow::Break(answer) => {
                    *this.stage = Stage::Over;
                    return Poll::Ready(answer);
                }
            }
            if let Stage::Runs { running, .. } = this.stage {
                this.body.as_mut().start(running);
            }
        }
    }
}

/// The first poll.
fn begun<'a, T, E>(stage: Stage<'a, T, E>, answers: &Answers<T, E>) -> Next<'a, T, E> {
    let call = match stage {
        Stage::Begins(call) => call,
        Stage::Refused(error) => return ControlFlow::Break(Err(refuse(error, answers))),
        _ => panic!("a call was polled after it had ended"),
    };
    let end = CallEnd::new(call.operation.clone());
    match acquire_now(&call) {
        FirstStep::Acquired(acquired) => granted(call, end, answers, acquired),
        FirstStep::Waits(awaited) => ControlFlow::Continue(Stage::Acquires(Box::pin(async move {
            // Dropped in reverse.
            let call = call;
            let end = end;
            let acquired = acquire(&call, awaited).await;
            (acquired, end, call)
        }))),
    }
}

/// Runs the body of a call that may, and answers every other.
fn granted<'a, T, E>(
    call: Prepared<'a>,
    mut end: CallEnd,
    answers: &Answers<T, E>,
    acquired: Acquired<'a>,
) -> Next<'a, T, E> {
    match decide(&call, answers, acquired) {
        Decision::Run(running) => ControlFlow::Continue(Stage::Runs { running, end, call }),
        Decision::RunUnprotected => {
            end.ends(Ending::Unprotected);
            ControlFlow::Continue(Stage::RunsUnprotected { end, call })
        }
        Decision::Answer(answer, ending) => {
            end.ends(ending);
            drop(end);
            drop(call);
            ControlFlow::Break(answer)
        }
    }
}

/// The body has answered.
fn answered<'a, T, E>(
    stage: Stage<'a, T, E>,
    answers: &Answers<T, E>,
    answer: Result<T, E>,
) -> Next<'a, T, E> {
    match stage {
        Stage::Runs { mut running, end, call } => {
            let ended = running.end(verb(&running, answers, &answer));
            ControlFlow::Continue(Stage::Records { ended, answer, running, end, call })
        }
        Stage::RunsUnprotected { end, call } => {
            drop(end);
            drop(call);
            ControlFlow::Break(unprotected(answer))
        }
        other => ControlFlow::Continue(other),
    }
}

/// The store has recorded the answer, or has not.
fn recorded<'a, T, E>(
    stage: Stage<'a, T, E>,
    answers: &Answers<T, E>,
    ended: Result<Ended, StoreError>,
) -> Next<'a, T, E> {
    let Stage::Records { answer, running, mut end, call, .. } = stage else {
        return ControlFlow::Continue(stage);
    };
    let answer = conclude(&running, answers, answer, ended, &mut end);
    drop(running);
    drop(end);
    drop(call);
    ControlFlow::Break(answer)
}
