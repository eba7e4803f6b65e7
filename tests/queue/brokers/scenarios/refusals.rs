//! Calls that are refused: every kind of refusal by the real engine, and the settlement of its message.

use super::{Broker, Running, Site, counted, scenarios};
use crate::bench::{Body, in_time, message};
use idempotent_queue::Consumer;
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::store::StoreErrorKind;
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{
    Begin, Config, Error, ErrorKind, Fingerprint, Idempotency, Mode, OnUnrecorded, Operation,
};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::until;

/// The scenario in which a call is refused with this kind of error.
fn scenario_of(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::MissingKey | ErrorKind::InvalidKey => {
            "a_message_that_no_retry_helps_is_a_dead_letter"
        }
        ErrorKind::Duplicate => "a_duplicate_is_acknowledged",
        ErrorKind::InProgress => "a_message_that_another_process_handles_comes_again",
        ErrorKind::Mismatch => "a_payload_that_differs_is_a_dead_letter",
        ErrorKind::Indeterminate => "an_unknown_outcome_is_parked",
        ErrorKind::Reentrant => "a_call_inside_its_own_body_comes_again",
        ErrorKind::StoreUnavailable => "a_store_that_does_not_answer_loses_no_message",
        ErrorKind::StoreFull => "a_store_that_is_full_keeps_the_message",
        ErrorKind::NotReplicated => "a_store_without_its_replicas_keeps_the_message",
        ErrorKind::ShuttingDown => "an_instance_that_shuts_down_leaves_its_message_to_the_next_one",
        ErrorKind::Superseded => "a_message_whose_attempt_was_taken_over_comes_again",
        ErrorKind::Unrecorded => "a_value_that_is_not_recorded_comes_again",
        ErrorKind::ResultUnavailable => "a_repeat_whose_value_was_not_kept_is_acknowledged",
        ErrorKind::FailedBefore => "an_error_comes_again_and_its_attempts_are_limited",
        ErrorKind::Undecodable => "a_record_that_cannot_be_read_is_parked",
        ErrorKind::Misconfigured => {
            "a_function_that_is_set_up_wrongly_ends_the_consumer_and_keeps_its_messages"
        }
        _ => return None,
    })
}

#[test]
fn every_kind_of_refusal_has_a_scenario() {
    let names: &[&str] = scenarios!(names);
    for kind in ErrorKind::ALL {
        let scenario = scenario_of(kind);
        assert!(scenario.is_some_and(|name| names.contains(&name)), "{kind:?}: {scenario:?}");
    }
}

/// The kinds of errors that calls were refused with, in their order.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Vec<ErrorKind>>>);

impl Refusals {
    fn all(&self) -> Vec<ErrorKind> {
        self.0.lock().unwrap().clone()
    }

    fn note<T>(&self, answer: &Result<T, Error>) {
        if let Err(error) = answer {
            self.0.lock().unwrap().push(error.kind());
        }
    }
}

impl<B: Broker> Site<B> {
    /// Starts a consumer whose handler makes one call.
    async fn start_refused<F, T>(
        &self,
        consumer: Consumer,
        call: impl Fn(Idempotency, Body) -> F + Send + Sync + 'static,
    ) -> (Running, Refusals)
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
        T: Send + 'static,
    {
        let (idem, refusals) = (self.idem.clone(), Refusals::default());
        let noted = refusals.clone();
        let handler = move |body: Body| {
            let (call, noted) = (call(idem.clone(), body), noted.clone());
            async move {
                let answer = call.await;
                noted.note(&answer);
                answer
            }
        };
        (self.start_with(consumer, handler).await, refusals)
    }
}

/// The operation of the handlers, whose key is the header of the message.
fn order(idem: &Idempotency) -> Operation<'_> {
    idem.operation("order").mode(Mode::Strong).wait(Duration::ZERO)
}

pub(crate) async fn a_duplicate_is_acknowledged<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds), message("a", Body::Succeeds)]).await;
    let consumer = site.consumer().concurrency(1);
    let once = |idem: Idempotency, _| async move {
        order(&idem).mode(Mode::Reject).run(async { Ok::<_, Error>(1) }).await
    };
    let (consumes, refusals) = site.start_refused(consumer, once).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(refusals.all(), [ErrorKind::Duplicate]);
}

