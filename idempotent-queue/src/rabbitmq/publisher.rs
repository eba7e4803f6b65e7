//! A publisher of messages.

use super::RabbitMq;
use super::properties;
use super::senders::{Letter, Sent};
use crate::{Outgoing, PublishError, Publisher, Receipt};
use lapin::types::ShortString;

/// Publishes messages, persistent and confirmed, by [`RabbitMq::publisher`].
///
/// The destination of a message is its routing key. On the default exchange, that is the name of a queue;
/// [`exchange`](Self::exchange) names another one. A message that no queue takes is an error.
///
/// ```no_run
/// use idempotent_queue::rabbitmq::RabbitMq;
/// use idempotent_queue::{Outgoing, Publisher};
///
/// # async fn publish() -> Result<(), Box<dyn std::error::Error>> {
/// let rabbit = RabbitMq::connect("amqp://localhost").await?;
/// let message = Outgoing::new("orders", "order-42", r#"{"id":42}"#);
/// rabbit.publisher().publish(&message).await?;
/// # Ok(()) }
/// ```
///
/// Up to 64 messages are on their way at the same time; more wait.
#[derive(Clone, Debug)]
pub struct RabbitMqPublisher {
    rabbit: RabbitMq,
    exchange: String,
}

impl RabbitMqPublisher {
    pub(super) fn new(rabbit: RabbitMq) -> Self {
        Self { rabbit, exchange: String::new() }
    }

    /// Publishes to an exchange, which has to exist. Default: the default exchange.
    #[must_use]
    pub fn exchange(mut self, name: impl Into<String>) -> Self {
        self.exchange = name.into();
        self
    }
}

impl Publisher for RabbitMqPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let exchange = short("exchange", &self.exchange)?;
        let routing_key = short("destination", message.destination())?;
        let properties = properties::of_outgoing(message).map_err(PublishError::permanent)?;
        let letter = Letter {
            exchange: &exchange,
            routing_key: &routing_key,
            properties,
            payload: message.payload(),
        };
        match self.rabbit.senders().send(letter).await? {
            Sent::Confirmed => Ok(Receipt::new()),
            Sent::Unroutable(text) => Err(PublishError::permanent(unroutable(
                &self.exchange,
                message.destination(),
                &text,
            ))),
        }
    }
}

fn short(of: &str, text: &str) -> Result<ShortString, PublishError> {
    properties::short(of, text).map_err(PublishError::permanent)
}

/// The text of the error for a message that no queue takes.
pub(super) fn unroutable(exchange: &str, destination: &str, text: &str) -> String {
    match exchange {
        "" => format!(
            "there is no queue `{destination}` ({text}); help: declare it, or run its consumer first"
        ),
        _ => format!(
            "no queue takes `{destination}` from the exchange `{exchange}` ({text}); help: bind a queue \
             to it with that routing key"
        ),
    }
}
