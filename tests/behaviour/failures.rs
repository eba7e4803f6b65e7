//! Attempts that fail while callers wait for them: one of the callers runs next, and none waits for
//! a third attempt.

use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{Begin, Error, ErrorKind, Fingerprint, Mode};
use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{Bench, LEASE, both, neighbour, remote, until};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The end of a call whose body never succeeds.
#[derive(Debug)]
enum Failed {
    Body,
    Refused(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

type Call = JoinHandle<Result<usize, Failed>>;

/// A call whose body runs until it is let go, and then fails.
fn failing(bench: &Bench, go: &Arc<Semaphore>) -> Call {
    let (bench, go) = (bench.clone(), Arc::clone(go));
    tokio::spawn(async move {
        let body = async {
            bench.ledger.record("k");
            go.acquire().await.unwrap().forget();
            Err(Failed::Body)
        };
        bench.op().wait(LEASE).run(body).await
    })
}

/// Lets everything that is ready go as far as it gets.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Lets the body of the moment fail, and waits until `calls` have ended.
async fn fail_until(bench: &Bench, go: &Semaphore, calls: &[Call], ended: usize) {
    let done = || calls.iter().filter(|call| call.is_finished()).count();
    go.add_permits(1);
    until(|| {
        // Callers of another process poll beneath what wakes them.
        bench.clock.advance(Duration::from_millis(1));
        done() >= ended
    })
    .await;
}

struct Ends {
    failed: usize,
    refused: Vec<Error>,
}

async fn ends(calls: Vec<Call>) -> Ends {
    let mut ends = Ends { failed: 0, refused: Vec::new() };
    for call in calls {
        match call.await.unwrap().unwrap_err() {
            Failed::Body => ends.failed += 1,
            Failed::Refused(error) => ends.refused.push(error),
        }
    }
    ends
}

fn assert_gave_up(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InProgress, "{error}");
    assert!(!error.body_ran() && error.is_retryable());
    assert!(error.message().contains("failed"), "{error}");
    // The third pause of the backoff.
    let pause = Duration::from_millis(200)..=Duration::from_millis(400);
    assert!(pause.contains(&error.retry_after().unwrap()), "{error}");
}

#[tokio::test]
async fn callers_that_wait_for_failing_attempts_make_two_runs_whatever_their_number() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let calls: Vec<_> = (0..60).map(|_| failing(&bench, &go)).collect();
        until(|| bench.runs() == 1).await;
        settle().await;
        fail_until(&bench, &go, &calls, 1).await;
        until(|| bench.runs() == 2).await;
        settle().await;
        fail_until(&bench, &go, &calls, 60).await;
        let Ends { failed, refused } = ends(calls).await;
        assert_eq!((failed, refused.len(), bench.runs()), (2, 58, 2));
        refused.iter().for_each(assert_gave_up);
        bench.at_rest().await;
        // A caller that comes afterwards runs.
        assert_eq!(bench.run().await.unwrap(), 3);
    }
}

/// Bodies that end at once, and callers that are slow to wake: those count what ran meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_wake_late_do_not_run_in_their_turn() {
    for bench in (0..5).flat_map(|_| both()) {
        let go = Arc::new(Semaphore::new(0));
        let first = failing(&bench, &go);
        until(|| bench.runs() == 1).await;
        let calls: Vec<_> = (0..200).map(|_| Asking::of(&bench, &go)).collect();
        // Each has asked for the key, and waits for the attempt that holds it.
        until(|| calls.iter().all(Asking::is_pending)).await;
        go.add_permits(1_000);
        let calls = calls.into_iter().map(|asking| asking.call).collect();
        let Ends { failed, refused } = ends(calls).await;
        assert!(matches!(first.await.unwrap(), Err(Failed::Body)));
        assert_eq!((failed, refused.len(), bench.runs()), (1, 199, 2));
        refused.iter().for_each(assert_gave_up);
        bench.at_rest().await;
    }
}

