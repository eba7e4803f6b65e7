//! Effects inside Redis, together with their record.

mod unanswered;

use idempotent_runtime::store::{Effect, RedisBuilder, RedisStore, State};
use idempotent_runtime::{EffectOutcome, Error, ErrorKind, Idempotency, Operation, Resolution};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use support::redis::{RedisServer, binaries};

const DEDUCT: &str = "
    local left = tonumber(redis.call('GET', KEYS[1]) or '0')
    if left < tonumber(ARGV[1]) then return refuse('not enough stock') end
    return redis.call('DECRBY', KEYS[1], ARGV[1])";

struct Shop {
    _server: RedisServer,
    redis: RedisStore,
    idem: Idempotency,
    connection: MultiplexedConnection,
}

impl Shop {
    async fn open(server: RedisServer, stock: i64) -> Self {
        let redis = RedisStore::builder(&server.url());
        Self::open_with(redis, server, stock).await
    }

    async fn open_with(redis: RedisBuilder, server: RedisServer, stock: i64) -> Self {
        let redis = redis.connect().await.unwrap();
        let idem = Idempotency::builder().store(redis.clone()).build().unwrap();
        let mut connection = server.connection().await;
        set(&mut connection, "stock:{lamp}", stock).await;
        Self { _server: server, redis, idem, connection }
    }

    fn order(&self, id: u32) -> Operation<'_> {
        self.idem.operation("stock.deduct").key(id).hash_tag("lamp")
    }

    async fn deduct(&self, id: u32, count: i64) -> Result<EffectOutcome<i64>, Error> {
        let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(count);
        self.order(id).run_effect(&self.redis, &effect).await
    }

    async fn stock(&self) -> i64 {
        let mut connection = self.connection.clone();
        redis::cmd("GET").arg("stock:{lamp}").query_async(&mut connection).await.unwrap()
    }
}

async fn set(connection: &mut MultiplexedConnection, key: &str, value: i64) {
    let () = redis::cmd("SET").arg(key).arg(value).query_async(connection).await.unwrap();
}

fn applied(outcome: Result<EffectOutcome<i64>, Error>) -> (i64, bool) {
    match outcome.unwrap() {
        EffectOutcome::Applied(outcome) => (outcome.value, outcome.replayed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_effect_happens_once_per_key_on_every_server() {
    for binary in binaries() {
        let shop = Shop::open(RedisServer::start_with(&binary, &[]), 10).await;
        assert_eq!(applied(shop.deduct(1, 3).await), (7, false));
        assert_eq!(applied(shop.deduct(1, 3).await), (7, true));
        assert_eq!(applied(shop.deduct(2, 3).await), (4, false));
        assert_eq!(shop.stock().await, 4);
    }
}

#[tokio::test]
async fn a_refusal_is_no_success_and_the_next_call_runs_again() {
    let mut shop = Shop::open(RedisServer::start(), 2).await;
    for _ in 0..2 {
        match shop.deduct(1, 3).await.unwrap() {
            EffectOutcome::Refused { reason } => assert_eq!(reason, "not enough stock"),
            other => panic!("{other:?}"),
        }
        let record = shop.order(1).get().await.unwrap().unwrap();
        assert_eq!(record.head.state, State::FailedFree, "the key is free");
    }
    set(&mut shop.connection, "stock:{lamp}", 5).await;
    assert_eq!(applied(shop.deduct(1, 3).await), (2, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_takes_effect() {
    let shop = Shop::open(RedisServer::start(), 1_000).await;
    let shared = Arc::new((shop.idem.clone(), shop.redis.clone()));
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(1);
                let operation = shared.0.operation("stock.deduct").key(9).hash_tag("lamp");
                applied(operation.run_effect(&shared.1, &effect).await)
            })
        })
        .collect();
    let mut fresh = 0;
    for call in calls {
        let (left, replayed) = call.await.unwrap();
        assert_eq!(left, 999);
        fresh += usize::from(!replayed);
    }
    assert_eq!(fresh, 1);
    assert_eq!(shop.stock().await, 999);
}

#[tokio::test]
async fn a_script_that_fails_after_it_wrote_leaves_the_key_indeterminate_until_resolved() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let half = Effect::new("redis.call('DECR', KEYS[1]) error('half way')").key("stock:{lamp}");
    let error = shop.order(1).run_effect::<i64>(&shop.redis, &half).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, true));
    assert!(error.message().contains("half way"), "{error}");
    let again = shop.deduct(1, 1).await.unwrap_err();
    assert_eq!((again.kind(), again.body_ran()), (ErrorKind::Indeterminate, false));
    assert_eq!(shop.order(1).get().await.unwrap().unwrap().head.state, State::Abandoned);
    assert_eq!(shop.stock().await, 9);
    shop.order(1).resolve(Resolution::<Option<&i64>>::Retry).await.unwrap();
    assert_eq!(applied(shop.deduct(1, 1).await), (8, false));
}

