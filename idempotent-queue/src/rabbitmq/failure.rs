//! Exchanges with the broker that failed.

use crate::{PrepareError, PublishError, QueueError};
use lapin::ErrorKind;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// An exchange with the broker that failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The broker cannot be reached.
    Unreachable { address: String, error: lapin::Error },
    /// The broker did not answer in time.
    Silent { limit: Duration },
    /// The client or the broker has refused.
    Client(lapin::Error),
}

/// A refusal of the broker, by AMQP's reply codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal<'a> {
    /// There is no such queue or exchange.
    Missing(&'a str),
    /// The user has no permission, or there is no such user or virtual host.
    Forbidden(&'a str),
    /// A queue exists with other arguments; a message is too large.
    Precondition(&'a str),
    /// The queue belongs to another connection.
    Locked(&'a str),
}

impl Failure {
    /// The refusal of the broker that no repetition changes, if it is one.
    pub(super) fn refusal(&self) -> Option<Refusal<'_>> {
        let (Self::Client(error) | Self::Unreachable { error, .. }) = self else { return None };
        let ErrorKind::ProtocolError(error) = error.kind() else { return None };
        let text = error.get_message().as_str();
        match error.get_id() {
            // A queue whose node is down is not found either.
            404 if text.contains("no queue") || text.contains("no exchange") => {
                Some(Refusal::Missing(text))
            }
            403 | 530 => Some(Refusal::Forbidden(text)),
            405 => Some(Refusal::Locked(text)),
            406 => Some(Refusal::Precondition(text)),
            _ => None,
        }
    }
}

impl From<lapin::Error> for Failure {
    fn from(error: lapin::Error) -> Self {
        Self::Client(error)
    }
}

/// A broker that refuses a message does so again. One that refuses the connection says nothing of the
/// message, and any other failure leaves it open whether the broker has it.
impl From<Failure> for PublishError {
    fn from(failure: Failure) -> Self {
        match (&failure, failure.refusal()) {
            (Failure::Client(_), Some(_)) => Self::permanent(failure),
            _ => Self::unavailable(failure),
        }
    }
}

/// A consumer that the broker refuses ends; one that it does not answer tries again.
impl From<Failure> for PrepareError {
    fn from(failure: Failure) -> Self {
        match failure.refusal() {
            Some(_) => Self::Refused(QueueError::new(failure)),
            None => Self::Unavailable(QueueError::new(failure)),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(
            Refusal::Missing(text)
            | Refusal::Forbidden(text)
            | Refusal::Precondition(text)
            | Refusal::Locked(text),
        ) = self.refusal()
        {
            return write!(formatter, "the broker has refused: {text}");
        }
        match self {
            Self::Unreachable { address, error } => {
                write!(formatter, "the broker at {address} cannot be reached: {error}")
            }
            Self::Silent { limit } => {
                write!(formatter, "the broker has not answered within {limit:?}")
            }
            Self::Client(error) => {
                write!(formatter, "the connection to the broker failed: {error}")
            }
        }
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unreachable { error, .. } | Self::Client(error) => Some(error),
            Self::Silent { .. } => None,
        }
    }
}
