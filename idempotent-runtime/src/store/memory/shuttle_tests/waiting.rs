//! Those who wait for a key are woken.

use super::*;
use shuttle::future::{block_on, spawn, yield_now};
use std::sync::atomic::AtomicUsize;

/// Waits until the key is no longer held, the way a waiting caller does.
async fn until_not_in_flight(bench: &Bench, caller: u8) -> Begun {
    loop {
        let watch = now(bench.store.watch(&key()));
        match bench.begin(caller) {
            Begun::InFlight { .. } => watch.await,
            answer => return answer,
        }
    }
}

#[test]
fn whoever_watches_then_looks_is_woken_by_the_end() {
    check::many(|| {
        let bench = bench();
        let attempt = bench.fresh(9);
        let waiters: Vec<_> = (1..=2)
            .map(|caller| {
                let bench = Arc::clone(&bench);
                spawn(async move { until_not_in_flight(&bench, caller).await })
            })
            .collect();
        // One more that goes away while it watches.
        let gone = {
            let bench = Arc::clone(&bench);
            spawn(async move { until_not_in_flight(&bench, 3).await })
        };
        gone.abort();
        assert_eq!(bench.complete(&attempt), Updated::Done);
        for waiter in waiters {
            let answer = block_on(waiter).unwrap();
            assert!(matches!(answer, Begun::Succeeded { .. }), "{answer:?}");
        }
    });
}

#[test]
fn those_who_wait_run_one_after_the_other_when_the_key_is_freed() {
    check::many(|| {
        let bench = bench();
        let first = bench.fresh(9);
        let running = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (1..=3)
            .map(|caller| {
                let (bench, running) = (Arc::clone(&bench), Arc::clone(&running));
                spawn(async move {
                    let Begun::Fresh(attempt) = until_not_in_flight(&bench, caller).await else {
                        panic!("a freed key is granted");
                    };
                    assert_eq!(running.fetch_add(1, SeqCst), 0);
                    yield_now().await;
                    running.fetch_sub(1, SeqCst);
                    end_without_answer(&bench, &attempt);
                })
            })
            .collect();
        end_without_answer(&bench, &first);
        waiters.into_iter().for_each(|waiter| block_on(waiter).unwrap());
    });
}

fn end_without_answer(bench: &Bench, attempt: &AttemptId) {
    let (key, store) = (key(), &bench.store);
    let settled = match thread_rng().gen_range(0..4) {
        0 => now(store.fail(&key, attempt, Failure::Free(Binding::Lifted), RETENTION)),
        1 => now(store.abandon(&key, attempt, RETENTION, Binding::Lifted)),
        2 => now(store.release(&key, attempt, RETENTION, Binding::Lifted)),
        _ => match now(store.forget(&key, true)) {
            Forgotten::Freed => Updated::Done,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(settled, Updated::Done);
}