pub(crate) async fn a_repeat_whose_value_was_not_kept_is_acknowledged<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds), message("a", Body::Succeeds)]).await;
    let consumer = site.consumer().concurrency(1);
    // JSON has no such number, so it is recorded without its value.
    let not_kept = |idem: Idempotency, _| async move {
        order(&idem).run(async { Ok::<_, Error>(f64::NAN) }).await
    };
    let (consumes, refusals) = site.start_refused(consumer, not_kept).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(refusals.all(), [ErrorKind::ResultUnavailable]);
}

pub(crate) async fn a_payload_that_differs_is_a_dead_letter<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds), message("a", Body::Fails)]).await;
    let consumer = site.consumer().concurrency(1);
    let compared = |idem: Idempotency, body: Body| async move {
        let payload = Fingerprint::of(&format!("{body:?}"));
        order(&idem).fingerprint(payload).run(async { Ok::<_, Error>(1) }).await
    };
    let (consumes, refusals) = site.start_refused(consumer, compared).await;
    assert_eq!(site.settled(&consumes).await, (1, 0));
    assert_eq!(
        (refusals.all(), site.codes().await),
        (vec![ErrorKind::Mismatch], vec!["payload-mismatch".into()])
    );
}

/// The first call is made while its task holds the key.
pub(crate) async fn a_call_inside_its_own_body_comes_again<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds)]).await;
    let calls = AtomicUsize::new(0);
    let nested = move |idem: Idempotency, _| {
        let is_first = calls.fetch_add(1, SeqCst) == 0;
        async move {
            if !is_first {
                return order(&idem).run(async { Ok::<_, Error>(1) }).await;
            }
            let Begin::Fresh(outer) = order(&idem).begin().await? else {
                panic!("the key is free");
            };
            let inner = order(&idem).run(async { Ok::<_, Error>(1) });
            let answer = outer.current().enter(inner).await;
            outer.fail().await?;
            answer
        }
    };
    let (consumes, refusals) = site.start_refused(site.consumer(), nested).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(refusals.all(), [ErrorKind::Reentrant]);
}

/// Another process takes the key over while the body runs, and answers.
pub(crate) async fn a_message_whose_attempt_was_taken_over_comes_again<B: Broker>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds)]).await;
    let elsewhere = Idempotency::builder().store(site.store.clone()).build().unwrap();
    let bodies = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&bodies);
    let overtaken = move |idem: Idempotency, _| {
        let (elsewhere, count) = (elsewhere.clone(), Arc::clone(&count));
        async move {
            let body = async {
                counted(&count);
                order(&elsewhere).forget(true).await?;
                order(&elsewhere).run(async { Ok::<_, Error>(2) }).await?;
                Ok(1)
            };
            order(&idem).run(body).await
        }
    };
    let (consumes, refusals) = site.start_refused(site.consumer(), overtaken).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!((refusals.all(), bodies.load(SeqCst)), (vec![ErrorKind::Superseded], 1));
}

pub(crate) async fn a_value_that_is_not_recorded_comes_again<B: Broker>() {
    let site = Site::<B>::open().await;
    site.idem.reconfigure(Config::new().with_lease(Duration::from_millis(100))).unwrap();
    site.store.down(Verb::Complete);
    site.send([message("a", Body::Succeeds)]).await;
    let strict = |idem: Idempotency, _| async move {
        let order = order(&idem).on_unrecorded(OnUnrecorded::Error);
        order.run(async { Ok::<_, Error>(1) }).await
    };
    let (consumes, refusals) = site.start_refused(site.consumer(), strict).await;
    // The second delivery comes because the first one was not acknowledged.
    until(|| refusals.all().len() > 1).await;
    assert_eq!(refusals.all()[0], ErrorKind::Unrecorded);
    site.store.all_up();
    assert_eq!(site.settled(&consumes).await, (0, 0));
}

pub(crate) async fn a_record_that_cannot_be_read_is_parked<B: Broker>() {
    let site = Site::<B>::open().await;
    // Another version of the function, whose value has another type.
    let earlier = order(&site.idem).run(async { Ok::<_, Error>("text".to_owned()) });
    ambient::scope(Ambient::new().token("a").scope("orders"), earlier).await.unwrap();
    site.send([message("a", Body::Succeeds)]).await;
    let call =
        |idem: Idempotency, _| async move { order(&idem).run(async { Ok::<_, Error>(1) }).await };
    let (consumes, refusals) = site.start_refused(site.consumer(), call).await;
    assert_eq!(site.settled(&consumes).await, (0, 1));
    assert_eq!(
        (refusals.all(), site.codes().await),
        (vec![ErrorKind::Undecodable], vec!["result-unreadable".into()])
    );
}

