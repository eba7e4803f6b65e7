//! A caller learns whether its value is the recorded one, and can ask for an error where it is not.

use idempotent_runtime::protocol::{Binding, StoreExt as _};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store as _, StoreErrorKind};
use idempotent_runtime::testing::{Fault, Verb};
use idempotent_runtime::{
    AnswerPolicy, Begin, Config, Error, ErrorKind, Idempotency, Mode, OnStoreError, OnUnrecorded,
    Operation, Outcome, Recorded, idempotent,
};
use std::time::Duration;
use support::{Bench, EXPIRE, LEASE, both, local, remote, until};

async fn detailed(operation: Operation<'_>) -> Outcome<u8> {
    operation.run_detailed(async { Ok::<u8, Error>(7) }).await.unwrap()
}

/// A store that takes the first answer of each key only on a later try.
fn forgetful() -> Bench {
    let bench = remote();
    bench.store.fault_always(Verb::Complete, Fault::Before(StoreErrorKind::Unavailable));
    bench
}

/// The record, once the store takes answers again.
async fn recorded_later(bench: &Bench) -> Outcome<u8> {
    bench.store.up(Verb::Complete);
    until(|| {
        bench.clock.advance(Duration::from_millis(10));
        bench.idem.in_flight() == 0
    })
    .await;
    bench.op().run_detailed(async { panic!("it ran again") as Result<u8, Error> }).await.unwrap()
}

#[tokio::test]
async fn an_acknowledged_value_and_its_replays_are_recorded() {
    for bench in both() {
        for replayed in [false, true] {
            let outcome = detailed(bench.op()).await;
            assert_eq!((outcome.recorded, outcome.replayed), (Recorded::Yes, replayed));
        }
        let rejecting = bench.op().key("r").mode(Mode::Reject);
        assert_eq!(detailed(rejecting).await.recorded, Recorded::Yes);
    }
}

#[tokio::test]
async fn a_value_that_was_not_kept_is_said_to_be_missing() {
    for bench in both() {
        let odd = bench.op().run_detailed(async { Ok::<_, Error>(Some(None::<u8>)) }).await;
        assert_eq!(odd.unwrap().recorded, Recorded::WithoutValue);
        bench.idem.reconfigure(support::strong().with_max_value_bytes(1)).unwrap();
        assert_eq!(detailed(bench.op().key("large")).await.recorded, Recorded::WithoutValue);
    }
    let options = MemoryOptions::new().max_bytes(2_000);
    let full = Idempotency::builder().store(MemoryStore::with(options)).build().unwrap();
    let large = async { Ok::<_, Error>("x".repeat(3_000)) };
    let outcome = full.operation("o").key(1).mode(Mode::Strong).run_detailed(large).await.unwrap();
    assert_eq!(outcome.recorded, Recorded::WithoutValue, "the store had no room");
}

#[tokio::test]
async fn where_nothing_is_recorded_after_the_body_the_outcome_says_so() {
    for bench in both() {
        let window = bench.op().key("window").mode(Mode::Window);
        assert_eq!(detailed(window).await.recorded, Recorded::No);
        let zero = AnswerPolicy::<u8, Error>::kept().expire_with(|_| Duration::ZERO);
        let outcome = bench.op().run_as(zero, async { Ok(1) }).await.unwrap();
        assert_eq!(outcome.recorded, Recorded::No, "`expire_with` chose zero");
    }
    let bench = remote();
    bench.store.fault_always(Verb::Begin, Fault::Before(StoreErrorKind::Full));
    let unprotected = bench.op().on_store_error(OnStoreError::Run);
    assert_eq!(detailed(unprotected).await.recorded, Recorded::No);
}

#[tokio::test]
async fn a_value_that_the_store_did_not_take_is_recorded_later() {
    let bench = forgetful();
    let outcome = detailed(bench.op()).await;
    assert_eq!((outcome.value, outcome.recorded), (7, Recorded::NotYet));
    let later = recorded_later(&bench).await;
    assert_eq!((later.value, later.recorded, later.replayed), (7, Recorded::Yes, true));
}

