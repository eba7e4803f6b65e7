//! Wall clocks that are set back, differ, or show a time before the first period.

use super::cluster::{Cluster, Job, MINUTE, Process, at_rest};
use idempotent_queue::schedule::CatchUp;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use support::until;

#[tokio::test]
async fn a_clock_that_is_set_back_runs_no_period_twice() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = process.start_as(process.schedule().catch_up(CatchUp::Latest));
    for number in 60..63 {
        cluster.started(60..=number).await;
        cluster.pass(1);
    }
    cluster.started(60..=63).await;
    let asked = process.asked();
    process.ahead.store(-180, SeqCst);
    // The time passes once more for the wall clock.
    for round in 1..=3 {
        cluster.pass(1);
        until(|| process.asked() >= asked + round).await;
        assert_eq!(cluster.job.starts(), [60, 61, 62, 63]);
    }
    cluster.pass(1);
    cluster.started(60..=64).await;

    // By more than a day, to the period before.
    let (asked, ahead) = (process.asked(), process.ahead.load(SeqCst));
    let past = 24 * 3_600 + 4 * 60;
    process.ahead.store(ahead - past - 60, SeqCst);
    cluster.clock.advance(Duration::from_secs(past.unsigned_abs()));
    until(|| process.asked() > asked).await;
    cluster.pass(1);
    until(|| process.asked() > asked + 1).await;
    assert_eq!(cluster.job.starts(), [60, 61, 62, 63, 64]);
    running.end().await;
}

#[tokio::test]
async fn a_time_before_the_first_period_is_part_of_it() {
    let cluster = Cluster::new(Job::default());
    let (before_1970, before_its_offset) = (cluster.process(), cluster.process());
    before_1970.ahead.store(-2 * 3_600, SeqCst);
    let schedule = before_its_offset.schedule().offset(MINUTE * 90);
    let running = [before_1970.start(), before_its_offset.start_as(schedule)];
    for process in [&before_1970, &before_its_offset] {
        until(|| process.asked() > 0).await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    // Not a look after the other.
    assert!([&before_1970, &before_its_offset].iter().all(|process| process.asked() < 3));
    cluster.started([0]).await;
    cluster.pass(61);
    until(|| cluster.job.starts().len() == 3).await;
    assert!([1, 31].iter().all(|number| cluster.job.starts().contains(number)));
    for running in running {
        running.end().await;
    }
}

#[tokio::test]
async fn clocks_that_differ_run_no_period_twice() {
    let cluster = Cluster::new(Job::default());
    let processes = [cluster.process(), cluster.process(), cluster.process()];
    for (process, ahead) in processes.iter().zip([0, 150, -90]) {
        process.ahead.store(ahead, SeqCst);
    }
    let running = processes.each_ref().map(Process::start);
    for round in 0..10 {
        until(|| processes.iter().all(|process| process.asked() > round)).await;
        at_rest(&processes).await;
        cluster.pass(1);
    }
    for running in running {
        running.end().await;
    }
    let mut starts = cluster.job.starts();
    let all = starts.len();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), all, "no period twice");
    assert!((60..70).all(|number| starts.contains(&number)), "{starts:?}");
}
