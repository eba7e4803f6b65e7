//! Many callers at once, on threads of their own.

use super::Subject;
use super::bench::{Bench, FREE, LEASE, RETENTION, answered, asking, own_key, value};
use crate::key::RecordKey;
use crate::protocol::{Begun, Failure, Forgotten, IfGone, StoreExt as _, Updated};
use crate::store::{State, Store};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const CROWD: usize = 16;
const ROUNDS: usize = 20;
/// The time after which a wake-up that should come at once counts as missing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs one task a thread, all released at the same moment. Their timers and sockets stay with the
/// runtime that runs the case.
async fn at_once<F>(tasks: Vec<F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let start = Arc::new(Barrier::new(tasks.len()));
    let running: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let (done, output) = oneshot::channel();
            let (start, runtime) = (Arc::clone(&start), Handle::current());
            thread::spawn(move || {
                start.wait();
                // Nobody waits for it once the case has failed.
                let _ = done.send(runtime.block_on(task));
            });
            output
        })
        .collect();
    let mut outputs = Vec::new();
    for output in running {
        outputs.push(output.await.unwrap_or_else(|_| panic!("a call panicked")));
    }
    outputs
}

async fn begin(store: Arc<dyn Store>, key: RecordKey) -> Begun {
    answered(store.begin(&key, &asking()).await)
}

fn count_granted(answers: &[Begun]) -> usize {
    let granted = answers.iter().filter(|answer| matches!(answer, Begun::Fresh(_))).count();
    let told = answers.iter().filter(|answer| matches!(answer, Begun::InFlight { .. })).count();
    assert_eq!(granted + told, answers.len(), "{answers:?}");
    granted
}

/// Of all who begin one key at once, exactly one is granted.
pub async fn one_of_many_begins_is_granted(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    for _ in 0..ROUNDS {
        let key = own_key("crowd");
        let tasks = (0..CROWD).map(|_| begin(Arc::clone(&bench.store), key.clone())).collect();
        assert_eq!(count_granted(&at_once(tasks).await), 1);
    }
}

/// Of all who find a lease that is over, or a failed attempt, exactly one takes over.
pub async fn one_of_many_takes_over(subject: &dyn Subject) {
    for round in 0..ROUNDS {
        let bench = Bench::new(subject);
        let lost = bench.granted(&asking()).await;
        if round % 2 == 0 {
            bench.step(LEASE).await;
        } else {
            bench.fail(&lost, FREE).await;
        }
        let tasks =
            (0..CROWD).map(|_| begin(Arc::clone(&bench.store), bench.key.clone())).collect();
        assert_eq!(count_granted(&at_once(tasks).await), 1);
        let record = bench.get().await.unwrap_or_else(|| panic!("the record is gone"));
        assert_eq!(record.head.attempt.number, 2);
    }
}

/// An attempt that is completed, failed and taken over at once ends once: one verb wins, and the
/// others are told.
pub async fn one_of_many_verbs_ends_the_attempt(subject: &dyn Subject) {
    for round in 0..ROUNDS {
        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        bench.step(LEASE).await;
        let tasks = (0..3 * CROWD / 2).map(|index| {
            let (store, key) = (Arc::clone(&bench.store), bench.key.clone());
            async move {
                match index % 3 {
                    0 => {
                        let answer = value(b"answer");
                        let done = store
                            .complete(&key, &attempt, answer, RETENTION, IfGone::Rewrite)
                            .await;
                        (answered(done) == Updated::Done).then_some(State::Succeeded)
                    }
                    1 => {
                        let failure = Failure::Final(None);
                        let done = store.fail(&key, &attempt, failure, RETENTION).await;
                        (answered(done) == Updated::Done).then_some(State::FailedFinal)
                    }
                    _ => {
                        let begun = begin(store, key).await;
                        matches!(begun, Begun::Fresh(_)).then_some(State::Processing)
                    }
                }
            }
        });
        let wins: Vec<State> = at_once(tasks.collect()).await.into_iter().flatten().collect();
        let state = bench.get().await.map(|record| record.head.state);
        let all_won_the_same = wins.iter().all(|won| Some(*won) == state);
        assert!(!wins.is_empty() && all_won_the_same, "round {round}: {wins:?} ended as {state:?}");
    }
}

/// Callers of different keys all get what they asked for.
pub async fn keys_do_not_disturb_each_other(subject: &dyn Subject) {
    let bench = Bench::new(subject);
    let tasks = (0..CROWD).map(|_| {
        let store = Arc::clone(&bench.store);
        async move {
            for _ in 0..ROUNDS {
                let key = own_key("apart");
                let Begun::Fresh(attempt) = answered(store.begin(&key, &asking()).await) else {
                    return false;
                };
                let answer = value(key.as_str().as_bytes());
                let done = store
                    .complete(&key, &attempt, answer.clone(), RETENTION, IfGone::Rewrite)
                    .await;
                let replay = answered(store.begin(&key, &asking()).await);
                let expected = Begun::Succeeded { number: 1, value: answer };
                if answered(done) != Updated::Done || replay != expected {
                    return false;
                }
            }
            true
        }
    });
    assert!(at_once(tasks.collect()).await.into_iter().all(|fine| fine));
}

/// A call that is dropped on its way took effect or not, and the next one with the same token
/// finds out which.
pub async fn dropped_calls_leave_one_outcome(subject: &dyn Subject) {
    for polls in 0..4 {
        let bench = Bench::new(subject);
        let request = asking();
        drop_after(polls, bench.store.begin(&bench.key, &request)).await;
        let attempt = bench.granted(&request).await;
        assert_eq!(attempt.number, 1);
        let dropped = bench.store.complete(
            &bench.key,
            &attempt,
            value(b"answer"),
            RETENTION,
            IfGone::Rewrite,
        );
        drop_after(polls, dropped).await;
        assert_eq!(bench.complete(&attempt, b"answer").await, Updated::Done);
        let replay = Begun::Succeeded { number: 1, value: value(b"answer") };
        assert_eq!(bench.begin(&asking()).await, replay);
    }
}

/// Polls a future so often, and drops it.
async fn drop_after<T>(polls: usize, future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ready = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if ready {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The watch of a key wakes when the attempt ends, in whichever way.
pub async fn watch_wakes_when_the_attempt_ends(subject: &dyn Subject) {
    if !subject.wakes() {
        return;
    }
    for way in 0..5 {
        let bench = Bench::new(subject);
        let attempt = bench.granted(&asking()).await;
        let watches = [
            answered(bench.store.watch(&bench.key).await),
            answered(bench.store.watch(&bench.key).await),
        ];
        let ended = match way {
            0 => bench.complete(&attempt, b"answer").await == Updated::Done,
            1 => bench.fail(&attempt, FREE).await == Updated::Done,
            2 => bench.abandon(&attempt).await == Updated::Done,
            3 => bench.release(&attempt).await == Updated::Done,
            _ => bench.forget(true).await == Forgotten::Freed,
        };
        assert!(ended, "way {way}");
        for watch in watches {
            let woken = tokio::time::timeout(PATIENCE, watch).await;
            assert!(woken.is_ok(), "nobody was woken (way {way})");
        }
    }
}
