//! The return type of an attributed function, and the policy for its answers.
//!
//! Each trait here is a condition that the user's types have to meet, with the text of the error for
//! a type that does not. Blanket impls are not recommended to the user by rustc.

use super::kept::Returned;
use super::run::Witness;
use crate::answer_policy::AnswerPolicy;
use crate::error::Error;
use std::ops::Deref;

/// Return types of functions that can be idempotent.
#[diagnostic::on_unimplemented(
    message = "an idempotent function returns a `Result`, this one returns `{Self}`",
    label = "not a `Result`",
    note = "`-> Result<{Self}, idempotent_runtime::Error>`, with `Ok(value)` where the body ends in `value`, \
            and in each `return`; or a `Result` with an error of your own that has \
            `From<idempotent_runtime::Error>`"
)]
pub trait ReturnsResult: sealed::Sealed {
    /// The type of `Ok`.
    type Value;
    /// The type of `Err`.
    type Error;
    /// The policy for keeping both.
    type AnswerPolicy: Witness;
    /// The same policy, to be checked.
    type Returned;

    /// Returns `answers` as `Self::AnswerPolicy`, which is the same type.
    fn witness(answers: AnswerPolicy<Self::Value, Self::Error>) -> Self::AnswerPolicy;

    /// Returns `answers`, to be checked.
    fn returned(answers: AnswerPolicy<Self::Value, Self::Error>) -> Self::Returned;
}

#[diagnostic::do_not_recommend]
impl<T, E> ReturnsResult for Result<T, E> {
    type Value = T;
    type Error = E;
    type AnswerPolicy = AnswerPolicy<T, E>;
    type Returned = Returned<T, E>;

    fn witness(answers: AnswerPolicy<T, E>) -> AnswerPolicy<T, E> {
        answers
    }

    fn returned(answers: AnswerPolicy<T, E>) -> Returned<T, E> {
        Returned::of(answers)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T, E> Sealed for Result<T, E> {}
}

/// Errors that can tell a caller that its call was refused.
///
/// In all of these traits, `Self` is where the compiler points: the type of `Err` as the user has written it, or the
/// whole return type.
#[diagnostic::on_unimplemented(
    message = "`{E}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "with `#[derive(thiserror::Error)]`: add `#[error(transparent)] Refused(#[from] \
            idempotent_runtime::Error)`, in place of a variant with `#[from] idempotent_runtime::ErrorKind`; where a \
            variant has that error, `#[from]` alone",
    note = "if it has `#[from] Error` or `From<Error>`, that is another `Error`, such as `std::io::Error`: write \
            `idempotent_runtime::Error`",
    note = "without `thiserror`, for an enum: add a variant `Refused(idempotent_runtime::Error)`, and `impl \
            From<idempotent_runtime::Error> for {E} {{ fn from(error: idempotent_runtime::Error) -> Self {{ \
            Self::Refused(error) }} }}`, in place of an `impl Into<{E}>` or an `impl From<{E}> for idempotent_runtime::Error`; where \
            there is one of `From<idempotent_runtime::ErrorKind>`, without a variant: its body is `error.kind().into()`",
    note = "for a variant `Other` that there is, of `anyhow::Error` or `Box<dyn Error>`: `impl From<idempotent_runtime::Error> for {E} {{ \
            fn from(error: idempotent_runtime::Error) -> Self {{ Self::Other(error.into()) }} }}`, and of a `String`, with \
            `Self::Other(error.to_string())`",
    note = "for a tuple struct: `impl From<idempotent_runtime::Error> for {E} {{ fn from(error: idempotent_runtime::Error) -> Self {{ \
            Self(error.to_string()) }} }}`, and with a field: `Self {{ message: error.to_string() }}`",
    note = "a type of another crate goes into an error of your own, which has the same"
)]
pub trait FromRefusal<E> {
    /// The policy for such errors.
    fn answers<T>() -> AnswerPolicy<T, E>;
}

