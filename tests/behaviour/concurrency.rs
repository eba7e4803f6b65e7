//! Many callers at once: one runs, all are answered.

use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Error, ErrorKind, Mode};
use std::sync::Arc;
use support::{Bench, both, remote};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// `callers` calls of `key` that start at once and whose body lasts until all have started.
fn callers(bench: &Bench, set: &mut JoinSet<Result<usize, Error>>, key: &str, callers: usize) {
    let barrier = Arc::new(Barrier::new(callers));
    for _ in 0..callers {
        let (bench, barrier, key) = (bench.clone(), Arc::clone(&barrier), key.to_owned());
        set.spawn(async move {
            barrier.wait().await;
            let body = async {
                tokio::task::yield_now().await;
                Ok(bench.ledger.record(key.clone()))
            };
            bench.idem.operation("many").key(&key).run(body).await
        });
    }
}

async fn answers(set: JoinSet<Result<usize, Error>>) -> Vec<usize> {
    set.join_all().await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_callers_one_runs_and_the_others_get_its_answer() {
    for bench in both() {
        let mut set = JoinSet::new();
        callers(&bench, &mut set, "k", 100);
        assert_eq!(answers(set).await, vec![1; 100]);
        assert_eq!(bench.runs(), 1);
        bench.at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_reject_mode_one_of_a_hundred_runs_and_the_others_are_told_so() {
    for bench in both() {
        let mut set = JoinSet::new();
        for _ in 0..100 {
            let bench = bench.clone();
            set.spawn(async move {
                let body = async { Ok(bench.ledger.record("k")) };
                bench.op().mode(Mode::Reject).run::<_, Error, _>(body).await
            });
        }
        let (ran, refused): (Vec<_>, Vec<_>) =
            set.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!((ran.len(), bench.runs()), (1, 1));
        for error in refused.into_iter().map(Result::unwrap_err) {
            assert!(matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InProgress));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_groups_of_twenty_and_thirty_alone_keep_apart() {
    for bench in both() {
        let mut set = JoinSet::new();
        for group in 0..5 {
            callers(&bench, &mut set, &format!("group {group}"), 20);
        }
        for alone in 0..30 {
            callers(&bench, &mut set, &format!("alone {alone}"), 1);
        }
        assert_eq!(answers(set).await, vec![1; 130]);
        assert_eq!((bench.ledger.total(), bench.ledger.entries().len()), (35, 35));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_thousand_callers_one_runs_and_the_others_get_its_answer() {
    let many = support::size(10_000, 100_000);
    for bench in both() {
        let mut set = JoinSet::new();
        callers(&bench, &mut set, "k", many);
        assert_eq!(answers(set).await, vec![1; many]);
        assert_eq!(bench.runs(), 1);
        bench.at_rest().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_callers_of_one_key_reach_the_store_a_handful_of_times() {
    let bench = remote();
    let gate = bench.store.hold(Verb::Begin);
    let mut set = JoinSet::new();
    for _ in 0..10_000 {
        let bench = bench.clone();
        set.spawn(async move { bench.run().await });
    }
    gate.arrived(1).await;
    gate.open();
    assert_eq!(answers(set).await, vec![1; 10_000]);
    // Those who come after the end ask for themselves, but never two at once.
    let begins = bench.store.calls(Verb::Begin);
    assert!(begins < 1_000, "{begins} begins");
}
