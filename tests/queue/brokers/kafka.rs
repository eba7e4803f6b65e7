//! Kafka, by the mock cluster of librdkafka.

mod cluster;
mod copies;
mod crashes;
mod groups;
mod offsets;
mod preparing;
mod publishing;

use crate::scenarios::{Broker, scenarios};
use cluster::{Cluster, Kafka};
use idempotent_queue::Message;
use idempotent_queue::kafka::KafkaDeliveries;
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};

impl Broker for Kafka {
    type Deliveries = KafkaDeliveries;

    /// A group waits several seconds for a member that has gone, and a copy counts only if its message came again.
    const RESTARTS: usize = 2;

    async fn open() -> Self {
        Self::with_partitions(Cluster::shared(), 3)
    }

    async fn send(&self, message: Message) {
        self.send_to(None, message).await;
    }

    async fn deliveries(&self) -> KafkaDeliveries {
        self.source()
    }

    async fn dead_letters(&self) -> Vec<Message> {
        self.messages(".dead").iter().map(as_sent).collect()
    }

    async fn parked(&self) -> Vec<Message> {
        self.messages(".parked").iter().map(as_sent).collect()
    }

    async fn pending(&self) -> usize {
        self.unsettled().len()
    }
}

fn as_sent(message: &OwnedMessage) -> Message {
    let payload = Message::new(message.payload().unwrap_or_default());
    message.headers().unwrap().iter().fold(payload, |letter, header| {
        letter.with_header(header.key, String::from_utf8_lossy(header.value.unwrap_or_default()))
    })
}

scenarios!(Kafka);
