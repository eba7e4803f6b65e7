//! Functions and types for generated code. Not part of the public interface.

pub use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
pub use crate::key::{Encoded, Parts};
pub use crate::site::Site;

use crate::answer_policy::AnswerPolicy;
use crate::engine::{self, ArcRef, Moves, Prepare as _, Prepared, Within, claim_within};
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::install;
use crate::instance::Idempotency;
use crate::key::KeyPart;
use crate::outcome::Outcome;
use crate::protocol::OpenTransaction;
use pin_project_lite::pin_project;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::ops::{ControlFlow, Deref};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Encodes a key that is one part.
pub fn key<K: KeyPart + ?Sized>(part: &K) -> Encoded {
    Encoded::of(part)
}

/// Encodes a key that is one optional part.
pub fn optional_key<K: KeyPart>(part: &Option<K>) -> Encoded {
    Encoded::of_optional(part)
}

/// The ambient token.
pub fn ambient_key() -> Encoded {
    Encoded::ambient()
}

/// Starts a tuple.
pub fn tuple() -> Parts {
    Parts::tuple()
}

/// Starts a template.
pub fn template() -> Parts {
    Parts::template()
}

/// The instance named by `with`.
pub fn instance<I: Lends + ?Sized>(with: &I) -> Idempotency {
    with.lend().clone()
}

/// Values that lead to an instance: the instance itself, and whatever dereferences to one, however
/// many steps away. So do references, `Arc`, and the state extractors of web frameworks.
#[diagnostic::on_unimplemented(
    message = "`with` takes an `Idempotency`, this is `{Self}`",
    label = "neither an `Idempotency` nor anything that dereferences to one",
    note = "`&Idempotency`, `Arc<Idempotency>` and types with `Deref<Target = Idempotency>` work; of a struct, name the field: `with = app.idempotency`"
)]
pub trait Lends {
    /// The instance.
    fn lend(&self) -> &Idempotency;
}

impl Lends for Idempotency {
    fn lend(&self) -> &Idempotency {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<D: Deref<Target: Lends> + ?Sized> Lends for D {
    fn lend(&self) -> &Idempotency {
        (**self).lend()
    }
}

/// One call of an attributed function.
#[derive(Debug)]
pub struct Call<'a> {
    site: &'static Site,
    key: Encoded,
    scope: Option<Encoded>,
    fingerprint: Option<Encoded>,
    instance: Option<&'a Idempotency>,
}

impl<'a> Call<'a> {
    /// Creates a call with this key.
    pub fn new(site: &'static Site, key: Encoded) -> Self {
        Self { site, key, scope: None, fingerprint: None, instance: None }
    }

    /// Sets the function's own scope.
    pub fn scope(mut self, scope: Encoded) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Sets the payload that must not change.
    pub fn fingerprint(mut self, fingerprint: Encoded) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Sets the instance.
    pub fn instance(mut self, instance: &'a Idempotency) -> Self {
        self.instance = Some(instance);
        self
    }
}

impl<'a> engine::Prepare<'a> for Call<'a> {
    fn prepare(self) -> Result<Prepared<'a>, Error> {
        let (engine, call) = self.on_engine()?;
        engine::prepare(engine, call)
    }
}

impl<'a> Call<'a> {
    /// The call, and the engine of its instance.
    fn on_engine(self) -> Result<(ArcRef<'a, engine::Engine>, engine::Call<'a>), Error> {
        let operation = self.site.operation()?;
        let engine = match self.instance {
            Some(instance) => ArcRef::Borrowed(instance.engine()),
            None => install::engine().map_err(|error| {
                Error::new(ErrorKind::Misconfigured, &operation).with_message(error.to_string())
            })?,
        };
        let call = engine::Call {
            operation,
            options: &self.site.options,
            key: self.key,
            scope: self.scope,
            hash_tag: None,
            fingerprint: self.fingerprint.as_ref().map(Fingerprint::of_encoded),
        };
        Ok((engine, call))
    }
}

/// Return types of functions that can be idempotent.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns a `Result`, this one returns `{Self}`",
    label = "not a `Result`",
    note = "the error type tells the caller that a call was refused; it needs `From<idempotent_runtime::Error>`"
)]
pub trait ReturnsResult: sealed::Sealed {
    /// The type of `Ok`.
    type Value;
    /// The type of `Err`.
    type Error;
    /// The policy for keeping both.
    type AnswerPolicy: Witness;

    /// Returns `answers` as `Self::AnswerPolicy`, which is the same type.
    fn witness(answers: AnswerPolicy<Self::Value, Self::Error>) -> Self::AnswerPolicy;
}

impl<T, E> ReturnsResult for Result<T, E> {
    type Value = T;
    type Error = E;
    type AnswerPolicy = AnswerPolicy<T, E>;

    fn witness(answers: AnswerPolicy<T, E>) -> AnswerPolicy<T, E> {
        answers
    }
}

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

mod sealed {
    pub trait Sealed {}
    impl<T, E> Sealed for Result<T, E> {}
}

/// The policy of a function whose values are kept.
pub fn replay<R: ReturnsResult>() -> R::AnswerPolicy
where
    R::Value: Kept,
    R::Error: From<Error>,
{
    R::witness(R::Value::kept())
}

/// Values of functions that keep them: anything that is read back equal, and an [`Outcome`] of it,
/// which is not `Serialize` itself.
pub trait Kept: Sized {
    /// The policy for keeping them.
    fn kept<E: From<Error>>() -> AnswerPolicy<Self, E>;
}

impl<T: Serialize + DeserializeOwned> Kept for T {
    fn kept<E: From<Error>>() -> AnswerPolicy<T, E> {
        AnswerPolicy::kept()
    }
}

impl<T: Serialize + DeserializeOwned> Kept for Outcome<T> {
    fn kept<E: From<Error>>() -> AnswerPolicy<Outcome<T>, E> {
        AnswerPolicy::kept_with_outcome()
    }
}

/// A policy with `final_errors`, for [`searched`](Self::searched).
#[derive(Debug)]
pub struct FinalErrors<T, E>(Unsearched<T, E>);

impl<T, E> FinalErrors<T, E> {
    /// Takes the policy.
    pub fn of(answers: AnswerPolicy<T, E>) -> Self {
        Self(Unsearched(answers))
    }
}

impl<T, E: std::error::Error> FinalErrors<T, E> {
    /// The policy of a function whose errors have sources, which are searched for refusals.
    ///
    /// For other error types this method does not apply, and the compiler goes on to that of
    /// [`Unsearched`].
    pub fn searched(&self) -> AnswerPolicy<T, E> {
        self.0.0.search_sources()
    }
}

impl<T, E> Deref for FinalErrors<T, E> {
    type Target = Unsearched<T, E>;

    fn deref(&self) -> &Unsearched<T, E> {
        &self.0
    }
}

/// A policy with `final_errors`, of a function whose errors may be anything.
#[derive(Debug)]
pub struct Unsearched<T, E>(AnswerPolicy<T, E>);

impl<T, E> Unsearched<T, E> {
    /// The policy as it is.
    pub fn searched(&self) -> AnswerPolicy<T, E> {
        self.0
    }
}

/// The policy of a function whose values are not kept.
pub fn plain<R: ReturnsResult>() -> R::AnswerPolicy
where
    R::Error: From<Error>,
{
    R::witness(AnswerPolicy::not_kept())
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
pub fn run_detached<'a, W, F>(call: Call<'a>, answers: W, body: F) -> W::Run<'a>
where
    W: Detach<F>,
    F: Future<Output = W::Output> + Send + 'static,
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
/// A trait for the same reason as [`Witness`].
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
