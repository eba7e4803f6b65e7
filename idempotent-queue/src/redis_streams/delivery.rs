//! A delivery of an entry, and its settlements.

use super::entry::Entry;
use super::error::queue_error;
use super::group::{Keep, Kept, Place};
use super::inbox::Delivered;
use super::source::Source;
use crate::{Delivery, Message, QueueError, Reason};
use std::sync::Arc;
use std::time::Duration;

/// A delivery of a [`StreamDeliveries`](super::StreamDeliveries).
///
/// One that is dropped, or whose settlement failed, is delivered again at once: by its source, or by any
/// other of the group if its source is gone.
#[derive(Debug)]
pub struct StreamDelivery {
    source: Arc<Source>,
    entry: Entry,
    is_settled: bool,
}

impl StreamDelivery {
    pub(super) fn new(source: Arc<Source>, entry: Entry) -> Self {
        Self { source, entry, is_settled: false }
    }

    async fn put_aside(mut self, place: Place, reason: &Reason) -> Result<(), QueueError> {
        let put = self.source.group.put_aside(&self.entry, place, reason).await;
        self.is_settled = put.is_ok();
        put.map_err(|error| queue_error(&error))
    }
}

impl Delivery for StreamDelivery {
    fn message(&self) -> &Message {
        &self.entry.message
    }

    async fn ack(mut self) -> Result<(), QueueError> {
        let acknowledged = self.source.group.acknowledge(&self.entry.id).await;
        self.is_settled = acknowledged.is_ok();
        acknowledged.map_err(|error| queue_error(&error))
    }

    /// The entry stays pending, and its idle time is set so that others claim it after the pause: at the
    /// latest after `claim_after`, from which only a source that lives keeps it.
    async fn again(mut self, after: Duration) -> Result<(), QueueError> {
        let delivered = Delivered::of(&self.entry);
        let kept = self.source.group.keep(&[(delivered.clone(), Keep::For(after))]).await;
        self.is_settled = true;
        match kept {
            Ok(kept) if kept == [Kept::Yes] => self.source.wait(delivered, after),
            // Another consumer has it, or nobody can have it any more.
            Ok(_) => {}
            Err(error) => {
                self.source.wait(delivered, after);
                return Err(queue_error(&error));
            }
        }
        Ok(())
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        self.put_aside(Place::DeadLetters, reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        self.put_aside(Place::Parked, reason).await
    }

    async fn in_progress(&mut self) -> Result<(), QueueError> {
        let delivered = Delivered::of(&self.entry);
        let kept = self.source.group.keep(&[(delivered, Keep::Whole)]).await;
        match kept.map_err(|error| queue_error(&error))?[..] {
            [Kept::Yes] => Ok(()),
            [Kept::Gone] => Err(QueueError::new("the entry was trimmed or deleted")),
            _ => Err(QueueError::new("another consumer has claimed the entry, or it is settled")),
        }
    }
}

impl Drop for StreamDelivery {
    fn drop(&mut self) {
        self.source.leave();
        if !self.is_settled {
            self.source.put_back(Delivered::of(&self.entry));
        }
    }
}
