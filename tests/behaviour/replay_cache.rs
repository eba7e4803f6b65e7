//! Replays from the cache of a process: the answers of the store, without asking it.

use idempotent_runtime::codec::Encryption;
use idempotent_runtime::instance::Builder;
use idempotent_runtime::protocol::{Forgotten, Resolved};
use idempotent_runtime::store::{MemoryOptions, MemoryStore, State, Store as _, StoreErrorKind};
use idempotent_runtime::testing::{Fault, FaultStore, Ledger, ManualClock, Verb, scoped};
use idempotent_runtime::{
    Abandon, AnswerPolicy, Begin, Error, ErrorKind, Fingerprint, Idempotency, Mode, Recorded,
    ReplayCache, Resolution, idempotent,
};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{
    Bench, EXPIRE, OwnError, neighbour, poll_at_most, strong, until_async, while_time_passes,
};

const SECOND: Duration = Duration::from_secs(1);
/// The age of answers, by default.
const AGE: Duration = Duration::from_secs(60);

fn cached() -> Bench {
    cached_with(ReplayCache::new(), |builder| builder)
}

fn cached_with(cache: ReplayCache, build: impl FnOnce(Builder) -> Builder) -> Bench {
    let clock = ManualClock::new();
    let memory = MemoryStore::with(MemoryOptions::new().clock(clock.clock()));
    let store = FaultStore::new(memory).telling();
    let builder = Idempotency::builder().store(store.clone()).clock(clock.clock()).config(strong());
    let idem = build(builder.replay_cache(cache)).build().unwrap();
    Bench { idem, clock, ledger: Ledger::new(), store }
}

/// The number of messages to the store.
fn asked(bench: &Bench) -> usize {
    Verb::ALL.into_iter().map(|verb| bench.store.calls(verb)).sum()
}

fn entries(bench: &Bench) -> usize {
    bench.idem.replay_cache().unwrap().entries
}

#[tokio::test]
async fn a_repeat_call_gets_the_recorded_answer_without_asking_the_store() {
    let bench = cached();
    bench.op().run(async { Err::<usize, _>(OwnError::new("first")) }).await.unwrap_err();
    let first = bench.op().run_detailed(async { Ok::<_, Error>(bench.ledger.record("k")) }).await;
    let first = first.unwrap();
    assert_eq!((first.value, first.attempt, first.replayed), (1, 2, false));
    let before = asked(&bench);
    for _ in 0..3 {
        let again = bench.op().run_detailed(async { Ok::<usize, Error>(9) }).await.unwrap();
        assert_eq!((again.value, again.attempt, again.replayed), (1, 2, true));
        assert_eq!(again.recorded, Recorded::Yes);
    }
    assert_eq!(asked(&bench), before);
}

#[tokio::test]
async fn an_answer_of_another_process_is_kept_once_it_was_replayed() {
    let bench = cached();
    assert_eq!(neighbour(&bench).run().await.unwrap(), 1);
    assert_eq!(bench.run().await.unwrap(), 1);
    let before = asked(&bench);
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!((asked(&bench), bench.runs()), (before, 0));
}

#[tokio::test]
async fn an_answer_is_asked_for_again_when_it_is_too_old() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    bench.clock.advance(AGE - Duration::from_nanos(1));
    let before = asked(&bench);
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(asked(&bench), before);
    bench.clock.advance(Duration::from_nanos(1));
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(asked(&bench), before + 1);
    // Hits do not make it younger.
    for _ in 0..4 {
        bench.clock.advance(AGE / 4);
        assert_eq!(bench.run().await.unwrap(), 1);
    }
    assert_eq!(asked(&bench), before + 2);
}

