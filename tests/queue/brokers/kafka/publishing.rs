//! The publisher.

use super::cluster::{Cluster, Kafka, header};
use crate::bench::in_time;
use idempotent_queue::PublishErrorKind::{Permanent, Unavailable};
use idempotent_queue::kafka::{KafkaPublisher, publisher};
use idempotent_queue::{Outgoing, PublishErrorKind, Publisher as _};
use rdkafka::message::Message as _;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::time::Duration;

async fn error_of(publisher: &KafkaPublisher, message: &Outgoing) -> (PublishErrorKind, String) {
    let error = in_time(publisher.publish(message)).await.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_confirmed_with_its_place_and_has_id_type_and_key() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    let publisher = publisher(&kafka.config).unwrap();
    let message = Outgoing::new(&*kafka.topic, "order-17", "{}").with_kind("Created");
    let receipt = publisher.publish(&message).await.unwrap();
    assert_eq!(receipt.position(), Some("0:0"));
    let receipt = publisher.publish(&message.with_key("customer-3")).await.unwrap();
    assert_eq!(receipt.position(), Some("0:1"));
    let sent = kafka.messages("");
    let keys: Vec<_> = sent.iter().map(|it| it.key().unwrap()).collect();
    assert_eq!(keys, [&b"order-17"[..], b"customer-3"]);
    for message in &sent {
        assert_eq!(header(message, "idempotency-key").as_deref(), Some("order-17"));
        assert_eq!(header(message, "type").as_deref(), Some("Created"));
        assert_eq!(message.payload(), Some(&b"{}"[..]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_never_taken_is_told_from_a_broker_that_is_away() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 1);
    kafka.config.set("topic.metadata.propagation.max.ms", "1").set("message.timeout.ms", "1000");
    let publisher = publisher(&kafka.config).unwrap();
    let topic = kafka.topic.clone();
    let large = Outgoing::new(&*topic, "1", vec![0; 2_000_000]);
    assert_eq!(error_of(&publisher, &large).await.0, Permanent);

    let unknown = format!("{topic}.dead");
    let message = Outgoing::new(&*unknown, "2", "{}");
    cluster.order(move |it| {
        let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        it.topic_error(&unknown, error).unwrap();
    });
    let (kind, text) = error_of(&publisher, &message).await;
    assert_eq!(kind, Permanent, "{text}");
    assert!(text.contains("help: kafka-topics.sh"), "{text}");

    let brokers = [1, 2, 3];
    cluster.order(move |it| brokers.map(|id| it.broker_down(id).unwrap()));
    let message = Outgoing::new(topic, "3", "{}");
    let (kind, text) = error_of(&publisher, &message).await;
    assert_eq!(kind, Unavailable, "{text}");
    cluster.order(move |it| brokers.map(|id| it.broker_up(id).unwrap()));
    let again = async {
        while let Err(error) = publisher.publish(&message).await {
            assert_eq!(error.kind(), Unavailable, "{error}");
        }
    };
    in_time(again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fatal_error_says_nothing_of_the_message_and_the_next_client_sends_it() {
    let cluster = Cluster::start();
    let kafka = Kafka::with_partitions(&cluster, 1);
    cluster.order(|it| {
        let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        it.request_errors(RDKafkaApiKey::InitProducerId, &[refused]);
    });
    let publisher = publisher(&kafka.config).unwrap();
    let message = Outgoing::new(&*kafka.topic, "1", "{}");
    let (kind, text) = error_of(&publisher, &message).await;
    assert_eq!(kind, Unavailable, "{text}");
    assert!(text.contains("the producer has ended"), "{text}");
    let sent = tokio::time::timeout(Duration::from_secs(30), publisher.publish(&message)).await;
    assert_eq!(sent.unwrap().unwrap().position(), Some("0:0"));
}

#[test]
fn settings_that_confirm_less_are_refused() {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", "localhost:9092").set("acks", "1");
    let error = publisher(&config).unwrap_err();
    assert!(error.to_string().contains("help: config.set(\"acks\", \"all\")"), "{error}");
}
