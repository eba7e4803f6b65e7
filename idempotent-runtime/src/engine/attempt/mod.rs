//! The granted attempt: from the store's grant to its recorded end.

pub(in crate::engine) mod admission;
mod backlog;
pub(in crate::engine) mod current;
mod end;
pub(in crate::engine) mod faults;
mod guard;
mod handoff;
mod idle_arguments;
mod instance;
mod keeper;
mod nested;
mod pending_begin;
pub(in crate::engine) mod record;
pub(in crate::engine) mod registry;
pub(in crate::engine) mod release;
mod replay_shard;
mod replays;
mod short_leases;
mod state;
pub(in crate::engine) mod striped_counter;
mod values;
mod waiters;

pub use self::current::{Current, current};
pub(crate) use self::end::End;
pub(crate) use self::guard::{AttemptGuard, Choices, Granted, Hold};
pub(crate) use self::handoff::Handoff;
pub(crate) use self::instance::Instance;
pub(crate) use self::nested::{call_refused, enclosing_permit, with_permit};
pub(crate) use self::pending_begin::{BeginFuture, Copies, PendingBegin};
pub(crate) use self::replay_shard::Kept;
pub(crate) use self::replays::{Lookup, Replays, Told};
pub(crate) use self::state::{AttemptState, Terms};
pub(crate) use self::values::{Kind, Values};
pub(crate) use self::waiters::{MaybeWaiters, Waiters};
