//! One message is lost, late, doubled or cut off, for every verb.

use crate::message::Message;
use crate::site::{EXPIRE, Process, SHORT_LEASE, Site, name, short, strong};
use idempotent_runtime::store::State;
use idempotent_runtime::{Abandon, AnswerPolicy, Error, ErrorKind, Mode, Resolution};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use support::proxy::{Fault, Gate, Twin, Which};
use support::{OwnError, until, until_async};
use tokio::task::JoinSet;

/// One fault, and a key of its own on a server that it shares with the other faults.
struct Trial {
    site: Arc<Site>,
    key: String,
    fault: Fault,
}

/// Runs a test once for everything that can happen to a message, all at the same time.
async fn for_each_fault<F>(test: impl Fn(Trial) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let site = Arc::new(Site::start().await);
    let faults = [
        ("lost request", Fault::LoseRequest),
        ("lost reply", Fault::LoseReply),
        ("late request", Fault::HoldRequest(Gate::new())),
        ("late reply", Fault::HoldReply(Gate::new())),
        ("doubled, first reply", Fault::Duplicate(Twin::First)),
        ("doubled, second reply", Fault::Duplicate(Twin::Second)),
        ("cut before", Fault::CutBefore),
        ("cut after", Fault::CutAfter),
    ];
    let mut trials = JoinSet::new();
    for (key, fault) in faults {
        trials.spawn(test(Trial { site: Arc::clone(&site), key: key.to_owned(), fault }));
    }
    while let Some(ended) = trials.join_next().await {
        ended.unwrap();
    }
}

impl Trial {
    /// The fault happens to the next of these messages.
    fn strike(&self, process: &Process, message: Message) {
        process.proxy.fault_at(1, message.about(&name(&self.key)), self.fault.clone());
    }

