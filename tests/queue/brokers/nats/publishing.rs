//! Messages to subjects of streams.

use super::*;
use idempotent_queue::{Delivery as _, Outgoing, PublishErrorKind, Publisher as _};

#[tokio::test]
async fn a_repeat_gets_the_receipt_of_the_first() {
    let nats = Nats::open().await;
    let publisher = nats::publisher(&nats.jetstream);
    let stream = &nats.stream;
    let send = async |id: &str, payload: &str| {
        let message = Outgoing::new(nats.subject(), id, payload);
        publisher.publish(&message).await.unwrap().position().unwrap().to_owned()
    };
    assert_eq!(send("a", "1").await, format!("{stream}:1"));
    assert_eq!(send("b", "2").await, format!("{stream}:2"));
    // The window knows ids only.
    assert_eq!(send("a", "another").await, format!("{stream}:1"));
    assert_eq!(nats.pending().await, 2);
}

#[tokio::test]
async fn a_message_has_its_id_its_type_and_all_of_its_headers() {
    let nats = Nats::open().await;
    let message = Outgoing::new(nats.subject(), "order-42", "{}")
        .with_kind("Created")
        .with_header("tag", "a")
        .with_header("tag", "b")
        .with_header("Nats-Msg-Id", "another");
    nats::publisher(&nats.jetstream).publish(&message).await.unwrap();
    let delivery = nats.prepared(1).await.next().await.unwrap().unwrap();
    let message = delivery.message();
    assert_eq!(message.payload(), b"{}");
    assert_eq!(message.header("idempotency-key"), Some("order-42"));
    assert_eq!(message.header("nats-msg-id"), Some("order-42"));
    assert_eq!(message.header("type"), Some("Created"));
    let tags: Vec<_> = message.headers().filter(|(name, _)| *name == "tag").collect();
    assert_eq!(tags, [("tag", "a"), ("tag", "b")]);
}

#[tokio::test]
async fn a_message_that_no_stream_will_take_fails_for_good() {
    let nats = Nats::open().await;
    let publisher = nats::publisher(&nats.jetstream);
    let subject = nats.subject();
    let large = "x".repeat(nats.jetstream.client().max_payload() + 1);
    for (message, text) in [
        (
            Outgoing::new("nowhere.orders", "a", "1"),
            "no stream has the subject `nowhere.orders`; help",
        ),
        (Outgoing::new("orders.*", "a", "1"), "is no subject to publish to; help"),
        (Outgoing::new("", "a", "1"), "is no subject to publish to; help"),
        (Outgoing::new(&*subject, "a\nb", "1"), "no line break in the header"),
        (
            Outgoing::new(&*subject, "a", "1").with_header("a:b", "1"),
            "no header of the name \"a:b\"",
        ),
        (Outgoing::new(&*subject, "a", "1").with_header("", "1"), "no header of the name \"\""),
        (
            Outgoing::new(&*subject, "a", "1").with_header("a", "1\r2"),
            "no line break in the header `a`",
        ),
        (Outgoing::new(&*subject, "a", large), "help: raise `max_payload`"),
        (
            Outgoing::new(&*subject, "a", "1").with_header("Nats-Expected-Stream", "ANOTHER"),
            "expected stream does not match",
        ),
    ] {
        let error = publisher.publish(&message).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.kind(), PublishErrorKind::Permanent, "{error}");
    }
    assert_eq!(nats.pending().await, 0);
}

#[tokio::test]
async fn a_message_without_a_confirmation_is_sent_again() {
    let mut server = NatsServer::start();
    let nats = Nats::on(impatient(&server.url()).await, config()).await;
    let publisher = nats::publisher(&nats.jetstream);
    let message = Outgoing::new(nats.subject(), "a", "1");
    let paused = server.pause();
    let error = publisher.publish(&message).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
    drop(paused);
    // It had been sent, and this one is a repeat.
    let receipt = publisher.publish(&message).await.unwrap();
    assert_eq!(receipt.position(), Some(&*format!("{}:1", nats.stream)));
    assert_eq!(nats.pending().await, 1);

    server.kill();
    let error = publisher.publish(&message).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_stream_that_is_full_takes_the_message_later() {
    let nats = Nats::open().await;
    let name = format!("{}_full", nats.stream);
    let full = stream::Config {
        name: name.clone(),
        subjects: vec![name.clone()],
        max_messages: 1,
        discard: stream::DiscardPolicy::New,
        ..Default::default()
    };
    let full = nats.jetstream.create_stream(full).await.unwrap();
    let publisher = nats::publisher(&nats.jetstream);
    publisher.publish(&Outgoing::new(&*name, "a", "1")).await.unwrap();
    let second = Outgoing::new(&*name, "b", "2");
    let error = publisher.publish(&second).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable, "{error}");
    full.purge().await.unwrap();
    publisher.publish(&second).await.unwrap();
}
