//! Effects exactly once, the same on every database: the record and the rows commit together.

use idempotent_runtime::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The error of a body.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Failed {
    Sql(String),
    Refused(String),
    Busy,
    Declined,
}

impl Failed {
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Declined)
    }

    pub(crate) fn is_refused(&self, kind: &str) -> bool {
        matches!(self, Self::Refused(text) if text.contains(kind))
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(format!("{:?}: {error}", error.kind()))
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error.to_string())
    }
}

/// The behaviour of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Succeeds,
    /// Fails after it has written its row.
    Fails,
    /// The same, with an error that is kept.
    Declines,
    Panics,
    /// Keeps its transaction beyond its end.
    Keeps,
}

/// Polls a future so many times, then drops it. `true` if it was ready before.
pub(crate) struct DroppedAfter<F> {
    pub(crate) future: Option<Pin<Box<F>>>,
    pub(crate) polls: usize,
}

impl<F: Future> Future for DroppedAfter<F> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.polls == 0 {
            self.future = None;
            return Poll::Ready(false);
        }
        self.polls -= 1;
        let Some(future) = &mut self.future else { return Poll::Ready(false) };
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if self.polls == 0 => {
                self.future = None;
                Poll::Ready(false)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{:016x}", rand::random::<u64>())
}

pub(crate) fn answers() -> idempotent_runtime::AnswerPolicy<i64, Failed> {
    idempotent_runtime::AnswerPolicy::kept().final_errors(Failed::is_final)
}