#[tokio::test]
async fn an_answer_of_this_process_is_not_replayed_after_its_record_has_expired() {
    let bench = cached();
    let run = || {
        let op = bench.op().expire(10 * SECOND);
        op.run(async { Ok::<_, Error>(bench.ledger.record("k")) })
    };
    assert_eq!(run().await.unwrap(), 1);
    bench.clock.advance(10 * SECOND - Duration::from_millis(1));
    assert_eq!(run().await.unwrap(), 1);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(run().await.unwrap(), 2);
}

/// The store does not say how long the record of a replay still lives.
#[tokio::test]
async fn a_replay_outlives_its_record_by_no_more_than_the_greatest_age() {
    let bench = cached();
    let elsewhere = neighbour(&bench);
    let run = |bench: &Bench, expire| {
        let bench = bench.clone();
        async move {
            let op = bench.op().expire(expire);
            op.run(async { Ok::<_, Error>(bench.ledger.record("k")) }).await.unwrap()
        }
    };
    assert_eq!(run(&elsewhere, 10 * SECOND).await, 1);
    bench.clock.advance(9 * SECOND);
    assert_eq!(run(&bench, EXPIRE).await, 1);
    bench.clock.advance(AGE - Duration::from_millis(1));
    assert_eq!((run(&bench, EXPIRE).await, bench.runs()), (1, 0), "its record has expired");
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!((run(&bench, EXPIRE).await, bench.runs()), (1, 1));

    // Nor than the time for which the call would keep it.
    let other = cached();
    run(&neighbour(&other), 10 * SECOND).await;
    other.clock.advance(9 * SECOND);
    assert_eq!((run(&other, 10 * SECOND).await, other.runs()), (1, 0));
    other.clock.advance(10 * SECOND);
    assert_eq!((run(&other, 10 * SECOND).await, other.runs()), (1, 1));
}

#[tokio::test]
async fn a_record_that_an_operator_removes_here_is_not_replayed() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.op().forget(false).await.unwrap(), Forgotten::Deleted);
    assert_eq!(bench.run().await.unwrap(), 2);
}

/// Also where the store tells nobody: the operator's own process needs no message.
#[tokio::test]
async fn an_operator_whose_store_does_not_answer_empties_the_place_all_the_same() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    bench.store.fault_next(Verb::Get, Fault::Before(StoreErrorKind::Unavailable));
    bench.op().forget(false).await.unwrap_err();
    assert_eq!(entries(&bench), 0);
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(entries(&bench), 1);
    let gate = bench.store.hold(Verb::Get);
    assert!(poll_at_most(20, bench.op().forget(false)).await.is_none());
    gate.open();
    assert_eq!(entries(&bench), 0);
}

#[tokio::test]
async fn a_record_that_an_operator_removes_elsewhere_is_not_replayed() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(neighbour(&bench).op().forget(false).await.unwrap(), Forgotten::Deleted);
    assert_eq!(bench.run().await.unwrap(), 2);
}

/// An operator can repeat what a process may have missed.
#[tokio::test]
async fn a_record_that_is_gone_is_told_of_again() {
    let bench = cached();
    let elsewhere = neighbour(&bench);
    let op = || elsewhere.op().expire(10 * SECOND);
    op().run(async { Ok::<_, Error>(7_usize) }).await.unwrap();
    assert_eq!(bench.run().await.unwrap(), 7);
    bench.clock.advance(10 * SECOND);
    assert_eq!(bench.run().await.unwrap(), 7);
    assert_eq!(elsewhere.op().forget(false).await.unwrap(), Forgotten::NotFound);
    assert_eq!(bench.run().await.unwrap(), 1);
}

#[tokio::test]
async fn a_record_that_an_operator_resolves_elsewhere_gives_its_new_answer() {
    let (bench, operator) = abandoned_behind_a_replay().await;
    let resolved = operator.op().resolve(Resolution::Succeeded(Some(&8_usize))).await;
    assert_eq!(resolved.unwrap(), Resolved::Done);
    assert_eq!(bench.run().await.unwrap(), 8);
    let before = asked(&bench);
    assert_eq!(bench.run().await.unwrap(), 8);
    assert_eq!(asked(&bench), before);
}

