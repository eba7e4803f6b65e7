//! A disabled instance runs every body without asking the store, and warns each time.

use idempotent_runtime::protocol::Forgotten;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::tokens::{Consumed, Tokens};
use idempotent_runtime::{
    AnswerPolicy, Begin, Error, ErrorKind, Idempotency, Mode, Operation, Outcome, Recorded,
    current, idempotent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use support::{OwnError, remote};
use tracing::Level;

fn disabled() -> Idempotency {
    Idempotency::builder().config(support::strong()).disabled().build().unwrap()
}

fn op(idem: &Idempotency) -> Operation<'_> {
    idem.operation("test.op").key("k")
}

/// The runs without protection since the last look, as the log has them.
fn warned(events: &support::events::Events) -> usize {
    let seen = events.take("disabled: running without protection");
    for event in &seen {
        assert_eq!(event.level, Level::WARN);
        assert!(event.fields.contains_key("operation"), "{event:?}");
        assert!(event.fields["key"].starts_with('#'), "{event:?}");
    }
    seen.len()
}

#[tokio::test]
async fn every_body_runs_and_every_run_warns() {
    let events = support::events::collect();
    let idem = disabled();
    assert!(!idem.is_enabled());
    for run in 0..3 {
        let outcome = op(&idem).run_detailed(async { Ok::<u8, Error>(run) }).await.unwrap();
        let Outcome { value, replayed, recorded, .. } = outcome;
        assert_eq!((value, replayed, recorded), (run, false, Recorded::No));
        assert_eq!(warned(&events), 1);
    }
    for mode in [Mode::Reject, Mode::Window] {
        op(&idem).mode(mode).run(async { Ok::<u8, Error>(1) }).await.unwrap();
        assert_eq!(warned(&events), 1);
    }
    let own = op(&idem).run(async { Err::<u8, _>(OwnError::new("mine")) }).await;
    assert_eq!(own.unwrap_err().0, "mine");
    assert_eq!(op(&idem).get().await.unwrap(), None, "nothing is stored");
}

#[idempotent(key = "id", name = "orders.create", mode = "strong", with = idem)]
async fn create(idem: &Idempotency, id: u8, runs: &AtomicU8) -> Result<u8, Error> {
    assert!(current().is_none(), "nothing is held");
    Ok(id + runs.fetch_add(1, Ordering::Relaxed))
}

#[idempotent(key = "id", name = "orders.send", mode = "strong", detach, with = idem)]
async fn send(idem: Idempotency, id: u8, runs: Arc<AtomicU8>) -> Result<u8, Error> {
    tokio::task::yield_now().await;
    Ok(id + runs.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn attributed_functions_run_each_time_detached_ones_too() {
    let events = support::events::collect();
    let (idem, runs) = (disabled(), Arc::new(AtomicU8::new(0)));
    assert_eq!(create(&idem, 10, &runs).await.unwrap(), 10);
    assert_eq!(create(&idem, 10, &runs).await.unwrap(), 11);
    assert_eq!(send(idem.clone(), 10, Arc::clone(&runs)).await.unwrap(), 12);
    assert_eq!(send(idem.clone(), 10, Arc::clone(&runs)).await.unwrap(), 13);
    assert_eq!(warned(&events), 4);
}

#[tokio::test]
async fn every_row_of_a_batch_runs_repeated_keys_too() {
    let events = support::events::collect();
    let idem = disabled();
    let rows = idem.operation("rows").run_batch([(1, 1_u8), (2, 2), (1, 3)], |rows| async move {
        assert_eq!(rows, [1, 2, 3]);
        rows.into_iter().map(Ok::<u8, Error>).collect()
    });
    let values: Vec<u8> = rows.await.into_iter().map(|row| row.unwrap().value).collect();
    assert_eq!(values, [1, 2, 3]);
    assert_eq!(warned(&events), 3);
}

#[tokio::test]
async fn attempts_by_hand_are_always_fresh_and_end_in_nothing() {
    let events = support::events::collect();
    let idem = disabled();
    let fresh = async || match op(&idem).begin().await.unwrap() {
        Begin::Fresh(attempt) => attempt,
        other => panic!("{other:?}"),
    };
    let first = fresh().await;
    let second = fresh().await;
    assert_eq!((first.number(), second.number()), (1, 1));
    assert!(first.fence() > 0 && !first.current().is_lost());
    let inner = op(&idem).run(async { Ok::<u8, Error>(1) });
    first.current().enter(inner).await.expect("it holds no key that could be entered twice");
    first.complete(&1_u8).await.unwrap();
    second.fail().await.unwrap();
    fresh().await.fail_for_good(&"no").await.unwrap();
    drop(fresh().await);
    assert_eq!(warned(&events), 5);
    assert_eq!(op(&idem).get().await.unwrap(), None);
    assert_eq!(idem.in_flight(), 0);
}

#[tokio::test]
async fn the_store_is_not_asked() {
    let bench = remote();
    let store = Arc::new(bench.store.clone());
    let idem = Idempotency::builder().shared_store(store).disabled().build().unwrap();
    op(&idem).run(async { Ok::<u8, Error>(1) }).await.unwrap();
    op(&idem).run_detached(AnswerPolicy::<u8, Error>::kept(), async { Ok(1) }).await.unwrap();
    let body = |_: Vec<()>| async { vec![Ok::<u8, Error>(1)] };
    op(&idem).run_batch([(1, ())], body).await.remove(0).unwrap();
    let Begin::Fresh(attempt) = op(&idem).begin().await.unwrap() else { panic!() };
    attempt.complete(&1_u8).await.unwrap();
    drop(op(&idem).begin().await.unwrap());
    let calls: usize = Verb::ALL.iter().map(|verb| bench.store.calls(*verb)).sum();
    assert_eq!(calls, 0);
}

#[tokio::test]
async fn keys_are_checked_and_a_shutdown_refuses_as_ever() {
    let idem = disabled();
    let run = |operation: Operation<'static>| operation.run(async { Ok::<u8, Error>(1) });
    let idem: &'static Idempotency = Box::leak(Box::new(idem));
    let missing = run(idem.operation("o")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::MissingKey);
    let empty = run(idem.operation("o").key("")).await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::InvalidKey);
    idem.shutdown(std::time::Duration::ZERO).await;
    let late = run(idem.operation("o").key(1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::ShuttingDown);
}

#[tokio::test]
async fn one_time_tokens_and_operators_still_use_the_store() {
    let bench = remote();
    bench.run().await.unwrap();
    let store = Arc::new(bench.store.clone());
    let idem = Idempotency::builder().shared_store(store).disabled().build().unwrap();
    assert!(op(&idem).get().await.unwrap().is_some());
    assert_eq!(op(&idem).forget(false).await.unwrap(), Forgotten::Deleted);
    let tokens = Tokens::new(&idem);
    let token = tokens.issue("form").await.unwrap().to_string();
    assert!(matches!(tokens.consume("form", &token).await.unwrap(), Consumed::Accepted(_)));
    assert!(matches!(tokens.consume("form", &token).await.unwrap(), Consumed::Used));
}
