//! Callers of one key at once: one of them asks the store, the others wait for what it finds.

mod acquire;
mod alarms;
mod ask;
mod awaited;
mod begin;
mod engine;
pub(in crate::engine) mod flights;
mod grant;
pub(in crate::engine) mod not_granted;
mod participant;
mod prepared;

pub(in crate::engine) use self::acquire::kept;
pub(crate) use self::acquire::{FirstStep, acquire, acquire_now};
pub(in crate::engine) use self::acquire::{count_timeout, take_the_lead, while_disabled};
pub(in crate::engine) use self::ask::look;
pub(in crate::engine) use self::awaited::Awaited;
pub(crate) use self::awaited::MOST_FAILED;
pub(in crate::engine) use self::begin::BeginAnswer;
pub(crate) use self::engine::Engine;
pub(crate) use self::grant::Acquired;
pub(in crate::engine) use self::grant::grant;
pub(crate) use self::not_granted::NotGranted;
pub(in crate::engine) use self::participant::Participant;
pub(crate) use self::prepared::Prepared;
