//! A detached body finishes even if its caller goes away.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::testing::{Ledger, Verb, scoped};
use idempotent_runtime::{AnswerPolicy, Error, ErrorKind, Mode, current, idempotent};
use std::future::{Future as _, pending};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use support::{both, poll_at_most, remote, until};
use tokio::sync::watch;

#[idempotent(key = "id", mode = "strong", detach, name = "detached")]
async fn ship(ledger: Ledger, id: u64, mut go: watch::Receiver<bool>) -> Result<usize, Error> {
    let run = ledger.record(id.to_string());
    assert!(current().is_some());
    assert_eq!(ambient::current().and_then(|ambient| ambient.token).as_deref(), Some("t"));
    go.wait_for(|go| *go).await.unwrap();
    Ok(run)
}

#[tokio::test]
async fn a_detached_body_finishes_and_its_answer_is_replayed() {
    for bench in both() {
        let (go, wait) = watch::channel(false);
        let call = || {
            let call = ship(bench.ledger.clone(), 1, wait.clone());
            ambient::scope(Ambient::new().token("t"), scoped(bench.idem.clone(), call))
        };
        let ledger = bench.ledger.clone();
        assert!(poll_at_most(10, call()).await.is_none());
        until(|| ledger.ran("1") == 1).await;
        go.send(true).unwrap();
        assert_eq!(call().await.unwrap(), 1);
        assert_eq!(ledger.ran("1"), 1);
        bench.at_rest().await;
    }
}

/// A future that is held and not polled must hold neither its body nor its key.
#[tokio::test]
async fn an_attributed_detached_body_goes_on_while_its_future_is_held() {
    for bench in both() {
        let (go, wait) = watch::channel(false);
        let call = || {
            let call = ship(bench.ledger.clone(), 1, wait.clone());
            ambient::scope(Ambient::new().token("t"), scoped(bench.idem.clone(), call))
        };
        let mut held = pin!(call());
        tokio::select! {
            _ = &mut held => panic!("nobody let it go"),
            () = until(|| bench.ledger.ran("1") == 1) => {}
        }
        go.send(true).unwrap();
        assert_eq!(call().await.unwrap(), 1, "a repeat is answered");
        assert_eq!(held.await.unwrap(), 1);
    }
}

/// Whether the body is done at once or waits, and wherever the caller leaves.
#[tokio::test]
async fn a_detached_body_that_started_is_recorded_at_whatever_poll_its_caller_goes() {
    for yields in [0, 3] {
        let mut finished = 0;
        for polls in 1..12 {
            let bench = remote();
            let ended = Ledger::new();
            let body = {
                let (started, ended) = (bench.ledger.clone(), ended.clone());
                async move {
                    let run = started.record("k");
                    for _ in 0..yields {
                        tokio::task::yield_now().await;
                    }
                    ended.record("k");
                    Ok::<_, Error>(run)
                }
            };
            let call = bench.op().mode(Mode::Strong).run_detached(AnswerPolicy::kept(), body);
            let left = poll_at_most(polls, call).await.is_none();
            bench.at_rest().await;
            until(|| ended.total() == bench.runs()).await;
            let started = bench.runs();
            // A key whose begin was cut off is free again, and one that ran is answered.
            let body = async { Ok::<_, Error>(bench.ledger.record("k")) };
            let again = bench.op().mode(Mode::Strong).run_detailed(body).await.unwrap();
            assert_eq!((again.replayed, again.value), (started == 1, 1), "after {polls} polls");
            finished += usize::from(started == 1 && left);
        }
        assert!(finished > 0, "no caller left after its body had started");
    }
}

#[test]
fn a_detached_body_whose_runtime_ends_is_said_to_have_run() {
    let bench = support::local();
    let short = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut call = pin!(bench.op().run_detached(AnswerPolicy::<u64, Error>::kept(), pending()));
    let inside = short.enter();
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending());
    drop(inside);
    short.shutdown_background();
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut context) else {
        panic!("the task is gone");
    };
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::ShuttingDown, true));
    assert!(error.message().contains("the runtime ended before the body did"), "{error}");
}

#[idempotent(key = "id", mode = "strong", detach, name = "detached-panic")]
async fn explode(id: u64) -> Result<u64, Error> {
    panic!("boom {id}")
}

#[tokio::test]
async fn a_panic_of_a_detached_body_reaches_the_caller() {
    for bench in both() {
        let task = tokio::spawn(scoped(bench.idem.clone(), explode(1)));
        let panic = task.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("boom 1"));
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_panic_of_a_detached_body_is_recorded_before_its_caller_hears_of_it() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Abandon);
    let task = tokio::spawn(scoped(bench.idem.clone(), explode(1)));
    gate.arrived(1).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!task.is_finished());
    gate.open();
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(bench.store.answers(Verb::Abandon), 1);
}

#[test]
fn without_a_runtime_a_detached_call_is_refused() {
    let bench = support::local();
    let (_, wait) = watch::channel(true);
    let call = scoped(bench.idem.clone(), ship(bench.ledger.clone(), 1, wait));
    let mut call = pin!(call);
    let mut context = Context::from_waker(Waker::noop());
    match call.as_mut().poll(&mut context) {
        Poll::Ready(Err(error)) => assert!(!error.body_ran(), "{error}"),
        other => panic!("{other:?}"),
    }
}
