//! Many callers of one key in several processes.

use super::Scene;
use idempotent_runtime::Abandon;
use support::calls::Terms;
use support::plan::Mix;
use support::worker::Orders;

/// So many calls of one key at once, from so many processes: one runs, all get its bytes.
async fn duplicates(calls: usize, processes: usize) {
    let scene = Scene::new(Abandon::Retry);
    let go = scene.file("go");
    let orders = || Orders {
        tasks: calls / processes,
        mix: Mix { long: 1_000, long_millis: 50, ..Mix::default() },
        begin_when: Some(go.clone()),
        terms: Terms { wait: 60_000, ..scene.terms() },
        ..scene.orders(&["k"])
    };
    let mut workers: Vec<_> = (0..processes).map(|_| scene.start(&orders())).collect();
    scene.until(|seen| workers.iter().all(|worker| seen.is_up(worker))).await;
    std::fs::write(&go, "").unwrap();
    for worker in &mut workers {
        assert!(worker.ended().await.success());
    }
    let history = scene.history();
    let one = history.check("k");
    assert!(one.violations.is_empty(), "{:?}", one.violations);
    assert_eq!((one.counts.calls, one.counts.starts, one.counts.succeeded), (calls, 1, 1));
    assert_eq!(one.counts.replays, calls - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_runs_and_both_get_its_bytes() {
    duplicates(2, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_calls_in_four_processes_one_runs_and_all_get_its_bytes() {
    duplicates(16, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_calls_in_four_processes_one_runs_and_all_get_its_bytes() {
    duplicates(1_000, 4).await;
}
