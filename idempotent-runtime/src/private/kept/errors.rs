//! Errors, which `final_errors` keeps.

use crate::answer_policy::AnswerPolicy;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Errors that can be kept for a replay.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it needs `Serialize` \
               and `DeserializeOwned` of serde",
    label = "`{Self}` cannot be stored and read back",
    note = "an error of your own: add `#[derive(serde::Serialize, serde::Deserialize)]` to it",
    note = "in place of an error of another crate, one of your own: `#[derive(Debug, thiserror::Error, \
            serde::Serialize, serde::Deserialize)] enum CallError {{ #[error(\"{{0}}\")] Final(String), \
            #[error(\"{{0}}\")] Other(String), #[error(transparent)] Refused(#[from] idempotent_runtime::Error) }}`, with \
            `final_errors = CallError::is_final` and `impl CallError {{ fn is_final(&self) -> bool {{ \
            matches!(self, Self::Final(_)) }} }}`; then return \
            `Result<.., CallError>`, and `Err(CallError::Final(text.to_string()))` in the body, also for \
            `bail!` and `ensure!`",
    note = "for `?` where `{Self}` is of another crate: `impl From<{Self}> for CallError {{ fn from(error: {Self}) -> Self {{ \
            Self::Other(error.to_string()) }} }}`"
)]
pub trait KeptError: Sized {
    /// The policy for keeping them.
    fn kept<T>(answers: AnswerPolicy<T, Self>) -> AnswerPolicy<T, Self>;
}

#[diagnostic::do_not_recommend]
impl<E: Serialize + DeserializeOwned> KeptError for E {
    fn kept<T>(answers: AnswerPolicy<T, E>) -> AnswerPolicy<T, E> {
        answers.keep_errors()
    }
}

/// Errors that can be written, and have to be read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it has `Serialize`, and \
               needs `DeserializeOwned` of serde",
    label = "`{Self}` cannot be read back",
    note = "add `#[derive(serde::Deserialize)]` to it; a field such as `&'static str` has to be owned, such \
            as `String`"
)]
pub trait ReadBackError: KeptError {}

#[diagnostic::do_not_recommend]
impl<E: KeptError> ReadBackError for E {}

/// Errors that can be read, and have to be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be kept for replay, which `final_errors` asks for: it has `Deserialize`, and \
               needs `Serialize` of serde",
    label = "`{Self}` cannot be stored",
    note = "add `#[derive(serde::Serialize)]` to it"
)]
pub trait WrittenError: KeptError {}

#[diagnostic::do_not_recommend]
impl<E: KeptError> WrittenError for E {}
