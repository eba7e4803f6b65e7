//! Calls inside a database transaction: the record and the effects of the body are committed
//! together.
//!
//! The key is held by the transaction and not by a lease. Nothing of a running attempt is visible to
//! others, nothing is renewed, and a transaction that does not come to its end leaves no trace. So
//! the record of a granted attempt need not be written at all before its end: [`Claimed::Granted`]
//! says which record must be there when the end is written in its place.

use super::request::{BeginRequest, Begun};
use crate::key::RecordKey;
use crate::store::{AttemptId, Record, Seen, Store, StoreError, Swap, Swapped, Token};
use std::future::Future;
use std::time::Duration;

/// A database transaction that is open, on the database that has the records.
///
/// # Implementing
///
/// An implementation
///
/// * MUST hold the key from a [granted](Claimed::Granted) claim until the transaction ends, against
///   every other transaction that claims it, in whichever process;
/// * MUST look at the record after it holds the key, so that it sees what the holder before has
///   committed, where the isolation of the transaction allows;
/// * MUST decide about the record as [`table`](super::table) does;
/// * MUST replace a record that has expired since the claim as if it were the one that was
///   [seen](Claimed::Granted): no other attempt can have begun while the key is held;
/// * MUST NOT let a claim that is not granted leave the transaction unusable.
pub trait OpenTransaction: Send {
    /// `true` if this transaction keeps every other attempt of the store from beginning and ending,
    /// whatever its key. Calls in the body that are not part of the transaction are then refused as
    /// reentrant: they would wait for it, and it for them.
    fn locks_store(&self) -> bool {
        false
    }

    /// Claims a key for the rest of the transaction.
    fn claim(
        &mut self,
        claim: TransactionClaim<'_>,
    ) -> impl Future<Output = Result<Claimed, StoreError>> + Send;

    /// Undoes everything since the claim, and still holds the key. Called only if the claim asked
    /// for it with [`undoable`](TransactionClaim::undoable).
    fn undo(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Replaces the record on a condition, as part of the transaction. The effects of the body cannot
    /// be [undone](Self::undo) afterwards; in a transaction of the caller's they are undone already if
    /// the record was not replaced.
    fn swap(
        &mut self,
        key: &RecordKey,
        swap: Swap,
    ) -> impl Future<Output = Result<Swapped, StoreError>> + Send;
}

/// A claim to a key, for the rest of a transaction.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TransactionClaim<'a> {
    /// The store of the instance, which has the same records.
    pub store: &'a dyn Store,
    /// The key of the record.
    pub key: &'a RecordKey,
    /// The request to begin.
    pub request: BeginRequest,
    /// The time to wait for another transaction that holds the key.
    pub wait: Duration,
    /// The longest time that the transaction may take, if the database can be told.
    pub max_run: Duration,
    /// `true` if the effects of the body may have to be [undone](OpenTransaction::undo) while the
    /// key is held.
    pub undoable: bool,
}

/// The answer to a [`TransactionClaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, one a call")]
pub enum Claimed {
    /// The body may run as this attempt.
    Granted {
        /// The attempt.
        attempt: AttemptId,
        /// The record that must be there when its end is written in the transaction, unless none is
        /// there any more.
        seen: Seen,
        /// The record that is there if the transaction is rolled back.
        before: Seen,
    },
    /// The record has an answer, which is not a grant.
    Answered(Begun),
    /// Another transaction holds the key.
    Held,
    /// The transaction cannot see what the holder before has committed: another one can.
    Outdated,
}

/// A database that begins transactions for calls, and commits them.
///
/// The futures that begin, commit and roll back are never dropped halfway: if the caller of an operation
/// goes away, they are finished in a task.
pub trait TransactionSource: Clone + Send + Sync + 'static {
    /// A transaction of this database. Dropped, it is rolled back.
    type Transaction: OpenTransaction + Send + 'static;
    /// The transaction as the body of a call gets it. Dropped, it goes back.
    type Lent: Send;

    /// Begins a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, StoreError>> + Send;

    /// Begins a transaction whose first use is this [claim](OpenTransaction::claim). It may return
    /// before the database has answered: the claim then fails if the transaction has not begun. Or it
    /// may make the claim, and keep the answer for when it is asked for.
    fn begin_for_claim(
        &self,
        claim: TransactionClaim<'_>,
    ) -> impl Future<Output = Result<Self::Transaction, StoreError>> + Send {
        let _ = claim;
        self.begin()
    }

    /// Lends the transaction to a body.
    fn lend(&self, transaction: Self::Transaction) -> (Self::Lent, Loan<Self::Transaction>);

    /// Commits.
    fn commit(
        &self,
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Rolls back.
    fn roll_back(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Finds out whether a commit that was not answered took place: waits until the lost
    /// transaction is over, and looks for a record of this token.
    fn find_out(
        &self,
        store: &dyn Store,
        key: &RecordKey,
        token: Token,
        patience: Duration,
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send;
}

/// The place to which a transaction goes back when its body is done with it.
#[derive(Debug)]
pub struct Loan<T>(std::sync::Arc<std::sync::Mutex<Option<T>>>);

impl<T> Loan<T> {
    /// A place, and the same place for the one who brings the transaction back.
    pub fn new() -> (Self, Self) {
        let place = std::sync::Arc::default();
        (Self(std::sync::Arc::clone(&place)), Self(place))
    }

    /// Brings the transaction back.
    pub fn give_back(&self, transaction: T) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(transaction);
    }

    /// Takes the transaction, if it is back.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}

/// The reason for which a transaction was not committed.
#[derive(Debug)]
pub enum CommitError {
    /// Nothing was committed. The whole call can be tried again: the transaction lost a race.
    LostRace(StoreError),
    /// Nothing was committed.
    Failed(StoreError),
    /// No answer came.
    Unknown(StoreError),
}

/// The fate of a transaction whose commit was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It was committed.
    Yes,
    /// It was not, and will not be.
    No,
}

impl Committed {
    /// The fate of the attempt with this token, by the record that is there once its transaction is
    /// over.
    pub fn from_record(record: Option<&Record>, token: Token) -> Self {
        match record {
            Some(record) if record.head.attempt.token == token => Self::Yes,
            _ => Self::No,
        }
    }
}
