//! Producers: a business id is sent once, and every copy of its message has one id.

use crate::publisher::{Answer, Broker};
use idempotent_queue::format::{MessagePack, Raw};
use idempotent_queue::memory::MemoryQueue;
use idempotent_queue::producer::{Destination, Fate, Producer, SendErrorKind, SentBy};
use idempotent_runtime::ambient::{self, Ambient};
use idempotent_runtime::protocol::Forgotten;
use idempotent_runtime::store::MemoryStore;
use idempotent_runtime::testing::{FaultStore, ManualClock, Verb};
use idempotent_runtime::{Config, ErrorKind, Idempotency};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use support::until;
use tokio::task::JoinSet;

/// The id of the business id 42 to `orders`.
const ID: &str = "91728cd09965d38785f2882d575e58ff";

fn idem() -> Idempotency {
    Idempotency::in_memory().unwrap()
}

/// A store on the network, and an instance on it.
fn remote() -> (FaultStore, Idempotency) {
    let store = FaultStore::new(MemoryStore::new());
    let idem = Idempotency::builder().store(store.clone()).build().unwrap();
    (store, idem)
}

#[tokio::test]
async fn a_repeat_gets_the_first_id_and_sends_nothing() {
    let (idem, broker) = (idem(), Broker::default());
    let first = broker.producer(&idem).send(42, "lamp").await.unwrap();
    let again = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!((first.id(), first.sent_by(), first.is_recorded()), (ID, SentBy::ThisCall, true));
    assert_eq!((again.id(), again.sent_by(), again.is_recorded()), (ID, SentBy::EarlierCall, true));
    assert_eq!(again.receipt().position(), Some("1"));
    assert_eq!(
        (again.to_string(), broker.producer(&idem).id_of(42)),
        (ID.to_owned(), ID.to_owned())
    );
    assert_eq!(broker.ids(), [ID]);
}

#[tokio::test]
async fn destinations_and_business_ids_have_messages_of_their_own() {
    let (idem, broker) = (idem(), Broker::default());
    let to = |name: &str| Producer::new(&idem, Destination::new(broker.clone(), name));
    for (destination, business_id) in [("orders", 42), ("orders", 43), ("bills", 42)] {
        to(destination).send(business_id, "lamp").await.unwrap();
    }
    let mut ids = broker.ids();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    // Of another name, it is another operation. The id is that of the destination all the same.
    to("orders").name("elsewhere").send(42, "lamp").await.unwrap();
    assert_eq!(broker.ids().iter().filter(|id| *id == ID).count(), 2);
}

#[tokio::test]
async fn another_payload_is_refused() {
    let (idem, broker) = (idem(), Broker::default());
    broker.producer(&idem).send(42, "lamp").await.unwrap();
    let error = broker.producer(&idem).send(42, "chair").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::Mismatch));
    assert_eq!((error.fate(), error.is_retryable()), (Fate::NotSent, false));
    assert!(error.to_string().starts_with("the message to `orders` was not sent: "), "{error}");
    assert_eq!(broker.ids(), [ID]);
}

#[tokio::test]
async fn an_unconfirmed_message_is_sent_again_with_its_id() {
    let (idem, broker) = (idem(), Broker::with([Answer::IsLost, Answer::IsLost]));
    let sent = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!((sent.id(), sent.receipt().position()), (ID, Some("3")));
    assert_eq!(broker.ids(), [ID; 3]);
}

#[tokio::test]
async fn a_message_that_stays_unconfirmed_is_unknown_and_its_repeat_is_safe() {
    let (idem, broker) = (idem(), Broker::with([Answer::IsLost; 3]));
    let error = broker.producer(&idem).send(42, "lamp").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Unconfirmed, Fate::Unknown));
    assert!(error.is_retryable());
    assert!(error.to_string().contains("help: send it again"), "{error}");
    assert_eq!(broker.asked(), 3);

    // The broker may have the message: none with another payload gets its id.
    let error = broker.producer(&idem).send(42, "chair").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::Mismatch));

    let sent = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!((sent.sent_by(), broker.ids()), (SentBy::ThisCall, vec![ID.to_owned(); 4]));
}