/// A call of which is known that it has been polled, and found the key held.
struct Asking {
    call: Call,
    polled: Arc<AtomicBool>,
}

impl Asking {
    fn of(bench: &Bench, go: &Arc<Semaphore>) -> Self {
        let polled = Arc::new(AtomicBool::new(false));
        let (says, bench, go) = (Arc::clone(&polled), bench.clone(), Arc::clone(go));
        let call = tokio::spawn(async move {
            let body = async {
                bench.ledger.record("k");
                go.acquire().await.unwrap().forget();
                Err(Failed::Body)
            };
            let mut call = std::pin::pin!(bench.op().wait(LEASE).run(body));
            std::future::poll_fn(|context| {
                let answer = call.as_mut().poll(context);
                says.store(true, SeqCst);
                answer
            })
            .await
        });
        Self { call, polled }
    }

    fn is_pending(&self) -> bool {
        self.polled.load(SeqCst) && !self.call.is_finished()
    }
}

#[tokio::test]
async fn the_answer_of_the_second_attempt_goes_to_all_who_wait() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let first = failing(&bench, &go);
        until(|| bench.runs() == 1).await;
        let others: Vec<_> = (0..20).map(|_| bench.spawn()).collect();
        settle().await;
        go.add_permits(1);
        assert!(matches!(first.await.unwrap(), Err(Failed::Body)));
        for other in others {
            assert_eq!(other.await.unwrap().unwrap(), 2);
        }
        assert_eq!(bench.runs(), 2);
    }
}

#[tokio::test]
async fn dropped_and_panicking_bodies_count_as_failed_attempts() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let first = bench.hang();
        until(|| bench.runs() == 1).await;
        let panicking = {
            let bench = bench.clone();
            tokio::spawn(async move {
                let body = async {
                    bench.ledger.record("k");
                    tokio::task::yield_now().await;
                    panic!("as asked for")
                };
                bench.op().wait(LEASE).run::<usize, Failed, _>(body).await
            })
        };
        settle().await;
        let waiting: Vec<_> = (0..5).map(|_| failing(&bench, &go)).collect();
        settle().await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        // Which of the six runs next is not for callers to choose.
        go.add_permits(1);
        until(|| {
            bench.clock.advance(Duration::from_millis(1));
            panicking.is_finished() && waiting.iter().all(JoinHandle::is_finished)
        })
        .await;
        assert_eq!(bench.runs(), 2);
        let _ = panicking.await;
        let Ends { refused, .. } = ends(waiting).await;
        refused.iter().for_each(assert_gave_up);
    }
}

/// The one that is to run next goes away: another one does.
#[tokio::test]
async fn a_waiter_that_goes_as_it_is_to_run_leaves_that_to_another() {
    let bench = remote();
    let go = Arc::new(Semaphore::new(0));
    let first = failing(&bench, &go);
    until(|| bench.runs() == 1).await;
    let mut waiting: Vec<_> = (0..3).map(|_| bench.spawn()).collect();
    settle().await;
    let begin = bench.store.hold_after(Verb::Begin);
    go.add_permits(1);
    assert!(matches!(first.await.unwrap(), Err(Failed::Body)));
    begin.arrived(1).await;
    // One of them has a grant on its way. All but one go, so it is among them or is the last.
    let last = waiting.pop().unwrap();
    waiting.iter().for_each(JoinHandle::abort);
    begin.open();
    assert_eq!(last.await.unwrap().unwrap(), 2);
    bench.at_rest().await;
}

