//! A call that is part of a database transaction of its caller's.

use super::call::Call;
use crate::answer_policy::AnswerPolicy;
use crate::engine::{self, Within, claim_within};
use crate::outcome::Outcome;
use crate::protocol::OpenTransaction;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Claims the key of a call in a transaction of the caller's, or answers the call.
pub fn claim<'a: 'x, 'x, W, X>(
    call: Call<'a>,
    answers: W,
    transaction: &'x mut X,
) -> W::Claim<'a, 'x>
where
    W: ClaimIn,
    X: OpenTransaction,
{
    answers.claim(call, transaction)
}

/// A future on the heap.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Policy for the answers of a function that runs in a transaction.
///
/// A trait for the same reason as [`Witness`](super::Witness).
pub trait ClaimIn: Sized {
    /// The claim.
    type Claim<'a: 'x, 'x>;

    /// Claims the key, or answers the call.
    fn claim<'a: 'x, 'x, X: OpenTransaction>(
        self,
        call: Call<'a>,
        transaction: &'x mut X,
    ) -> Self::Claim<'a, 'x>;
}

impl<T: Send + 'static, E: Send + 'static> ClaimIn for AnswerPolicy<T, E> {
    type Claim<'a: 'x, 'x> = Boxed<'x, ControlFlow<Result<T, E>, InTransaction<'a, T, E>>>;

    fn claim<'a: 'x, 'x, X: OpenTransaction>(
        self,
        call: Call<'a>,
        transaction: &'x mut X,
    ) -> Self::Claim<'a, 'x> {
        Box::pin(async move {
            let prepared =
                call.on_engine().and_then(|(engine, call)| engine::prepare_within(engine, call));
            let tell = self.tell;
            match claim_within(prepared, self, transaction).await {
                ControlFlow::Continue(within) => {
                    ControlFlow::Continue(InTransaction { within, tell })
                }
                ControlFlow::Break(answer) => ControlFlow::Break(answer.map(tell)),
            }
        })
    }
}

/// A call that holds its key in a transaction of the caller's.
pub struct InTransaction<'a, T, E> {
    within: Within<'a, T, E>,
    tell: fn(Outcome<T>) -> T,
}

impl<T, E> InTransaction<'_, T, E> {
    /// The body, to run as the attempt.
    pub fn body<F>(&mut self, body: F) -> RunBody<F>
    where
        F: Future<Output = Result<T, E>>,
    {
        RunBody { body: self.within.body(body) }
    }

    /// Records its end, as part of the transaction.
    pub fn settle<'x, X: OpenTransaction>(
        self,
        transaction: &'x mut X,
        answer: Result<T, E>,
    ) -> Boxed<'x, Result<T, E>>
    where
        Self: 'x,
        T: Send,
        E: Send,
    {
        Box::pin(async move { self.within.settle(transaction, answer).await.map(self.tell) })
    }
}

pin_project! {
    /// A body that runs in a transaction.
    pub struct RunBody<F> {
        #[pin]
        body: engine::Body<F>,
    }
}

impl<F: Future> Future for RunBody<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().body.poll(context)
    }
}

impl<F> fmt::Debug for RunBody<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunBody").finish_non_exhaustive()
    }
}

impl<T, E> fmt::Debug for InTransaction<'_, T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InTransaction").finish_non_exhaustive()
    }
}
