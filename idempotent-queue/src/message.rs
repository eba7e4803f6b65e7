//! A message, whatever broker it comes from.

use std::fmt;

/// A message with its headers. `Debug` shows of payload and headers only their sizes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message {
    payload: Vec<u8>,
    headers: Vec<(String, String)>,
    id: Option<String>,
    deliveries: Option<u64>,
}

impl Message {
    /// A message without headers.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: payload.into(), ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the id that the broker gave the message.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the number of times that the broker has delivered the message, this one included.
    #[must_use]
    pub fn with_deliveries(mut self, deliveries: u64) -> Self {
        self.deliveries = Some(deliveries);
        self
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The first header of this name, which is compared without regard to case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is_meant = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().find(is_meant).map(|(_, value)| &**value)
    }

    /// All headers, in their order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The broker's id. A message that its producer sends again mostly has another one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The number of deliveries as the broker counts them, if it does.
    pub fn deliveries(&self) -> Option<u64> {
        self.deliveries
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Message")
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .field("headers", &self.headers.len())
            .field("id", &self.id)
            .field("deliveries", &self.deliveries)
            .finish()
    }
}