#[tokio::test]
async fn callers_of_another_process_count_what_they_waited_for() {
    let bench = remote();
    let other = neighbour(&bench);
    let go = Arc::new(Semaphore::new(0));
    let mut attempts = 0;
    let held = failing(&bench, &go);
    until(|| bench.runs() == 1).await;
    let calls: Vec<_> = (0..30).map(|_| failing(&other, &go)).collect();
    bench.store.answered(Verb::Watch, 1).await;
    settle().await;
    while !calls.iter().all(JoinHandle::is_finished) {
        attempts += 1;
        go.add_permits(1);
        until(|| {
            bench.clock.advance(Duration::from_millis(1));
            other.runs() >= attempts || calls.iter().all(JoinHandle::is_finished)
        })
        .await;
        settle().await;
    }
    let Ends { failed, refused } = ends(calls).await;
    assert_eq!((failed, other.runs()), (1, 1), "one failed there, one here");
    refused.iter().for_each(assert_gave_up);
    assert!(matches!(held.await.unwrap(), Err(Failed::Body)));
}

/// Callers that are slow between the answer to their `begin` and their first look at the record:
/// each knows which attempt it was told of, and counts from there.
#[tokio::test]
async fn callers_that_look_late_count_what_failed_since_they_asked() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let held = failing(&bench, &go);
        until(|| bench.runs() == 1).await;
        let gate = bench.store.hold(Verb::Get);
        let processes: Vec<_> = (0..5).map(|_| neighbour(&bench)).collect();
        let calls: Vec<_> = processes.iter().map(|process| failing(process, &go)).collect();
        gate.arrived(calls.len()).await;
        // Every body fails at once from here on, and one caller at a time gets to look.
        go.add_permits(100);
        assert!(matches!(held.await.unwrap(), Err(Failed::Body)));
        let done = || calls.iter().filter(|call| call.is_finished()).count();
        for looked in 1..=calls.len() {
            gate.admit(1);
            until(|| done() >= looked).await;
        }
        let Ends { failed, refused } = ends(calls).await;
        assert_eq!((failed, refused.len()), (1, 4));
        refused.iter().for_each(assert_gave_up);
    }
}

/// A free key is bound to no payload, so all who waited count the failed attempt alike.
#[tokio::test]
async fn callers_with_and_without_a_payload_wait_for_the_same_failed_attempts() {
    for bench in both() {
        let go = Arc::new(Semaphore::new(0));
        let held = failing(&bench, &go);
        until(|| bench.runs() == 1).await;
        let one = Fingerprint::of("one");
        let calls: Vec<_> = (0..20)
            .map(|index| {
                let (bench, go) = (bench.clone(), Arc::clone(&go));
                tokio::spawn(async move {
                    let body = async {
                        bench.ledger.record("k");
                        go.acquire().await.unwrap().forget();
                        Err::<usize, _>(Failed::Body)
                    };
                    let op = bench.op().wait(LEASE);
                    let op = if index % 2 == 0 { op.fingerprint(one) } else { op };
                    op.run(body).await
                })
            })
            .collect();
        settle().await;
        go.add_permits(1);
        assert!(matches!(held.await.unwrap(), Err(Failed::Body)));
        until(|| bench.runs() == 2).await;
        settle().await;
        fail_until(&bench, &go, &calls, 20).await;
        let Ends { failed, refused } = ends(calls).await;
        assert_eq!((failed, refused.len()), (1, 19));
        refused.iter().for_each(assert_gave_up);
    }
}

