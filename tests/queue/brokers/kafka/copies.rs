//! Copies: messages that come again, dead letters and what is parked.

use super::cluster::{Cluster, Kafka, header};
use super::offsets::{next, number, take};
use idempotent_queue::kafka::{DELIVERIES_HEADER, GROUP_HEADER, ORIGIN_HEADER, deliveries};
use idempotent_queue::{Consumer, Delivery as _};
use idempotent_runtime::Idempotency;
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;
use support::until_async;

const SOON: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_keeps_key_payload_headers_and_the_first_place() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "tenant", value: Some("acme") })
        .insert(Header { key: "bytes", value: Some(&[0xff_u8][..]) })
        .insert(Header { key: "null", value: None::<&[u8]> });
    let record = FutureRecord::to(&kafka.topic).key("customer-3").payload("7").headers(headers);
    let producer: FutureProducer = kafka.config.clone().remove("group.id").create().unwrap();
    producer.send(record, SOON).await.unwrap();

    let origin = format!("{}:0:0", kafka.topic);
    let mut source = kafka.source();
    for deliveries in 1..3 {
        let delivery = next(&mut source).await;
        let message = delivery.message();
        assert_eq!((message.id(), message.deliveries()), (Some(&*origin), Some(deliveries)));
        assert_eq!(message.headers().collect::<Vec<_>>(), [("tenant", "acme")]);
        delivery.again(SOON).await.unwrap();
    }
    let idem = Idempotency::in_memory().unwrap();
    let undecodable = |_: String| async { Ok::<_, String>(()) };
    drop(source);
    let consumes = tokio::spawn(Consumer::new(&idem, "orders").run(kafka.source(), undecodable));
    until_async(async || kafka.unsettled().is_empty()).await;
    consumes.abort();

    let letters = kafka.messages(".dead");
    let [letter] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!((letter.key(), letter.payload()), (Some(&b"customer-3"[..]), Some(&b"7"[..])));
    for (name, value) in [
        ("tenant", "acme"),
        (ORIGIN_HEADER, &*origin),
        (DELIVERIES_HEADER, "3"),
        (GROUP_HEADER, kafka.config.get("group.id").unwrap()),
        ("idempotent-reason", "undecodable"),
    ] {
        assert_eq!(header(letter, name).as_deref(), Some(value), "{name}");
    }
    let raw = rdkafka::message::Headers::iter(letter.headers().unwrap());
    let raw: Vec<_> = raw.map(|header| (header.key, header.value)).take(3).collect();
    assert_eq!(raw[1..], [("bytes", Some(&[0xff][..])), ("null", None)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_with_a_short_pause_does_not_wait_for_one_with_a_long_pause() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..2).await;
    let mut source = kafka.source();
    let mut taken = take(&mut source, 2).await;
    taken.remove(0).again(Duration::from_secs(3_600)).await.unwrap();
    taken.remove(0).again(SOON).await.unwrap();
    let second = next(&mut source).await;
    assert_eq!((number(&second), second.message().deliveries()), (1, Some(2)));
    second.ack().await.unwrap();
    drop(source);
    let retry = format!("{}.retry", kafka.topic);
    assert_eq!((kafka.committed(&kafka.topic)[&0], kafka.committed(&retry)[&0]), (2, 0));
    assert_eq!(kafka.unsettled().len(), 2, "the copy before it is not settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_for_the_group_that_made_it() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..1).await;
    let mut source = kafka.source();
    next(&mut source).await.again(SOON).await.unwrap();

    let mut config = kafka.config.clone();
    config.set("group.id", format!("{}-others", kafka.topic));
    let others = Kafka::of(config, kafka.topic.clone());
    let mut theirs = others.source();
    let delivery = next(&mut theirs).await;
    assert_eq!(delivery.message().deliveries(), Some(1), "the message, and not its copy");
    delivery.ack().await.unwrap();
    // The copy is passed over and committed, and not delivered.
    until_async(async || others.unsettled().is_empty()).await;

    let copy = next(&mut source).await;
    assert_eq!(copy.message().deliveries(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_is_not_confirmed_settles_nothing() {
    let cluster = Cluster::start();
    let mut kafka = Kafka::with_partitions(&cluster, 1);
    kafka.config.set("topic.metadata.propagation.max.ms", "1").set("message.timeout.ms", "1000");
    kafka.send_numbers(0, 0..2).await;
    let mut source = kafka.source();
    let [first, second] = <[_; 2]>::try_from(take(&mut source, 2).await).unwrap();
    let retry = format!("{}.retry", kafka.topic);
    cluster.order(move |it| {
        let refused = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
        it.topic_error(&retry, refused).unwrap();
    });
    let error = first.again(SOON).await.unwrap_err();
    assert!(error.to_string().contains(".retry"), "{error}");
    let again = next(&mut source).await;
    assert_eq!((number(&again), again.message().deliveries()), (0, Some(2)), "from memory");
    // Dropped in the middle of a copy.
    let copies = second.again(SOON);
    drop(tokio::time::timeout(Duration::ZERO, copies).await);
    let again = next(&mut source).await;
    assert_eq!(number(&again), 1);
    drop(source);
    assert_eq!(kafka.committed(&kafka.topic)[&0], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_of_copies_have_the_names_that_are_set() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..1).await;
    let [later, dead] = ["later", "letters"].map(|name| format!("{}-{name}", kafka.topic));
    let names = [later.clone(), dead.clone()];
    Cluster::shared().order(move |it| names.map(|name| it.create_topic(&name, 1, 3).unwrap()));
    let source = deliveries(&kafka.config, [&*kafka.topic]);
    let source = source.retry_topic(&*later).dead_letter_topic(&*dead).parked_topic(&*dead);
    let mut source = kafka.prepared(source, 1).await;
    next(&mut source).await.again(SOON).await.unwrap();
    let copy = next(&mut source).await;
    assert_eq!(copy.message().deliveries(), Some(2));
    drop((copy, source));
    let start = [(0, 0)].into();
    assert_eq!(kafka.messages_from(&later, &start).len(), 1);

    let idem = Idempotency::in_memory().unwrap();
    let source = deliveries(&kafka.config, [&*kafka.topic]);
    let source = source.retry_topic(&*later).dead_letter_topic(&*dead).parked_topic(&*dead);
    let undecodable = |_: String| async { Ok::<_, String>(()) };
    let consumes = tokio::spawn(Consumer::new(&idem, "orders").run(source, undecodable));
    until_async(async || kafka.messages_from(&dead, &start).len() == 1).await;
    consumes.abort();
}

/// The source may be gone when a handler ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_outlives_its_source_is_left_to_the_broker() {
    let kafka = Kafka::with_partitions(Cluster::shared(), 1);
    kafka.send_numbers(0, 0..1).await;
    let mut source = kafka.source();
    let delivery = next(&mut source).await;
    drop(source);
    assert!(delivery.ack().await.is_err());
    let mut source = kafka.source();
    let delivery = next(&mut source).await;
    assert_eq!(delivery.message().deliveries(), Some(1));
    drop(delivery);
    let again = next(&mut source).await;
    assert_eq!(again.message().deliveries(), Some(2), "from memory, while the source lives");
    let mut again = again;
    again.in_progress().await.unwrap();
}
