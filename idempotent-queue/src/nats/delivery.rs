//! One delivery, and the acknowledgement that the server waits for.

use super::aside::{self, Places};
use super::publisher;
use crate::{Delivery, Message, QueueError, Reason};
use async_nats::jetstream::context::traits::TimeoutProvider as _;
use async_nats::jetstream::{self, AckKind, Context};
use async_nats::{Client, Request, Subject};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

/// A message whose settlement the server waits for.
///
/// One that is dropped is given back at once if the runtime goes on for long enough to send that.
pub struct NatsDelivery {
    message: Message,
    original: jetstream::Message,
    acknowledgement: Acknowledgement,
    places: Arc<Places>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl NatsDelivery {
    /// `None` if no stream has sent it: anybody who knows the inbox can.
    pub(super) fn new(
        context: &Context,
        places: Arc<Places>,
        message: async_nats::Message,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Self> {
        let acknowledgement = Acknowledgement::of(&message, &context.client())?;
        let original = jetstream::Message { message, context: context.clone() };
        let Ok(info) = original.info() else {
            tracing::warn!(target: "idempotent", "a message that no stream has sent is left out");
            acknowledgement.settled();
            return None;
        };
        let mut message = Message::new(original.payload.to_vec())
            .with_id(format!("{}:{}", info.stream, info.stream_sequence))
            .with_deliveries(u64::try_from(info.delivered).unwrap_or(0));
        for (name, values) in original.headers.iter().flat_map(|headers| headers.iter()) {
            for value in values {
                message = message.with_header(name.to_string(), value.as_str());
            }
        }
        Some(Self { message, original, acknowledgement, places, _permit: permit })
    }

    /// Publishes a copy, and tells the server that the original is done with once a stream has it.
    ///
    /// Dropped or failed before the copy is confirmed, the message comes again, and its copy has the same
    /// id: within the duplicate window of the stream it is there once.
    async fn put_aside(self, subject: &str, reason: &Reason) -> Result<(), QueueError> {
        let copy = aside::copy(&self.original, subject, reason)?;
        let context = &self.original.context;
        publisher::confirmed(context, subject, copy)
            .await
            .map_err(|error| QueueError::new(format!("not put aside in `{subject}`: {error}")))?;
        self.acknowledgement.confirm(context, AckKind::Term).await
    }
}

/// Returns `true` for a message of a stream.
pub(super) fn is_delivery(message: &async_nats::Message) -> bool {
    message.reply.as_deref().is_some_and(|reply| reply.starts_with("$JS.ACK."))
}

impl Delivery for NatsDelivery {
    fn message(&self) -> &Message {
        &self.message
    }

    async fn ack(self) -> Result<(), QueueError> {
        self.acknowledgement.confirm(&self.original.context, AckKind::Ack).await
    }

    async fn again(self, after: Duration) -> Result<(), QueueError> {
        let kind = AckKind::Nak((!after.is_zero()).then_some(after));
        let Self { original, mut acknowledgement, .. } = self;
        // Not given back a second time, which would be at once: unless the server has got it, `ack_wait`
        // runs out.
        acknowledgement.is_settled = true;
        acknowledgement.confirm(&original.context, kind).await
    }

    async fn dead_letter(self, reason: &Reason) -> Result<(), QueueError> {
        let places = Arc::clone(&self.places);
        self.put_aside(&places.dead_letters, reason).await
    }

    async fn park(self, reason: &Reason) -> Result<(), QueueError> {
        let places = Arc::clone(&self.places);
        self.put_aside(&places.parked, reason).await
    }

    async fn in_progress(&mut self) -> Result<(), QueueError> {
        let Acknowledgement { client, subject, .. } = &self.acknowledgement;
        let payload = AckKind::Progress.into();
        client.publish(subject.clone(), payload).await.map_err(QueueError::new)
    }
}

impl fmt::Debug for NatsDelivery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NatsDelivery")
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// The acknowledgement of a delivery. Dropped before the server has confirmed it, it gives the message
/// back; the server takes no notice of that for a message that it knows to be done.
pub(super) struct Acknowledgement {
    client: Client,
    subject: Subject,
    is_settled: bool,
}

impl Acknowledgement {
    /// `None` for a message without a subject to answer to.
    pub(super) fn of(message: &async_nats::Message, client: &Client) -> Option<Self> {
        let subject = message.reply.clone()?;
        Some(Self { client: client.clone(), subject, is_settled: false })
    }

    /// Sends an acknowledgement, and waits until the server says that it has it.
    async fn confirm(mut self, context: &Context, kind: AckKind) -> Result<(), QueueError> {
        let request = Request::new().payload(kind.into()).timeout(Some(context.timeout()));
        // Not the client's own double acknowledgement, for which an answer that nobody has listened is a
        // confirmation.
        self.client.send_request(self.subject.clone(), request).await.map_err(|error| {
            QueueError::new(format!("the server does not confirm an acknowledgement: {error}"))
        })?;
        self.is_settled = true;
        Ok(())
    }

    fn settled(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Acknowledgement {
    fn drop(&mut self) {
        if mem::replace(&mut self.is_settled, true) {
            return;
        }
        // Without a runtime, `ack_wait` runs out.
        if let Ok(runtime) = Handle::try_current() {
            let (client, subject) = (self.client.clone(), self.subject.clone());
            runtime.spawn(async move {
                let _ = client.publish(subject, AckKind::Nak(None).into()).await;
            });
        }
    }
}
