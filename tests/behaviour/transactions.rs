//! Calls in transactions of a database that does not answer.

use idempotent_runtime::key::RecordKey;
use idempotent_runtime::protocol::{
    Claimed, CommitError, Committed, Loan, OpenTransaction, TransactionClaim, TransactionSource,
};
use idempotent_runtime::store::{Store, StoreError, Swap, Swapped, Token};
use idempotent_runtime::testing::ManualClock;
use idempotent_runtime::{AnswerPolicy, Error, ErrorKind, Idempotency};
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
