//! What happens between a call and its answer.

mod arc_ref;
mod attempt;
mod call;
mod flight;
mod resend;

pub(crate) use self::arc_ref::ArcRef;
pub(crate) use self::attempt::{AttemptGuard, End, Instance, Kind, Values};
pub use self::attempt::{Current, current};
pub(crate) use self::call::{
    Call, Detached, Moves, Prepare, Run, Underway, gone, keep, prepare, record_key, run, run_batch,
    run_detached, scoped, warn_disabled,
};
pub use self::call::{Detachable, detachable};
pub(crate) use self::flight::{
    Acquired, Engine, FirstStep, MOST_FAILED, NotGranted, Prepared, acquire, acquire_now,
};
pub(crate) use self::resend::Resend;

#[cfg(all(test, shuttle))]
mod shuttle_tests;
