//! Entries of a stream: fields and values, as messages.
//!
//! The payload is in the field `payload`, and each header in a field `header:` with its name. Of entries
//! that others have written, the field of the payload is a setting, and every other field is a header.

use crate::{Message, Outgoing, Reason};
use redis::{ErrorKind, RedisError, RedisResult, Value};

/// The field of the payload.
pub(super) const PAYLOAD: &str = "payload";
/// The beginning of a field with a header.
const HEADER: &str = "header:";

/// A field with its value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// An entry that was delivered.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    /// The number of its deliveries, this one included.
    pub(super) deliveries: u64,
    pub(super) message: Message,
    /// The fields other than the payload, as they came.
    others: Vec<Field>,
    has_payload: bool,
}

impl Entry {
    pub(super) fn new(id: String, deliveries: u64, fields: Vec<Field>, payload: &str) -> Self {
        let mut found = None;
        let mut others = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            if found.is_none() && name == payload.as_bytes() {
                found = Some(value);
            } else {
                others.push((name, value));
            }
        }
        let has_payload = found.is_some();
        let message = Message::new(found.unwrap_or_default());
        // Only text: with signs in place of other bytes, two keys could become one.
        let message = others.iter().fold(message, |message, (name, value)| {
            match (str::from_utf8(name), str::from_utf8(value)) {
                (Ok(name), Ok(value)) => {
                    message.with_header(name.strip_prefix(HEADER).unwrap_or(name), value)
                }
                _ => message,
            }
        });
        let message = message.with_id(&*id).with_deliveries(deliveries);
        Self { id, deliveries, message, others, has_payload }
    }

    /// Fields and values of a copy that is put aside for a reason.
    pub(super) fn put_aside(&self, payload: &str, reason: &Reason) -> Vec<Vec<u8>> {
        let mut fields = Vec::with_capacity(2 * self.others.len() + 6);
        if self.has_payload {
            fields.extend([payload.as_bytes().to_vec(), self.message.payload().to_vec()]);
        }
        // The reason for which it was put aside before, if it was sent again from there.
        let headers = reason.headers();
        let is_reason =
            |name: &[u8]| headers.iter().any(|(header, _)| name == field(header).as_bytes());
        for (name, value) in self.others.iter().filter(|(name, _)| !is_reason(name)) {
            fields.extend([name.clone(), value.clone()]);
        }
        for (name, value) in headers {
            fields.extend([field(name).into_bytes(), value.into_bytes()]);
        }
        fields
    }
}

/// The field of a header.
fn field(header: &str) -> String {
    format!("{HEADER}{header}")
}

/// Fields and values of a message that is sent.
pub(super) fn sent(message: &Outgoing) -> Vec<Vec<u8>> {
    let mut fields = vec![PAYLOAD.as_bytes().to_vec(), message.payload().to_vec()];
    for (name, value) in message.wire_headers() {
        fields.extend([field(name).into_bytes(), value.as_bytes().to_vec()]);
    }
    fields
}

/// An entry as a server sends it: its id, and its fields and values.
pub(super) type Sent = (String, Vec<Field>);

/// The entries in an answer to `XREADGROUP`, of one stream.
pub(super) fn read(answer: Value) -> RedisResult<Vec<Sent>> {
    // By the second version of the protocol a stream is an array of two, by the third a pair of a map.
    let entries = match answer {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(mut streams) => match streams.pop() {
            None => return Ok(Vec::new()),
            Some(Value::Array(mut stream)) => stream.pop(),
            Some(_) => None,
        },
        Value::Map(mut streams) => streams.pop().map(|(_, entries)| entries),
        _ => None,
    };
    let Some(Value::Array(entries)) = entries else { return Err(unexpected("XREADGROUP")) };
    entries.into_iter().map(entry).collect()
}

fn entry(value: Value) -> RedisResult<Sent> {
    let Value::Array(parts) = value else { return Err(unexpected("XREADGROUP")) };
    let [id, fields] = parts.try_into().map_err(|_| unexpected("XREADGROUP"))?;
    Ok((redis::from_redis_value(id)?, pairs(fields)?))
}

/// Entries that a script has taken, and those that are gone.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Each with the number of its deliveries.
    pub(super) entries: Vec<(Sent, u64)>,
    pub(super) gone: Vec<String>,
    /// The last entry that was looked at, if there may be more.
    pub(super) last: Option<String>,
}

