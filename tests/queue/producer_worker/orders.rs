//! Orders of a sender, and publishers of every broker.

use crate::place::Place;
use idempotent_queue::kafka::{self, KafkaPublisher};
use idempotent_queue::nats::{self, NatsPublisher};
use idempotent_queue::rabbitmq::{RabbitMq, RabbitMqPublisher};
use idempotent_queue::redis_streams::StreamPublisher;
use idempotent_queue::{Outgoing, PublishError, Publisher, Receipt};
use serde::{Deserialize, Serialize};

/// Orders of a sender: its only argument, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The Redis with the records.
    pub(crate) redis: String,
    pub(crate) work: Work,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Sends one message in two steps, and prints a line when it has stopped there.
    StopsAt(Point, Place),
    /// Sends so many messages to a stream beside the records, in one step each.
    SendsAll(u64),
}

/// A point between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    AtTheBroker,
    WithoutConfirmation,
    BeforeTheRecord,
}

/// The stream that they send to in one step.
pub(crate) const STREAM: &str = "orders";

/// The publisher of a broker.
#[derive(Debug)]
pub(crate) enum Broker {
    Kafka(KafkaPublisher),
    Nats(NatsPublisher),
    RabbitMq(RabbitMqPublisher),
    RedisStream(StreamPublisher),
}

impl Broker {
    /// A publisher to a place, and the name of that place.
    pub(crate) async fn at(place: Place) -> (Self, String) {
        match place {
            Place::Kafka { config, topic } => {
                // The group is that of the consumers.
                let config = config.into_iter().filter(|(name, _)| name == "bootstrap.servers");
                (Self::Kafka(kafka::publisher(&config.collect()).unwrap()), topic)
            }
            Place::Nats { url, subject, .. } => {
                let client = Box::pin(async_nats::connect(url)).await.unwrap();
                (Self::Nats(nats::publisher(&async_nats::jetstream::new(client))), subject)
            }
            Place::RabbitMq { url, queue } => {
                let rabbit = RabbitMq::builder(&url).unwrap().build();
                (Self::RabbitMq(rabbit.publisher()), queue)
            }
            Place::RedisStream { url, stream, .. } => {
                (Self::RedisStream(StreamPublisher::new(&url).unwrap()), stream)
            }
        }
    }
}

impl Publisher for Broker {
    // Boxed: the futures of some clients are large, and this one would be as large as the largest.
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        match self {
            Self::Kafka(publisher) => Box::pin(publisher.publish(message)).await,
            Self::Nats(publisher) => Box::pin(publisher.publish(message)).await,
            Self::RabbitMq(publisher) => Box::pin(publisher.publish(message)).await,
            Self::RedisStream(publisher) => Box::pin(publisher.publish(message)).await,
        }
    }
}
