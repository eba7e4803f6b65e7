//! Answers of servers, as values or as the failure that they are.

use super::error::unexpected;
use super::links::Failed;
use crate::store::StoreError;
use redis::Value;
use std::time::Duration;

/// The number of replicas that have what was written. It matters only where something was.
#[derive(Debug)]
#[must_use]
pub(super) enum Written {
    Unasked,
    To {
        replicas: usize,
        demanded: usize,
    },
    /// The question was refused.
    Unconfirmed(StoreError),
}

impl Clone for Written {
    fn clone(&self) -> Self {
        match self {
            Self::Unasked => Self::Unasked,
            &Self::To { replicas, demanded } => Self::To { replicas, demanded },
            Self::Unconfirmed(error) => Self::Unconfirmed(copy(error)),
        }
    }
}

impl Written {
    pub(super) fn check(self) -> Result<(), Failed> {
        match self {
            Self::To { replicas, demanded } if replicas < demanded => {
                Err(Failed::Answered(super::replication::too_few(replicas, demanded)))
            }
            Self::Unconfirmed(error) => Err(Failed::Answered(error)),
            Self::Unasked | Self::To { .. } => Ok(()),
        }
    }
}

/// The answers of a pipeline one by one, or for each the reason for which the pipeline as a whole has none.
pub(super) fn each(
    answers: Result<Vec<Result<Value, Failed>>, Failed>,
) -> impl FnMut() -> Result<Value, Failed> {
    let (answers, failed) = match answers {
        Ok(answers) => (answers, None),
        Err(failed) => (Vec::new(), Some(StoreError::from(failed))),
    };
    let mut answers = answers.into_iter();
    move || {
        let error = || failed.as_ref().map_or_else(|| unexpected("a pipeline"), copy);
        answers.next().unwrap_or_else(|| Err(Failed::Answered(error())))
    }
}

/// The same error, for another request of the same pipeline.
fn copy(error: &StoreError) -> StoreError {
    let copy = StoreError::new(error.kind(), error.to_string());
    match error.may_have_taken_effect() {
        true => copy,
        false => copy.without_effect(),
    }
}

pub(super) fn bytes_of(answer: Value, command: &str) -> Result<Option<Vec<u8>>, Failed> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(Failed::Answered(unexpected(command))),
    }
}

pub(super) fn ttl_of(answer: &Value) -> Result<Option<Duration>, Failed> {
    match answer {
        Value::Int(-2) => Ok(None),
        // Another program took the time to live away. It is not ours to give it back.
        Value::Int(-1) => Ok(Some(Duration::MAX)),
        // A record in its last millisecond still lives.
        Value::Int(millis) => {
            Ok(Some(Duration::from_millis(u64::try_from(*millis).unwrap_or(0).max(1))))
        }
        _ => Err(Failed::Answered(unexpected("PTTL"))),
    }
}
