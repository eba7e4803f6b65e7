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
use crate::key::{KeyPart, KeyWriter};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::protocol::OpenTransaction;
use pin_project_lite::pin_project;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::{self, Write as _};
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

/// The value of a path that ends in `?`.
pub fn option<O: IsOption>(value: &O) -> &Option<O::Part> {
    value.as_option()
}

/// Values of paths that end in `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Option`, so its path does not end in `?`",
    label = "always has a value",
    note = "remove the `?`"
)]
pub trait IsOption {
    /// The type of `Some`.
    type Part;

    /// Returns itself.
    fn as_option(&self) -> &Option<Self::Part>;
}

#[diagnostic::do_not_recommend]
impl<K> IsOption for Option<K> {
    type Part = K;

    fn as_option(&self) -> &Option<K> {
        self
    }
}

macro_rules! lead_to_an_option {
    ($($type:ty),+) => {$(
        #[diagnostic::do_not_recommend]
        impl<O: IsOption + ?Sized> IsOption for $type {
            type Part = O::Part;

            fn as_option(&self) -> &Option<O::Part> {
                (**self).as_option()
            }
        }
    )+};
}

lead_to_an_option!(&O, &mut O, Box<O>, std::rc::Rc<O>, std::sync::Arc<O>);

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

/// A value whose key part is the text that it displays, for `#[key_part(display)]`.
#[derive(Debug)]
pub struct Displayed<'a, T: ?Sized>(pub &'a T);

impl<T: fmt::Display + ?Sized> KeyPart for Displayed<'_, T> {
    fn encode(&self, key: &mut KeyWriter) {
        key.display(self.0);
    }
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
    note = "name a parameter or a field of type `Idempotency`, `&Idempotency` or `Arc<Idempotency>`: \
            `with = self.idempotency`",
    note = "a store becomes an instance with `Idempotency::builder().store(store).build()?`"
)]
pub trait Lends {
    /// The instance.
    fn lend(&self) -> &Idempotency;
}

#[diagnostic::do_not_recommend]
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

/// The text of `message` with the values of one call in it, and the other options of the site.
///
/// It is written before the body takes the arguments, whether the call is refused or not.
#[derive(Debug)]
pub struct Worded {
    options: Options,
    text: String,
}

/// Starts the message of one call.
pub fn worded(site: &'static Site) -> Worded {
    Worded { options: site.options.clone(), text: String::new() }
}

impl Worded {
    /// Adds literal text.
    pub fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value as it displays itself.
    pub fn value<T: fmt::Display + ?Sized>(mut self, value: &T) -> Self {
        // The sink never fails. A `Display` that fails keeps the text that it wrote until then.
        let _ = write!(self.text, "{value}");
        self
    }

    /// Completes the message.
    pub fn finish(mut self) -> Self {
        self.options.message = Some(Cow::Owned(std::mem::take(&mut self.text)));
        self
    }
}

/// One call of an attributed function.
#[derive(Debug)]
pub struct Call<'a> {
    site: &'static Site,
    options: &'a Options,
    key: Encoded,
    scope: Option<Encoded>,
    fingerprint: Option<Encoded>,
    instance: Option<&'a Idempotency>,
}

impl<'a> Call<'a> {
    /// Creates a call with this key.
    pub fn new(site: &'static Site, key: Encoded) -> Self {
        let options = &site.options;
        Self { site, options, key, scope: None, fingerprint: None, instance: None }
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

    /// Sets the message of this call.
    pub fn message(mut self, message: &'a Worded) -> Self {
        self.options = &message.options;
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
            options: self.options,
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
    note = "return `Result<{Self}, idempotent_runtime::Error>`, or a `Result` with an error of your own \
            that has `From<idempotent_runtime::Error>`: a refused call is told so by its error"
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

#[diagnostic::do_not_recommend]
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

/// Values that can be kept for a replay. One trait for both directions, so that a type with neither
/// is one error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay: it needs `Serialize` and `DeserializeOwned` of serde",
    label = "its values cannot be stored and read back",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to your type",
    note = "a response such as `axum::Json<T>` is made from the answer: return `T` here, and wrap it in \
            the handler: `Ok(Json(create_order(req).await?))`",
    note = "a type parameter needs the bounds `serde::Serialize + serde::de::DeserializeOwned`",
    note = "`mode = \"reject\"` keeps no value and needs neither trait"
)]
pub trait Kept: Sized {
    /// The policy for keeping them.
    fn kept<E: From<Error>>() -> AnswerPolicy<Self, E>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Kept for T {
    fn kept<E: From<Error>>() -> AnswerPolicy<T, E> {
        AnswerPolicy::kept()
    }
}

/// An [`Outcome`], which is not `Serialize` itself: its value alone is kept.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Kept for Outcome<T> {
    fn kept<E: From<Error>>() -> AnswerPolicy<Outcome<T>, E> {
        AnswerPolicy::kept_with_outcome()
    }
}

/// Errors that can tell a caller that its call was refused.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "with thiserror, add a variant: `#[error(transparent)] Idempotency(#[from] idempotent_runtime::Error)`",
    note = "an error of your own, by hand: `impl From<idempotent_runtime::Error> for {Self} {{ fn \
            from(error: idempotent_runtime::Error) -> Self {{ .. }} }}`",
    note = "in place of a type of another crate: `idempotent_runtime::Error`, `anyhow::Error`, or an \
            error of your own"
)]
pub trait FromRefusal: From<Error> {}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromRefusal for E {}

/// The policy of a function whose values are kept.
pub fn replay<R: ReturnsResult>() -> R::AnswerPolicy
where
    R::Value: Kept,
    R::Error: FromRefusal,
{
    R::witness(R::Value::kept())
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
    R::Error: FromRefusal,
{
    R::witness(AnswerPolicy::not_kept())
}

/// Errors that can be kept for a replay.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it needs `Serialize` \
               and `DeserializeOwned` of serde",
    label = "`{Self}` cannot be stored and read back",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to your error type",
    note = "in place of a type of another crate, use an error of your own"
)]
pub trait KeptError: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<E: Serialize + DeserializeOwned> KeptError for E {}

/// The policy that keeps final errors, too.
pub fn final_errors<T, E: KeptError>(
    is_final: fn(&E) -> bool,
    answers: AnswerPolicy<T, E>,
) -> AnswerPolicy<T, E> {
    answers.final_errors(is_final)
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
