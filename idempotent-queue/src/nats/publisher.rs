//! Messages to subjects of streams.

use crate::{Outgoing, PublishError, Publisher, Receipt};
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use std::error::Error as _;
use std::fmt;

/// A publisher to subjects of streams. [`publisher`](super::publisher) makes one.
///
/// ```no_run
/// use idempotent_queue::{Outgoing, Publisher, nats};
///
/// # async fn example(jetstream: &async_nats::jetstream::Context) -> Result<(), Box<dyn std::error::Error>> {
/// let publisher = nats::publisher(jetstream);
/// let receipt = publisher.publish(&Outgoing::new("orders.eu", "order-42", "{}")).await?;
/// println!("{:?}", receipt.position()); // Some("ORDERS:17")
/// # Ok(()) }
/// ```
///
/// The destination is a subject. The id is sent as `Nats-Msg-Id`: within the duplicate window of the stream,
/// which is two minutes by default, a repeat is not stored and the receipt is that of the first one. The
/// window knows ids only: another payload, or another subject of the same stream, with the same id is taken
/// for a repeat too.
#[derive(Clone)]
pub struct NatsPublisher(Context);

impl NatsPublisher {
    pub(super) fn new(context: Context) -> Self {
        Self(context)
    }
}

impl Publisher for NatsPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let mut headers = HeaderMap::new();
        for (name, value) in message.wire_headers() {
            let (name, value) = header(name, value)?;
            headers.append(name, value);
        }
        // The last word on the id: one of the sender's own would not be the same for a repeat.
        headers.insert(NATS_MESSAGE_ID, header_value("Nats-Msg-Id", message.id())?);
        let payload = message.payload().to_vec().into();
        let copy = PublishMessage::build().payload(payload).headers(headers);
        let taken = confirmed(&self.0, message.destination(), copy).await?;
        Ok(Receipt::at(format!("{}:{}", taken.stream, taken.sequence)))
    }
}

impl fmt::Debug for NatsPublisher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NatsPublisher").finish_non_exhaustive()
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), PublishError> {
    let valid: HeaderName = name.parse().ok().filter(|_| !name.is_empty()).ok_or_else(|| {
        PublishError::permanent(format!(
            "NATS takes no header of the name {name:?}; help: use visible ASCII without a colon"
        ))
    })?;
    Ok((valid, header_value(name, value)?))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, PublishError> {
    value.parse().map_err(|_| {
        PublishError::permanent(format!(
            "NATS takes no line break in the header `{name}`; help: encode its value"
        ))
    })
}

/// Publishes a message, and waits until a stream has it.
pub(super) async fn confirmed(
    context: &Context,
    subject: &str,
    message: PublishMessage,
) -> Result<PublishAck, PublishError> {
    if !is_literal(subject) {
        return Err(PublishError::permanent(format!(
            "{subject:?} is no subject to publish to; help: use tokens that are separated by dots, \
             without white space and wildcards"
        )));
    }
    let sent = match context.send_publish(subject.to_owned(), message).await {
        Ok(confirmation) => confirmation.await,
        Err(error) => Err(error),
    };
    match sent {
        Ok(taken) => Ok(taken),
        Err(error) => Err(match error.kind() {
            PublishErrorKind::StreamNotFound => nobody_listens(context, subject).await,
            kind => refused(kind, error),
        }),
    }
}

/// The error of a message without an answer: there is no stream for it, or that has no leader at the
/// moment.
async fn nobody_listens(context: &Context, subject: &str) -> PublishError {
    match context.stream_by_subject(subject).await {
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => {
            PublishError::permanent(format!(
                "no stream has the subject `{subject}`; help: nats stream add STREAM --subjects \
                 '{subject}' --defaults"
            ))
        }
        Ok(stream) => PublishError::unavailable(format!(
            "the stream `{stream}` does not answer at the moment"
        )),
        Err(error) => PublishError::unavailable(format!("JetStream does not answer: {error}")),
    }
}

fn refused(kind: PublishErrorKind, error: jetstream::context::PublishError) -> PublishError {
    match kind {
        PublishErrorKind::MaxPayloadExceeded => PublishError::permanent(format!(
            "{error}; help: raise `max_payload` of the server, or send a reference to the payload"
        )),
        // Orders of the sender's own headers.
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            PublishError::permanent(error)
        }
        PublishErrorKind::Other => {
            let answer = error.source().and_then(|source| source.downcast_ref());
            match answer.map(|answer: &jetstream::Error| (answer.error_code(), answer.code())) {
                Some((code, _)) if NEVER.contains(&code) => PublishError::permanent(error),
                // Its own fault, and not that of the message.
                Some((_, 500..)) | None => PublishError::unavailable(error),
                Some(_) => PublishError::retryable(error),
            }
        }
        _ => PublishError::unavailable(error),
    }
}

/// Refusals that stay the same for a message.
const NEVER: [ErrorCode; 5] = [
    ErrorCode::STREAM_NOT_MATCH,
    ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
    ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
    ErrorCode::STREAM_SEALED,
    ErrorCode::STREAM_ROLLUP_FAILED,
];

/// Returns `true` for a subject without wildcards.
pub(super) fn is_literal(subject: &str) -> bool {
    let is_token = |token: &str| {
        let is_plain = |sign: char| !sign.is_whitespace() && !sign.is_control();
        !token.is_empty() && !matches!(token, "*" | ">") && token.chars().all(is_plain)
    };
    subject.split('.').all(is_token)
}

#[cfg(test)]
mod tests {
    use super::is_literal;

    #[test]
    fn a_subject_to_publish_to_has_tokens_and_no_wildcards() {
        for subject in ["orders", "orders.eu", "dead-letters.ORDERS.shop", "a*.b"] {
            assert!(is_literal(subject), "{subject}");
        }
        for subject in
            ["", ".", "orders.", ".orders", "a..b", "orders.*", "orders.>", "a b", "a\tb"]
        {
            assert!(!is_literal(subject), "{subject}");
        }
    }
}