#[tokio::test]
async fn a_confirmation_that_does_not_come_is_not_waited_for() {
    let (idem, broker) = (idem(), Broker::with([Answer::Hangs, Answer::HangsBefore]));
    let producer = broker.producer(&idem).confirmation_timeout(Duration::from_millis(10));
    let sent = producer.send(42, "lamp").await.unwrap();
    assert_eq!((sent.id(), broker.ids()), (ID, vec![ID.to_owned(); 2]));

    let broker = Broker::with([Answer::HangsBefore]);
    let producer = broker.producer(&idem).confirmation_timeout(Duration::from_millis(10)).tries(1);
    let error = producer.send(43, "lamp").await.unwrap_err();
    assert_eq!(error.fate(), Fate::Unknown);
}

#[tokio::test]
async fn a_message_that_the_broker_never_takes_is_not_sent_and_frees_its_id() {
    let (idem, broker) = (idem(), Broker::with([Answer::Refuses]));
    let error = broker.producer(&idem).send(42, "too large").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Permanent, Fate::NotSent));
    assert_eq!((error.is_retryable(), broker.asked()), (false, 1));
    assert!(error.to_string().contains("will never take it"), "{error}");
    // Nobody has got it, so it may be put right.
    assert_eq!(broker.producer(&idem).send(42, "small").await.unwrap().id(), ID);
}

#[tokio::test]
async fn a_message_that_the_broker_does_not_take_now_is_tried_again() {
    let (idem, broker) = (idem(), Broker::with([Answer::IsBusy; 5]));
    let error = broker.producer(&idem).send(42, "lamp").await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::NotTaken, Fate::NotSent));
    assert_eq!((error.is_retryable(), broker.asked()), (true, 3));
    broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!(broker.ids(), [ID]);
}

#[tokio::test]
async fn a_refusal_after_a_copy_that_was_not_confirmed_frees_the_id_for_that_payload_only() {
    let (idem, broker) = (idem(), Broker::with([Answer::IsLost, Answer::Refuses, Answer::Refuses]));
    // The copy is of this call, or of one before it.
    for fate in [Fate::Unknown, Fate::NotSent] {
        let error = broker.producer(&idem).send(42, "lamp").await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (SendErrorKind::Permanent, fate));
        let other = broker.producer(&idem).send(42, "chair").await.unwrap_err();
        assert_eq!(other.kind(), SendErrorKind::Refused(ErrorKind::Mismatch));
    }
    assert_eq!(broker.asked(), 3);
}