/// The record is gone, although the operator got an error: other processes have to hear of it.
#[tokio::test]
async fn a_record_whose_removal_was_not_answered_is_not_replayed_elsewhere() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    let operator = neighbour(&bench);
    bench.store.fault_next(Verb::Forget, Fault::After(StoreErrorKind::Unavailable));
    operator.op().forget(false).await.unwrap_err();
    assert!(operator.op().get().await.unwrap().is_none(), "it was removed");
    assert_eq!(bench.run().await.unwrap(), 2);
}

/// A copy of the removal arrives late, after the answer was kept again: the announcement came before it.
#[tokio::test]
async fn a_removal_that_was_not_answered_is_repeated() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    let operator = neighbour(&bench);
    bench.store.fault_next(Verb::Forget, Fault::Late(StoreErrorKind::Unavailable));
    operator.op().forget(false).await.unwrap_err();
    assert_eq!(bench.run().await.unwrap(), 1);
    assert_eq!(bench.store.deliver_late().await, 1);
    assert_eq!(bench.run().await.unwrap(), 1, "a replay from memory");
    assert_eq!(operator.op().forget(false).await.unwrap(), Forgotten::NotFound);
    assert_eq!(bench.run().await.unwrap(), 2);
}

/// A request whose client disconnects: the record is removed, and the task that would tell of it is gone.
#[tokio::test]
async fn a_record_whose_operator_went_away_is_not_replayed_elsewhere() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    let operator = neighbour(&bench);
    let gate = bench.store.hold_after(Verb::Forget);
    assert!(poll_at_most(20, operator.op().forget(false)).await.is_none());
    gate.open();
    assert!(operator.op().get().await.unwrap().is_none(), "it was removed");
    until_async(async || bench.run().await.unwrap() == 2).await;
}

/// An attempt is abandoned while another process replays the answer of the record before.
async fn abandoned_behind_a_replay() -> (Bench, Bench) {
    let bench = cached();
    let operator = neighbour(&bench);
    let op = || operator.op().expire(10 * SECOND).abandon(Abandon::Block);
    op().run(async { Ok::<_, Error>(7_usize) }).await.unwrap();
    assert_eq!(bench.run().await.unwrap(), 7);
    bench.clock.advance(10 * SECOND);
    let dropped = op().run(std::future::pending::<Result<usize, Error>>());
    assert!(poll_at_most(50, dropped).await.is_none());
    let is_abandoned = || async {
        operator.op().get().await.unwrap().is_some_and(|it| it.head.state == State::Abandoned)
    };
    until_async(is_abandoned).await;
    assert_eq!(bench.run().await.unwrap(), 7, "the record before has expired");
    (bench, operator)
}

#[tokio::test]
async fn a_record_whose_resolution_was_not_answered_gives_its_new_answer() {
    let (bench, operator) = abandoned_behind_a_replay().await;
    bench.store.fault_next(Verb::Resolve, Fault::After(StoreErrorKind::Unavailable));
    let resolved = operator.op().resolve(Resolution::Succeeded(Some(&8_usize))).await;
    resolved.unwrap_err();
    assert_eq!(bench.run().await.unwrap(), 8);
}

#[tokio::test]
async fn a_record_whose_resolver_went_away_gives_its_new_answer() {
    let (bench, operator) = abandoned_behind_a_replay().await;
    let gate = bench.store.hold_after(Verb::Resolve);
    let op = operator.op();
    let resolved = op.resolve(Resolution::Succeeded(Some(&8_usize)));
    assert!(poll_at_most(20, resolved).await.is_none());
    gate.open();
    until_async(async || bench.run().await.unwrap() == 8).await;
}

