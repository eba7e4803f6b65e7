//! Scheduled jobs: one run per period, on a clock that the tests move.

mod clocks;
mod cluster;

use cluster::{Cluster, FIRST, Job, MINUTE, Process, Run, Running, at_rest};
use idempotent_queue::schedule::{CatchUp, Period, Schedule};
use idempotent_runtime::store::State;
use idempotent_runtime::testing::Verb;
use idempotent_runtime::{Error, Idempotency, idempotent};
use std::time::Duration;
use support::{until, while_time_passes};

#[tokio::test]
async fn two_processes_run_twenty_periods_once_each() {
    let cluster = Cluster::new(Job::default());
    let processes = [cluster.process(), cluster.process()];
    let running = processes.each_ref().map(Process::start);
    for round in 0..20 {
        // Both have looked at the period before it passes.
        until(|| processes.iter().all(|process| process.asked() > round)).await;
        cluster.started(FIRST..=FIRST + round as u64).await;
        at_rest(&processes).await;
        cluster.pass(1);
    }
    for running in running {
        running.end().await;
    }
    let starts = cluster.job.starts();
    assert!(starts.len() <= 21, "one may have begun at the end: {starts:?}");
    assert!(starts.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{starts:?}");
}

#[tokio::test]
async fn missed_periods_are_run_as_the_policy_says() {
    let each = |at_most| CatchUp::Each { at_most };
    // Down from the end of the first period up to the sixth. A process that starts asks for the first period of
    // all, unless nothing is caught up, and for each that may have been missed.
    let table = [
        (CatchUp::Skip, vec![65], 1),
        (CatchUp::Latest, vec![64, 65], 3),
        (each(2), vec![63, 64, 65], 4),
        (each(50), vec![61, 62, 63, 64, 65], 7),
    ];
    for (policy, run, questions) in table {
        let cluster = Cluster::new(Job::default());
        let process = cluster.process();
        let before = process.start_as(process.schedule().catch_up(policy));
        cluster.started([FIRST]).await;
        until(|| process.store.answers(Verb::Complete) > 0).await;
        before.end().await;
        cluster.pass(5);
        let process = cluster.process();
        let after = process.start_as(process.schedule().catch_up(policy));
        let expected: Vec<_> = [FIRST].into_iter().chain(run).collect();
        cluster.started(expected.clone()).await;
        // Nothing is run again by the next one.
        after.end().await;
        let process = cluster.process();
        let again = process.start_as(process.schedule().catch_up(policy));
        until(|| process.asked() == questions).await;
        again.end().await;
        assert_eq!(cluster.job.starts(), expected, "{policy:?}");
    }
}

#[tokio::test]
async fn a_process_that_was_held_up_catches_up() {
    for (policy, run) in [(CatchUp::Skip, vec![60, 64]), (CatchUp::Latest, vec![60, 63, 64])] {
        let cluster = Cluster::new(Job::default());
        let process = cluster.process();
        let running = process.start_as(process.schedule().catch_up(policy));
        cluster.started([FIRST]).await;
        cluster.pass(4);
        cluster.started(run).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_job_has_missed_nothing_before_it_was_first_scheduled() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let each = process.schedule().catch_up(CatchUp::Each { at_most: 50 });
    let running = process.start_as(each);
    cluster.started([FIRST]).await;
    cluster.pass(1);
    cluster.started([FIRST, FIRST + 1]).await;
    running.end().await;
}

#[tokio::test]
async fn a_failed_run_is_tried_again_in_its_period_and_no_more_often_than_it_may() {
    for failure in [Run::Fails, Run::Panics] {
        let cluster = Cluster::new(Job::told([failure, Run::Succeeds]));
        let process = cluster.process();
        let running = process.start();
        cluster.started([60]).await;
        while_time_passes(|by| cluster.clock.advance(by), cluster.started([60, 60])).await;
        assert_eq!(cluster.job.ends(), [60]);
        running.end().await;

        let cluster = Cluster::new(Job::told([failure; 3]));
        let process = cluster.process();
        let running = process.start_as(process.schedule().max_attempts(3));
        while_time_passes(|by| cluster.clock.advance(by), cluster.started([60; 3])).await;
        // It has failed for good, for every process. The next period is another matter.
        let last = cluster.process();
        let other = last.start_as(last.schedule().max_attempts(3));
        let record = process.idem.operation("job").key(60);
        while_time_passes(
            |by| cluster.clock.advance(by),
            support::until_async(|| async {
                let record = record.get().await.unwrap();
                record.is_some_and(|it| it.head.state == State::FailedFinal)
            }),
        )
        .await;
        cluster.pass(1);
        cluster.started([60, 60, 60, 61]).await;
        other.end().await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_run_that_fails_until_its_period_is_over_was_missed() {
    for (policy, run) in [(CatchUp::Skip, vec![60, 61]), (CatchUp::Latest, vec![60, 60, 61])] {
        let cluster = Cluster::new(Job::told([Run::Fails]));
        let process = cluster.process();
        // The pause is longer than what is left of the period.
        let schedule = process.schedule().backoff(MINUTE, MINUTE).catch_up(policy);
        let running = process.start_as(schedule);
        cluster.started([60]).await;
        until(|| process.store.answers(Verb::Fail) > 0).await;
        cluster.pass(1);
        cluster.started(run).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_shutdown_lets_a_run_finish_and_starts_no_other() {
    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let mut running = process.start();
    cluster.started([60]).await;
    running.stop();
    cluster.clock.advance(MINUTE / 4);
    // It is waited for, however often the schedule is polled.
    let mut looks = 0;
    until(|| {
        assert!(!running.task.is_finished());
        looks += 1;
        looks == 20
    })
    .await;
    cluster.job.0.go_on.notify_one();
    running.task.await.unwrap().unwrap();
    assert_eq!((cluster.job.starts(), cluster.job.ends()), (vec![60], vec![60]));
    let record = process.idem.operation("job").key(60).get().await.unwrap().unwrap();
    assert_eq!(record.head.state, State::Succeeded);
}

#[tokio::test]
async fn a_shutdown_ends_pauses_at_once() {
    let cluster = Cluster::new(Job::told([Run::Fails]));
    let process = cluster.process();
    let running = process.start();
    cluster.started([60]).await;
    // The clock stands still: neither the next try nor the next period would ever come.
    until(|| process.store.answers(Verb::Fail) > 0).await;
    running.end().await;
    assert_eq!(cluster.job.starts(), [60]);
}

#[tokio::test]
async fn a_run_that_is_dropped_at_the_end_is_taken_over_by_another_process() {
    let cluster = Cluster::new(Job::told([Run::Hangs]));
    let first = cluster.process();
    let running = first.start_as(first.schedule().drain(Duration::from_millis(10)));
    cluster.started([60]).await;
    let second = cluster.process();
    let other = second.start();
    until(|| second.asked() > 0).await;
    running.end().await;
    while_time_passes(|by| cluster.clock.advance(by), cluster.started([60, 60])).await;
    assert_eq!(cluster.job.ends(), [60]);
    other.end().await;
}

#[tokio::test]
async fn a_run_that_outlasts_its_period_does_not_overlap_unless_asked() {
    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let running = process.start();
    cluster.started([60]).await;
    cluster.clock.advance(MINUTE / 2);
    until(|| process.store.answers(Verb::Renew) > 0).await;
    cluster.clock.advance(MINUTE / 2);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.job.starts(), [60]);
    cluster.job.0.go_on.notify_one();
    cluster.started([60, 61]).await;
    running.end().await;

    let cluster = Cluster::new(Job::told([Run::Waits]));
    let process = cluster.process();
    let running = process.start_as(process.schedule().concurrency(2));
    cluster.started([60]).await;
    cluster.pass(1);
    cluster.started([60, 61]).await;
    cluster.job.0.go_on.notify_one();
    running.end().await;
}

#[tokio::test]
async fn an_outage_of_the_store_counts_as_no_attempt() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    process.store.all_down();
    let running = process.start_as(process.schedule().max_attempts(1));
    while_time_passes(|by| cluster.clock.advance(by), until(|| process.asked() > 3)).await;
    assert_eq!(cluster.job.starts(), [0; 0]);
    process.store.all_up();
    while_time_passes(|by| cluster.clock.advance(by), until(|| !cluster.job.ends().is_empty()))
        .await;
    assert_eq!(cluster.job.starts().len(), 1);
    running.end().await;
}

#[tokio::test]
async fn jitter_delays_a_run_by_at_most_half_of_its_period() {
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = process.start_as(process.schedule().jitter(MINUTE * 9));
    cluster.started([60]).await;
    until(|| process.store.answers(Verb::Complete) > 0).await;
    cluster.pass(1);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.job.starts(), [60], "it does not run at the first moment");
    cluster.clock.advance(MINUTE / 2);
    cluster.started([60, 61]).await;
    running.end().await;
}

#[tokio::test]
async fn a_schedule_that_cannot_work_says_so() {
    let idem = Idempotency::in_memory().unwrap();
    let job = |_: Period| async { Ok::<_, String>(()) };
    let nameless = Schedule::every(&idem, "", MINUTE).run(job).await.unwrap_err();
    assert!(nameless.to_string().contains("its name is empty"), "{nameless}");
    let never = Schedule::every(&idem, "job", Duration::ZERO).run(job).await.unwrap_err();
    assert!(never.to_string().contains("its period is shorter"), "{never}");
}

#[tokio::test]
async fn functions_of_the_job_use_the_instance_of_the_schedule() {
    #[idempotent(name = "report", key = "period", mode = "strong", expire = "1d")]
    async fn report(period: Period) -> Result<u64, Error> {
        Ok(period.number())
    }
    let cluster = Cluster::new(Job::default());
    let process = cluster.process();
    let running = Running::new(process.schedule(), |period| async move {
        report(period).await.map(|_| ()).map_err(|error| error.to_string())
    });
    support::until_async(|| async {
        process.idem.operation("report").key(60).get().await.unwrap().is_some()
    })
    .await;
    running.end().await;
}
