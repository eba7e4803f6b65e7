//! Attempts that are completed inside a transaction of somebody else's.

use idempotent_runtime::protocol::{Commit, Completion};
use idempotent_runtime::store::{State, StoreErrorKind, Swapped, Verb};
use idempotent_runtime::testing::Fault;
use idempotent_runtime::{Abandon, Attempt, Begin, Error, ErrorKind, Idempotency, Mode};
use std::time::Duration;
use support::{Bench, both, local, neighbour, remote, until_async, while_time_passes};

async fn fresh(bench: &Bench) -> Attempt {
    match bench.op().begin().await.unwrap() {
        Begin::Fresh(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

/// Makes the swap, as a transaction on the records would.
async fn committed(bench: &Bench, completion: Completion) -> Commit {
    let swap = completion.swap.expect("the instance is not disabled");
    match bench.idem.store().swap(&completion.key, swap).await.unwrap() {
        Swapped::Done | Swapped::DoneWithoutValue => Commit::Stored,
        Swapped::Found(_) => Commit::Superseded,
    }
}

async fn replayed(bench: &Bench) -> String {
    bench.op().run(async { Ok::<_, Error>("ran again".to_owned()) }).await.unwrap()
}

#[tokio::test]
async fn an_answer_that_was_committed_is_replayed() {
    for bench in both() {
        let attempt = fresh(&bench).await;
        let commit = async |completion| committed(&bench, completion).await;
        attempt.complete_with(&"committed", commit).await.unwrap();
        assert_eq!(replayed(&bench).await, "committed");
        bench.at_rest().await;
    }
}

/// Both ways to write the closure, with what it borrows, in a task of its own.
#[tokio::test]
async fn a_completion_can_be_spawned() {
    let bench = local();
    let spawned = tokio::spawn({
        let bench = bench.clone();
        async move {
            let (attempt, borrowed) = (fresh(&bench).await, &bench);
            attempt.complete_with(&1, |it| async move { committed(borrowed, it).await }).await?;
            bench.op().forget(false).await?;
            let attempt = fresh(&bench).await;
            attempt.complete_with(&2, async |it| committed(&bench, it).await).await
        }
    });
    spawned.await.unwrap().unwrap();
    assert_eq!(bench.op().run(async { Ok::<_, Error>(3) }).await.unwrap(), 2);
}

#[tokio::test]
async fn callers_that_wait_get_the_answer_once_it_is_committed() {
    let bench = remote();
    let attempt = fresh(&bench).await;
    let wait = |bench: Bench| tokio::spawn(async move { replayed(&bench).await });
    let waiting = [wait(bench.clone()), wait(neighbour(&bench))];
    // The one in this process waits for the attempt, the other one watches its record.
    bench.store.called(Verb::Watch, 1).await;
    let commit = async |completion| committed(&bench, completion).await;
    attempt.complete_with(&"committed", commit).await.unwrap();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), "committed");
    }
}

#[tokio::test]
async fn a_committed_answer_is_one_although_the_store_does_not_answer_afterwards() {
    let bench = remote();
    let attempt = fresh(&bench).await;
    let commit = async |completion| {
        let committed = committed(&bench, completion).await;
        bench.store.fault_always(Verb::Complete, Fault::Before(StoreErrorKind::Unavailable));
        committed
    };
    attempt.complete_with(&"committed", commit).await.unwrap();
    bench.store.all_up();
    let replayed = while_time_passes(|by| bench.clock.advance(by), replayed(&bench)).await;
    assert_eq!(replayed, "committed");
}

