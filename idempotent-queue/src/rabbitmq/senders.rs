//! Channels for messages that have to be confirmed.

use super::channel::OwnedChannel;
use super::connection::Link;
use super::failure::Failure;
use crate::PublishError;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Confirmation};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// The number of messages that are on their way at the same time. More wait.
const MOST_CHANNELS: usize = 64;

/// Channels that are lent to one message at a time.
///
/// Two messages on one channel could get each other's answers. The client library numbers a message before
/// it is queued to be sent, so two tasks may be numbered in one order and sent in the other; and it hands
/// a message that comes back as unroutable to whichever confirmation is next, which is that of another
/// message if the broker confirms several at once. A message that no queue took would pass for confirmed.
pub(super) struct Senders {
    link: Link,
    idle: Mutex<Vec<OwnedChannel>>,
    permits: Semaphore,
}

/// A message as it is sent.
pub(super) struct Letter<'a> {
    pub(super) exchange: &'a ShortString,
    pub(super) routing_key: &'a ShortString,
    pub(super) properties: BasicProperties,
    pub(super) payload: &'a [u8],
}

/// The end of a message that was sent.
pub(super) enum Sent {
    Confirmed,
    /// No queue takes it. The text is the broker's.
    Unroutable(String),
}

impl Senders {
    pub(super) fn new(link: Link) -> Self {
        let permits = Semaphore::new(MOST_CHANNELS);
        Self { link, idle: Mutex::default(), permits }
    }

    /// The connection that they are on.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a message, and waits until the broker has it.
    ///
    /// A channel goes back only after the answer to its message. If that does not come, or nobody waits
    /// for it any longer, the channel is closed.
    pub(super) async fn send(&self, letter: Letter<'_>) -> Result<Sent, PublishError> {
        let answered = async {
            let Ok(_permit) = self.permits.acquire().await else {
                unreachable!("the semaphore is never closed")
            };
            let channel = self.channel().await?;
            let options = BasicPublishOptions { mandatory: true, ..Default::default() };
            let Letter { exchange, routing_key, properties, payload } = letter;
            let (exchange, routing_key) = (exchange.clone(), routing_key.clone());
            let sent =
                channel.basic_publish(exchange, routing_key, options, payload, properties).await?;
            let confirmation = sent.await?;
            self.idle().push(channel);
            Ok::<_, Failure>(confirmation)
        };
        match self.link.target().in_time(answered).await? {
            Confirmation::Ack(None) => Ok(Sent::Confirmed),
            Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
                Ok(Sent::Unroutable(returned.reply_text.to_string()))
            }
            Confirmation::Nack(None) => {
                Err(PublishError::retryable("the broker did not take the message"))
            }
            Confirmation::NotRequested => {
                Err(PublishError::unavailable("the broker does not confirm"))
            }
        }
    }

    async fn channel(&self) -> Result<OwnedChannel, Failure> {
        loop {
            // The guard ends with the statement, before anything is waited for.
            let idle = self.idle().pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => break,
            }
        }
        let channel = self.link.channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<OwnedChannel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
