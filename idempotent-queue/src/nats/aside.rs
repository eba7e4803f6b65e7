//! Copies of messages that are put aside: dead letters, and those that are parked.

use crate::{QueueError, Reason};
use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::Message;
use async_nats::jetstream::message::PublishMessage;

/// The header with the subject that a message was sent to before it was put aside.
pub const SUBJECT_HEADER: &str = "idempotent-subject";
/// The header with stream and sequence, `STREAM:SEQUENCE`, of a message before it was put aside.
pub const ORIGIN_HEADER: &str = "idempotent-origin";

/// Headers that begin with this are orders to the server.
const ORDERS: &str = "nats-";

/// The subjects for messages that are put aside.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) dead_letters: String,
    pub(super) parked: String,
}

impl Places {
    /// Those that belong to a consumer by default.
    pub(super) fn of(stream: &str, consumer: &str) -> Self {
        Self {
            dead_letters: format!("dead-letters.{stream}.{consumer}"),
            parked: format!("parked.{stream}.{consumer}"),
        }
    }

    pub(super) fn subjects(&self) -> [&str; 2] {
        [&self.dead_letters, &self.parked]
    }
}

/// A copy of a message, with the reason.
///
/// Its id names place, stream, consumer, sequence and time: a repeat of it is dropped within the duplicate
/// window, and nothing else is, neither the copy of another consumer nor that of a message with the same
/// sequence in a stream that was deleted and made again.
pub(super) fn copy(
    original: &Message,
    place: &str,
    reason: &Reason,
) -> Result<PublishMessage, QueueError> {
    let info = original.info().map_err(QueueError::new)?;
    let mut headers = HeaderMap::new();
    for (name, values) in original.headers.iter().flat_map(|headers| headers.iter()) {
        if !is_order(name.as_ref()) {
            values.iter().for_each(|value| headers.append(name.clone(), value.clone()));
        }
    }
    // In place of those that a dead letter has which was sent again.
    for (name, value) in reason.headers() {
        headers.insert(name, value);
    }
    let origin = format!("{}:{}", info.stream, info.stream_sequence);
    let id = format!("{place}:{}:{origin}:{}", info.consumer, info.published);
    headers.insert(SUBJECT_HEADER, original.subject.as_str());
    headers.insert(ORIGIN_HEADER, origin);
    headers.insert(NATS_MESSAGE_ID, id);
    Ok(PublishMessage::build().payload(original.payload.clone()).headers(headers))
}

/// Returns `true` for a header that tells the server what to do with a message, such as to expect a
/// certain stream, or to delete all others of its subject.
fn is_order(name: &str) -> bool {
    name.get(..ORDERS.len()).is_some_and(|start| start.eq_ignore_ascii_case(ORDERS))
}
