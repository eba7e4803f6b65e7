//! Pull requests to a consumer at the server.
//!
//! One request at a time asks for as many messages as the consumer has room for: the messages in hand and
//! those that may still come are never more than the terms allow. The next request is sent when the last
//! one is used up. It asks for all that has become free meanwhile, and waits a moment for a quarter of them to be, so a
//! busy consumer gets its messages in batches.
//!
//! ```text
//!             room                     message, the last one
//!   idle ────────────► asked(left) ─────────────────────────► idle
//!                        │  ▲ │  expired, leader changed, connection changed ─► idle
//!                message └──┘ └─ silence, consumer gone ─► error
//! ```
//!
//! A wait may be dropped at any point: what a request has still to bring is part of the value, and a
//! message leaves it in one poll.

use super::delivery::{Acknowledgement, is_delivery};
use super::prepare::{Names, absent};
use crate::QueueError;
use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{self, Consumer, FromConsumer as _, pull};
use async_nats::{Client, Message, StatusCode, Subscriber};
use futures_util::{FutureExt as _, StreamExt as _};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The time for which the server keeps a request.
const EXPIRES: Duration = Duration::from_secs(30);
/// The time after which the server says that a request without messages is still there.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The time for which a request waits for others to be settled while some are in hand: one request for each would cost
/// a message more than anything else.
const GATHERS: Duration = Duration::from_millis(1);
/// The time between two looks at the connection, which may have been lost and made again.
const LOOK: Duration = Duration::from_millis(250);
/// The time for which a client that is not connected is waited for, until it is an error.
const PATIENCE: Duration = Duration::from_secs(5);

/// A consumer at the server, and the request that it is to answer.
pub(super) struct Pull {
    client: Client,
    consumer: Consumer<pull::Config>,
    limits: Limits,
    free: Arc<Semaphore>,
    /// The number of messages that are worth a request while others are in hand.
    enough: u32,
    /// The number of a request follows it, so that the end of an older one is not taken for its own.
    inbox: String,
    replies: Subscriber,
    request: Option<Request>,
    requests: u64,
}

/// The limits of requests.
struct Limits {
    batch: usize,
    expires: Duration,
    heartbeat: Duration,
}

/// A request that the server has not finished.
struct Request {
    inbox: String,
    /// The messages that it may still bring.
    left: usize,
    heard: Instant,
    /// The number of its connection, which it may not outlive.
    connection: u64,
}

/// The meaning of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Message,
    Heartbeat,
    /// The request is over, and another one can be sent.
    Over,
    /// Another request would fare the same.
    Failed(String),
}

impl Pull {
    /// Looks the consumer up, and subscribes to its replies.
    pub(super) async fn open(
        context: Context,
        names: Names,
        free: Arc<Semaphore>,
        prefetch: usize,
    ) -> Result<Self, QueueError> {
        let info = names.consumer_info(&context).await.map_err(|error| match absent(&error) {
            true => QueueError::new(format!(
                "{names} does not exist any more; help: make it again with `nats consumer add {} {}`, \
                 and mind that it starts where you tell it to",
                names.stream, names.consumer
            )),
            false => QueueError::new(format!("{names} cannot be looked up: {error}")),
        })?;
        let limits = Limits::of(&info.config);
        let config = pull::Config::try_from_consumer_config(info.config.clone())
            .map_err(|error| QueueError::new(format!("{names} cannot be pulled from: {error}")))?;
        let client = context.client();
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*")).await.map_err(QueueError::new)?;
        let consumer = Consumer::new(config, info, context);
        let enough = u32::try_from(prefetch / 4).unwrap_or(u32::MAX).max(1);
        let (request, requests) = (None, 0);
        Ok(Self { client, consumer, limits, free, enough, inbox, replies, request, requests })
    }

    /// Waits for a message. Its permit is to be kept until it is settled.
    ///
    /// A message of a request that was given up comes without one: the server may have answered it late.
    pub(super) async fn next(
        &mut self,
    ) -> Result<(Message, Option<OwnedSemaphorePermit>), QueueError> {
        loop {
            self.ask().await?;
            let connection = connection(&self.client);
            let Some(request) = &mut self.request else { continue };
            if connection != Some(request.connection) {
                self.request = None;
                continue;
            }
            // A heartbeat may be late, two are not.
            let silent = request.heard + self.limits.heartbeat * 2 + LOOK;
            let reply = tokio::select! {
                biased;
                reply = self.replies.next() => reply,
                () = sleep_until(silent) => {
                    let text = "the server does not answer a pull request, and sends no heartbeat";
                    return Err(QueueError::new(text));
                }
                () = sleep(LOOK) => continue,
            };
            let Some(reply) = reply else {
                return Err(QueueError::new("the client of NATS is closed"));
            };
            request.heard = Instant::now();
            let is_current = *reply.subject == *request.inbox;
            match Reply::of(&reply) {
                Reply::Message => {
                    request.left -= 1;
                    if request.left == 0 {
                        self.request = None;
                    }
                    return Ok((reply, Arc::clone(&self.free).try_acquire_owned().ok()));
                }
                Reply::Over if is_current => self.request = None,
                Reply::Failed(text) if is_current => return Err(QueueError::new(text)),
                Reply::Heartbeat | Reply::Over | Reply::Failed(_) => {}
            }
        }
    }

