//! The error of a message that is not known to be sent.

use crate::encode::EncodeError;
use crate::{PublishError, PublishErrorKind};
use idempotent_runtime::{BodyRun, Error, ErrorKind};
use std::error::Error as StdError;
use std::fmt;

/// The error of [`send`](super::Producer::send). [`fate`](Self::fate) tells whether the broker may have
/// the message.
///
/// A repeat with the same business id and payload is safe after any of them.
///
/// ```
/// use idempotent_queue::producer::{Fate, SendError};
///
/// fn log(error: &SendError) {
///     match error.fate() {
///         Fate::NotSent => println!("it was not sent: {error}"),
///         Fate::Unknown => println!("send it again, with the same id: {error}"),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct SendError {
    destination: String,
    fate: Fate,
    cause: Cause,
}

/// The fate of a message for which [`send`](super::Producer::send) returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// This call has not sent it.
    NotSent,
    /// The broker may have it, or may still get it: from this call, which was not answered, or from
    /// another one that is at work.
    Unknown,
}

/// The kind of a [`SendError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// The payload cannot be encoded.
    Payload,
    /// The broker will never take the message.
    Permanent,
    /// The broker did not take the message, and may take it later.
    NotTaken,
    /// The broker has not confirmed the message. It may have it.
    Unconfirmed,
    /// The call was refused, for example because the business id was used for another payload
    /// ([`Mismatch`](ErrorKind::Mismatch)) or the store does not answer.
    Refused(ErrorKind),
}

#[derive(Debug)]
enum Cause {
    Payload(EncodeError),
    Broker { error: PublishError, tries: u32 },
    Refused(Error),
}

impl SendError {
    pub(super) fn payload(error: EncodeError) -> Self {
        Self::new(Fate::NotSent, Cause::Payload(error))
    }

    /// The broker's last answer. `fate` is that of all tries together.
    pub(super) fn broker(error: PublishError, tries: u32, fate: Fate) -> Self {
        Self::new(fate, Cause::Broker { error, tries })
    }

    pub(super) fn to(mut self, destination: &str) -> Self {
        destination.clone_into(&mut self.destination);
        self
    }

    fn new(fate: Fate, cause: Cause) -> Self {
        Self { destination: String::new(), fate, cause }
    }

    /// Tells whether the broker may have the message.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// The kind of the error.
    pub fn kind(&self) -> SendErrorKind {
        match &self.cause {
            Cause::Payload(_) => SendErrorKind::Payload,
            Cause::Broker { error, .. } => match error.kind() {
                PublishErrorKind::Unavailable => SendErrorKind::Unconfirmed,
                PublishErrorKind::Retryable => SendErrorKind::NotTaken,
                PublishErrorKind::Permanent => SendErrorKind::Permanent,
            },
            Cause::Refused(error) => SendErrorKind::Refused(error.kind()),
        }
    }

    /// The destination of the message.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// The refusal, if the call was refused.
    pub fn refusal(&self) -> Option<&Error> {
        match &self.cause {
            Cause::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// `true` if a repeat with the same business id and payload can end differently.
    pub fn is_retryable(&self) -> bool {
        match &self.cause {
            Cause::Payload(_) => false,
            Cause::Broker { error, .. } => error.kind() != PublishErrorKind::Permanent,
            Cause::Refused(error) => error.is_retryable(),
        }
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        let fate = match (error.kind(), error.body()) {
            // Another call is at work, or the record of one cannot be read.
            (ErrorKind::InProgress | ErrorKind::Indeterminate | ErrorKind::Undecodable, _) => {
                Fate::Unknown
            }
            (_, BodyRun::DidNotRun) => Fate::NotSent,
            (_, BodyRun::Ran | BodyRun::Unknown) => Fate::Unknown,
        };
        Self::new(fate, Cause::Refused(error))
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the message to `{}` ", self.destination)?;
        formatter.write_str(match self.fate {
            Fate::NotSent => "was not sent",
            Fate::Unknown => "may have been sent or not",
        })?;
        match &self.cause {
            Cause::Payload(error) => {
                write!(formatter, ": its payload cannot be encoded: {error}")?;
            }
            Cause::Broker { error, tries } => {
                let broker = match error.kind() {
                    PublishErrorKind::Unavailable => "the broker did not confirm it",
                    PublishErrorKind::Retryable => {
                        "the broker did not take it, and may do so later"
                    }
                    PublishErrorKind::Permanent => "the broker will never take it",
                };
                write!(formatter, ": {broker} (tries: {tries}): {error}")?;
            }
            Cause::Refused(error) => write!(formatter, ": {error}")?,
        }
        match (&self.cause, self.fate) {
            (Cause::Refused(error), _) if !error.is_retryable() => Ok(()),
            (_, Fate::Unknown) => formatter.write_str(
                "\nhelp: send it again with the same business id and payload: it has the same message id",
            ),
            _ => Ok(()),
        }
    }
}

impl StdError for SendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.cause {
            Cause::Payload(error) => error.source(),
            Cause::Broker { error, .. } => error.source(),
            Cause::Refused(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_became_of_the_message() {
        let lost = PublishError::unavailable("connection reset");
        assert_eq!(
            SendError::broker(lost, 3, Fate::Unknown).to("orders").to_string(),
            "the message to `orders` may have been sent or not: the broker did not confirm it \
             (tries: 3): connection reset\n\
             help: send it again with the same business id and payload: it has the same message id"
        );
        let refused = PublishError::permanent("no such queue");
        assert_eq!(
            SendError::broker(refused, 1, Fate::NotSent).to("orders").to_string(),
            "the message to `orders` was not sent: the broker will never take it (tries: 1): \
             no such queue"
        );
    }
}
