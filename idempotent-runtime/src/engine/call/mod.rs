//! The call: prepared, run or answered, and its own answer recorded.

mod batch;
mod body;
mod detachable;
mod detached;
mod finish;
mod prepare;
mod refusal;
mod run;
pub(crate) mod scoped;
mod transacted;
mod underway;
mod uninterrupted;
mod unrecorded;
mod whole_call;
mod within;

pub(crate) use self::batch::run_batch;
pub(crate) use self::body::Body;
pub use self::detachable::{Detachable, detachable};
pub(crate) use self::detached::{Detached, Moves, Prepare, run_detached};
pub(crate) use self::prepare::{Call, prepare, prepare_within, record_key};
pub(crate) use self::run::{gone, keep, warn_disabled};
pub(crate) use self::transacted::run_transacted;
pub(crate) use self::underway::Underway;
pub(crate) use self::unrecorded::run_unrecorded;
pub(crate) use self::whole_call::{Run, run};
pub(crate) use self::within::{Within, claim_within};
