use super::*;
use crate::config::Abandon;
use crate::key::RecordKey;
use crate::protocol::{BeginRequest, Begun, Progress, StoreExt as _, Update, Updated};
use crate::store::{Claim, MemoryStore, Store, StoreError, Token};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

const LOST: StoreErrorKind = StoreErrorKind::Unavailable;

fn store() -> FaultStore {
    FaultStore::new(MemoryStore::new())
}

fn key() -> RecordKey {
    RecordKey::from("k")
}

fn request() -> BeginRequest {
    let second = Duration::from_secs(1);
    let claim = Claim::Lease { lease: second, linger: second, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

async fn begin(store: &FaultStore) -> Result<Begun, StoreErrorKind> {
    store.begin(&key(), &request()).await.map_err(|error: StoreError| error.kind())
}

async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    // Far more turns than a call takes.
    for _ in 0..20 {
        let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context)));
        if polled.await.is_ready() {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

async fn is_begun(store: &FaultStore) -> bool {
    store.load(&key()).await.unwrap().is_some()
}

#[tokio::test]
async fn every_call_is_pending_before_it_is_answered() {
    let store = store();
    assert!(!store.is_local());
    let (key, request) = (key(), request());
    let mut call = store.begin(&key, &request);
    let first = poll_fn(|context| Poll::Ready(Pin::new(&mut call).poll(context).is_ready()));
    assert!(!first.await);
    assert!(matches!(call.await, Ok(Begun::Fresh(_))));
}

#[tokio::test]
async fn a_local_one_answers_at_once_and_its_faults_too() {
    let store = store().local();
    assert!(store.is_local());
    store.fault_at(Verb::Get, 2, Fault::Before(LOST));
    assert!(matches!(store.load(&key()).now(), Ok(Ok(None))));
    assert!(matches!(store.load(&key()).now(), Ok(Err(_))));
}

#[tokio::test]
async fn before_has_no_effect_and_after_has() {
    let store = store();
    store.fault_next(Verb::Begin, Fault::Before(StoreErrorKind::Full));
    assert_eq!(begin(&store).await, Err(StoreErrorKind::Full));
    assert!(!is_begun(&store).await);
    store.fault_next(Verb::Begin, Fault::After(LOST));
    assert_eq!(begin(&store).await, Err(LOST));
    assert!(is_begun(&store).await);
    assert_eq!((store.calls(Verb::Begin), store.grants()), (2, 1));
}

#[tokio::test]
async fn hanging_calls_never_answer() {
    for (fault, effect) in [(Fault::Hang, false), (Fault::HangAfter, true)] {
        let store = store();
        store.fault_next(Verb::Begin, fault);
        let (key, request) = (key(), request());
        let mut call = store.begin(&key, &request);
        assert!(is_pending(&mut call).await);
        assert_eq!(is_begun(&store).await, effect, "{fault:?}");
        assert_eq!((store.calls(Verb::Begin), store.answers(Verb::Begin)), (1, 0));
    }
}

#[tokio::test]
async fn late_calls_take_effect_when_they_are_delivered() {
    let store = store();
    store.fault_next(Verb::Begin, Fault::Late(LOST));
    assert_eq!(begin(&store).await, Err(LOST));
    assert!(!is_begun(&store).await);
    assert_eq!(store.deliver_late().await, 1);
    assert!(is_begun(&store).await);
    assert_eq!(store.deliver_late().await, 0);
}

#[tokio::test]
async fn what_is_down_stays_down_until_it_is_up() {
    let store = store();
    store.down(Verb::Begin);
    for _ in 0..3 {
        assert_eq!(begin(&store).await, Err(LOST));
    }
    assert!(!is_begun(&store).await);
    store.up(Verb::Begin);
    assert!(begin(&store).await.is_ok());
    store.all_down();
    assert!(store.load(&key()).await.is_err());
    store.all_up();
    assert!(is_begun(&store).await);
}

#[tokio::test]
async fn a_gate_holds_calls_until_they_are_let_go() {
    let store = store();
    let gate = store.hold(Verb::Begin);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { begin(&store).await })
        })
        .collect();
    gate.arrived(3).await;
    assert_eq!((store.calls(Verb::Begin), store.answers(Verb::Begin)), (3, 0));
    assert!(!is_begun(&store).await);
    gate.admit(1);
    store.answered(Verb::Begin, 1).await;
    assert_eq!(store.grants(), 1);
    drop(gate);
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    assert_eq!((store.answers(Verb::Begin), store.grants()), (3, 1));
}

#[tokio::test]
async fn a_gate_after_the_effect_holds_the_reply() {
    let store = store();
    let gate = store.hold_after(Verb::Begin);
    let call = tokio::spawn({
        let store = store.clone();
        async move { begin(&store).await }
    });
    gate.arrived(1).await;
    assert!(is_begun(&store).await);
    gate.open();
    assert!(call.await.unwrap().is_ok());
}

#[tokio::test]
async fn calls_for_many_keys_count_and_fail_one_by_one() {
    let store = store();
    let Ok(Begun::Fresh(attempt)) = begin(&store).await else { panic!() };
    store.fault_at(Verb::Renew, 2, Fault::Before(LOST));
    let to = Progress::Renewed { lease: Duration::from_secs(1) };
    let renew = (key(), Update { attempt, to });
    let answers = store.execute_many(vec![renew.clone(), renew.clone(), renew]).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.ok()).collect();
    assert_eq!(answers, [Some(Updated::Done), None, Some(Updated::Done)]);
    store.called(Verb::Renew, 3).await;
}
