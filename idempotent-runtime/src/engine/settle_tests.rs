use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::values::Values;
use crate::store::MemoryStore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

fn core() -> Arc<Core> {
    let store = Arc::new(MemoryStore::new());
    let core = Core::start(store, Config::new(), Clock::system(), Values::default());
    Arc::new(core.unwrap())
}

/// Waits at its first poll, and panics at every later one.
struct Bomb(Arc<AtomicUsize>);

impl Future for Bomb {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.fetch_add(1, SeqCst) {
            0 => Poll::Pending,
            _ => panic!("boom"),
        }
    }
}

#[tokio::test]
async fn a_job_that_panicked_is_not_handed_to_the_keeper() {
    let core = core();
    let polls = Arc::new(AtomicUsize::new(0));
    let mut handoff = Box::pin(Handoff::new(Arc::clone(&core), Bomb(Arc::clone(&polls))));
    let mut context = Context::from_waker(Waker::noop());
    assert!(handoff.as_mut().poll(&mut context).is_pending());
    let panicked = catch_unwind(AssertUnwindSafe(|| handoff.as_mut().poll(&mut context)));
    assert!(panicked.is_err());
    drop(handoff);
    // Whatever the keeper was given has been polled when it has nothing left.
    core.keeper.drained().await;
    assert_eq!(polls.load(SeqCst), 2);
}
