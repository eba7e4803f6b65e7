use super::*;
use crate::clock::Manual;
use crate::config::{Abandon, Config};
use crate::engine::{Instance, Values};
use crate::protocol::{BeginRequest, Begun, IfGone, StoreExt as _, Updated};
use crate::store::{Claim, Head, State, Token};
use std::sync::Arc;
use std::time::Instant;

const LEASE: Duration = Duration::from_secs(30);
/// Beyond the last bucket in use, so that completing does not bring an expiry forward.
const LONG: Duration = Duration::from_secs(2 * 3_600);
/// Completing brings an expiry forward by the lease.
const SHORT: Duration = Duration::from_secs(300);

fn bench(options: MemoryOptions) -> (MemoryStore, Arc<Manual>) {
    let manual = Arc::new(Manual::new());
    let clock = Clock::manual(Arc::clone(&manual));
    (MemoryStore::with(options.clock(clock)), manual)
}

/// An answer in a shard of the test's choice, whatever its key hashes to.
fn put_answer(store: &MemoryStore, shard: usize, number: usize) {
    let key = RecordKey::from(format!("{shard} {number}").as_str());
    let request = asking(LEASE);
    let head = Head { attempt: request.first_attempt(), state: State::Succeeded };
    let life = (store.clock.now(), LEASE);
    lock(&store.shards[shard]).put(number as u64, &key, &head, life, None, &store.budget);
}

fn asking(linger: Duration) -> BeginRequest {
    let claim = Claim::Lease { lease: LEASE, linger, abandon: Abandon::Retry };
    BeginRequest { token: Token::random(), fingerprint: None, fence_seed: 1, claim }
}

fn now<T>(answer: Answer<'_, T>) -> T {
    answer.now().expect("a local store answers at once").unwrap()
}

/// Begins and completes `key`.
fn answer(store: &MemoryStore, key: &RecordKey, retention: Duration) {
    let request = asking(retention);
    let attempt = request.first_attempt();
    assert_eq!(now(store.begin(key, &request)), Begun::Fresh(attempt));
    let completed = now(store.complete(key, &attempt, None, retention, IfGone::Rewrite));
    assert_eq!(completed, Updated::Done);
}

fn records(store: &MemoryStore) -> u64 {
    store.usage().unwrap().entries
}

fn indexed(store: &MemoryStore) -> u64 {
    store.shards.iter().map(|shard| lock(shard).indexed() as u64).sum()
}

/// How many records one maintenance removes here.
const SLICE: u64 = (SWEEP_STEPS * SWEEP_STEP) as u64;

/// More than two slices. Two steps a shard: the slice is one for all shards, not one for each.
fn put_slices(store: &MemoryStore) {
    for shard in 0..=SWEEP_STEPS {
        (0..2 * SWEEP_STEP).for_each(|number| put_answer(store, shard, number));
    }
}

#[test]
fn one_maintenance_removes_a_slice_and_the_next_ones_the_rest() {
    let (store, manual) = bench(MemoryOptions::new());
    put_slices(&store);
    let all = records(&store);
    manual.advance(LEASE + Duration::from_secs(2));
    for slices in 1..=2 {
        assert_eq!(store.sweep(), Maintenance { expired: SLICE, more: true });
        assert_eq!(records(&store), all - slices * SLICE);
    }
    assert_eq!(store.sweep(), Maintenance { expired: all - 2 * SLICE, more: false });
    assert_eq!(records(&store), 0);
    assert_eq!(store.sweep(), Maintenance::default());
}

#[test]
fn the_keeper_removes_the_other_slices_before_the_next_interval() {
    const INTERVAL: Duration = Duration::from_secs(30);
    let (store, manual) = bench(MemoryOptions::new());
    put_slices(&store);
    let all = records(&store);
    let (clock, store) = (store.clock.clone(), Arc::new(store));
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let config = Config::new().with_cleanup_interval(INTERVAL);
    let _core = Instance::start(shared, config, clock.clone(), Values::default()).unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    let step = |by| {
        assert!(Instant::now() < give_up, "{} are left", records(&store));
        manual.advance(by);
        std::thread::sleep(Duration::from_millis(1));
    };
    while records(&store) == all {
        step(INTERVAL);
    }
    let first = clock.now();
    while records(&store) > 0 {
        assert!(clock.now().since(first) < INTERVAL, "an interval has passed");
        step(Duration::from_millis(1));
    }
}

#[test]
fn evicted_answers_leave_nothing_in_the_expiry_index() {
    const ENTRIES: u64 = 100;
    let options = MemoryOptions::new().max_entries(ENTRIES).evict_answers(true);
    let (store, _manual) = bench(options);
    for round in 0..50 * ENTRIES {
        answer(&store, &RecordKey::from(round.to_string().as_str()), LONG);
    }
    assert_eq!(records(&store), ENTRIES);
    assert_eq!(indexed(&store), ENTRIES);
}

#[test]
fn answers_that_brought_their_expiry_forward_leave_little_in_the_expiry_index() {
    const ENTRIES: u64 = 1_000;
    let options = MemoryOptions::new().max_entries(ENTRIES).evict_answers(true);
    let (store, manual) = bench(options);
    for round in 0..20 * ENTRIES {
        answer(&store, &RecordKey::from(round.to_string().as_str()), SHORT);
    }
    assert_eq!(records(&store), ENTRIES);
    assert!(indexed(&store) < 10 * ENTRIES, "{} are indexed", indexed(&store));
    manual.advance(SHORT + LEASE + Duration::from_secs(2));
    while store.sweep().more {}
    assert_eq!((records(&store), indexed(&store)), (0, 0));
}

#[test]
fn all_shards_give_up_an_answer_before_one_gives_up_a_second() {
    let (store, _manual) = bench(MemoryOptions::new().max_entries(1).evict_answers(true));
    for shard in 0..SHARDS {
        (0..2).for_each(|number| put_answer(&store, shard, number));
    }
    // Still too full after each of them, so each has to evict.
    for _ in 0..SHARDS {
        assert!(store.make_room(&RecordKey::from("k")));
    }
    for shard in &store.shards {
        assert_eq!(lock(shard).indexed(), 1);
    }
    assert_eq!(records(&store), SHARDS as u64);
}