#[tokio::test]
async fn a_store_that_does_not_answer_within_a_lease_leaves_the_value_unrecorded() {
    let bench = remote();
    bench.store.fault_always(Verb::Complete, Fault::Hang);
    let call = tokio::spawn({
        let bench = bench.clone();
        async move { detailed(bench.op()).await }
    });
    // Before that, the time that passes would be that of `begin`.
    bench.store.called(Verb::Complete, 1).await;
    until(|| {
        bench.clock.advance(LEASE);
        call.is_finished()
    })
    .await;
    assert_eq!(call.await.unwrap().recorded, Recorded::NotYet);
}

#[tokio::test]
async fn a_vanished_record_that_was_written_again_holds_the_value() {
    for bench in both() {
        assert_eq!(vanishing(&bench).await.recorded, Recorded::Yes);
        assert!(detailed(bench.op()).await.replayed);
    }
}

/// A call whose record is deleted while its body runs, as by a flush.
async fn vanishing(bench: &Bench) -> Outcome<u8> {
    let key = bench.op().record_key().unwrap();
    let body = async {
        let token = bench.store.load(&key).await.unwrap().unwrap().head.attempt;
        bench.store.release(&key, &token, EXPIRE, Binding::Lifted).await.unwrap();
        assert_eq!(bench.store.load(&key).await.unwrap(), None);
        Ok::<u8, Error>(7)
    };
    bench.op().run_detailed(body).await.unwrap()
}

#[tokio::test]
async fn a_record_that_vanished_after_the_lease_was_lost_holds_nothing() {
    for bench in both() {
        let vanished = || async {
            let body = async {
                bench.clock.advance(LEASE + EXPIRE);
                Ok::<u8, Error>(7)
            };
            bench.op().run_detailed(body).await
        };
        assert_eq!(vanished().await.unwrap().recorded, Recorded::No);
        let strict = bench.op().on_unrecorded(OnUnrecorded::Error);
        let body = async {
            bench.clock.advance(LEASE + EXPIRE);
            Ok::<u8, Error>(7)
        };
        let error = strict.run_detailed(body).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Unrecorded, true));
        assert_eq!(bench.op().get().await.unwrap(), None);
    }
}

#[tokio::test]
async fn rows_of_a_batch_and_detached_bodies_tell_it_too() {
    let bench = forgetful();
    let batch = bench.idem.operation("rows");
    let rows = batch.run_batch([(1, 1_u8), (2, 2)], |rows| async move {
        rows.into_iter().map(Ok::<u8, Error>).collect()
    });
    for row in rows.await {
        assert_eq!(row.unwrap().recorded, Recorded::NotYet);
    }
    let detached = bench.op().run_detached(AnswerPolicy::<u8, Error>::kept(), async { Ok(7) });
    assert_eq!(detached.await.unwrap().recorded, Recorded::NotYet);
    assert_eq!(recorded_later(&bench).await.value, 7);
}

#[tokio::test]
async fn a_caller_may_ask_for_an_error_in_place_of_an_unrecorded_value() {
    let bench = forgetful();
    let refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unrecorded);
        assert!(error.body_ran() && error.is_retryable(), "{error}");
        let text = error.to_string();
        assert!(text.contains("the result is not recorded") && text.contains("the body ran"));
        assert!(text.contains("[#"), "the key is missing: {text}");
    };
    let op = || bench.op().on_unrecorded(OnUnrecorded::Error);
    refused(op().run(async { Ok::<u8, Error>(7) }).await.unwrap_err());
    assert_eq!(recorded_later(&bench).await.value, 7, "recording went on");
    assert_eq!(op().run(async { Ok::<u8, Error>(8) }).await.unwrap(), 7);

    let bench = forgetful();
    let op = || bench.op().on_unrecorded(OnUnrecorded::Error);
    let detached = op().run_detached(AnswerPolicy::<u8, Error>::kept(), async { Ok(7) });
    refused(detached.await.unwrap_err());
    let rows = op().run_batch([(1, ())], |_| async { vec![Ok::<u8, Error>(1)] }).await;
    refused(rows.into_iter().next().unwrap().unwrap_err());
    let config = support::strong().with_on_unrecorded(OnUnrecorded::Error);
    bench.idem.reconfigure(config).unwrap();
    let by_configuration = bench.op().key("c").run(async { Ok::<u8, Error>(7) });
    refused(by_configuration.await.unwrap_err());
}

