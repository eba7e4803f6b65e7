//! The memory store at size: a million records held, expired, and their memory given back.
#![allow(missing_docs)]

use cap::Cap;
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store};
use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{Error, Idempotency, Mode};
use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const EXPIRE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_million_records_are_held_and_their_memory_comes_back() {
    let records = support::size(1_000_000, 3_000_000) as u64;
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::with(MemoryOptions::new().clock(clock.clock())));
    let builder = Idempotency::builder().shared_store(Arc::clone(&store) as Arc<dyn Store>);
    let idem = builder.clock(clock.clock()).build().unwrap();
    let value = "x".repeat(62); // 64 bytes of JSON
    let run = |key: u64| {
        let op = idem.operation("orders.create").key(key).mode(Mode::Strong).expire(EXPIRE);
        op.run_detailed(async { Ok::<_, Error>(value.clone()) })
    };
    run(0).await.unwrap();
    let before = ALLOCATOR.allocated();
    for key in 1..=records {
        run(key).await.unwrap();
    }
    let held = ALLOCATOR.allocated() - before;
    assert_eq!(store.usage().unwrap().entries, records + 1);
    assert!(held / records as usize <= 320, "{} bytes a record", held / records as usize);
    for key in [1, 1_000, records] {
        assert!(run(key).await.unwrap().replayed);
    }
    clock.advance(EXPIRE + Duration::from_secs(60));
    while store.maintain().await.more {}
    assert_eq!(store.usage().unwrap().entries, 0);
    let left = ALLOCATOR.allocated().saturating_sub(before);
    assert!(left < held / 100, "{left} of {held} bytes did not come back");
    assert!(!run(1).await.unwrap().replayed);
}
