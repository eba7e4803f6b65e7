//! A call that runs its body, in the caller's task or in one of its own.

use super::call::Call;
use crate::answer_policy::AnswerPolicy;
use crate::engine::{self, Moves, Prepare as _};
use crate::outcome::Outcome;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Policy for the answers of one function.
///
/// `run` takes this rather than `AnswerPolicy<T, E>`, so that the compiler reports one error, at the
/// return type, for a function that returns something else.
pub trait Witness: Sized {
    /// The function's return type.
    type Output;
    /// A call of the function.
    type Run<'a, F>;

    /// Runs the body once per key.
    fn run<F>(self, call: Call<'_>, body: F) -> Self::Run<'_, F>;
}

impl<T, E> Witness for AnswerPolicy<T, E> {
    type Output = Result<T, E>;
    type Run<'a, F> = Run<'a, T, E, F>;

    fn run<F>(self, call: Call<'_>, body: F) -> Run<'_, T, E, F> {
        Run { tell: self.tell, run: engine::run(call.prepare(), self, body) }
    }
}

/// Runs the body once per key.
pub fn run<W, F>(call: Call<'_>, answers: W, body: F) -> W::Run<'_, F>
where
    W: Witness,
    F: Future<Output = W::Output>,
{
    answers.run(call, body)
}

pin_project! {
    /// A call of an attributed function.
    ///
    /// Its parameters are the value and the error, and not the type that they are projected from:
    /// when rustc checks whether the function's future is `Send`, it has erased the lifetimes, and
    /// a projection does not equal its own result there.
    pub struct Run<'a, T, E, F> {
        #[pin]
        run: engine::Run<'a, T, E, F>,
        tell: fn(Outcome<T>) -> T,
    }
}

impl<T, E, F> Future for Run<'_, T, E, F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let this = self.project();
        this.run.poll(context).map(|answer| answer.map(this.tell))
    }
}

/// Runs the body once per key, and to its end even if the caller goes away.
///
/// For a body that is not `Send`, the compiler tells which of its values is not, and no trait of ours can add to that.
/// It shows the name of this function, the line with the bound, and one line between them, each cut off at its end.
#[expect(
    clippy::multiple_bound_locations,
    reason = "the compiler shows the line with `Send`, which has to be short"
)]
pub fn detached_body_must_be_send<
    'a, // `T: Send + 'static` for a type parameter; drop guards before `.await`; or remove `detach`
    F: Send, // `std::sync::Arc` for `Rc`; `std::sync::Mutex` with `.lock().unwrap()` for `RefCell`
    W,
>(
    call: Call<'a>,
    answers: W,
    body: F,
) -> W::Run<'a>
where
    W: Detach<F>,
    F: Future<Output = W::Output> + 'static,
{
    answers.detach(call, body)
}

/// Policy for the answers of a function whose body can be detached.
///
/// A trait for the same reason as [`Witness`].
pub trait Detach<F>: Sized {
    /// The function's return type.
    type Output;
    /// A call of the function.
    type Run<'a>;

    /// Runs the body once per key.
    fn detach(self, call: Call<'_>, body: F) -> Self::Run<'_>;
}

impl<T, E, F> Detach<F> for AnswerPolicy<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    type Output = Result<T, E>;
    type Run<'a> = RunDetached<'a, T, E, F>;

    fn detach(self, call: Call<'_>, body: F) -> RunDetached<'_, T, E, F> {
        // Boxed here, so that a large body is not on the stack while it is polled.
        let run = engine::run_detached(call, self, Box::pin(body), Moves::AtOnce);
        RunDetached { run, tell: self.tell }
    }
}

/// A call of an attributed function with `detach`.
pub struct RunDetached<'a, T, E, F> {
    run: engine::Detached<'a, Call<'a>, T, E, F>,
    tell: fn(Outcome<T>) -> T,
}

impl<T, E, F> fmt::Debug for RunDetached<'_, T, E, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunDetached").finish_non_exhaustive()
    }
}

impl<T, E, F> Future for RunDetached<'_, T, E, F>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let polled = Pin::new(&mut self.run).poll(context);
        polled.map(|answer| answer.map(self.tell))
    }
}
