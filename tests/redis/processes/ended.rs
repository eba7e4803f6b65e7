//! Processes that are asked to terminate.

use super::Scene;
use idempotent_runtime::Abandon;
use support::journal::What;
use support::worker::Orders;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_to_end_finishes_its_bodies_and_starts_no_more() {
    let scene = Scene::new(Abandon::Retry);
    let go = scene.file("go");
    let orders = Orders { tasks: 4, end_when: Some(go.clone()), ..scene.orders(&KEYS) };
    let mut worker = scene.start(&orders);
    scene.until(|seen| seen.starts(&worker) > 0).await;
    worker.terminate();
    scene.until(|seen| seen.told(&worker, &What::ToldToEnd)).await;
    std::fs::write(go, "").unwrap();
    assert!(worker.ended().await.success());
    scene.until(|seen| seen.told(&worker, &What::Drained { all: true })).await;
    let first = scene.report().counts;
    assert!(first.starts > 0 && first.starts < KEYS.len(), "{first:?}");
    assert_eq!(first.succeeded, first.starts);
    assert!(first.refusals["ShuttingDown"] > 0);

    let mut next = scene.start(&scene.orders(&KEYS));
    assert!(next.ended().await.success());
    let both = scene.report().counts;
    assert_eq!((both.starts, both.succeeded), (KEYS.len(), KEYS.len()));
    assert_eq!(both.replays - first.replays, first.succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_cannot_finish_in_time_is_left_to_its_lease() {
    let scene = Scene::new(Abandon::Retry);
    let never = Some(scene.file("never"));
    let mut worker =
        scene.start(&Orders { tasks: 1, end_when: never, grace: 200, ..scene.orders(&["k"]) });
    scene.until(|seen| seen.starts(&worker) == 1).await;
    worker.terminate();
    assert!(worker.ended().await.success());
    scene.until(|seen| seen.told(&worker, &What::Drained { all: false })).await;
    // It has left a call behind, as one that is killed does.
    scene.journal.note_about(worker.process(), What::Killed);

    let mut next = scene.start(&scene.orders(&["k"]));
    assert!(next.ended().await.success());
    let counts = scene.report().counts;
    assert_eq!((counts.starts, counts.succeeded, counts.cut.in_body), (2, 1, 1));
}
