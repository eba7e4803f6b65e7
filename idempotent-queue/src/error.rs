//! Errors of brokers and of consumers.

use std::error::Error as StdError;
use std::fmt;

/// An error of a broker, or of the connection to it.
#[derive(Debug)]
pub struct QueueError(Box<dyn StdError + Send + Sync>);

impl QueueError {
    /// An error of the broker's client.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl StdError for QueueError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The error of a consumer that cannot start, or cannot go on. Its messages are with the broker.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsumerError {
    /// The function, or its instance, is set up so that no message can be settled.
    Misconfigured {
        /// The name of the consumer.
        consumer: String,
        /// The error of the call.
        error: String,
    },
    /// The queue does not suit the consumer. Nothing was fetched.
    Refused {
        /// The name of the consumer.
        consumer: String,
        /// The broker's limit that is in the way, and what to change.
        error: QueueError,
    },
}

impl fmt::Display for ConsumerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misconfigured { consumer, error } => {
                write!(formatter, "the consumer `{consumer}` has stopped: {error}")
            }
            Self::Refused { consumer, error } => {
                write!(formatter, "the consumer `{consumer}` has not started: {error}")
            }
        }
    }
}

impl StdError for ConsumerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Misconfigured { .. } => None,
            // Its text is part of this one's.
            Self::Refused { error, .. } => error.source(),
        }
    }
}
