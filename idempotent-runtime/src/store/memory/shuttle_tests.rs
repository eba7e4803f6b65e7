//! Races between the verbs of the memory store, under the concurrency checker.
//!
//! Time stands still unless a scenario moves it, so a waiter that is not woken waits for ever,
//! which the checker reports.

mod room;
mod waiting;

use super::*;
use crate::clock::Manual;
use crate::config::Abandon;
use crate::protocol::{
    BeginRequest, Begun, Binding, Failure, Forgotten, IfGone, StoreExt as _, Updated,
};
use crate::store::{AttemptId, Claim, State, Token, Value};
use crate::sync::check;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const LEASE: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(20);
const RETENTION: Duration = Duration::from_secs(40);

struct Bench {
    manual: Arc<Manual>,
    store: MemoryStore,
}

fn bench_with(options: MemoryOptions) -> Arc<Bench> {
    let manual = Arc::new(Manual::new());
    let clock = Clock::manual(Arc::clone(&manual));
    Arc::new(Bench { manual, store: MemoryStore::with(options.clock(clock)) })
}

fn bench() -> Arc<Bench> {
    bench_with(MemoryOptions::new())
}

fn key() -> RecordKey {
    RecordKey::from("k")
}

/// The answer of a verb that a full store does not refuse.
fn now<T>(answer: Answer<'_, T>) -> T {
    answer.now().expect("a local store answers at once").unwrap()
}

impl Bench {
    fn try_begin(&self, key: &RecordKey, caller: u8) -> Result<Begun, StoreError> {
        let claim = Claim::Lease { lease: LEASE, linger: LINGER, abandon: Abandon::Retry };
        let token = Token::from_bytes([caller; 16]);
        let request = BeginRequest { token, fingerprint: None, fence_seed: 1, claim };
        self.store.begin(key, &request).now().unwrap()
    }

    fn begin(&self, caller: u8) -> Begun {
        self.try_begin(&key(), caller).unwrap()
    }

