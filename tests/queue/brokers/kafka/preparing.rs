//! Topics and settings that do not suit a consumer.

use super::cluster::{Cluster, Kafka, terms};
use crate::bench::in_time;
use idempotent_queue::kafka::{KafkaDeliveries, deliveries};
use idempotent_queue::{Deliveries as _, PrepareError, Prepared};
use rdkafka::types::RDKafkaRespErr;

async fn refusal(mut source: KafkaDeliveries) -> String {
    match source.prepare(&terms(1)).await {
        Err(PrepareError::Refused(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_does_not_exist_is_refused_with_what_to_type() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    let mut source = kafka.source();
    let prepared = source.prepare(&terms(1)).await.unwrap();
    // The mock cluster does not tell the retention of a topic.
    assert_eq!(prepared, Prepared::default());
    for (source, topic) in [
        (deliveries(&kafka.config, ["nothing"]), "nothing"),
        (kafka.source().retry_topic("no-retry"), "no-retry"),
        (kafka.source().dead_letter_topic("no-dead"), "no-dead"),
        (kafka.source().parked_topic("no-parked"), "no-parked"),
    ] {
        let error = refusal(source).await;
        assert!(error.contains(&format!("the topic `{topic}` does not exist")), "{error}");
        assert!(
            error.contains(&format!(
                "help: kafka-topics.sh --bootstrap-server localhost:9092 --create --topic {topic}"
            )),
            "{error}"
        );
    }
    let in_place = kafka.source().retry_topic("no-retry").retry_in_place();
    kafka.prepared(in_place, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_the_user_may_not_look_at_is_refused() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    let topic = kafka.topic.clone();
    Cluster::shared().order(move |it| {
        let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        it.topic_error(&topic, error).unwrap();
    });
    let error = refusal(kafka.source()).await;
    assert!(error.contains("help: kafka-acls.sh --add"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_contradict_are_refused() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    for (name, value, text) in [
        ("group.id", "", "`group.id` is not set"),
        (
            "enable.auto.commit",
            "true",
            "`enable.auto.commit` commits messages that are not settled",
        ),
        ("acks", "1", "`acks` confirms messages that not all replicas have"),
        ("no.such.setting", "1", "no.such.setting"),
    ] {
        let mut config = kafka.config.clone();
        config.set(name, value);
        let error = refusal(deliveries(&config, [&*kafka.topic])).await;
        assert!(error.contains(text), "{error}");
        // The same without a look beforehand.
        let error = deliveries(&config, [&*kafka.topic]).next().await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let error = refusal(deliveries(&kafka.config, ["^orders"])).await;
    assert!(error.contains("is a pattern"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_do_not_answer_are_asked_again() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 1);
    kafka.config.set("reconnect.backoff.max.ms", "200");
    let brokers = [1, 2, 3];
    cluster.order(move |it| brokers.map(|id| it.broker_down(id).unwrap()));
    let mut source = kafka.source();
    let error = source.prepare(&terms(1)).await.unwrap_err();
    assert!(matches!(error, PrepareError::Unavailable(_)), "{error}");
    cluster.order(move |it| brokers.map(|id| it.broker_up(id).unwrap()));
    let prepares = async { while source.prepare(&terms(1)).await.is_err() {} };
    in_time(prepares).await;
}
