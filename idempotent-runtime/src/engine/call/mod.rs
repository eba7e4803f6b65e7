//! The call: prepared, run or answered, and its own answer recorded.

mod batch;
mod body;
mod detachable;
mod detached;
mod prepare;
mod refusal;
mod run;
pub(crate) mod scoped;
mod underway;
mod whole_call;

pub(crate) use self::batch::run_batch;
pub use self::detachable::{Detachable, detachable};
pub(crate) use self::detached::{Detached, Moves, Prepare, run_detached};
pub(crate) use self::prepare::{Call, prepare, record_key};
pub(crate) use self::run::{gone, keep, warn_disabled};
pub(crate) use self::underway::Underway;
pub(crate) use self::whole_call::{Run, run};
