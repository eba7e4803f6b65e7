//! Whole calls: they meet, run, go away and wait for each other.

use super::remote::Remote;
use crate::clock::{Clock, Manual};
use crate::config::{Config, Mode};
use crate::engine::current;
use crate::error::{Error, ErrorKind};
use crate::fingerprint::Fingerprint;
use crate::instance::{Drained, Idempotency};
use crate::key::RecordKey;
use crate::protocol::Forgotten;
use crate::store::{MemoryOptions, MemoryStore, State, Store};
use crate::sync::check;
use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Semaphore;

const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// Bodies that watch over themselves: one at a time, and each has a number.
///
/// Its atomics are none of the checker's business: a body must not be left while it has the
/// attempt in place, because the checker's tasks share one thread.
#[derive(Debug, Default)]
struct Bodies {
    live: AtomicUsize,
    started: AtomicU32,
}

struct Live<'a>(&'a AtomicUsize);

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Bodies {
    /// Returns the number of this run, after others had their turn.
    async fn run(&self) -> u32 {
        assert_eq!(self.live.fetch_add(1, SeqCst), 0, "two bodies run at once");
        let _live = Live(&self.live);
        let number = self.started.fetch_add(1, SeqCst) + 1;
        yield_now().await;
        number
    }

    fn started(&self) -> u32 {
        self.started.load(SeqCst)
    }
}

fn clock() -> (Arc<Manual>, Clock) {
    let manual = Arc::new(Manual::new());
    (Arc::clone(&manual), Clock::manual(manual))
}

fn memory(clock: &Clock) -> MemoryStore {
    MemoryStore::with(MemoryOptions::new().clock(clock.clone()))
}

fn instance(store: impl Store, clock: &Clock) -> Idempotency {
    let config = Config::new().with_mode(Mode::Strong).with_wait(FOR_EVER / 2);
    Idempotency::builder().store(store).clock(clock.clone()).config(config).build().unwrap()
}

type Answer = Result<u32, Error>;

fn call(idem: &Idempotency, bodies: &Arc<Bodies>) -> JoinHandle<Answer> {
    let (idem, bodies) = (idem.clone(), Arc::clone(bodies));
    spawn(async move { idem.operation("o").key(1).run(async { Ok(bodies.run().await) }).await })
}

fn record_key(idem: &Idempotency) -> RecordKey {
    idem.operation("o").key(1).record_key().unwrap()
}

/// Nothing of a call is left when all of them have ended.
fn assert_nothing_left(idem: &Idempotency) {
    assert_eq!(block_on(idem.shutdown(FOR_EVER)), Drained::All);
    assert_eq!(idem.in_flight(), 0, "a lease is left");
    assert_eq!(idem.engine().flights.len(), 0, "a flight is left");
}

/// The store holds nobody's right to run at the end.
fn assert_nothing_held(remote: &Remote, key: &RecordKey) -> Option<State> {
    let state = block_on(remote.at_rest(key)).map(|record| record.head.state);
    assert_ne!(state, Some(State::Processing), "a grant is left");
    state
}

#[test]
fn callers_in_one_process_share_one_run() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> = (0..3).map(|_| call(&idem, &bodies)).collect();
        for call in calls {
            assert_eq!(block_on(call).unwrap().unwrap(), 1);
        }
        assert_eq!(bodies.started(), 1);
        assert_nothing_left(&idem);
        assert_eq!(assert_nothing_held(&remote, &record_key(&idem)), Some(State::Succeeded));
    });
}

#[test]
fn callers_of_a_local_store_share_one_run() {
    check::many(|| {
        let (_, clock) = clock();
        let idem = instance(memory(&clock), &clock);
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> = (0..3).map(|_| call(&idem, &bodies)).collect();
        for call in calls {
            assert_eq!(block_on(call).unwrap().unwrap(), 1);
        }
        assert_nothing_left(&idem);
    });
}

