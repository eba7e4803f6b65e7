//! Keys that a transaction holds, and others that want them: plain attempts, other transactions,
//! callers that go away.

use super::shop::{Charged, Shop, Tx};
use super::subject::all;
use super::within::charge as charge_within;
use crate::exactly_once::unique;
use crate::proxy::Fault;
use idempotent_runtime::testing::scoped;
use idempotent_runtime::{Begin, Config, ErrorKind, Idempotency, Mode};
use idempotent_sql::{Isolation, PostgresStore, TransactExt as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{until, until_async};
use tokio::sync::Notify;

const SHORT: Duration = Duration::from_millis(300);
/// Long enough for everything that ends by itself.
const PATIENCE: Duration = Duration::from_secs(20);

impl Shop {
    /// Another process: an instance without connections in common.
    async fn other(&self, config: Config) -> Idempotency {
        let store = PostgresStore::connect(&self.site.database.url()).await.unwrap();
        Idempotency::builder().store(store).config(config.with_mode(Mode::Strong)).build().unwrap()
    }
}

/// A transaction that holds a key until it is told to end.
struct Holder {
    go_on: Arc<Notify>,
    call: tokio::task::JoinHandle<Result<i64, Charged>>,
}

impl Holder {
    async fn start(shop: &Arc<Shop>, key: &str) -> Self {
        let (go_on, before) = (Arc::new(Notify::new()), shop.bodies.ran(key));
        let (waits, holder, held) = (Arc::clone(&go_on), Arc::clone(shop), key.to_owned());
        let call = tokio::spawn(async move {
            let body = async |mut tx: Tx| {
                let id = holder.write(&mut tx, &held).await?;
                waits.notified().await;
                Ok::<_, Charged>(id)
            };
            holder.op(&held).transact(&holder.pool, body).await
        });
        until(|| shop.bodies.ran(key) > before).await;
        Self { go_on, call }
    }

    async fn end(self) -> Result<i64, Charged> {
        self.go_on.notify_one();
        self.call.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_attempt_does_not_begin_while_a_transaction_has_the_key() {
    let (shop, key) = (Arc::new(Shop::open().await), unique("open"));
    let other = shop.other(Config::new()).await;
    let holder = Holder::start(&shop, &key).await;
    for mode in [Mode::Reject, Mode::Strong] {
        let plain = other.operation("charge").key(&*key).mode(mode).wait(Duration::ZERO);
        let error = plain.run(async { Ok::<i64, idempotent_runtime::Error>(-1) }).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InProgress, "{mode:?}");
    }
    // One that waits gets the answer of the transaction.
    let plain = other.operation("charge").key(&*key).mode(Mode::Strong).wait(SHORT * 100);
    let waits = plain.run(async { Ok::<i64, idempotent_runtime::Error>(-1) });
    let ends = async {
        // Longer than a race between two callers is waited for.
        tokio::time::sleep(SHORT * 4).await;
        holder.end().await
    };
    let (waited, ended) = tokio::join!(waits, ends);
    assert_eq!((waited.unwrap(), ended.unwrap()), (1, 1));
    assert_eq!(shop.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_attempt_whose_lease_ran_out_is_taken_over_and_its_completion_is_superseded() {
    let (shop, key) = (Arc::new(Shop::open().await), unique("taken over"));
    let other = shop.other(Config::new()).await;
    let plain = other.operation("charge").key(&*key).mode(Mode::Strong);
    let Begin::Fresh(attempt) = plain.begin().await.unwrap() else { panic!("it is free") };
    // Its lease is over: the process was stopped for so long.
    let stopped = "UPDATE idempotent_records SET lease_ms = 1, linger_ms = 600000, \
                   expires_at = clock_timestamp() + interval '10 minutes'";
    shop.site.direct.batch_execute(stopped).await.unwrap();
    let charged = shop.charge(&key).await.unwrap();
    assert_eq!((charged.value, charged.replayed), (1, false));
    let late = attempt.complete(&-1_i64).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Superseded, "{late}");
    assert_eq!(shop.charge(&key).await.unwrap().value, 1);
    assert_eq!(shop.rows(&key).await, 1);
}

/// The completion comes while the transaction that takes over is open, and is first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_comes_before_the_commit_wins_and_the_rows_are_rolled_back() {
    let (shop, key) = (Arc::new(Shop::open().await), unique("overtaken"));
    let other = shop.other(Config::new()).await;
    let plain = other.operation("charge").key(&*key).mode(Mode::Strong);
    let Begin::Fresh(attempt) = plain.begin().await.unwrap() else { panic!("it is free") };
    let stopped = "UPDATE idempotent_records SET lease_ms = 1, linger_ms = 600000, \
                   expires_at = clock_timestamp() + interval '10 minutes'";
    shop.site.direct.batch_execute(stopped).await.unwrap();
    let holder = Holder::start(&shop, &key).await;
    let late = attempt.complete(&-1_i64).await;
    let charged = holder.end().await.unwrap();
    match late {
        Ok(()) => assert_eq!((charged, shop.rows(&key).await), (-1, 0)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Superseded, "{error}");
            assert_eq!((charged, shop.rows(&key).await), (1, 1));
        }
    }
    assert_eq!(shop.charge(&key).await.unwrap().value, charged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_lasts_longer_than_lease_and_retention_is_committed() {
    let config = Config::new().with_lease(SHORT).with_max_run(SHORT * 100);
    let (shop, key) = (Arc::new(Shop::with(5, config).await), unique("long"));
    let asked = Notify::new();
    let body = async |mut tx: Tx| {
        let id = shop.write(&mut tx, &key).await?;
        asked.notified().await;
        Ok::<_, Charged>(id)
    };
    let operation = shop.op(&key).expire(SHORT * 2);
    let other = shop.other(Config::new().with_wait(Duration::ZERO)).await;
    let meanwhile = async {
        tokio::time::sleep(SHORT * 4).await;
        let begun = other.operation("charge").key(&*key).begin().await;
        assert_eq!(begun.unwrap_err().kind(), ErrorKind::InProgress);
        other.store().maintain().await;
        asked.notify_one();
    };
    let (charged, ()) = tokio::join!(operation.transact(&shop.pool, body).detailed(), meanwhile);
    assert_eq!(charged.unwrap().value, 1);
    assert_eq!(shop.rows(&key).await, 1);
    // Its retention begins with the commit.
    assert!(shop.op(&key).get().await.unwrap().is_some());
}

/// A replay does not take the key from others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_call_is_answered_while_another_one_is_in_an_open_transaction() {
    let (shop, key) = (Shop::open().await, unique("replays"));
    let mut first = shop.pool.begin().await.unwrap();
    let id = scoped(shop.idem.clone(), charge_within(&mut first, &key, false)).await.unwrap();
    first.commit().await.unwrap();
    // The second stays open after it was answered.
    let mut second = shop.pool.begin().await.unwrap();
    let replayed = scoped(shop.idem.clone(), charge_within(&mut second, &key, false)).await;
    assert_eq!(replayed.unwrap(), id);
    for config in [Config::new().with_wait(Duration::ZERO), Config::new()] {
        shop.idem.reconfigure(config).unwrap();
        let mut third = shop.pool.begin().await.unwrap();
        let asked = Instant::now();
        let replayed = scoped(shop.idem.clone(), charge_within(&mut third, &key, false)).await;
        assert_eq!(replayed.unwrap(), id);
        assert!(asked.elapsed() < Duration::from_secs(2), "it waited for {:?}", asked.elapsed());
        third.commit().await.unwrap();
    }
    second.commit().await.unwrap();
    assert_eq!(shop.rows(&key).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeat_calls_in_many_processes_are_not_refused() {
    let (shop, key) = (Arc::new(Shop::open().await), unique("not refused"));
    shop.charge(&key).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (shop, key) = (Arc::clone(&shop), key.clone());
        let other = shop.other(Config::new().with_wait(Duration::ZERO)).await;
        calls.spawn(async move {
            for _ in 0..25 {
                let body = async |mut tx: Tx| shop.write(&mut tx, &key).await;
                let operation = other.operation("charge").key(&*key);
                let answer = operation.transact(&shop.pool, body).detailed().await;
                assert!(answer.unwrap().replayed);
            }
        });
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
    assert_eq!(shop.rows(&key).await, 1);
}

/// Callers that wait for another process and go away do not keep the connections of the pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_wait_and_go_away_leave_the_pool_to_others() {
    let (shop, key) = (Arc::new(Shop::with(3, Config::new()).await), unique("left"));
    let other = shop.other(Config::new()).await;
    let elsewhere = sqlx::PgPool::connect(&shop.site.database.url()).await.unwrap();
    let go_on = Arc::new(Notify::new());
    let holder = {
        let (go_on, key, shop) = (Arc::clone(&go_on), key.clone(), Arc::clone(&shop));
        tokio::spawn(async move {
            let body = async |mut tx: Tx| {
                let id = shop.write(&mut tx, &key).await?;
                go_on.notified().await;
                Ok::<_, Charged>(id)
            };
            other.operation("charge").key(&*key).transact(&elsewhere, body).await
        })
    };
    until(|| shop.bodies.ran(&key) == 1).await;
    for _ in 0..4 {
        let (waits, held) = (Arc::clone(&shop), key.clone());
        shop.data.take_messages();
        let waiter = tokio::spawn(async move { waits.charge(&held).await });
        let waiting = |text: &String| text.contains("pg_advisory_xact_lock");
        until(|| shop.data.take_messages().iter().any(waiting)).await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    let asked = Instant::now();
    shop.charge(&unique("free")).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "held up for {:?}", asked.elapsed());
    go_on.notify_one();
    holder.await.unwrap().unwrap();
    assert_eq!(shop.charge(&key).await.unwrap().value, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_the_key_inside_its_own_body_is_refused() {
    let (shop, key) = (Shop::open().await, unique("reentrant"));
    let body = async |mut tx: Tx| {
        let id = shop.write(&mut tx, &key).await?;
        let plain = async { Ok::<i64, idempotent_runtime::Error>(-1) };
        let inner = shop.op(&key).run(plain).await.unwrap_err();
        assert_eq!(inner.kind(), ErrorKind::Reentrant);
        let inner = shop.charge(&key).await.unwrap_err();
        assert_eq!(inner.kind(), Some(ErrorKind::Reentrant));
        Ok::<_, Charged>(id)
    };
    assert_eq!(shop.op(&key).transact(&shop.pool, body).await.unwrap(), 1);
    assert_eq!((shop.rows(&key).await, shop.bodies.ran(&key)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_the_caller_holds_two_keys_and_ends_them_together() {
    let shop = Shop::open().await;
    let keys = [unique("one"), unique("two")];
    for commits in [false, true] {
        let mut tx = shop.pool.begin().await.unwrap();
        for key in &keys {
            scoped(shop.idem.clone(), charge_within(&mut tx, key, false)).await.unwrap();
        }
        // Within it, a repeat call has the answer.
        scoped(shop.idem.clone(), charge_within(&mut tx, &keys[0], false)).await.unwrap();
        match commits {
            true => tx.commit().await.unwrap(),
            false => tx.rollback().await.unwrap(),
        }
        for key in &keys {
            assert_eq!(shop.rows(key).await, i64::from(commits));
        }
    }
}

/// Dropped after one poll, two polls and so on; the caller then rolls back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_in_a_transaction_of_the_caller_may_be_dropped_anywhere() {
    let shop = Shop::open().await;
    for polls in 1.. {
        let (key, before) = (unique("dropped"), unique("before"));
        let mut tx = shop.pool.begin().await.unwrap();
        let insert = "INSERT INTO ledger (entry) VALUES ($1)";
        sqlx::query(insert).bind(&before).execute(&mut *tx).await.unwrap();
        let call = scoped(shop.idem.clone(), charge_within(&mut tx, &key, false));
        let future = Some(Box::pin(call));
        let done = crate::exactly_once::DroppedAfter { future, polls }.await;
        tx.rollback().await.unwrap();
        assert_eq!((shop.rows(&key).await, shop.rows(&before).await), (0, 0), "{polls} polls");
        // The key is free, and the instance holds nothing.
        until(|| shop.idem.in_flight() == 0).await;
        let mut tx = shop.pool.begin().await.unwrap();
        scoped(shop.idem.clone(), charge_within(&mut tx, &key, false)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(shop.rows(&key).await, 1, "{polls} polls");
        if done {
            assert!(polls > 1, "it never waited");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_above_read_committed_have_one_row() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let shop = Arc::new(Shop::with(8, Config::new()).await);
        let key = unique("isolated");
        let others = [shop.other(Config::new()).await, shop.other(Config::new()).await];
        let mut calls = tokio::task::JoinSet::new();
        for call in 0..12 {
            let (shop, key, other) = (Arc::clone(&shop), key.clone(), others[call % 2].clone());
            calls.spawn(async move {
                let body = async |mut tx: Tx| shop.write(&mut tx, &key).await;
                let operation = other.operation("charge").key(&*key).mode(Mode::Strong);
                let operation = operation.wait(Duration::from_secs(20));
                let operation = operation.transact(&shop.pool, body).isolation(isolation);
                operation.repeat_if(Charged::is_lost_race).await.unwrap()
            });
        }
        let answers = calls.join_all().await;
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        assert_eq!(shop.rows(&key).await, 1);
    }
}

/// A transaction that loses its session lets go of its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_holder_is_ended_goes_to_the_next_caller() {
    let (shop, key) = (Arc::new(Shop::open().await), unique("next"));
    let holder = Holder::start(&shop, &key).await;
    let other = shop.other(Config::new()).await;
    let waiter = {
        let (shop, key) = (Arc::clone(&shop), key.clone());
        tokio::spawn(async move {
            let body = async |mut tx: Tx| shop.write(&mut tx, &key).await;
            let operation = other.operation("charge").key(&*key).mode(Mode::Strong);
            operation.wait(Duration::from_secs(20)).transact(&shop.pool, body).await
        })
    };
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid \
                 WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
    until_async(|| async { shop.site.number(waits).await > 0 }).await;
    let idle = "state = 'idle in transaction' AND application_name <> 'idempotent'";
    assert_eq!(shop.site.terminate(idle).await, 1);
    assert_eq!(waiter.await.unwrap().unwrap(), 2);
    let ended = holder.end().await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(shop.rows(&key).await, 1);
}

/// A third of the bodies fail after their insert, in two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_with_failing_bodies_have_one_row_each_when_serializable() {
    let shop = Arc::new(Shop::with(10, Config::new()).await);
    let others = [shop.other(Config::new()).await, shop.other(Config::new()).await];
    let charge = async |key: &str, caller: usize| {
        let body = async |mut tx: Tx| {
            let id = shop.write(&mut tx, key).await?;
            match caller % 3 {
                0 => Err(Charged::Sql(sqlx::Error::WorkerCrashed)),
                _ => Ok(id),
            }
        };
        let operation = others[caller % 2].operation("charge").key(key);
        let call = operation.wait(Duration::from_secs(30)).transact(&shop.pool, body);
        call.isolation(Isolation::Serializable).repeat_if(Charged::is_lost_race).await
    };
    let keys: Vec<_> = (0..support::size(20, 60)).map(|_| unique("many")).collect();
    let callers = keys.iter().flat_map(|key| (0..16).map(move |caller| (key, caller)));
    let answers = all(callers.map(|(key, caller)| charge(key, caller))).await;
    for answer in &answers {
        match answer {
            Ok(_) | Err(Charged::Sql(sqlx::Error::WorkerCrashed)) => {}
            // Two attempts that it waited for failed, or too many races were lost.
            Err(Charged::Refused(error)) if error.is_retryable() => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    for key in &keys {
        until_async(|| async { charge(key, 1).await.is_ok() }).await;
        assert_eq!(shop.rows(key).await, 1);
    }
}

/// Nothing comes back on the connection, and it stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_an_answer_is_refused_in_time() {
    let config = Config::new().with_lease(SHORT).with_max_run(PATIENCE);
    let shop = Arc::new(Shop::with(8, config).await);
    // The first is sent three times. When the second is given up, the wait is over too.
    for (claim, times, kind) in [
        ("pg_try_advisory_xact_lock(", 3, ErrorKind::StoreUnavailable),
        ("pg_advisory_xact_lock(", 1, ErrorKind::InProgress),
    ] {
        let key = unique(claim);
        let holder = Holder::start(&shop, &key).await;
        for pool in [false, true] {
            let other = shop.site.process_with(PATIENCE).await;
            let charge = other.idem.operation("charge").key(&*key).lease(SHORT).wait(SHORT);
            let proxy = if pool { &shop.data } else { &other.proxy };
            for _ in 0..times {
                proxy.strike(move |text| text.contains(claim), Fault::LoseReply);
            }
            let charged = async {
                match pool {
                    true => charge.transact(&shop.pool, async |_tx| Ok::<i64, Charged>(-1)).await,
                    false => charge.transact(&other.store, async |_tx| Ok(-1)).await,
                }
            };
            let charged = tokio::time::timeout(PATIENCE, charged).await;
            let error = charged.expect("an answer").unwrap_err().refusal();
            assert!(proxy.has_struck(), "{claim} {pool}");
            assert_eq!(error.kind(), kind, "{claim} {pool}: {error}");
            assert!(!error.body_ran(), "{error}");
        }
        assert_eq!(holder.end().await.unwrap(), 1);
    }
}