#[tokio::test]
async fn a_refusal_undoes_nothing_of_the_call_after_it() {
    for lost in [0, 3] {
        let ((store, idem), broker) = (remote(), Broker::with([Answer::Refuses]));
        broker.will([Answer::IsLost; 3].into_iter().take(lost));
        let gate = store.hold(Verb::Forget);
        let refused = tokio::spawn({
            let producer = broker.producer(&idem);
            async move { producer.send(42, "lamp").await }
        });
        until(|| refused.is_finished() || store.calls(Verb::Forget) > 0).await;
        let sent = broker.producer(&idem).send(42, "lamp").await;
        assert_eq!(sent.is_ok(), lost == 0);
        gate.open();
        assert_eq!(refused.await.unwrap().unwrap_err().fate(), Fate::NotSent);
        // The broker has, or may have, the message of the second call.
        let error = broker.producer(&idem).send(42, "chair").await.unwrap_err();
        assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::Mismatch));
        let again = broker.producer(&idem).send(42, "lamp").await.unwrap();
        assert_eq!(again.sent_by() == SentBy::EarlierCall, lost == 0);
        assert_eq!(broker.ids(), vec![ID; lost + 1]);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_but_copies_of_one_id() {
    for answer in [Answer::HangsBefore, Answer::Hangs] {
        let ((_, idem), broker) = (remote(), Broker::with([answer]));
        let sends = tokio::spawn({
            let producer = broker.producer(&idem);
            async move { producer.send(42, "lamp").await }
        });
        until(|| broker.asked() == 1).await;
        sends.abort();
        assert!(sends.await.unwrap_err().is_cancelled());
        let sent = broker.producer(&idem).send(42, "lamp").await.unwrap();
        assert_eq!((sent.id(), sent.sent_by()), (ID, SentBy::ThisCall));
        let copies = if answer == Answer::Hangs { 2 } else { 1 };
        assert_eq!(broker.ids(), vec![ID; copies]);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_after_the_confirmation_leaves_the_record() {
    let ((store, idem), broker) = (remote(), Broker::default());
    let gate = store.hold(Verb::Complete);
    let sends = tokio::spawn({
        let producer = broker.producer(&idem);
        async move { producer.send(42, "lamp").await }
    });
    gate.arrived(1).await;
    sends.abort();
    assert!(sends.await.unwrap_err().is_cancelled());
    gate.open();
    let again = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!((again.id(), again.sent_by()), (ID, SentBy::EarlierCall));
    assert_eq!(broker.ids(), [ID]);
}

#[tokio::test]
async fn a_message_that_is_sent_and_not_recorded_is_sent() {
    let ((store, idem), broker) = (remote(), Broker::with([Answer::Waits]));
    let sends = tokio::spawn({
        let producer = broker.producer(&idem);
        async move { producer.send(42, "lamp").await }
    });
    until(|| broker.asked() == 1).await;
    // An operator frees the key of a call that is at work: its record belongs to nobody.
    let record = idem.operation("send:orders").key(42);
    assert_eq!(record.forget(true).await.unwrap(), Forgotten::Freed);
    broker.go_on();
    let sent = sends.await.unwrap().unwrap();
    assert_eq!((sent.id(), sent.sent_by(), sent.is_recorded()), (ID, SentBy::ThisCall, false));
    assert!(store.calls(Verb::Complete) > 0);
}

#[tokio::test]
async fn nothing_is_sent_while_the_store_is_down() {
    let ((store, idem), broker) = (remote(), Broker::default());
    store.all_down();
    let error = broker.producer(&idem).send(42, "lamp").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::StoreUnavailable));
    assert_eq!((error.fate(), error.is_retryable(), broker.asked()), (Fate::NotSent, true, 0));
    store.all_up();
    assert_eq!(broker.producer(&idem).send(42, "lamp").await.unwrap().id(), ID);
}

#[tokio::test]
async fn a_call_that_waits_too_long_for_another_says_that_it_does_not_know() {
    let ((_, idem), broker) = (remote(), Broker::with([Answer::Waits]));
    let sends = tokio::spawn({
        let producer = broker.producer(&idem);
        async move { producer.send(42, "lamp").await }
    });
    until(|| broker.asked() == 1).await;
    let waits = broker.producer(&idem).wait(Duration::ZERO);
    let error = waits.send(42, "lamp").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Refused(ErrorKind::InProgress));
    assert_eq!((error.fate(), error.is_retryable()), (Fate::Unknown, true));
    broker.go_on();
    assert_eq!(sends.await.unwrap().unwrap().id(), ID);
}

#[tokio::test]
async fn the_request_that_is_handled_makes_no_difference() {
    let (idem, broker) = (idem(), Broker::default());
    for tenant in ["acme", "globex"] {
        let request = Ambient::new().token("7f3a").scope(tenant).max_attempts(1);
        let producer = broker.producer(&idem);
        let sent = ambient::scope(request, producer.send(42, "lamp")).await.unwrap();
        assert_eq!(sent.id(), ID);
    }
    assert_eq!(broker.ids(), [ID]);
}

#[tokio::test]
async fn a_record_without_its_value_still_gives_the_id() {
    let config = Config::new().with_max_value_bytes(1);
    let idem = Idempotency::builder().config(config).build().unwrap();
    let broker = Broker::default();
    let first = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert!(!first.is_recorded(), "its receipt is not");
    let again = broker.producer(&idem).send(42, "lamp").await.unwrap();
    assert_eq!((again.id(), again.sent_by()), (ID, SentBy::EarlierCall));
    assert_eq!((again.receipt().position(), broker.asked()), (None, 1));
}