#[test]
fn callers_in_two_processes_share_one_run() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let processes = [instance(remote.clone(), &clock), instance(remote.clone(), &clock)];
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> =
            [0, 1, 0, 1].into_iter().map(|process| call(&processes[process], &bodies)).collect();
        for call in calls {
            assert_eq!(block_on(call).unwrap().unwrap(), 1);
        }
        processes.iter().for_each(assert_nothing_left);
        assert_nothing_held(&remote, &record_key(&processes[0]));
    });
}

#[test]
fn callers_that_go_away_leave_the_key_to_those_who_stay() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let stays = call(&idem, &bodies);
        let leaves = call(&idem, &bodies);
        let stays_too = call(&idem, &bodies);
        for _ in 0..thread_rng().gen_range(0..16) {
            shuttle::thread::yield_now();
        }
        leaves.abort();
        let answer = block_on(stays).unwrap().unwrap();
        assert_eq!(block_on(stays_too).unwrap().unwrap(), answer);
        if let Ok(own) = block_on(leaves) {
            assert_eq!(own.unwrap(), answer);
        }
        assert_nothing_left(&idem);
        assert_eq!(assert_nothing_held(&remote, &record_key(&idem)), Some(State::Succeeded));
    });
}

/// Bodies that are dropped are failed attempts: who has waited for two of them does not run.
#[test]
fn callers_that_go_away_one_after_the_other_leave_nobody_waiting() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let stay = [call(&idem, &bodies), call(&idem, &bodies)];
        let leave = [call(&idem, &bodies), call(&idem, &bodies)];
        for leaving in &leave {
            for _ in 0..thread_rng().gen_range(0..8) {
                shuttle::thread::yield_now();
            }
            leaving.abort();
        }
        let mut answers = Vec::new();
        for stays in stay {
            match block_on(stays).unwrap() {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InProgress);
                    assert!(bodies.started() > 0, "nothing failed that it could have waited for");
                }
            }
        }
        for left in leave {
            answers.extend(block_on(left).ok().map(Result::unwrap));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert_nothing_left(&idem);
        assert_nothing_held(&remote, &record_key(&idem));
    });
}

/// The end of a call whose body never succeeds.
#[derive(Debug)]
enum Failed {
    Body,
    Refused(ErrorKind),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Refused(error.kind())
    }
}

/// Nobody hangs behind bodies that fail, and whoever does not run has waited for two of them.
#[test]
fn callers_of_a_body_that_fails_all_end() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        for idem in [instance(remote.clone(), &clock), instance(memory(&clock), &clock)] {
            let bodies = Arc::new(Bodies::default());
            let calls: Vec<_> = (0..4)
                .map(|_| {
                    let (idem, bodies) = (idem.clone(), Arc::clone(&bodies));
                    spawn(async move {
                        let body = async {
                            bodies.run().await;
                            Err::<u32, _>(Failed::Body)
                        };
                        idem.operation("o").key(1).run(body).await
                    })
                })
                .collect();
            let mut refused = 0;
            for call in calls {
                if let Err(Failed::Refused(kind)) = block_on(call).unwrap() {
                    assert_eq!(kind, ErrorKind::InProgress);
                    refused += 1;
                }
            }
            assert_eq!(bodies.started() + refused, 4);
            assert!(bodies.started() >= 2, "one was refused after {} runs", bodies.started());
            assert_nothing_left(&idem);
        }
    });
}

#[test]
fn nothing_is_left_when_every_caller_goes_away() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let calls = [call(&idem, &bodies), call(&idem, &bodies)];
        for call in &calls {
            for _ in 0..thread_rng().gen_range(0..6) {
                shuttle::thread::yield_now();
            }
            call.abort();
        }
        calls.into_iter().for_each(|call| drop(block_on(call)));
        assert_nothing_left(&idem);
        assert_nothing_held(&remote, &record_key(&idem));
    });
}

#[test]
fn callers_that_do_not_wait_are_told_while_the_body_runs() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        // The body ends only after the others have been told.
        let told = Arc::new(Semaphore::new(0));
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let (idem, bodies, told) = (idem.clone(), Arc::clone(&bodies), Arc::clone(&told));
                spawn(async move {
                    let operation = idem.operation("o").key(1).mode(Mode::Reject);
                    let body = async {
                        drop(told.acquire_many(2).await);
                        Ok(bodies.run().await)
                    };
                    let answer: Answer = operation.run(body).await;
                    told.add_permits(1);
                    answer
                })
            })
            .collect();
        let answers: Vec<Answer> = calls.into_iter().map(|call| block_on(call).unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        for error in answers.into_iter().filter_map(Answer::err) {
            assert_eq!(error.kind(), ErrorKind::InProgress);
        }
        assert_nothing_left(&idem);
        assert_nothing_held(&remote, &record_key(&idem));
    });
}

