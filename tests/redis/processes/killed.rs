//! Processes that are killed without a warning, at any moment of a call.
#![allow(clippy::print_stdout)]

use super::Scene;
use idempotent_runtime::protocol::Resolved;
use idempotent_runtime::store::RedisStore;
use idempotent_runtime::{Abandon, Resolution};
use rand::RngExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use support::calls::Caller;
use support::history::{History, Report};
use support::journal::What;
use support::plan::Mix;
use support::worker::Orders;
use tokio::task::JoinSet;

/// Groups of keys that are worked on at a time, so that one need not wait for another's leases.
const LANES: usize = 3;
const KEYS: usize = 24;
const KILLS: usize = 8;

/// Starts workers on one group of keys after the other and kills them. The last workers of a group
/// are left to finish it. Returns when at least so many were killed at work.
async fn kill_workers(scene: &Arc<Scene>, at_work: usize) {
    // A few have nothing to do when they are killed.
    let kills = at_work + at_work / 20 + 5;
    let killed = Arc::new(AtomicUsize::new(0));
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let (scene, killed) = (Arc::clone(scene), Arc::clone(&killed));
        lanes.spawn(async move {
            for group in 0.. {
                if killed.load(Relaxed) >= kills {
                    return;
                }
                let keys: Vec<_> = (0..KEYS).map(|key| format!("{lane}-{group}-{key}")).collect();
                killed.fetch_add(kill_in_group(&scene, &keys).await, Relaxed);
            }
        });
    }
    lanes.join_all().await;
    assert!(scene.history().kills_at_work() >= at_work);
}

/// Works on one group of keys. Returns how many workers were killed.
async fn kill_in_group(scene: &Scene, keys: &[String]) -> usize {
    let mut workers: Vec<_> = (0..2).map(|_| scene.start(&busy(scene, keys))).collect();
    let mut killed = 0;
    while killed < KILLS {
        let index = rand::rng().random_range(0..workers.len());
        let worker = &workers[index];
        scene.until(|seen| seen.called.contains(&worker.process())).await;
        let moment = Duration::from_micros(rand::rng().random_range(0..25_000));
        tokio::time::sleep(moment).await;
        let mut worker = workers.swap_remove(index);
        if worker.has_ended() {
            // The group is finished.
            break;
        }
        worker.kill(&scene.journal);
        killed += 1;
        workers.push(scene.start(&busy(scene, keys)));
    }
    for mut worker in workers {
        assert!(worker.ended().await.success());
    }
    // Whoever is left finishes; one that was finished already would not have seen the last kill.
    let mut last = scene.start(&busy(scene, keys));
    assert!(last.ended().await.success());
    killed
}

fn busy(scene: &Scene, keys: &[String]) -> Orders {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mix = Mix { some: 600, some_millis: 10, ..Mix::default() };
    Orders { tasks: 4, mix, ..scene.orders(&keys) }
}

fn show(title: &str, history: &History, report: &Report) {
    println!(
        "{title}: {} kills, {} of them at work\n{:#?}",
        history.kills(),
        history.kills_at_work(),
        report.counts
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_survives_kills_and_each_of_them_allows_one_more_start() {
    let scene = Arc::new(Scene::new(Abandon::Retry));
    kill_workers(&scene, support::size(200, 4_000)).await;
    let (history, report) = (scene.history(), scene.report());
    show("retry", &history, &report);
    for key in history.keys() {
        let one = history.check(key);
        let cut = one.counts.cut.in_body + one.counts.cut.after_body;
        assert!(one.value.is_some(), "{key} did not succeed");
        let excused = cut + one.counts.lost + one.counts.unrecorded;
        assert!(one.counts.starts <= 1 + excused, "{key}: {:?}", one.counts);
    }
    let cut = report.counts.cut;
    for hits in [cut.before_body, cut.in_body, cut.after_body, cut.after_success] {
        assert!(hits > 0, "no call was hit in one of its parts: {cut:?}");
    }
    // Some answers of killed processes had arrived; some had not, and ran again.
    assert!(report.counts.starts > report.counts.keys);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_key_that_was_killed_never_starts_again_until_it_is_resolved() {
    let scene = Arc::new(Scene::new(Abandon::Block));
    kill_workers(&scene, support::size(50, 1_000)).await;
    let (history, report) = (scene.history(), scene.report());
    show("block", &history, &report);
    let mut unknown = Vec::new();
    for key in history.keys() {
        let one = history.check(key);
        assert!(one.counts.starts <= 1, "{key}: {:?}", one.counts);
        if one.value.is_some() {
            assert_eq!(one.counts.cut.in_body, 0, "{key}: nobody knows its answer");
            continue;
        }
        assert!(one.counts.refusals["Indeterminate"] > 0, "{key}: {:?}", one.counts);
        unknown.push(key.to_owned());
    }
    assert!(report.counts.cut.in_body > 0 && !unknown.is_empty());
    assert!(report.counts.succeeded > 0);
    resolve(&scene, &unknown).await;
    let keys: Vec<&str> = unknown.iter().map(String::as_str).collect();
    let mut last = scene.start(&scene.orders(&keys));
    assert!(last.ended().await.success());
    let resolved = scene.report();
    assert_eq!(resolved.counts.succeeded, resolved.counts.keys);
}

/// Every second one did happen, as far as the operator knows.
async fn resolve(scene: &Scene, keys: &[String]) {
    let store = Arc::new(RedisStore::connect(&scene.server.url()).await.unwrap());
    let operator = Caller::new(store, &scene.terms(), scene.journal.clone());
    for (index, key) in keys.iter().enumerate() {
        let answer = (index % 2 == 0).then(|| format!("resolved {key}"));
        scene.journal.note(What::Resolved { key: key.clone(), answer: answer.clone() });
        let resolution = match &answer {
            Some(answer) => Resolution::Succeeded(Some(answer)),
            None => Resolution::Retry,
        };
        let resolved = operator.operation(key).resolve(resolution).await.unwrap();
        assert_eq!(resolved, Resolved::Done);
    }
}
