//! A Redis that is killed, stands still or is full: nothing runs without protection, and no answer is lost.

use crate::bench::{Bench, Place};
use crate::client::send;
use crate::server::{Gate, held};
use idempotent_runtime::Config;
use idempotent_runtime::problem::ProblemType;
use std::sync::Arc;
use support::redis::{RedisServer, signal};
use support::{until, until_async};

/// A bench whose server is nobody else's.
async fn alone(arguments: &[&str]) -> (Bench, Arc<RedisServer>) {
    let server = RedisServer::start_with(&support::redis::installed(), arguments);
    let server = Arc::new(server);
    (Bench::redis(Arc::clone(&server), Config::new()).await, server)
}

#[tokio::test]
async fn a_redis_that_is_killed_refuses_requests_and_lets_the_running_one_answer() {
    let (bench, redis) = alone(&[]).await;
    let gate = Gate::shut();
    let server = bench.serve(bench.layer(), held(&gate)).await;
    let first = tokio::spawn(send(server.keyed("/orders", "k")));
    until(|| bench.runs() == 1).await;
    signal(redis.process(), "KILL");
    let refused = server.post("/orders", "other").await;
    refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
    gate.admit(1);
    first.await.unwrap().is_not_stored(200, "run 1");
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn a_redis_that_stands_still_refuses_requests_and_records_the_running_one_when_it_goes_on() {
    let (bench, redis) = alone(&[]).await;
    let gate = Gate::shut();
    let server = bench.serve(bench.layer(), held(&gate)).await;
    let first = tokio::spawn(send(server.keyed("/orders", "k")));
    until(|| bench.runs() == 1).await;
    redis.pause();
    let refused = server.post("/orders", "other").await;
    refused.is_problem(503, ProblemType::STORE_UNAVAILABLE.code());
    gate.admit(1);
    let first = first.await.unwrap();
    first.is_not_stored(200, "run 1");
    redis.go_on();
    until_async(|| async { server.post("/orders", "k").await.is_replay() }).await;
    assert_eq!(bench.ledger.ran("/orders"), 1);
}

#[tokio::test]
async fn a_full_redis_refuses_requests_and_stores_the_answer_of_the_running_one() {
    let (bench, redis) = alone(&["--maxmemory-policy", "noeviction"]).await;
    let gate = Gate::shut();
    let server = bench.serve(bench.layer(), held(&gate)).await;
    let first = tokio::spawn(send(server.keyed("/orders", "k")));
    until(|| bench.runs() == 1).await;
    let Place::Redis { connection, .. } = &bench.place else { unreachable!() };
    let limit = async |bytes: &str| {
        let mut connection = connection.clone();
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(bytes);
        let () = command.query_async(&mut connection).await.unwrap();
    };
    limit("1").await;
    let refused = server.post("/orders", "other").await;
    refused.is_problem(503, ProblemType::STORE_FULL.code());
    gate.admit(1);
    let first = first.await.unwrap();
    first.is_first(200, "run 1");
    server.post("/orders", "k").await.is_replay_of(&first);
    limit("0").await;
    gate.admit(1);
    server.post("/orders", "other").await.is_first(200, "run 2");
    drop(redis);
}