/// The store has written the answer, and its reply is on the way when the record is removed.
#[tokio::test]
async fn an_answer_whose_record_was_removed_before_it_was_kept_is_not_kept() {
    let bench = cached();
    let gate = bench.store.hold_after(Verb::Complete);
    let call = bench.spawn();
    gate.arrived(1).await;
    assert_eq!(neighbour(&bench).op().forget(false).await.unwrap(), Forgotten::Deleted);
    gate.open();
    assert_eq!(call.await.unwrap().unwrap(), 1);
    assert_eq!(entries(&bench), 0);
    assert_eq!(bench.run().await.unwrap(), 2);
}

#[tokio::test]
async fn a_process_that_may_miss_an_operator_asks_the_store() {
    let bench = cached();
    assert_eq!(bench.run().await.unwrap(), 1);
    bench.store.lose_freed();
    let usage = bench.idem.replay_cache().unwrap();
    assert_eq!((usage.is_listening, usage.entries, usage.bytes), (false, 0, 0));
    neighbour(&bench).op().forget(false).await.unwrap();
    for _ in 0..2 {
        let before = asked(&bench);
        assert_eq!(bench.run().await.unwrap(), 2);
        assert!(asked(&bench) > before);
    }
    bench.store.tell_freed();
    assert_eq!(bench.run().await.unwrap(), 2);
    let before = asked(&bench);
    assert_eq!(bench.run().await.unwrap(), 2);
    assert_eq!(asked(&bench), before);
}

#[tokio::test]
async fn another_payload_is_a_mismatch_as_the_store_says() {
    let bench = cached();
    let run = |payload: Option<&str>| {
        let op = bench.op();
        let op = match payload {
            Some(text) => op.fingerprint(Fingerprint::of(text)),
            None => op,
        };
        let ledger = bench.ledger.clone();
        async move { op.run(async { Ok::<_, Error>(ledger.record("k")) }).await }
    };
    assert_eq!(run(Some("one")).await.unwrap(), 1);
    let before = asked(&bench);
    assert_eq!(run(Some("one")).await.unwrap(), 1);
    assert_eq!(run(None).await.unwrap(), 1);
    assert_eq!(asked(&bench), before);
    for _ in 0..2 {
        let mismatch = run(Some("two")).await.unwrap_err();
        assert_eq!(mismatch.kind(), ErrorKind::Mismatch);
        assert_eq!(run(Some("one")).await.unwrap(), 1);
    }
    // Of a record without a payload, any payload gets the answer.
    bench.op().forget(false).await.unwrap();
    assert_eq!(run(None).await.unwrap(), 2);
    assert_eq!(run(Some("two")).await.unwrap(), 2);
    // The answer is for the second payload as far as this process knows: the store knows of the third.
    assert_eq!(run(Some("three")).await.unwrap(), 2);
}

#[tokio::test]
async fn a_duplicate_in_reject_mode_is_refused_without_asking_the_store() {
    let bench = cached();
    let run = || bench.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(1) });
    run().await.unwrap();
    let elsewhere = neighbour(&bench);
    let from_store = elsewhere.op().mode(Mode::Reject).run(async { Ok::<u8, Error>(1) }).await;
    let from_store = from_store.unwrap_err();
    let before = asked(&bench);
    let refusal = run().await.unwrap_err();
    assert_eq!((refusal.kind(), asked(&bench)), (ErrorKind::Duplicate, before));
    assert_eq!(refusal.to_string(), from_store.to_string());
    // It was recorded without its value, also for a call in strong mode.
    let strong = bench.run().await.unwrap_err();
    assert_eq!((strong.kind(), asked(&bench)), (ErrorKind::ResultUnavailable, before));
}

/// An error that can be kept.
#[derive(Debug, Serialize, Deserialize)]
struct Own(String);

