//! Answers from the cache of a process that were told in another order than they were given.

use idempotent_runtime::store::{MemoryOptions, MemoryStore};
use idempotent_runtime::testing::{FaultStore, Ledger, ManualClock, Verb};
use idempotent_runtime::{Error, Fingerprint, Idempotency, ReplayCache};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;
use support::{Bench, neighbour, strong};

const SECOND: Duration = Duration::from_secs(1);

fn cached() -> Bench {
    let clock = ManualClock::new();
    let memory = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
    let store = FaultStore::new(memory).telling();
    let builder = Idempotency::builder().store(store.clone()).clock(clock.clock()).config(strong());
    let idem = builder.replay_cache(ReplayCache::new()).build().unwrap();
    Bench { idem, clock, ledger: Ledger::new(), store }
}

async fn answer(bench: &Bench, value: usize) -> usize {
    let op = bench.op().key(4_usize).expire(10 * SECOND);
    op.run(async { Ok::<_, Error>(value) }).await.unwrap()
}

/// Polls a call until the store has read its record, and before it has answered.
fn until_read<F: Future>(bench: &Bench, call: &mut Pin<Box<F>>) {
    let (calls, answers) = (bench.store.calls(Verb::Begin), bench.store.answers(Verb::Begin));
    let mut context = Context::from_waker(Waker::noop());
    while bench.store.calls(Verb::Begin) == calls {
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    // It yields before it asks the store in memory, and before it answers.
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert_eq!(bench.store.answers(Verb::Begin), answers);
}

/// A batch is in no flight: another call of the key does not wait for it.
#[tokio::test]
async fn an_answer_that_was_asked_for_earlier_does_not_replace_a_later_one() {
    let bench = cached();
    assert_eq!(answer(&bench, 1).await, 1);
    bench.clock.advance(60 * SECOND);
    let elsewhere = neighbour(&bench);
    assert_eq!(answer(&elsewhere, 7).await, 7);
    let mut batch = {
        let bench = bench.clone();
        Box::pin(async move {
            let body = |items: Vec<usize>| async move { items.into_iter().map(Ok).collect() };
            let op = bench.op();
            let answers = op.run_batch::<_, _, _, Error, _, _>([(4_usize, 5_usize)], body).await;
            answers.into_iter().next().unwrap().unwrap().value
        })
    };
    until_read(&bench, &mut batch);
    bench.clock.advance(10 * SECOND);
    assert_eq!(answer(&bench, 8).await, 8, "the record has expired");
    assert_eq!(answer(&bench, 9).await, 8);
    let batched = batch.await;
    assert_eq!((answer(&bench, 9).await, batched), (8, 7), "the record says 8");
}

/// What the store has told is not kept, because an operator freed another record: nor is what was told before.
#[tokio::test]
async fn an_answer_that_is_not_kept_takes_the_place_of_an_older_one_all_the_same() {
    for frees_another in [false, true] {
        let bench = cached();
        let elsewhere = neighbour(&bench);
        answer(&bench, 1).await;
        bench.clock.advance(60 * SECOND);
        assert_eq!(answer(&elsewhere, 7).await, 7);
        let without = || async {
            let op = bench.op().key(4_usize);
            op.run(async { Ok::<_, Error>(9_usize) }).await.unwrap()
        };
        assert_eq!(without().await, 7);
        bench.clock.advance(10 * SECOND);
        assert_eq!(answer(&elsewhere, 8).await, 8);
        let mut asks = {
            let bench = bench.clone();
            Box::pin(async move {
                let op = bench.op().key(4_usize).fingerprint(Fingerprint::of("p"));
                op.run(async { Ok::<_, Error>(9_usize) }).await.unwrap()
            })
        };
        until_read(&bench, &mut asks);
        if frees_another {
            elsewhere.op().key(5_usize).forget(false).await.unwrap();
        }
        assert_eq!(asks.await, 8);
        assert_eq!(
            without().await,
            8,
            "it was told 8 a moment ago; frees another: {frees_another}"
        );
    }
}
