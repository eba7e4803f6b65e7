//! The return type of an attributed function, and the policy for its answers.
//!
//! Each trait here is a condition that the user's types have to meet, with the text of the error for
//! a type that does not. Blanket impls are not recommended to the user by rustc.

use super::run::Witness;
use crate::answer_policy::AnswerPolicy;
use crate::error::Error;
use crate::outcome::Outcome;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Deref;

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
    note = "`Arc<T>` and `Rc<T>` need a feature: `cargo add serde --features rc`; in place of `dyn Trait`, \
            name the type",
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
