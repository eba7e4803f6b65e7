//! A body that its caller polls in place, and that moves to a task of its own when the caller goes.

use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::detach::detachable;
use idempotent_runtime::testing::{Ledger, scoped};
use idempotent_runtime::{AnswerPolicy, Error, Mode, Outcome, current, idempotent};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use support::{Bench, both, local, poll_at_most, remote, until};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

tokio::task_local! {
    static USER: &'static str;
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Outcome<String>, Error>> + Send + 'a>>;

/// A call whose body waits to be let go, and then answers with its run and what it sees.
fn call<'a>(bench: &'a Bench, go: &Arc<Semaphore>) -> Call<'a> {
    let (ledger, go) = (bench.ledger.clone(), Arc::clone(go));
    Box::pin(bench.op().mode(Mode::Strong).run_in_place(AnswerPolicy::kept(), async move {
        let run = ledger.record("k");
        go.acquire().await.unwrap().forget();
        assert!(current().is_some());
        let token = ambient::current().and_then(|ambient| ambient.token);
        let user = USER.try_with(|user| *user);
        Ok(format!("{run} {} {}", token.as_deref().unwrap_or("-"), user.unwrap_or("-")))
    }))
}

fn shut() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(0))
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Polls until the body has started, on the thread of the test.
fn start(bench: &Bench, mut call: Pin<&mut (impl Future + ?Sized)>) {
    while bench.runs() == 0 {
        assert!(call.as_mut().poll(&mut context()).is_pending());
    }
}

/// The answer to a repeat.
async fn repeat(bench: &Bench) -> Result<String, Error> {
    bench.op().mode(Mode::Strong).run(async { Ok::<_, Error>("ran again".to_owned()) }).await
}

#[tokio::test]
async fn a_body_sees_the_task_locals_of_its_caller_after_it_has_waited() {
    for bench in both() {
        let go = shut();
        let waits = async {
            let call = tokio::task::unconstrained(call(&bench, &go));
            let release = async {
                until(|| bench.runs() == 1).await;
                go.add_permits(1);
            };
            tokio::join!(call, release).0
        };
        let answer = USER.scope("ada", waits).await.unwrap();
        assert_eq!(answer.value, "1 - ada");
    }
}

#[tokio::test]
async fn a_body_whose_caller_goes_finishes_with_what_was_in_place_at_the_first_poll() {
    for bench in both() {
        let go = shut();
        let ambient = Ambient::new().token("t");
        let around = ambient::scope(ambient, call(&bench, &go));
        assert!(poll_at_most(20, USER.scope("ada", around)).await.is_none());
        assert_eq!(bench.runs(), 1);
        go.add_permits(1);
        // Task-locals of others do not follow it.
        assert_eq!(repeat(&bench).await.unwrap(), "1 t -");
        bench.at_rest().await;
    }
}

#[idempotent(key = "id", mode = "strong", name = "in-place-inner")]
async fn nested(ledger: Ledger, id: u64) -> Result<usize, Error> {
    Ok(ledger.record(id.to_string()))
}

#[tokio::test]
async fn the_instance_that_was_in_place_is_that_of_calls_further_in() {
    let bench = local();
    let (go, ledger) = (shut(), bench.ledger.clone());
    let waits = Arc::clone(&go);
    let body = async move {
        ledger.record("k");
        waits.acquire().await.unwrap().forget();
        nested(ledger, 7).await
    };
    let call = bench.op().run_in_place(AnswerPolicy::kept(), body);
    assert!(poll_at_most(5, scoped(bench.idem.clone(), call)).await.is_none());
    go.add_permits(1);
    until(|| bench.ledger.ran("7") == 1).await;
    bench.at_rest().await;
    let record = bench.idem.operation("in-place-inner").key(7_u64).get().await.unwrap();
    assert!(record.is_some(), "the call further in went to another instance");
}

