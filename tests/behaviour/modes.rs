//! Reject, strong and window, through the attribute.

use idempotent_runtime::store::State;
use idempotent_runtime::testing::{Ledger, scoped};
use idempotent_runtime::{Abandon, Error, ErrorKind, Fingerprint, Mode, Resolution, idempotent};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use support::{EXPIRE, both, local, until};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Failure {
    Declined,
    Timeout,
    Refused(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error.message().to_owned())
    }
}

#[idempotent(key = "id", mode = "reject", message = "the order exists", name = "reject")]
async fn reject(ledger: &Ledger, id: u64) -> Result<std::rc::Rc<u64>, Failure> {
    // Neither `Serialize` nor `Send`: nothing of it is kept.
    Ok(std::rc::Rc::new(ledger.record(id.to_string()) as u64))
}

#[idempotent(key = "id", mode = "window", expire = "5s", name = "window")]
async fn window(ledger: &Ledger, id: u64) -> Result<usize, Error> {
    Ok(ledger.record(id.to_string()))
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer() {
    for bench in both() {
        assert_eq!(bench.run().await.unwrap(), 1);
        assert_eq!(bench.run().await.unwrap(), 1);
        assert_eq!(bench.runs(), 1);
    }
}

#[tokio::test]
async fn a_detailed_run_tells_where_the_answer_comes_from() {
    for bench in both() {
        let run = || bench.op().run_detailed(async { Ok::<_, Error>(bench.ledger.record("k")) });
        let first = run().await.unwrap();
        assert_eq!((first.value, first.replayed, first.attempt), (1, false, 1));
        let again = run().await.unwrap();
        assert_eq!((again.value, again.replayed, again.attempt), (1, true, 1));
    }
}

#[tokio::test]
async fn reject_mode_turns_a_repeat_away_with_its_message() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            assert_eq!(*reject(&bench.ledger, 1).await.unwrap(), 1);
            let refused = reject(&bench.ledger, 1).await.unwrap_err();
            assert_eq!(refused, Failure::Refused("the order exists".into()));
            assert_eq!(*reject(&bench.ledger, 2).await.unwrap(), 1);
        })
        .await;
    }
}

#[tokio::test]
async fn reject_mode_never_waits_for_a_body() {
    for bench in both() {
        let running = bench.hang();
        until(|| bench.runs() == 1).await;
        let refused = bench.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(1) }).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InProgress);
        assert!(!error.body_ran() && error.is_retryable() && error.retry_after().is_some());
        running.abort();
    }
}

#[tokio::test]
async fn a_window_stays_taken_until_it_is_over_and_no_longer() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            window(&bench.ledger, 1).await.unwrap();
            bench.clock.advance(Duration::from_millis(4_999));
            let error = window(&bench.ledger, 1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Duplicate);
            assert_eq!(error.retry_after(), Some(Duration::from_millis(1)));
            bench.clock.advance(Duration::from_millis(1));
            assert_eq!(window(&bench.ledger, 1).await.unwrap(), 2);
        })
        .await;
    }
}

#[tokio::test]
async fn a_window_is_not_freed_by_an_error() {
    for bench in both() {
        let window = || bench.op().mode(Mode::Window).expire(Duration::from_secs(5));
        let failing = async { Err::<u8, _>(Failure::Timeout) };
        assert_eq!(window().run(failing).await.unwrap_err(), Failure::Timeout);
        let again = window().run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Duplicate);
    }
}

#[tokio::test]
async fn an_error_frees_the_key() {
    for bench in both() {
        let fail = bench.op().run(async { Err::<usize, _>(Failure::Timeout) });
        assert_eq!(fail.await.unwrap_err(), Failure::Timeout);
        let next = bench.op().run_detailed(async { Ok::<_, Error>(7) }).await.unwrap();
        assert_eq!((next.value, next.attempt), (7, 2));
    }
}

#[idempotent(
    key = "id",
    mode = "reject",
    final_errors = is_declined,
    name = "final"
)]
async fn charge(ledger: &Ledger, id: u64, error: Failure) -> Result<(), Failure> {
    ledger.record(id.to_string());
    Err(error)
}

fn is_declined(error: &Failure) -> bool {
    *error == Failure::Declined
}

#[tokio::test]
async fn a_final_error_is_replayed_in_reject_mode_too_and_others_free_the_key() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            for _ in 0..2 {
                let error = charge(&bench.ledger, 1, Failure::Declined).await.unwrap_err();
                assert_eq!(error, Failure::Declined);
                let error = charge(&bench.ledger, 2, Failure::Timeout).await.unwrap_err();
                assert_eq!(error, Failure::Timeout);
            }
        })
        .await;
        assert_eq!((bench.ledger.ran("1"), bench.ledger.ran("2")), (1, 2));
    }
}

#[tokio::test]
async fn retention_is_counted_from_completion() {
    for bench in both() {
        bench.run().await.unwrap();
        bench.clock.advance(EXPIRE - Duration::from_millis(1));
        assert_eq!(bench.run().await.unwrap(), 1);
        bench.clock.advance(Duration::from_millis(1));
        assert_eq!(bench.run().await.unwrap(), 2);
    }
}

