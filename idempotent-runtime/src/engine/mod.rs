//! What happens between a call and its answer.
//!
//! The files follow a call: it is prepared ([`call`]), meets others of its key ([`slots`]), asks the
//! store ([`acquire`]), runs its body under a lease ([`running`], [`lease`], [`keeper`]), and its
//! answer is recorded ([`settle`]). [`run`] ties them together, [`detached`] for bodies that outlive
//! their callers.

mod acquire;
mod admission;
mod ask;
mod awaited;
mod backoff;
mod batch;
mod begin;
mod call;
mod calls;
mod core;
mod detached;
mod keeper;
mod lease;
mod place;
mod run;
mod running;
mod settle;
mod slots;
mod values;

pub(crate) use self::acquire::{Acquired, acquire, acquire_now};
pub(crate) use self::awaited::MOST_FAILED;
pub(crate) use self::batch::run_batch;
pub(crate) use self::call::{Call, InstanceRef, Prepared, Underway, record_key};
pub(crate) use self::core::Core;
pub(crate) use self::detached::run_detached;
pub(crate) use self::lease::Lease;
pub(crate) use self::run::{keep, over_limit, refuse, run};
pub(crate) use self::running::Running;
pub(crate) use self::settle::{Ended, Verb};
pub(crate) use self::values::{Kind, Values};

#[cfg(all(test, shuttle))]
mod shuttle_tests;
