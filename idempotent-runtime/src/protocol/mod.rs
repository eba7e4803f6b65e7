//! The protocol between the callers of one key, on any store.
//!
//! [`table`] is the state table: pure functions from a verb and a record to an answer and the next
//! record. A [`Request`] is a verb with its arguments. An [`Exchange`] executes it on a store that
//! has only compare-and-swap: it asks the table, swaps, and starts over with the current record if
//! it lost a race. Its first guess is the record that the sender knows (none at first, its own
//! afterwards), so beginning, completing and replaying take one message each.
//!
//! [`execute`] drives an exchange on anything that can [`load`](Connection::load) and
//! [`swap`](Connection::swap): a store, or a borrowed transaction of the database that has the
//! records. [`StoreExt`] has a method for each verb.

mod commit;
mod connection;
mod exchange;
mod request;
mod store_ext;
pub mod table;
mod transaction;

pub use commit::{Commit, Completion};
pub use connection::{Connection, execute};
pub use exchange::{Action, Exchange};
pub use request::{
    BeginRequest, Begun, Binding, Expected, Failure, Forget, Forgotten, IfGone, Progress, Request,
    Resolution, Resolve, Resolved, Update, Updated,
};
pub use store_ext::StoreExt;
pub(crate) use store_ext::execute_owned;
pub use transaction::{
    Claimed, CommitError, Committed, Loan, OpenTransaction, TransactionClaim, TransactionSource,
};