#[idempotent(key = "id", mode = "strong", expire_with = lifetime, name = "expire_with")]
async fn quote(ledger: &Ledger, id: u64, seconds: u64) -> Result<u64, Error> {
    ledger.record(id.to_string());
    Ok(seconds)
}

fn lifetime(seconds: &u64) -> Duration {
    Duration::from_secs(*seconds)
}

#[tokio::test]
async fn the_value_can_choose_how_long_it_is_kept() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            quote(&bench.ledger, 1, 10).await.unwrap();
            bench.clock.advance(Duration::from_secs(9));
            quote(&bench.ledger, 1, 10).await.unwrap();
            assert_eq!(bench.ledger.ran("1"), 1);
            bench.clock.advance(Duration::from_secs(1));
            quote(&bench.ledger, 1, 10).await.unwrap();
            assert_eq!(bench.ledger.ran("1"), 2);
        })
        .await;
    }
}

#[tokio::test]
async fn a_value_kept_for_no_time_frees_the_key() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            quote(&bench.ledger, 1, 0).await.unwrap();
            quote(&bench.ledger, 1, 0).await.unwrap();
        })
        .await;
        assert_eq!(bench.ledger.ran("1"), 2);
    }
}

#[idempotent(key = "id", fingerprint = "cents", mode = "strong", name = "fingerprint")]
async fn pay(id: u64, cents: u64) -> Result<u64, Error> {
    Ok(id + cents)
}

#[tokio::test]
async fn another_payload_under_the_same_key_is_a_mismatch() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            pay(1, 100).await.unwrap();
            assert_eq!(pay(1, 100).await.unwrap(), 101);
            let error = pay(1, 200).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            assert!(!error.is_retryable());
        })
        .await;
    }
}

#[tokio::test]
async fn another_payload_is_a_mismatch_while_the_first_one_runs() {
    for bench in both() {
        let op = |payload: &str| bench.op().fingerprint(Fingerprint::of(payload));
        let (hold, held) = tokio::sync::oneshot::channel::<()>();
        let first = op("one").run(async {
            bench.ledger.record("k");
            held.await.unwrap();
            Ok::<u8, Error>(1)
        });
        let second = async {
            until(|| bench.runs() == 1).await;
            let error = op("two").run(async { Ok::<u8, Error>(2) }).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch);
            hold.send(()).unwrap();
        };
        assert_eq!(tokio::join!(first, second).0.unwrap(), 1);
    }
}

static REPLAYED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[idempotent(key = "id", mode = "strong", on_replay = note, name = "on_replay")]
async fn greet(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn note(value: &u64) {
    REPLAYED.fetch_add(*value, std::sync::atomic::Ordering::Relaxed);
}

#[tokio::test]
async fn on_replay_sees_replays_only() {
    let bench = local();
    scoped(bench.idem.clone(), async {
        greet(5).await.unwrap();
        assert_eq!(REPLAYED.load(std::sync::atomic::Ordering::Relaxed), 0);
        greet(5).await.unwrap();
        greet(5).await.unwrap();
        assert_eq!(REPLAYED.load(std::sync::atomic::Ordering::Relaxed), 10);
    })
    .await;
}

#[tokio::test]
async fn a_blocked_key_stays_closed_until_it_is_resolved() {
    for bench in both() {
        let op = || bench.op().abandon(Abandon::Block);
        let started = op().run(async {
            bench.ledger.record("k");
            std::future::pending::<Result<u8, Error>>().await
        });
        assert!(support::poll_at_most(10, started).await.is_none());
        support::until_async(|| async {
            let record = bench.op().get().await.unwrap();
            record.is_some_and(|record| record.head.state == State::Abandoned)
        })
        .await;
        bench.clock.advance(EXPIRE * 2);
        let error = op().run(async { Ok::<u8, Error>(1) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        op().resolve(Resolution::Succeeded(Some(&9_u8))).await.unwrap();
        assert_eq!(op().run(async { Ok::<u8, Error>(1) }).await.unwrap(), 9);
        assert_eq!(bench.runs(), 1);
    }
}

#[idempotent(
    key = "id",
    mode = "strong",
    expire = "10s",
    expire_with = lifetime,
    final_errors = is_declined,
    name = "expire_beside_expire_with"
)]
async fn quote_or_refuse(ledger: &Ledger, id: u64) -> Result<u64, Failure> {
    ledger.record(id.to_string());
    if id == 0 { Err(Failure::Declined) } else { Ok(20) }
}

#[tokio::test]
async fn expire_with_decides_on_values_and_expire_on_final_errors() {
    for bench in both() {
        scoped(bench.idem.clone(), async {
            for _ in 0..2 {
                quote_or_refuse(&bench.ledger, 0).await.unwrap_err();
                quote_or_refuse(&bench.ledger, 1).await.unwrap();
                bench.clock.advance(Duration::from_secs(9));
            }
            assert_eq!((bench.ledger.ran("0"), bench.ledger.ran("1")), (1, 1));
            bench.clock.advance(Duration::from_secs(1));
            quote_or_refuse(&bench.ledger, 0).await.unwrap_err();
            quote_or_refuse(&bench.ledger, 1).await.unwrap();
            assert_eq!((bench.ledger.ran("0"), bench.ledger.ran("1")), (2, 1));
        })
        .await;
    }
}