    fn fresh(&self, caller: u8) -> AttemptId {
        match self.begin(caller) {
            Begun::Fresh(attempt) => attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Completes with the number of the caller as the value.
    fn complete(&self, attempt: &AttemptId) -> Updated {
        let value = Value::from(&attempt.token.to_bytes()[..1]);
        now(self.store.complete(&key(), attempt, Some(value), RETENTION, IfGone::Rewrite))
    }

    fn keys_in_shard(&self, shard: usize, count: usize) -> Vec<RecordKey> {
        (0..)
            .map(|number| RecordKey::from(format!("{number}").as_str()))
            .filter(|key| MemoryStore::shard_of(self.store.hash(key)) == shard)
            .take(count)
            .collect()
    }

    fn record(&self) -> Option<Record> {
        now(self.store.load(&key()))
    }

    /// Nothing is left, and nothing of it is still counted, when everything has expired.
    fn assert_all_expires(&self) {
        self.manual.advance(LEASE + LINGER + RETENTION);
        // A bucket is due when all of it has expired.
        self.manual.advance(Duration::from_secs(3));
        self.store.maintain();
        let Some(Usage { entries, bytes, .. }) = self.store.usage() else { panic!("it counts") };
        assert_eq!((entries, bytes), (0, 0));
    }
}

fn threads<T: Send + 'static>(jobs: Vec<Box<dyn FnOnce() -> T + Send>>) -> Vec<T> {
    let threads: Vec<_> = jobs.into_iter().map(thread::spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// A job for each of `count` callers, numbered from 1.
fn callers<T: Send + 'static>(
    count: u8,
    job: impl Fn(u8) -> T + Clone + Send + 'static,
) -> Vec<Box<dyn FnOnce() -> T + Send>> {
    let boxed = |caller| -> Box<dyn FnOnce() -> T + Send> {
        let job = job.clone();
        Box::new(move || job(caller))
    };
    (1..=count).map(boxed).collect()
}

#[test]
fn one_of_many_begins_is_granted() {
    check::all(|| {
        let bench = bench();
        let answers = threads(callers(3, {
            let bench = Arc::clone(&bench);
            move |caller| bench.begin(caller)
        }));
        let granted = answers.iter().filter(|answer| matches!(answer, Begun::Fresh(_))).count();
        let in_flight =
            answers.iter().filter(|answer| matches!(answer, Begun::InFlight { .. })).count();
        assert_eq!((granted, in_flight), (1, 2));
    });
}

#[test]
fn a_lease_that_is_over_is_taken_over_once() {
    check::many(|| {
        let bench = bench();
        let first = bench.fresh(9);
        bench.manual.advance(LEASE);
        let mut jobs = callers(3, {
            let bench = Arc::clone(&bench);
            move |caller| u32::from(matches!(bench.begin(caller), Begun::Fresh(_)))
        });
        let owner = Arc::clone(&bench);
        jobs.push(Box::new(move || match owner.complete(&first) {
            Updated::Done => 1,
            Updated::Superseded => 0,
            other => panic!("{other:?}"),
        }));
        // Either somebody takes over, or the first one still completes.
        assert_eq!(threads(jobs).into_iter().sum::<u32>(), 1);
    });
}

#[test]
fn a_lease_is_renewed_or_taken_over_but_not_both() {
    check::all(|| {
        let bench = bench();
        let first = bench.fresh(9);
        bench.manual.advance(LEASE);
        let owner = Arc::clone(&bench);
        let renewing = thread::spawn(move || now(owner.store.renew(&key(), &first, LEASE)));
        let taken_over = matches!(bench.begin(1), Begun::Fresh(_));
        let renewed = renewing.join().unwrap() == Updated::Done;
        assert_ne!(taken_over, renewed);
    });
}

#[test]
fn one_attempt_succeeds_while_leases_end_and_the_store_is_swept() {
    check::many(|| {
        let bench = bench();
        let mut jobs: Vec<Box<dyn FnOnce() -> Option<u8> + Send>> = callers(3, {
            let bench = Arc::clone(&bench);
            move |caller| match bench.begin(caller) {
                Begun::Fresh(attempt) => {
                    (bench.complete(&attempt) == Updated::Done).then_some(caller)
                }
                _ => None,
            }
        });
        let sweeper = Arc::clone(&bench);
        jobs.push(Box::new(move || {
            sweeper.store.maintain();
            sweeper.manual.advance(LEASE);
            sweeper.store.maintain();
            None
        }));
        let stored: Vec<u8> = threads(jobs).into_iter().flatten().collect();
        let record = bench.record().expect("nothing has expired");
        assert_eq!(stored.len(), 1, "{record:?}");
        assert_eq!(record.head.state, State::Succeeded);
        assert_eq!(record.value.unwrap().as_bytes(), stored);
        bench.assert_all_expires();
    });
}

#[test]
fn a_key_runs_again_only_after_its_answer_has_expired() {
    check::many(|| {
        let bench = bench();
        let first = bench.fresh(9);
        assert_eq!(bench.complete(&first), Updated::Done);
        let expired = Arc::new(AtomicBool::new(false));
        let mover = {
            let (bench, expired) = (Arc::clone(&bench), Arc::clone(&expired));
            thread::spawn(move || {
                bench.manual.advance(RETENTION - Duration::from_nanos(1));
                bench.store.maintain();
                // Before the clock moves, so that nobody can see the end of the answer earlier.
                expired.store(true, SeqCst);
                bench.manual.advance(Duration::from_nanos(1));
                bench.store.maintain();
            })
        };
        let answers = threads(callers(2, {
            let bench = Arc::clone(&bench);
            move |caller| match bench.begin(caller) {
                Begun::Fresh(attempt) => {
                    assert!(expired.load(SeqCst));
                    assert_eq!(attempt.number, 1);
                    true
                }
                Begun::Succeeded { value, .. } => {
                    assert_eq!(value.unwrap().as_bytes(), [9]);
                    false
                }
                Begun::InFlight { .. } => false,
                other => panic!("{other:?}"),
            }
        }));
        mover.join().unwrap();
        assert!(answers.into_iter().filter(|fresh| *fresh).count() <= 1);
        bench.assert_all_expires();
    });
}

#[test]
fn fences_grow_while_the_record_is_kept() {
    check::many(|| {
        let bench = bench();
        let granted: Vec<AttemptId> = threads(callers(3, {
            let bench = Arc::clone(&bench);
            move |caller| {
                let Begun::Fresh(attempt) = bench.begin(caller) else { return None };
                let free = Failure::Free(Binding::Lifted);
                now(bench.store.fail(&key(), &attempt, free, RETENTION));
                Some(attempt)
            }
        }))
        .into_iter()
        .flatten()
        .collect();
        let mut by_number = granted;
        by_number.sort_by_key(|attempt| attempt.number);
        assert!(by_number.windows(2).all(|pair| pair[0].number < pair[1].number));
        assert!(by_number.windows(2).all(|pair| pair[0].fence < pair[1].fence));
    });
}

#[test]
fn nothing_is_lost_or_counted_twice() {
    check::many(|| {
        let bench = bench();
        let kept = threads(callers(3, {
            let bench = Arc::clone(&bench);
            move |caller| keep_some(&bench, caller)
        }));
        let kept: Vec<_> = kept.into_iter().flatten().collect();
        assert_eq!(bench.store.usage().unwrap().entries, kept.len() as u64);
        for (key, expected) in &kept {
            let record = now(bench.store.load(key)).expect("it was completed");
            assert_eq!(record.value.as_ref(), Some(expected));
        }
        bench.assert_all_expires();
    });
}

/// Begins some keys of its own and ends them in different ways. Returns those that are kept.
fn keep_some(bench: &Bench, caller: u8) -> Vec<(RecordKey, Value)> {
    let mut kept = Vec::new();
    for round in 0..3_u8 {
        let key = RecordKey::from(format!("{caller}-{round}").as_str());
        let Ok(Begun::Fresh(attempt)) = bench.try_begin(&key, caller) else {
            panic!("nobody else uses this key");
        };
        match thread_rng().gen_range(0..3) {
            0 => {
                let released = bench.store.release(&key, &attempt, RETENTION, Binding::Lifted);
                assert_eq!(now(released), Updated::Done);
            }
            choice => {
                let value = Value::from(vec![caller; usize::from(round) * 100]);
                let done = bench.store.complete(
                    &key,
                    &attempt,
                    Some(value.clone()),
                    RETENTION,
                    IfGone::Rewrite,
                );
                assert_eq!(now(done), Updated::Done);
                match choice {
                    1 => kept.push((key, value)),
                    _ => assert_eq!(now(bench.store.forget(&key, false)), Forgotten::Deleted),
                }
            }
        }
        bench.store.maintain();
    }
    kept
}