/// The answer of a script that takes entries.
pub(super) fn taken(answer: Value) -> RedisResult<Taken> {
    let Value::Array(parts) = answer else { return Err(unexpected("a script")) };
    let [taken, gone, last] = parts.try_into().map_err(|_| unexpected("a script"))?;
    let Value::Array(taken) = taken else { return Err(unexpected("a script")) };
    let one = |value: Value| {
        let Value::Array(parts) = value else { return Err(unexpected("a script")) };
        let [id, deliveries, fields] = parts.try_into().map_err(|_| unexpected("a script"))?;
        let sent = (redis::from_redis_value(id)?, pairs(fields)?);
        Ok((sent, redis::from_redis_value(deliveries)?))
    };
    let entries = taken.into_iter().map(one).collect::<RedisResult<_>>()?;
    let last: String = redis::from_redis_value(last)?;
    let last = Some(last).filter(|last| !last.is_empty());
    Ok(Taken { entries, gone: redis::from_redis_value(gone)?, last })
}

fn pairs(fields: Value) -> RedisResult<Vec<Field>> {
    let mut values = redis::from_redis_value::<Vec<Vec<u8>>>(fields)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn unexpected(request: &'static str) -> RedisError {
    let text = format!("an answer to {request} that no server gives");
    (ErrorKind::UnexpectedReturnType, "unexpected answer", text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(fields: &[(&str, &str)], payload: &str) -> Entry {
        let bytes =
            |(name, value): &(&str, &str)| (name.as_bytes().into(), value.as_bytes().into());
        Entry::new("1-0".to_owned(), 3, fields.iter().map(bytes).collect(), payload)
    }

    fn headers(entry: &Entry) -> Vec<(&str, &str)> {
        entry.message.headers().collect()
    }

    #[test]
    fn a_message_reads_back_as_it_was_sent() {
        let message =
            Outgoing::new("orders", "17", "{}").with_kind("Created").with_header("a", "b");
        let flat = sent(&message);
        let fields = flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let entry = Entry::new("1-0".to_owned(), 1, fields, PAYLOAD);
        assert_eq!(entry.message.payload(), b"{}");
        assert_eq!(headers(&entry), [("idempotency-key", "17"), ("type", "Created"), ("a", "b")]);
        assert_eq!((entry.message.id(), entry.message.deliveries()), (Some("1-0"), Some(1)));
        assert_eq!(flat[2], b"header:idempotency-key");
    }

    #[test]
    fn every_other_field_is_a_header() {
        let entry = entry_of(&[("tenant", "acme"), ("data", "{}"), ("payload", "no")], "data");
        assert_eq!(entry.message.payload(), b"{}");
        assert_eq!(headers(&entry), [("tenant", "acme"), ("payload", "no")]);
    }

    #[test]
    fn two_keys_that_are_not_text_are_not_taken_for_one() {
        let fields = |key: u8| vec![(b"header:idempotency-key".to_vec(), vec![key])];
        for key in [0xfe, 0xff] {
            let entry = Entry::new("1-0".to_owned(), 1, fields(key), PAYLOAD);
            assert_eq!(headers(&entry), []);
            let copy = entry.put_aside(PAYLOAD, &Reason::new("missing-key", ""));
            assert_eq!(copy[1], [key], "a copy has it as it came");
        }
    }

    #[test]
    fn an_entry_without_a_payload_has_an_empty_one() {
        let entry = entry_of(&[("tenant", "acme")], PAYLOAD);
        assert_eq!(entry.message.payload(), b"");
        let reason = Reason::new("undecodable", "empty");
        let copy = entry.put_aside(PAYLOAD, &reason);
        assert!(!copy.contains(&PAYLOAD.as_bytes().to_vec()));
    }

    #[test]
    fn a_copy_has_the_fields_of_its_entry_and_the_last_reason() {
        let fields = [("data", "{}"), ("tenant", "acme"), ("header:idempotent-reason", "before")];
        let entry = entry_of(&fields, "data");
        let copy = entry.put_aside("data", &Reason::new("final-error", "declined"));
        let copy: Vec<_> = copy.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        let expected = [
            ["data", "{}"],
            ["tenant", "acme"],
            ["header:idempotent-reason", "final-error"],
            ["header:idempotent-error", "declined"],
        ];
        assert_eq!(copy, expected.concat());
    }

    #[test]
    fn an_answer_is_read_in_both_versions_of_the_protocol() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let entries = || {
            let fields = Value::Array(vec![bulk("payload"), bulk("{}")]);
            Value::Array(vec![Value::Array(vec![bulk("1-0"), fields])])
        };
        let second = Value::Array(vec![Value::Array(vec![bulk("orders"), entries()])]);
        let third = Value::Map(vec![(bulk("orders"), entries())]);
        let expected = ("1-0".to_owned(), vec![(b"payload".to_vec(), b"{}".to_vec())]);
        let expected = [expected];
        assert_eq!(read(second).unwrap(), expected);
        assert_eq!(read(third).unwrap(), expected);
        assert_eq!(read(Value::Nil).unwrap(), []);
        assert!(read(Value::Okay).is_err());
    }
}
