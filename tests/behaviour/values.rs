//! Values: kept, limited, encrypted, and never misread.

use idempotent_runtime::codec::{Encryption, MessagePack};
use idempotent_runtime::protocol::{IfGone, StoreExt as _};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store};
use idempotent_runtime::{Error, ErrorKind, Idempotency, Mode, OnStoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use support::both;

async fn run<T: Serialize + DeserializeOwned>(idem: &Idempotency, value: T) -> Result<T, Error> {
    idem.operation("o").key("k").mode(Mode::Strong).run(async { Ok(value) }).await
}

fn on(store: &Arc<dyn Store>) -> idempotent_runtime::instance::Builder {
    Idempotency::builder().shared_store(Arc::clone(store))
}

fn shared() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn a_value_over_the_limit_is_recorded_without_it() {
    for bench in both() {
        let config = support::strong().with_max_value_bytes(100);
        bench.idem.reconfigure(config).unwrap();
        let large = "x".repeat(200);
        assert_eq!(run(&bench.idem, large.clone()).await.unwrap(), large);
        let error = run(&bench.idem, large).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResultUnavailable);
        assert!(!error.body_ran() && !error.is_retryable());
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_encoded_is_recorded_without_it() {
    for bench in both() {
        let odd = || BTreeMap::from([((1, 2), 3)]); // JSON has no such keys
        assert_eq!(run(&bench.idem, odd()).await.unwrap(), odd());
        let error = run(&bench.idem, odd()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResultUnavailable);
    }
}

#[tokio::test]
async fn bytes_of_another_type_are_refused_and_the_body_does_not_run_instead() {
    for bench in both() {
        run(&bench.idem, "text".to_owned()).await.unwrap();
        let body = async {
            bench.ledger.record("k");
            Ok::<u64, Error>(1)
        };
        let other = bench.idem.operation("o").key("k").run(body).await;
        let error = other.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecodable);
        assert!(!error.to_string().contains("text"), "a value leaked: {error}");
        assert_eq!(bench.runs(), 0);
    }
}

#[tokio::test]
async fn a_change_of_codec_leaves_older_answers_readable() {
    let store = shared();
    run(&on(&store).build().unwrap(), 7_u8).await.unwrap();
    let packed = on(&store).codec(MessagePack).build().unwrap();
    assert_eq!(run(&packed, 9_u8).await.unwrap(), 7);
    let op = packed.operation("o").key("other").mode(Mode::Strong);
    op.clone().run(async { Ok::<_, Error>(5_u8) }).await.unwrap();
    assert_eq!(op.get().await.unwrap().unwrap().value.unwrap().as_bytes(), [2, 5]);
}

#[tokio::test]
async fn stored_values_are_encrypted_and_keys_can_be_rotated() {
    let store = shared();
    let old = on(&store).encryption(Encryption::new(1, [1; 32])).build().unwrap();
    run(&old, "secret".to_owned()).await.unwrap();
    let stored = old.operation("o").key("k").get().await.unwrap().unwrap().value.unwrap();
    assert!(!stored.as_bytes().windows(6).any(|window| window == b"secret"));

    let rotated = Encryption::new(2, [2; 32]).and_key(1, [1; 32]).unwrap();
    let rotated = on(&store).encryption(rotated).build().unwrap();
    assert_eq!(run(&rotated, "other".to_owned()).await.unwrap(), "secret");

    let stranger = on(&store).encryption(Encryption::new(1, [9; 32])).build().unwrap();
    let error = run(&stranger, "other".to_owned()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
}

#[tokio::test]
async fn an_encrypted_value_cannot_be_moved_to_another_key() {
    let store = shared();
    let idem = on(&store).encryption(Encryption::new(1, [1; 32])).build().unwrap();
    run(&idem, "mine".to_owned()).await.unwrap();
    let record = idem.operation("o").key("k").get().await.unwrap().unwrap();
    // Somebody with access to the store copies the bytes under another key.
    let thief = idem.operation("o").key("other").mode(Mode::Strong);
    let key = thief.record_key().unwrap();
    let attempt = record.head.attempt;
    store.complete(&key, &attempt, record.value, support::EXPIRE, IfGone::Rewrite).await.unwrap();
    let error = thief.run(async { Ok::<_, Error>("x".to_owned()) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecodable);
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_and_forgets_no_answer() {
    let options = MemoryOptions::new().max_entries(2);
    let idem = Idempotency::builder().store(MemoryStore::with(options)).build().unwrap();
    let run = |key: u8| {
        idem.operation("o").key(key).mode(Mode::Strong).run(async move { Ok::<_, Error>(key) })
    };
    for key in [1, 2] {
        run(key).await.unwrap();
    }
    let error = run(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreFull);
    assert!(!error.body_ran() && error.is_retryable());
    assert_eq!(run(1).await.unwrap(), 1);
}

#[tokio::test]
async fn when_bytes_are_short_a_success_is_kept_without_its_value() {
    let options = MemoryOptions::new().max_bytes(2_000);
    let idem = Idempotency::builder().store(MemoryStore::with(options)).build().unwrap();
    let large = "x".repeat(3_000);
    assert_eq!(run(&idem, large.clone()).await.unwrap(), large);
    let error = run(&idem, large).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResultUnavailable);
}

#[tokio::test]
async fn answers_are_evicted_early_only_if_that_was_chosen() {
    let options = MemoryOptions::new().max_entries(2).evict_answers(true);
    let idem = Idempotency::builder().store(MemoryStore::with(options)).build().unwrap();
    for key in 0..10_u8 {
        let op = idem.operation("o").key(key).mode(Mode::Strong);
        assert_eq!(op.run(async move { Ok::<_, Error>(key) }).await.unwrap(), key);
    }
    assert!(idem.store().usage().unwrap().entries <= 2);
}

#[tokio::test]
async fn at_most_so_many_attempts_run_at_once() {
    let bench = support::local();
    let answered = || bench.idem.operation("o").key(1).run(async { Ok::<u8, Error>(1) });
    answered().await.unwrap();
    bench.idem.reconfigure(support::strong().with_max_concurrent(1)).unwrap();
    let hung = bench.hang();
    support::until(|| bench.runs() == 1).await;
    assert_eq!(answered().await.unwrap(), 1, "a replay is not an attempt");
    let other = bench.idem.operation("o").key(2).run(async { Ok::<u8, Error>(2) }).await;
    assert_eq!(other.unwrap_err().kind(), ErrorKind::StoreFull);
    let eager = bench.idem.operation("o").key(3).on_store_error(OnStoreError::Run);
    let error = eager.run(async { Ok::<u8, Error>(3) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreFull, "the limit is not the store's trouble");
    hung.abort();
    bench.at_rest().await;
    bench.idem.operation("o").key(2).run(async { Ok::<u8, Error>(2) }).await.unwrap();
}
