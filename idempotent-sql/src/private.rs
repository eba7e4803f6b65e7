//! Types for generated code. Not part of the public interface.

use crate::client::SqlConnection;
use crate::transact::{ClaimState, Claims};
use idempotent_runtime::protocol::OpenTransaction;

/// The memory of a call in a transaction of its caller.
#[derive(Debug, Default)]
pub struct CallersTransaction(ClaimState);

impl CallersTransaction {
    /// A call that has claimed nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The transaction on this connection.
    pub fn on<'a, C: SqlConnection>(
        &'a mut self,
        connection: &'a mut C,
    ) -> impl OpenTransaction + 'a {
        Claims { connection, state: &mut self.0 }
    }
}
