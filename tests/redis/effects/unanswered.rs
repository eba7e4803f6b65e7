//! Effects whose script is not answered: lost, late, cut off, refused.

use super::{DEDUCT, Shop, applied, set};
use idempotent_runtime::store::{Effect, RedisBuilder, RedisStore};
use idempotent_runtime::{BodyRun, EffectOutcome, ErrorKind};
use std::time::Duration;
use support::proxy::{Command, Fault, Gate, Proxy};
use support::redis::RedisServer;
use support::until;

/// The time after which a shop gives up on an answer.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A shop behind a proxy, on a server that has the script.
async fn shop(stock: i64) -> (Shop, Proxy) {
    shop_with(stock, |redis| redis).await
}

async fn shop_with(stock: i64, choose: impl FnOnce(RedisBuilder) -> RedisBuilder) -> (Shop, Proxy) {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server.address());
    let redis = choose(RedisStore::builder(&proxy.url()));
    let mut shop = Shop::open_with(redis, server, stock).await;
    shop.deduct(0, 0).await.ok();
    set(&mut shop.connection, "stock:{lamp}", stock).await;
    proxy.forget();
    (shop, proxy)
}

fn is_script(command: &Command) -> bool {
    command.name().starts_with("EVAL") && command.has("stock:{lamp}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_whose_reply_was_lost_is_known_to_be_the_calls_own() {
    for (fault, sends) in [(Fault::CutBefore, 2), (Fault::CutAfter, 2)] {
        let (shop, proxy) = shop(10).await;
        proxy.fault_at(1, is_script, fault.clone());
        assert_eq!(applied(shop.deduct(1, 3).await), (7, false), "{fault:?}");
        assert_eq!(proxy.sent(is_script).len(), sends, "{fault:?}");
        assert_eq!(shop.stock().await, 7);
        assert_eq!(applied(shop.deduct(1, 3).await), (7, true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_is_not_answered_is_unknown_and_the_next_call_finds_out() {
    for (fault, left, replayed) in [(Fault::CutAfter, 7, true), (Fault::CutBefore, 10, false)] {
        let (shop, proxy) = shop(10).await;
        proxy.fault_always(is_script, fault.clone());
        let error = shop.deduct(1, 3).await.unwrap_err();
        assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::Unknown));
        assert!(!error.body_ran() && error.is_retryable());
        assert!(error.to_string().contains("it is unknown whether the body ran"), "{error}");
        assert_eq!(shop.stock().await, left, "{fault:?}");
        proxy.heal();
        assert_eq!(applied(shop.deduct(1, 3).await), (7, replayed), "{fault:?}");
        assert_eq!(shop.stock().await, 7);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_was_never_sent_did_not_run() {
    let mut shop = Shop::open(RedisServer::start(), 10).await;
    shop._server.kill();
    let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(3);
    // The first call may find a connection whose end it has not heard of.
    support::until_async(|| async {
        let error = shop.order(1).run_effect::<i64>(&shop.redis, &effect).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
        error.body() == BodyRun::DidNotRun
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_copies_of_an_effect_run_it_once_after_the_call_was_refused() {
    let (shop, proxy) = shop_with(10, |redis| redis.timeout(TIMEOUT)).await;
    let gate = Gate::new();
    proxy.fault_always(is_script, Fault::HoldRequest(gate.clone()));
    let error = shop.deduct(1, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::Unknown));
    assert_eq!(shop.stock().await, 10);
    gate.open();
    until(|| proxy.answered(is_script) == proxy.sent(is_script).len()).await;
    assert!(proxy.sent(is_script).len() > 1);
    assert_eq!(shop.stock().await, 7);
    proxy.heal();
    assert_eq!(applied(shop.deduct(1, 3).await), (7, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_does_not_run_after_the_script_refused() {
    let (mut shop, proxy) = shop_with(2, |redis| redis.timeout(TIMEOUT)).await;
    let gate = Gate::new();
    proxy.fault_at(1, is_script, Fault::HoldRequest(gate.clone()));
    let refused = shop.deduct(1, 3).await.unwrap();
    assert!(matches!(refused, EffectOutcome::Refused { .. }), "{refused:?}");
    assert_eq!(gate.held(), 1);
    set(&mut shop.connection, "stock:{lamp}", 5).await;
    gate.open();
    until(|| proxy.answered(is_script) == proxy.sent(is_script).len()).await;
    assert_eq!(shop.stock().await, 5, "the refusal stands");
    assert_eq!(applied(shop.deduct(1, 3).await), (2, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_does_not_run_after_another_call_was_refused() {
    let (mut shop, proxy) = shop_with(2, |redis| redis.timeout(TIMEOUT)).await;
    let gate = Gate::new();
    proxy.fault_always(is_script, Fault::HoldRequest(gate.clone()));
    assert_eq!(shop.deduct(1, 3).await.unwrap_err().body(), BodyRun::Unknown);
    proxy.heal();
    let refused = shop.deduct(1, 3).await.unwrap();
    assert!(matches!(refused, EffectOutcome::Refused { .. }), "{refused:?}");
    set(&mut shop.connection, "stock:{lamp}", 5).await;
    gate.open();
    until(|| proxy.answered(is_script) == proxy.sent(is_script).len()).await;
    assert_eq!(shop.stock().await, 5, "the refusal stands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_whose_reply_was_lost_is_decided_again() {
    let (shop, proxy) = shop(2).await;
    proxy.fault_at(1, is_script, Fault::CutAfter);
    match shop.deduct(1, 3).await.unwrap() {
        EffectOutcome::Refused { reason } => assert_eq!(reason, "not enough stock"),
        other => panic!("{other:?}"),
    }
    assert_eq!(shop.stock().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_failed_half_way_and_whose_reply_was_lost_is_known_to_have_run() {
    let (shop, proxy) = shop(10).await;
    let half = Effect::new("redis.call('DECR', KEYS[1]) error('half way')").key("stock:{lamp}");
    shop.order(1).run_effect::<i64>(&shop.redis, &half).await.unwrap_err();
    proxy.fault_at(1, is_script, Fault::CutAfter);
    let error = shop.order(2).run_effect::<i64>(&shop.redis, &half).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Indeterminate, BodyRun::Ran), "{error}");
    assert_eq!(shop.stock().await, 8, "each of the two once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_too_few_replicas_have_is_known_to_have_run() {
    let replicated = |redis: RedisBuilder| redis.replication(1, Duration::from_millis(10));
    let (shop, proxy) = shop_with(10, replicated).await;
    let error = shop.deduct(1, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::NotReplicated, BodyRun::Ran), "{error}");
    assert_eq!(shop.stock().await, 7);
    // Also where the answer of the script was lost, and the record tells that it ran.
    proxy.fault_at(1, is_script, Fault::CutAfter);
    let error = shop.deduct(2, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::NotReplicated, BodyRun::Ran), "{error}");
    // A master that refuses to write has not run it.
    proxy.fault_always(is_script, Fault::Refuse("NOREPLICAS Not enough good replicas".to_owned()));
    let error = shop.deduct(3, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::NotReplicated, BodyRun::DidNotRun));
    assert_eq!(shop.stock().await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_refused_is_told_apart_from_one_that_failed() {
    let (shop, proxy) = shop(10).await;
    assert_eq!(applied(shop.deduct(1, 3).await), (7, false));
    let refuse = |line: &str| proxy.fault_always(is_script, Fault::Refuse(line.to_owned()));
    refuse("TRYAGAIN Multiple keys request during rehashing of slot");
    assert_eq!(applied(shop.deduct(1, 3).await), (7, true), "a read tells what is recorded");
    let error = shop.deduct(2, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::DidNotRun));
    proxy.heal();
    refuse("ERR an error that the table does not have");
    let error = shop.deduct(2, 3).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::Unknown));
    proxy.heal();
    assert_eq!(applied(shop.deduct(2, 3).await), (4, false));
}

/// The record does not keep the effect away, so the refusal is the answer, and it is asked for once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_to_write_over_a_free_key_is_believed() {
    let (shop, proxy) = shop(2).await;
    // Refused by the script: the key is free for the next call.
    assert!(matches!(shop.deduct(1, 3).await, Ok(EffectOutcome::Refused { .. })));
    proxy.forget();
    proxy.fault_always(is_script, Fault::Refuse("MISCONF the disk is full".to_owned()));
    let error = shop.deduct(1, 1).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::StoreUnavailable, BodyRun::DidNotRun));
    assert!(error.to_string().contains("MISCONF"), "{error}");
    // Sent three times, each of which looks at the record once and then tries to take it over.
    assert!(proxy.sent(is_script).len() <= 6, "{} scripts", proxy.sent(is_script).len());
    proxy.heal();
    assert_eq!(applied(shop.deduct(1, 1).await), (1, false));
}