/// A bench on a pool of this type, and a test of each promise.
///
/// The module around it has `async fn bench(connections: u32) -> Bench`, in which the ledger has no
/// rows yet.
macro_rules! exactly_once {
    ($pool:ty, $insert:literal, $count:literal) => {
        use crate::exactly_once::{Body, DroppedAfter, Failed, answers, unique};
        use idempotent_runtime::ambient::{self, Ambient};
        use idempotent_runtime::store::State;
        use idempotent_runtime::testing::Ledger;
        use idempotent_runtime::{Begin, ErrorKind, Idempotency, Mode, Outcome};
        use idempotent_sql::{CommitExt as _, Lent, TransactExt as _};
        use std::sync::{Arc, Mutex};
        use std::time::Duration;

        pub(crate) struct Bench {
            pub(crate) idem: Idempotency,
            pub(crate) pool: $pool,
            pub(crate) bodies: Ledger,
            pub(crate) kept: Mutex<Option<Lent<$pool>>>,
            /// Kept: databases and files end with it.
            pub(crate) _site: Box<dyn Send + Sync>,
        }

        impl Bench {
            pub(crate) async fn charge(
                &self,
                key: &str,
                body: Body,
            ) -> Result<Outcome<i64>, Failed> {
                self.charge_within(Duration::from_secs(20), key, body).await
            }

            pub(crate) async fn charge_within(
                &self,
                wait: Duration,
                key: &str,
                body: Body,
            ) -> Result<Outcome<i64>, Failed> {
                self.idem
                    .operation("charge")
                    .key(key)
                    .mode(Mode::Strong)
                    .wait(wait)
                    .transact(&self.pool, async |mut tx| {
                        let id = i64::try_from(self.bodies.record(key)).unwrap();
                        sqlx::query($insert).bind(key).bind(id).execute(&mut *tx).await?;
                        match body {
                            Body::Succeeds => Ok(id),
                            Body::Fails => Err(Failed::Busy),
                            Body::Declines => Err(Failed::Declined),
                            Body::Panics => panic!("the body panics"),
                            Body::Keeps => {
                                *self.kept.lock().unwrap() = Some(tx);
                                Ok(id)
                            }
                        }
                    })
                    .answers(answers())
                    .detailed()
                    .await
            }

            pub(crate) async fn rows(&self, key: &str) -> i64 {
                let (rows,): (i64,) =
                    sqlx::query_as($count).bind(key).fetch_one(&self.pool).await.unwrap();
                rows
            }

            pub(crate) async fn attempts(&self, key: &str) -> u32 {
                let record = self.idem.operation("charge").key(key).get().await.unwrap();
                record.map_or(0, |record| record.head.attempt.number)
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn repeat_call_gets_the_answer_and_writes_nothing() {
            let (bench, key) = (bench(5).await, unique("repeat"));
            let first = bench.charge(&key, Body::Succeeds).await.unwrap();
            let again = bench.charge(&key, Body::Succeeds).await.unwrap();
            assert_eq!((first.value, first.replayed), (again.value, false));
            assert!(again.replayed);
            assert_eq!((bench.rows(&key).await, bench.bodies.ran(&key)), (1, 1));
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn crowd_of_callers_writes_one_row_and_holds_up_no_other_key() {
            let (bench, key) = (Arc::new(bench(5).await), unique("crowd"));
            let call = |key: &str| {
                let (bench, key) = (Arc::clone(&bench), key.to_owned());
                tokio::spawn(async move { bench.charge(&key, Body::Succeeds).await })
            };
            let crowd: Vec<_> = (0..64).map(|_| call(&key)).collect();
            let others: Vec<_> = (0..8).map(|it| call(&format!("{key}/{it}"))).collect();
            for other in others {
                other.await.unwrap().unwrap();
            }
            for caller in crowd {
                caller.await.unwrap().unwrap();
            }
            assert_eq!((bench.rows(&key).await, bench.bodies.ran(&key)), (1, 1));
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn error_is_rolled_back_and_its_attempt_counted() {
            let (bench, key) = (bench(5).await, unique("error"));
            let failed = bench.charge(&key, Body::Fails).await;
            assert!(matches!(failed, Err(Failed::Busy)), "{failed:?}");
            assert_eq!((bench.rows(&key).await, bench.attempts(&key).await), (0, 1));
            bench.charge(&key, Body::Succeeds).await.unwrap();
            assert_eq!((bench.rows(&key).await, bench.attempts(&key).await), (1, 2));
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn body_that_has_started_as_often_as_it_may_does_not_start_again() {
            let (bench, key) = (bench(5).await, unique("exhausted"));
            let limited = || Ambient::new().max_attempts(2);
            for _ in 0..2 {
                let failed = ambient::scope(limited(), bench.charge(&key, Body::Fails)).await;
                assert!(matches!(failed, Err(Failed::Busy)), "{failed:?}");
            }
            for _ in 0..2 {
                let call = bench.charge(&key, Body::Succeeds);
                let (refused, report) = ambient::reported(limited(), call).await;
                assert!(refused.unwrap_err().is_refused("FailedBefore"));
                assert!(report.unwrap().is_final);
                let record = bench.idem.operation("charge").key(&*key).get().await.unwrap();
                assert_eq!(record.unwrap().head.state, State::FailedFinal);
            }
            assert_eq!((bench.rows(&key).await, bench.bodies.ran(&key)), (0, 2));
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn final_error_is_kept_and_its_rows_are_not() {
            let (bench, key) = (bench(5).await, unique("final"));
            for _ in 0..2 {
                let failed = bench.charge(&key, Body::Declines).await;
                assert!(matches!(failed, Err(Failed::Declined)), "{failed:?}");
            }
            assert_eq!((bench.rows(&key).await, bench.bodies.ran(&key)), (0, 1));
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn panic_is_rolled_back_and_frees_the_key() {
            let (bench, key) = (Arc::new(bench(5).await), unique("panic"));
            let panicked = {
                let (bench, key) = (Arc::clone(&bench), key.clone());
                tokio::spawn(async move { bench.charge(&key, Body::Panics).await })
            };
            assert!(panicked.await.unwrap_err().is_panic());
            bench.charge(&key, Body::Succeeds).await.unwrap();
            assert_eq!(bench.rows(&key).await, 1);
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn body_that_keeps_its_transaction_is_refused_and_rolled_back() {
            let (bench, key) = (bench(5).await, unique("kept"));
            let kept = bench.charge(&key, Body::Keeps).await.unwrap_err();
            assert!(kept.is_refused("the body kept its transaction"), "{kept:?}");
            drop(bench.kept.lock().unwrap().take());
            bench.charge(&key, Body::Succeeds).await.unwrap();
            assert_eq!(bench.rows(&key).await, 1);
        }

        /// Dropped after one poll, two polls and so on, until a call is done.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn call_that_is_dropped_anywhere_leaves_one_row_or_none() {
            let bench = bench(5).await;
            for polls in 1.. {
                let key = unique("dropped");
                let future = Some(Box::pin(bench.charge(&key, Body::Succeeds)));
                let done = DroppedAfter { future, polls }.await;
                let first = bench.bodies.ran(&key);
                let again = bench.charge(&key, Body::Succeeds).await.unwrap();
                assert_eq!(bench.rows(&key).await, 1, "dropped after {polls} polls");
                // Dropped while it commits, it is committed.
                assert!(again.replayed || bench.bodies.ran(&key) > first, "{polls} polls");
                // A server that answers at once, on a busy machine, lets a call end in its first poll.
                assert!(polls < 1_000, "it never waited");
                if done && polls > 1 {
                    break;
                }
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn plain_attempt_in_flight_is_respected() {
            let (bench, key) = (bench(5).await, unique("plain"));
            let plain = bench.idem.operation("charge").key(&*key).mode(Mode::Strong);
            let Begin::Fresh(attempt) = plain.begin().await.unwrap() else { panic!("it is free") };
            let refused = bench.charge_within(Duration::ZERO, &key, Body::Succeeds).await;
            assert!(refused.unwrap_err().is_refused("InProgress"));
            let waits = bench.charge(&key, Body::Succeeds);
            let completes = async { attempt.complete(&7_i64).await.unwrap() };
            let (waited, ()) = tokio::join!(waits, completes);
            assert_eq!(waited.unwrap().value, 7);
            assert_eq!(bench.rows(&key).await, 0);
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn attempt_that_ends_with_a_transaction_commits_its_rows() {
            let (bench, key) = (bench(5).await, unique("fenced"));
            let plain = bench.idem.operation("charge").key(&*key).mode(Mode::Strong);
            let Begin::Fresh(attempt) = plain.begin().await.unwrap() else { panic!("it is free") };
            let mut tx = bench.pool.begin().await.unwrap();
            sqlx::query($insert).bind(&*key).bind(7_i64).execute(&mut *tx).await.unwrap();
            // Spawned: its future is `Send`.
            tokio::spawn(attempt.commit(tx, &7_i64)).await.unwrap().unwrap();
            assert_eq!(bench.rows(&key).await, 1);
            assert_eq!(bench.charge(&key, Body::Succeeds).await.unwrap().value, 7);
            assert_eq!(bench.rows(&key).await, 1);
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn attempt_that_was_superseded_cannot_commit() {
            let (bench, key) = (bench(5).await, unique("superseded"));
            let plain = bench.idem.operation("charge").key(&*key).mode(Mode::Strong);
            let Begin::Fresh(attempt) = plain.begin().await.unwrap() else { panic!("it is free") };
            plain.forget(true).await.unwrap();
            bench.charge(&key, Body::Succeeds).await.unwrap();
            let mut tx = bench.pool.begin().await.unwrap();
            sqlx::query($insert).bind(&*key).bind(7_i64).execute(&mut *tx).await.unwrap();
            let error = attempt.commit(tx, &7_i64).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Superseded);
            assert_eq!(bench.rows(&key).await, 1);
        }

        /// The record of a failed attempt, which says no more than how many there were.
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn record_that_expires_under_a_body_does_not_make_it_run_again() {
            let (bench, key) = (bench(5).await, unique("expires"));
            let charge = bench.idem.operation("charge").key(&*key).mode(Mode::Strong);
            let is_there = async || charge.get().await.unwrap().is_some();
            let call = async |fails: bool| {
                let call = charge.clone().expire(Duration::from_secs(1));
                let body = async |mut tx: Lent<$pool>| {
                    let id = i64::try_from(bench.bodies.record(&key)).unwrap();
                    sqlx::query($insert).bind(&*key).bind(id).execute(&mut *tx).await?;
                    if fails {
                        return Err(Failed::Busy);
                    }
                    assert!(is_there().await || id > 2, "the record has expired before the body");
                    support::until_async(async || !is_there().await).await;
                    Ok(id)
                };
                call.transact(&bench.pool, body).answers(answers()).detailed().await
            };
            assert!(matches!(call(true).await, Err(Failed::Busy)));
            let charged = call(false).await.unwrap();
            assert_eq!((bench.rows(&key).await, bench.bodies.ran(&key)), (1, 2));
            assert_eq!((charged.value, charged.attempt), (2, 2));
            assert!(is_there().await, "its end is recorded");
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn many_keys_with_failing_bodies_have_one_row_each() {
            let bench = Arc::new(bench(5).await);
            let keys: Vec<_> = (0..20).map(|_| unique("many")).collect();
            let calls = keys.iter().flat_map(|key| (0..16).map(move |caller| (key, caller)));
            let calls: Vec<_> = calls
                .map(|(key, caller)| {
                    let (bench, key) = (Arc::clone(&bench), key.clone());
                    let body = if caller % 3 == 0 { Body::Fails } else { Body::Succeeds };
                    tokio::spawn(async move { bench.charge(&key, body).await })
                })
                .collect();
            for call in calls {
                match call.await.unwrap() {
                    Ok(_) | Err(Failed::Busy) => {}
                    Err(error) => assert!(error.is_refused("InProgress"), "{error:?}"),
                }
            }
            for key in &keys {
                bench.charge(key, Body::Succeeds).await.unwrap();
                assert_eq!(bench.rows(key).await, 1);
            }
        }
    };
}

pub(crate) use exactly_once;