#[tokio::test]
async fn a_message_is_remembered_for_a_week_by_default() {
    let clock = ManualClock::new();
    let idem = Idempotency::builder().clock(clock.clock()).build().unwrap();
    let broker = Broker::default();
    let day = Duration::from_secs(24 * 3_600);
    for (passes, copies) in [(6 * day, 1), (day, 2)] {
        broker.producer(&idem).send(42, "lamp").await.unwrap();
        clock.advance(passes);
        broker.producer(&idem).send(42, "lamp").await.unwrap();
        assert_eq!(broker.ids(), vec![ID; copies]);
    }
    broker.producer(&idem).retention(day).send(43, "lamp").await.unwrap();
    clock.advance(day);
    broker.producer(&idem).send(43, "lamp").await.unwrap();
    assert_eq!(broker.ids().len(), 4);
}

#[tokio::test]
async fn headers_key_type_and_format_are_those_of_the_sender() {
    #[derive(Serialize)]
    struct Order {
        id: u8,
    }
    let (idem, broker) = (idem(), Broker::default());
    let draft = broker.producer(&idem);
    let draft = draft.message(1).kind("OrderCreated").key("customer-7").header("tenant", "acme");
    draft.send(&Order { id: 1 }).await.unwrap();
    let packed = broker.producer(&idem).encode_with(MessagePack);
    packed.send(2, &Order { id: 2 }).await.unwrap();
    let raw = broker.producer(&idem).encode_with(Raw);
    raw.send(3, b"\0\xff").await.unwrap();

    let kept = broker.kept();
    assert_eq!((kept[0].kind(), kept[0].key()), ("OrderCreated", Some("customer-7")));
    assert_eq!(kept[0].headers().collect::<Vec<_>>(), [("tenant", "acme")]);
    let payloads: Vec<_> = kept.iter().map(|message| message.payload()).collect();
    assert_eq!(payloads, [&br#"{"id":1}"#[..], b"\x81\xa2id\x02", b"\0\xff"]);
}

#[tokio::test]
async fn a_payload_that_cannot_be_encoded_is_not_sent() {
    let (idem, broker) = (idem(), Broker::default());
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = broker.producer(&idem).send(42, &pairs).await.unwrap_err();
    assert_eq!((error.kind(), error.fate()), (SendErrorKind::Payload, Fate::NotSent));
    assert_eq!(broker.asked(), 0);
}

#[tokio::test]
async fn the_queue_in_memory_gets_the_id_as_a_header() {
    let (idem, queue) = (idem(), MemoryQueue::new());
    let producer = Producer::new(&idem, Destination::new(queue.publisher(), "orders"));
    let sent = producer.send(42, "lamp").await.unwrap();
    queue.close();
    let error = producer.send(43, "lamp").await.unwrap_err();
    assert_eq!(error.kind(), SendErrorKind::Permanent);
    let consumer = idempotent_queue::Consumer::new(&idem, "orders");
    let ignore = |_: String| async { Ok::<_, String>(()) };
    consumer.run(queue.deliveries(), ignore).await.unwrap();
    let [message] = &queue.acknowledged()[..] else { panic!("one was sent") };
    assert_eq!(message.header("idempotency-key"), Some(ID));
    assert_eq!(message.id(), sent.receipt().position());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_in_two_processes_sends_each_business_id_once() {
    let store = FaultStore::new(MemoryStore::new());
    let broker = Broker::default();
    let mut sends = JoinSet::new();
    for process in 0..2 {
        let idem = Idempotency::builder().store(store.clone()).build().unwrap();
        let producer = Arc::new(broker.producer(&idem));
        for caller in 0..500 {
            let producer = Arc::clone(&producer);
            sends.spawn(async move {
                let business_id = (caller + process) % 100;
                let sent = producer.send(business_id, "lamp").await.unwrap();
                assert_eq!(sent.id(), producer.id_of(business_id));
            });
        }
    }
    while let Some(sent) = sends.join_next().await {
        sent.unwrap();
    }
    let mut ids = broker.ids();
    assert_eq!(ids.len(), 100, "each is sent once");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}
