//! Commits that fail, are lost on their way, or whose answer is lost: the caller is told the truth.

use super::shop::{Charged, Shop, Tx};
use crate::exactly_once::unique;
use crate::proxy::Fault;
use idempotent_runtime::{Config, ErrorKind};
use idempotent_sql::{Isolation, TransactExt as _};
use std::time::Duration;

fn is_commit(text: &str) -> bool {
    text == "COMMIT"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_cut_off_is_found_out() {
    let (shop, key) = (Shop::open().await, unique("cut after"));
    shop.data.strike(is_commit, Fault::CutAfter);
    let charged = shop.charge(&key).await.unwrap();
    assert!(shop.data.has_struck());
    assert_eq!((charged.value, charged.replayed), (1, false));
    assert_eq!(shop.rows(&key).await, 1);
    shop.ends(&key).await;
    assert_eq!(shop.bodies.ran(&key), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_found_out() {
    let (shop, key) = (Shop::open().await, unique("cut before"));
    shop.data.strike(is_commit, Fault::CutBefore);
    let error = shop.charge(&key).await.unwrap_err().refusal();
    assert!(shop.data.has_struck());
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    assert!(error.body_ran() && error.is_retryable(), "{error}");
    assert_eq!(shop.rows(&key).await, 0);
    shop.ends(&key).await;
    assert_eq!(shop.bodies.ran(&key), 2);
}

/// Nothing comes back on the connection, and it stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_found_out() {
    let config = Config::new().with_lease(Duration::from_secs(1));
    let (shop, key) = (Shop::with(5, config).await, unique("lost reply"));
    shop.data.strike(is_commit, Fault::LoseReply);
    let patience = Duration::from_secs(10);
    let charged = tokio::time::timeout(patience, shop.charge(&key)).await.expect("an answer");
    assert!(shop.data.has_struck());
    assert_eq!(charged.unwrap().value, 1);
    assert_eq!(shop.rows(&key).await, 1);
    shop.ends(&key).await;
    assert_eq!(shop.bodies.ran(&key), 1);
}

/// The server waits for a commit that does not come, and holds the key meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_lost_on_an_open_connection_is_rolled_back_in_time() {
    let config = Config::new().with_lease(Duration::from_secs(1));
    let config = config.with_max_run(Duration::from_secs(3));
    let (shop, key) = (Shop::with(5, config).await, unique("lost request"));
    shop.data.strike(is_commit, Fault::LoseRequest);
    let patience = Duration::from_secs(10);
    let charged = tokio::time::timeout(patience, shop.charge(&key)).await.expect("an answer");
    assert!(shop.data.has_struck());
    let error = charged.unwrap_err().refusal();
    let kinds = [ErrorKind::Indeterminate, ErrorKind::StoreUnavailable];
    assert!(kinds.contains(&error.kind()) && error.body_ran(), "{error}");
    assert_eq!(shop.rows(&key).await, 0);
    shop.ends(&key).await;
    assert_eq!(shop.bodies.ran(&key), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_cannot_be_found_out_is_unknown_until_the_next_call() {
    for (fault, rows) in [(Fault::CutAfter, 1), (Fault::CutBefore, 0)] {
        let (shop, key) = (Shop::open().await, unique("unreachable"));
        shop.data.strike(is_commit, fault);
        let charging = shop.op(&key).transact(&shop.pool, async |mut tx: Tx| {
            let id = shop.write(&mut tx, &key).await?;
            shop.records.go_down();
            Ok(id)
        });
        let error = charging.detailed().await.unwrap_err();
        let Charged::Refused(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
        assert!(error.body_ran() && error.to_string().contains("not answered"), "{error}");
        shop.records.come_up();
        assert_eq!(shop.rows(&key).await, rows, "{fault:?}");
        shop.ends(&key).await;
        assert_eq!(shop.bodies.ran(&key), 2 - usize::try_from(rows).unwrap(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_of_a_transaction_may_be_cut_off() {
    let shop = Shop::open().await;
    shop.charge("warm").await.unwrap();
    shop.data.take_messages();
    shop.charge("counted").await.unwrap();
    let messages = shop.data.take_messages();
    assert!(messages.len() >= 4, "{messages:#?}");
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        for nth in 0..messages.len() {
            let key = unique(&format!("{fault:?} {nth}"));
            let count = std::sync::atomic::AtomicUsize::new(0);
            let is_nth =
                move |_: &str| count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == nth;
            shop.data.strike(is_nth, fault);
            let charged = shop.charge(&key).await;
            let rows = shop.rows(&key).await;
            match charged {
                Ok(_) => assert_eq!(rows, 1, "{key}"),
                Err(error) => {
                    assert_eq!(rows, 0, "{key}: {error:?}");
                    assert_ne!(error.kind(), Some(ErrorKind::Indeterminate), "{key}: {error:?}");
                }
            }
            shop.ends(&key).await;
            assert!(shop.data.has_struck(), "{key}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_before_the_commit_leaves_nothing() {
    let (shop, key) = (Shop::open().await, unique("terminated"));
    let charging = shop.op(&key).transact(&shop.pool, async |mut tx: Tx| {
        let id = shop.write(&mut tx, &key).await?;
        let (pid,): (i32,) = sqlx::query_as("SELECT pg_backend_pid()").fetch_one(&mut *tx).await?;
        assert_eq!(shop.site.terminate(&format!("pid = {pid}")).await, 1);
        Ok(id)
    });
    let error: Charged = charging.detailed().await.unwrap_err();
    assert_eq!(error.kind(), Some(ErrorKind::StoreUnavailable), "{error:?}");
    assert!(error.refusal().body_ran());
    assert_eq!(shop.rows(&key).await, 0);
    shop.ends(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_constraint_that_fails_at_the_commit_frees_the_key() {
    let (shop, key) = (Shop::open().await, unique("deferred"));
    let constraint = "CREATE TABLE paid (id bigint PRIMARY KEY); \
                      CREATE TABLE receipt (paid bigint REFERENCES paid \
                      DEFERRABLE INITIALLY DEFERRED)";
    shop.site.direct.batch_execute(constraint).await.unwrap();
    let charging = shop.op(&key).transact(&shop.pool, async |mut tx: Tx| {
        let id = shop.write(&mut tx, &key).await?;
        sqlx::query("INSERT INTO receipt VALUES (7)").execute(&mut *tx).await?;
        Ok(id)
    });
    let error: Charged = charging.detailed().await.unwrap_err();
    let error = error.refusal();
    assert!(error.body_ran(), "{error}");
    assert!(error.to_string().contains("violates foreign key constraint"), "{error}");
    assert_eq!(shop.rows(&key).await, 0);
    assert!(shop.op(&key).get().await.unwrap().is_none());
    shop.ends(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_that_the_body_swallows_commits_nothing() {
    let (shop, key) = (Shop::open().await, unique("swallowed"));
    let charging = shop.op(&key).transact(&shop.pool, async |mut tx: Tx| {
        let id = shop.write(&mut tx, &key).await?;
        let refused = sqlx::query("SELECT 1 / 0").execute(&mut *tx).await;
        assert!(refused.is_err());
        Ok(id)
    });
    let error: Charged = charging.detailed().await.unwrap_err();
    let error = error.refusal();
    assert!(error.body_ran(), "{error}");
    assert_eq!(shop.rows(&key).await, 0);
    assert!(shop.op(&key).get().await.unwrap().is_none());
    shop.ends(&key).await;
}

/// The commit itself loses twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_loses_a_race_is_repeated_with_its_body() {
    let (shop, key) = (Shop::open().await, unique("lost race"));
    let trigger = "CREATE SEQUENCE commits; \
         CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('commits') <= 2 THEN RAISE 'lost' USING ERRCODE = '40001'; END IF; \
         RETURN NEW; END $$; \
         CREATE CONSTRAINT TRIGGER lose AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION lose()";
    shop.site.direct.batch_execute(trigger).await.unwrap();
    let charged = shop.charge(&key).await.unwrap();
    assert_eq!((charged.value, charged.replayed), (3, false));
    assert_eq!((shop.rows(&key).await, shop.bodies.ran(&key)), (1, 3));
    // One that loses for ever is given up on.
    shop.site.direct.batch_execute("ALTER SEQUENCE commits INCREMENT -1").await.unwrap();
    let key = unique("always lost");
    let error = shop.charge(&key).await.unwrap_err().refusal();
    assert!(error.body_ran() && error.is_retryable(), "{error}");
    assert_eq!(shop.rows(&key).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_that_cannot_be_serialized_are_repeated_until_all_apply() {
    const CALLS: usize = 12;
    let shop = std::sync::Arc::new(Shop::with(6, Config::new()).await);
    let calls: Vec<_> = (0..CALLS)
        .map(|call| {
            let shop = std::sync::Arc::clone(&shop);
            tokio::spawn(async move {
                let key = format!("increment {call}");
                let body = async |mut tx: Tx| {
                    shop.bodies.record("all");
                    let (amount,): (i64,) =
                        sqlx::query_as("SELECT amount FROM account WHERE id = 1")
                            .fetch_one(&mut *tx)
                            .await?;
                    sqlx::query("UPDATE account SET amount = $1 WHERE id = 1")
                        .bind(amount + 1)
                        .execute(&mut *tx)
                        .await?;
                    Ok::<_, Charged>(amount)
                };
                // Each call gives up after some rounds; its caller calls again.
                loop {
                    let operation = shop.op(&key).transact(&shop.pool, body);
                    let operation = operation.isolation(Isolation::Serializable);
                    match operation.repeat_if(Charged::is_lost_race).detailed().await {
                        Ok(answer) => return answer.value,
                        Err(error) if error.is_lost_race() => {}
                        Err(Charged::Refused(error)) if error.is_retryable() => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..CALLS as i64).collect::<Vec<_>>(), "an increment was lost");
    assert_eq!(shop.site.number("SELECT amount FROM account WHERE id = 1").await, CALLS as i64);
    assert!(shop.bodies.ran("all") > CALLS, "no body was repeated");
}
