use super::scan::{Pass, Progress};
use super::*;
use crate::clock::Manual;
use crate::config::{Abandon, Config};
use crate::engine::{Instance, Values};
use crate::protocol::{BeginRequest, Begun, IfGone, StoreExt as _, Updated};
use crate::store::{Claim, Head, State, Token};
use std::sync::Arc;
use std::time::Instant;

const LEASE: Duration = Duration::from_secs(30);
/// Beyond the last bucket in use.
const LONG: Duration = Duration::from_secs(2 * 3_600);
/// Within the buckets in use.
const SHORT: Duration = Duration::from_secs(300);

fn bench(options: MemoryOptions) -> (MemoryStore, Arc<Manual>) {
    let manual = Arc::new(Manual::new());
    let clock = Clock::manual(Arc::clone(&manual));
    (MemoryStore::with(options.clock(clock)), manual)
}

#[test]
fn keys_of_one_shard_differ_in_all_bits_that_its_table_uses() {
    let (placed_by, compared) = (0..48, 57..64);
    for bit in placed_by.chain(compared) {
        assert_eq!(MemoryStore::shard_of(1 << bit), MemoryStore::shard_of(0), "bit {bit}");
    }
    let used = (0..64).map(|index| MemoryStore::shard_of(index << 51));
    assert_eq!(used.collect::<std::collections::HashSet<_>>().len(), SHARDS);
}

/// An answer in a shard of the test's choice, whatever its key hashes to.
fn put_answer(store: &MemoryStore, shard: usize, number: usize) {
    let key = RecordKey::from(format!("{shard} {number}").as_str());
    let request = asking(LEASE);
    let head = Head { attempt: request.first_attempt(), state: State::Succeeded };
    let life = (store.clock.now(), LEASE);
    let mut shard = lock(&store.shards[shard]);
    shard.put(None, (number as u64, &key), &head, life, None, &store.budget);
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
    answer_sooner(store, key, retention, retention);
}

/// An answer that is kept for another time than its call said.
fn answer_sooner(store: &MemoryStore, key: &RecordKey, linger: Duration, retention: Duration) {
    let request = asking(linger);
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

/// Number of records that one call of `maintain` removes here.
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
        let key = RecordKey::from(round.to_string().as_str());
        answer_sooner(&store, &key, 2 * SHORT, SHORT);
    }
    assert_eq!(records(&store), ENTRIES);
    assert!(indexed(&store) < 10 * ENTRIES, "{} are indexed", indexed(&store));
    manual.advance(2 * SHORT + Duration::from_secs(2));
    while store.sweep().more {}
    assert_eq!((records(&store), indexed(&store)), (0, 0));
}

#[test]
fn an_attempt_that_ends_within_its_lease_is_indexed_once() {
    let (store, manual) = bench(MemoryOptions::new());
    let (key, retention) = (RecordKey::from("k"), 10 * LEASE);
    let request = asking(retention);
    let attempt = request.first_attempt();
    assert_eq!(now(store.begin(&key, &request)), Begun::Fresh(attempt));
    manual.advance(LEASE / 2);
    now(store.complete(&key, &attempt, None, retention, IfGone::Rewrite));
    assert_eq!(indexed(&store), 1);
    manual.advance(retention + Duration::from_secs(2));
    assert_eq!((store.sweep().expired, records(&store), indexed(&store)), (1, 0, 0));
}

