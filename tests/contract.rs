//! The contract suite on the embedded store, and on the fault store without faults.
#![allow(clippy::print_stdout)]

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{MemoryOptions, MemoryStore, Store, StoreFuture};
use idempotent_runtime::testing::{
    FaultStore, ManualClock, MemorySubject, Subject, contract, differential,
};
use std::sync::Arc;
use std::time::Duration;

#[path = "contract/broken.rs"]
mod broken;

mod memory {
    use super::MemorySubject;

    idempotent_runtime::contract_tests!(MemorySubject::new());
}

mod faultless {
    use super::{FaultStore, MemorySubject};

    idempotent_runtime::contract_tests!(MemorySubject::wrapped(FaultStore::new));
}

mod faultless_and_local {
    use super::{FaultStore, MemorySubject};

    idempotent_runtime::contract_tests!(MemorySubject::wrapped(|store| {
        FaultStore::new(store).local()
    }));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_cases_run_on_one_subject() {
    contract::all(&MemorySubject::new()).await;
}

#[tokio::test]
async fn the_memory_store_equals_the_table() {
    differential::check(&MemorySubject::new(), 0..5_000).await;
}

#[tokio::test]
async fn the_store_with_faults_equals_the_table_while_there_are_none() {
    differential::check(&MemorySubject::wrapped(FaultStore::new), 5_000..5_500).await;
}

/// A clock that goes on by itself, as a server's does.
struct Hasty {
    clock: ManualClock,
    store: Arc<MemoryStore>,
}

impl Hasty {
    fn new() -> Self {
        let clock = ManualClock::new();
        let options = MemoryOptions::new().clock(clock.clock());
        Self { clock, store: Arc::new(MemoryStore::with(options)) }
    }
}

impl Subject for Hasty {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], by: Duration) -> StoreFuture<'a, ()> {
        self.clock.advance(by + Duration::from_millis(7));
        StoreFuture::ready(())
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_goes_on_by_itself_is_allowed_for() {
    contract::all(&Hasty::new()).await;
    differential::check(&Hasty::new(), 0..200).await;
}

/// A store whose time stands still.
struct Stuck(MemorySubject);

impl Subject for Stuck {
    fn store(&self) -> Arc<dyn Store> {
        self.0.store()
    }

    fn step<'a>(&'a self, _: &'a [RecordKey], _: Duration) -> StoreFuture<'a, ()> {
        StoreFuture::ready(())
    }
}

#[tokio::test]
#[should_panic(expected = "key_is_taken_over_exactly_when_the_lease_ends: not granted")]
async fn a_store_that_breaks_the_contract_is_told_which_case_it_fails() {
    contract::all(&Stuck(MemorySubject::new())).await;
}

#[tokio::test]
#[should_panic(expected = "seed 0: ")]
async fn a_store_that_differs_from_the_table_is_told_the_seed() {
    differential::check(&Stuck(MemorySubject::new()), 0..1).await;
}
