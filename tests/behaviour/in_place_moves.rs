//! Bodies in place whose caller goes away: at any poll, in any kind of task, inside one another.

use idempotent_runtime::detach::detachable;
use idempotent_runtime::instance::Drained;
use idempotent_runtime::{AnswerPolicy, Error, ErrorKind, Idempotency, Mode, Outcome};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::{Bench, both, poll_at_most, remote_with, strong, until};
use tokio::sync::Semaphore;

type Answer = Result<Outcome<String>, Error>;

/// A call whose body waits to be let go.
async fn call(bench: Bench, go: Arc<Semaphore>) -> Answer {
    let ledger = bench.ledger.clone();
    let body = async move {
        let run = ledger.record("k");
        go.acquire().await.unwrap().forget();
        Ok(run.to_string())
    };
    bench.op().mode(Mode::Strong).run_in_place(AnswerPolicy::kept(), body).await
}

/// The answer to a repeat.
async fn repeat(bench: &Bench) -> Result<String, Error> {
    bench.op().mode(Mode::Strong).run(async { Ok::<_, Error>("ran again".to_owned()) }).await
}

fn shut() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

#[tokio::test]
async fn a_body_that_has_started_ends_once_whichever_poll_was_the_last_of_its_caller() {
    for polls in 0..24 {
        for bench in both() {
            let (ledger, ends) = (bench.ledger.clone(), bench.ledger.clone());
            let body = async move {
                let run = ledger.record("k");
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                ends.record("ended");
                Ok::<_, Error>(run.to_string())
            };
            let op = bench.op().mode(Mode::Strong);
            let answer = poll_at_most(polls, op.run_in_place(AnswerPolicy::kept(), body)).await;
            let started = bench.runs();
            let expected = if started == 1 { "1" } else { "ran again" };
            assert_eq!(repeat(&bench).await.unwrap(), expected, "after {polls} polls");
            assert_eq!(bench.ledger.ran("ended"), started, "after {polls} polls");
            if let Some(answer) = answer {
                assert_eq!(answer.unwrap().value, "1");
            }
            bench.at_rest().await;
            let stopped = bench.idem.shutdown(Duration::from_secs(60)).await;
            assert_eq!(stopped, Drained::All, "after {polls} polls");
        }
    }
}