#[test]
fn an_attempt_that_never_ends_is_kept_for_its_lease_and_its_linger() {
    let (store, manual) = bench(MemoryOptions::new());
    let (key, linger) = (RecordKey::from("k"), 10 * LEASE);
    assert!(matches!(now(store.begin(&key, &asking(linger))), Begun::Fresh(_)));
    manual.advance(linger + Duration::from_secs(2));
    assert_eq!((store.sweep().expired, indexed(&store)), (0, 1));
    assert!(now(store.load(&key)).is_none_or(|record| record.ttl <= LEASE));
    manual.advance(LEASE);
    assert_eq!((store.sweep().expired, indexed(&store)), (1, 0));
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

/// The keys of all pages, in their order. `between` runs before each page.
fn scanned(store: &MemoryStore, limit: usize, mut between: impl FnMut(usize)) -> Vec<String> {
    let (filter, mut after, mut keys) = (Filter::new(), None, Vec::new());
    for page in 0.. {
        between(page);
        let Page { records, next, .. } = now(store.scan(&filter, after.as_ref(), limit));
        assert!(records.len() <= limit);
        keys.extend(records.into_iter().map(|found| found.key.as_str().to_owned()));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    keys
}

fn text(kind: &str, number: usize) -> String {
    format!("p|{kind}|{number}")
}

#[test]
fn a_scan_lists_what_stays_once_while_tables_grow_and_shrink() {
    const STAYING: usize = 3_000;
    const PASSING: usize = 20_000;
    let (store, _) = bench(MemoryOptions::new());
    for number in 0..STAYING {
        answer(&store, &RecordKey::from(text("stays", number).as_str()), LONG);
    }
    let keys = scanned(&store, 100, |page| match page {
        // Every table grows, several times over.
        5 => (0..PASSING).for_each(|number| {
            answer(&store, &RecordKey::from(text("passes", number).as_str()), LONG);
        }),
        60 => {
            for number in 0..PASSING {
                let key = RecordKey::from(text("passes", number).as_str());
                now(store.forget(&key, true));
            }
            store.sweep();
        }
        _ => {}
    });
    let mut staying: Vec<_> = keys.iter().filter(|key| key.contains("|stays|")).collect();
    assert_eq!(staying.len(), STAYING);
    staying.sort();
    staying.dedup();
    assert_eq!(staying.len(), STAYING);
}

#[test]
fn a_scan_lists_what_stays_once_while_others_write() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    const STAYING: usize = 2_000;
    let (store, _) = bench(MemoryOptions::new());
    for number in 0..STAYING {
        answer(&store, &RecordKey::from(text("stays", number).as_str()), LONG);
    }
    /// Ends the other thread also if an assertion fails.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        scope.spawn(|| {
            // Tables double, and shrink again.
            while !done.load(Relaxed) {
                let keys: Vec<_> = (0..20_000)
                    .map(|number| RecordKey::from(text("passes", number).as_str()))
                    .collect();
                keys.iter().for_each(|key| answer(&store, key, LONG));
                for key in &keys {
                    now(store.forget(key, true));
                }
                store.sweep();
            }
        });
        for _ in 0..5 {
            let mut keys = scanned(&store, 50, |_| {});
            keys.retain(|key| key.contains("|stays|"));
            assert_eq!(keys.len(), STAYING);
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), STAYING);
        }
    });
}

#[test]
fn a_table_that_moves_is_noticed() {
    let (store, _) = bench(MemoryOptions::new());
    let moves = || lock(&store.shards[0]).moves();
    let before = moves();
    (0..1_000).for_each(|number| put_answer(&store, 0, number));
    let grown = moves();
    assert_ne!(grown, before);
    (0..1_000).for_each(|number| {
        let key = RecordKey::from(format!("0 {number}").as_str());
        lock(&store.shards[0]).remove(number as u64, &key, &store.budget);
    });
    assert_eq!(moves(), grown, "removing moves nothing");
    (0..10).for_each(|number| put_answer(&store, 0, number));
    lock(&store.shards[0]).shrink();
    assert_ne!(moves(), grown);
}

#[test]
fn a_pass_finds_the_smallest_hashes_unless_its_table_moves() {
    const STEP: usize = 8;
    let (store, _) = bench(MemoryOptions::new());
    let shard = &store.shards[0];
    (0..100).rev().for_each(|number| put_answer(&store, 0, number));
    let mut pass = Pass::new(Some(9), 20);
    while pass.step(&lock(shard), STEP) == Progress::More {}
    assert_eq!(pass.hashes(), (10..30).collect::<Vec<_>>());

    let mut pass = Pass::new(None, 1_000);
    assert_eq!(pass.step(&lock(shard), STEP), Progress::More);
    (100..1_000).for_each(|number| put_answer(&store, 0, number));
    assert_eq!(pass.step(&lock(shard), STEP), Progress::Moved);
}

#[test]
fn two_keys_with_one_hash_are_both_listed() {
    let (store, _) = bench(MemoryOptions::new());
    for key in ["p|o|1", "p|o|2", "p|o|3"] {
        let head = Head { attempt: asking(LEASE).first_attempt(), state: State::Succeeded };
        let life = (store.clock.now(), LEASE);
        let mut shard = lock(&store.shards[1]);
        shard.put(None, (7, &RecordKey::from(key)), &head, life, None, &store.budget);
    }
    let page = now(store.scan(&Filter::new(), None, 1));
    assert_eq!(page.records.len(), 3, "they cannot be told apart by a cursor");
    assert_eq!(now(store.scan(&Filter::new(), page.next.as_ref(), 1)), Page::default());
}

#[test]
fn keys_that_were_not_composed_are_skipped_and_bad_cursors_refused() {
    let (store, _) = bench(MemoryOptions::new());
    put_answer(&store, 0, 1);
    let page = now(store.scan(&Filter::new(), None, 10));
    assert_eq!((page.records.len(), page.skipped, page.next), (0, 1, None));
    for bad in ["", "1", "64.0", "0.x", "-1.0"] {
        let cursor = Cursor::new(bad);
        let refused = store.scan(&Filter::new(), Some(&cursor), 10).now().unwrap().unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{bad}");
    }
}
