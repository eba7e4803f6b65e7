//! Events between two messages of one verb.

use crate::message::Message;
use crate::site::{EXPIRE, Site, name, strong};
use idempotent_runtime::{Abandon, Error, ErrorKind};
use std::time::Duration;
use support::proxy::{Fault, Gate};
use support::until;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
/// The lease of an attempt whose renewal comes soon.
const RENEWED_SOON: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_arrives_before_the_takeover_keeps_the_key() {
    let site = Site::start().await;
    let first = site.process_with(LONG, strong().with_lease(RENEWED_SOON)).await;
    let second = site.process_with(LONG, strong().with_lease(LONG)).await;
    let (renewal, takeover) = (Gate::new(), Gate::new());
    let renew = Message::Renew.about(&name("k"));
    first.proxy.fault_at(1, renew.clone(), Fault::HoldRequest(renewal.clone()));
    let take_over = Message::TakeOver.about(&name("k"));
    second.proxy.fault_at(1, take_over.clone(), Fault::HoldRequest(takeover.clone()));
    let held = first.hold("k").await;
    until(|| renewal.held() == 1).await;
    // The lease is over, and the second process has seen that.
    site.age("k", RENEWED_SOON).await;
    let (idem, runs) = (second.idem.clone(), site.runs.clone());
    let call = tokio::spawn(async move {
        let op = idem.operation("test.op").key("k").wait(Duration::ZERO);
        op.run(async { Ok::<_, Error>(runs.record("k")) }).await
    });
    until(|| takeover.held() == 1).await;
    renewal.open();
    until(|| first.proxy.answered(&renew) > 0).await;
    assert!(site.ttl("k").await > EXPIRE, "renewed");
    takeover.open();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::InProgress, false));
    assert_eq!(second.proxy.answered(&take_over), 1, "it was tried");
    assert_eq!(held.end().await.unwrap(), 1);
    assert_eq!(second.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    first.ends_clean().await;
    second.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_ends_between_two_looks_at_it_is_not_of_unknown_outcome() {
    let site = Site::start().await;
    let (first, second) =
        (site.process_with(LONG, strong()).await, site.process_with(LONG, strong()).await);
    let gate = Gate::new();
    let look = Message::Look.about(&name("k"));
    second.proxy.fault_at(1, look.clone(), Fault::HoldRequest(gate.clone()));
    let held = first.hold_as("k", |op| op.abandon(Abandon::Block)).await;
    let call = second.spawn("k");
    // It has read a record that is being processed, and asks how long that lives.
    until(|| gate.held() == 1).await;
    assert_eq!(held.end().await.unwrap(), 1);
    // The answer lives shorter than a blocking attempt does after its lease.
    gate.open();
    assert_eq!(call.await.unwrap().unwrap(), 1);
    assert_eq!(second.proxy.answered(&look), 1);
    assert_eq!(site.runs.of("k"), 1);
    first.ends_clean().await;
    second.ends_clean().await;
}
