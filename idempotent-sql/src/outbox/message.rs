//! Messages: as they are sent, and as they are in the outbox.

use super::lane::Lane;
use super::{OutboxError, OutboxErrorKind, Outgoing};
use idempotent_runtime::store::Token;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The longest destination, key, type, id and name of a header, in bytes.
const LONGEST: usize = 255;

/// A message for [`Outbox::send`](super::Outbox::send).
///
/// ```
/// use idempotent_sql::outbox::Message;
///
/// let message = Message::new("orders", "order-17", r#"{"total": 4200}"#)
///     .kind("OrderCreated")
///     .header("tenant", "acme");
/// # let _ = message;
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a message is sent by `Outbox::send`"]
pub struct Message {
    pub(super) id: String,
    pub(super) destination: String,
    /// Messages without a key have no order: their id is their key.
    pub(super) key: Option<String>,
    pub(super) kind: String,
    pub(super) payload: Vec<u8>,
    pub(super) headers: BTreeMap<String, String>,
}

impl Message {
    /// A message to a destination: a topic, a subject, an exchange, as its publisher understands it.
    ///
    /// Messages with the same destination and key are delivered in the order of their transactions.
    pub fn new(
        destination: impl Into<String>,
        key: impl Into<String>,
        payload: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            id: random_id(),
            destination: destination.into(),
            key: Some(key.into()),
            kind: String::new(),
            payload: payload.into(),
            headers: BTreeMap::new(),
        }
    }

    /// A message with a payload in JSON.
    ///
    /// # Errors
    ///
    /// Fails if the value has no JSON, such as a map whose keys are not texts.
    ///
    /// ```
    /// use idempotent_sql::outbox::Message;
    ///
    /// #[derive(serde::Serialize)]
    /// struct OrderCreated {
    ///     total: u64,
    /// }
    ///
    /// let message = Message::json("orders", "order-17", &OrderCreated { total: 4200 })?;
    /// # Ok::<_, idempotent_sql::outbox::OutboxError>(())
    /// ```
    pub fn json(
        destination: impl Into<String>,
        key: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<Self, OutboxError> {
        let payload = serde_json::to_vec(value).map_err(|error| {
            OutboxError::new(OutboxErrorKind::Invalid, format!("the payload has no JSON: {error}"))
        })?;
        Ok(Self::new(destination, key, payload))
    }

    /// A message without a key: it is delivered in any order, and waits for no other.
    pub fn unordered(destination: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self { key: None, ..Self::new(destination, "", payload) }
    }

    /// Sets the type of the event, such as `OrderCreated`; empty by default.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Sets the id, by which the receiver tells a repeated delivery; a random UUID by default.
    ///
    /// Visible ASCII characters, at most 255. An id that is already in the outbox is refused by the
    /// database.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Adds a header, or replaces the one of this name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    pub(super) fn lane(&self) -> Lane {
        Lane::of(&self.destination, self.aggregate_id())
    }

    pub(super) fn aggregate_id(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.id)
    }

    /// The headers as a JSON object; `None` if there are none.
    pub(super) fn headers_text(&self) -> Option<String> {
        match self.headers.is_empty() {
            true => None,
            false => serde_json::to_string(&self.headers).ok(),
        }
    }

    /// Refuses what one of the databases would refuse, or would store as something else.
    pub(super) fn check(&self) -> Result<(), OutboxError> {
        let invalid = |text: String| Err(OutboxError::new(OutboxErrorKind::Invalid, text));
        if self.id.is_empty() || !self.id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return invalid("the id of a message is made of visible ASCII characters".to_owned());
        }
        if self.destination.is_empty() {
            return invalid("a message has no destination".to_owned());
        }
        let texts = [
            ("id", &*self.id),
            ("destination", &*self.destination),
            ("key", self.aggregate_id()),
            ("type", &*self.kind),
        ];
        let names = self.headers.keys().map(|name| ("name of a header", &**name));
        for (what, text) in texts.into_iter().chain(names) {
            if text.len() > LONGEST || text.contains('\0') {
                return invalid(format!("the {what} is longer than {LONGEST} bytes, or has a NUL"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("id", &self.id)
            .field("destination", &self.destination)
            .field("kind", &self.kind)
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .finish_non_exhaustive()
    }
}

/// A random UUID (version 4).
fn random_id() -> String {
    let mut bytes = Token::random().to_bytes();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// A message of the outbox, with its history. A [`Publisher`](super::Publisher) gets its
/// [`outgoing`](Self::outgoing).
#[derive(Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    pub(super) outgoing: Outgoing,
    pub(super) created_at: i64,
    pub(super) failures: u32,
}

impl OutboxMessage {
    /// The message as a publisher gets it.
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// The id. Every delivery of the message has the same one, so that the receiver can tell a
    /// repeated delivery.
    pub fn id(&self) -> &str {
        self.outgoing.id()
    }

    /// The destination, as the sender gave it.
    pub fn destination(&self) -> &str {
        self.outgoing.destination()
    }

    /// The key that the order is kept by. That of an unordered message is its id.
    pub fn key(&self) -> &str {
        self.outgoing.key().unwrap_or(self.id())
    }

    /// The type of the event; may be empty.
    pub fn kind(&self) -> &str {
        self.outgoing.kind()
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.outgoing.payload()
    }

    /// The headers, by their names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outgoing.headers()
    }

    /// The time at which the message was sent, by the clock of the database.
    pub fn created_at(&self) -> SystemTime {
        let millis = u64::try_from(self.created_at).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// The number of deliveries that have failed before.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

impl From<OutboxMessage> for Outgoing {
    fn from(message: OutboxMessage) -> Self {
        message.outgoing
    }
}

impl fmt::Debug for OutboxMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OutboxMessage")
            .field("outgoing", &self.outgoing)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let (one, other) = (Message::new("d", "k", ""), Message::new("d", "k", ""));
        assert_ne!(one.id, other.id);
        let shape: Vec<_> = one.id.split('-').map(str::len).collect();
        assert_eq!(shape, [8, 4, 4, 4, 12]);
        assert_eq!((&one.id[14..15], one.check().is_ok()), ("4", true));
    }

    #[test]
    fn texts_that_a_database_would_change_are_refused() {
        let good = || Message::new("orders", "17", "");
        for message in [
            Message::new("", "17", ""),
            Message::new("orders\0", "17", ""),
            Message::new("orders", "k".repeat(256), ""),
            good().id(""),
            good().id("a "),
            good().id("größe"),
            good().kind("\0"),
            good().header("n".repeat(256), ""),
        ] {
            let error = message.check().unwrap_err();
            assert_eq!(error.kind(), OutboxErrorKind::Invalid, "{message:?}");
        }
        assert!(good().id("a".repeat(255)).kind("größe").header("a", "\0").check().is_ok());
    }

    #[test]
    fn messages_without_a_key_share_no_lane() {
        let message = || Message::unordered("orders", "");
        assert_ne!(message().lane(), message().lane());
        assert_eq!(Message::new("a", "1", "").lane(), Message::new("a", "1", "x").lane());
    }

    #[test]
    fn debug_shows_no_payload_and_no_key() {
        let text = format!("{:?}", Message::new("orders", "secret", "secret"));
        assert!(!text.contains("secret"), "{text}");
    }
}