pub(crate) async fn a_store_that_is_full_keeps_the_message<B: Broker>() {
    store_keeps_the_message::<B>(StoreErrorKind::Full, ErrorKind::StoreFull).await;
}

pub(crate) async fn a_store_without_its_replicas_keeps_the_message<B: Broker>() {
    store_keeps_the_message::<B>(StoreErrorKind::NotReplicated, ErrorKind::NotReplicated).await;
}

/// The store refuses every attempt with this error for a while.
async fn store_keeps_the_message<B: Broker>(fault: StoreErrorKind, kind: ErrorKind) {
    let site = Site::<B>::open().await;
    site.store.fault_always(Verb::Begin, Fault::Before(fault));
    site.send([message("a", Body::Succeeds)]).await;
    let call =
        |idem: Idempotency, _| async move { order(&idem).run(async { Ok::<_, Error>(1) }).await };
    let (consumes, refusals) = site.start_refused(site.consumer().max_attempts(1), call).await;
    until(|| refusals.all().len() > 3).await;
    assert!(refusals.all().iter().all(|refusal| *refusal == kind), "{:?}", refusals.all());
    assert_eq!((site.broker.pending().await, site.put_aside().await), (1, (0, 0)));
    site.store.all_up();
    assert_eq!(site.settled(&consumes).await, (0, 0));
}

/// The broker has delivered the message more often than one attempt explains.
pub(crate) async fn consumers_that_restart_while_the_store_is_down_use_up_no_attempt<B: Broker>() {
    let site = Site::<B>::open().await;
    site.store.all_down();
    site.send([message("a", Body::Succeeds)]).await;
    let bodies = Arc::new(AtomicUsize::new(0));
    let start = async || {
        let count = Arc::clone(&bodies);
        let call = move |idem: Idempotency, _| {
            let count = Arc::clone(&count);
            async move {
                let body = async {
                    counted(&count);
                    Ok::<_, Error>(1)
                };
                order(&idem).run(body).await
            }
        };
        site.start_refused(site.consumer().max_attempts(1), call).await.0
    };
    for _ in 0..B::RESTARTS {
        let asked = site.store.calls(Verb::Begin);
        let consumes = start().await;
        in_time(site.store.called(Verb::Begin, asked + 1)).await;
        drop(consumes);
    }
    site.store.all_up();
    let consumes = start().await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(bodies.load(SeqCst), 1);
}

pub(crate) async fn an_instance_that_shuts_down_leaves_its_message_to_the_next_one<B: Broker>() {
    let mut site = Site::<B>::open().await;
    let next = Idempotency::builder().store(site.store.clone()).build().unwrap();
    let call =
        |idem: Idempotency, _| async move { order(&idem).run(async { Ok::<_, Error>(1) }).await };
    let (mut consumes, refusals) = site.start_refused(site.consumer(), call).await;
    site.idem.shutdown(Duration::ZERO).await;
    site.send([message("a", Body::Succeeds)]).await;
    in_time(&mut consumes.0).await.unwrap().unwrap();
    // A broker may deliver it again before it hears that the consumer has ended.
    assert!(refusals.all().iter().all(|kind| *kind == ErrorKind::ShuttingDown));
    assert!(!refusals.all().is_empty());
    assert_eq!((site.broker.pending().await, site.put_aside().await), (1, (0, 0)));
    site.idem = next;
    let (consumes, refusals) = site.start_refused(site.consumer(), call).await;
    assert_eq!(site.settled(&consumes).await, (0, 0));
    assert_eq!(refusals.all(), []);
}

pub(crate) async fn a_function_that_is_set_up_wrongly_ends_the_consumer_and_keeps_its_messages<
    B: Broker,
>() {
    let site = Site::<B>::open().await;
    site.send([message("a", Body::Succeeds)]).await;
    let call = |idem: Idempotency, _| async move {
        order(&idem).lease(Duration::ZERO).run(async { Ok::<_, Error>(1) }).await
    };
    let (mut consumes, refusals) = site.start_refused(site.consumer(), call).await;
    let error = in_time(&mut consumes.0).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("`lease` must be between"), "{error}");
    assert_eq!(refusals.all(), [ErrorKind::Misconfigured]);
    assert_eq!((site.broker.pending().await, site.put_aside().await), (1, (0, 0)));
}
