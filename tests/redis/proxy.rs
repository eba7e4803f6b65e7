//! Tests of the proxy itself, which other tests rely on.

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult};
use std::time::Duration;
use support::proxy::{Command, Fault, Gate, Proxy, Twin, Which};
use support::redis::RedisServer;
use support::{until, until_async};

async fn connect(url: &str, timeout: Duration) -> RedisResult<MultiplexedConnection> {
    connect_by("resp3", url, timeout).await
}

async fn connect_by(
    protocol: &str,
    url: &str,
    timeout: Duration,
) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    Client::open(format!("{url}?protocol={protocol}"))?
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

fn is_incr(command: &Command) -> bool {
    command.name() == "INCRBY"
}

#[tokio::test]
async fn each_fault_does_what_it_says() {
    let server = RedisServer::start();
    let mut direct = server.connection().await;
    let timeout = Duration::from_millis(200);
    let faults = [
        // The fault, what the client gets, and how often the server executes the command.
        (Fault::LoseRequest, None, 0),
        (Fault::LoseReply, None, 1),
        (Fault::CutBefore, None, 0),
        (Fault::CutAfter, None, 1),
        (Fault::Duplicate(Twin::First), Some(1), 2),
        (Fault::Duplicate(Twin::Second), Some(2), 2),
    ];
    for protocol in ["resp2", "resp3"] {
        for (fault, expected, executed) in faults.clone() {
            let proxy = Proxy::start(&server.address());
            let mut through = connect_by(protocol, &proxy.url(), timeout).await.unwrap();
            let key = format!("{protocol}, {fault:?}");
            proxy.fault_at(1, is_incr, fault);
            let got: RedisResult<i64> = through.incr(&key, 1).await;
            assert_eq!(got.ok(), expected, "{key}");
            let count: Option<i64> = direct.get(&key).await.unwrap();
            assert_eq!(count.unwrap_or(0), executed, "{key}");
            assert_eq!(proxy.answered(is_incr), usize::from(executed > 0), "{key}");
            // The connection is of use afterwards only if nothing was lost on it.
            let later: RedisResult<String> = ::redis::cmd("PING").query_async(&mut through).await;
            assert_eq!(later.is_ok(), expected.is_some(), "{key}");
            assert_eq!(proxy.commands()[0].name(), "INCRBY", "set-up commands are not counted");
        }
    }
}

#[tokio::test]
async fn what_is_held_arrives_when_it_is_let_go_even_if_its_client_has_gone() {
    let server = RedisServer::start();
    let mut direct = server.connection().await;
    let proxy = Proxy::start(&server.address());
    let timeout = Duration::from_millis(200);
    let mut through = connect(&proxy.url(), timeout).await.unwrap();
    let gate = Gate::new();
    proxy.fault_at(2, is_incr, Fault::HoldRequest(gate.clone()));
    let first: i64 = through.incr("k", 1).await.unwrap();
    assert_eq!(first, 1);
    let second: RedisResult<i64> = through.incr("k", 1).await;
    assert!(second.unwrap_err().is_timeout());
    drop(through);
    assert_eq!((gate.held(), proxy.answered(is_incr)), (1, 1));
    gate.open();
    until(|| proxy.answered(is_incr) == 2).await;
    let count: i64 = direct.get("k").await.unwrap();
    assert_eq!(count, 2);
}

#[tokio::test]
async fn a_held_reply_is_late_and_not_lost() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server.address());
    let mut through = connect(&proxy.url(), Duration::from_secs(30)).await.unwrap();
    let gate = Gate::new();
    proxy.fault_at(1, is_incr, Fault::HoldReply(gate.clone()));
    let mut asks = through.clone();
    let held = tokio::spawn(async move { asks.incr::<_, _, i64>("k", 1).await.unwrap() });
    until(|| proxy.answered(is_incr) == 1 && gate.held() == 1).await;
    assert!(!held.is_finished());
    gate.open();
    assert_eq!(held.await.unwrap(), 1);
    let next: i64 = through.incr("k", 1).await.unwrap();
    assert_eq!(next, 2);
}

#[tokio::test]
async fn pipelines_and_notifications_pass_unharmed() {
    let server = RedisServer::start();
    let mut direct = server.connection().await;
    let proxy = Proxy::start(&server.address());
    let (pushed, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = AsyncConnectionConfig::new().set_push_sender(pushed);
    let client = Client::open(format!("{}?protocol=resp3", proxy.url())).unwrap();
    let mut through = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    through.subscribe("channel").await.unwrap();
    let large = "x".repeat(100_000);
    let mut pipeline = ::redis::pipe();
    pipeline.set("k", &large).ignore().get("k").hset("h", "field", 1).ignore().hgetall("h");
    let answers: (String, Vec<(String, u8)>) = pipeline.query_async(&mut through).await.unwrap();
    assert_eq!(answers, (large, vec![("field".to_owned(), 1)]));
    let () = direct.publish("channel", "told").await.unwrap();
    loop {
        let push = pushes.recv().await.unwrap();
        if push.kind == ::redis::PushKind::Message {
            break;
        }
    }
    let alive: String = ::redis::cmd("PING").query_async(&mut through).await.unwrap();
    assert_eq!(alive, "PONG");
}

#[tokio::test]
async fn a_server_that_is_down_does_not_answer_and_is_reached_when_it_is_back() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(&server.address());
    server.kill();
    let url = proxy.url();
    let waiting = tokio::spawn(async move { connect(&url, Duration::from_secs(30)).await });
    tokio::task::yield_now().await;
    server.restart();
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test]
async fn everything_can_be_lost_set_up_included() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server.address());
    let timeout = Duration::from_millis(100);
    proxy.fault_always(Which::everything(), Fault::LoseRequest);
    assert!(connect(&proxy.url(), timeout).await.is_err());
    proxy.heal();
    until_async(|| async { connect(&proxy.url(), timeout).await.is_ok() }).await;
}