#[diagnostic::do_not_recommend]
impl<E: From<Error>, At: ?Sized> FromRefusal<E> for At {
    fn answers<T>() -> AnswerPolicy<T, E> {
        AnswerPolicy::not_kept()
    }
}

/// Errors that look like those of other crates, for which the user cannot implement `From`, in a `Result` with
/// values of type `Value`.
#[diagnostic::on_unimplemented(
    message = "`{E}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "put it into an error of your own: `#[derive(Debug)] enum CallError {{ Failed({E}), \
            Refused(idempotent_runtime::Error) }}`, with `impl From<idempotent_runtime::Error> for CallError {{ fn \
            from(error: idempotent_runtime::Error) -> Self {{ Self::Refused(error) }} }}`",
    note = "then return `Result<{Value}, CallError>`, and `Err(CallError::Failed(error))` in place of `Err(error)`; \
            for `?`, and for `Ok(..?)` in place of a `Result` at the end of the body, `impl From<{E}> for CallError {{ fn from(error: {E}) -> Self {{ Self::Failed(error) }} }}`",
    note = "where that is a response of axum, and this a handler: `impl axum::response::IntoResponse for CallError {{ fn into_response(self) -> \
            axum::response::Response {{ match self {{ Self::Failed(error) => error.into_response(), \
            Self::Refused(error) => (axum::http::StatusCode::CONFLICT, error.to_string()).into_response() }} }} }}`"
)]
pub trait OfAnotherCrate<E, Value>: FromRefusal<E> {}

#[diagnostic::do_not_recommend]
impl<E: From<Error>, Value, At: ?Sized> OfAnotherCrate<E, Value> for At {}

/// Errors that are type parameters of the user's function, whose remedy is a bound.
///
/// `Here` is the type of a closure. It has no name, so that the compiler does not propose this trait as the
/// bound.
#[diagnostic::on_unimplemented(
    message = "`{E}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "add a bound: `{E}: From<idempotent_runtime::Error>`"
)]
pub trait FromRefusalParameter<E, Here>: FromRefusal<E> {}

#[diagnostic::do_not_recommend]
impl<E: From<Error>, Here, At: ?Sized> FromRefusalParameter<E, Here> for At {}

/// The policy of a function whose values may be kept.
pub fn returned<R: ReturnsResult, At>() -> R::Returned
where
    At: FromRefusal<R::Error> + ?Sized,
{
    R::returned(At::answers())
}

/// Does what [`returned`] does, for an error type that looks like one of another crate.
pub fn returned_with_another<R: ReturnsResult, At>() -> R::Returned
where
    At: OfAnotherCrate<R::Error, R::Value> + ?Sized,
{
    R::returned(At::answers())
}

/// Does what [`returned`] does, for an error type that is a type parameter.
pub fn returned_with_parameter<R: ReturnsResult, At, Here>(_: Here) -> R::Returned
where
    At: FromRefusalParameter<R::Error, Here> + ?Sized,
{
    R::returned(At::answers())
}

/// The policy of a function whose values are not kept.
pub fn plain<R: ReturnsResult, At>() -> R::AnswerPolicy
where
    At: FromRefusal<R::Error> + ?Sized,
{
    R::witness(At::answers())
}

/// Does what [`plain`] does, for an error type that looks like one of another crate.
pub fn plain_with_another<R: ReturnsResult, At>() -> R::AnswerPolicy
where
    At: OfAnotherCrate<R::Error, R::Value> + ?Sized,
{
    R::witness(At::answers())
}

/// Does what [`plain`] does, for an error type that is a type parameter.
pub fn plain_with_parameter<R: ReturnsResult, At, Here>(_: Here) -> R::AnswerPolicy
where
    At: FromRefusalParameter<R::Error, Here> + ?Sized,
{
    R::witness(At::answers())
}

/// A policy with `final_errors`, for [`__idempotent_searched`](Self::__idempotent_searched).
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
    pub fn __idempotent_searched(&self) -> AnswerPolicy<T, E> {
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
    pub fn __idempotent_searched(&self) -> AnswerPolicy<T, E> {
        self.0
    }
}
