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
    FinalErrors, FromRefusal, OfAnotherCrate, ReturnsResult, Unsearched, plain, plain_with_another,
    returned, returned_with_another,
};
pub use self::call::{Call, Lends, Shown, Worded, instance, worded};
pub use self::constants::{IsDuration, IsText, duration, text, type_of};
pub use self::field::*;
pub use self::hooks::{
    Applies, IsFinal, Never, NeverApplies, Replayed, Retention, expire_with, final_errors,
    on_replay,
};
pub use self::kept::{
    Borrowed, Failing, Kept, KeptError, KeptInside, KeptParameter, KeptValue, OtherFailure,
    OtherValue, Owned, ReadBack, ReadBackError, ReadFailure, ReadValue, Returned, Written,
    WrittenError, WrittenFailure, WrittenValue, failing,
};
pub use self::key::{IsOption, ambient_key, key, option, optional_key, template, tuple};
pub use self::no_part::*;
pub use self::part::*;
pub use self::run::{Detach, Run, RunDetached, Witness, run, run_detached};
pub use self::transaction::{Boxed, ClaimIn, InTransaction, RunBody, claim};
pub use crate::answer_policy::AnswerPolicy;
pub use crate::config::{Abandon, Mode, OnStoreError, OnUnrecorded};
pub use crate::key::{Encoded, KeyPart, Parts};
pub use crate::site::Site;
