use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::attempt::values::Values;
use crate::store::MemoryStore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

fn instance() -> Arc<Instance> {
    let store = Arc::new(MemoryStore::new());
    let instance = Instance::start(store, Config::new(), Clock::system(), Values::default());
    Arc::new(instance.unwrap())
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
    let instance = instance();
    let polls = Arc::new(AtomicUsize::new(0));
    let mut handoff = Box::pin(Handoff::new(Arc::clone(&instance), Bomb(Arc::clone(&polls))));
    let mut context = Context::from_waker(Waker::noop());
    assert!(handoff.as_mut().poll(&mut context).is_pending());
    let panicked = catch_unwind(AssertUnwindSafe(|| handoff.as_mut().poll(&mut context)));
    assert!(panicked.is_err());
    drop(handoff);
    // Whatever the keeper was given has been polled when it has nothing left.
    instance.keeper.drained().await;
    assert_eq!(polls.load(SeqCst), 2);
}