impl From<Error> for Own {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

#[tokio::test]
async fn a_final_error_is_kept_and_no_other() {
    let bench = cached();
    let fail = |key: &'static str, text: &'static str| {
        let answers = AnswerPolicy::kept().final_errors(|error: &Own| error.0 == "final");
        let op = bench.idem.operation("test.op").key(key);
        let ledger = bench.ledger.clone();
        async move {
            let body = async {
                ledger.record(key);
                Err::<u8, _>(Own(text.to_owned()))
            };
            op.run_as(answers, body).await.unwrap_err().0
        }
    };
    assert_eq!(fail("final", "final").await, "final");
    let before = asked(&bench);
    assert_eq!(fail("final", "another").await, "final");
    assert_eq!((asked(&bench), bench.ledger.ran("final")), (before, 1));
    for run in 1..=2 {
        fail("free", "free").await;
        assert_eq!(bench.ledger.ran("free"), run);
    }
    assert_eq!(entries(&bench), 1);
}

#[tokio::test]
async fn an_answer_that_the_store_has_not_acknowledged_is_not_kept() {
    let bench = cached();
    bench.store.fault_next(Verb::Complete, Fault::After(StoreErrorKind::Unavailable));
    let op = || bench.op().run_detailed(async { Ok::<usize, Error>(1) });
    assert_eq!(op().await.unwrap().recorded, Recorded::NotYet);
    assert_eq!(entries(&bench), 0);
    // Nor is one of a later try, of which it is not known when an earlier one was written.
    while_time_passes(|by| bench.clock.advance(by), bench.at_rest()).await;
    assert_eq!((bench.store.calls(Verb::Complete), entries(&bench)), (2, 0));
    assert!(op().await.unwrap().replayed);
    assert_eq!(entries(&bench), 1);
}

#[tokio::test]
async fn neither_a_running_attempt_nor_a_window_is_kept() {
    let bench = cached();
    let held = bench.hang();
    bench.store.answered(Verb::Begin, 1).await;
    let reject = bench.op().mode(Mode::Reject).run(async { Ok::<usize, Error>(1) }).await;
    assert_eq!(reject.unwrap_err().kind(), ErrorKind::InProgress);
    held.abort();
    let window = || {
        let op = bench.idem.operation("window").key("k").mode(Mode::Window);
        op.run(async { Ok::<usize, Error>(1) })
    };
    window().await.unwrap();
    assert_eq!(entries(&bench), 0);
    let before = asked(&bench);
    assert_eq!(window().await.unwrap_err().kind(), ErrorKind::Duplicate);
    assert!(asked(&bench) > before);
}

#[tokio::test]
async fn encrypted_values_stay_encrypted() {
    let mut taken = Vec::new();
    for key in [None, Some([1; 32])] {
        let bench = cached_with(ReplayCache::new(), |builder| match key {
            Some(key) => builder.encryption(Encryption::new(1, key)),
            None => builder,
        });
        assert_eq!(bench.run().await.unwrap(), 1);
        let record = bench.op().get().await.unwrap().unwrap();
        let before = asked(&bench);
        assert_eq!(bench.run().await.unwrap(), 1);
        assert_eq!(asked(&bench), before);
        let stored = record.value.unwrap().as_bytes().len();
        taken.push((stored, bench.idem.replay_cache().unwrap().bytes));
    }
    let [(plain, of_plain), (sealed, of_sealed)] = taken[..] else { panic!() };
    assert!(sealed > plain);
    assert_eq!(of_sealed - of_plain, sealed - plain);
}

#[tokio::test]
async fn as_many_answers_are_kept_as_are_allowed() {
    let bench = cached_with(ReplayCache::new().max_entries(2), |builder| builder);
    for key in 0..10 {
        let op = bench.idem.operation("test.op").key(key);
        op.run(async { Ok::<usize, Error>(key) }).await.unwrap();
        assert!(entries(&bench) <= 2);
    }
    let small = ReplayCache::new().max_bytes(64 * 1024);
    let bench = cached_with(small, |builder| builder);
    let run = || bench.op().run(async { Ok::<String, Error>("x".repeat(2_000)) });
    run().await.unwrap();
    let before = asked(&bench);
    assert_eq!(run().await.unwrap().len(), 2_000);
    assert_eq!((entries(&bench), asked(&bench)), (0, before + 1));
}

#[tokio::test]
async fn a_batch_asks_the_store_only_for_what_is_not_kept() {
    let bench = cached();
    let run = |keys: &'static [usize]| {
        let bench = bench.clone();
        async move {
            let items = keys.iter().map(|key| (*key, *key));
            let body = |items: Vec<usize>| async move { items.into_iter().map(Ok).collect() };
            let answers = bench.op().run_batch::<_, _, _, Error, _, _>(items, body).await;
            let told = answers.into_iter().map(Result::unwrap).map(|it| (it.value, it.replayed));
            told.collect::<Vec<_>>()
        }
    };
    assert_eq!(run(&[1, 2]).await, [(1, false), (2, false)]);
    let before = asked(&bench);
    assert_eq!(run(&[2, 1]).await, [(2, true), (1, true)]);
    assert_eq!(asked(&bench), before);
    assert_eq!(run(&[2, 3, 1, 4]).await, [(2, true), (3, false), (1, true), (4, false)]);
    assert_eq!((bench.store.calls(Verb::Begin), bench.store.calls(Verb::Complete)), (4, 4));
    let before = asked(&bench);
    let single: Result<usize, Error> = bench.op().key(4_usize).run(async { Ok(9) }).await;
    assert_eq!((single.unwrap(), asked(&bench)), (4, before));
}