    /// What was held arrives, after everything else has happened, and changes nothing.
    async fn late_copies_change_nothing(&self, process: &Process, message: Message) {
        let about = message.about(&name(&self.key));
        assert!(!process.proxy.sent(&about).is_empty(), "the fault met nothing");
        let before = self.site.bytes(&self.key).await;
        if let Fault::HoldRequest(gate) | Fault::HoldReply(gate) = &self.fault {
            until(|| gate.held() == 1).await;
            gate.open();
            until(|| process.proxy.answered(&about) == process.proxy.sent(&about).len()).await;
        }
        assert_eq!(self.site.bytes(&self.key).await, before, "{}", self.key);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_begin_the_body_runs_once() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        trial.strike(&process, Message::Begin);
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        let begins = process.proxy.sent(Message::Begin.about(&name(key)));
        assert!(begins.iter().all(|begin| *begin == begins[0]), "sent again, it is the same");
        trial.site.until_state(key, State::Succeeded).await;
        trial.late_copies_change_nothing(&process, Message::Begin).await;
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_the_begin_of_a_window_the_body_runs_once() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        trial.strike(&process, Message::Begin);
        let call = || {
            let op = process.op(key).mode(Mode::Window);
            op.run(async { Ok::<_, Error>(trial.site.runs.record(key)) })
        };
        assert_eq!(call().await.unwrap(), 1, "{key}");
        trial.late_copies_change_nothing(&process, Message::Begin).await;
        let error = call().await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Duplicate, false), "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_renewal_the_lease_is_kept() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        // Two renewals fit in before a process has given up on the first, and a third after that.
        let lease = Duration::from_secs(4);
        let process = trial.site.process_with(lease / 6, strong().with_lease(lease)).await;
        let held = process.hold(key).await;
        trial.strike(&process, Message::Renew);
        let renews = Message::Renew.about(&name(key));
        until(|| process.proxy.answered(&renews) >= 2).await;
        assert!(!held.attempt.is_lost(), "{key}");
        assert_eq!(held.end().await.unwrap(), 1, "{key}");
        trial.site.until_state(key, State::Succeeded).await;
        trial.late_copies_change_nothing(&process, Message::Renew).await;
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_an_answer_it_reaches_its_caller_and_is_stored_once() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let complete = Message::End(State::Succeeded);
        trial.strike(&process, complete);
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        trial.site.until_state(key, State::Succeeded).await;
        until(|| process.idem.in_flight() == 0).await;
        trial.late_copies_change_nothing(&process, complete).await;
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_an_error_it_reaches_its_caller_and_frees_the_key() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let fail = Message::End(State::FailedFree);
        trial.strike(&process, fail);
        let failing = process.op(key).run(async {
            trial.site.runs.record(key);
            Err::<usize, _>(OwnError::new("own"))
        });
        assert_eq!(failing.await.unwrap_err().0, "own", "{key}");
        trial.site.until_state(key, State::FailedFree).await;
        trial.late_copies_change_nothing(&process, fail).await;
        assert_eq!(process.run(key).await.unwrap(), 2, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Declined(String);

impl From<Error> for Declined {
    fn from(error: Error) -> Self {
        Self(format!("refused: {error}"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_final_error_it_is_kept_and_replayed() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let fail = Message::End(State::FailedFinal);
        trial.strike(&process, fail);
        let answers = AnswerPolicy::<usize, Declined>::kept().final_errors(|_| true);
        let call = || {
            process.op(key).run_as(answers, async {
                trial.site.runs.record(key);
                Err(Declined("card".to_owned()))
            })
        };
        let own = Declined("card".to_owned());
        assert_eq!(call().await.unwrap_err(), own, "{key}");
        trial.site.until_state(key, State::FailedFinal).await;
        until(|| process.idem.in_flight() == 0).await;
        trial.late_copies_change_nothing(&process, fail).await;
        assert_eq!(call().await.unwrap_err(), own, "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_an_abandon_the_key_is_freed() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let abandon = Message::End(State::FailedFree);
        trial.strike(&process, abandon);
        process.hold(key).await.drop_call().await;
        trial.site.until_state(key, State::FailedFree).await;
        trial.late_copies_change_nothing(&process, abandon).await;
        assert_eq!(process.run(key).await.unwrap(), 2, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_blocking_abandon_the_body_does_not_run_again() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let abandon = Message::End(State::Abandoned);
        trial.strike(&process, abandon);
        process.hold_as(key, |op| op.abandon(Abandon::Block)).await.drop_call().await;
        trial.site.until_state(key, State::Abandoned).await;
        trial.late_copies_change_nothing(&process, abandon).await;
        let error = process.run(key).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, false), "{key}");
        assert_eq!(trial.site.runs.of(key), 1, "{key}");
        process.op(key).resolve::<usize>(Resolution::Retry).await.unwrap();
        assert_eq!(process.run(key).await.unwrap(), 2, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_to_a_release_nothing_is_left_behind() {
    for_each_fault(|trial| async move {
        let key = &*trial.key;
        let process = trial.site.process().await;
        let granted = Gate::new();
        let begin = Message::Begin.about(&name(key));
        process.proxy.fault_at(1, begin.clone(), Fault::HoldReply(granted.clone()));
        let call = process.spawn(key);
        until(|| granted.held() == 1).await;
        assert_eq!(trial.site.state(key).await, Some(State::Processing));
        trial.strike(&process, Message::Delete);
        call.abort();
        granted.open();
        trial.site.until_state(key, None).await;
        trial.late_copies_change_nothing(&process, Message::Delete).await;
        assert_eq!(trial.site.runs.of(key), 0, "{key}");
        assert_eq!(process.run(key).await.unwrap(), 1, "{key}");
        process.ends_clean().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begins_that_never_arrive_are_refused_and_leave_nothing() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    process.proxy.fault_always(Message::Begin.about(&name("k")), Fault::LoseRequest);
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert_eq!((site.runs.of("k"), site.state("k").await), (0, None));
    process.proxy.heal();
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begins_that_are_never_answered_are_refused_and_released() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    process.proxy.fault_always(Message::Begin.about(&name("k")), Fault::LoseReply);
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert!(process.proxy.answered(Message::Begin.about(&name("k"))) > 0);
    site.until_state("k", None).await;
    process.proxy.heal();
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn begins_that_arrive_after_the_call_was_refused_are_released() {
    let site = Site::start().await;
    // Released for as long as a lease, so a lease that outlasts the test.
    let process = site.process_with(SHORT_LEASE / 4, strong()).await;
    let gate = Gate::new();
    let begin = Message::Begin.about(&name("k"));
    process.proxy.fault_always(begin.clone(), Fault::HoldRequest(gate.clone()));
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    assert_eq!(site.state("k").await, None);
    gate.open();
    until(|| process.proxy.answered(&begin) == process.proxy.sent(&begin).len()).await;
    site.until_state("k", None).await;
    process.proxy.heal();
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_arrives_after_its_lease_is_not_used() {
    let site = Site::start().await;
    let process = site.process_with(Duration::from_secs(30), short()).await;
    let gate = Gate::new();
    let begin = Message::Begin.about(&name("k"));
    process.proxy.fault_at(1, begin, Fault::HoldReply(gate.clone()));
    let error = process.run("k").await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    gate.open();
    site.until_state("k", None).await;
    assert_eq!(site.runs.of("k"), 0);
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

/// A call whose begin is answered when less than half of its lease is left.
async fn granted_late(site: &Site, process: &Process, lease: Duration) -> Result<usize, Error> {
    let gate = Gate::new();
    let begin = Message::Begin.about(&name("k"));
    process.proxy.fault_at(1, begin, Fault::HoldReply(gate.clone()));
    let call = process.spawn("k");
    until(|| gate.held() == 1).await;
    // The record tells how much of the lease is left.
    until_async(|| async { site.ttl("k").await < EXPIRE + lease / 2 }).await;
    gate.open();
    call.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_with_less_than_half_of_its_lease_left_is_renewed_first() {
    let site = Site::start().await;
    let lease = Duration::from_secs(4);
    let process = site.process_with(Duration::from_secs(30), strong().with_lease(lease)).await;
    assert_eq!(granted_late(&site, &process, lease).await.unwrap(), 1);
    assert!(!process.proxy.sent(Message::Renew.about(&name("k"))).is_empty());
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_grant_that_cannot_be_renewed_is_not_used() {
    let site = Site::start().await;
    let lease = Duration::from_secs(2);
    let process = site.process_with(lease * 3 / 4, strong().with_lease(lease)).await;
    process.proxy.fault_always(Message::Renew.about(&name("k")), Fault::LoseReply);
    let error = granted_late(&site, &process, lease).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, false));
    site.until_state("k", None).await;
    process.proxy.heal();
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_that_never_arrive_end_in_the_signal() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    process.proxy.fault_always(Message::Renew.about(&name("k")), Fault::LoseRequest);
    let held = process.hold("k").await;
    assert!(!held.attempt.is_lost());
    held.attempt.lost().await;
    // Nobody took over, so the answer still counts.
    process.proxy.heal();
    assert_eq!(held.end().await.unwrap(), 1);
    site.until_state("k", State::Succeeded).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    assert_eq!(site.runs.of("k"), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_counts_only_on_renewals_that_were_answered() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    process.proxy.fault_always(Message::Renew.about(&name("k")), Fault::LoseReply);
    let held = process.hold("k").await;
    let began = site.ttl("k").await;
    held.attempt.lost().await;
    let renewed = process.proxy.answered(Message::Renew.about(&name("k")));
    assert!(renewed > 0, "the server renewed, the holder did not hear of it");
    assert!(site.ttl("k").await > began.saturating_sub(SHORT_LEASE));
    process.proxy.heal();
    assert_eq!(held.end().await.unwrap(), 1);
    site.until_state("k", State::Succeeded).await;
    assert_eq!(process.run("k").await.unwrap(), 1);
    process.ends_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_stored_within_its_lease_gives_way_to_another_attempt() {
    let site = Site::start().await;
    let process = site.process_with(SHORT_LEASE / 4, short()).await;
    let held = process.hold("k").await;
    process.proxy.fault_always(Which::everything(), Fault::LoseRequest);
    assert_eq!(held.end().await.unwrap(), 1);
    held_no_longer(&site, "k").await;
    let other = site.process().await;
    assert_eq!(other.run("k").await.unwrap(), 2);
    assert_eq!(process.idem.in_flight(), 1, "the answer waits");
    process.proxy.heal();
    until(|| process.idem.in_flight() == 0).await;
    assert_eq!(process.run("k").await.unwrap(), 2);
    assert_eq!(site.runs.of("k"), 2);
    other.ends_clean().await;
    process.ends_clean().await;
}

/// Waits until the lease of a record is over.
async fn held_no_longer(site: &Site, key: &str) {
    until_async(|| async { site.ttl(key).await <= EXPIRE }).await;
}
