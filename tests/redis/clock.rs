//! Steps of the server's wall clock, which decides when a record expires.

use crate::site::{EXPIRE, LEASE, Process, Site, strong};
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, ErrorKind};
use std::time::Duration;
use support::clock::ServerClock;
use support::journal::now;
use support::until_async;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// A server on a clock of its own.
struct Stepped {
    clock: ServerClock,
    site: Site,
}

impl Stepped {
    async fn start() -> Self {
        let clock = ServerClock::new();
        let site = Site::start_with(&clock.binary(), &[]).await;
        Self { clock, site }
    }

    /// Sets the server's clock to so long after that of the machine, and waits until it goes by it.
    async fn step(&self, seconds: i64) {
        self.clock.step(seconds * 1_000);
        until_async(|| async {
            let command = redis::cmd("TIME");
            let time = command.query_async::<(i64, i64)>(&mut self.site.direct.clone()).await;
            let machine = (now() / 1_000_000_000) as i64;
            (time.unwrap().0 - machine - seconds).abs() < 2
        })
        .await;
    }

    /// A process that waits for as long as it takes, so that nothing is sent twice.
    async fn process(&self) -> Process {
        self.site.process_with(LONG, strong().with_lease(LONG).with_wait(Duration::ZERO)).await
    }
}

fn seconds(duration: Duration) -> i64 {
    duration.as_secs().try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_step_beyond_the_lease_the_first_attempt_is_superseded() {
    let stepped = Stepped::start().await;
    let (first, second) = (stepped.process().await, stepped.process().await);
    let held = first.hold("k").await;
    stepped.step(seconds(LONG) + 5).await;
    let other = second.hold("k").await;
    assert_eq!(other.attempt.attempt(), 2);
    assert!(other.attempt.fence() > held.attempt.fence());
    let error = held.end().await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Superseded, true));
    assert_eq!(other.end().await.unwrap(), 2);
    assert_eq!(first.run("k").await.unwrap(), 2);
    assert_eq!(stepped.site.runs.of("k"), 2);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_step_beyond_the_lease_a_blocking_attempt_still_completes() {
    let stepped = Stepped::start().await;
    let (first, second) = (stepped.process().await, stepped.process().await);
    let held = first.hold_as("k", |op| op.abandon(Abandon::Block)).await;
    stepped.step(seconds(LONG) + 5).await;
    let error = second.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, false));
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(second.run("k").await.unwrap(), 1);
    assert_eq!(stepped.site.runs.of("k"), 1);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_step_beyond_its_retention_an_answer_is_made_anew() {
    let stepped = Stepped::start().await;
    let process = stepped.process().await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    stepped.step(seconds(EXPIRE) - 60).await;
    assert_eq!(process.run("k").await.unwrap(), 1, "it is kept until then");
    stepped.step(seconds(EXPIRE) + 5).await;
    assert_eq!(process.run("k").await.unwrap(), 2);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_step_back_records_live_longer_and_nothing_runs_twice() {
    let stepped = Stepped::start().await;
    let (first, second) = (stepped.process().await, stepped.process().await);
    assert_eq!(first.run("answered").await.unwrap(), 1);
    let held = first.hold("held").await;
    stepped.step(-3_600).await;
    let error = second.run("held").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::InProgress, false));
    assert!(error.retry_after().unwrap() <= LONG, "no more than a lease: {error}");
    assert_eq!(second.run("answered").await.unwrap(), 1);
    assert!(stepped.site.ttl("answered").await > EXPIRE + LEASE, "by as much as the step");
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(stepped.site.state("held").await, Some(State::Succeeded));
    assert_eq!(second.run("held").await.unwrap(), 1);
    assert_eq!((stepped.site.runs.of("held"), stepped.site.runs.of("answered")), (1, 1));
    first.ends_clean().await;
    second.ends_clean().await;
}