#[tokio::test]
async fn an_attempt_that_lost_its_key_cannot_commit() {
    for bench in both() {
        let attempt = fresh(&bench).await;
        bench.op().forget(true).await.unwrap();
        let commit = async |completion| committed(&bench, completion).await;
        let error = attempt.complete_with(&"late", commit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Superseded);
        assert_eq!(replayed(&bench).await, "ran again");
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_that_took_place_is_found_out() {
    for bench in both() {
        let attempt = fresh(&bench).await;
        let commit = async |completion| {
            committed(&bench, completion).await;
            Commit::Unknown
        };
        attempt.complete_with(&"committed", commit).await.unwrap();
        assert_eq!(replayed(&bench).await, "committed");
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_that_did_not_take_place_frees_the_key_and_cannot_follow() {
    for bench in both() {
        let attempt = fresh(&bench).await;
        let mut handed_out = None;
        let commit = async |completion: Completion| {
            handed_out = Some(completion);
            Commit::Unknown
        };
        let error = attempt.complete_with(&"lost", commit).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::StoreUnavailable, true));
        // The session that was lost goes on, and comes too late.
        assert_eq!(committed(&bench, handed_out.unwrap()).await, Commit::Superseded);
        assert_eq!(replayed(&bench).await, "ran again");
    }
}

/// A commit is not undone by the end of its record.
#[tokio::test]
async fn an_answer_that_expires_while_it_is_committed_is_committed_and_not_written_again() {
    for bench in both() {
        for then_runs in [false, true] {
            let attempt = fresh(&bench).await;
            let commit = async |completion| {
                let committed = committed(&bench, completion).await;
                bench.clock.advance(support::EXPIRE);
                if then_runs {
                    assert_eq!(replayed(&bench).await, "ran again");
                }
                committed
            };
            attempt.complete_with(&"committed", commit).await.unwrap();
            let record = bench.op().get().await.unwrap();
            assert_eq!(record.is_some(), then_runs);
            bench.clock.advance(support::EXPIRE);
        }
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_whose_record_is_gone_is_unknown() {
    for bench in both() {
        let attempt = fresh(&bench).await;
        let commit = async |completion| {
            committed(&bench, completion).await;
            bench.clock.advance(support::EXPIRE);
            Commit::Unknown
        };
        let error = attempt.complete_with(&"committed", commit).await.unwrap_err();
        assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, true));
    }
}

#[tokio::test]
async fn a_commit_that_cannot_be_found_out_is_unknown_and_the_background_goes_on() {
    let bench = remote();
    let attempt = fresh(&bench).await;
    let commit = async |completion| {
        committed(&bench, completion).await;
        bench.store.all_down();
        Commit::Unknown
    };
    let error = attempt.complete_with(&"committed", commit).await.unwrap_err();
    assert_eq!((error.kind(), error.body_ran()), (ErrorKind::Indeterminate, true));
    bench.store.all_up();
    until_async(|| async {
        bench.clock.advance(Duration::from_millis(100));
        bench.idem.in_flight() == 0
    })
    .await;
    assert_eq!(replayed(&bench).await, "committed");
}

#[tokio::test]
async fn a_caller_that_goes_away_while_it_commits_abandons_the_attempt() {
    let bench = local();
    let op = bench.op().abandon(Abandon::Block);
    let Begin::Fresh(attempt) = op.begin().await.unwrap() else { panic!("not granted") };
    let never = attempt.complete_with(&"never", async |_| std::future::pending().await);
    assert!(support::poll_at_most(3, never).await.is_none());
    let record = op.get().await.unwrap().unwrap();
    assert_eq!(record.head.state, State::Abandoned);
}

#[tokio::test]
async fn a_window_is_not_completed_and_a_disabled_instance_hands_out_no_record() {
    let bench = local();
    let window = bench.op().mode(Mode::Window);
    let Begin::Fresh(attempt) = window.begin().await.unwrap() else { panic!("not granted") };
    let error = attempt.complete_with(&1, async |_| Commit::Stored).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);

    let off = Idempotency::builder().disabled().build().unwrap();
    let Begin::Fresh(attempt) = off.operation("o").key(1).begin().await.unwrap() else {
        panic!("not granted")
    };
    let commit = async |completion: Completion| match completion.swap {
        None => Commit::Stored,
        Some(_) => Commit::Superseded,
    };
    attempt.complete_with(&1, commit).await.unwrap();
}
