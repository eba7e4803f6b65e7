//! The rules by which callers of one key keep out of each other's way, on any store.
//!
//! [`table`] is the state table: pure functions that say what each verb answers for each record,
//! and what the record becomes. A [`Request`] is a verb with all that it carries. An [`Exchange`]
//! brings it about in a store that can do no more than compare and swap: it asks the table, swaps,
//! and looks again when it lost. Where its sender knows the record (none at first, its own
//! afterwards) that is the first guess, so beginning, completing and replaying are one message each.
//!
//! [`execute`] drives an exchange on anything that can [`load`](Connection::load) and
//! [`swap`](Connection::swap): a store, or a transaction of somebody else's in which records lie.
//! [`StoreExt`] has a method for each verb.

mod connection;
mod exchange;
mod request;
mod store_ext;
pub mod table;

pub use connection::{Connection, execute};
pub use exchange::{Action, Exchange};
pub use request::{
    BeginRequest, Begun, Binding, Expected, Failure, Forget, Forgotten, IfGone, Progress, Request,
    Resolution, Resolve, Resolved, Update, Updated,
};
pub use store_ext::StoreExt;
