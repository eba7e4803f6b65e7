//! Settings of streams and consumers, which are read when a consumer starts.

use super::*;
use async_nats::jetstream::consumer::push;
use async_nats::jetstream::stream::RetentionPolicy;
use idempotent_queue::{Delivery as _, PrepareError};

fn terms() -> Terms {
    let mut terms = Terms::new("orders");
    terms.max_attempts = Some(5);
    terms
}

/// The text of a refusal, which has a help.
async fn refusal(mut source: NatsDeliveries, terms: &Terms) -> String {
    let text = match source.prepare(terms).await {
        Err(PrepareError::Refused(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(text.contains("; help: "), "{text}");
    text
}

async fn refused(config: pull::Config) -> String {
    refusal(Nats::open_with(config).await.source(), &terms()).await
}

#[tokio::test]
async fn a_stream_or_consumer_that_is_missing_is_refused_with_a_command() {
    let nats = Nats::open().await;
    let text = refusal(nats::deliveries(&nats.jetstream, "NOBODY", "shop"), &terms()).await;
    assert!(
        text.starts_with("the stream `NOBODY` does not exist; help: nats stream add"),
        "{text}"
    );
    let text = refusal(nats::deliveries(&nats.jetstream, &nats.stream, "nobody"), &terms()).await;
    assert!(text.starts_with("the consumer `nobody` of the stream `T"), "{text}");
    assert!(text.contains("--pull --ack explicit --wait=30s --max-deliver=-1"), "{text}");
    for (stream, consumer) in [("a b", "shop"), ("", "shop"), (&*nats.stream, "a.b")] {
        let source = nats::deliveries(&nats.jetstream, stream, consumer);
        assert!(refusal(source, &terms()).await.contains("is no name"), "{stream} {consumer}");
    }
}

#[tokio::test]
async fn a_limit_of_deliveries_is_refused_below_ten_for_each_attempt() {
    let text = refused(pull::Config { max_deliver: 49, ..config() }).await;
    assert!(text.contains("drops a message silently after 49 deliveries"), "{text}");
    let nats = Nats::open_with(pull::Config { max_deliver: 50, ..config() }).await;
    nats.source().prepare(&terms()).await.unwrap();
    assert!(refusal(nats.source(), &Terms::new("orders")).await.contains("without `max_attempts`"));
}

#[tokio::test]
async fn a_wait_for_acknowledgements_is_refused_below_three_heartbeats() {
    let text = refused(pull::Config { ack_wait: Duration::from_secs(29), ..config() }).await;
    assert!(text.contains("after 29s (ack_wait)") && text.contains("--wait=30s"), "{text}");
    let mut often = terms();
    often.heartbeat = Duration::from_secs(9);
    let nats =
        Nats::open_with(pull::Config { ack_wait: Duration::from_secs(27), ..config() }).await;
    nats.source().prepare(&often).await.unwrap();
    // The server delivers again after these instead.
    let backoff = vec![Duration::from_secs(1), Duration::from_secs(60)];
    let text = refused(pull::Config { backoff, max_deliver: 50, ..config() }).await;
    assert!(text.contains("after 1s (backoff)"), "{text}");
}

#[tokio::test]
async fn a_consumer_without_an_acknowledgement_for_each_message_is_refused() {
    let text = refused(pull::Config { ack_policy: AckPolicy::All, ..config() }).await;
    assert!(text.contains("has the ack policy `All`"), "{text}");
}

#[tokio::test]
async fn a_consumer_that_pushes_or_has_no_payloads_is_refused() {
    let nats = Nats::open().await;
    let stream = nats.jetstream.get_stream(&nats.stream).await.unwrap();
    let pushes = push::Config {
        durable_name: Some("pushes".to_owned()),
        deliver_subject: format!("{}.push", nats.aside()),
        ..push::Config::default()
    };
    stream.create_consumer(pushes).await.unwrap();
    let source = nats::deliveries(&nats.jetstream, &nats.stream, "pushes");
    assert!(refusal(source, &terms()).await.contains("pushes its messages"));
    let text = refused(pull::Config { headers_only: true, ..config() }).await;
    assert!(text.contains("headers without payloads"), "{text}");
}

#[tokio::test]
async fn a_consumer_that_the_server_forgets_is_refused() {
    let named = Some(CONSUMER.to_owned());
    let inactive_threshold = Duration::from_secs(60);
    let passing = pull::Config { durable_name: None, name: named, inactive_threshold, ..config() };
    assert!(refused(passing).await.contains("is not durable"));
}

#[tokio::test]
async fn subjects_that_no_stream_keeps_are_refused() {
    let nats = Nats::open().await;
    let text = refusal(nats.source().dead_letters("nowhere.dead"), &terms()).await;
    assert!(
        text.starts_with("no stream has the subjects `nowhere.dead`, so dead letters"),
        "{text}"
    );
    let text = refusal(nats.source().parked("nowhere.parked"), &terms()).await;
    assert!(text.contains("--subjects 'nowhere.parked'"), "{text}");
    let text = refusal(nats.source().parked("parked.*"), &terms()).await;
    assert!(text.contains("without wildcards"), "{text}");

    let name = format!("{}_interest", nats.stream);
    let retention = RetentionPolicy::Interest;
    let subjects = vec![name.clone()];
    let fleeting = stream::Config { name: name.clone(), subjects, retention, ..Default::default() };
    nats.jetstream.create_stream(fleeting).await.unwrap();
    let text = refusal(nats.source().dead_letters(name), &terms()).await;
    assert!(text.contains("only while it has consumers"), "{text}");

    let name = format!("{}_silent", nats.stream);
    let subjects = vec![name.clone()];
    let silent =
        stream::Config { name: name.clone(), subjects, no_ack: true, ..Default::default() };
    nats.jetstream.create_stream(silent).await.unwrap();
    let text = refusal(nats.source().dead_letters(name), &terms()).await;
    assert!(text.contains("does not confirm messages"), "{text}");
}

#[tokio::test]
async fn dead_letters_that_would_come_back_are_refused() {
    let nats = Nats::open().await;
    let text = refusal(nats.source().dead_letters(nats.subject()), &terms()).await;
    assert!(text.contains("would get what it puts aside"), "{text}");
}

#[tokio::test]
async fn fewer_messages_in_flight_than_are_handled_is_a_warning() {
    let events = support::events::collect();
    let nats = Nats::open_with(pull::Config { max_ack_pending: 15, ..config() }).await;
    nats.source().prepare(&terms()).await.unwrap();
    let warned = events.take_all();
    let field = |name| warned.iter().find_map(|event| event.fields.get(name)).cloned();
    assert_eq!(field("max_ack_pending").as_deref(), Some("15"), "{warned:?}");
    let nats = Nats::open_with(pull::Config { max_ack_pending: 16, ..config() }).await;
    nats.source().prepare(&terms()).await.unwrap();
    assert!(events.take_all().is_empty());
}

#[tokio::test]
async fn what_is_missing_is_made_on_request_and_what_is_there_is_left() {
    let jetstream = connect(shared_nats()).await;
    let stream = format!("T{:016x}", rand::random::<u64>());
    let subject = format!("{stream}.orders");
    let source = || nats::deliveries(&jetstream, &stream, CONSUMER).create([subject.clone()]);
    let mut slow = terms();
    slow.heartbeat = Duration::from_secs(20);
    source().prepare(&slow).await.unwrap();
    source().prepare(&terms()).await.unwrap();

    let nats = Nats { jetstream: jetstream.clone(), stream };
    let made = nats.consumer_info().await.config;
    assert_eq!((made.max_deliver, made.ack_wait.as_secs()), (-1, 60));
    assert_eq!(made.ack_policy, AckPolicy::Explicit);
    let aside = format!("{}_{CONSUMER}_aside", nats.stream);
    for place in [nats.dead(), nats.parking()] {
        assert_eq!(jetstream.stream_by_subject(place).await.unwrap(), aside);
    }
    nats.send(Message::new("1")).await;
    assert_eq!(nats.source().next().await.unwrap().unwrap().message().payload(), b"1");
}

#[tokio::test]
async fn messages_come_again_for_as_long_as_the_stream_keeps_them() {
    let nats = Nats::open().await;
    let prepared = nats.source().prepare(&terms()).await.unwrap();
    assert_eq!(prepared.redelivered_for, None);
    let day = Duration::from_secs(24 * 3_600);
    let name = nats.stream.clone();
    let limited =
        stream::Config { name, subjects: vec![nats.subject()], max_age: day, ..Default::default() };
    nats.jetstream.update_stream(limited).await.unwrap();
    let prepared = nats.source().prepare(&terms()).await.unwrap();
    assert_eq!(prepared.redelivered_for, Some(day));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_asked_again() {
    let server = NatsServer::start();
    let jetstream = impatient(&server.url()).await;
    let nats = Nats::on(jetstream, config()).await;
    let paused = server.pause();
    let answer = nats.source().prepare(&terms()).await;
    assert!(matches!(answer, Err(PrepareError::Unavailable(_))), "{answer:?}");
    drop(paused);
    nats.source().prepare(&terms()).await.unwrap();
}
