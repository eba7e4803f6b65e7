//! A transaction in the hands of a body.

use super::{ClaimState, TransactionPool};
use idempotent_runtime::protocol::Loan;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A transaction, as the body of [`transact`](super::TransactExt::transact) gets it: by value, and
/// used as the connection that it is.
///
/// It goes back when it is dropped, and is then committed together with the record. One that is kept
/// or forgotten is an error, and is rolled back.
///
/// With the feature `axum` it is an extractor too: a handler behind a layer with
/// [`Transactions`](super::Transactions) takes the transaction of its request.
pub struct Lent<P: TransactionPool> {
    /// There until it is dropped.
    held: Option<(P::Transaction, ClaimState)>,
    loan: Loan<super::options::Open<P>>,
}

impl<P: TransactionPool> Lent<P> {
    pub(super) fn new(
        transaction: P::Transaction,
        state: ClaimState,
        loan: Loan<super::options::Open<P>>,
    ) -> Self {
        Self { held: Some((transaction, state)), loan }
    }
}

impl<P: TransactionPool> Deref for Lent<P> {
    type Target = P::Connection;

    fn deref(&self) -> &P::Connection {
        match &self.held {
            Some((transaction, _)) => P::connection(transaction),
            None => unreachable!("it is taken when it is dropped"),
        }
    }
}

impl<P: TransactionPool> DerefMut for Lent<P> {
    fn deref_mut(&mut self) -> &mut P::Connection {
        match &mut self.held {
            Some((transaction, _)) => P::connection_mut(transaction),
            None => unreachable!("it is taken when it is dropped"),
        }
    }
}

impl<P: TransactionPool> Drop for Lent<P> {
    fn drop(&mut self) {
        if let Some((transaction, state)) = self.held.take() {
            self.loan.give_back(super::options::Open { transaction, state });
        }
    }
}

impl<P: TransactionPool> fmt::Debug for Lent<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lent").finish_non_exhaustive()
    }
}