#[tokio::test]
async fn begin_by_hand_stops_waiting_after_two_failed_attempts() {
    for bench in both() {
        let first = bench.op().begin().await.unwrap();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let bench = bench.clone();
                tokio::spawn(async move { bench.op().wait(LEASE).begin().await.unwrap() })
            })
            .collect();
        settle().await;
        let Begin::Fresh(first) = first else { panic!("not fresh") };
        first.fail().await.unwrap();
        until(|| waiting.iter().any(JoinHandle::is_finished)).await;
        settle().await;
        let mut left = Vec::new();
        for call in waiting {
            match call.is_finished() {
                true => match call.await.unwrap() {
                    Begin::Fresh(second) => second.fail().await.unwrap(),
                    other => panic!("{other:?}"),
                },
                false => left.push(call),
            }
        }
        assert_eq!(left.len(), 1);
        for call in left {
            match call.await.unwrap() {
                Begin::InFlight { retry_after } => assert!(retry_after < LEASE / 10),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A lease that was lost is no failure: callers that waited for it go on waiting.
#[tokio::test]
async fn a_lost_lease_wakes_those_who_wait_for_it_in_its_process() {
    let bench = remote();
    let held = bench.hang();
    until(|| bench.runs() == 1).await;
    let waiting = {
        let bench = bench.clone();
        tokio::spawn(async move {
            let op = bench.op().wait(LEASE * 1_000);
            op.run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await
        })
    };
    settle().await;
    // Another process takes the key away; this one is told by its next renewal.
    let other = neighbour(&bench);
    other.op().forget(true).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    bench.clock.advance(LEASE / 3);
    until(|| waiting.is_finished()).await;
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    held.abort();
}

#[tokio::test]
async fn a_refused_duplicate_is_told_to_ask_again_soon_and_not_after_the_lease() {
    const SOON: Duration = Duration::from_secs(1);
    for bench in both() {
        let held = bench.hang();
        until(|| bench.runs() == 1).await;
        let other = neighbour(&bench);
        let benches =
            if bench.store.calls(Verb::Begin) > 0 { vec![&bench, &other] } else { vec![&bench] };
        for bench in benches {
            let reject = bench.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(1) }).await;
            assert_eq!(reject.unwrap_err().retry_after(), Some(SOON));
            let window = bench.op().mode(Mode::Window).run(async { Ok::<u8, Error>(1) }).await;
            assert_eq!(window.unwrap_err().retry_after(), Some(SOON));
            let begun = bench.op().mode(Mode::Reject).begin().await.unwrap();
            assert!(matches!(begun, Begin::InFlight { retry_after: SOON }), "{begun:?}");
            let rows =
                bench.idem.operation("test.op").run_batch([("k", 1)], |rows: Vec<u8>| async {
                    rows.into_iter().map(Ok::<u8, Error>).collect()
                });
            assert_eq!(rows.await[0].as_ref().unwrap_err().retry_after(), Some(SOON));
            let waiting = bench.spawn();
            until(|| {
                bench.clock.advance(Duration::from_millis(100));
                waiting.is_finished()
            })
            .await;
            let error = waiting.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.retry_after()), (ErrorKind::InProgress, Some(SOON)));
            let chosen = bench.op().mode(Mode::Reject).retry_after(SOON * 7);
            let chosen = chosen.run(async { Ok::<u8, Error>(1) }).await;
            assert_eq!(chosen.unwrap_err().retry_after(), Some(SOON * 7));
        }
        held.abort();
    }
}

#[tokio::test]
async fn a_duplicate_is_told_to_ask_again_no_later_than_the_lease_ends() {
    for bench in both() {
        let short = Duration::from_millis(200);
        let held = bench.op().lease(short).begin().await.unwrap();
        let reject = bench.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(1) }).await;
        assert_eq!(reject.unwrap_err().retry_after(), Some(short));
        drop(held);
    }
}

#[tokio::test]
async fn the_repeat_of_a_failed_row_is_told_when_to_ask_again() {
    for bench in both() {
        let rows =
            bench.idem.operation("rows").run_batch([(1, 1), (1, 1)], |rows: Vec<u8>| async move {
                rows.into_iter().map(|_| Err::<u8, Failed>(Failed::Body)).collect()
            });
        let answers = rows.await;
        assert!(matches!(answers[0], Err(Failed::Body)));
        let Err(Failed::Refused(error)) = &answers[1] else { panic!("{answers:?}") };
        assert_eq!(error.kind(), ErrorKind::InProgress);
        assert!(error.retry_after().unwrap() <= Duration::from_millis(200), "{error}");
    }
}

#[tokio::test]
async fn a_contended_record_is_asked_for_again_soon() {
    let bench = remote();
    let contended = idempotent_runtime::store::StoreErrorKind::Contended;
    bench.store.fault_always(Verb::Begin, Fault::Before(contended));
    let call = bench.spawn();
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        call.is_finished()
    })
    .await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InProgress);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
}
