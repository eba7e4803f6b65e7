//! A failure of Redis, as the error of a verb.

use super::refusals::{Effect, refusal};
use crate::store::{StoreError, StoreErrorKind};
use redis::RedisError;

/// The reason for which a command failed, as far as it decides what to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer, or no connection.
    Disconnected,
    /// The server takes no writes.
    WritesRefused,
    /// The server has no room.
    Full,
    /// The server does not have the script.
    NoScript,
    /// The server does not know the command or an option of it.
    UnknownCommand,
    /// The name is in use for something that is not a record.
    WrongType,
    /// The user may not do this.
    Forbidden,
    Other,
}

pub(super) fn classify(error: &RedisError) -> Failure {
    refusal(error).failure
}

/// The error of a verb whose last command failed like this. Commands before it had no effect.
pub(super) fn store_error(error: RedisError) -> StoreError {
    let row = refusal(&error);
    let mut text = match (row.kind, error.code()) {
        (StoreErrorKind::Undecodable, _) => row.cause.to_owned(),
        // In the server's own words.
        (_, Some(code)) => {
            let said = format!("{code} {}", error.detail().unwrap_or_default());
            match row.effect {
                Effect::None => format!("redis: {}: {}", row.cause, said.trim_end()),
                Effect::Possible => format!("redis: {}", said.trim_end()),
            }
        }
        (_, None) => format!("redis: {error}"),
    };
    if !row.help.is_empty() {
        text += "\nhelp: ";
        text += row.help;
    }
    let told = StoreError::new(row.kind, text).with_source(error);
    match row.effect {
        Effect::None => told.without_effect(),
        Effect::Possible => told,
    }
}

/// The error of a verb that has had an effect, although what failed last had none.
pub(super) fn after_an_effect(error: StoreError) -> StoreError {
    if error.may_have_taken_effect() {
        return error;
    }
    StoreError::new(StoreErrorKind::Unavailable, error.to_string()).with_source(error)
}

pub(super) fn misconfigured(text: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, text)
}

/// An answer came, and says nothing about the effect of the command.
pub(super) fn unexpected(command: &str) -> StoreError {
    let text = format!("redis: an answer to {command} that no server gives");
    StoreError::new(StoreErrorKind::Unavailable, text)
}
