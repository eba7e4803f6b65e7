//! Channels that their owner closes.
//!
//! The client library closes a channel by itself when the last handle is dropped, and takes an error of that for one
//! of the whole connection. There is one whenever the channel ends at that moment for another reason, such as a
//! refusal of the broker, or because the connection is being closed: a [`close`](super::RabbitMq::close) would then
//! fail, and other consumers and publishers would lose the connection that they share. Here a task closes the channel,
//! and its error is that of the channel alone.

use lapin::Channel;
use std::ops::Deref;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// A channel that is closed when it is dropped.
pub(super) struct OwnedChannel {
    channel: Channel,
    runtime: Handle,
    limit: Duration,
}

impl OwnedChannel {
    /// Waits no longer than `limit` for the broker to close it.
    pub(super) fn new(channel: Channel, limit: Duration) -> Self {
        Self { channel, runtime: Handle::current(), limit }
    }
}

impl Deref for OwnedChannel {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for OwnedChannel {
    fn drop(&mut self) {
        if !self.channel.status().connected() {
            return;
        }
        // Holds a handle until the channel is closed, so that the client library has nothing left to close. If the
        // runtime has ended, so has the connection.
        let (channel, limit) = (self.channel.clone(), self.limit);
        self.runtime.spawn(async move {
            // One that cannot be closed has ended, or its connection has.
            let _ = timeout(limit, channel.close(200, "closed by its user".into())).await;
        });
    }
}
