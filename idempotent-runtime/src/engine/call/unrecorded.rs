//! A transaction around a body: begun, lent, and committed or rolled back, without a record.
//!
//! The caller cannot interrupt it while it begins, commits or rolls back.

use super::body::Body;
use super::uninterrupted::uninterrupted;
use crate::answer_policy::AnswerPolicy;
use crate::engine::attempt::call_refused;
use crate::error::{Error, ErrorKind};
use crate::operation_name::OperationName;
use crate::protocol::{CommitError, TransactionSource};
use std::future::Future;
use std::pin::pin;

/// The treatment of what the body wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effects {
    Kept,
    Undone,
}

impl Effects {
    pub(super) fn of<T, E>(answers: &AnswerPolicy<T, E>, answer: &Result<T, E>) -> Self {
        if answers.keeps_effects(answer) { Self::Kept } else { Self::Undone }
    }
}

/// Runs a body in a transaction that has no record. `blame` completes the error of a call that
/// fails.
pub(crate) async fn run_unrecorded<T, E, S, B, F>(
    operation: &OperationName,
    answers: &AnswerPolicy<T, E>,
    source: S,
    body: B,
    blame: impl Fn(Error) -> Error,
) -> Result<T, E>
where
    S: TransactionSource,
    B: FnOnce(S::Lent) -> F,
    F: Future<Output = Result<T, E>>,
{
    let refuse = |error: Error| {
        if error.is_retryable() {
            call_refused();
        }
        Err((answers.refuse)(blame(error)))
    };
    let begins = source.clone();
    let transaction = match uninterrupted(async move { begins.begin().await }).await {
        Some(Ok(transaction)) => transaction,
        Some(Err(error)) => return refuse(Error::from_store(error, operation)),
        None => return refuse(Error::new(ErrorKind::StoreUnavailable, operation)),
    };
    let (lent, loan) = source.lend(transaction);
    let answer = pin!(Body::new(async { body(lent).await })).await;
    let Some(transaction) = loan.take() else {
        let error = kept(operation);
        // Nothing was to be committed, and the body's own error says why.
        if answer.is_err() {
            warn_of_kept(&error);
            return answer;
        }
        return refuse(error);
    };
    if Effects::of(answers, &answer) == Effects::Undone {
        uninterrupted(source_rolls_back(source, transaction)).await;
        return answer;
    }
    refuse(match uninterrupted(async move { source.commit(transaction).await }).await {
        Some(Ok(())) => return answer,
        Some(Err(CommitError::LostRace(error) | CommitError::Failed(error))) => {
            Error::from_store(error, operation).after_the_body_ran()
        }
        Some(Err(CommitError::Unknown(error))) => untold(operation).with_source(error),
        None => untold(operation),
    })
}

/// Rolls back.
pub(super) async fn source_rolls_back<S: TransactionSource>(
    source: S,
    transaction: S::Transaction,
) {
    source.roll_back(transaction).await;
}

/// The error of a body that did not give its transaction back.
pub(super) fn kept(operation: &OperationName) -> Error {
    let text = "the body kept its transaction, so that it could not be committed\n\
                help: drop the transaction, and whatever borrows from it, before the body returns";
    Error::new(ErrorKind::Misconfigured, operation).with_message(text).after_the_body_ran()
}

/// Tells of such a body that returned an error of its own, which its caller gets.
pub(super) fn warn_of_kept(error: &Error) {
    tracing::warn!(target: "idempotent", %error, "a body that failed has kept its transaction");
}

/// The error of a commit that was not answered, and of which there is no record.
fn untold(operation: &OperationName) -> Error {
    let text = "the commit was not answered, and there is no record of the call\n\
                help: look for its effects before it is repeated";
    Error::new(ErrorKind::Indeterminate, operation).with_message(text).after_the_body_ran()
}

pub(super) fn unknown(operation: &OperationName) -> Error {
    let text = "the commit was not answered, and the database cannot be asked whether it took place\n\
                help: call again with the same key, which finds out";
    Error::new(ErrorKind::Indeterminate, operation).with_message(text).after_the_body_ran()
}