#[test]
fn a_body_that_fails_is_followed_by_the_next() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let processes = [instance(remote.clone(), &clock), instance(remote.clone(), &clock)];
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> = [0, 1, 0]
            .into_iter()
            .map(|process| {
                let (idem, bodies) = (processes[process].clone(), Arc::clone(&bodies));
                spawn(async move {
                    let operation = idem.operation("o").key(1);
                    let fails = Error::new(ErrorKind::Misconfigured, &"o".into());
                    operation
                        .run(async {
                            match bodies.run().await {
                                1 => Err(fails),
                                number => Ok(number),
                            }
                        })
                        .await
                })
            })
            .collect();
        let answers: Vec<Answer> = calls.into_iter().map(|call| block_on(call).unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
        assert!(answers.into_iter().flatten().all(|number| number == 2));
        processes.iter().for_each(assert_nothing_left);
        assert_nothing_held(&remote, &record_key(&processes[0]));
    });
}

/// A call with a payload, which its answer repeats.
fn call_with(
    idem: &Idempotency,
    bodies: &Arc<Bodies>,
    payload: &'static str,
) -> JoinHandle<Result<String, Error>> {
    let (idem, bodies) = (idem.clone(), Arc::clone(bodies));
    spawn(async move {
        let operation = idem.operation("o").key(1).fingerprint(Fingerprint::of(payload));
        let body = async {
            bodies.run().await;
            Ok(payload.to_owned())
        };
        operation.run(body).await
    })
}

#[test]
fn payloads_are_told_apart_while_callers_go_away() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let processes = [instance(remote.clone(), &clock), instance(remote.clone(), &clock)];
        let bodies = Arc::new(Bodies::default());
        let calls = [(0, "a"), (0, "b"), (0, "a"), (1, "a")]
            .map(|(process, payload)| (call_with(&processes[process], &bodies, payload), payload));
        for (call, _) in &calls[..2] {
            for _ in 0..thread_rng().gen_range(0..8) {
                shuttle::thread::yield_now();
            }
            call.abort();
        }
        for (call, payload) in calls {
            match block_on(call) {
                Ok(Ok(answer)) => assert_eq!(answer, payload, "the answer of another payload"),
                Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::Mismatch, "{error:?}"),
                Err(_) => {}
            }
        }
        processes.iter().for_each(assert_nothing_left);
        assert_nothing_held(&remote, &record_key(&processes[0]));
    });
}

/// Runs `job` while time passes in steps of `step`.
fn while_time_passes<T: Send + 'static>(
    manual: &Manual,
    step: Duration,
    job: impl Future<Output = T> + Send + 'static,
) -> T {
    let job = spawn(job);
    while !job.is_finished() {
        manual.advance(step);
        shuttle::thread::yield_now();
    }
    block_on(job).unwrap()
}

/// As [`assert_nothing_held`], when the releases that a shutdown does not wait for have been made.
fn assert_nothing_held_in_the_end(remote: &Remote, key: &RecordKey, manual: &Manual) {
    let (resting, key_of) = (remote.clone(), key.clone());
    // A grant that is never released is one too many steps for the checker.
    let freed = async move {
        let is_held = |state| state == State::Processing;
        while resting.at_rest(&key_of).await.is_some_and(|record| is_held(record.head.state)) {
            yield_now().await;
        }
    };
    while_time_passes(manual, Duration::from_secs(1), freed);
    assert_nothing_held(remote, key);
}

