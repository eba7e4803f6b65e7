//! Messages as AMQP has them: headers of many types, and properties.

use crate::{Message, Outgoing, Reason};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// The delivery mode of messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;

/// The header with the number of earlier deliveries, of quorum queues.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// The header with the number of deliveries that a message had before it was sent to a wait queue: its copy is a message of
/// its own to the broker, which counts from zero.
pub const DELIVERIES_HEADER: &str = "idempotent-deliveries";

/// Headers that a copy does not have: the broker would send the copy to further queues by the first two, the
/// counts are those of the original, and by the last one the broker takes a copy that comes back from a wait queue
/// for a message that goes round in circles, if it was once a dead letter of its queue, and drops it.
const NOT_COPIED: [&str; 5] = ["CC", "BCC", DELIVERY_COUNT, DELIVERIES_HEADER, "x-death"];

/// A text of at most 255 bytes.
pub(super) fn short(of: &str, text: &str) -> Result<ShortString, String> {
    ShortString::try_new(text)
        .map_err(|_| format!("the {of} has {} bytes, and AMQP takes 255", text.len()))
}

/// The properties of a message that is sent.
pub(super) fn of_outgoing(message: &Outgoing) -> Result<BasicProperties, String> {
    let mut headers = FieldTable::default();
    for (name, value) in message.wire_headers() {
        // The first one counts, as for those who read a message.
        if !headers.contains_key(name) {
            headers.insert(short("name of a header", name)?, AMQPValue::LongString(value.into()));
        }
    }
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(short("id", message.id())?)
        .with_headers(headers);
    Ok(match message.kind() {
        "" => properties,
        kind => properties.with_type(short("type", kind)?),
    })
}

/// A message as its consumer sees it.
pub(super) fn message(
    payload: Vec<u8>,
    properties: &BasicProperties,
    is_redelivered: bool,
) -> Message {
    let mut message = Message::new(payload);
    if let Some(id) = properties.message_id() {
        message = message.with_id(id.as_str());
    }
    let (mut earlier, mut before_wait) = ((!is_redelivered).then_some(0), 0);
    for (name, value) in properties.headers().iter().flatten() {
        let Some(text) = text(value) else { continue };
        if name.as_str() == DELIVERIES_HEADER {
            before_wait = text.parse().unwrap_or(0);
            continue;
        }
        // On the first delivery it is one that the message was sent with, such as that of a dead letter.
        if is_redelivered && name.as_str() == DELIVERY_COUNT {
            earlier = text.parse().ok();
        }
        message = message.with_header(name.as_str(), text);
    }
    match earlier {
        Some(earlier) => {
            message.with_deliveries(1_u64.saturating_add(earlier).saturating_add(before_wait))
        }
        // Of a queue that does not count.
        None => message,
    }
}

/// A header as text. `None` for one that has none: a table, an array, bytes.
fn text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => str::from_utf8(text.as_bytes()).ok()?.to_owned(),
        AMQPValue::ShortString(text) => text.as_str().to_owned(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        _ => return None,
    })
}

/// The properties of a copy.
///
/// Without `expiration`, which would have the broker drop it, and without `user-id`, with which the broker
/// refuses a message of another user than its sender.
fn of_copy(original: &BasicProperties) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in original.headers().iter().flatten() {
        if !NOT_COPIED.contains(&name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    let mut copy = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    if let Some(content_type) = original.content_type() {
        copy = copy.with_content_type(content_type.clone());
    }
    if let Some(encoding) = original.content_encoding() {
        copy = copy.with_content_encoding(encoding.clone());
    }
    if let Some(priority) = original.priority() {
        copy = copy.with_priority(*priority);
    }
    if let Some(correlation) = original.correlation_id() {
        copy = copy.with_correlation_id(correlation.clone());
    }
    if let Some(reply_to) = original.reply_to() {
        copy = copy.with_reply_to(reply_to.clone());
    }
    if let Some(id) = original.message_id() {
        copy = copy.with_message_id(id.clone());
    }
    if let Some(timestamp) = original.timestamp() {
        copy = copy.with_timestamp(*timestamp);
    }
    if let Some(kind) = original.kind() {
        copy = copy.with_type(kind.clone());
    }
    if let Some(app) = original.app_id() {
        copy = copy.with_app_id(app.clone());
    }
    if let Some(cluster) = original.cluster_id() {
        copy = copy.with_cluster_id(cluster.clone());
    }
    copy
}

/// The properties of a copy that is delivered again after a pause, when the original has had so many deliveries.
pub(super) fn of_retry(original: &BasicProperties, deliveries: Option<u64>) -> BasicProperties {
    let copy = of_copy(original);
    let Some(deliveries) = deliveries else { return copy };
    let mut headers = copy.headers().clone().unwrap_or_default();
    let deliveries = AMQPValue::LongString(deliveries.to_string().into());
    headers.insert(DELIVERIES_HEADER.into(), deliveries);
    copy.with_headers(headers)
}

/// The properties of a copy that is put aside for a reason.
pub(super) fn put_aside(original: &BasicProperties, reason: &Reason) -> BasicProperties {
    let copy = of_copy(original);
    let mut headers = copy.headers().clone().unwrap_or_default();
    for (name, value) in reason.headers() {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    copy.with_headers(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redelivered(properties: BasicProperties, count: u32) -> BasicProperties {
        let mut headers = properties.headers().clone().unwrap_or_default();
        headers.insert(DELIVERY_COUNT.into(), AMQPValue::LongUInt(count));
        properties.with_headers(headers)
    }

    fn deliveries(properties: &BasicProperties, is_redelivered: bool) -> Option<u64> {
        message(Vec::new(), properties, is_redelivered).deliveries()
    }

    #[test]
    fn deliveries_are_counted_across_wait_queues() {
        let first = BasicProperties::default();
        assert_eq!(deliveries(&first, false), Some(1));
        let third = redelivered(first, 2);
        assert_eq!(deliveries(&third, true), Some(3));
        let fourth = of_retry(&third, Some(3));
        assert_eq!(deliveries(&fourth, false), Some(4));
        assert_eq!(deliveries(&redelivered(fourth.clone(), 1), true), Some(5));
        assert_eq!(deliveries(&of_retry(&fourth, Some(4)), false), Some(5));
    }

    #[test]
    fn the_count_of_deliveries_is_not_a_header_of_the_message_nor_of_a_dead_letter() {
        let retried = of_retry(&BasicProperties::default(), Some(7));
        assert_eq!(message(Vec::new(), &retried, false).header(DELIVERIES_HEADER), None);
        let aside = put_aside(&retried, &Reason::new("code", "error"));
        assert_eq!(deliveries(&aside, false), Some(1));
    }
}
