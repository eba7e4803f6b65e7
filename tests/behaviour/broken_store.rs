//! A store that panics harms the call that asked it, and no other.

use idempotent_runtime::instance::Drained;
use idempotent_runtime::key::RecordKey;
use idempotent_runtime::store::{
    Answer, Cursor, Filter, Maintenance, MemoryOptions, MemoryStore, Page, Record, Store,
    StoreFuture, Swap, Swapped, Usage, Verb,
};
use idempotent_runtime::testing::{FaultStore, Ledger, ManualClock};
use idempotent_runtime::{Error, Idempotency};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{Bench, LEASE, OwnError, strong, until, until_async};

/// Where a store panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Verb(Verb),
    Maintain,
    Usage,
}

/// Panics whenever it cleans up, or once in a verb, before it takes effect: while it is polled, or
/// when it is called if the store is local.
#[derive(Debug)]
struct Broken {
    store: FaultStore,
    at: At,
    panics: AtomicUsize,
    local: bool,
}

impl Broken {
    fn reach(&self, verb: Verb) {
        if self.at == At::Verb(verb) && self.panics.fetch_add(1, SeqCst) == 0 {
            panic!("{verb:?}");
        }
    }
}

impl Store for Broken {
    fn load<'a>(&'a self, key: &'a RecordKey) -> Answer<'a, Option<Record>> {
        self.store.load(key)
    }

    fn swap<'a>(&'a self, key: &'a RecordKey, swap: Swap) -> Answer<'a, Swapped> {
        if self.local {
            self.reach(swap.verb);
            return self.store.swap(key, swap);
        }
        StoreFuture::new(async move {
            // Not at its first poll: by then somebody holds on to the future.
            tokio::task::yield_now().await;
            self.reach(swap.verb);
            self.store.swap(key, swap).await
        })
    }

    fn scan<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> Answer<'a, Page> {
        self.store.scan(filter, after, limit)
    }

    fn is_local(&self) -> bool {
        self.local
    }

    fn maintain(&self) -> StoreFuture<'_, Maintenance> {
        if self.at == At::Maintain {
            self.panics.fetch_add(1, SeqCst);
            panic!("{:?}", self.at);
        }
        self.store.maintain()
    }

    fn usage(&self) -> Option<Usage> {
        if self.at == At::Usage {
            self.panics.fetch_add(1, SeqCst);
            panic!("{:?}", self.at);
        }
        self.store.usage()
    }
}

/// How often a store is cleaned up here.
const CLEANUP: Duration = Duration::from_secs(5);

fn remote(at: At) -> (Bench, Arc<Broken>) {
    bench(at, FaultStore::new)
}

fn local(at: At) -> (Bench, Arc<Broken>) {
    bench(at, |memory| FaultStore::new(memory).local())
}

fn bench(at: At, fault: fn(MemoryStore) -> FaultStore) -> (Bench, Arc<Broken>) {
    let clock = ManualClock::new();
    let store = fault(MemoryStore::with(MemoryOptions::new().clock(clock.clock())));
    let (panics, local) = (AtomicUsize::new(0), store.is_local());
    let broken = Arc::new(Broken { store: store.clone(), at, panics, local });
    let shared = Arc::clone(&broken) as Arc<dyn Store>;
    let builder = Idempotency::builder().shared_store(shared).clock(clock.clock());
    let idem = builder.config(strong().with_cleanup_interval(CLEANUP)).build().unwrap();
    (Bench { idem, clock, ledger: Ledger::new(), store }, broken)
}

/// No attempt is left behind: another key can be used, and the instance be shut down.
async fn nothing_is_left_behind(bench: &Bench) {
    bench.at_rest().await;
    let other = bench.idem.operation("test.op").key("other");
    assert_eq!(other.run(async { Ok::<u8, Error>(7) }).await.unwrap(), 7);
    let stop = tokio::spawn({
        let idem = bench.idem.clone();
        async move { idem.shutdown(LEASE * 10).await }
    });
    // A `begin` without an answer is released for a lease.
    until(|| {
        bench.clock.advance(LEASE / 10);
        stop.is_finished()
    })
    .await;
    assert_eq!(stop.await.unwrap(), Drained::All);
}

#[tokio::test]
async fn leases_are_renewed_although_the_store_panics_whenever_it_cleans_up() {
    for at in [At::Maintain, At::Usage] {
        leases_are_renewed_although_it_panics(at).await;
    }
}

async fn leases_are_renewed_although_it_panics(at: At) {
    let (bench, broken) = remote(at);
    until(|| {
        bench.clock.advance(CLEANUP);
        broken.panics.load(SeqCst) > 0
    })
    .await;
    let hung = bench.hang();
    until(|| bench.runs() == 1).await;
    for _ in 0..6 {
        bench.clock.advance(LEASE / 3);
        until_async(|| async {
            let record = bench.op().get().await.unwrap().unwrap();
            record.head.lease_left(record.ttl) == LEASE
        })
        .await;
    }
    assert!(broken.panics.load(SeqCst) > 1);
    hung.abort();
    bench.at_rest().await;
    assert_eq!(bench.run().await.unwrap(), 2);
    nothing_is_left_behind(&bench).await;
}

#[tokio::test]
async fn an_attempt_whose_end_makes_the_store_panic_is_left_to_its_lease() {
    let places = [At::Verb(Verb::Complete), At::Verb(Verb::Fail)].into_iter();
    for (at, (bench, _)) in places.flat_map(|at| [(at, local(at)), (at, remote(at))]) {
        let call = tokio::spawn({
            let bench = bench.clone();
            async move {
                let body = async {
                    let run = bench.ledger.record("k");
                    if at == At::Verb(Verb::Fail) { Err(OwnError::new("mine")) } else { Ok(run) }
                };
                bench.op().run(body).await
            }
        });
        assert!(call.await.unwrap_err().is_panic());
        assert_eq!(bench.idem.in_flight(), 0, "{at:?}");
        bench.clock.advance(LEASE);
        assert_eq!(bench.run().await.unwrap(), 2);
        nothing_is_left_behind(&bench).await;
    }
}

#[tokio::test]
async fn an_attempt_whose_abandonment_makes_the_store_panic_is_left_to_its_lease() {
    let (bench, broken) = remote(At::Verb(Verb::Abandon));
    let hung = bench.hang();
    until(|| bench.runs() == 1).await;
    hung.abort();
    until(|| broken.panics.load(SeqCst) == 1).await;
    bench.at_rest().await;
    bench.clock.advance(LEASE);
    assert_eq!(bench.run().await.unwrap(), 2);
    nothing_is_left_behind(&bench).await;
}

#[tokio::test]
async fn a_call_whose_begin_makes_the_store_panic_holds_nothing() {
    let (bench, _) = remote(At::Verb(Verb::Begin));
    assert!(bench.spawn().await.unwrap_err().is_panic());
    assert_eq!(bench.idem.in_flight(), 0);
    assert_eq!(bench.run().await.unwrap(), 1);
    nothing_is_left_behind(&bench).await;
}

#[tokio::test]
async fn whoever_waited_for_a_begin_that_made_the_store_panic_asks_again() {
    let (bench, _) = remote(At::Verb(Verb::Begin));
    let first = bench.spawn();
    let others: Vec<_> = (0..5).map(|_| bench.spawn()).collect();
    assert!(first.await.unwrap_err().is_panic());
    for other in others {
        assert_eq!(other.await.unwrap().unwrap(), 1);
    }
    assert_eq!(bench.runs(), 1);
    nothing_is_left_behind(&bench).await;
}
