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
        Returned::new(answers)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T, E> Sealed for Result<T, E> {}
}

/// Errors that can tell a caller that its call was refused.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "an enum with `#[derive(thiserror::Error)]`: add `#[error(transparent)] Refused(#[from] \
            idempotent_runtime::Error)`; if a variant has that error, only `#[from]`, as in `Refused(#[from] \
            idempotent_runtime::Error)`",
    note = "another type of your own: add a variant `Refused(idempotent_runtime::Error)`, and `impl \
            From<idempotent_runtime::Error> for {Self} {{ fn from(error: idempotent_runtime::Error) -> Self {{ \
            Self::Refused(error) }} }}`; if it has `From<idempotent_runtime::ErrorKind>`, with `Self::from(error.kind())`",
    note = "a type of another crate: put it into an error of your own, which has the same"
)]
pub trait FromRefusal: From<Error> {}

#[diagnostic::do_not_recommend]
impl<E: From<Error>> FromRefusal for E {}

/// Errors that look like those of other crates, for which the user cannot implement `From`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be made from `idempotent_runtime::Error`, which a refused call gets",
    label = "needs `From<idempotent_runtime::Error>`",
    note = "put it into an error of your own: `enum CallError {{ Failed({Self}), Refused(idempotent_runtime::Error) \
            }}`, with `impl From<idempotent_runtime::Error> for CallError {{ fn from(error: \
            idempotent_runtime::Error) -> Self {{ Self::Refused(error) }} }}`",
    note = "then return `Result<_, CallError>`, and `Err(CallError::Failed(error))` in place of `Err(error)`; for \
            `?`, `impl From<{Self}> for CallError {{ fn from(error: {Self}) -> Self {{ Self::Failed(error) }} }}`"
)]
pub trait OfAnotherCrate: FromRefusal {}

#[diagnostic::do_not_recommend]
impl<E: FromRefusal> OfAnotherCrate for E {}

/// The policy of a function whose values are kept, for [`kept`](Returned::kept).
pub fn returned<R: ReturnsResult>() -> R::Returned
where
    R::Error: FromRefusal,
{
    R::returned(AnswerPolicy::not_kept())
}

/// Checks an error type that looks like one of another crate, and does what [`returned`] does.
pub fn returned_with_another<R: ReturnsResult>() -> R::Returned
where
    R::Error: OfAnotherCrate,
{
    returned::<R>()
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

/// Checks an error type that looks like one of another crate, and does what [`plain`] does.
pub fn plain_with_another<R: ReturnsResult>() -> R::AnswerPolicy
where
    R::Error: OfAnotherCrate,
{
    plain::<R>()
}
