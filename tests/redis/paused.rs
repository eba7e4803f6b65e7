//! Tests of users whose tokio clock is paused.

use idempotent_runtime::store::{RedisStore, StoreErrorKind};
use idempotent_runtime::{Error, Idempotency, Mode};
use std::time::{Duration, Instant};
use support::fake::Fake;
use support::proxy::{Command, Fault, Gate, Proxy};
use support::redis::RedisServer;

async fn idem(url: &str) -> Idempotency {
    let store = RedisStore::connect(url).await.unwrap();
    Idempotency::builder().store(store).build().unwrap()
}

async fn run(idem: &Idempotency, key: &str) -> Result<u32, Error> {
    let op = idem.operation("test.op").key(key).mode(Mode::Strong);
    op.run(async {
        // A body that waits is why users pause the clock.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        Ok(7)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn calls_work_on_a_clock_that_is_paused_from_the_start() {
    let server = RedisServer::start();
    let idem = idem(&server.url()).await;
    let began = tokio::time::Instant::now();
    for key in 0..50 {
        assert_eq!(run(&idem, &key.to_string()).await.unwrap(), 7);
        assert_eq!(run(&idem, &key.to_string()).await.unwrap(), 7);
    }
    assert!(began.elapsed() >= Duration::from_secs(50 * 3_600), "the bodies' time passes");
    assert!(began.elapsed() < Duration::from_secs(51 * 3_600), "no timeout is waited for");
}

#[tokio::test]
async fn calls_work_while_the_clock_is_paused_and_when_it_goes_on() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server.address());
    let idem = idem(&proxy.url()).await;
    tokio::time::pause();
    // The server takes its time, while nothing else is left to do.
    let gate = Gate::new();
    let is_begin = |command: &Command| command.has("NX");
    proxy.fault_at(1, is_begin, Fault::HoldReply(gate.clone()));
    let slow = std::thread::spawn(move || {
        while gate.held() == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        gate.open();
    });
    assert_eq!(run(&idem, "a").await.unwrap(), 7);
    slow.join().unwrap();
    assert_eq!(proxy.sent(is_begin).len(), 1, "it was waited for");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(run(&idem, "a").await.unwrap(), 7);
    tokio::time::resume();
    let replayed = idem.operation("test.op").key("a").mode(Mode::Strong);
    assert_eq!(replayed.run(async { Ok::<u32, Error>(8) }).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_of_another_process_work_on_a_paused_clock() {
    let server = RedisServer::start();
    let (first, second) = (idem(&server.url()).await, idem(&server.url()).await);
    let op = |idem: &Idempotency| {
        let idem = idem.clone();
        async move {
            let op = idem.operation("test.op").key("k").mode(Mode::Strong);
            op.wait(Duration::from_secs(20)).run(async { Ok::<u32, Error>(7) }).await
        }
    };
    for answer in [tokio::spawn(op(&first)), tokio::spawn(op(&second))] {
        assert_eq!(answer.await.unwrap().unwrap(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_silent_is_given_up_on_in_real_time() {
    let silent = Fake::silent();
    let timeout = Duration::from_millis(200);
    let asked = Instant::now();
    let error = RedisStore::builder(&silent.url()).timeout(timeout).connect().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(asked.elapsed() >= timeout, "a server is given its time");
}
