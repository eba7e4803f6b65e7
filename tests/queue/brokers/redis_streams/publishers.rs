//! Messages that are sent.

use super::{Stream, next};
use idempotent_queue::redis_streams::StreamPublisher;
use idempotent_queue::{Delivery, Outgoing, PublishErrorKind, Publisher as _};
use std::time::Duration;
use support::proxy::{Command, Fault, Proxy};
use support::redis::{RedisServer, free_port};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_delivered_as_it_was_sent() {
    let stream = Stream::shared().await;
    let publisher = StreamPublisher::new(&stream.url).unwrap();
    let message = Outgoing::new(&*stream.name, "order-42", b"\x00\xff".to_vec())
        .with_kind("OrderCreated")
        .with_header("tenant", "acme");
    let receipt = publisher.publish(&message).await.unwrap();
    let delivery = next(&mut stream.open().await).await;
    let delivered = delivery.message();
    assert_eq!(receipt.position(), delivered.id());
    assert_eq!(delivered.payload(), b"\x00\xff");
    let headers: Vec<_> = delivered.headers().collect();
    let expected = [("idempotency-key", "order-42"), ("type", "OrderCreated"), ("tenant", "acme")];
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn a_stream_is_trimmed_if_asked_for() {
    let stream = Stream::shared().await;
    let publisher = StreamPublisher::new(&stream.url).unwrap().max_len(100);
    for number in 0..500 {
        let message = Outgoing::new(&*stream.name, number.to_string(), "{}");
        publisher.publish(&message).await.unwrap();
    }
    let entries: u64 = stream.run("XLEN KEY").await;
    assert!((100..300).contains(&entries), "{entries}");
}

#[tokio::test]
async fn errors_tell_whether_the_message_is_to_blame() {
    let server = RedisServer::start();
    let stream = Stream::on(&server.url()).await;
    let publisher = StreamPublisher::new(&server.url()).unwrap();
    let message = Outgoing::new(&*stream.name, "1", "{}");
    let kind = async || publisher.publish(&message).await.unwrap_err().kind();
    let () = stream.run("SET KEY something").await;
    assert_eq!(kind().await, PublishErrorKind::Permanent);
    let () = stream.run("DEL KEY").await;
    let () = stream.run("CONFIG SET maxmemory 1").await;
    assert_eq!(kind().await, PublishErrorKind::Retryable);
    let () = stream.run("CONFIG SET maxmemory 0").await;
    publisher.publish(&message).await.unwrap();
    drop(server);
    assert_eq!(kind().await, PublishErrorKind::Unavailable);
    let nowhere = StreamPublisher::new(&format!("redis://127.0.0.1:{}/", free_port())).unwrap();
    let error = nowhere.publish(&message).await.unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::Unavailable);
}

#[tokio::test]
async fn a_message_that_is_not_confirmed_may_be_there_and_is_not_sent_again_by_itself() {
    let stream = Stream::shared().await;
    let proxy = Proxy::start(stream.url.trim_start_matches("redis://").trim_end_matches('/'));
    let timeout = Duration::from_millis(200);
    let publisher = StreamPublisher::new(&proxy.url()).unwrap().timeout(timeout);
    let message = Outgoing::new(&*stream.name, "1", "{}");
    for fault in [Fault::CutAfter, Fault::LoseReply] {
        proxy.fault_at(1, |command: &Command| command.name() == "XADD", fault);
        let error = publisher.publish(&message).await.unwrap_err();
        assert_eq!(error.kind(), PublishErrorKind::Unavailable);
    }
    assert_eq!(stream.run::<u64>("XLEN KEY").await, 2);
    publisher.publish(&message).await.unwrap();
}