#[tokio::test]
async fn the_span_of_the_first_poll_is_entered_wherever_the_body_goes_on() {
    let bench = local();
    let go = shut();
    let seen = Arc::new(std::sync::Mutex::new(None));
    let _listening = tracing::subscriber::set_default(
        tracing_subscriber::registry().with(tracing_subscriber::EnvFilter::new("trace")),
    );
    let (notes, waits, ledger) = (Arc::clone(&seen), Arc::clone(&go), bench.ledger.clone());
    let call = detachable(async move {
        ledger.record("k");
        waits.acquire().await.unwrap().forget();
        *notes.lock().unwrap() = tracing::Span::current().metadata().map(|span| span.name());
    });
    let first = tracing::info_span!("first");
    assert!(poll_at_most(1, call.instrument(first)).await.is_none());
    go.add_permits(1);
    until(|| seen.lock().unwrap().is_some()).await;
    assert_eq!(*seen.lock().unwrap(), Some("first"));
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn runtime_of_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn a_call_dropped_outside_of_a_runtime_goes_on_in_that_of_its_first_poll() {
    for bench in both() {
        let (runtime, go) = (runtime(), shut());
        let mut call = call(&bench, &go);
        runtime.block_on(async {
            poll_fn(|context| {
                let _ = call.as_mut().poll(context);
                if bench.runs() == 1 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        drop(call);
        go.add_permits(1);
        assert_eq!(runtime.block_on(repeat(&bench)).unwrap(), "1 - -");
    }
}

/// Nothing runs, and a repeat finds the key free: the keeper's thread needs no runtime of the caller's.
fn is_abandoned(bench: &Bench) {
    let again = runtime().block_on(async {
        bench.at_rest().await;
        repeat(bench).await
    });
    assert_eq!(again.unwrap(), "ran again");
}

#[test]
fn a_call_dropped_by_a_runtime_that_shuts_down_is_abandoned() {
    for build in [runtime, runtime_of_threads] {
        for bench in both() {
            let (runtime, go) = (build(), shut());
            let (owned, waits) = (bench.clone(), Arc::clone(&go));
            runtime.spawn(async move { drop(call(&owned, &waits).await) });
            runtime.block_on(async { until(|| bench.runs() == 1).await });
            drop(runtime);
            is_abandoned(&bench);
        }
    }
}

#[test]
fn a_call_dropped_after_its_runtime_has_gone_is_abandoned() {
    for build in [runtime, runtime_of_threads] {
        for bench in both() {
            let (runtime, go) = (build(), shut());
            let mut call = call(&bench, &go);
            let inside = runtime.enter();
            start(&bench, call.as_mut());
            drop(inside);
            drop(runtime);
            drop(call);
            is_abandoned(&bench);
        }
    }
}

#[tokio::test]
async fn a_call_dropped_while_its_caller_unwinds_goes_on() {
    for bench in both() {
        let go = shut();
        let mut call = call(&bench, &go);
        poll_fn(|context| {
            let _ = call.as_mut().poll(context);
            if bench.runs() == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _call = call;
            panic_any("the caller's own");
        }));
        assert!(unwound.is_err());
        go.add_permits(1);
        assert_eq!(repeat(&bench).await.unwrap(), "1 - -");
        bench.at_rest().await;
    }
}

/// The wake-up goes to the task that polled last. That one is gone, and the next has to look itself.
#[tokio::test]
async fn a_call_dropped_between_a_wake_up_and_its_poll_goes_on() {
    for bench in both() {
        is_woken_in_its_own_task(&bench).await;
    }
}

async fn is_woken_in_its_own_task(bench: &Bench) {
    let wake = Arc::new(Notify::new());
    let (ledger, woken) = (bench.ledger.clone(), Arc::clone(&wake));
    let body = async move {
        let run = ledger.record("k");
        woken.notified().await;
        tokio::task::yield_now().await;
        Ok::<_, Error>(run.to_string())
    };
    let mut call = Box::pin(bench.op().mode(Mode::Strong).run_in_place(AnswerPolicy::kept(), body));
    start(bench, call.as_mut());
    wake.notify_waiters();
    drop(call);
    assert_eq!(repeat(bench).await.unwrap(), "1");
}

/// A detached call that is held and not polled must not hold its body and its key.
#[tokio::test]
async fn a_detached_body_goes_on_while_its_future_is_held_and_not_polled() {
    for bench in both() {
        let (go, ended) = (shut(), Ledger::new());
        let (ledger, waits, ends) = (bench.ledger.clone(), Arc::clone(&go), ended.clone());
        let body = async move {
            let run = ledger.record("k");
            waits.acquire().await.unwrap().forget();
            ends.record("k");
            Ok::<_, Error>(run.to_string())
        };
        let mut call = pin!(bench.op().mode(Mode::Strong).run_detached(AnswerPolicy::kept(), body));
        tokio::select! {
            _ = &mut call => panic!("nobody let it go"),
            () = until(|| bench.runs() == 1) => {}
        }
        go.add_permits(1);
        until(|| ended.total() == 1).await;
        assert_eq!(repeat(&bench).await.unwrap(), "1");
        assert_eq!(call.await.unwrap().value, "1");
    }
}

#[tokio::test]
async fn a_body_in_place_that_panics_frees_its_key_before_its_caller_hears_of_it() {
    for bench in both() {
        let body = async {
            tokio::task::yield_now().await;
            panic!("boom")
        };
        let call = bench.op().run_in_place(AnswerPolicy::<String, Error>::kept(), body);
        let heard = catch_panic(pin!(call)).await;
        assert!(heard.is_err());
        assert_eq!(repeat(&bench).await.unwrap(), "ran again");
        bench.at_rest().await;
    }
}

async fn catch_panic<F: Future>(mut future: Pin<&mut F>) -> std::thread::Result<F::Output> {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[tokio::test]
async fn a_future_that_panicked_is_not_polled_in_a_task() {
    let polled = Ledger::new();
    let notes = polled.clone();
    let mut future = Box::pin(detachable(poll_fn(move |_| -> Poll<()> {
        assert!(notes.record("polled") < 2, "the second poll panics");
        Poll::Pending
    })));
    assert!(future.as_mut().poll(&mut context()).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context()))).is_err());
    drop(future);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(polled.total(), 2);
}

#[tokio::test]
async fn a_future_that_was_never_polled_is_dropped() {
    let polled = Ledger::new();
    let notes = polled.clone();
    drop(detachable(async move { notes.record("polled") }));
    tokio::task::yield_now().await;
    assert_eq!(polled.total(), 0);
}

#[tokio::test]
async fn a_caller_that_goes_while_the_answer_is_recorded_leaves_it_recorded() {
    let bench = remote();
    let gate = bench.store.hold(idempotent_runtime::testing::Verb::Complete);
    let go = shut();
    go.add_permits(1);
    let mut call = call(&bench, &go);
    tokio::select! {
        answer = &mut call => panic!("{answer:?}"),
        () = gate.arrived(1) => {}
    }
    drop(call);
    gate.open();
    assert_eq!(repeat(&bench).await.unwrap(), "1 - -");
    bench.at_rest().await;
}