#[idempotent(key = "id", mode = "strong", detach, name = "kept.detached")]
async fn ship(ledger: Ledger, id: u64) -> Result<usize, Error> {
    tokio::task::yield_now().await;
    Ok(ledger.record(id.to_string()))
}

#[tokio::test]
async fn a_detached_call_and_one_by_hand_are_answered_too() {
    let bench = cached();
    let call = || scoped(bench.idem.clone(), ship(bench.ledger.clone(), 1));
    assert_eq!(call().await.unwrap(), 1);
    let before = asked(&bench);
    assert_eq!(call().await.unwrap(), 1);
    assert_eq!(asked(&bench), before);
    let op = || bench.idem.operation("kept.detached").key(1_u64);
    let Begin::Replay(stored) = op().begin().await.unwrap() else { panic!("it was recorded") };
    assert_eq!((stored.decode::<usize>().unwrap(), asked(&bench)), (1, before));
}

#[tokio::test]
async fn the_hook_of_replays_is_called() {
    let bench = cached();
    static HOOKED: AtomicUsize = AtomicUsize::new(0);
    let call = || {
        let answers = AnswerPolicy::kept().on_replay(|value: &usize| {
            HOOKED.fetch_add(*value, SeqCst);
        });
        bench.op().run_as(answers, async { Ok::<usize, Error>(5) })
    };
    call().await.unwrap();
    call().await.unwrap();
    assert_eq!(HOOKED.load(SeqCst), 5);
}

#[tokio::test]
async fn an_instance_on_a_local_store_has_no_cache() {
    let builder = Idempotency::builder().store(MemoryStore::new());
    let idem = builder.replay_cache(ReplayCache::new()).build().unwrap();
    assert_eq!(idem.replay_cache(), None);
}

#[test]
fn a_store_that_does_not_tell_of_freed_records_is_refused() {
    let store = FaultStore::new(MemoryStore::new());
    assert!(!store.is_local() && !store.tells_all_freed());
    let refused = Idempotency::builder().store(store).replay_cache(ReplayCache::new()).build();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the instance cannot be built: a replay cache needs a store that tells of every record \
         that an operator frees\nhelp: `RedisStore::connect` to one server, or to sentinels; or leave \
         out `replay_cache`"
    );
}

