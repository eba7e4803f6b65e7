//! Processes that are paused for longer than their lease.

use super::Scene;
use idempotent_runtime::Abandon;
use idempotent_runtime::store::RedisStore;
use std::sync::Arc;
use support::calls::Caller;
use support::journal::{LeaseSeen, Source, Step};
use support::redis::record_name;
use support::valve::{Flow, Valve};
use support::worker::{Orders, Reach};

/// The bytes of the record, as the server has them.
async fn record(scene: &Scene, key: &str) -> Option<Vec<u8>> {
    let store = Arc::new(RedisStore::connect(&scene.server.url()).await.unwrap());
    let caller = Caller::new(store, &scene.terms(), scene.journal.clone());
    let name = record_name(&caller.operation(key).record_key().unwrap());
    let mut connection = scene.server.connection().await;
    redis::cmd("GET").arg(name).query_async(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_paused_in_its_body_is_superseded_and_the_record_stays_the_winners() {
    let scene = Scene::new(Abandon::Retry);
    let go = scene.file("go");
    let mut paused = scene.start(&Orders { end_when: Some(go.clone()), ..scene.orders(&["k"]) });
    scene.until(|seen| seen.starts(&paused) == 1).await;
    paused.pause();
    let mut winner = scene.start(&scene.orders(&["k"]));
    assert!(winner.ended().await.success());
    let before = record(&scene, "k").await.expect("the winner's record");
    paused.go_on();
    std::fs::write(go, "").unwrap();
    assert!(paused.ended().await.success());

    assert_eq!(record(&scene, "k").await, Some(before));
    let (mut first, second) = scene.look(|seen| (seen.steps(&paused), seen.steps(&winner)));
    // The body may end before it is told.
    first.retain(|step| *step != Step::Lost);
    let [Step::Call, Step::Start { number: 1, fence: smaller }, Step::End { .. }, told, ..] =
        &first[..]
    else {
        panic!("{first:?}")
    };
    let superseded =
        Step::Refused { kind: "Superseded".to_owned(), body_ran: true, lease: LeaseSeen::Lost };
    assert_eq!(*told, superseded);
    let [Step::Call, Step::Start { number: 2, fence: greater }, ..] = &second[..] else {
        panic!("{second:?}")
    };
    assert!(greater > smaller);
    // It asks again and gets what the winner got.
    assert!(matches!(first.last(), Some(Step::Value { from: Source::Replayed, .. })));
    let counts = scene.report().counts;
    assert_eq!((counts.starts, counts.succeeded), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_process_that_was_paused_in_its_body_may_still_complete() {
    let scene = Scene::new(Abandon::Block);
    let go = scene.file("go");
    let mut paused = scene.start(&Orders { end_when: Some(go.clone()), ..scene.orders(&["k"]) });
    scene.until(|seen| seen.starts(&paused) == 1).await;
    paused.pause();
    let mut other = scene.start(&scene.orders(&["k"]));
    assert!(other.ended().await.success());
    let told = scene.look(|seen| seen.steps(&other));
    assert!(
        matches!(&told[..], [.., Step::Refused { kind, body_ran: false, .. }] if kind == "Indeterminate"),
        "{told:?}"
    );
    paused.go_on();
    std::fs::write(go, "").unwrap();
    assert!(paused.ended().await.success());
    let mut later = scene.start(&scene.orders(&["k"]));
    assert!(later.ended().await.success());
    let counts = scene.report().counts;
    assert_eq!((counts.starts, counts.succeeded, counts.replays), (1, 1, 1));
}

/// A worker that is paused while its `begin` is under way does not start its body afterwards.
async fn pause_in_begin(held: Flow) {
    let scene = Scene::new(Abandon::Retry);
    let valve = Valve::open(scene.server.address()).await;
    let go = scene.file("go");
    let reach = Reach::Url(valve.url());
    let orders = Orders { reach, begin_when: Some(go.clone()), ..scene.orders(&["k"]) };
    let mut paused = scene.start(&orders);
    scene.until(|seen| seen.is_up(&paused)).await;
    valve.set(held);
    std::fs::write(go, "").unwrap();
    support::until(|| valve.held() > 0).await;
    paused.pause();
    valve.set(Flow::Everything);
    // It is granted, and does not know.
    while record(&scene, "k").await.is_none() {
        tokio::task::yield_now().await;
    }
    let mut other = scene.start(&scene.orders(&["k"]));
    assert!(other.ended().await.success());
    paused.go_on();
    assert!(paused.ended().await.success());

    let (first, second) = scene.look(|seen| (seen.steps(&paused), seen.steps(&other)));
    assert!(
        matches!(&second[..], [Step::Call, Step::Start { number: 2, .. }, Step::End { .. }, _]),
        "{second:?}"
    );
    let [Step::Call, Step::Refused { kind, body_ran: false, .. }, rest @ ..] = &first[..] else {
        panic!("{first:?}")
    };
    assert_eq!(kind, "StoreUnavailable");
    assert!(!rest.iter().any(|step| matches!(step, Step::Start { .. })), "{rest:?}");
    assert!(matches!(rest.last(), Some(Step::Value { from: Source::Replayed, .. })));
    let counts = scene.report().counts;
    assert_eq!((counts.starts, counts.succeeded), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_paused_before_its_grant_does_not_start_its_body() {
    pause_in_begin(Flow::Replies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_paused_before_it_hears_of_its_grant_does_not_start_its_body() {
    pause_in_begin(Flow::Requests).await;
}
