//! Messages that are sent, each confirmed by all replicas in sync.

use super::config;
use crate::{Outgoing, PublishError, Publisher, QueueError, Receipt};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A [`Publisher`] to topics of Kafka. [`publisher`](super::publisher) returns one.
///
/// The destination of a message is a topic, and its key that of [`Outgoing::key`], or its id. The position of a
/// [`Receipt`] is `partition:offset`.
///
/// # Errors
/// | error | kind |
/// | --- | --- |
/// | the broker cannot be reached, or does not confirm in time (`message.timeout.ms`, here 30 seconds by default) | `Unavailable` |
/// | the local queue is full; the user may not write to the topic; any other error | `Retryable` |
/// | the topic does not exist, the message is too large or not allowed in the topic | `Permanent` |
///
/// A fatal error of the client is `Unavailable`: it says nothing of the message, and the next one is sent by
/// another client.
pub struct KafkaPublisher(Sender);

impl KafkaPublisher {
    pub(super) fn new(config: &ClientConfig) -> Result<Self, QueueError> {
        Sender::new(config).map(Self)
    }
}

impl Publisher for KafkaPublisher {
    async fn publish(&self, message: &Outgoing) -> Result<Receipt, PublishError> {
        let headers = message.wire_headers().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(value) })
        });
        let key = message.key().unwrap_or_else(|| message.id());
        let payload = Some(message.payload());
        let sent = self.0.send(message.destination(), Some(key.as_bytes()), payload, headers);
        sent.await.map(Receipt::at)
    }
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KafkaPublisher").finish_non_exhaustive()
    }
}

/// An idempotent producer, which is replaced after a fatal error.
pub(super) struct Sender {
    config: ClientConfig,
    producer: Mutex<FutureProducer>,
}

impl Sender {
    /// # Errors
    /// The settings contradict each other, or librdkafka does not take them.
    pub(super) fn new(user: &ClientConfig) -> Result<Self, QueueError> {
        let config = config::of_producer(user).map_err(QueueError::new)?;
        let producer = config.create().map_err(QueueError::new)?;
        Ok(Self { config, producer: Mutex::new(producer) })
    }

    /// Sends a message, and returns its place: `partition:offset`. Dropped, it may be sent nevertheless.
    pub(super) async fn send(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        payload: Option<&[u8]>,
        headers: OwnedHeaders,
    ) -> Result<String, PublishError> {
        let producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (partition, timestamp, headers) = (None, None, Some(headers));
        let record = FutureRecord { topic, partition, payload, key, timestamp, headers };
        // A queue that is full is an answer: the caller knows when to try again.
        match producer.send(record, Duration::ZERO).await {
            Ok(sent) => Ok(format!("{}:{}", sent.partition, sent.offset)),
            Err((error, _)) => match producer.client().fatal_error() {
                None => Err(publish_error(&error, topic)),
                Some((_, reason)) => {
                    self.replace(&producer);
                    Err(PublishError::unavailable(format!("the producer has ended: {reason}")))
                }
            },
        }
    }

    /// Replaces a producer that has ended, unless that is done.
    fn replace(&self, ended: &FutureProducer) {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if producer.client().native_ptr() == ended.client().native_ptr() {
            match self.config.create() {
                Ok(fresh) => *producer = fresh,
                Err(error) => tracing::warn!(target: "idempotent", %error, "no Kafka producer"),
            }
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The kind of an error, by its code.
fn publish_error(error: &KafkaError, topic: &str) -> PublishError {
    let text = format!("not published to the topic `{topic}`: {error}");
    match error.rdkafka_error_code() {
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => {
            PublishError::permanent(format!("{text}; {}", create_topic(topic)))
        }
        Some(
            Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidTopic
            | Code::UnknownPartition,
        ) => PublishError::permanent(text),
        Some(
            Code::MessageTimedOut
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::BrokerNotAvailable
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::NetworkException
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::Resolve
            | Code::PurgeQueue
            | Code::PurgeInflight,
        ) => PublishError::unavailable(text),
        _ => PublishError::retryable(text),
    }
}

/// The command that creates a topic.
pub(super) fn create_topic(topic: &str) -> String {
    format!(
        "help: kafka-topics.sh --bootstrap-server localhost:9092 --create --topic {topic} --partitions 3"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PublishErrorKind::{self, Permanent, Retryable, Unavailable};

    #[test]
    fn errors_are_told_apart_by_what_helps() {
        let kind = |code| publish_error(&KafkaError::MessageProduction(code), "orders").kind();
        let kinds: [(PublishErrorKind, &[Code]); 3] = [
            (Permanent, &[Code::MessageSizeTooLarge, Code::UnknownTopic, Code::InvalidTopic]),
            (Retryable, &[Code::QueueFull, Code::TopicAuthorizationFailed, Code::Unknown]),
            (Unavailable, &[Code::MessageTimedOut, Code::AllBrokersDown, Code::NotEnoughReplicas]),
        ];
        for (expected, codes) in kinds {
            for code in codes {
                assert_eq!(kind(*code), expected, "{code:?}");
            }
        }
        assert_eq!(publish_error(&KafkaError::Canceled, "orders").kind(), Retryable);
        let unknown = KafkaError::MessageProduction(Code::UnknownTopicOrPartition);
        let text = publish_error(&unknown, "orders").to_string();
        assert!(text.contains("`orders`") && text.contains("--create --topic orders"), "{text}");
    }
}