#[tokio::test]
async fn a_body_is_polled_once_per_poll_of_its_call() {
    for bench in both() {
        let polls = Arc::new(Mutex::new(0));
        let counts = Arc::clone(&polls);
        let body = poll_fn(move |_| -> Poll<Result<u8, Error>> {
            *counts.lock().unwrap() += 1;
            Poll::Pending
        });
        let mut call = pin!(bench.op().run_in_place(AnswerPolicy::kept(), body));
        let mut poll = || {
            let before = *polls.lock().unwrap();
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            *polls.lock().unwrap() - before
        };
        let first = std::iter::repeat_with(&mut poll).find(|polled| *polled > 0);
        assert_eq!(first, Some(1), "where it starts");
        assert_eq!([poll(), poll()], [1, 1], "from then on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_task_is_aborted_goes_on() {
    for bench in both() {
        let go = shut();
        let task = tokio::spawn(call(bench.clone(), Arc::clone(&go)));
        until(|| bench.runs() == 1).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        go.add_permits(1);
        assert_eq!(repeat(&bench).await.unwrap(), "1");
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_in_a_local_set_goes_on_after_that_has_gone() {
    for bench in both() {
        let (go, local) = (shut(), tokio::task::LocalSet::new());
        local.spawn_local(call(bench.clone(), Arc::clone(&go)));
        local.run_until(until(|| bench.runs() == 1)).await;
        drop(local);
        go.add_permits(1);
        assert_eq!(repeat(&bench).await.unwrap(), "1");
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_call_inside_a_future_that_moves_moves_with_it() {
    for bench in both() {
        let go = shut();
        let outer = detachable(detachable(call(bench.clone(), Arc::clone(&go))));
        assert!(poll_at_most(20, outer).await.is_none());
        assert_eq!(bench.runs(), 1);
        go.add_permits(1);
        assert_eq!(repeat(&bench).await.unwrap(), "1");
        bench.at_rest().await;
    }
}

/// The body of one call makes another and gives it up: both go on, each in a task of its own.
#[tokio::test]
async fn a_call_that_a_moved_body_drops_moves_too() {
    for bench in both() {
        let (go, inner) = (shut(), shut());
        let (held, waits, further) = (bench.clone(), Arc::clone(&go), Arc::clone(&inner));
        let body = async move {
            held.ledger.record("outer");
            waits.acquire().await.unwrap().forget();
            assert!(poll_at_most(20, call(held.clone(), further)).await.is_none());
            Ok::<_, Error>("outer".to_owned())
        };
        let op = bench.idem.operation("outer").key(1);
        assert!(
            poll_at_most(20, op.clone().run_in_place(AnswerPolicy::kept(), body)).await.is_none()
        );
        assert_eq!(bench.ledger.ran("outer"), 1);
        go.add_permits(1);
        let again = op.run(async { Ok::<_, Error>("ran again".to_owned()) });
        assert_eq!(again.await.unwrap(), "outer");
        assert_eq!(bench.runs(), 1);
        inner.add_permits(1);
        assert_eq!(repeat(&bench).await.unwrap(), "1");
        bench.at_rest().await;
    }
}

#[tokio::test]
async fn a_body_that_moved_keeps_its_permit_until_it_ends() {
    let bench = remote_with(strong().with_max_concurrent(1));
    let go = shut();
    assert!(poll_at_most(20, call(bench.clone(), Arc::clone(&go))).await.is_none());
    assert_eq!(bench.runs(), 1);
    let other = || bench.idem.operation("other").key(1).run(async { Ok::<u8, Error>(1) });
    assert_eq!(other().await.unwrap_err().kind(), ErrorKind::StoreFull);
    go.add_permits(1);
    assert_eq!(repeat(&bench).await.unwrap(), "1");
    assert_eq!(other().await.unwrap(), 1);
}

#[tokio::test]
async fn a_shutdown_waits_for_a_body_that_moved() {
    for bench in both() {
        let go = shut();
        assert!(poll_at_most(20, call(bench.clone(), Arc::clone(&go))).await.is_none());
        assert_eq!(bench.runs(), 1);
        let mut stop = pin!(bench.idem.shutdown(Duration::from_secs(60)));
        assert!(poll_at_most(20, &mut stop).await.is_none());
        go.add_permits(1);
        assert_eq!(stop.await, Drained::All);
    }
}

#[tokio::test]
async fn a_call_whose_body_moved_ends_once() {
    for bench in both() {
        let events = support::events::collect();
        let go = shut();
        assert!(poll_at_most(20, call(bench.clone(), Arc::clone(&go))).await.is_none());
        go.add_permits(1);
        bench.at_rest().await;
        let stopped = bench.idem.shutdown(Duration::from_secs(60)).await;
        assert_eq!(stopped, Drained::All);
        let ended = events.take("call ended");
        assert_eq!(ended.len(), 1, "{ended:?}");
        assert!(ended[0].fields["outcome"].contains("executed"), "{ended:?}");
    }
}

/// Panics when it is polled. When it is dropped, it notes whether a shutdown would be over.
struct Panics {
    idem: Idempotency,
    over: Arc<Mutex<Option<bool>>>,
}

impl Future for Panics {
    type Output = Result<u8, Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        panic!("boom")
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        let stop = pin!(self.idem.shutdown(Duration::from_secs(60)));
        let polled = stop.poll(&mut Context::from_waker(Waker::noop()));
        *self.over.lock().unwrap() = Some(polled == Poll::Ready(Drained::All));
    }
}

#[tokio::test]
async fn a_shutdown_waits_for_the_destructors_of_a_body_that_panics_without_protection() {
    type Call<'a> = Pin<Box<dyn Future<Output = Result<Outcome<u8>, Error>> + Send + 'a>>;
    let ways: [for<'a> fn(&'a Idempotency, Panics) -> Call<'a>; 3] = [
        |idem, body| Box::pin(idem.operation("o").key(1).run_detailed(body)),
        |idem, body| Box::pin(idem.operation("o").key(1).run_detached(AnswerPolicy::kept(), body)),
        |idem, body| Box::pin(idem.operation("o").key(1).run_in_place(AnswerPolicy::kept(), body)),
    ];
    for (index, way) in ways.into_iter().enumerate() {
        let idem = Idempotency::builder().config(strong()).disabled().build().unwrap();
        let over = Arc::default();
        let body = Panics { idem: idem.clone(), over: Arc::clone(&over) };
        let mut call = way(&idem, body);
        let mut context = Context::from_waker(Waker::noop());
        assert!(catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context))).is_err());
        drop(call);
        assert_eq!(*over.lock().unwrap(), Some(false), "way {index}");
        assert_eq!(idem.shutdown(Duration::from_secs(60)).await, Drained::All);
    }
}
