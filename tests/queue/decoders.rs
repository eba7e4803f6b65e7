//! Decoders of payloads.

use crate::bench::{Bench, Body, handle, in_time, message};
use idempotent_queue::Decode;
use idempotent_queue::Message;
use idempotent_queue::format::{MessagePack, Raw};
use idempotent_runtime::{Error, idempotent};
use std::str::Utf8Error;

#[tokio::test]
async fn a_payload_in_message_pack_is_decoded() {
    let bench = Bench::new();
    let packed = Message::new(rmp_serde::to_vec(&Body::Succeeds).unwrap());
    bench.queue.send(packed.with_header("idempotency-key", "a"));
    bench.queue.send(message("b", Body::Succeeds));
    bench.queue.close();
    let consumer = bench.consumer().decoder(MessagePack);
    in_time(consumer.run(bench.queue.deliveries(), handle)).await.unwrap();
    assert_eq!(bench.counts(), [1, 1, 0, 0], "the second one is JSON");
}

#[idempotent(name = "queue.raw", mode = "strong")]
async fn on_message(message: Message) -> Result<String, Error> {
    assert_eq!(message.payload(), [0, 159]);
    assert_eq!(message.header("tenant"), Some("acme"));
    Ok(String::new())
}

#[tokio::test]
async fn a_handler_of_raw_messages_gets_payload_and_headers() {
    let bench = Bench::new();
    let raw = Message::new([0, 159]).with_header("tenant", "acme");
    bench.queue.send(raw.with_header("idempotency-key", "a"));
    bench.queue.close();
    let consumer = bench.consumer().decoder(Raw);
    in_time(consumer.run(bench.queue.deliveries(), on_message)).await.unwrap();
    assert_eq!(bench.counts(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_closure_decodes_and_its_error_goes_along_with_the_dead_letter() {
    let bench = Bench::new();
    let text = |payload: &[u8]| Message::new(payload).with_header("idempotency-key", "a");
    bench.queue.send(text(b"Succeeds"));
    bench.queue.send(text(&[159]));
    bench.queue.close();
    let decode = |message: &Message| -> Result<Body, Utf8Error> {
        std::str::from_utf8(message.payload()).map(|_| Body::Succeeds)
    };
    let consumer = bench.consumer().decoder(decode);
    in_time(consumer.run(bench.queue.deliveries(), handle)).await.unwrap();
    let (_, reason) = &bench.queue.dead_letters()[0];
    assert_eq!((bench.counts(), reason.code()), ([1, 1, 0, 0], "undecodable"));
    assert!(reason.text().starts_with("invalid utf-8"), "{reason}");
}

/// A decoder of the program's own.
struct Prefixed(&'static str);

impl Decode<String> for Prefixed {
    type Error = &'static str;

    fn decode(&self, message: &Message) -> Result<String, &'static str> {
        let text = std::str::from_utf8(message.payload()).map_err(|_| "no text")?;
        text.strip_prefix(self.0).map(str::to_owned).ok_or("no prefix")
    }
}

#[tokio::test]
async fn a_type_can_be_a_decoder() {
    let bench = Bench::new();
    for payload in ["order:1", "2"] {
        bench.queue.send(Message::new(payload));
    }
    bench.queue.close();
    let consumer = bench.consumer().decoder(Prefixed("order:")).concurrency(1);
    // The type of the argument follows from the function that it is passed to.
    let handler = |number| {
        let same: String = number;
        assert_eq!(same, "1");
        std::future::ready(Ok::<_, Error>(()))
    };
    in_time(consumer.run(bench.queue.deliveries(), handler)).await.unwrap();
    assert_eq!((bench.counts(), bench.codes()), ([1, 1, 0, 0], vec!["undecodable".to_owned()]));
}
