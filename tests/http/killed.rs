//! A process that is killed while its handler runs.

use crate::processes::{Order, Said, Scene};
use idempotent_runtime::Abandon;
use std::time::{Duration, Instant};
use support::history::{History, Rules};
use support::http::{Connection, NEVER, Service, VALUE};
use support::journal::{Event, Step, What};
use support::until;

const LEASE: u64 = 4_000;

fn order(call: u64, ends: &'static str) -> Order {
    Order { key: "k".to_owned(), call, takes: 0, ends }
}

async fn ask(connection: &mut Connection, call: u64) -> Said {
    Said::by(&order(call, VALUE).send(connection).await.unwrap())
}

/// Notes a call to a service by the test, and what it said.
fn notes(scene: &Scene, service: &Service, call: u64, said: &Said) {
    let step = said.step();
    for step in [Step::Call, step] {
        let what = What::Of { key: "k".to_owned(), call, step };
        scene.journal.note_about(service.worker.process(), what);
    }
}

#[tokio::test]
async fn a_request_of_a_process_that_was_killed_is_in_progress_until_its_lease_ends_and_then_runs()
{
    let mut scene = Scene::new(2, LEASE);
    let mut other = scene.services[1].connect().await.unwrap();
    let mut cut = scene.services[0].connect().await.unwrap();
    cut.write(&order(1, NEVER).bytes()).await.unwrap();
    let mut events = Vec::new();
    let started = |event: &Event| matches!(&event.what, What::Of { step: Step::Start { .. }, .. });
    until(|| {
        events.extend(scene.read());
        events.iter().any(started)
    })
    .await;
    // Longer than the lease: it is renewed while its process lives.
    let alive = Instant::now();
    let mut call = 1;
    while alive.elapsed() < Duration::from_millis(LEASE * 5 / 4) {
        call += 1;
        assert_eq!(ask(&mut other, call).await, Said::InProgress);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    scene.services.remove(0).worker.kill(&scene.journal);
    let killed = Instant::now();
    let mut refusals = 0;
    let first = loop {
        call += 1;
        match ask(&mut other, call).await {
            Said::InProgress => refusals += 1,
            answer => break answer,
        }
        assert!(killed.elapsed() < Duration::from_secs(60), "the key is never free");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let Said::First { attempt: 2, value } = &first else { panic!("{first:?}") };
    assert!(refusals > 0, "it ran at once");
    notes(&scene, &scene.services[0], call, &first);
    let replay = ask(&mut other, call + 1).await;
    assert_eq!(replay, Said::Replay { attempt: 2, value: value.clone() });
    notes(&scene, &scene.services[0], call + 1, &replay);

    events.extend(scene.read());
    let starts = events.iter().filter(|event| started(event)).count();
    assert_eq!(starts, 2);
    let rules = Rules::new(Abandon::Retry, Duration::from_secs(3_600));
    let mut history = History::new(rules);
    history.add(events);
    let report = history.check_all();
    report.assert_kept();
    assert_eq!((report.counts.cut.in_body, report.counts.succeeded), (1, 1));
}
