//! Calls in transactions of a database that does not answer, or in which others come first.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    Begun, Claimed, CommitError, Committed, Loan, OpenTransaction, TransactionClaim,
    TransactionSource,
};
use idempotent_runtime::store::{Seen, Store, StoreError, StoreErrorKind, Swap, Swapped, Token};
use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{AnswerPolicy, Error, ErrorKind, Idempotency, Mode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;
use support::until;

/// A database that never begins a transaction.
#[derive(Clone)]
struct Silent;

/// A transaction that there cannot be.
enum Never {}

impl OpenTransaction for Never {
    async fn claim(&mut self, _: TransactionClaim<'_>) -> Result<Claimed, StoreError> {
        match *self {}
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        match *self {}
    }

    async fn swap(&mut self, _: &RecordKey, _: Swap) -> Result<Swapped, StoreError> {
        match *self {}
    }
}

impl TransactionSource for Silent {
    type Transaction = Never;
    type Lent = Never;

    async fn begin(&self) -> Result<Never, StoreError> {
        std::future::pending().await
    }

    fn lend(&self, transaction: Never) -> (Never, Loan<Never>) {
        match transaction {}
    }

    async fn commit(&self, transaction: Never) -> Result<(), CommitError> {
        match transaction {}
    }

    async fn roll_back(&self, transaction: Never) {
        match transaction {}
    }

    async fn find_out(
        &self,
        _: &dyn Store,
        _: &RecordKey,
        _: Token,
        _: Duration,
    ) -> Result<Committed, StoreError> {
        unreachable!("nothing was committed")
    }
}

#[tokio::test]
async fn a_transaction_that_does_not_begin_is_given_up() {
    let clock = ManualClock::new();
    let idem = Idempotency::builder().clock(clock.clock()).build().unwrap();
    let call = tokio::spawn({
        let idem = idem.clone();
        async move {
            let answers = AnswerPolicy::<u8, Error>::kept();
            let operation = idem.operation("test.op").key("k");
            let body = |never: Never| async move { match never {} };
            operation.run_in_transaction(answers, Silent, |_| false, body).await
        }
    });
    until(|| {
        clock.advance(Duration::from_secs(1));
        call.is_finished()
    })
    .await;
    let error = call.await.unwrap().map(|outcome| outcome.value).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable, "{error}");
    assert!(!error.body_ran(), "{error}");
    until(|| idem.in_flight() == 0).await;
}

/// A database whose transactions lose so many races. Then the winner's record is there.
#[derive(Clone)]
struct Racing {
    losses: u32,
    begun: Arc<AtomicU32>,
}

/// A transaction that is granted the key, unless it is the winner who has it.
struct Racer {
    is_late: bool,
}

impl OpenTransaction for Racer {
    async fn claim(&mut self, claim: TransactionClaim<'_>) -> Result<Claimed, StoreError> {
        if self.is_late {
            return Ok(Claimed::Answered(Begun::Succeeded { number: 1, value: None }));
        }
        let attempt = claim.request.first_attempt();
        Ok(Claimed::Granted { attempt, seen: Seen::Nothing, before: Seen::Nothing })
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn swap(&mut self, _: &RecordKey, _: Swap) -> Result<Swapped, StoreError> {
        Ok(Swapped::Done)
    }
}

/// A transaction in the hands of a body.
struct Lent(Option<Racer>, Loan<Racer>);

impl Drop for Lent {
    fn drop(&mut self) {
        self.1.give_back(self.0.take().unwrap());
    }
}

impl TransactionSource for Racing {
    type Transaction = Racer;
    type Lent = Lent;

    async fn begin(&self) -> Result<Racer, StoreError> {
        Ok(Racer { is_late: self.begun.fetch_add(1, SeqCst) >= self.losses })
    }

    fn lend(&self, racer: Racer) -> (Lent, Loan<Racer>) {
        let (loan, place) = Loan::new();
        (Lent(Some(racer), place), loan)
    }

    async fn commit(&self, _: Racer) -> Result<(), CommitError> {
        let error = StoreError::new(StoreErrorKind::Contended, "another one came first");
        Err(CommitError::LostRace(error))
    }

    async fn roll_back(&self, _: Racer) {}

    async fn find_out(
        &self,
        _: &dyn Store,
        _: &RecordKey,
        _: Token,
        _: Duration,
    ) -> Result<Committed, StoreError> {
        unreachable!("every commit is answered")
    }
}

#[tokio::test]
async fn a_call_that_is_refused_after_a_lost_race_says_that_the_body_ran() {
    let cases = [
        (Mode::Reject, 1, ErrorKind::Duplicate, 1),
        (Mode::Strong, 1, ErrorKind::ResultUnavailable, 1),
        (Mode::Reject, u32::MAX, ErrorKind::InProgress, 12),
        (Mode::Reject, 0, ErrorKind::Duplicate, 0),
    ];
    for (mode, losses, kind, runs) in cases {
        let clock = ManualClock::new();
        let idem = Idempotency::builder().clock(clock.clock()).build().unwrap();
        let bodies = Arc::new(AtomicU32::new(0));
        let call = tokio::spawn({
            let bodies = Arc::clone(&bodies);
            async move {
                let answers = AnswerPolicy::<u8, Error>::kept();
                let operation = idem.operation("test.op").key("k").mode(mode);
                let source = Racing { losses, begun: Arc::default() };
                let body = |lent: Lent| {
                    bodies.fetch_add(1, SeqCst);
                    async move {
                        drop(lent);
                        Ok(1)
                    }
                };
                operation.run_in_transaction(answers, source, |_| false, body).await
            }
        });
        until(|| {
            clock.advance(Duration::from_millis(100));
            call.is_finished()
        })
        .await;
        let error = call.await.unwrap().map(|outcome| outcome.value).unwrap_err();
        assert_eq!((error.kind(), bodies.load(SeqCst)), (kind, runs), "{error}");
        assert_eq!(error.body_ran(), runs > 0, "{error}");
    }
}
