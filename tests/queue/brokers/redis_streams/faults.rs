//! Servers and connections that fail.

use super::entries::consume;
use super::{Stream, next, payload, prepared};
use crate::bench::{Body, in_time, message};
use crate::scenarios::Broker;
use idempotent_queue::redis_streams::StreamDeliveries;
use idempotent_queue::{Deliveries, Delivery};
use std::time::Duration;
use support::proxy::{Command, Fault, Proxy};
use support::redis::{RedisServer, installed};
use support::{until, until_async};

fn named(name: &'static str) -> impl Fn(&Command) -> bool + Send + Clone + 'static {
    move |command| command.name() == name
}

/// A stream, and a proxy before its server.
async fn behind_a_proxy() -> (Stream, Proxy) {
    let stream = Stream::shared().await;
    let address = stream.url.trim_start_matches("redis://").trim_end_matches('/');
    let proxy = Proxy::start(address);
    (stream, proxy)
}

/// A source that does not wait long for answers.
async fn impatient(stream: &Stream, proxy: &Proxy) -> StreamDeliveries {
    prepared(stream.source_at(&proxy.url()).timeout(Duration::from_millis(200))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_whose_answer_is_lost_are_claimed() {
    for fault in [Fault::CutAfter, Fault::LoseReply, Fault::CutBefore, Fault::LoseRequest] {
        let (stream, proxy) = behind_a_proxy().await;
        let mut source = impatient(&stream, &proxy).await;
        stream.add("1").await;
        proxy.fault_at(1, named("XREADGROUP"), fault.clone());
        let delivery = next(&mut source).await;
        assert_eq!(payload(&delivery), "1", "{fault:?}");
        delivery.ack().await.unwrap();
        assert_eq!(stream.pending_in_group().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_is_sent_again() {
    for fault in [Fault::CutAfter, Fault::LoseReply, Fault::CutBefore, Fault::LoseRequest] {
        let (stream, proxy) = behind_a_proxy().await;
        let mut source = impatient(&stream, &proxy).await;
        stream.add("1").await;
        let delivery = next(&mut source).await;
        proxy.fault_at(1, named("XACK"), fault.clone());
        delivery.ack().await.unwrap();
        assert_eq!(stream.pending_in_group().await, 0, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_whose_settlement_fails_comes_again() {
    let (stream, proxy) = behind_a_proxy().await;
    let mut source =
        prepared(stream.source_at(&proxy.url()).claim_after(Duration::from_secs(3_600))).await;
    stream.add("1").await;
    let delivery = next(&mut source).await;
    proxy.fault_always(named("XACK"), Fault::CutBefore);
    delivery.ack().await.unwrap_err();
    proxy.heal();
    let delivery = next(&mut source).await;
    assert_eq!(delivery.message().deliveries(), Some(2));
    let refused = Fault::Refuse("OOM command not allowed".to_owned());
    proxy.fault_always(|command: &Command| command.name().starts_with("EVAL"), refused);
    let pause = Duration::from_millis(1);
    let text = delivery.again(pause).await.unwrap_err().to_string();
    assert!(text.contains("help: CONFIG SET maxmemory"), "{text}");
    proxy.heal();
    assert_eq!(next(&mut source).await.message().deliveries(), Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_whose_answer_is_lost_is_there_once() {
    let (stream, proxy) = behind_a_proxy().await;
    let source = impatient(&stream, &proxy).await;
    let dead = format!("{}:dead", stream.name);
    let is_put_aside = move |command: &Command| command.has(&dead);
    let consumes = consume(source);
    let settled = || async { stream.pending().await == 0 };
    // The server has the script after this one.
    stream.send(message("a", Body::Declines)).await;
    in_time(until_async(settled)).await;
    proxy.forget();
    proxy.fault_at(1, is_put_aside.clone(), Fault::CutAfter);
    stream.send(message("b", Body::Declines)).await;
    in_time(until(|| proxy.answered(&is_put_aside) == 2)).await;
    in_time(until_async(settled)).await;
    assert_eq!(stream.dead_letters().await.len(), 2);
    consumes.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_goes_on() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = RedisServer::start_with(&installed(), &durable);
    let stream = Stream::on(&server.url()).await;
    let mut source = stream.open().await;
    stream.add("1").await;
    stream.add("2").await;
    let (one, two) = (next(&mut source).await, next(&mut source).await);
    server.kill();
    one.ack().await.unwrap_err();
    server.restart();
    let stream = Stream { connection: server.connection().await, ..stream };
    stream.add("3").await;
    let mut seen = vec![];
    while seen.len() < 2 {
        let delivery = next(&mut source).await;
        seen.push(payload(&delivery));
        delivery.ack().await.unwrap();
    }
    seen.sort();
    assert_eq!(seen, ["1", "3"]);
    two.ack().await.unwrap();
    assert_eq!(stream.pending_in_group().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_reported_and_found_again() {
    let mut server = RedisServer::start_with(&installed(), &["--appendonly", "yes"]);
    let stream = Stream::on(&server.url()).await;
    let mut source = stream.open().await;
    server.kill();
    let error = in_time(source.next()).await.expect_err("nothing was added");
    assert!(error.to_string().starts_with("redis: "), "{error}");
    server.restart();
    let stream = Stream { connection: server.connection().await, ..stream };
    stream.add("1").await;
    assert_eq!(payload(&next(&mut source).await), "1");
}