#[tokio::test]
async fn only_what_the_store_did_not_take_is_an_error() {
    let strict = || support::strong().with_on_unrecorded(OnUnrecorded::Error);
    for bench in both() {
        bench.idem.reconfigure(strict().with_max_value_bytes(1)).unwrap();
        assert_eq!(detailed(bench.op()).await.recorded, Recorded::WithoutValue);
        let window = bench.op().key("window").mode(Mode::Window);
        assert_eq!(detailed(window).await.recorded, Recorded::No);
    }
    let bench = remote();
    bench.idem.reconfigure(strict()).unwrap();
    bench.store.fault_always(Verb::Fail, Fault::Before(StoreErrorKind::Unavailable));
    let zero = AnswerPolicy::<u8, Error>::kept().expire_with(|_| Duration::ZERO);
    let outcome = bench.op().run_as(zero, async { Ok(1) }).await.unwrap();
    assert_eq!(outcome.recorded, Recorded::No, "there was nothing to record");
    let own = async { Err::<u8, _>(support::OwnError::new("mine")) };
    assert_eq!(bench.op().key("e").run(own).await.unwrap_err().0, "mine");
    bench.store.fault_always(Verb::Begin, Fault::Before(StoreErrorKind::Full));
    let unprotected = bench.op().key("u").on_store_error(OnStoreError::Run);
    assert_eq!(detailed(unprotected).await.recorded, Recorded::No);
}

#[idempotent(key = "id", name = "transfer", mode = "strong", on_unrecorded = "error", with = idem)]
async fn transfer(idem: &Idempotency, id: u8) -> Result<u8, Error> {
    Ok(id)
}

#[tokio::test]
async fn the_argument_chooses_the_error() {
    let bench = forgetful();
    let error = transfer(&bench.idem, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unrecorded);
    assert_eq!(transfer(&local().idem, 1).await.unwrap(), 1);
}

#[tokio::test]
async fn an_attempt_by_hand_is_told_in_any_case() {
    let bench = forgetful();
    let Begin::Fresh(attempt) = bench.op().begin().await.unwrap() else { panic!() };
    let error = attempt.complete(&7_u8).await.unwrap_err();
    assert!(error.body_ran(), "{error}");
    assert_eq!(recorded_later(&bench).await.value, 7);
}

#[tokio::test]
async fn the_event_of_an_unrecorded_answer_carries_its_key() {
    let events = support::events::collect();
    let bench = forgetful();
    detailed(bench.op()).await;
    let hashed = format!("#{}", bench.op().record_key().unwrap().hashed());
    let seen = events.take("answer not recorded yet");
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].fields["key"], hashed);
    assert_eq!(seen[0].fields["operation"], "test.op");
}

#[tokio::test]
async fn the_event_of_a_value_that_is_not_kept_names_its_type() {
    let events = support::events::collect();
    let bench = local();
    bench.op().run(async { Ok::<_, Error>(Some(None::<u8>)) }).await.unwrap();
    let seen = events.take("the value is not kept");
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].fields["type_name"], std::any::type_name::<Option<Option<u8>>>());
    assert!(seen[0].fields["reason"].contains("would be read as `None`"), "{seen:?}");
    let config = Config::new().with_mode(Mode::Strong).with_max_value_bytes(1);
    bench.idem.reconfigure(config).unwrap();
    let Begin::Fresh(attempt) = bench.op().key(2).begin().await.unwrap() else { panic!() };
    attempt.complete(&"long").await.unwrap();
    assert_eq!(events.take("the value is not kept")[0].fields["type_name"], "&str");
}
