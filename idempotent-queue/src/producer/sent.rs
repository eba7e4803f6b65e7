//! A message that the broker has.

use crate::Receipt;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A message that the broker has confirmed. `Display` shows its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    record: SentRecord,
    sent_by: SentBy,
    is_recorded: bool,
}

/// The call that sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentBy {
    /// This one.
    ThisCall,
    /// One before it, of this business id and payload. This call has sent nothing.
    EarlierCall,
}

/// The part of [`Sent`] that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentRecord {
    pub(super) id: String,
    pub(super) receipt: Receipt,
}

impl Sent {
    pub(super) fn new(record: SentRecord, sent_by: SentBy, is_recorded: bool) -> Self {
        Self { record, sent_by, is_recorded }
    }

    /// The id of the message. Every copy of it has this one.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// The id of the message.
    pub fn into_id(self) -> String {
        self.record.id
    }

    /// The broker's word for the copy that is recorded.
    pub fn receipt(&self) -> &Receipt {
        &self.record.receipt
    }

    /// Tells whether this call sent the message, or an earlier one.
    pub fn sent_by(&self) -> SentBy {
        self.sent_by
    }

    /// `false` if the store has not acknowledged the record: a repeat may send a copy of the message,
    /// with the same id.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.id())
    }
}
