//! What happens between a call and its answer.
//!
//! The files follow a call: it is prepared ([`call`]), meets others of its key ([`slots`]), asks
//! the store ([`acquire`]), runs its body under a lease ([`body`], [`running`], [`lease`],
//! [`keeper`]), and its answer is recorded ([`settle`]), or its key released ([`release`]).
//! [`backlog`] bounds what goes on after the caller has gone. [`run`] decides, [`whole_call`] ties
//! them together, [`detached`] for bodies that outlive their callers.

mod acquire;
mod admission;
mod ask;
mod awaited;
mod backlog;
mod backoff;
mod batch;
mod begin;
mod body;
mod call;
mod calls;
mod core;
mod detached;
mod keeper;
mod lease;
mod place;
mod release;
mod resend;
mod run;
mod running;
mod settle;
mod short_leases;
mod slots;
mod values;
mod whole_call;

pub(crate) use self::acquire::{Acquired, FirstStep, acquire, acquire_now};
pub(crate) use self::awaited::MOST_FAILED;
pub(crate) use self::batch::run_batch;
pub(crate) use self::call::{Call, InstanceRef, Prepared, Underway, record_key};
pub(crate) use self::core::Core;
pub(crate) use self::detached::{Detached, Moves, Prepare, run_detached};
pub(crate) use self::lease::Lease;
pub(crate) use self::resend::Resend;
pub(crate) use self::run::{gone, keep, over_limit, warn_disabled};
pub(crate) use self::running::Running;
pub(crate) use self::settle::End;
pub(crate) use self::values::{Kind, Values};
pub(crate) use self::whole_call::{Run, run};

#[cfg(all(test, shuttle))]
mod shuttle_tests;