#[test]
fn options_out_of_their_bounds_are_refused() {
    let cache = ReplayCache::new().max_age(Duration::ZERO);
    let refused = Idempotency::builder().replay_cache(cache).build().unwrap_err();
    let text = "the instance cannot be built: `max_age` cannot be 0s; accepted: 1ms to 1h";
    assert_eq!(refused.to_string(), text);
}

#[tokio::test]
async fn a_key_that_occurs_twice_in_a_batch_gets_the_kept_answer_twice() {
    for expires in [true, false] {
        let bench = cached();
        let elsewhere = neighbour(&bench);
        let op = || elsewhere.op().expire(10 * SECOND).key(1_usize);
        op().run(async { Ok::<_, Error>(7_usize) }).await.unwrap();
        bench.clock.advance(9 * SECOND);
        let single = bench.op().key(1_usize).run(async { Ok::<_, Error>(0_usize) });
        assert_eq!(single.await.unwrap(), 7);
        if expires {
            // Replayed from memory, as it may be. Nobody has failed.
            bench.clock.advance(2 * SECOND);
        }
        let before = asked(&bench);
        let items = [(1_usize, 0_usize), (1, 0)];
        let body = |items: Vec<usize>| async move { items.into_iter().map(Ok).collect() };
        let answers = bench.op().run_batch::<_, _, _, Error, _, _>(items, body).await;
        let told = answers.into_iter().map(|it| it.map(|it| it.value).map_err(|it| it.to_string()));
        assert_eq!(told.collect::<Vec<_>>(), [Ok(7), Ok(7)], "expires: {expires}");
        assert_eq!(asked(&bench), before, "expires: {expires}");
    }
}

#[tokio::test]
async fn a_key_that_occurs_twice_in_a_batch_gets_the_answer_of_its_first_without_asking() {
    let bench = cached();
    bench.op().key(0_usize).run(async { Ok::<_, Error>(0_usize) }).await.unwrap();
    let before = asked(&bench);
    let items = [(1_usize, 7_usize), (0, 8), (1, 9)];
    let body = |items: Vec<usize>| async move { items.into_iter().map(Ok).collect() };
    let answers = bench.op().run_batch::<_, _, _, Error, _, _>(items, body).await;
    let told = answers.into_iter().map(Result::unwrap).map(|it| (it.value, it.replayed));
    assert_eq!(told.collect::<Vec<_>>(), [(7, false), (0, true), (7, true)]);
    assert_eq!(asked(&bench), before + 2, "one begin and one complete");
}

/// No call has to wait for anything, so only tokio's budget ends the turn of their task.
#[tokio::test]
async fn calls_that_are_answered_from_memory_let_other_tasks_run() {
    let bench = cached();
    bench.run().await.unwrap();
    scoped(bench.idem.clone(), ship(bench.ledger.clone(), 1)).await.unwrap();
    const CALLS: usize = 1_000;
    let run = async || {
        for _ in 0..CALLS {
            bench.run().await.unwrap();
        }
    };
    let detached = async || {
        for _ in 0..CALLS {
            scoped(bench.idem.clone(), ship(bench.ledger.clone(), 1)).await.unwrap();
        }
    };
    let by_hand = async || {
        for _ in 0..CALLS {
            assert!(matches!(bench.op().begin().await.unwrap(), Begin::Replay(_)));
        }
    };
    let batch = async || {
        let items = (0..CALLS).map(|_| ("k", 0_usize));
        let body = |items: Vec<usize>| async move { items.into_iter().map(Ok).collect() };
        let answers = bench.op().run_batch::<_, _, _, Error, _, _>(items, body).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap().replayed));
    };
    let before = asked(&bench);
    for way in 0..4 {
        let other = tokio::spawn(async {});
        match way {
            0 => run().await,
            1 => detached().await,
            2 => by_hand().await,
            _ => batch().await,
        }
        assert!(other.is_finished(), "no other task had its turn: {way}");
    }
    assert_eq!(asked(&bench), before);
}