/// As [`assert_nothing_left`]. Nobody knows whether a `begin` without an answer takes effect before
/// a lease has passed.
fn assert_nothing_left_after_a_lease(idem: &Idempotency, manual: &Manual) {
    let stopping = idem.clone();
    let stopping = async move { stopping.shutdown(FOR_EVER).await };
    let drained = while_time_passes(manual, Duration::from_secs(1), stopping);
    assert_eq!(drained, Drained::All);
    assert_nothing_left(idem);
}

#[test]
fn lost_answers_do_not_make_a_body_run_twice() {
    check::many(|| {
        let (manual, clock) = clock();
        let remote = Remote::new(memory(&clock)).losing(thread_rng().gen_range(1..5));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> = (0..2).map(|_| call(&idem, &bodies)).collect();
        // Pauses between two tries end, leases do not.
        let calls = async move {
            for call in calls {
                match call.await.unwrap() {
                    Ok(number) => assert_eq!(number, 1),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::StoreUnavailable),
                }
            }
        };
        while_time_passes(&manual, Duration::from_millis(5), calls);
        assert_nothing_left_after_a_lease(&idem, &manual);
        assert_nothing_held_in_the_end(&remote, &record_key(&idem), &manual);
    });
}

#[test]
fn a_grant_that_comes_late_is_used_in_time_or_given_back() {
    check::many(|| {
        let (manual, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let call = call(&idem, &bodies);
        for _ in 0..2 {
            for _ in 0..thread_rng().gen_range(0..6) {
                shuttle::thread::yield_now();
            }
            manual.advance(Config::new().lease * thread_rng().gen_range(1..5) / 4);
        }
        if thread_rng().r#gen() {
            call.abort();
        }
        match block_on(call) {
            Ok(Ok(number)) => assert_eq!(number, 1),
            Ok(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
                assert_eq!(bodies.started(), 0);
            }
            Err(_) => {}
        }
        assert_nothing_left_after_a_lease(&idem, &manual);
        assert_nothing_held_in_the_end(&remote, &record_key(&idem), &manual);
    });
}

#[test]
fn those_who_wait_go_on_when_the_lease_of_the_one_who_runs_is_lost() {
    check::many(|| {
        let (manual, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        // The first body ends only after the second one.
        let over = Arc::new(Semaphore::new(0));
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let (idem, over) = (idem.clone(), Arc::clone(&over));
                spawn(async move {
                    let attempt = || current().expect("the body has one").attempt();
                    let body = async {
                        match attempt() {
                            1 => drop(over.acquire().await),
                            _ => over.add_permits(1),
                        }
                        Ok(attempt())
                    };
                    let answer: Answer = idem.operation("o").key(1).run(body).await;
                    answer
                })
            })
            .collect();
        let freed = {
            let idem = idem.clone();
            spawn(async move {
                let operation = idem.operation("o").key(1);
                while operation.forget(true).await.unwrap() != Forgotten::Freed {}
            })
        };
        block_on(freed).unwrap();
        let calls = async move {
            let mut answers = Vec::new();
            for call in calls {
                answers.push(call.await.unwrap().map_err(|error| error.kind()));
            }
            answers.sort_unstable_by_key(Result::is_err);
            answers
        };
        // The keeper learns it when it renews.
        let answers = while_time_passes(&manual, Config::new().lease / 100, calls);
        assert_eq!(answers, [Ok(2), Err(ErrorKind::Superseded)]);
        assert_nothing_left_after_a_lease(&idem, &manual);
        assert_nothing_held_in_the_end(&remote, &record_key(&idem), &manual);
    });
}

#[test]
fn a_shutdown_waits_for_what_runs() {
    check::many(|| {
        let (_, clock) = clock();
        let remote = Remote::new(memory(&clock));
        let idem = instance(remote.clone(), &clock);
        let bodies = Arc::new(Bodies::default());
        let calls: Vec<_> = (0..2).map(|_| call(&idem, &bodies)).collect();
        assert_eq!(block_on(idem.shutdown(FOR_EVER)), Drained::All);
        let started = bodies.started();
        for call in calls {
            match block_on(call).unwrap() {
                Ok(number) => assert_eq!(number, 1),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ShuttingDown),
            }
        }
        assert_eq!(bodies.started(), started, "a body started after the shutdown");
        assert_eq!(idem.engine().flights.len(), 0);
    });
}
