//! Functions and types for generated code. Not part of the public interface.
//!
//! In the order of an expansion: constants, the key, the call, the function's return type with its
//! hooks, and the run, which may be part of a transaction.

mod answers;
mod call;
mod constants;
mod field;
mod hooks;
mod kept;
mod key;
mod no_part;
mod part;
mod run;
mod transaction;

pub use self::answers::{
    FinalErrors, FromRefusal, FromRefusalParameter, OfAnotherCrate, ReturnsResult, Unsearched,
    plain, plain_with_another, plain_with_parameter, returned, returned_with_another,
    returned_with_parameter,
};
pub use self::call::{Call, Lends, Shown, Worded, instance, worded};
pub use self::constants::{IsDuration, IsText, duration, expire, lease, max_run, text, type_of};
pub use self::field::*;
pub use self::hooks::{
    Applies, IsFinal, Never, NeverApplies, Replayed, Retention, expire_with, final_errors,
    on_replay,
};
pub use self::kept::*;
pub use self::key::{
    ConstantKey, IsOption, NOTHING, ambient_key, constant_key, key, option, optional_key, template,
    tuple,
};
pub use self::no_part::*;
pub use self::part::*;
pub use self::run::{Detach, Run, RunDetached, Witness, detached_body_must_be_send, run};
pub use self::transaction::{Boxed, ClaimIn, InTransaction, RunBody, claim};
pub use crate::answer_policy::AnswerPolicy;
pub use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
pub use crate::instance::Idempotency;
pub use crate::key::{Encoded, KeyPart, Parts};
pub use crate::site::Site;
