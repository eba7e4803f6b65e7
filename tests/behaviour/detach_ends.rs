//! Detached calls that end early: nothing of them outlives a shutdown.

use idempotent_runtime::instance::Drained;
use idempotent_runtime::{Abandon, AnswerPolicy, Error, Idempotency};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::{both, local, until};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

type Shutdown = Pin<Box<dyn Future<Output = Drained> + Send>>;

/// Looks, whenever a part of a call ends, whether a shutdown is over.
#[derive(Clone, Default)]
struct Probe {
    shutdown: Arc<Mutex<Option<Shutdown>>>,
    /// What ended, and whether the shutdown was over by then.
    seen: Arc<Mutex<Vec<(&'static str, bool)>>>,
    /// Whether the next span panics.
    panics: Arc<AtomicBool>,
}

impl Probe {
    fn shut_down(&self, idem: &Idempotency) {
        let idem = idem.clone();
        let mut shutdown: Shutdown =
            Box::pin(async move { idem.shutdown(Duration::from_secs(100)).await });
        assert!(shutdown.as_mut().poll(&mut context()).is_pending());
        *self.shutdown.lock().unwrap() = Some(shutdown);
    }

    fn ends(&self, what: &'static str) {
        if let Some(shutdown) = &mut *self.shutdown.lock().unwrap() {
            let is_over = shutdown.as_mut().poll(&mut context()).is_ready();
            self.seen.lock().unwrap().push((what, is_over));
        }
    }

    fn seen(&self) -> Vec<(&'static str, bool)> {
        self.seen.lock().unwrap().clone()
    }

    /// A body that never ends.
    fn body(&self) -> impl Future<Output = Result<usize, Error>> + Send + 'static {
        let held = Held(self.clone());
        async move {
            let _held = held;
            pending().await
        }
    }
}

struct Held(Probe);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.ends("body");
    }
}

struct IsEnd(bool);

impl Visit for IsEnd {
    fn record_debug(&mut self, field: &Field, _: &dyn fmt::Debug) {
        self.0 |= field.name() == "outcome";
    }
}

impl Subscriber for Probe {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "idempotent"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        assert!(!self.panics.swap(false, SeqCst), "a subscriber that panics");
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut is_end = IsEnd(false);
        event.record(&mut is_end);
        if is_end.0 {
            self.ends("call");
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[tokio::test]
async fn a_shutdown_waits_for_all_of_a_call_whose_caller_goes_while_it_waits() {
    let (bench, probe) = (local(), Probe::default());
    let first = bench.hang();
    until(|| bench.runs() == 1).await;
    let _listening = subscriber::set_default(probe.clone());
    let mut call = Box::pin(bench.op().run_detached(AnswerPolicy::kept(), probe.body()));
    assert!(call.as_mut().poll(&mut context()).is_pending());
    first.abort();
    assert!(first.await.is_err());
    probe.shut_down(&bench.idem);
    drop(call);
    assert_eq!(probe.seen(), [("body", false), ("call", false)]);
}

#[tokio::test]
async fn a_shutdown_waits_for_all_of_a_call_that_is_replayed() {
    let (bench, probe) = (local(), Probe::default());
    let (go, mut wait) = watch::channel(false);
    let other = bench.clone();
    let first = tokio::spawn(async move {
        let body = async {
            let run = other.ledger.record("k");
            wait.wait_for(|go| *go).await.unwrap();
            Ok::<_, Error>(run)
        };
        other.op().run(body).await
    });
    until(|| bench.runs() == 1).await;
    let mut call = Box::pin(bench.op().run_detached(AnswerPolicy::kept(), probe.body()));
    assert!(call.as_mut().poll(&mut context()).is_pending());
    go.send(true).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    probe.shut_down(&bench.idem);
    let _listening = subscriber::set_default(probe.clone());
    assert!(call.await.unwrap().replayed);
    assert_eq!(probe.seen(), [("body", false), ("call", false)]);
}

#[test]
fn a_shutdown_waits_for_all_of_a_body_whose_runtime_ends() {
    // Before its task has run, and after.
    for polls in [0, 1] {
        let (bench, probe) = (local(), Probe::default());
        let _listening = subscriber::set_default(probe.clone());
        let short = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let inside = short.enter();
        let mut call = Box::pin(bench.op().run_detached(AnswerPolicy::kept(), probe.body()));
        assert!(call.as_mut().poll(&mut context()).is_pending());
        drop(call);
        drop(inside);
        for _ in 0..polls {
            short.block_on(tokio::task::yield_now());
        }
        let inside = short.enter();
        probe.shut_down(&bench.idem);
        drop(inside);
        drop(short);
        assert_eq!(probe.seen(), [("body", false), ("call", false)], "{polls} polls");
    }
}

#[tokio::test]
async fn a_panic_before_the_body_starts_frees_the_key() {
    for bench in both() {
        let probe = Probe::default();
        probe.panics.store(true, SeqCst);
        let listening = subscriber::set_default(probe);
        let ledger = bench.ledger.clone();
        let body = async move { Ok::<_, Error>(ledger.record("k")) };
        let op = || bench.op().abandon(Abandon::Block);
        let mut call = Box::pin(op().run_detached(AnswerPolicy::kept(), body));
        let panicked = poll_fn(|context| {
            match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
                Ok(poll) => poll.map(|_| false),
                Err(_) => Poll::Ready(true),
            }
        });
        assert!(panicked.await);
        drop((call, listening));
        bench.at_rest().await;
        assert_eq!(op().run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await.unwrap(), 1);
    }
}

#[test]
fn a_large_body_does_not_lie_on_the_stack_below_its_own_polls() {
    const LARGE: usize = 100_000;
    #[inline(never)]
    fn stack_ends_at() -> usize {
        let here = 0_u8;
        std::ptr::from_ref(&here).addr()
    }
    let bench = local();
    let deepest = Arc::new(AtomicUsize::new(usize::MAX));
    let seen = Arc::clone(&deepest);
    let body = async move {
        let large = [1_u8; LARGE];
        let look = poll_fn(|_| Poll::Ready(stack_ends_at()));
        seen.store(look.await, SeqCst);
        Ok::<_, Error>(large.len())
    };
    let mut call = Box::pin(bench.op().run_detached(AnswerPolicy::kept(), body));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let begins_at = stack_ends_at();
    assert!(call.as_mut().poll(&mut context()).is_ready());
    let depth = begins_at - deepest.load(SeqCst);
    assert!(depth < LARGE, "{depth} bytes");
}