    /// Sends a request for as many messages as there is room for, unless there is one.
    async fn ask(&mut self) -> Result<(), QueueError> {
        if self.request.is_some() {
            return Ok(());
        }
        // It is never closed.
        drop(self.free.acquire().await);
        let _ = timeout(GATHERS, self.free.acquire_many(self.enough)).await;
        // What is sent while there is no connection is kept by the client, and all of it is sent later.
        let connected = async {
            loop {
                match connection(&self.client) {
                    Some(connection) => return connection,
                    None => sleep(LOOK).await,
                }
            }
        };
        let Ok(connection) = timeout(PATIENCE, connected).await else {
            return Err(QueueError::new("the client of NATS is not connected"));
        };
        let left = self.free.available_permits().clamp(1, self.limits.batch);
        let inbox = format!("{}.{}", self.inbox, self.requests);
        let config = pull::BatchConfig {
            batch: left,
            expires: Some(self.limits.expires),
            idle_heartbeat: self.limits.heartbeat,
            ..pull::BatchConfig::default()
        };
        let subject = inbox.clone().into();
        self.consumer.request_batch(config, subject).await.map_err(QueueError::new)?;
        // Nothing is awaited after it was sent: a wait that is dropped has sent it and knows it, or neither.
        self.requests += 1;
        self.request = Some(Request { inbox, left, heard: Instant::now(), connection });
        Ok(())
    }
}

impl Drop for Pull {
    /// Gives back messages that no caller has waited for.
    fn drop(&mut self) {
        while let Some(Some(reply)) = self.replies.next().now_or_never() {
            if Reply::of(&reply) == Reply::Message && is_delivery(&reply) {
                drop(Acknowledgement::of(&reply, &self.client));
            }
        }
    }
}

impl Limits {
    /// Those of the consumer at the server, within our own.
    fn of(config: &consumer::Config) -> Self {
        let batch = usize::try_from(config.max_batch).unwrap_or(0);
        let batch = if batch == 0 { usize::MAX } else { batch };
        let limited = !config.max_expires.is_zero();
        let expires = if limited { EXPIRES.min(config.max_expires) } else { EXPIRES };
        // The server wants at least two of them in a request.
        Self { batch, expires, heartbeat: HEARTBEAT.min(expires / 3) }
    }
}

impl Reply {
    fn of(message: &Message) -> Self {
        let text = message.description.as_deref().unwrap_or_default();
        match message.status {
            None | Some(StatusCode::OK) => Self::Message,
            Some(StatusCode::IDLE_HEARTBEAT) => Self::Heartbeat,
            Some(StatusCode::TIMEOUT | StatusCode::NOT_FOUND) => Self::Over,
            Some(StatusCode::REQUEST_TERMINATED) if OVER.contains(&text) => Self::Over,
            Some(StatusCode::NO_RESPONDERS) => {
                let text =
                    "nobody answers pull requests: the consumer was deleted, or has no leader";
                Self::Failed(text.to_owned())
            }
            Some(status) => {
                Self::Failed(format!("the server ends a pull request: {status}, {text}"))
            }
        }
    }
}

/// Ends of a request after which another one is taken.
const OVER: [&str; 3] = ["Batch Completed", "Leadership Change", "Server Shutdown"];

/// The number of the present connection, if there is one.
fn connection(client: &Client) -> Option<u64> {
    let is_connected = client.connection_state() == State::Connected;
    is_connected.then(|| client.statistics().connects.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, description: &str) -> Reply {
        Reply::of(&Message {
            subject: "inbox".into(),
            reply: None,
            payload: Vec::new().into(),
            headers: None,
            status: Some(StatusCode::from_u16(status).unwrap()),
            description: Some(description.to_owned()),
            length: 0,
        })
    }

    #[test]
    fn the_end_of_a_request_is_no_error_and_that_of_a_consumer_is() {
        assert_eq!(reply(100, "Idle Heartbeat"), Reply::Heartbeat);
        assert_eq!(reply(408, "Request Timeout"), Reply::Over);
        assert_eq!(reply(409, "Leadership Change"), Reply::Over);
        assert_eq!(reply(409, "Server Shutdown"), Reply::Over);
        for (status, text) in [(409, "Consumer Deleted"), (409, "Exceeded MaxWaiting"), (503, "")] {
            assert!(matches!(reply(status, text), Reply::Failed(_)), "{status} {text}");
        }
    }

    #[test]
    fn a_request_keeps_to_the_limits_of_the_consumer() {
        let config = consumer::Config { max_batch: 7, ..consumer::Config::default() };
        let limits = Limits::of(&config);
        assert_eq!((limits.batch, limits.expires, limits.heartbeat), (7, EXPIRES, HEARTBEAT));
        let config =
            consumer::Config { max_expires: Duration::from_secs(3), ..consumer::Config::default() };
        let limits = Limits::of(&config);
        assert_eq!(limits.batch, usize::MAX);
        assert_eq!((limits.expires.as_secs(), limits.heartbeat.as_secs()), (3, 1));
    }
}