#[tokio::test]
async fn an_error_reply_of_a_command_leaves_the_key_indeterminate() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let wrong = Effect::new("return redis.call('LPUSH', KEYS[1], 'x')").key("stock:{lamp}");
    let error = shop.order(1).run_effect::<i64>(&shop.redis, &wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(error.message().contains("WRONGTYPE"), "{error}");
}

#[tokio::test]
async fn a_script_that_does_not_compile_is_refused_and_loses_nothing() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let broken = Effect::new("return (").key("stock:{lamp}");
    let error = shop.order(1).run_effect::<i64>(&shop.redis, &broken).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, false));
    assert_eq!(shop.order(1).get().await.unwrap(), None);
}

#[tokio::test]
async fn keys_in_another_slot_are_refused_before_anything_is_sent() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let elsewhere = Effect::new(DEDUCT).key("stock:{chair}").arg(1);
    let error = shop.order(1).run_effect::<i64>(&shop.redis, &elsewhere).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, false));
    assert!(error.message().contains("`stock:{chair}` lies in another slot"), "{error}");
}

#[tokio::test]
async fn an_effect_for_repeats_only_is_refused_and_does_not_happen() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(1);
    let order = shop.order(1).repeats_only();
    let error = order.run_effect::<i64>(&shop.redis, &effect).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, false));
    assert!(error.message().contains("`repeats_only`"), "{error}");
    assert_eq!((shop.stock().await, shop.order(1).get().await.unwrap()), (10, None));
}

#[tokio::test]
async fn an_effect_of_other_arguments_is_a_mismatch() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let run = |count: i64| {
        let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(count);
        let payload = idempotent_runtime::Fingerprint::of(&count);
        let order = shop.order(1).fingerprint(payload);
        let redis = shop.redis.clone();
        async move { order.run_effect::<i64>(&redis, &effect).await }
    };
    run(1).await.unwrap();
    assert_eq!(run(2).await.unwrap_err().kind(), ErrorKind::Mismatch);
}

#[tokio::test]
async fn a_refusal_binds_its_arguments_where_that_is_switched_on() {
    for binary in binaries() {
        for bind in [false, true] {
            let shop = Shop::open(RedisServer::start_with(&binary, &[]), 2).await;
            let run = |count: i64| {
                let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(count);
                let payload = idempotent_runtime::Fingerprint::of(&count);
                let order = shop.order(1).fingerprint(payload).bind_payload_after_failure(bind);
                let redis = shop.redis.clone();
                async move { order.run_effect::<i64>(&redis, &effect).await }
            };
            for _ in 0..2 {
                assert!(matches!(run(3).await.unwrap(), EffectOutcome::Refused { .. }));
            }
            match bind {
                false => assert_eq!(applied(run(2).await), (0, false)),
                true => assert_eq!(run(2).await.unwrap_err().kind(), ErrorKind::Mismatch),
            }
        }
    }
}

#[tokio::test]
async fn a_full_server_refuses_an_effect_before_it_happens() {
    let mut shop = Shop::open(RedisServer::start(), 10).await;
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory", "1"])
        .query_async(&mut shop.connection)
        .await
        .unwrap();
    let error = shop.deduct(1, 1).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreFull, false));
    assert_eq!(shop.stock().await, 10);
}

#[tokio::test]
async fn a_string_of_another_program_is_no_free_key_even_if_it_is_empty() {
    for foreign in ["", "text"] {
        let mut shop = Shop::open(RedisServer::start(), 10).await;
        assert_eq!(applied(shop.deduct(1, 3).await), (7, false));
        let (mut keys, mut put, mut get) =
            (redis::cmd("KEYS"), redis::cmd("SET"), redis::cmd("GET"));
        keys.arg("*stock.deduct*");
        let [name]: [String; 1] = keys.query_async(&mut shop.connection).await.unwrap();
        put.arg(&name).arg(foreign);
        let () = put.query_async(&mut shop.connection).await.unwrap();
        let error = shop.deduct(1, 3).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Undecodable, false));
        assert_eq!(shop.stock().await, 7);
        get.arg(&name);
        let kept: String = get.query_async(&mut shop.connection).await.unwrap();
        assert_eq!(kept, foreign);
    }
}

/// The record would lie where no call of the instance looks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_on_another_store_than_its_instances_is_refused() {
    let shop = Shop::open(RedisServer::start(), 10).await;
    let other = RedisStore::connect(&shop._server.url()).await.unwrap();
    let effect = Effect::new(DEDUCT).key("stock:{lamp}").arg(3);
    let error = shop.order(1).run_effect::<i64>(&other, &effect).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Misconfigured, false));
    assert!(error.to_string().contains("help: give it a clone"), "{error}");
    assert_eq!(shop.stock().await, 10);
}
